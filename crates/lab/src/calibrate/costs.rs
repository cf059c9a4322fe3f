//! What a calibration gathers: a figure for each operation, and how it was obtained.

use std::collections::BTreeMap;

use wharf_runtime::Op;

use super::sample::Sample;

/// The cost of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The figure.
    pub sample: Sample,
    /// What was timed, or from which measured paths the figure follows.
    pub how: &'static str,
}

/// A path that was timed whole, beside the operations: for derivations and as a check on them.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Its name.
    pub name: &'static str,
    /// The figure.
    pub sample: Sample,
    /// What was timed.
    pub how: &'static str,
}

/// All figures taken so far.
#[derive(Debug, Clone, Default)]
pub struct Costs {
    /// By operation.
    pub ops: BTreeMap<Op, Cost>,
    /// In the order they were taken.
    pub paths: Vec<Path>,
    /// What could not be timed on this machine, and what was done instead.
    pub skipped: Vec<String>,
}

impl Costs {
    /// Notes the figure of an operation.
    pub(super) fn set(&mut self, op: Op, sample: Sample, how: &'static str) {
        self.ops.insert(op, Cost { sample, how });
    }

    /// The figure of an operation that was taken before.
    pub(super) fn get(&self, op: Op) -> Sample {
        self.ops[&op].sample
    }

    /// Notes the figure of a path and gives it back.
    pub(super) fn path(&mut self, name: &'static str, sample: Sample, how: &'static str) -> Sample {
        self.paths.push(Path { name, sample, how });
        sample
    }

    /// The figure of a path, if it could be timed.
    pub fn find_path(&self, name: &str) -> Option<Sample> {
        let found = self.paths.iter().find(|path| path.name == name);
        found.map(|path| path.sample)
    }
}
