//! The papers whose figures can be made, by name, and which of them a command line means.

use std::collections::BTreeSet;

use serde::Serialize;

use super::ReproduceError;
use super::figures::{self, Definition};
use super::setup;
use crate::config::nearest::nearest;

/// A paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// ScalaCache (USENIX ATC 2024).
    Scala,
    /// ScaleCache (EuroSys 2024).
    Scale,
    /// The flash cache without an index (Hao et al.).
    Indexless,
    /// StorStack (JSA 2025).
    Stor,
    /// OmniCache (FAST 2024).
    Omni,
}

impl Subject {
    /// All of them.
    pub const ALL: [Subject; 5] = [
        Subject::Scala,
        Subject::Scale,
        Subject::Indexless,
        Subject::Stor,
        Subject::Omni,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Scala => "scala",
            Subject::Scale => "scale",
            Subject::Indexless => "indexless",
            Subject::Stor => "stor",
            Subject::Omni => "omni",
        }
    }

    /// The cost table of its machine.
    pub fn costs(self) -> &'static str {
        setup::costs(self)
    }

    /// Its figures, in the paper's order.
    pub fn figures(self) -> &'static [Definition] {
        figures::of(self)
    }

    /// What its data file says.
    pub(super) fn data(self) -> &'static str {
        match self {
            Subject::Scala => include_str!("../../../../configs/paper/scala.toml"),
            Subject::Scale => include_str!("../../../../configs/paper/scale.toml"),
            Subject::Indexless => include_str!("../../../../configs/paper/indexless.toml"),
            Subject::Stor => include_str!("../../../../configs/paper/stor.toml"),
            Subject::Omni => include_str!("../../../../configs/paper/omni.toml"),
        }
    }
}

/// Some figures of a paper.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The paper.
    pub subject: Subject,
    /// The figures, in the paper's order, each once.
    pub figures: Vec<&'static Definition>,
}

/// The figures that names such as `scala` and `scala/fig11a` mean, paper by paper; all there are without
/// names.
///
/// # Errors
/// The first name that means nothing.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<Chosen>, ReproduceError> {
    let all: Vec<(String, Subject, usize)> = Subject::ALL.into_iter().flat_map(of).collect();
    let mut chosen = BTreeSet::new();
    for name in names.iter().map(AsRef::as_ref) {
        let is_meant = |(known, subject, _): &&(String, Subject, usize)| {
            known == name || subject.name() == name
        };
        let mut meant = all.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(unknown(name, &all));
        }
        chosen.extend(meant.map(|(_, subject, index)| (*subject, *index)));
    }
    if names.is_empty() {
        chosen.extend(all.iter().map(|(_, subject, index)| (*subject, *index)));
    }
    let of_subject = |subject: Subject| Chosen {
        subject,
        figures: chosen
            .iter()
            .filter(|(of, _)| *of == subject)
            .map(|(_, index)| &subject.figures()[*index])
            .collect(),
    };
    let parts = Subject::ALL.into_iter().map(of_subject);
    Ok(parts.filter(|part| !part.figures.is_empty()).collect())
}

/// A paper's figures by their full names, with their place.
fn of(subject: Subject) -> impl Iterator<Item = (String, Subject, usize)> {
    let names = subject.figures().iter().enumerate();
    names.map(move |(index, figure)| {
        (
            format!("{}/{}", subject.name(), figure.name()),
            subject,
            index,
        )
    })
}

fn unknown(name: &str, figures: &[(String, Subject, usize)]) -> ReproduceError {
    let known = figures.iter().map(|(known, ..)| known.as_str());
    let all = known.chain(Subject::ALL.map(Subject::name));
    ReproduceError::UnknownFigure {
        name: name.into(),
        nearest: nearest(name, all).expect("there are figures").into(),
    }
}
