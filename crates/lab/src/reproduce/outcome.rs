//! What a reproduction found: plain data that the terminal, the JSON files and the pages show.
//!
//! 1. Each cell of a figure gets its value, or the reason why it has none.
//! 2. Each claim is evaluated for each seed, judged, and put into a sentence. A cell shows the mean of the seeds.
//! 3. Where a claim does not hold whole, the sentence goes on with what was measured of the runs behind
//!    it: who was busy, and how much collection there was.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::Estimate;
use super::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Term};
use super::marks::{Mark, marks};
use super::paper::{Paper, PaperClaim, PaperFigure, PaperTable};
use super::run::Run;
use super::runs::{Gap, Measured, Runs};
use super::score::Score;
use super::setup::Scale;
use super::subject::Subject;
use super::verdict::{Verdict, judge, spoken_by_paper, spoken_estimate};
use crate::report::format;
use crate::result::{CostTable, CpuPart};

/// Name and version of the format that a [`Finding`] is written in.
pub const SCHEMA: &str = "wharf.reproduce/2";

/// What all figures of a reproduction share.
#[derive(Debug, Clone, Serialize)]
pub struct Ground {
    /// The paper, by its name on the command line.
    pub subject: Subject,
    /// The paper's title.
    pub paper: String,
    /// Its authors, venue and year.
    pub cite: String,
    /// The first seed.
    pub seed: u64,
    /// Seeds that every run was made with, one after another from the first.
    pub seeds: u32,
    /// How much smaller than the paper's the set-up is.
    pub scale: Scale,
    /// The costs of CPU work.
    pub cost_table: CostTable,
    /// The commit that Wharf was built from.
    pub commit: String,
    /// What a reader has to know, one sentence each.
    pub notes: Vec<String>,
}

/// One figure with what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What all figures share.
    pub ground: Ground,
    /// The figure's short name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The paper's section on it.
    pub section: String,
    /// How it is drawn.
    pub plot: Plot,
    /// What the points stand for.
    pub points: String,
    /// What the values are.
    pub axis: String,
    /// Its axes.
    pub panels: Vec<FoundPanel>,
    /// The paper's own table.
    pub paper_table: Option<PaperTable>,
    /// What the paper says, what was found, and whether it agrees.
    pub claims: Vec<FoundClaim>,
    /// What a reader has to know about the figure.
    pub notes: Vec<String>,
    /// Why cells are empty, with the number of cells.
    pub gaps: BTreeMap<String, u32>,
}

/// One pair of axes with its values.
#[derive(Debug, Clone, Serialize)]
pub struct FoundPanel {
    /// What it is of.
    pub title: String,
    /// Names of the points.
    pub points: Vec<String>,
    /// The values.
    pub series: Vec<FoundSeries>,
    /// The paper's values for some of them.
    pub marks: Vec<Mark>,
}

/// A value for each point.
#[derive(Debug, Clone, Serialize)]
pub struct FoundSeries {
    /// Its name.
    pub name: String,
    /// Values; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// A claim and how it fares.
#[derive(Debug, Clone, Serialize)]
pub struct FoundClaim {
    /// Its name.
    pub id: String,
    /// The paper's section.
    pub section: String,
    /// The statement in our words.
    pub text: String,
    /// The paper's value, in words.
    pub paper: String,
    /// The paper's value as the data file has it; `None` for an order.
    pub paper_value: Option<f64>,
    /// Ours: a ratio, a share from 0 to 1, or an amount, over the seeds; `None` if not tested.
    pub ours_value: Option<Estimate>,
    /// Ours in the paper's words.
    pub ours: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The claim, as `figure/claim`, that rests on equal runs and is judged in its place.
    pub judged_as: Option<String>,
    /// It is one of the distinct quantified claims.
    pub counts: bool,
    /// One sentence or two: the verdict and why.
    pub sentence: String,
}

/// Everything found.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// What all figures share.
    pub ground: Ground,
    /// The figures, in the order of the paper.
    pub findings: Vec<Finding>,
    /// What their claims come to.
    pub score: Score,
    /// Runs that went wrong, each in a line.
    pub failures: Vec<String>,
    /// Number of runs that gave something.
    pub runs: usize,
    /// True if it was stopped.
    pub interrupted: bool,
}

