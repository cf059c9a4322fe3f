//! The figures of each paper: data, in a file of its own for each.
//!
//! A file of `configs/paper/` whose name ends in `-figures` says for each figure which runs it is of, what is read off
//! them, and how claims come from these values; nothing in it is a result of the paper.
//!
//! | file | idea |
//! |---|---|
//! | `definition.rs` | a figure: panels, points and series, and what all cells have |
//! | `setting.rs` | what a cell is of: design, workload, parameters, metric, factor |
//! | `axis.rs` | values that a figure goes through |
//! | `claim.rs` | how cells make the value of a claim |
//!
//! The words for metrics are those of `vocabulary.rs`.

mod axis;
mod claim;
mod definition;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use self::axis::Axis;
use self::definition::FigureData;
use self::setting::Setting;
use super::figure::Figure;
use super::run::Workloads;
use super::subject::Subject;

/// A figure that can be made.
#[derive(Debug)]
pub struct Definition {
    subject: Subject,
    data: FigureData,
}

impl Definition {
    /// Its name, as in the paper's data.
    pub fn name(&self) -> &str {
        &self.data.name
    }

    /// The figure for some workloads.
    ///
    /// # Panics
    /// If its data are broken, which reading them rules out.
    pub fn make(&self, workloads: &Workloads) -> Figure {
        let made = self.data.make(self.subject, workloads);
        made.unwrap_or_else(|cause| panic!("{cause}"))
    }
}

/// The figures of a paper, in its order.
///
/// # Panics
/// If the built-in file is broken, which a test rules out.
pub fn of(subject: Subject) -> &'static [Definition] {
    static SCALA: LazyLock<Vec<Definition>> = LazyLock::new(|| built_in(Subject::Scala));
    static SCALE: LazyLock<Vec<Definition>> = LazyLock::new(|| built_in(Subject::Scale));
    static INDEXLESS: LazyLock<Vec<Definition>> = LazyLock::new(|| built_in(Subject::Indexless));
    static STOR: LazyLock<Vec<Definition>> = LazyLock::new(|| built_in(Subject::Stor));
    static OMNI: LazyLock<Vec<Definition>> = LazyLock::new(|| built_in(Subject::Omni));
    match subject {
        Subject::Omni => &OMNI,
        Subject::Scala => &SCALA,
        Subject::Scale => &SCALE,
        Subject::Indexless => &INDEXLESS,
        Subject::Stor => &STOR,
    }
}

/// A paper's file: its name and text.
fn file(subject: Subject) -> (&'static str, &'static str) {
    match subject {
        Subject::Scala => (
            "configs/paper/scala-figures.toml",
            include_str!("../../../../../configs/paper/scala-figures.toml"),
        ),
        Subject::Scale => (
            "configs/paper/scale-figures.toml",
            include_str!("../../../../../configs/paper/scale-figures.toml"),
        ),
        Subject::Indexless => (
            "configs/paper/indexless-figures.toml",
            include_str!("../../../../../configs/paper/indexless-figures.toml"),
        ),
        Subject::Omni => (
            "configs/paper/omni-figures.toml",
            include_str!("../../../../../configs/paper/omni-figures.toml"),
        ),
        Subject::Stor => (
            "configs/paper/stor-figures.toml",
            include_str!("../../../../../configs/paper/stor-figures.toml"),
        ),
    }
}

fn built_in(subject: Subject) -> Vec<Definition> {
    let (name, text) = file(subject);
    read(subject, name, text).unwrap_or_else(|cause| panic!("{cause}"))
}

/// A file of figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// What all cells of all figures have.
    #[serde(default)]
    run: Setting,
    /// Notes of several figures.
    #[serde(default)]
    notes: BTreeMap<String, String>,
    /// Axes of several figures.
    #[serde(default)]
    axes: BTreeMap<String, Axis>,
    /// The figures, in the paper's order.
    figure: Vec<FigureData>,
}

/// The figures of a file.
///
/// # Errors
/// The file, where in it, and what is wrong.
fn read(subject: Subject, file: &str, text: &str) -> Result<Vec<Definition>, String> {
    let document: Document = toml::from_str(text).map_err(|cause| format!("{file}: {cause}"))?;
    let Document {
        run,
        notes,
        axes,
        figure,
    } = document;
    let define = |mut data: FigureData| {
        let name = data.name.clone();
        let resolved = resolve(&mut data, &run, &notes, &axes);
        resolved.map_err(|cause| format!("{file}: figure '{name}': {cause}"))?;
        let made = data.make(subject, &Workloads::own());
        made.map_err(|cause| format!("{file}: {cause}"))?;
        Ok(Definition { subject, data })
    };
    figure.into_iter().map(define).collect()
}

/// Puts into a figure what it has in common with others.
fn resolve(
    data: &mut FigureData,
    run: &Setting,
    notes: &BTreeMap<String, String>,
    axes: &BTreeMap<String, Axis>,
) -> Result<(), String> {
    data.run = run.with(&data.run);
    for note in &mut data.notes {
        if let Some(name) = note.strip_prefix('@') {
            let named = notes.get(name).ok_or_else(|| format!("no note '{name}'"))?;
            *note = named.clone();
        }
    }
    data.axes().try_for_each(|axis| axis.resolve(axes))
}
