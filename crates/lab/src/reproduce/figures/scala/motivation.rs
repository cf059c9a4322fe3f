//! Figures 4a, 4b, 5a, 5b and 5c: what the kernel's cache and TriCache lose, on mds (section 3.1).

use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use crate::reproduce::figures::stacks;
use crate::reproduce::layers::{Layer, LayerSet};
use crate::reproduce::metric::{CACHE, CLIENT, ENGINE, LOCK, MESSAGES, Metric, Work};
use crate::reproduce::run::{CLIENTS, KERNEL, Run, TRI_2M, Variant, Workloads};
use crate::reproduce::setup::scala::slowness;
use crate::result::CpuPart;
use crate::result::CpuPart::{Clients, Services};

/// Host cores of Figure 4a; the text names 12 alone.
const CORES: [u32; 5] = [4, 6, 8, 10, 12];

/// Drives of Figure 4b; the text names 8 alone.
const DRIVES: [u32; 4] = [1, 2, 4, 8];

/// Host cores of Figure 4b, as in Figure 18b: the text names none, and 8 drives take 16 managers.
const CORES_4B: u32 = 18;

pub(super) fn fig4a(workloads: &Workloads) -> Figure {
    let mds = workloads.one("mds");
    let run = |variant: Variant, cores: u32| variant.cpus(&mds, cores);
    let last = CORES[CORES.len() - 1];
    let over_kernel = CORES
        .iter()
        .filter_map(|cores| Some((run(TRI_2M, *cores)?, run(KERNEL, *cores)?)));
    Figure {
        name: "fig4a",
        plot: Plot::Lines,
        points: "host cores",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![with_ideals(&CORES, run)],
        claims: vec![
            below_ideal("kernel-below-ideal", &CORES, last, |n| run(KERNEL, n)),
            below_ideal("tricache-below-ideal", &CORES, last, |n| run(TRI_2M, n)),
            Claim::new(
                "tricache-over-kernel",
                Formula::mean_ratio(Metric::Bandwidth, over_kernel),
            ),
        ],
        notes: vec![
            "host cores are all CPUs of the host: TriCache's two managers are among them",
            "ideal: the speed on the fewest cores, in proportion to the cores",
        ],
    }
}

/// What more drives do not bring.
pub(super) const ONE_CACHE: &str = "the cache is 18.75 % of one drive, however many there are: the paper does not say of how many drives, and a cache that grew \
     with them would be seen in the hits, not in how a design scales";

pub(super) fn fig4b(workloads: &Workloads) -> Figure {
    let mds = workloads.one("mds");
    let run = |variant: Variant, drives: u32| on_drives(variant, &mds, drives);
    Figure {
        name: "fig4b",
        plot: Plot::Lines,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![with_ideals(&DRIVES, run)],
        claims: vec![
            below_ideal("kernel-below-ideal", &DRIVES, 8, |n| run(KERNEL, n)),
            below_ideal("tricache-below-ideal", &DRIVES, 8, |n| run(TRI_2M, n)),
        ],
        notes: vec![
            "18 host cores; TriCache has two managers for each drive among them",
            ONE_CACHE,
            "ideal: the speed on one drive, in proportion to the drives",
        ],
    }
}

/// A run on so many drives, with two managers for each where the design has managers.
fn on_drives(variant: Variant, workload: &str, drives: u32) -> Option<Run> {
    let managers = variant.managers * drives;
    let variant = Variant {
        managers,
        ..variant
    };
    let run = variant.cpus(workload, CORES_4B)?;
    Some(Run { drives, ..run })
}

/// Kernel and TriCache over `points`, each with the line that perfect scaling would give.
fn with_ideals(points: &[u32], run: impl Fn(Variant, u32) -> Option<Run>) -> Panel {
    let mut series = Vec::new();
    for variant in [KERNEL, TRI_2M] {
        let plain = |n: &u32| Some(Cell::plain(Metric::Bandwidth, run(variant, *n)?));
        let ideal = |n: &u32| {
            let first = run(variant, points[0])?;
            let times = f64::from(*n) / f64::from(points[0]);
            Some(Cell::plain(Metric::Bandwidth, first).times(times))
        };
        series.push(Series {
            name: variant.label.into(),
            cells: points.iter().map(plain).collect(),
        });
        series.push(Series {
            name: format!("{} ideal", variant.label),
            cells: points.iter().map(ideal).collect(),
        });
    }
    Panel {
        title: String::new(),
        points: points.iter().map(u32::to_string).collect(),
        series,
    }
}

