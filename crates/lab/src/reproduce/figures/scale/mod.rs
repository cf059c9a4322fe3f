//! The figures of the ScaleCache paper, one definition each.
//!
//! | file | figures | section of the paper |
//! |---|---|---|
//! | `micro.rs` | 1, 11a to 11d | 1, 4.1 |
//! | `latency.rs` | 12a, 12b, Table 1, 13 | 4.1 |
//! | `loads.rs` | 14a to 14d, 15 | 4.2, 4.3 |
//! | `raid.rs` | 16a, 16b | 4.4 |
//! | `scaling.rs` | 17a, 17b, 18, Table 2 | 4.5 to 4.7 |
//! | `memory.rs` | Table 3 | 4.8 |

mod latency;
mod loads;
mod memory;
mod micro;
mod raid;
mod scaling;

use super::Definition;
use crate::reproduce::figure::{Cell, Claim, Formula, Term};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{KERNEL, Run, Variant, Workloads};

/// All figures, in the order of the paper.
pub const FIGURES: &[Definition] = &[
    ("fig1", micro::fig1),
    ("fig11a", micro::fig11a),
    ("fig11b", micro::fig11b),
    ("fig11c", micro::fig11c),
    ("fig11d", micro::fig11d),
    ("fig12a", latency::fig12a),
    ("table1", latency::table1),
    ("fig12b", latency::fig12b),
    ("fig13", latency::fig13),
    ("fig14a", loads::fig14a),
    ("fig14b", loads::fig14b),
    ("fig14c", loads::fig14c),
    ("fig14d", loads::fig14d),
    ("fig15", loads::fig15),
    ("fig16a", raid::fig16a),
    ("fig16b", raid::fig16b),
    ("fig17a", scaling::fig17a),
    ("fig17b", scaling::fig17b),
    ("fig18", scaling::fig18),
    ("table2", scaling::table2),
    ("table3", memory::table3),
];

/// Numbers of drives that the figures go through.
const DRIVES: [u32; 4] = [1, 2, 4, 8];

/// The most drives.
const EIGHT: u32 = 8;

const ONE_KERNEL: &str = "the paper has a figure each for EXT4 and XFS; here is one page cache of Linux without a file system, \
     which is compared with both";

/// Claims about one ratio for which the paper has a figure with EXT4 and one with XFS.
fn on_both(id: &str, metric: Metric, a: &Run, b: &Run) -> [Claim; 2] {
    ["ext4", "xfs"].map(|file_system| {
        let pair = [(a.clone(), b.clone())];
        Claim::new(
            format!("{id}-{file_system}"),
            Formula::mean_ratio(metric, pair),
        )
    })
}

/// How much more `a` gains from some change than `b`: the ratio of two ratios of bandwidth.
fn gains_more(id: &str, a: (Run, Run), b: (Run, Run)) -> Claim {
    let gain = |(to, from): (Run, Run)| Cell::plain(Metric::Bandwidth, to).to(from);
    let term = Term {
        over: vec![gain(a)],
        under: vec![gain(b)],
    };
    Claim::new(id, Formula::Mean(vec![term]))
}

/// Bandwidth of one run by that of another.
fn times(id: &str, a: &Run, b: &Run) -> Claim {
    let pair = [(a.clone(), b.clone())];
    Claim::new(id, Formula::mean_ratio(Metric::Bandwidth, pair))
}

/// A metric of one run.
fn amount(id: &str, metric: Metric, run: &Run) -> Claim {
    Claim::new(id, Formula::value(metric, run.clone()))
}

/// A variant's run of a workload on one drive and on eight: what it gains from drives.
fn from_drives(workloads: &Workloads, workload: &str, variant: Variant) -> (Run, Run) {
    let on = |drives| variant.threads(&workloads.one(workload), drives);
    (on(EIGHT), on(1))
}

/// The kernel's run of a workload on eight drives.
fn kernel_on_eight(workloads: &Workloads, workload: &str) -> Run {
    KERNEL.threads(&workloads.one(workload), EIGHT)
}
