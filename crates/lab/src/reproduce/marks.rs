//! The paper's values at the places of a plot where ours stand.
//!
//! Papers give few values in words, and most of these are ratios. So a mark says what it is:
//!
//! * a value of the paper's own, where a claim is one of a value that the plot has;
//! * the paper's ratio times our value of what it is compared with, where a claim compares two runs of which the
//!   first is in the plot: the mark is where our value would be if the ratio were the paper's;
//! * likewise of a mean over several points, at each of them: the paper gives no value for any single one.
//!
//! A claim of the greatest or least of several points, of an order or of a bound says nothing of any one place and
//! gives no mark. Of several marks for a place the first of the most exact kind is drawn.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::{Cell, Figure, Formula, Panel, Plot, Term};
use super::outcome::{FoundPanel, value_of};
use super::paper::{ClaimKind, PaperClaim, PaperFigure};
use super::runs::Runs;

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The paper's own value.
    Value,
    /// The paper's ratio, times our value of what it is compared with.
    Ratio,
    /// The paper's mean ratio over several points, times our value of what it is compared with at this one.
    MeanRatio,
}

/// The paper's value for one of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// The series of the value that it stands at, counted from 0.
    pub series: usize,
    /// The point, counted from 0.
    pub point: usize,
    /// Where it stands on the axis.
    pub value: f64,
    /// What it says.
    pub basis: Basis,
    /// The name of the claim that it comes from.
    pub claim: String,
}

/// The marks of a panel.
pub(super) fn marks(
    figure: &Figure,
    (panel, found): (&Panel, &FoundPanel),
    told: &PaperFigure,
    runs: &Runs,
) -> Vec<Mark> {
    // A layer of a stack does not begin at 0, and the columns of a table stand beside ours as bars.
    if figure.plot == Plot::Stacks || told.table.is_some() {
        return Vec::new();
    }
    let mut best: BTreeMap<(usize, usize), Mark> = BTreeMap::new();
    for claim in told.claims.iter().filter(|claim| !claim.is_input) {
        let defined = figure.claims.iter().find(|c| c.id == claim.id);
        let Some(Formula::Mean(terms)) = defined.map(|claim| &claim.formula) else {
            continue;
        };
        for mark in of_claim(claim, terms, (panel, found), runs) {
            let place = best.entry((mark.series, mark.point));
            place
                .and_modify(|old| {
                    if mark.basis < old.basis {
                        *old = mark.clone();
                    }
                })
                .or_insert(mark);
        }
    }
    best.into_values().collect()
}

/// The marks that a claim gives.
fn of_claim(
    claim: &PaperClaim,
    terms: &[Term],
    (panel, found): (&Panel, &FoundPanel),
    runs: &Runs,
) -> Vec<Mark> {
    let cells: Option<Vec<&Cell>> = terms.iter().map(cell_of).collect();
    let (Some(cells), Some(paper)) = (cells, value_in(claim)) else {
        return Vec::new();
    };
    // A run that is compared with several others has no one place.
    if cells
        .iter()
        .enumerate()
        .any(|(at, cell)| cells[..at].iter().any(|c| c.run == cell.run))
    {
        return Vec::new();
    }
    let mark = |cell: &&Cell| {
        let (series, point, drawn) = place_of(cell, panel)?;
        let (basis, value) = match cell.to {
            None if cells.len() > 1 || drawn.to.is_some() || drawn.factor != cell.factor => {
                return None;
            }
            None => (Basis::Value, paper),
            Some(_) => {
                let basis = if cells.len() > 1 {
                    Basis::MeanRatio
                } else {
                    Basis::Ratio
                };
                let ours = found.series[series].values[point]?;
                (basis, ours / value_of(cell, runs).ok()? * paper)
            }
        };
        value.is_finite().then(|| Mark {
            series,
            point,
            value,
            basis,
            claim: claim.id.clone(),
        })
    };
    cells.iter().filter_map(mark).collect()
}

/// The one cell of a term; `None` of a ratio of ratios.
fn cell_of(term: &Term) -> Option<&Cell> {
    match (&term.over[..], &term.under[..]) {
        ([cell], []) => Some(cell),
        _ => None,
    }
}

/// The paper's figure as cells have it; `None` of an order or a bound.
fn value_in(claim: &PaperClaim) -> Option<f64> {
    match claim.kind {
        ClaimKind::Share => Some(claim.value? / 100.0),
        ClaimKind::Amount => claim.value,
        ClaimKind::Order | ClaimKind::AtMost => None,
        ClaimKind::Times | ClaimKind::More | ClaimKind::Less => claim.paper_ratio(),
    }
}

/// Where a panel has the metric of a cell's run.
fn place_of<'a>(cell: &Cell, panel: &'a Panel) -> Option<(usize, usize, &'a Cell)> {
    let series = panel.series.iter().enumerate();
    let mut places = series.flat_map(|(at, series)| {
        let cells = series.cells.iter().enumerate();
        cells.filter_map(move |(point, drawn)| Some((at, point, drawn.as_ref()?)))
    });
    // What perfect scaling would give is drawn of the same run, with a factor.
    places.find(|(_, _, drawn)| {
        drawn.run == cell.run && drawn.metric == cell.metric && drawn.factor == 1.0
    })
}
