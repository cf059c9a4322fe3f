//! Figures 14 and 15: file servers, mail, video and a key-value store (sections 4.2 and 4.3).

use super::{DRIVES, EIGHT, ONE_KERNEL, gains_more, on_both, times};
use crate::reproduce::figure::{Claim, Figure, Formula, Panel, Plot, Term};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{KERNEL, Run, SCALE, Variant, Workloads};

const PUBLISHED: &str = "the programs are those that the authors publish, as docs/traces.md has them: each runs for some time, and \
     its throughput is what all processes together have moved in it";

fn run(workloads: &Workloads, workload: &str, variant: Variant, drives: u32) -> Run {
    variant.threads(&workloads.one(workload), drives)
}

fn panel(workloads: &Workloads, workload: &str) -> Panel {
    over(
        String::new(),
        Metric::Bandwidth,
        &DRIVES,
        &[KERNEL, SCALE],
        |variant, drives| Some(run(workloads, workload, variant, drives)),
    )
}

/// A figure of one workload by drives, with these claims besides.
fn by_drives(
    workloads: &Workloads,
    name: &'static str,
    workload: &str,
    claims: impl FnOnce(&Run, &Run) -> Vec<Claim>,
) -> Figure {
    let on = |variant, drives| run(workloads, workload, variant, drives);
    let gain = |variant| (on(variant, EIGHT), on(variant, 1));
    let (scale, kernel) = (gain(SCALE), gain(KERNEL));
    let mut claims = claims(&scale.0, &kernel.0);
    claims.push(gains_more("kernel-gains-less", scale, kernel));
    Figure {
        name,
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel(workloads, workload)],
        claims,
        notes: vec![PUBLISHED, ONE_KERNEL],
    }
}

pub(super) fn fig14a(workloads: &Workloads) -> Figure {
    by_drives(
        workloads,
        "fig14a",
        "fileserver-scalecache",
        |scale, kernel| vec![times("over-kernel", scale, kernel)],
    )
}

pub(super) fn fig14b(workloads: &Workloads) -> Figure {
    by_drives(
        workloads,
        "fig14b",
        "varmail-scalecache",
        |scale, kernel| vec![times("over-kernel", scale, kernel)],
    )
}

pub(super) fn fig14c(workloads: &Workloads) -> Figure {
    by_drives(
        workloads,
        "fig14c",
        "videoserver-scalecache",
        |scale, kernel| vec![times("over-kernel", scale, kernel)],
    )
}

pub(super) fn fig14d(workloads: &Workloads) -> Figure {
    by_drives(workloads, "fig14d", "ffsb-scalecache", |scale, kernel| {
        let on = |run: &Run, drives| Run {
            drives,
            ..run.clone()
        };
        let mut claims = on_both("over-kernel", Metric::Bandwidth, scale, kernel).to_vec();
        let (one, two) = (on(kernel, 1), on(kernel, 2));
        claims.extend([
            gains_more(
                "kernel-stops-at-two",
                (two.clone(), one),
                (kernel.clone(), two),
            ),
            times("scale-scales", scale, &on(scale, 4)),
        ]);
        claims
    })
}

/// KiB of a record of the key-value store (section 4.3).
const RECORD_KIB: u32 = 8;

pub(super) fn fig15(workloads: &Workloads) -> Figure {
    let run = |variant, workload: &str, drives| Run {
        request_kib: RECORD_KIB,
        ..run(workloads, workload, variant, drives)
    };
    let panel = |workload: &'static str| {
        over(
            workload.into(),
            Metric::Bandwidth,
            &DRIVES,
            &[KERNEL, SCALE],
            |variant, drives| Some(run(variant, workload, drives)),
        )
    };
    let most = |id: &str, workload: &str| {
        let ratio = |drives: &u32| {
            let pair = (
                run(SCALE, workload, *drives),
                run(KERNEL, workload, *drives),
            );
            Term::ratio(Metric::Bandwidth, pair.0, pair.1)
        };
        Claim::new(id, Formula::Most(DRIVES.iter().map(ratio).collect()))
    };
    Figure {
        name: "fig15",
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel("ycsb-a"), panel("ycsb-f")],
        claims: vec![
            most("a-over-kernel", "ycsb-a"),
            most("f-over-kernel", "ycsb-f"),
        ],
        notes: vec![
            "a key-value store with a log, as docs/traces.md has it, in the place of RocksDB; it is flushed after every 32 updates",
            ONE_KERNEL,
        ],
    }
}