/// The speed at `last` by what perfect scaling from the first point would give.
fn below_ideal(id: &str, points: &[u32], last: u32, run: impl Fn(u32) -> Option<Run>) -> Claim {
    let cells = run(last).zip(run(points[0])).map(|(end, start)| {
        let share = f64::from(points[0]) / f64::from(last);
        Cell::plain(Metric::Bandwidth, end).to(start).times(share)
    });
    Claim::new(id, Formula::Mean(cells.map(Term::of).into_iter().collect()))
}

/// The two designs on eight clients.
fn bars(workloads: &Workloads) -> Vec<(String, Run)> {
    let mds = workloads.one("mds");
    [KERNEL, TRI_2M]
        .map(|variant| (variant.label.to_string(), variant.clients(&mds, CLIENTS)))
        .to_vec()
}

pub(super) fn fig5a(workloads: &Workloads) -> Figure {
    let bars = bars(workloads);
    let (kernel, tri) = (bars[0].1.clone(), bars[1].1.clone());
    let clients = [
        ("Cache", Metric::Cpu(Clients, CACHE)),
        ("I/O engine", Metric::Cpu(Clients, ENGINE)),
        ("Lock", Metric::Cpu(Clients, LOCK)),
        ("Msg pass", Metric::Cpu(Clients, MESSAGES)),
        ("Client", Metric::Cpu(Clients, CLIENT)),
        ("Poll or sleep", Metric::Waiting(Clients)),
    ];
    let managers = [
        ("Cache", Metric::Cpu(Services, CACHE)),
        ("I/O engine", Metric::Cpu(Services, ENGINE)),
        ("Lock", Metric::Cpu(Services, LOCK)),
        ("Msg pass", Metric::Cpu(Services, MESSAGES)),
        ("Poll or sleep", Metric::Waiting(Services)),
    ];
    Figure {
        name: "fig5a",
        plot: Plot::Stacks,
        points: "design",
        axis: "CPU time by request, µs".into(),
        panels: vec![
            stacks("CPUs of clients".into(), &bars, &clients),
            stacks("CPUs of managers and flusher".into(), &bars, &managers),
        ],
        claims: vec![
            Claim::new(
                "kernel-engine",
                Formula::value(Metric::BusyShare(Clients, ENGINE), kernel.clone()),
            ),
            Claim::new(
                "kernel-lock",
                Formula::value(Metric::BusyShare(Clients, LOCK), kernel),
            ),
            Claim::new(
                "manager-messages",
                Formula::value(Metric::TimeShare(Services, MESSAGES), tri.clone()),
            ),
            Claim::new(
                "manager-cache",
                Formula::value(Metric::TimeShare(Services, CACHE), tri.clone()),
            ),
            Claim::new(
                "client-poll",
                Formula::value(Metric::WaitingShare(Clients), tri.clone()),
            ),
            Claim::new("fragmentation", Formula::value(Metric::Commands, tri)),
        ],
        notes: vec![
            "8 clients; TriCache has 2 managers besides them",
            "the kernel's shares are of the time its CPUs worked, TriCache's of all their time: its CPUs poll",
        ],
    }
}

