//! Figures 12 and 13 and Table 1: latency, its tail, host CPUs, and reads (section 4.1).

use super::{DRIVES, EIGHT, ONE_KERNEL, amount, from_drives, kernel_on_eight, on_both, times};
use crate::report::format;
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DIRECT, KERNEL, Run, SCALE, Variant, Workloads};
use crate::reproduce::setup::scale::TAIL_STRETCH;

const WORKLOAD: &str = "random writes";

fn panel(workloads: &Workloads, metric: Metric, drives: &[u32], variants: &[Variant]) -> Panel {
    let workload = workloads.one(WORKLOAD);
    let run = |variant: Variant, drives| Some(variant.threads(&workload, drives));
    over(String::new(), metric, drives, variants, run)
}

pub(super) fn fig12a(workloads: &Workloads) -> Figure {
    let metric = Metric::MeanLatency;
    let scale = SCALE.threads(&workloads.one(WORKLOAD), EIGHT);
    let kernel = kernel_on_eight(workloads, WORKLOAD);
    Figure {
        name: "fig12a",
        plot: Plot::Bars,
        points: "drives",
        axis: metric.axis().into(),
        panels: vec![panel(workloads, metric, &DRIVES, &[KERNEL, SCALE])],
        claims: vec![
            Claim::new(
                "below-kernel",
                Formula::mean_ratio(metric, [(scale.clone(), kernel)]),
            ),
            amount("scale-latency", metric, &scale),
        ],
        notes: vec![ONE_KERNEL],
    }
}

/// The rows of Table 1: the paper has one for each file system.
const ROWS: [(&str, Variant); 4] = [
    ("EXT4", KERNEL),
    ("XFS", KERNEL),
    ("ScaleCache-EXT4", SCALE),
    ("ScaleCache-XFS", SCALE),
];

pub(super) fn table1(workloads: &Workloads) -> Figure {
    let metric = Metric::P999;
    let workload = workloads.one(WORKLOAD);
    let on = |variant: Variant, drives| Run {
        stretch: TAIL_STRETCH,
        ..variant.threads(&workload, drives)
    };
    let panel = |drives: u32| Panel {
        title: format::counted(drives.into(), "drive"),
        points: ROWS.map(|(name, _)| name.into()).to_vec(),
        series: vec![Series {
            name: "here".into(),
            cells: ROWS
                .map(|(_, variant)| Some(Cell::plain(metric, on(variant, drives))))
                .to_vec(),
        }],
    };
    let (scale, kernel) = (on(SCALE, EIGHT), on(KERNEL, EIGHT));
    let mut claims = on_both("below-kernel", metric, &scale, &kernel).to_vec();
    let by_drives = DRIVES.map(|drives| Term::ratio(metric, on(SCALE, drives), on(KERNEL, drives)));
    claims.push(Claim::new(
        "below-kernel-xfs-most",
        Formula::Least(by_drives.to_vec()),
    ));
    for (name, variant) in ROWS {
        for drives in DRIVES {
            let id = format!("{name}.{drives}");
            claims.push(amount(&id, metric, &on(variant, drives)));
        }
    }
    Figure {
        name: "table1",
        plot: Plot::Bars,
        points: "page cache",
        axis: metric.axis().into(),
        panels: DRIVES.map(panel).to_vec(),
        claims,
        notes: vec![
            "files, cache and drives are an eighth of the paper's where the scale has less than that: pauses of throttled writers, and \
             the pages that a flushing writer finds in a file, follow their size; each thread writes half of its file",
            ONE_KERNEL,
        ],
    }
}

pub(super) fn fig12b(workloads: &Workloads) -> Figure {
    let metric = Metric::HostBusy;
    let workload = workloads.one(WORKLOAD);
    let run = |variant: Variant| variant.threads(&workload, EIGHT);
    let more = |id, a, b| Claim::new(id, Formula::mean_ratio(metric, [(run(a), run(b))]));
    let kernel = Cell::plain(metric, run(KERNEL));
    let share = |id| Claim::new(id, Formula::value(kernel.metric, kernel.run.clone()));
    Figure {
        name: "fig12b",
        plot: Plot::Bars,
        points: "drives",
        axis: metric.axis().into(),
        panels: vec![panel(workloads, metric, &[EIGHT], &[KERNEL, SCALE, DIRECT])],
        claims: vec![
            share("kernel-ext4"),
            share("kernel-xfs"),
            more("scale-over-kernel", SCALE, KERNEL),
            more("direct-over-kernel", DIRECT, KERNEL),
        ],
        notes: vec![
            "a CPU that waits for a drive counts as idle in all designs, as the paper's threads sleep then",
            ONE_KERNEL,
        ],
    }
}

pub(super) fn fig13(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random reads");
    let run = |variant: Variant, drives| variant.threads(&workload, drives);
    let metric = Metric::Bandwidth;
    let mut claims = on_both(
        "over-kernel",
        metric,
        &run(SCALE, EIGHT),
        &run(KERNEL, EIGHT),
    )
    .to_vec();
    let kernel = from_drives(workloads, "random reads", KERNEL);
    claims.push(times("kernel-scales", &kernel.0, &kernel.1));
    let panel = over(String::new(), metric, &DRIVES, &[KERNEL, SCALE], |v, n| {
        Some(run(v, n))
    });
    Figure {
        name: "fig13",
        plot: Plot::Bars,
        points: "drives",
        axis: metric.axis().into(),
        panels: vec![panel],
        claims,
        notes: vec![
            "the text does not say in which order pages are read: at random, each once",
            ONE_KERNEL,
        ],
    }
}
