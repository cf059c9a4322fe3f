//! Figures 1 and 11: throughput of buffered and direct I/O, by drives, request and stripe size (sections 1
//! and 4.1).

use super::{DRIVES, EIGHT, ONE_KERNEL, amount, from_drives, gains_more, on_both, times};
use crate::reproduce::figure::{Claim, Figure, Formula, Panel, Plot, Term};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DIRECT, KERNEL, Run, SCALE, SCALE_IN_PROGRAM, Variant, Workloads};

/// KiB of the requests of Figure 11c; the text names 4, 8 and 128.
const REQUESTS_KIB: [u32; 6] = [4, 8, 16, 32, 64, 128];

/// KiB of the stripes of Figure 11d; the text names 512.
const STRIPES_KIB: [u32; 5] = [64, 128, 256, 512, 1024];

/// The default of MD-RAID.
const STRIPE_KIB: u32 = 512;

const IN_PROGRAM: &str = "'in the program' is not in the paper: the same cache in the program's process, without system calls, block layer, \
     interrupts and context switches";

/// Throughput of a workload by drives.
fn by_drives(workloads: &Workloads, workload: &str, variants: &[Variant]) -> Panel {
    let workload = workloads.one(workload);
    let run = |variant: Variant, drives| Some(variant.threads(&workload, drives));
    over(String::new(), Metric::Bandwidth, &DRIVES, variants, run)
}

pub(super) fn fig1(workloads: &Workloads) -> Figure {
    let gain = |variant| from_drives(workloads, "random writes", variant);
    let (direct, kernel) = (gain(DIRECT), gain(KERNEL));
    Figure {
        name: "fig1",
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![by_drives(workloads, "random writes", &[KERNEL, DIRECT])],
        claims: vec![
            times("direct-scales", &direct.0, &direct.1),
            gains_more("buffered-gains-less", direct.clone(), kernel.clone()),
            times("direct-over-buffered", &direct.0, &kernel.0),
        ],
        notes: vec![
            "the workload is not said ('write-intensive'): random writes of 4 KiB, as in Figure 11a",
            "of the paper's file systems and the raw device there are here the kernel's page cache, and I/O without a cache",
        ],
    }
}

pub(super) fn fig11a(workloads: &Workloads) -> Figure {
    let gain = |variant| from_drives(workloads, "random writes", variant);
    let (scale, kernel, direct) = (gain(SCALE), gain(KERNEL), gain(DIRECT));
    let mut claims = on_both("over-kernel", Metric::Bandwidth, &scale.0, &kernel.0).to_vec();
    claims.extend([
        times("scale-scales", &scale.0, &scale.1),
        gains_more("kernel-gains-less", scale.clone(), kernel),
        amount("scale-throughput", Metric::Bandwidth, &scale.0),
        amount("direct-throughput", Metric::Bandwidth, &direct.0),
    ]);
    let variants = [KERNEL, SCALE, DIRECT, SCALE_IN_PROGRAM];
    Figure {
        name: "fig11a",
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![by_drives(workloads, "random writes", &variants)],
        claims,
        notes: vec![ONE_KERNEL, IN_PROGRAM],
    }
}

pub(super) fn fig11b(workloads: &Workloads) -> Figure {
    let gain = |variant| from_drives(workloads, "sequential writes", variant);
    let (scale, kernel, direct) = (gain(SCALE), gain(KERNEL), gain(DIRECT));
    let variants = [KERNEL, SCALE, DIRECT];
    Figure {
        name: "fig11b",
        plot: Plot::Bars,
        points: "drives",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![by_drives(workloads, "sequential writes", &variants)],
        claims: vec![
            times("scale-scales", &scale.0, &scale.1),
            gains_more("kernel-gains-less", scale.clone(), kernel),
            amount("scale-throughput", Metric::Bandwidth, &scale.0),
            amount("direct-throughput", Metric::Bandwidth, &direct.0),
            times("over-direct", &scale.0, &direct.0),
        ],
        notes: vec![ONE_KERNEL],
    }
}

pub(super) fn fig11c(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random writes");
    let run = |variant: Variant, request_kib| Run {
        request_kib,
        ..variant.threads(&workload, EIGHT)
    };
    let large = REQUESTS_KIB[REQUESTS_KIB.len() - 1];
    let (scale, kernel) = (run(SCALE, large), run(KERNEL, large));
    let mut claims = on_both("over-kernel", Metric::Bandwidth, &scale, &kernel).to_vec();
    claims.extend([
        times("scale-grows", &scale, &run(SCALE, 4)),
        times("kernel-grows", &kernel, &run(KERNEL, 4)),
        times(
            "scale-saturates",
            &scale,
            &run(SCALE, REQUESTS_KIB[REQUESTS_KIB.len() - 2]),
        ),
        amount("direct-at-8k", Metric::Bandwidth, &run(DIRECT, 8)),
    ]);
    let variants = [KERNEL, SCALE, DIRECT];
    let panel = over(
        String::new(),
        Metric::Bandwidth,
        &REQUESTS_KIB,
        &variants,
        |variant, kib| Some(run(variant, kib)),
    );
    Figure {
        name: "fig11c",
        plot: Plot::Lines,
        points: "KiB of a request",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel],
        claims,
        notes: vec![
            "each thread writes its file once, whatever the request size; 8 drives",
            ONE_KERNEL,
        ],
    }
}

pub(super) fn fig11d(workloads: &Workloads) -> Figure {
    let workload = workloads.one("random writes");
    let run = |variant: Variant, stripe_kib| Run {
        stripe_kib,
        ..variant.threads(&workload, EIGHT)
    };
    let usual = |variant| run(variant, STRIPE_KIB);
    let others = STRIPES_KIB.iter().filter(|kib| **kib != STRIPE_KIB);
    let term = |kib: &u32| Term::ratio(Metric::Bandwidth, usual(SCALE), run(SCALE, *kib));
    let against_others = Formula::Least(others.map(term).collect());
    let mut claims = on_both(
        "over-kernel",
        Metric::Bandwidth,
        &usual(SCALE),
        &usual(KERNEL),
    )
    .to_vec();
    claims.push(Claim::new("usual-is-best", against_others));
    let panel = over(
        String::new(),
        Metric::Bandwidth,
        &STRIPES_KIB,
        &[KERNEL, SCALE],
        |variant, kib| Some(run(variant, kib)),
    );
    Figure {
        name: "fig11d",
        plot: Plot::Lines,
        points: "KiB of a stripe",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel],
        claims,
        notes: vec![
            "the text names 512 KiB alone; the other stripes are our choice; 8 drives",
            ONE_KERNEL,
        ],
    }
}
