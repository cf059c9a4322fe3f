//! What a paper says of its own results, read from its data file in `configs/paper/`.
//!
//! The files are apart from all code on purpose: a report puts these figures beside the ones obtained
//! here, and nothing else may read them. A model that knew what it should find would prove nothing.

use serde::{Deserialize, Serialize};

use super::subject::Subject;

/// A table's cells may be this far from the paper's, up or down, as a factor.
const TABLE_WITHIN: f64 = 1.25;

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
    /// How far ours may be off, as a factor, for shares and amounts.
    pub within: Option<f64>,
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
        text: format!("{}: {}.", row.name, column.replace('_', " ")),
        kind: ClaimKind::Amount,
        value: Some(value),
        unit: None,
        reading: None,
        difference: None,
        within: Some(TABLE_WITHIN),
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
            assert!(paper.figures.len() >= 12, "{}", paper.figures.len());
            for figure in &paper.figures {
                let name = format!("{}/{}", subject.name(), figure.name);
                assert!(!figure.claims.is_empty(), "{name}");
                assert!(figure.section.starts_with(char::is_numeric), "{name}");
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
    fn a_table_is_as_wide_as_its_heading() {
        for figure in Subject::ALL
            .map(Paper::of)
            .into_iter()
            .flat_map(|p| p.figures)
        {
            let Some(table) = figure.table else { continue };
            for row in &table.rows {
                assert_eq!(row.values.len(), table.columns.len(), "{}", row.name);
            }
        }
    }
}
