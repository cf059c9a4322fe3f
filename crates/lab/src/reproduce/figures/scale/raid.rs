//! Figures 16a and 16b: file servers over arrays with redundancy (section 4.4).

use super::{EIGHT, ONE_KERNEL, on_both, times};
use crate::config::ArrayLayout;
use crate::reproduce::figure::{Claim, Figure, Plot};
use crate::reproduce::figures::over;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{KERNEL, Run, SCALE, Variant, Workloads};

/// Numbers of drives; the text names 4 and 8 for RAID-10, and 8 for RAID-5.
const DRIVES: [u32; 2] = [4, 8];

const WHOSE_CPU: &str = "who writes to RAID-5 reads what parity needs, adds it up and sends the writes on its own CPU; md has threads for that";

const NO_STRIPE_CACHE: &str =
    "what was read for parity is forgotten afterwards: there is nothing like md's cache of stripes";

fn run(workloads: &Workloads, variant: Variant, layout: ArrayLayout, drives: u32) -> Run {
    Run {
        layout,
        ..variant.threads(&workloads.one("fileserver-scalecache"), drives)
    }
}

/// A figure of one layout, with these claims besides.
fn by_drives(
    workloads: &Workloads,
    name: &'static str,
    layout: ArrayLayout,
    more: Vec<Claim>,
    notes: Vec<&'static str>,
) -> Figure {
    let on = |variant, drives| run(workloads, variant, layout, drives);
    let metric = Metric::Bandwidth;
    let panel = over(String::new(), metric, &DRIVES, &[KERNEL, SCALE], |v, n| {
        Some(on(v, n))
    });
    let (scale, kernel) = (on(SCALE, EIGHT), on(KERNEL, EIGHT));
    let mut claims = on_both("over-kernel", metric, &scale, &kernel).to_vec();
    claims.extend(more);
    Figure {
        name,
        plot: Plot::Bars,
        points: "drives",
        axis: metric.axis().into(),
        panels: vec![panel],
        claims,
        notes: [notes, vec![ONE_KERNEL]].concat(),
    }
}

pub(super) fn fig16a(workloads: &Workloads) -> Figure {
    let on = |layout| run(workloads, SCALE, layout, EIGHT);
    let raid5 = on(ArrayLayout::Raid5);
    let more = vec![
        times("below-raid0", &on(ArrayLayout::Raid0), &raid5),
        times("below-raid10", &on(ArrayLayout::Raid10), &raid5),
    ];
    let notes = vec![WHOSE_CPU, NO_STRIPE_CACHE];
    by_drives(workloads, "fig16a", ArrayLayout::Raid5, more, notes)
}

pub(super) fn fig16b(workloads: &Workloads) -> Figure {
    by_drives(
        workloads,
        "fig16b",
        ArrayLayout::Raid10,
        Vec::new(),
        Vec::new(),
    )
}
