//! Figures 17 and 18: more CPUs, and Falcon; Table 2: where time goes (sections 4.5 to 4.7).

use super::{DRIVES, EIGHT, amount, gains_more, times};
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DFLUSH, FALCON, KERNEL, Run, SCALE, Variant, Workloads};

/// Host CPUs of Figure 17; the text names 4.
const CPUS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(super) fn fig17a(workloads: &Workloads) -> Figure {
    by_cpus(workloads, "fig17a", "random writes")
}

pub(super) fn fig17b(workloads: &Workloads) -> Figure {
    by_cpus(workloads, "fig17b", "fileserver-scalecache")
}

fn by_cpus(workloads: &Workloads, name: &'static str, workload: &str) -> Figure {
    let workload = workloads.one(workload);
    let run = |variant: Variant, clients| Run {
        clients,
        ..variant.threads(&workload, EIGHT)
    };
    let gain = |variant| (run(variant, 64), run(variant, 4));
    let scale = gain(SCALE);
    Figure {
        name,
        plot: Plot::Lines,
        points: "host CPUs",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![over(
            String::new(),
            Metric::Bandwidth,
            &CPUS,
            &[KERNEL, SCALE],
            |variant, clients| Some(run(variant, clients)),
        )],
        claims: vec![
            times("scale-scales", &scale.0, &scale.1),
            gains_more("kernel-gains-less", scale.clone(), gain(KERNEL)),
        ],
        notes: vec![
            "64 threads and files whatever the number of CPUs, which share them evenly; services have CPUs of their own besides",
        ],
    }
}

pub(super) fn fig18(workloads: &Workloads) -> Figure {
    let on = |workload: &str, variant: Variant, drives| {
        variant.threads(&workloads.one(workload), drives)
    };
    let run = |variant, drives| on("random writes", variant, drives);
    let gain = |variant| (run(variant, EIGHT), run(variant, 1));
    let (scale, falcon) = (gain(SCALE), gain(FALCON));
    let panel = |workload: &'static str| {
        over(
            workload.into(),
            Metric::Bandwidth,
            &DRIVES,
            &[KERNEL, FALCON, SCALE],
            |variant, drives| Some(on(workload, variant, drives)),
        )
    };
    Figure {
        name: "fig18",
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel("random writes"), panel("fileserver-scalecache")],
        claims: vec![
            times("over-falcon", &scale.0, &falcon.0),
            times(
                "over-falcon-fileserver",
                &on("fileserver-scalecache", SCALE, EIGHT),
                &on("fileserver-scalecache", FALCON, EIGHT),
            ),
            gains_more("falcon-gains-less", scale.clone(), falcon),
            times(
                "falcon-drops",
                &on("fileserver-scalecache", FALCON, 4),
                &on("fileserver-scalecache", FALCON, EIGHT),
            ),
        ],
        notes: vec!["Falcon has a CPU for each drive besides those of the threads and the flusher"],
    }
}

/// The cells of a row of Table 2, by the columns of its data.
fn row_of_table2(variant: Variant, run: &Run) -> [Claim; 7] {
    let id = |column: &str| format!("{}.{column}", variant.label);
    let cell = |column, metric| amount(&id(column), metric, run);
    let untested = |column, why| Claim::new(id(column), Formula::Untested(why));
    [
        cell("throughput_mb_s", Metric::Bandwidth),
        cell("mean_latency_us", Metric::MeanLatency),
        cell("asleep", Metric::Throttled),
        cell("index_lock", Metric::IndexWait),
        cell("writing_back", Metric::WritingBack),
        cell("others", Metric::OtherTime),
        untested(
            "inode_lock",
            "there is no file system here, and so no lock of an inode",
        ),
    ]
}

pub(super) fn table2(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random writes");
    let variants = [KERNEL, DFLUSH, SCALE];
    let [kernel, dflush, scale] = variants.map(|variant| variant.threads(&workload, EIGHT));
    let panel = |title: &str, metric: Metric| Panel {
        title: title.into(),
        points: variants.map(|variant| variant.label.into()).to_vec(),
        series: vec![Series {
            name: "here".into(),
            cells: [&kernel, &dflush, &scale]
                .map(|run| Some(Cell::plain(metric, run.clone())))
                .to_vec(),
        }],
    };
    let metrics = [
        Metric::Bandwidth,
        Metric::MeanLatency,
        Metric::Throttled,
        Metric::IndexWait,
        Metric::WritingBack,
        Metric::OtherTime,
    ];
    let titles = [
        "bandwidth, MB/s",
        "mean latency, µs",
        "asleep for throttling, share of time",
        "waiting for the lock of an index, share of time",
        "writing back, share of the writers' time",
        "other, share of time",
    ];
    let cells = [(KERNEL, &kernel), (DFLUSH, &dflush), (SCALE, &scale)]
        .into_iter()
        .flat_map(|(variant, run)| row_of_table2(variant, run));
    let below = |id, a: &Run, b: &Run| {
        let pair = [(b.clone(), a.clone())];
        Claim::new(id, Formula::mean_ratio(Metric::MeanLatency, pair))
    };
    Figure {
        name: "table2",
        plot: Plot::Bars,
        points: "page cache",
        axis: "throughput, latency, and where time goes".into(),
        panels: titles
            .into_iter()
            .zip(metrics)
            .map(|(title, metric)| panel(title, metric))
            .collect(),
        claims: [
            times("dflush-throughput", &dflush, &kernel),
            below("dflush-latency", &dflush, &kernel),
            times("index-throughput", &scale, &dflush),
            below("index-latency", &scale, &dflush),
            amount("array-driver", Metric::ArrayDriver, &scale),
        ]
        .into_iter()
        .chain(cells)
        .collect(),
        notes: vec![
            "shares are of the writers' time; to write back is the work of the flusher as well, whose time is counted as if it were a writer's",
        ],
    }
}
