//! Table 2: the workloads as they are generated here, and their hits in the kernel's cache (section 6.1).

use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{CLIENTS, CLOCK, KERNEL, Variant, Workloads};

/// The columns of the paper's table, by the names of its data file.
const COLUMNS: [(&str, Metric); 6] = [
    ("requests", Metric::Requests),
    ("mean_kib", Metric::MeanKib),
    ("data_gib", Metric::DataGib),
    ("hit_ratio", Metric::HitRatio),
    ("randomness", Metric::Randomness),
    ("reuse_gib", Metric::ReuseGib),
];

/// The design that a column is read off: hits are the kernel's, as in the paper; the rest is the
/// workload's and the same in every run.
fn design_of(metric: Metric) -> Variant {
    match metric {
        Metric::HitRatio => KERNEL,
        _ => CLOCK,
    }
}

pub(super) fn table2(workloads: &Workloads) -> Figure {
    let all = workloads.all();
    let cell = |metric, w: &String| Cell::plain(metric, design_of(metric).clients(w, CLIENTS));
    let panel = |title: &str, metric: Metric, variants: &[(&str, Variant)]| Panel {
        title: title.into(),
        points: all.clone(),
        series: variants
            .iter()
            .map(|(name, variant)| Series {
                name: (*name).into(),
                cells: all
                    .iter()
                    .map(|w| Some(Cell::plain(metric, variant.clients(w, CLIENTS))))
                    .collect(),
            })
            .collect(),
    };
    let panels = COLUMNS.map(|(_, metric)| match metric {
        Metric::HitRatio => panel(
            metric.axis(),
            metric,
            &[("Kernel", KERNEL), ("clock (ours)", CLOCK)],
        ),
        _ => panel(metric.axis(), metric, &[("here", CLOCK)]),
    });
    // The paper's rows are those of the profiles, whatever is replayed here.
    let names = Workloads::own().all();
    let claims = names.iter().flat_map(|name| {
        COLUMNS.map(|(column, metric)| {
            let id = format!("{name}.{column}");
            match all.contains(name) {
                true => Claim::new(id, Formula::value(metric, cell(metric, name).run)),
                false => Claim::new(
                    id,
                    Formula::Untested("not run: a trace took the place of the profiles"),
                ),
            }
        })
    });
    Figure {
        name: "table2",
        plot: Plot::Bars,
        points: "workload",
        axis: "six columns of the paper's table".into(),
        panels: panels.to_vec(),
        claims: claims.collect(),
        notes: vec![
            "the traces cannot be shipped: the profiles are generators that were fitted to this very table, so that most of it agrees by construction; \
             the hit ratio of the kernel's cache and what the scale changes do not",
            "requests, data and reuse distance are scaled up to full size",
        ],
    }
}
