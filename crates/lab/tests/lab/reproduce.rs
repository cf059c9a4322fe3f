//! A tiny reproduction of every figure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_lab::config::load_costs;
use wharf_lab::reproduce::{
    Options, Reproduction, Scale, Subject, Verdict, index, json, page, render, reproduce, select,
    write,
};

/// Requests of a run: enough for every path, few enough for two hundred runs.
const REQUESTS: u64 = 400;

fn options(seed: u64) -> Options {
    let scale = Scale::new(1024).expect("a power of two");
    Options {
        scale: Scale {
            requests_max: Some(REQUESTS),
            ..scale
        },
        seed,
        seeds: 1,
        start: None,
        costs: load_costs("default").expect("a preset").0,
        trace: None,
        trace_name: String::new(),
        commit: "0000000".into(),
        jobs: 2,
    }
}

/// Some figures of one paper.
fn tiny(names: &[&str], seed: u64) -> Reproduction {
    made(names, seed, false)
}

fn made(names: &[&str], seed: u64, is_stopped: bool) -> Reproduction {
    let chosen = select(names).expect("known figures");
    let [part] = &chosen[..] else {
        panic!("figures of one paper");
    };
    let stop = Arc::new(AtomicBool::new(is_stopped));
    let mut options = options(seed);
    if part.subject == Subject::Indexless {
        // A request is of a quarter of a MiB, which lies on the disk first.
        options.scale.requests_max = Some(REQUESTS / 5);
    }
    reproduce(part, &options, &stop)
}

fn every_figure_of(subject: Subject) {
    let all = tiny(&[subject.name()], 1);
    assert_eq!(all.failures, [""; 0]);
    assert_eq!(all.findings.len(), subject.figures().len());
    assert!(all.runs >= 10, "{}", all.runs);
    let pages = index(&all);
    for finding in &all.findings {
        assert!(!finding.claims.is_empty(), "{}", finding.name);
        for claim in &finding.claims {
            let tested = claim.verdict != Verdict::Untested;
            assert_eq!(tested, claim.ours_value.is_some(), "{}", claim.id);
            assert!(claim.sentence.ends_with('.'), "{}", claim.sentence);
        }
        let values = finding.panels.iter().flat_map(|panel| &panel.series);
        let found = values.flat_map(|s| s.values.iter().flatten()).count();
        assert!(found > 0, "{}: {:?}", finding.name, finding.gaps);
        let is_missing = |gap: &String| gap.contains("not built in") || gap.contains("no workload");
        assert!(!finding.gaps.keys().any(is_missing), "{:?}", finding.gaps);
        assert!(render(finding, 100).contains(&finding.title));
        assert!(page(finding).contains("</html>"));
        assert!(pages.contains(&format!("{}.html", finding.name)));
    }
}

#[test]
fn every_figure_of_scala_runs() {
    every_figure_of(Subject::Scala);
}

#[test]
fn every_figure_of_scale_runs() {
    every_figure_of(Subject::Scale);
}

#[test]
fn every_figure_of_indexless_runs() {
    every_figure_of(Subject::Indexless);
}

#[test]
fn every_figure_of_omni_runs() {
    every_figure_of(Subject::Omni);
}

#[test]
fn every_figure_of_stor_runs_with_and_without_a_cache() {
    let all = tiny(&["stor"], 1);
    assert_eq!(all.failures, [""; 0]);
    assert!(all.runs >= 10, "{}", all.runs);
    for finding in &all.findings {
        let values = finding.panels.iter().flat_map(|panel| &panel.series);
        let found = values.flat_map(|s| s.values.iter().flatten()).count();
        assert!(found > 0, "{}: {:?}", finding.name, finding.gaps);
        assert!(!finding.claims.is_empty(), "{}", finding.name);
        assert!(finding.gaps.is_empty(), "{:?}", finding.gaps);
        assert!(render(finding, 100).contains(&finding.title));
    }
}

#[test]
fn equal_seeds_give_equal_files_and_other_seeds_do_not() {
    for names in [
        ["scala/table2", "scala/fig12a"],
        ["scale/fig11a", "scale/fig13"],
    ] {
        let text = |seed| -> String {
            let made = tiny(&names, seed);
            made.findings.iter().map(json).collect()
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }
}

#[test]
fn a_table_has_the_papers_values_beside_ours() {
    let table = &tiny(&["scala/table2"], 1).findings[0];
    let sizes = &table.panels[1];
    assert_eq!(sizes.points[0], "webmail");
    let series: BTreeSet<&str> = sizes.series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(series, BTreeSet::from(["here", "paper"]));
    for series in &sizes.series {
        assert_eq!(series.values[0], Some(4.0), "{}", series.name);
    }
}

#[test]
fn shares_of_the_paper_stood_in_percent_beside_ours_from_0_to_1() {
    let table = &tiny(&["scale/table2"], 1).findings[0];
    let asleep = &table.panels[2];
    let paper = asleep.series.iter().find(|series| series.name == "paper");
    let values = &paper.expect("the paper's column").values;
    assert_eq!(values, &[Some(0.9024), Some(0.0), Some(0.0)]);
}

#[test]
fn the_hash_table_in_the_drive_is_run_and_judged() {
    let made = tiny(&["scala/fig16b", "scala/memory"], 1);
    let claims = made.findings.iter().flat_map(|finding| &finding.claims);
    for claim in claims {
        assert_ne!(claim.verdict, Verdict::Untested, "{}", claim.sentence);
    }
    let shares = &made.findings[0].panels[0];
    let [fusion, table, queue] = shares.series[0].values[..] else {
        panic!("{shares:?}");
    };
    // The fixed parts weigh more in a cache as small as this.
    assert!(fusion > Some(0.0029) && fusion < Some(0.0031), "{fusion:?}");
    assert!(table > Some(0.0048) && table < Some(0.0061), "{table:?}");
    assert!(queue > Some(0.02) && queue < Some(0.04), "{queue:?}");
}

#[test]
fn a_reproduction_that_was_stopped_shows_what_there_is() {
    let made = made(&["scala/fig12a"], 1, true);
    assert!(made.interrupted);
    assert_eq!(made.runs, 0);
    let gaps: Vec<&String> = made.findings[0].gaps.keys().collect();
    assert_eq!(gaps, ["not run: interrupted before"]);
}

#[test]
fn a_directory_gets_a_page_and_a_file_for_each_figure() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("new/deep");
    let index = write(&out, &tiny(&["scala/fig12a"], 1)).expect("written");
    let of_paper = out.join("scala");
    assert_eq!(index, of_paper.join("index.html"));
    let names: BTreeSet<String> = std::fs::read_dir(&of_paper)
        .expect("made")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let expected = ["fig12a.html", "fig12a.json", "index.html"];
    assert_eq!(names, expected.map(String::from).into());
    let text = std::fs::read_to_string(of_paper.join("fig12a.json")).expect("a file");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema"], "wharf.reproduce/2");
    assert_eq!(value["ground"]["scale"]["divisor"], 1024);
}