/// Puts a figure together from its definition, the paper and the runs.
pub(super) fn find(figure: &Figure, paper: &Paper, runs: &Runs, ground: &Ground) -> Finding {
    let told = paper
        .figure(&figure.name)
        .expect("a test compares the names");
    let mut gaps = BTreeMap::new();
    let panels = figure.panels.iter();
    let mut panels: Vec<FoundPanel> = panels
        .map(|panel| panel_of(panel, runs, &mut gaps))
        .collect();
    for (panel, found) in figure.panels.iter().zip(&mut panels) {
        found.marks = marks(figure, (panel, found), told, runs);
    }
    if let Some(table) = &told.table {
        beside(table, &mut panels);
    }
    let claims = told.claims.iter().map(|claim| {
        let formula = figure.claims.iter().find(|c| c.id == claim.id);
        claim_of(
            claim,
            told,
            formula.expect("a test compares the claims"),
            runs,
        )
    });
    Finding {
        schema: SCHEMA,
        ground: ground.clone(),
        name: figure.name.clone(),
        title: told.title.clone(),
        section: told.section.clone(),
        plot: figure.plot,
        points: figure.points.clone(),
        axis: figure.axis.clone(),
        panels,
        paper_table: told.table.clone(),
        claims: claims.collect(),
        notes: figure.notes.clone(),
        gaps,
    }
}

/// Puts the columns of the paper's table beside ours: a panel for each, in the same order. Not if its rows are none of
/// ours.
fn beside(table: &PaperTable, panels: &mut [FoundPanel]) {
    let is_row = |point: &String| table.rows.iter().any(|row| row.name == *point);
    if !panels.iter().any(|panel| panel.points.iter().any(is_row)) {
        return;
    }
    for (column, panel) in panels.iter_mut().enumerate() {
        // The paper's shares are in percent, ours from 0 to 1.
        let is_share = table.shares.contains(&table.columns[column]);
        let whole = if is_share { 100.0 } else { 1.0 };
        let value = |point: &String| {
            let row = table.rows.iter().find(|row| row.name == *point)?;
            row.values.get(column).map(|value| value / whole)
        };
        panel.series.push(FoundSeries {
            name: "paper".into(),
            values: panel.points.iter().map(value).collect(),
        });
    }
}

fn panel_of(panel: &Panel, runs: &Runs, gaps: &mut BTreeMap<String, u32>) -> FoundPanel {
    let mut value = |cell: &Option<Cell>| {
        let found = match cell {
            Some(cell) => value_of(cell, runs),
            None => Err(Gap::missing("no CPU is left for a client")),
        };
        found
            .map_err(|gap| *gaps.entry(gap.reason).or_insert(0) += 1)
            .ok()
    };
    let mut series = Vec::new();
    for of_panel in &panel.series {
        series.push(FoundSeries {
            name: of_panel.name.clone(),
            values: of_panel.cells.iter().map(&mut value).collect(),
        });
    }
    FoundPanel {
        title: panel.title.clone(),
        points: panel.points.clone(),
        series,
        marks: Vec::new(),
    }
}

/// A cell's mean over the seeds.
pub(super) fn value_of(cell: &Cell, runs: &Runs) -> Result<f64, Gap> {
    let seeds = seeds_of(std::iter::once(&cell.run).chain(&cell.to), runs)?;
    let values = (0..seeds).map(|seed| value_with(cell, runs, seed));
    Ok(values.sum::<Result<f64, Gap>>()? / seeds as f64)
}

/// The seeds that all of these runs were made with.
fn seeds_of<'a>(of: impl IntoIterator<Item = &'a Run>, runs: &Runs) -> Result<usize, Gap> {
    let mut least = usize::MAX;
    for run in of {
        least = least.min(runs.get(run)?.len());
    }
    Ok(least)
}

fn value_with(cell: &Cell, runs: &Runs, seed: usize) -> Result<f64, Gap> {
    let read = |run: &Run| {
        let measured = &runs.get(run)?[seed];
        cell.metric.of(measured).map_err(Gap::missing)
    };
    let value = read(&cell.run)? * cell.factor;
    let value = match &cell.to {
        Some(to) => value / read(to)?,
        None => value,
    };
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Gap::missing("nothing to divide by"))
    }
}

fn term_with(term: &Term, runs: &Runs, seed: usize) -> Result<f64, Gap> {
    let product = |cells: &[Cell]| {
        let values = cells.iter().map(|cell| value_with(cell, runs, seed));
        values.product::<Result<f64, Gap>>()
    };
    let value = product(&term.over)? / product(&term.under)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Gap::missing("nothing to divide by"))
    }
}

fn evaluate(formula: &Formula, runs: &Runs) -> Result<Estimate, Gap> {
    if formula.terms().is_empty() {
        return Err(Gap::missing(match formula {
            Formula::Untested(why) => why,
            _ => "no CPU is left for a client",
        }));
    }
    let seeds = seeds_of(&formula.runs(), runs)?;
    let values = (0..seeds).map(|seed| evaluate_with(formula, runs, seed));
    Ok(Estimate::of(&values.collect::<Result<Vec<f64>, Gap>>()?))
}

