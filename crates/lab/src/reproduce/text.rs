//! A reproduction as text for a terminal or a pipe.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::figure::Plot;
use super::outcome::{Finding, FoundClaim, FoundPanel, Ground, Reproduction};
use super::page::{counted, sentence_case};
use super::paper::Paper;
use super::subject::Subject;
use super::verdict::Verdict;
use crate::report::format;
use crate::report::table::wrapped;

/// A figure with more claims than this shows only those that do not hold.
const CLAIMS_SHOWN_MAX: usize = 12;

/// Every figure in a line, paper by paper.
pub fn listing() -> String {
    Subject::ALL.map(listing_of).concat()
}

fn listing_of(subject: Subject) -> String {
    let (paper, name) = (Paper::of(subject), subject.name());
    let mut text = format!("{name:14} all of them: {}\n", paper.cite);
    for figure in subject.figures() {
        let figure = figure.name();
        let told = paper.figure(figure).expect("a test compares the names");
        let _ = writeln!(
            text,
            "{:14} {} (section {}, {})",
            format!("{name}/{figure}"),
            told.title,
            told.section,
            format::counted(told.claims.len() as u64, "claim"),
        );
    }
    text
}

/// One figure: its tables, its claims, what a reader has to know.
pub fn render(finding: &Finding, width: usize) -> String {
    let mut text = format!(
        "{}/{}: {} (section {})\n",
        finding.ground.subject.name(),
        finding.name,
        finding.title,
        finding.section
    );
    let _ = writeln!(text, "{}", finding.axis);
    for panel in &finding.panels {
        let title = match panel.title.is_empty() {
            true => String::new(),
            false => format!("{}\n", panel.title),
        };
        let _ = write!(text, "\n{title}{}", table(panel, finding.plot));
    }
    text.push('\n');
    claims(&mut text, &finding.claims, width);
    for (reason, cells) in &finding.gaps {
        let cells = format::counted(u64::from(*cells), "cell");
        wrapped(&mut text, "no value", &format!("{cells}: {reason}"), width);
    }
    for note in &finding.notes {
        wrapped(&mut text, "note", note, width);
    }
    text
}

/// Points as rows and series as columns; a breakdown the other way round, as its layers are many.
fn table(panel: &FoundPanel, plot: Plot) -> String {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    let cell = |value: Option<f64>| format::optional(value);
    let first = [String::new()];
    if plot == Plot::Stacks {
        table.set_header(first.iter().chain(&panel.points));
        for series in &panel.series {
            let values = series.values.iter().map(|value| cell(*value));
            table.add_row([series.name.clone()].into_iter().chain(values));
        }
    } else {
        let names = panel
            .series
            .iter()
            .map(|s| s.name.replace("TriCache", "Tri"));
        table.set_header(first.into_iter().chain(names));
        for (index, point) in panel.points.iter().enumerate() {
            let values = panel.series.iter().map(|s| cell(s.values[index]));
            table.add_row([point.clone()].into_iter().chain(values));
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

fn claims(text: &mut String, claims: &[FoundClaim], width: usize) {
    let long = claims.len() > CLAIMS_SHOWN_MAX;
    let shown = claims
        .iter()
        .filter(|claim| !long || claim.verdict == Verdict::Fails);
    for claim in shown {
        let _ = writeln!(text, "{:15} {}", short(claim.verdict), claim.text);
        wrapped(text, "", &claim.sentence, width);
    }
    let _ = writeln!(text, "{}", counted(claims));
}

/// The verdict in a column's width.
fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::HoldsClosely => "holds closely",
        Verdict::Holds => "holds",
        Verdict::DirectionOnly => "direction only",
        Verdict::WithinNoise => "within noise",
        Verdict::Fails => "DOES NOT HOLD",
        Verdict::Untested => "not tested",
        Verdict::Input => "input",
    }
}

/// What all figures come to, after the last of them.
pub fn summary(reproduction: &Reproduction, width: usize) -> String {
    let mut text = String::new();
    for finding in &reproduction.findings {
        let _ = writeln!(text, "{:8} {}", finding.name, counted(&finding.claims));
    }
    text.push('\n');
    let ground = &reproduction.ground;
    for note in &ground.notes {
        wrapped(&mut text, "note", &sentence_case(note), width);
    }
    let costs = &ground.cost_table;
    let runs = format!(
        "{} made; {}, cost table {} ({}, {}), commit {}",
        format::counted(reproduction.runs as u64, "run"),
        seeds(ground),
        costs.name,
        costs.machine,
        costs.date,
        ground.commit
    );
    wrapped(&mut text, "runs", &runs, width);
    let score = &reproduction.score;
    for merged in &score.merged {
        let same = format!("{}: one verdict with {}", merged.claim, merged.judged_as);
        wrapped(&mut text, "merged", &same, width);
    }
    for (why, claims) in &score.left_out {
        let out = format!("{}: {why}", claims.join(", "));
        wrapped(&mut text, "left out", &out, width);
    }
    for failure in &reproduction.failures {
        wrapped(&mut text, "FAILED", failure, width);
    }
    let name = ground.subject.name();
    for line in score.lines().lines() {
        let _ = writeln!(text, "{name}: {line}");
    }
    text
}

/// The seeds in words.
pub(super) fn seeds(ground: &Ground) -> String {
    match ground.seeds {
        1 => format!("seed {}", ground.seed),
        n => format!(
            "seeds {} to {}",
            ground.seed,
            ground.seed + u64::from(n) - 1
        ),
    }
}
