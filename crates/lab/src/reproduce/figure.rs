//! What a figure is: data that says which runs it shows, how, and which claims they test.
//!
//! A figure's definition runs nothing. Its cells name runs and metrics; the runs of a figure are those
//! that its cells and claims name, and a run that several figures name is made once.

use std::collections::BTreeSet;

use super::metric::Metric;
use super::run::Run;

/// A figure or table of the paper, as it is obtained here.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its short name, as in the paper's data file.
    pub name: String,
    /// How it is drawn.
    pub plot: Plot,
    /// What the points stand for.
    pub points: String,
    /// What the values are.
    pub axis: String,
    /// Its parts, each with axes of its own.
    pub panels: Vec<Panel>,
    /// What it tests.
    pub claims: Vec<Claim>,
    /// What a reader has to know about how it was made.
    pub notes: Vec<String>,
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// A group of bars for each point, one for each series.
    Bars,
    /// A curve for each series.
    Lines,
    /// A bar for each point, the series on top of one another.
    Stacks,
}

/// One pair of axes.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What it is of; empty if the figure has one panel.
    pub title: String,
    /// Names of the points.
    pub points: Vec<String>,
    /// The values.
    pub series: Vec<Series>,
}

/// One value for each point.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// A cell for each point; `None` where there can be no run.
    pub cells: Vec<Option<Cell>>,
}

/// `metric` of `run`, by that of `to` if there is one, times `factor`.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What is read.
    pub metric: Metric,
    /// Of which run.
    pub run: Run,
    /// What it is divided by: the same metric of another run.
    pub to: Option<Run>,
    /// A factor: how many times as much perfect scaling would give, say.
    pub factor: f64,
}

/// A claim of the paper and what it comes to here.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name in the data file.
    pub id: String,
    /// How it is put into a figure.
    pub formula: Formula,
}

/// How a claim's value comes from runs.
#[derive(Debug, Clone)]
pub enum Formula {
    /// The mean of the terms.
    Mean(Vec<Term>),
    /// The greatest term.
    Most(Vec<Term>),
    /// The least term.
    Least(Vec<Term>),
    /// Nothing here can tell, and why.
    Untested(String),
}

/// The product of some cells by that of others.
#[derive(Debug, Clone)]
pub struct Term {
    /// Factors.
    pub over: Vec<Cell>,
    /// Divisors.
    pub under: Vec<Cell>,
}

impl Cell {
    /// The metric itself.
    pub fn plain(metric: Metric, run: Run) -> Cell {
        Cell {
            metric,
            run,
            to: None,
            factor: 1.0,
        }
    }

    /// Divided by the same metric of another run.
    #[must_use]
    pub fn to(self, run: Run) -> Cell {
        Cell {
            to: Some(run),
            ..self
        }
    }

    /// Multiplied.
    #[must_use]
    pub fn times(self, factor: f64) -> Cell {
        Cell { factor, ..self }
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.run).chain(&self.to)
    }
}

impl Term {
    /// One cell.
    pub fn of(cell: Cell) -> Term {
        Term {
            over: vec![cell],
            under: Vec::new(),
        }
    }
}

impl Claim {
    /// A claim by its name.
    pub fn new(id: impl Into<String>, formula: Formula) -> Claim {
        Claim {
            id: id.into(),
            formula,
        }
    }
}

impl Formula {
    /// Its terms.
    pub fn terms(&self) -> &[Term] {
        match self {
            Formula::Mean(terms) | Formula::Most(terms) | Formula::Least(terms) => terms,
            Formula::Untested(_) => &[],
        }
    }

    /// The runs that it reads.
    pub fn runs(&self) -> BTreeSet<Run> {
        let terms = self.terms().iter();
        let cells = terms.flat_map(|term| term.over.iter().chain(&term.under));
        cells.flat_map(Cell::runs).cloned().collect()
    }
}

impl Figure {
    /// Every run that it shows or that its claims read.
    pub fn runs(&self) -> BTreeSet<Run> {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        let cells = series.flat_map(|series| series.cells.iter().flatten());
        let shown = cells.flat_map(Cell::runs).cloned();
        let claimed = self.claims.iter().flat_map(|claim| claim.formula.runs());
        shown.chain(claimed).collect()
    }
}
