//! The figures of each paper, one definition each.

pub mod scala;
pub mod scale;

use super::figure::{Cell, Figure, Panel, Series};
use super::metric::Metric;
use super::run::{Run, Variant, Workloads};

/// A definition: a figure's name, and how it is made for some workloads.
pub type Definition = (&'static str, fn(&Workloads) -> Figure);

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

/// A panel of a metric over numbers.
fn over(
    title: String,
    metric: Metric,
    points: &[u32],
    variants: &[Variant],
    run: impl Fn(Variant, u32) -> Option<Run>,
) -> Panel {
    let series = |variant: &Variant| Series {
        name: variant.label.into(),
        cells: points
            .iter()
            .map(|n| Some(Cell::plain(metric, run(*variant, *n)?)))
            .collect(),
    };
    Panel {
        title,
        points: points.iter().map(u32::to_string).collect(),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::paper::Paper;
    use super::super::subject::Subject;
    use super::*;

    fn definitions() -> impl Iterator<Item = (Subject, &'static Definition)> {
        let figures = |subject: Subject| subject.figures().iter().map(move |f| (subject, f));
        Subject::ALL.into_iter().flat_map(figures)
    }

    #[test]
    fn papers_and_definitions_speak_of_the_same_figures_and_claims() {
        for subject in Subject::ALL {
            let paper = Paper::of(subject);
            let defined: BTreeSet<&str> = subject.figures().iter().map(|(name, _)| *name).collect();
            let told: BTreeSet<&str> = paper.figures.iter().map(|f| f.name.as_str()).collect();
            assert_eq!(defined, told, "{}", subject.name());
        }
        for (subject, (name, define)) in definitions() {
            let figure = define(&Workloads::own());
            assert_eq!(figure.name, *name);
            let tested: BTreeSet<&str> = figure.claims.iter().map(|c| c.id.as_str()).collect();
            let paper = Paper::of(subject);
            let claims = &paper.figure(name).expect("told").claims;
            let claimed: BTreeSet<&str> = claims.iter().map(|c| c.id.as_str()).collect();
            assert_eq!(tested, claimed, "{name}");
        }
    }

    #[test]
    fn every_figure_has_a_cell_for_each_point() {
        for workloads in [Workloads::own(), Workloads::trace("mine")] {
            for (_, (name, define)) in definitions() {
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
    fn runs_are_of_the_figures_paper_and_a_trace_takes_the_place_of_every_workload() {
        for (subject, (name, define)) in definitions() {
            for run in define(&Workloads::trace("mine")).runs() {
                assert_eq!(run.subject, subject, "{name}");
                assert_eq!(run.workload, "mine", "{name}");
            }
        }
    }
}
