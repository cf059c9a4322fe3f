//! Claims and cells over made-up runs: what is said when they hold, when they do not, and when there
//! is nothing to say.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use super::marks::{Basis, Mark};
use super::metric::Metric;
use super::outcome::{Finding, Reproduction, find};
use super::paper::Paper;
use super::run::Run;
use super::runs::{Gap, Measured, Runs, Traits};
use super::score::{self, Score};
use super::variant::{CLIENTS, KERNEL, SCALA, TRI_2M, Variant};
use super::verdict::Verdict;
use super::{Options, Scale, Subject, ground, render, select};
use crate::config::load_costs;
use crate::report::sample;

fn options() -> Options {
    Options {
        scale: Scale::new(1024).expect("a power of two"),
        seed: 1,
        seeds: 1,
        start: None,
        costs: load_costs("default").expect("a preset").0,
        trace: None,
        trace_name: String::new(),
        commit: "0000000".into(),
        jobs: 2,
    }
}

fn run(variant: Variant) -> Run {
    variant.clients("webmail", CLIENTS)
}

fn measured(bandwidth_mb_s: f64) -> Measured {
    let mut row = sample::comparison(1).rows.remove(0);
    row.bandwidth_mb_s = bandwidth_mb_s;
    Measured {
        row,
        traits: Some(Traits {
            requests: 1.0,
            mean_kib: 4.0,
            data_gib: 1.0,
            randomness: 0.5,
            reuse_gib: 0.1,
        }),
        unaligned: None,
        cache_bytes: 1 << 20,
        in_line: 1,
    }
}

/// A figure with ScalaCache's and the kernel's bandwidth on one workload, and Figure 12b's claims in its
/// name: three ratios that the paper has below 1.
fn figure() -> Figure {
    let cells = |variant| vec![Some(Cell::plain(Metric::Bandwidth, run(variant))), None];
    let claim = |id: &str| {
        let ratio = Cell::plain(Metric::Bandwidth, run(SCALA)).to(run(KERNEL));
        Claim::new(id, Formula::Mean(vec![Term::of(ratio)]))
    };
    Figure {
        name: "fig12b".into(),
        plot: Plot::Bars,
        points: "workload".into(),
        axis: "bandwidth".into(),
        panels: vec![Panel {
            title: String::new(),
            points: vec!["webmail".into(), "none".into()],
            series: [SCALA, KERNEL]
                .map(|variant| Series {
                    name: variant.label.into(),
                    cells: cells(variant),
                })
                .to_vec(),
        }],
        claims: ["scala-below-2m8c", "scala-below-4m8c", "scala-below-6m8c"]
            .map(claim)
            .to_vec(),
        notes: Vec::new(),
    }
}

fn found(scala: Result<Measured, Gap>, kernel: Result<Measured, Gap>) -> Finding {
    found_with(scala.map(|one| vec![one]), kernel.map(|one| vec![one]))
}

/// As [`found`], with a value for each seed.
fn found_with(scala: Result<Vec<Measured>, Gap>, kernel: Result<Vec<Measured>, Gap>) -> Finding {
    let (options, stop) = (options(), Arc::new(AtomicBool::new(false)));
    let mut runs = Runs::new(&options, &stop);
    runs.put(run(SCALA), scala);
    runs.put(run(KERNEL), kernel);
    let paper = Paper::of(Subject::Scala);
    let ground = ground(Subject::Scala, &paper, &options);
    find(&figure(), &paper, &runs, &ground)
}

#[test]
fn a_claim_that_holds_says_both_figures() {
    let finding = found(Ok(measured(60.0)), Ok(measured(100.0)));
    let claim = &finding.claims[0];
    assert_eq!(claim.verdict, Verdict::Holds);
    assert_eq!(claim.ours_value.map(|ours| ours.mean), Some(0.6));
    assert_eq!(
        claim.sentence,
        "Holds: 40.0 % less; the paper has 53.5 % less."
    );
    assert_eq!(finding.panels[0].series[0].values, [Some(60.0), None]);
    assert_eq!(finding.gaps["no CPU is left for a client"], 2);
}

#[test]
fn a_claim_that_does_not_hold_is_said_plainly_with_what_was_measured() {
    let finding = found(Ok(measured(130.0)), Ok(measured(100.0)));
    let claim = &finding.claims[0];
    assert_eq!(claim.verdict, Verdict::Fails);
    let start = "Does not hold here: 30.0 % more, where the paper has 53.5 % less.";
    assert!(claim.sentence.starts_with(start), "{}", claim.sentence);
    for said in ["kernel: clients busy", "scala: clients busy", "collecting"] {
        assert!(claim.sentence.contains(said), "{}", claim.sentence);
    }
    let text = render(&finding, 100);
    assert!(text.contains("DOES NOT HOLD"), "{text}");
    assert!(text.contains("Of 3 claims of the paper 3 do not hold here."));
}