pub(super) fn fig5b(workloads: &Workloads) -> Figure {
    let bars = bars(workloads);
    let (kernel, tri) = (&bars[0].1, &bars[1].1);
    let share = |id, layers, run: &Run| {
        Claim::new(
            id,
            Formula::value(Metric::LatencyShare(layers), run.clone()),
        )
    };
    Figure {
        name: "fig5b",
        plot: Plot::Stacks,
        points: "design",
        axis: "mean latency, µs".into(),
        panels: vec![stacks(workloads.one("mds"), &bars, &LATENCY)],
        claims: vec![
            share("kernel-engine", KERNEL_ENGINE, kernel),
            share("kernel-cache", KERNEL_CACHE, kernel),
            share("client-manager-queuing", &[Layer::ManagerQueue], tri),
            share("manager-drive-queuing", &[Layer::DriveQueue], tri),
            share("queuing", &[Layer::ManagerQueue, Layer::DriveQueue], tri),
        ],
        notes: vec![
            LATENCY_NOTE,
            "the kernel's I/O engine is its driver, block layer and the commands that requests wait for; its cache is all else but the client's own work",
        ],
    }
}

/// Work on the kernel's cache with its locks: what would move into a drive.
const KERNEL_MANAGER: Work = &["index", "replacement", "copy", "contention"];

/// What its cores would have to do: CPUs of the host, in processors of a drive of four cores.
fn in_drives(part: CpuPart, work: Work, run: &Run) -> Cell {
    let factor = slowness() / f64::from(run.cores);
    Cell::plain(Metric::Cpus(part, work), run.clone()).times(factor)
}

pub(super) fn fig5c(workloads: &Workloads) -> Figure {
    let bars = bars(workloads);
    let (kernel, tri) = (&bars[0].1, &bars[1].1);
    let demands = [
        ("kernel", in_drives(Clients, KERNEL_MANAGER, kernel)),
        ("tricache", in_drives(Services, CACHE, tri)),
    ];
    let claim = |(id, cell): &(&str, Cell)| {
        let terms = vec![Term::of(cell.clone())];
        Claim::new(*id, Formula::Mean(terms))
    };
    let panel = Panel {
        title: String::new(),
        points: bars.iter().map(|(name, _)| name.clone()).collect(),
        series: vec![Series {
            name: "demand".into(),
            cells: demands.iter().map(|(_, cell)| Some(cell.clone())).collect(),
        }],
    };
    Figure {
        name: "fig5c",
        plot: Plot::Bars,
        points: "design",
        axis: "times what a drive's cores can do".into(),
        panels: vec![panel],
        claims: demands.iter().map(claim).collect(),
        notes: vec![
            "work of the host's CPUs on the cache, times the slowness of a drive's core, by the drive's 4 cores; the kernel's is that of 8 \
             clients with their locks, TriCache's that of its managers: its clients' own caches would stay on the host",
        ],
    }
}

/// The kernel's I/O engine: its own work, and the drive.
const KERNEL_ENGINE: LayerSet = &[Layer::Own(ENGINE), Layer::DriveQueue, Layer::Drive];

/// The kernel's page cache: its own work, locks, and waiting for other requests and write-back.
const KERNEL_CACHE: LayerSet = &[Layer::Own(CACHE), Layer::Own(LOCK), Layer::Other];

/// The layers of latency.
pub(super) const LATENCY: [(&str, Metric); 9] = [
    ("own CPU: cache", Metric::Latency(Layer::Own(CACHE))),
    ("own CPU: I/O engine", Metric::Latency(Layer::Own(ENGINE))),
    ("own CPU: locks", Metric::Latency(Layer::Own(LOCK))),
    ("own CPU: messages", Metric::Latency(Layer::Own(MESSAGES))),
    ("own CPU: client", Metric::Latency(Layer::Own(CLIENT))),
    ("queue for managers", Metric::Latency(Layer::ManagerQueue)),
    ("queue for the drive", Metric::Latency(Layer::DriveQueue)),
    ("drive and flash", Metric::Latency(Layer::Drive)),
    ("other waiting", Metric::Latency(Layer::Other)),
];

/// What the layers are.
pub(super) const LATENCY_NOTE: &str = "own CPU: what the client's CPU works for one request; queue for managers: until a manager takes a request up, and until \
     its answer is taken; queue for the drive: until a firmware core takes a command up, with what a manager does before; waiting is divided in \
     proportion to the measured sums over a request's pages and commands, which wait side by side";
