//! The figures of the ScalaCache paper, one definition each.
//!
//! | file | figures | section of the paper |
//! |---|---|---|
//! | `motivation.rs` | 4a, 4b, 5a, 5b | 3.1 |
//! | `overall.rs` | 11a, 11b, 12a, 12b, 13a, 13b | 6.2 |
//! | `analysis.rs` | 14, 15, 16a, 16b | 6.3 |
//! | `scaling.rs` | 17, 18a, 18b | 6.4 |
//! | `table.rs` | Table 2 | 6.1 |

mod analysis;
mod motivation;
mod overall;
mod scaling;
mod table;

use super::figure::{Cell, Figure, Formula, Panel, Series};
use super::metric::Metric;
use super::run::{CLIENTS, Run, Variant, Workloads};

/// A definition: a figure's name, and how it is made for some workloads.
pub type Definition = (&'static str, fn(&Workloads) -> Figure);

/// All figures, in the order of the paper.
pub const FIGURES: &[Definition] = &[
    ("fig4a", motivation::fig4a),
    ("fig4b", motivation::fig4b),
    ("fig5a", motivation::fig5a),
    ("fig5b", motivation::fig5b),
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

/// A panel with a series for each variant and a cell for each point.
fn series_of(
    title: String,
    points: &[String],
    variants: &[Variant],
    cell: impl Fn(Variant, &str) -> Option<Cell>,
) -> Panel {
    let series = |variant: &Variant| Series {
        name: variant.label.into(),
        cells: points.iter().map(|point| cell(*variant, point)).collect(),
    };
    Panel {
        title,
        points: points.to_vec(),
        series: variants.iter().map(series).collect(),
    }
}

/// A panel of stacked bars: one bar for each named run, one layer for each named metric.
fn stacks(title: String, bars: &[(String, Run)], layers: &[(&str, Metric)]) -> Panel {
    let layer = |(name, metric): &(&str, Metric)| Series {
        name: (*name).into(),
        cells: bars
            .iter()
            .map(|(_, run)| Some(Cell::plain(*metric, run.clone())))
            .collect(),
    };
    Panel {
        title,
        points: bars.iter().map(|(name, _)| name.clone()).collect(),
        series: layers.iter().map(layer).collect(),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::paper::Paper;
    use super::*;

    #[test]
    fn the_paper_and_the_definitions_speak_of_the_same_figures_and_claims() {
        let paper = Paper::scala();
        let defined: BTreeSet<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        let told: BTreeSet<&str> = paper.figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(defined, told);
        for (name, define) in FIGURES {
            let figure = define(&Workloads::profiles());
            assert_eq!(figure.name, *name);
            let tested: BTreeSet<&str> = figure.claims.iter().map(|c| c.id.as_str()).collect();
            let claims = &paper.figure(name).expect("told").claims;
            let claimed: BTreeSet<&str> = claims.iter().map(|c| c.id.as_str()).collect();
            assert_eq!(tested, claimed, "{name}");
        }
    }

    #[test]
    fn every_figure_has_a_cell_for_each_point() {
        for workloads in [Workloads::profiles(), Workloads::trace("mine")] {
            for (name, define) in FIGURES {
                let figure = define(&workloads);
                assert!(!figure.runs().is_empty(), "{name}");
                for panel in &figure.panels {
                    assert!(!panel.points.is_empty(), "{name}");
                    for series in &panel.series {
                        assert_eq!(series.cells.len(), panel.points.len(), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_trace_takes_the_place_of_every_profile() {
        for (name, define) in FIGURES {
            for run in define(&Workloads::trace("mine")).runs() {
                assert_eq!(run.workload, "mine", "{name}");
            }
        }
    }
}
