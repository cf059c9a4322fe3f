//! Figures 17, 18a and 18b: more host cores, more drives (section 6.4).

use super::motivation::ONE_CACHE;
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Term};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{HARDWARE, KERNEL, Run, SCALA, TRI_2M, TRI_4M, Variant, Workloads};

/// Six workloads; the text names webmail, proj_1 and src2, the other three are our choice.
const SIX: [&str; 6] = ["webmail", "webusers", "prn_0", "src2", "proj_1", "mds"];

/// Host cores of Figure 17; the text names none.
const CORES: [u32; 4] = [4, 8, 12, 16];

pub(super) fn fig17(workloads: &Workloads) -> Figure {
    let six = workloads.pick(&SIX);
    let variants = [KERNEL, HARDWARE, TRI_2M, TRI_4M, SCALA];
    let (proj_1, src2) = (workloads.one("proj_1"), workloads.one("src2"));
    let panel = |workload: &String| {
        let run = |variant: Variant, cores| variant.cpus(workload, cores);
        over(workload.clone(), Metric::Bandwidth, &CORES, &variants, run)
    };
    let gain = |variant: Variant, workload: &str| {
        let last = CORES[CORES.len() - 1];
        let (start, end) = (
            variant.cpus(workload, CORES[0]),
            variant.cpus(workload, last),
        );
        end.zip(start)
            .map(|(end, start)| Cell::plain(Metric::Bandwidth, end).to(start))
    };
    let scales = six.iter().filter_map(|w| gain(SCALA, w)).map(Term::of);
    let against_kernel = gain(HARDWARE, &proj_1).zip(gain(KERNEL, &proj_1));
    let against_kernel = against_kernel.map(|(hardware, kernel)| Term {
        over: vec![hardware],
        under: vec![kernel],
    });
    Figure {
        name: "fig17",
        plot: Plot::Lines,
        points: "host cores",
        axis: Metric::Bandwidth.axis().into(),
        panels: six.iter().map(panel).collect(),
        claims: vec![
            peak("src2-over-2m", &src2, TRI_2M),
            peak("src2-over-4m", &src2, TRI_4M),
            Claim::new(
                "hardware-scales-proj1",
                Formula::Mean(against_kernel.into_iter().collect()),
            ),
            Claim::new("scala-scales", Formula::Least(scales.collect())),
        ],
        notes: vec![
            "host cores are all CPUs of the host: managers are among them",
            "the number of clients changes with the cores, and with it who has how much of the cache",
        ],
    }
}

/// ScalaCache by another design at the most cores, where both are at their peak unless they stop
/// scaling before.
fn peak(id: &str, workload: &str, other: Variant) -> Claim {
    let last = CORES[CORES.len() - 1];
    let runs = SCALA.cpus(workload, last).zip(other.cpus(workload, last));
    Claim::new(id, Formula::mean_ratio(Metric::Bandwidth, runs))
}

/// Firmware cores of each drive in Figure 18.
const CORES_18: u32 = 2;

/// A run on so many drives of two cores; TriCache takes two managers for each drive out of the CPUs.
fn on_drives(variant: Variant, workload: &str, cpus: u32, drives: u32) -> Option<Run> {
    let managers = variant.managers * drives;
    let variant = Variant {
        managers,
        ..variant
    };
    let run = variant.cpus(workload, cpus)?;
    Some(Run {
        drives,
        cores: CORES_18,
        ..run
    })
}

const NOTES_18: [&str; 3] = [
    ONE_CACHE,
    "two managers for each drive, out of the host's CPUs, in TriCache; two firmware cores for each drive in all designs",
    "the paper names no workload: mds, as in Figure 4",
];

fn drives_panel(mds: &str, cpus: u32, drives: &[u32]) -> Panel {
    let variants = [TRI_2M, HARDWARE, SCALA];
    over(
        String::new(),
        Metric::Bandwidth,
        drives,
        &variants,
        |variant, n| on_drives(variant, mds, cpus, n),
    )
}

pub(super) fn fig18a(workloads: &Workloads) -> Figure {
    const CPUS: u32 = 14;
    // Seven drives would leave TriCache no client.
    const DRIVES: [u32; 4] = [1, 2, 4, 6];
    let mds = workloads.one("mds");
    let by = |variant, from, to| {
        let (from, to) = (
            on_drives(variant, &mds, CPUS, from),
            on_drives(variant, &mds, CPUS, to),
        );
        Formula::mean_ratio(Metric::Bandwidth, to.zip(from))
    };
    Figure {
        name: "fig18a",
        plot: Plot::Lines,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![drives_panel(&mds, CPUS, &DRIVES)],
        claims: vec![
            Claim::new("scala-scales", by(SCALA, 1, 6)),
            Claim::new("tricache-falls", by(TRI_2M, 6, 1)),
        ],
        notes: NOTES_18.to_vec(),
    }
}

pub(super) fn fig18b(workloads: &Workloads) -> Figure {
    const CPUS: u32 = 18;
    const DRIVES: [u32; 4] = [1, 2, 4, 8];
    let mds = workloads.one("mds");
    let run = |variant, drives| on_drives(variant, &mds, CPUS, drives);
    let on_eight = |id, variant| {
        let runs = run(variant, 8).zip(run(TRI_2M, 8));
        Claim::new(id, Formula::mean_ratio(Metric::Bandwidth, runs))
    };
    let falls = run(TRI_2M, 1).zip(run(TRI_2M, 8));
    Figure {
        name: "fig18b",
        plot: Plot::Lines,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![drives_panel(&mds, CPUS, &DRIVES)],
        claims: vec![
            on_eight("scala-over-tricache", SCALA),
            on_eight("hardware-over-tricache", HARDWARE),
            Claim::new(
                "tricache-falls",
                Formula::mean_ratio(Metric::Bandwidth, falls),
            ),
        ],
        notes: NOTES_18.to_vec(),
    }
}