/// The marks of the figure above after a change of it, with ScalaCache's bandwidth at 60 and the kernel's at 100.
fn marks_of(change: impl FnOnce(&mut Figure)) -> Vec<Mark> {
    let (options, stop) = (options(), Arc::new(AtomicBool::new(false)));
    let mut runs = Runs::new(&options, &stop);
    runs.put(run(SCALA), Ok(vec![measured(60.0)]));
    runs.put(run(KERNEL), Ok(vec![measured(100.0)]));
    runs.put(run(TRI_2M), Ok(vec![measured(80.0)]));
    let paper = Paper::of(Subject::Scala);
    let mut figure = figure();
    change(&mut figure);
    let ground = ground(Subject::Scala, &paper, &options);
    let mut found = find(&figure, &paper, &runs, &ground);
    found.panels.remove(0).marks
}

#[test]
fn a_ratio_of_the_paper_is_marked_where_our_value_would_be() {
    let marks = marks_of(|_| ());
    // 53.5 % less than the kernel's 100; the other claims of this place come after it.
    let [mark] = &marks[..] else {
        panic!("{marks:?}")
    };
    assert_eq!((mark.series, mark.point, mark.basis), (0, 0, Basis::Ratio));
    assert!((mark.value - 46.5).abs() < 1e-9, "{mark:?}");
    assert_eq!(mark.claim, "scala-below-2m8c");
}

#[test]
fn a_mean_is_marked_as_one_and_what_has_no_place_is_not_marked() {
    let ratio = |of, by| {
        let cell = Cell::plain(Metric::Bandwidth, run(of)).to(run(by));
        Term::of(cell)
    };
    let terms = vec![ratio(SCALA, KERNEL), ratio(KERNEL, TRI_2M)];
    let marks = marks_of(|figure| {
        for claim in &mut figure.claims {
            claim.formula = Formula::Mean(terms.clone());
        }
    });
    let places: Vec<_> = marks.iter().map(|m| (m.series, m.point, m.basis)).collect();
    assert_eq!(places, [(0, 0, Basis::MeanRatio), (1, 0, Basis::MeanRatio)]);
    // 53.5 % less than TriCache's 80.
    assert!((marks[1].value - 37.2).abs() < 1e-9, "{marks:?}");

    // The greatest of some, one run by several others, a run that is not drawn, layers of a stack.
    let twice = vec![ratio(SCALA, KERNEL), ratio(SCALA, TRI_2M)];
    for formula in [
        Formula::Most(terms),
        Formula::Mean(twice),
        Formula::Mean(vec![ratio(TRI_2M, KERNEL)]),
    ] {
        let none = marks_of(|figure| {
            figure
                .claims
                .iter_mut()
                .for_each(|claim| claim.formula = formula.clone());
        });
        assert_eq!(none, [], "{formula:?}");
    }
    assert_eq!(marks_of(|figure| figure.plot = Plot::Stacks), []);
}

#[test]
fn a_value_of_the_papers_own_is_marked_before_a_ratio() {
    let own = Cell::plain(Metric::Bandwidth, run(SCALA));
    let marks = marks_of(|figure| {
        figure.claims[2].formula = Formula::Mean(vec![Term::of(own)]);
    });
    assert_eq!(marks.len(), 1);
    assert_eq!(
        (marks[0].basis, marks[0].value),
        (Basis::Value, 1.0 - 0.2733)
    );
}

#[test]
fn the_index_shows_each_figure_in_small() {
    let finding = found(Ok(measured(60.0)), Ok(measured(100.0)));
    let made = Reproduction {
        ground: finding.ground.clone(),
        findings: vec![finding],
        score: Score::default(),
        failures: Vec::new(),
        runs: 2,
        interrupted: false,
    };
    let page = super::index(&made);
    let link = page
        .split("<a href=\"fig12b.html\">")
        .nth(1)
        .expect("a link");
    let link = link.split("</a>").next().expect("is ended");
    assert!(link.starts_with("fig12b<svg class=\"thumb\""), "{link}");
    assert_eq!(link.matches("<rect").count(), 2);
    assert!(!page.contains("class=\"notes\""), "nothing went wrong");
    let failed = Reproduction {
        failures: vec!["a<b".into()],
        interrupted: true,
        ..made
    };
    let page = super::index(&failed);
    assert!(page.contains("class=\"notes\"><p>A run failed: a&lt;b.</p><p>Interrupted"));
}

#[test]
fn a_small_effect_is_no_confirmation() {
    let finding = found(Ok(measured(97.0)), Ok(measured(100.0)));
    assert_eq!(finding.claims[0].verdict, Verdict::DirectionOnly);
    assert!(
        finding.claims[0]
            .sentence
            .starts_with("The direction holds")
    );
}

