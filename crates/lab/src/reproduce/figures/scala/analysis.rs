//! Figures 14, 15, 16a and 16b: where latency and CPU time go (section 6.3).

use wharf_drive::config::FrameIndex;

use super::motivation::{LATENCY, LATENCY_NOTE};
use super::{by_workload, mean_over};
use crate::input::ClientRule;
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use crate::reproduce::figures::stacks;
use crate::reproduce::layers::Layer;
use crate::reproduce::metric::{CACHE, CLIENT, ENGINE, LOCK, MESSAGES, Metric, Work};
use crate::reproduce::run::{
    CLIENTS, HARDWARE, KERNEL, Run, SCALA, TRI_2M, TRI_4M, TRI_6M, Variant, Workloads,
};
use crate::result::CpuPart::{Clients, Cores, Services};

const VARIANTS: [Variant; 5] = [KERNEL, TRI_2M, TRI_4M, TRI_6M, SCALA];

fn run(variant: Variant, workload: &str) -> Run {
    variant.clients(workload, CLIENTS)
}

/// The two workloads of the section.
fn two(workloads: &Workloads) -> Vec<String> {
    workloads.pick(&["webmail", "mds"])
}

/// A bar for each variant on a workload.
fn bars(workload: &str) -> Vec<(String, Run)> {
    VARIANTS
        .map(|v| (v.label.to_string(), run(v, workload)))
        .to_vec()
}

pub(super) fn fig14(workloads: &Workloads) -> Figure {
    let webmail = workloads.one("webmail");
    let panel = |workload: &String| stacks(workload.clone(), &bars(workload), &LATENCY);
    let mds = workloads.one("mds");
    Figure {
        name: "fig14",
        plot: Plot::Stacks,
        points: "design",
        axis: "mean latency, µs".into(),
        panels: two(workloads).iter().map(panel).collect(),
        claims: vec![
            Claim::new(
                "less-queuing",
                Formula::mean_ratio(
                    Metric::Latency(Layer::DriveQueue),
                    [(run(SCALA, &mds), run(TRI_2M, &mds))],
                ),
            ),
            Claim::new(
                "webmail-penalty",
                Formula::mean_ratio(
                    Metric::MeanLatency,
                    [(run(SCALA, &webmail), run(TRI_2M, &webmail))],
                ),
            ),
        ],
        notes: vec![LATENCY_NOTE],
    }
}

pub(super) fn fig15(workloads: &Workloads) -> Figure {
    let two = two(workloads);
    let layers = [
        ("clients: cache", Metric::Cpu(Clients, CACHE)),
        ("clients: I/O engine", Metric::Cpu(Clients, ENGINE)),
        ("clients: locks", Metric::Cpu(Clients, LOCK)),
        ("clients: messages", Metric::Cpu(Clients, MESSAGES)),
        ("clients: own work", Metric::Cpu(Clients, CLIENT)),
        ("clients: poll or sleep", Metric::Waiting(Clients)),
        ("managers: cache", Metric::Cpu(Services, CACHE)),
        ("managers: I/O engine", Metric::Cpu(Services, ENGINE)),
        ("managers: messages", Metric::Cpu(Services, MESSAGES)),
        ("managers: poll or sleep", Metric::Waiting(Services)),
    ];
    let panel = |workload: &String| stacks(workload.clone(), &bars(workload), &layers);
    let tricache = |metric| {
        let pairs = two.iter().flat_map(|w| {
            [TRI_2M, TRI_4M, TRI_6M].map(|managers| (run(SCALA, w), run(managers, w)))
        });
        Formula::mean_ratio(metric, pairs)
    };
    let run_on = |variant, workload: &str| Some(run(variant, workload));
    let mds = workloads.one("mds");
    Figure {
        name: "fig15",
        plot: Plot::Stacks,
        points: "design",
        axis: "CPU time by request, µs".into(),
        panels: two.iter().map(panel).collect(),
        claims: vec![
            Claim::new(
                "scala-below-kernel",
                mean_over(Metric::HostCpu, &two, run_on, SCALA, KERNEL),
            ),
            Claim::new("scala-below-tricache", tricache(Metric::HostCpu)),
            Claim::new("engine-below-tricache", tricache(Metric::EnginePolled)),
            Claim::new(
                "engine-grows-with-managers",
                Formula::mean_ratio(
                    Metric::EnginePolled,
                    [(run(TRI_6M, &mds), run(TRI_2M, &mds))],
                ),
            ),
        ],
        notes: vec![
            "8 clients; designs in the program poll, so that all time of their CPUs counts; the kernel's \
             waiting threads sleep, so that only work counts",
            "the I/O engine is a polling one: in its claims, waiting of those CPUs that drive the queue pairs is its time",
        ],
    }
}

/// An access to the merged index, with taking and giving a frame and the choice of a victim.
const FUSION: Work = &["fusion_lookup", "frame_update", "clock_step"];
/// The choice of a victim: the replacement policy.
const FUSION_POLICY: Work = &["clock_step"];
/// An access to the kernel's index, with updates and lists.
const TREE: Work = &["tree_lookup", "tree_update", "list_update"];

