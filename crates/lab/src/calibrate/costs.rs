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
    /// Those of `ops` that were there before the part that is being timed.
    earlier: BTreeMap<Op, Cost>,
}

impl Costs {
    /// Notes the figure of an operation.
    pub(super) fn set(&mut self, op: Op, sample: Sample, how: &'static str) {
        self.ops.insert(op, Cost { sample, how });
    }

    /// The figure of an operation that was taken before.
    pub(super) fn get(&self, op: Op) -> Sample {
        let own = self.ops.get(&op);
        own.unwrap_or_else(|| &self.earlier[&op]).sample
    }

    /// Nothing taken yet, after what is here.
    pub(super) fn after(&self) -> Costs {
        Costs {
            earlier: self.ops.clone(),
            ..Costs::default()
        }
    }

    /// Takes in what a part found, once more or for the first time: of two figures of a part the one whose
    /// rounds lay closer together. True if all of the part have settled.
    pub(super) fn settle(&mut self, found: Costs) -> bool {
        let mut settled = true;
        for (op, cost) in found.ops {
            let before = self.ops.get(&op).filter(|before| {
                // Another way to time it takes the place of the first, however that spread.
                before.how == cost.how && before.sample.spread_share() <= cost.sample.spread_share()
            });
            let kept = before.cloned().unwrap_or(cost);
            settled &= kept.sample.has_settled();
            self.ops.insert(op, kept);
        }
        for path in found.paths {
            match self.paths.iter_mut().find(|kept| kept.name == path.name) {
                Some(kept) if kept.sample.spread_share() <= path.sample.spread_share() => {}
                Some(kept) => *kept = path,
                None => self.paths.push(path),
            }
        }
        for line in found.skipped {
            if !self.skipped.contains(&line) {
                self.skipped.push(line);
            }
        }
        settled
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ns: f64, spread_ns: f64, how: &'static str) -> Costs {
        let mut costs = Costs::default();
        costs.set(Op::CopyPage, Sample { ns, spread_ns }, how);
        costs.path("copy", Sample { ns, spread_ns }, how);
        costs
    }

    #[test]
    fn of_several_times_the_quietest_is_kept() {
        let mut costs = Costs::default();
        assert!(!costs.settle(found(100.0, 30.0, "a loop")));
        assert!(!costs.settle(found(90.0, 40.0, "a loop")), "a wider one");
        assert_eq!(costs.get(Op::CopyPage).ns, 100.0);
        assert!(costs.settle(found(110.0, 5.0, "a loop")));
        assert_eq!(costs.get(Op::CopyPage).ns, 110.0);
        assert_eq!(costs.paths.len(), 1);
        assert_eq!(costs.find_path("copy").unwrap().ns, 110.0);
    }

    #[test]
    fn timed_in_its_place_goes_before_timed_alone() {
        let mut costs = Costs::default();
        assert!(costs.settle(found(100.0, 0.0, "a loop")));
        assert!(!costs.settle(found(150.0, 30.0, "in its place")));
        assert_eq!(costs.get(Op::CopyPage).ns, 150.0);
    }

    #[test]
    fn a_part_sees_the_figures_before_it() {
        let mut costs = Costs::default();
        costs.settle(found(100.0, 0.0, "a loop"));
        let part = costs.after();
        assert!(part.ops.is_empty());
        assert_eq!(part.get(Op::CopyPage).ns, 100.0);
    }
}
