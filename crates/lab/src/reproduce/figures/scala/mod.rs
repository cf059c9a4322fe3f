//! The figures of the ScalaCache paper, one definition each.
//!
//! | file | figures | section of the paper |
//! |---|---|---|
//! | `motivation.rs` | 4a, 4b, 5a, 5b, 5c | 3 |
//! | `memory.rs` | what the text says of memory | 5 |
//! | `overall.rs` | 11a, 11b, 12a, 12b, 13a, 13b | 6.2 |
//! | `analysis.rs` | 14, 15, 16a, 16b | 6.3 |
//! | `scaling.rs` | 17, 18a, 18b | 6.4 |
//! | `table.rs` | Table 2 | 6.1 |

mod analysis;
mod memory;
mod motivation;
mod overall;
mod scaling;
mod table;

use super::{Definition, series_of};
use crate::reproduce::figure::{Cell, Formula, Panel};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{CLIENTS, Run, Variant};

/// All figures, in the order of the paper.
pub const FIGURES: &[Definition] = &[
    ("fig4a", motivation::fig4a),
    ("fig4b", motivation::fig4b),
    ("fig5a", motivation::fig5a),
    ("fig5b", motivation::fig5b),
    ("fig5c", motivation::fig5c),
    ("memory", memory::memory),
    ("table2", table::table2),
    ("fig11a", overall::fig11a),
    ("fig11b", overall::fig11b),
    ("fig12a", overall::fig12a),
    ("fig12b", overall::fig12b),
    ("fig13a", overall::fig13a),
    ("fig13b", overall::fig13b),
    ("fig14", analysis::fig14),
    ("fig15", analysis::fig15),
    ("fig16a", analysis::fig16a),
    ("fig16b", analysis::fig16b),
    ("fig17", scaling::fig17),
    ("fig18a", scaling::fig18a),
    ("fig18b", scaling::fig18b),
];

/// One panel with a series for each variant: a metric of each, on each workload, with eight clients.
fn by_workload(metric: Metric, workloads: &[String], variants: &[Variant]) -> Panel {
    series_of(String::new(), workloads, variants, |variant, workload| {
        Some(Cell::plain(metric, variant.clients(workload, CLIENTS)))
    })
}

/// The mean over workloads of a metric of one variant by that of another, each run as `run` says.
fn mean_over(
    metric: Metric,
    workloads: &[String],
    run: impl Fn(Variant, &str) -> Option<Run>,
    a: Variant,
    b: Variant,
) -> Formula {
    let pair = |workload: &String| Some((run(a, workload)?, run(b, workload)?));
    Formula::mean_ratio(metric, workloads.iter().filter_map(pair))
}
