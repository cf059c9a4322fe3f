//! Figure 17: more CPUs; Table 2: where time goes (sections 4.5 and 4.7).

use super::{EIGHT, gains_more, times};
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DFLUSH, KERNEL, Run, SCALE, Variant, Workloads};

/// Host CPUs of Figure 17; the text names 4.
const CPUS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(super) fn fig17a(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random writes");
    let run = |variant: Variant, clients| Run {
        clients,
        ..variant.threads(&workload, EIGHT)
    };
    let gain = |variant| (run(variant, 64), run(variant, 4));
    let scale = gain(SCALE);
    Figure {
        name: "fig17a",
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

pub(super) fn table2(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random writes");
    let variants = [KERNEL, DFLUSH, SCALE];
    let [kernel, dflush, scale] = variants.map(|variant| variant.threads(&workload, EIGHT));
    let panel = |metric: Metric| Panel {
        title: metric.axis().into(),
        points: variants.map(|variant| variant.label.into()).to_vec(),
        series: vec![Series {
            name: "here".into(),
            cells: [&kernel, &dflush, &scale]
                .map(|run| Some(Cell::plain(metric, run.clone())))
                .to_vec(),
        }],
    };
    let metrics = [Metric::Bandwidth, Metric::MeanLatency];
    let below = |id, a: &Run, b: &Run| {
        let pair = [(b.clone(), a.clone())];
        Claim::new(id, Formula::mean_ratio(Metric::MeanLatency, pair))
    };
    Figure {
        name: "table2",
        plot: Plot::Bars,
        points: "page cache",
        axis: "throughput and latency".into(),
        panels: metrics.map(panel).to_vec(),
        claims: vec![
            times("dflush-throughput", &dflush, &kernel),
            below("dflush-latency", &dflush, &kernel),
            times("index-throughput", &scale, &dflush),
            below("index-latency", &scale, &dflush),
        ],
        notes: vec![],
    }
}
