//! Table 3: memory of the index (section 4.8).

use super::{EIGHT, ONE_KERNEL, on_both};
use crate::reproduce::figure::{Cell, Figure, Panel, Plot, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{DFLUSH, KERNEL, SCALE, Workloads};

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
        claims: on_both("over-kernel", metric, &scale, &kernel).to_vec(),
        notes: vec![
            "nodes in the trees, at the most that a look every half a millisecond of the run or less often has seen; nodes that have left a tree and \
             wait for their readers are in none of the figures, and neither is all else that is in Linux' slabs",
            "of the paper's table the cells of slab differ by the nodes of the index, which are compared here; its cells of anonymous and \
             of file-backed memory, and slab as a whole, are a machine's and are not made",
            ONE_KERNEL,
        ],
    }
}