fn evaluate_with(formula: &Formula, runs: &Runs, seed: usize) -> Result<f64, Gap> {
    let terms = formula.terms().iter();
    let terms = terms.map(|term| term_with(term, runs, seed));
    let terms: Vec<f64> = terms.collect::<Result<_, Gap>>()?;
    Ok(match formula {
        Formula::Most(_) => terms.iter().copied().fold(f64::MIN, f64::max),
        Formula::Least(_) => terms.iter().copied().fold(f64::MAX, f64::min),
        _ => terms.iter().sum::<f64>() / terms.len() as f64,
    })
}

fn claim_of(claim: &PaperClaim, figure: &PaperFigure, formula: &Claim, runs: &Runs) -> FoundClaim {
    let ours = evaluate(&formula.formula, runs);
    let verdict = match &ours {
        _ if claim.is_input => Verdict::Input,
        Ok(ours) => judge(claim, ours),
        Err(_) => Verdict::Untested,
    };
    let paper = spoken_by_paper(claim);
    let said = ours.as_ref().map(|ours| spoken_estimate(claim, ours));
    let sentence = match &said {
        Ok(said) => sentence(claim, verdict, said, &paper, &formula.formula, runs),
        Err(gap) => format!("Not tested: {}.", gap.reason),
    };
    FoundClaim {
        id: claim.id.clone(),
        section: claim.section.as_ref().unwrap_or(&figure.section).clone(),
        text: claim.text.clone(),
        paper,
        paper_value: claim.value,
        ours_value: ours.as_ref().ok().copied(),
        ours: said.unwrap_or_else(|_| "–".into()),
        verdict,
        judged_as: None,
        counts: claim.is_quantified(),
        sentence,
    }
}

/// The verdict in a sentence, and where it is not plain "holds", what is known of why.
fn sentence(
    claim: &PaperClaim,
    verdict: Verdict,
    ours: &str,
    paper: &str,
    formula: &Formula,
    runs: &Runs,
) -> String {
    let mut text = match verdict {
        Verdict::HoldsClosely => format!("Holds closely: {ours}; the paper has {paper}."),
        Verdict::Holds => format!("Holds: {ours}; the paper has {paper}."),
        Verdict::WithinNoise => format!(
            "Within noise: {ours}, which the seeds cannot tell from the opposite; the paper has {paper}."
        ),
        Verdict::Input => format!("An input: {ours} here, {paper} in the paper."),
        Verdict::DirectionOnly => {
            format!("The direction holds, the size does not: {ours} here, {paper} in the paper.")
        }
        Verdict::Fails => format!("Does not hold here: {ours}, where the paper has {paper}."),
        Verdict::Untested => "Not tested.".into(),
    };
    if !verdict.is_found() && verdict != Verdict::Input {
        if let Some(difference) = &claim.difference {
            text = format!("{text} {difference}");
        }
        text = format!(
            "{text} Measured of the runs behind it: {}.",
            load(formula, runs)
        );
    }
    if let Some(reading) = &claim.reading {
        text = format!("{text} Read as: {reading}.");
    }
    text
}

/// How busy each part was in the runs of a formula, by design: what bounded them.
fn load(formula: &Formula, runs: &Runs) -> String {
    let mut by_design: BTreeMap<String, Vec<&Measured>> = BTreeMap::new();
    for run in formula.runs() {
        if let Ok(measured) = runs.get(&run) {
            let managers = match run.managers {
                0 => String::new(),
                n => format!(" ({n} managers)"),
            };
            let aware = if run.gc_aware { "" } else { " unaware of GC" };
            let place = if run.in_kernel { " in the kernel" } else { "" };
            let (table, array) = (run.table(), run.array());
            let name = format!("{}{managers}{aware}{table}{place}{array}", run.design);
            by_design.entry(name).or_default().extend(measured);
        }
    }
    let parts: Vec<String> = by_design
        .iter()
        .map(|(name, runs)| format!("{name}: {}", load_of(runs)))
        .collect();
    parts.join("; ")
}

fn load_of(runs: &[&Measured]) -> String {
    let mean = |of: &dyn Fn(&Measured) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let busy = |part: CpuPart| {
        mean(&|run: &Measured| {
            let group = run.row.cpus.iter().find(|group| group.part == part);
            group.map(|group| group.busy_share)
        })
    };
    let named = [
        ("clients busy", busy(CpuPart::Clients)),
        ("services busy", busy(CpuPart::Services)),
        ("drive cores busy", busy(CpuPart::Cores)),
        ("collecting", mean(&|run| Some(run.row.gc_share))),
        ("hits", mean(&|run| run.row.hit_ratio)),
        (
            "misses found in frames",
            mean(&|run| run.row.frame_hit_ratio),
        ),
    ];
    let said = named.iter().filter_map(|(name, share)| {
        share.map(|share| format!("{name} {} %", format::percent(share)))
    });
    said.collect::<Vec<_>>().join(", ")
}
