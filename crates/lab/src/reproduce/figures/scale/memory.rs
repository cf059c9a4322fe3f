//! Table 3: memory of the index (section 4.8).

use super::{EIGHT, ONE_KERNEL, on_both};
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DFLUSH, KERNEL, SCALE, Workloads};

/// The rows of the paper's table, each in GB and percent: none is made here, for the reasons that the data file gives.
const ROWS: [&str; 4] = ["memory_total", "anonymous", "file_backed", "slab"];

/// Its columns.
const COLUMNS: [&str; 4] = ["EXT4", "ScaleCache-EXT4", "XFS", "ScaleCache-XFS"];

fn not_made() -> impl Iterator<Item = Claim> {
    let rows = ROWS
        .into_iter()
        .flat_map(|row| ["gb", "percent"].map(|unit| format!("{row}_{unit}")));
    let why = "it is not made here, see what is left out";
    rows.flat_map(move |row| {
        let cell = |column| Claim::new(format!("{row}.{column}"), Formula::Untested(why));
        COLUMNS.map(cell)
    })
}

pub(super) fn table3(workloads: &Workloads) -> Figure {
    let variants = [KERNEL, DFLUSH, SCALE];
    let workload = workloads.one("fileserver-scalecache");
    let [kernel, dflush, scale] = variants.map(|variant| variant.threads(&workload, EIGHT));
    let metric = Metric::IndexMib;
    let cells = [&kernel, &dflush, &scale].map(|run| Some(Cell::plain(metric, run.clone())));
    Figure {
        name: "table3",
        plot: Plot::Bars,
        points: "page cache",
        axis: metric.axis().into(),
        panels: vec![Panel {
            title: String::new(),
            points: variants.map(|variant| variant.label.into()).to_vec(),
            series: vec![Series {
                name: "here".into(),
                cells: cells.to_vec(),
            }],
        }],
        claims: on_both("over-kernel", metric, &scale, &kernel)
            .into_iter()
            .chain(not_made())
            .collect(),
        notes: vec![
            "nodes in the trees, at the most that a look every half a millisecond of the run or less often has seen; nodes that have left a tree and \
             wait for their readers are in none of the figures, and neither is all else that is in Linux' slabs",
            "the cells of the paper's table are a machine's memory and are not made, for the reasons given under 'left out'; those of slab \
             differ by the nodes of the index, which are compared here",
            ONE_KERNEL,
        ],
    }
}