pub(super) fn fig16a(workloads: &Workloads) -> Figure {
    let two = two(workloads);
    let fusion = |w: &String| Cell::plain(Metric::Cost(Cores, FUSION), run(SCALA, w));
    let tree = |w: &String| Cell::plain(Metric::Cost(Clients, TREE), run(KERNEL, w));
    let frames = |w: &String| Cell::plain(Metric::Cost(Cores, FUSION_PLAIN), run(SCALA, w));
    let over_kernel = two.iter().map(|w| Term {
        over: vec![fusion(w)],
        under: vec![tree(w)],
    });
    let series = |name: &str, cell: &dyn Fn(&String) -> Cell| Series {
        name: name.into(),
        cells: two.iter().map(|w| Some(cell(w))).collect(),
    };
    let panel = Panel {
        title: String::new(),
        points: two.clone(),
        series: vec![
            series("FusionFTL, look-up", &frames),
            series("FusionFTL, with frames and replacement", &fusion),
            series("Kernel, look-up and lists", &tree),
        ],
    };
    let share = two.iter().map(|w| Term {
        over: vec![Cell::plain(
            Metric::CostShare(Cores, FUSION, FUSION_POLICY),
            run(SCALA, w),
        )],
        under: Vec::new(),
    });
    Figure {
        name: "fig16a",
        plot: Plot::Bars,
        points: "workload",
        axis: "cost of an access, ns".into(),
        panels: vec![panel],
        claims: vec![
            Claim::new("fusion-over-kernel", Formula::Mean(over_kernel.collect())),
            Claim::new("replacement-share", Formula::Mean(share.collect())),
        ],
        notes: vec![
            "measured costs of the operations, by the number of look-ups; FusionFTL's on a core of the drive, which is slower than the host's",
            "the share of replacement is of the access, not of its excess over the kernel's",
        ],
    }
}

/// An access to the merged index alone.
const FUSION_PLAIN: Work = &["fusion_lookup"];

/// ScalaCache with requests that go to clients in turn, so that every client has every page in its index.
fn dealt_in_turn(workload: &str) -> Run {
    Run {
        rule: ClientRule::RoundRobin,
        ..run(SCALA, workload)
    }
}

/// ScalaCache on a drive that finds cached pages by a hash table beside its map.
pub(super) fn over_hash_table(workload: &str) -> Run {
    Run {
        frame_index: FrameIndex::Hash,
        ..run(SCALA, workload)
    }
}

/// Commands that a drive takes.
const COMMANDS: Work = &["command_fetch"];

pub(super) fn fig16b(workloads: &Workloads) -> Figure {
    let two = two(workloads);
    let (webmail, mds) = (workloads.one("webmail"), workloads.one("mds"));
    let variants = [HARDWARE, SCALA];
    let mut busy = by_workload(Metric::Busy(Cores), &two, &variants);
    busy.title = "busy share of the drive's cores".into();
    let controllers = crate::result::CpuPart::Controllers;
    let mut rate = by_workload(Metric::Rate(controllers, COMMANDS), &two, &variants);
    rate.title = "commands to the drive, million a second".into();
    let could = Metric::Capacity(controllers, COMMANDS, Cores);
    let mut capacity = by_workload(could, &two, &variants);
    capacity.title = "commands that the cores could serve, million a second".into();
    for (panel, metric) in [
        (&mut busy, Metric::Busy(Cores)),
        (&mut rate, Metric::Rate(controllers, COMMANDS)),
        (&mut capacity, could),
    ] {
        for (name, run) in [
            (
                "ScalaCache, dealt in turn",
                dealt_in_turn as fn(&str) -> Run,
            ),
            ("ScalaCache, hash table in the drive", over_hash_table),
        ] {
            let cell = |w: &String| Some(Cell::plain(metric, run(w)));
            panel.series.push(Series {
                name: name.into(),
                cells: two.iter().map(cell).collect(),
            });
        }
    }
    let over_table = two.iter().map(|w| (run(SCALA, w), over_hash_table(w)));
    let value = |id, metric, w: &str| Claim::new(id, Formula::value(metric, run(SCALA, w)));
    Figure {
        name: "fig16b",
        plot: Plot::Bars,
        points: "workload",
        axis: "work of the drive".into(),
        panels: vec![busy, rate, capacity],
        claims: vec![
            value("busy-mds", Metric::Busy(Cores), &mds),
            value("busy-webmail", Metric::Busy(Cores), &webmail),
            value(
                "pins-webmail",
                Metric::Rate(controllers, COMMANDS),
                &webmail,
            ),
            value("pins-mds", Metric::Rate(controllers, COMMANDS), &mds),
            Claim::new(
                "fusion-over-hash-table",
                Formula::mean_ratio(Metric::Rate(controllers, COMMANDS), over_table),
            ),
        ],
        notes: vec![
            "the cores' time includes reads, writes and collection, not the cache alone",
            "what the cores could serve is the rate by the busy share; the claim is of rates, as the paper gives them",
            "dealt in turn: any client makes any request, where in all else a process of the workload stays with a client",
        ],
    }
}
