//! What a paper says of its own results, read from its data file in `configs/paper/`.
//!
//! The files are apart from all code on purpose: a report puts these figures beside the ones obtained
//! here, and nothing else may read them. A model that knew what it should find would prove nothing.

use serde::{Deserialize, Serialize};

use super::subject::Subject;

/// A paper's figures and claims.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its title.
    pub title: String,
    /// Its authors, venue and year.
    pub cite: String,
    /// Its figures and tables, in its order.
    #[serde(rename = "figure")]
    pub figures: Vec<PaperFigure>,
}

/// One figure or table, and what the text says of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Its short name, such as `fig11a`.
    pub name: String,
    /// The section that speaks of it.
    pub section: String,
    /// What it shows, in our words.
    pub title: String,
    /// What the text says of it.
    #[serde(default, rename = "claim")]
    pub claims: Vec<PaperClaim>,
    /// The paper's own table.
    #[serde(default)]
    pub table: Option<PaperTable>,
}

/// A statement of the paper that a run can test.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperClaim {
    /// Its name within the figure.
    pub id: String,
    /// The section that has it, where it is not the figure's.
    pub section: Option<String>,
    /// The statement in our words.
    pub text: String,
    /// How the value is meant.
    pub kind: ClaimKind,
    /// The paper's figure; none for an order.
    pub value: Option<f64>,
    /// The unit of an amount.
    pub unit: Option<String>,
    /// How the sentence was read where it leaves a choice.
    pub reading: Option<String>,
    /// What is known to be different here and bears on it.
    pub difference: Option<String>,
    /// Another claim, as `figure/claim`, which says the same of the same runs in other words: both are one
    /// verdict.
    pub same_as: Option<String>,
    /// Why it does not count among the quantified claims, as part of a sentence.
    pub left_out: Option<String>,
    /// It is an input of the runs.
    #[serde(default)]
    pub is_input: bool,
    /// How far ours may be off, as a factor, for shares and amounts.
    pub within: Option<f64>,
}

impl PaperClaim {
    /// The paper's ratio of A to B, of claims that compare and give a figure.
    pub fn paper_ratio(&self) -> Option<f64> {
        let value = self.value?;
        match self.kind {
            ClaimKind::Times => Some(value),
            ClaimKind::More => Some(1.0 + value / 100.0),
            ClaimKind::Less => Some(1.0 - value / 100.0),
            _ => None,
        }
    }

    /// True if it gives a figure that ours can be near to or far from.
    pub fn is_quantified(&self) -> bool {
        let is_figure = !matches!(self.kind, ClaimKind::Order | ClaimKind::AtMost);
        is_figure && !self.is_input && self.left_out.is_none()
    }
}

/// How a claim's value is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// A is `value` times B.
    Times,
    /// A is `value` percent more than B.
    More,
    /// A is `value` percent less than B.
    Less,
    /// A is at most `value` percent more than B.
    AtMost,
    /// A share, in percent.
    Share,
    /// A quantity with a unit.
    Amount,
    /// A is more than B.
    Order,
}

/// A table of figures: rows by name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperTable {
    /// The columns.
    pub columns: Vec<String>,
    /// Columns that are shares, in percent.
    #[serde(default)]
    pub shares: Vec<String>,
    /// Columns that are inputs of the runs.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Columns to which the workloads were fitted, and which the runs can miss all the same.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// The rows.
    pub rows: Vec<PaperRow>,
}

/// A row of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRow {
    /// What it is of.
    pub name: String,
    /// One value for each column.
    pub values: Vec<f64>,
    /// Why nothing is made here that could be compared with them, as part of a sentence.
    #[serde(default)]
    pub not_made: Option<String>,
}

impl Paper {
    /// What a paper says.
    ///
    /// # Panics
    /// If the built-in file is broken, which a test rules out.
    pub fn of(subject: Subject) -> Paper {
        let mut paper: Paper = toml::from_str(subject.data()).expect("the built-in file is valid");
        for figure in &mut paper.figures {
            if let Some(table) = &figure.table {
                figure.claims.extend(cells(table));
            }
        }
        paper
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&PaperFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// Every cell of a table as a claim named `row.column`.
fn cells(table: &PaperTable) -> Vec<PaperClaim> {
    let cell = |row: &PaperRow, column: &String, value: f64| PaperClaim {
        id: format!("{}.{column}", row.name),
        section: None,
        text: format!("{}: {}.", row.name, column.replace('_', " ")),
        kind: match table.shares.contains(column) {
            true => ClaimKind::Share,
            false => ClaimKind::Amount,
        },
        value: Some(value),
        unit: None,
        reading: None,
        difference: None,
        same_as: None,
        left_out: row.not_made.clone().or_else(|| {
            let is_fitted = table.fitted.contains(column);
            is_fitted.then(|| "the workloads were fitted to it".into())
        }),
        is_input: table.inputs.contains(column),
        within: None,
    };
    let rows = table.rows.iter();
    rows.flat_map(|row| {
        let columns = table.columns.iter().zip(&row.values);
        columns.map(move |(column, value)| cell(row, column, *value))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_figure_has_claims_with_a_section_and_a_value() {
        for subject in Subject::ALL {
            let paper = Paper::of(subject);
            let least = match subject {
                Subject::Indexless | Subject::Stor | Subject::Omni => 5,
                Subject::Scala | Subject::Scale => 12,
            };
            assert!(paper.figures.len() >= least, "{}", paper.figures.len());
            for figure in &paper.figures {
                let name = format!("{}/{}", subject.name(), figure.name);
                assert!(!figure.claims.is_empty(), "{name}");
                // Or of the appendix.
                let section = figure.section.strip_prefix("A.");
                let section = section.unwrap_or(&figure.section);
                assert!(section.starts_with(char::is_numeric), "{name}");
                let ids: BTreeSet<&str> = figure.claims.iter().map(|c| c.id.as_str()).collect();
                assert_eq!(ids.len(), figure.claims.len(), "{name}: ids");
                for claim in &figure.claims {
                    let order = claim.kind == ClaimKind::Order;
                    assert_eq!(claim.value.is_none(), order, "{name}.{}", claim.id);
                    assert!(claim.text.ends_with('.'), "{name}.{}", claim.id);
                }
            }
        }
    }

    #[test]
    fn claims_that_are_the_same_name_an_earlier_one() {
        for subject in Subject::ALL {
            let mut known = BTreeSet::new();
            for figure in Paper::of(subject).figures {
                for claim in &figure.claims {
                    if let Some(same) = &claim.same_as {
                        assert!(known.contains(same), "{}/{}", figure.name, claim.id);
                    }
                    known.insert(format!("{}/{}", figure.name, claim.id));
                }
            }
        }
    }

    #[test]
    fn a_table_is_as_wide_as_its_heading() {
        for figure in Subject::ALL
            .map(Paper::of)
            .into_iter()
            .flat_map(|p| p.figures)
        {
            let Some(table) = figure.table else { continue };
            let mut named = table
                .inputs
                .iter()
                .chain(&table.fitted)
                .chain(&table.shares);
            assert!(named.all(|name| table.columns.contains(name)));
            for row in &table.rows {
                assert_eq!(row.values.len(), table.columns.len(), "{}", row.name);
                let why = row.not_made.as_deref().unwrap_or("there is a reason");
                assert!(!why.is_empty() && !why.ends_with('.'), "{}", row.name);
            }
        }
    }
}