/// Five seeds on either side of 1 were once a "direction that holds", by 1.002.
#[test]
fn an_effect_within_the_noise_of_the_seeds_was_called_a_direction() {
    let seeds = |values: [f64; 5]| Ok(values.map(measured).to_vec());
    let (scala, kernel) = ([97.0, 103.0, 95.0, 104.0, 99.0], [100.0; 5]);
    let finding = found_with(seeds(scala), seeds(kernel));
    let claim = &finding.claims[0];
    assert_eq!(claim.verdict, Verdict::WithinNoise, "{}", claim.sentence);
    let ours = claim.ours_value.expect("tested");
    assert_eq!(ours.seeds, 5);
    assert!(ours.low < 1.0 && ours.high > 1.0, "{ours:?}");
    assert!(claim.sentence.starts_with("Within noise: "));
    let shown = finding.panels[0].series[0].values[0].expect("a value");
    assert!(
        (shown - 99.6).abs() < 1e-9,
        "the mean of the seeds: {shown}"
    );
}

/// One ratio counted as often as the paper gives a figure for it: 18 verdicts from 9 ratios.
#[test]
fn claims_over_equal_runs_were_counted_as_many_verdicts() {
    let mut findings = vec![found(Ok(measured(60.0)), Ok(measured(100.0)))];
    let paper = Paper::of(Subject::Scala);
    let score = score::join(&[figure()], &paper, &mut findings);
    // The paper has 53.5, 33.97 and 27.33 % less: the smallest effect is judged, 0.6 against 0.7267.
    let expected = Score {
        quantified: 1,
        within_1_25: 1,
        within_1_5: 1,
        ..Score::default()
    };
    assert_eq!(
        Score {
            merged: Vec::new(),
            ..score.clone()
        },
        expected
    );
    assert_eq!(score.merged.len(), 2);
    let name = "fig12b/scala-below-6m8c";
    assert!(score.merged.iter().all(|merged| merged.judged_as == name));
    let first = &findings[0].claims[0];
    assert_eq!(first.judged_as.as_deref(), Some(name));
    assert!(!first.counts);
    assert_eq!(
        score.lines(),
        "quantified claims within 1.25: 1 of 1\nquantified claims within 1.5: 1 of 1"
    );
    assert_eq!(Score::default().lines(), "no claim of these gives a figure");
}

#[test]
fn a_missing_design_leaves_a_gap_with_a_reason() {
    let gap = Gap::missing("design 'scala' is not built in");
    let finding = found(Err(gap), Ok(measured(100.0)));
    let claim = &finding.claims[0];
    assert_eq!(claim.verdict, Verdict::Untested);
    assert_eq!(
        claim.sentence,
        "Not tested: design 'scala' is not built in."
    );
    assert_eq!(finding.gaps["design 'scala' is not built in"], 1);
    assert_eq!(finding.panels[0].series[1].values, [Some(100.0), None]);
}

#[test]
fn names_choose_figures_in_the_order_of_the_paper_each_once() {
    let names = |chosen: &[&str]| -> Vec<String> {
        let papers = select(chosen).expect("known names");
        let of = |subject: Subject, name: &str| format!("{}/{name}", subject.name());
        let figures = papers.iter().flat_map(|part| {
            let figures = part.figures.iter();
            figures.map(move |figure| of(part.subject, figure.name()))
        });
        figures.collect()
    };
    let (scala, scale) = (names(&["scala"]), names(&["scale"]));
    assert_eq!(scala.len(), Subject::Scala.figures().len());
    let all = [
        scala,
        scale.clone(),
        names(&["indexless"]),
        names(&["stor"]),
        names(&["omni"]),
    ];
    assert_eq!(names(&[]), all.concat());
    assert_eq!(
        names(&["scale/fig13", "scala/fig17", "scala/fig4a", "scala/fig17"]),
        ["scala/fig4a", "scala/fig17", "scale/fig13"]
    );
    assert_eq!(names(&["scale/fig1", "scale"]), scale);
    let wrong = select(&["scala/fig11"]).expect_err("no such figure");
    assert!(
        wrong.to_string().contains("the nearest is 'scala/fig11a'"),
        "{wrong}"
    );
}

#[test]
fn runs_side_by_side_give_what_runs_in_turn_give() {
    let few = Scale {
        requests_max: Some(300),
        ..options().scale
    };
    let stop = Arc::new(AtomicBool::new(false));
    let wanted = [SCALA, KERNEL, TRI_2M].map(|variant| variant.clients("mds", 2));
    let made = |jobs| {
        let options = Options {
            scale: few,
            seeds: 2,
            jobs,
            ..options()
        };
        let mut runs = Runs::new(&options, &stop);
        runs.make(wanted.clone());
        assert_eq!(runs.count(), 6);
        let mut all: Vec<Measured> = Vec::new();
        for run in &wanted {
            all.extend_from_slice(runs.get(run).expect("made"));
        }
        // How long a run took here is no part of what it gave.
        all.iter_mut().for_each(|one| one.row.wall_seconds = 0.0);
        serde_json::to_string(&all).expect("plain data")
    };
    let in_turn = made(1);
    assert!(in_turn.contains("\"traits\":{"), "{in_turn}");
    assert_eq!(made(4), in_turn);
}
