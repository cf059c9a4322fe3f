//! Each paper's figures are what its data say, and an error in a file says where it is.

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
        let defined: BTreeSet<&str> = subject.figures().iter().map(Definition::name).collect();
        let told: BTreeSet<&str> = paper.figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(defined, told, "{}", subject.name());
    }
    for (subject, definition) in definitions() {
        let name = definition.name();
        let figure = definition.make(&Workloads::own());
        assert_eq!(figure.name, name);
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
        for (_, definition) in definitions() {
            let (name, figure) = (definition.name(), definition.make(&workloads));
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
    for (subject, definition) in definitions() {
        let name = definition.name();
        for run in definition.make(&Workloads::trace("mine")).runs() {
            assert_eq!(run.subject, subject, "{name}");
            assert_eq!(run.workload, "mine", "{name}");
        }
    }
}

/// Panels, cells, claims, terms of claims and runs of every figure.
const SIZES: [(&str, [usize; 5]); 77] = [
    ("scala/fig4a", [1, 20, 3, 7, 10]),
    ("scala/fig4b", [1, 16, 2, 2, 8]),
    ("scala/fig5a", [2, 22, 6, 6, 2]),
    ("scala/fig5b", [1, 18, 5, 5, 2]),
    ("scala/fig5c", [1, 2, 2, 2, 2]),
    ("scala/memory", [2, 4, 4, 4, 2]),
    ("scala/table2", [6, 70, 60, 60, 20]),
    ("scala/fig11a", [1, 70, 7, 102, 70]),
    ("scala/fig11b", [1, 40, 2, 20, 40]),
    ("scala/fig12a", [1, 40, 2, 20, 40]),
    ("scala/fig12b", [1, 40, 3, 30, 40]),
    ("scala/fig13a", [5, 20, 2, 4, 4]),
    ("scala/fig13b", [2, 8, 2, 2, 4]),
    ("scala/fig14", [2, 90, 2, 2, 10]),
    ("scala/fig15", [2, 100, 4, 15, 10]),
    ("scala/fig16a", [1, 6, 2, 4, 4]),
    ("scala/fig16b", [3, 24, 5, 6, 8]),
    ("scala/fig17", [6, 114, 4, 9, 114]),
    ("scala/fig18a", [1, 12, 2, 2, 12]),
    ("scala/fig18b", [1, 12, 3, 3, 12]),
    ("scale/fig1", [1, 8, 3, 3, 8]),
    ("scale/fig11a", [1, 16, 6, 6, 16]),
    ("scale/fig11b", [1, 12, 5, 5, 12]),
    ("scale/fig11c", [1, 18, 6, 6, 18]),
    ("scale/fig11d", [1, 10, 3, 6, 10]),
    ("scale/fig12a", [1, 8, 2, 2, 8]),
    ("scale/table1", [4, 16, 19, 22, 8]),
    ("scale/fig12b", [1, 3, 4, 4, 3]),
    ("scale/fig13", [1, 8, 3, 3, 8]),
    ("scale/fig14a", [1, 8, 2, 2, 8]),
    ("scale/fig14b", [1, 8, 2, 2, 8]),
    ("scale/fig14c", [1, 8, 2, 2, 8]),
    ("scale/fig14d", [1, 8, 5, 5, 8]),
    ("scale/fig15", [2, 16, 2, 8, 16]),
    ("scale/fig16a", [1, 4, 4, 4, 6]),
    ("scale/fig16b", [1, 4, 2, 2, 4]),
    ("scale/fig17a", [1, 14, 2, 2, 14]),
    ("scale/fig17b", [1, 14, 2, 2, 14]),
    ("scale/fig18", [2, 24, 4, 4, 24]),
    ("scale/table2", [6, 18, 26, 23, 3]),
    ("scale/table3", [1, 3, 34, 2, 3]),
    ("indexless/fig3", [2, 40, 3, 26, 40]),
    ("indexless/fig4", [2, 50, 3, 24, 50]),
    ("indexless/fig5", [2, 70, 3, 24, 70]),
    ("indexless/fig6", [2, 70, 3, 24, 70]),
    ("indexless/fig7", [2, 70, 3, 24, 70]),
    ("indexless/memory", [4, 60, 2, 16, 30]),
    ("stor/fig5", [4, 96, 10, 32, 104]),
    ("stor/fig6", [1, 16, 4, 4, 16]),
    ("stor/fig7", [1, 48, 3, 3, 48]),
    ("stor/fig8", [1, 32, 2, 8, 32]),
    ("stor/fig-placement", [1, 20, 2, 2, 20]),
    ("stor/fig-tokens", [1, 6, 1, 1, 6]),
    ("omni/fig1a", [1, 8, 4, 4, 8]),
    ("omni/table2", [1, 8, 1, 2, 8]),
    ("omni/fig1b", [1, 4, 1, 1, 2]),
    ("omni/fig4", [4, 72, 4, 96, 72]),
    ("omni/table3", [1, 6, 4, 4, 3]),
    ("omni/fig5", [2, 30, 3, 10, 30]),
    ("omni/fig6", [2, 24, 2, 4, 24]),
    ("omni/fig7a", [1, 36, 4, 24, 36]),
    ("omni/fig7b", [1, 50, 2, 11, 5]),
    ("omni/fig8", [1, 5, 3, 3, 5]),
    ("omni/fig9a", [1, 30, 3, 18, 30]),
    ("omni/fig9b", [1, 30, 3, 18, 30]),
    ("omni/fig10", [2, 36, 2, 24, 36]),
    ("omni/fig11a", [1, 18, 3, 18, 18]),
    ("omni/fig11b", [1, 20, 3, 12, 20]),
    ("omni/fig12", [1, 6, 3, 4, 6]),
    ("omni/table4", [1, 3, 4, 4, 3]),
    ("omni/table5", [1, 6, 4, 4, 6]),
    ("omni/fig-stalls", [1, 4, 1, 1, 4]),
    ("omni/fig-link", [2, 30, 1, 1, 30]),
    ("omni/fig-read-fill", [1, 8, 1, 1, 8]),
    ("omni/fig-without", [1, 15, 3, 5, 15]),
    ("omni/fig-kernel", [1, 25, 3, 15, 25]),
    ("omni/fig-longer", [2, 24, 2, 2, 24]),
];

#[test]
fn every_figure_has_its_panels_cells_claims_terms_and_runs() {
    let size = |(subject, definition): (Subject, &'static Definition)| {
        let figure = definition.make(&Workloads::own());
        let series = figure.panels.iter().flat_map(|panel| &panel.series);
        let formulas = figure.claims.iter().map(|claim| &claim.formula);
        let size = [
            figure.panels.len(),
            series.map(|s| s.cells.iter().flatten().count()).sum(),
            figure.claims.len(),
            formulas.map(|formula| formula.terms().len()).sum(),
            figure.runs().len(),
        ];
        (format!("{}/{}", subject.name(), figure.name), size)
    };
    let sizes: Vec<(String, [usize; 5])> = definitions().map(size).collect();
    let expected = SIZES.map(|(name, size)| (name.to_string(), size));
    assert_eq!(sizes, expected);
}

const SMALL: &str = r#"
    [notes]
    known = "said"
    [[figure]]
    name = "one"
    plot = "bars"
    x = "designs"
    run = { workload = "mds", metric = "bandwidth" }
    points = { design = ["Kernel", "ScalaCache"] }
    notes = ["@known"]
    claims = [{ id = "more", of = { design = "ScalaCache" }, by = { design = "Kernel" } }]
"#;

#[test]
fn a_small_file_gives_a_figure() {
    let figures = read(Subject::Scala, "small.toml", SMALL).expect("a right file");
    let figure = figures[0].data.make(Subject::Scala, &Workloads::own());
    let figure = figure.expect("checked when it was read");
    assert_eq!(figure.axis, "bandwidth, MB/s");
    assert_eq!(figure.notes, ["said"]);
    assert_eq!(figure.panels[0].points, ["Kernel", "ScalaCache"]);
    assert_eq!(figure.panels[0].series[0].name, "here");
    assert_eq!(figure.claims[0].formula.runs(), figure.runs());
}

#[test]
fn an_error_names_the_file_the_key_and_the_cause() {
    for (right, wrong, said) in [
        (
            "metric = \"bandwidth\"",
            "metric = \"bandwith\"",
            vec!["line 8", "no metric 'bandwith'", "nearest is 'bandwidth'"],
        ),
        (
            "metric = \"bandwidth\"",
            "metric = \"cpu clients\"",
            vec!["metric 'cpu clients': a work is missing"],
        ),
        (
            "metric = \"bandwidth\"",
            "metric = \"p999 clients\"",
            vec!["nothing is known of 'clients' here"],
        ),
        (
            "workload = \"mds\"",
            "wokload = \"mds\"",
            vec!["line 8", "unknown field `wokload`", "`workload`"],
        ),
        (
            "[\"Kernel\"",
            "[\"Kernle\"",
            vec!["line 9", "no design 'Kernle', the nearest is 'Kernel'"],
        ),
        (
            "workload = \"mds\", ",
            "",
            vec!["figure 'one': series 'here': no 'workload'"],
        ),
        (
            "workload = \"mds\", ",
            "workload = \"mds\", cpus = 4, clients = 4, ",
            vec!["figure 'one': series 'here': both 'clients' and 'cpus'"],
        ),
        (
            "by = { design = \"Kernel\" }",
            "by = { metric = \"p999\" }",
            vec!["figure 'one': claim 'more': ", "the same metric"],
        ),
        (
            "@known",
            "@unknown",
            vec!["figure 'one': no note 'unknown'"],
        ),
        (
            "points = {",
            "points = { named = \"none\",",
            vec!["figure 'one': no axis 'none'"],
        ),
    ] {
        assert!(SMALL.contains(right), "{right}");
        let text = SMALL.replacen(right, wrong, 1);
        let error = read(Subject::Scala, "small.toml", &text).expect_err(wrong);
        assert!(error.starts_with("small.toml: "), "{error}");
        for part in said {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
