//! A calibration as a cost table: data, and the text of a file that a person can judge.

use std::fmt::Write;

use wharf_runtime::op::COST_TABLE_VERSION;
use wharf_runtime::{CostTable, Op};

use super::costs::Costs;

/// A machine's costs.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Every operation's figure, and the paths beside them.
    pub costs: Costs,
}

impl Calibration {
    /// The cost table, under `name`, made on `date` by the program of `commit`.
    pub fn table(&self, name: &str, date: &str, commit: &str) -> CostTable {
        let tenth = |ns: f64| (ns * 10.0).round() / 10.0;
        let figures = |of: fn(&super::Sample) -> f64| {
            let pairs = self.costs.ops.iter();
            pairs
                .map(|(op, cost)| (op.key().to_string(), tenth(of(&cost.sample))))
                .collect()
        };
        CostTable {
            version: COST_TABLE_VERSION,
            name: name.into(),
            machine: machine(),
            date: date.into(),
            commit: commit.into(),
            cost_ns: figures(|sample| sample.ns),
            spread_ns: figures(|sample| sample.spread_ns),
        }
    }

    /// The table's file: the figures, each with how it was obtained, and the measured paths as
    /// comments.
    pub fn to_toml(&self, name: &str, date: &str, commit: &str) -> String {
        let table = self.table(name, date, commit);
        let mut text = String::from(
            "# What each operation costs on one machine: measured by `wharf calibrate`, not edited by hand.\n",
        );
        let mut line = |line: String| writeln!(text, "{line}").expect("a string grows");
        let is_known = |op: Op| self.costs.ops[&op].sample.is_known();
        line(format!("version = {}", table.version));
        if !Op::ALL.iter().all(|op| is_known(*op)) {
            line("base = \"default\"              # for what could not be told here".into());
        }
        for (key, value) in [
            ("name", &table.name),
            ("machine", &table.machine),
            ("date", &table.date),
            ("commit", &table.commit),
        ] {
            line(format!("{key} = {}", toml::Value::String(value.clone())));
        }
        line("\n[cost_ns]".into());
        for op in Op::ALL {
            let cost = &self.costs.ops[op];
            let (entry, spread) = (
                format!("{} = {:.1}", op.key(), table.cost_ns[op.key()]),
                cost.sample.spread_share() * 100.0,
            );
            line(match (is_known(*op), cost.sample.has_settled()) {
                (false, _) => format!(
                    "# {entry}: not known, its spread is {spread:.0} % ({})",
                    cost.how
                ),
                (_, false) => format!(
                    "{entry:32} # {}; not settled, its spread is {spread:.0} %",
                    cost.how
                ),
                _ => format!("{entry:32} # {}", cost.how),
            });
        }
        line("\n# How far apart the middle half of the rounds lay.\n[spread_ns]".into());
        for op in Op::ALL.iter().filter(|op| is_known(**op)) {
            line(format!("{} = {:.1}", op.key(), table.spread_ns[op.key()]));
        }
        line("\n# Paths that were timed whole, in ns with their spread: what the kernel's operations follow from,".into());
        line("# and checks on the others.".into());
        for path in &self.costs.paths {
            let (ns, spread) = (path.sample.ns, path.sample.spread_ns);
            line(format!(
                "#   {:22} {ns:10.1} {spread:8.1}  {}",
                path.name, path.how
            ));
        }
        for skipped in &self.costs.skipped {
            line(format!("# Not timed: {skipped}."));
        }
        text
    }

    /// The figures as JSON: operations and paths with spread and origin.
    pub fn to_json(&self, name: &str, date: &str, commit: &str) -> serde_json::Value {
        let figure = |sample: super::Sample, how: &str| serde_json::json!({"ns": sample.ns, "spread_ns": sample.spread_ns, "how": how});
        let ops = self.costs.ops.iter();
        let paths = self.costs.paths.iter();
        serde_json::json!({
            "version": COST_TABLE_VERSION,
            "name": name,
            "machine": machine(),
            "date": date,
            "commit": commit,
            "operations": ops
                .map(|(op, cost)| (op.key().to_string(), figure(cost.sample, cost.how)))
                .collect::<serde_json::Map<_, _>>(),
            "paths": paths
                .map(|path| (path.name.to_string(), figure(path.sample, path.how)))
                .collect::<serde_json::Map<_, _>>(),
            "skipped": self.costs.skipped,
        })
    }
}

/// The processors' name and number, and the kernel, as Linux gives them.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_string())
    };
    let model = value("model name").unwrap_or_else(|| "unknown processor".into());
    let count = text
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let guest = text.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    });
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy();
    let kernel = kernel.split('-').next().unwrap_or_default();
    let guest = if guest { ", virtual machine" } else { "" };
    format!("{count} x {model}{guest}, Linux {kernel}")
}

#[cfg(test)]
mod tests {
    use super::super::Sample;
    use super::*;

    /// Every operation takes 100 ns, and `op` has this spread.
    fn calibration(op: Op, spread_ns: f64) -> Calibration {
        let mut costs = Costs::default();
        for each in Op::ALL {
            let spread_ns = if *each == op { spread_ns } else { 1.0 };
            let sample = Sample {
                ns: 100.0,
                spread_ns,
            };
            costs.set(*each, sample, "a loop");
        }
        Calibration { costs }
    }

    #[test]
    fn a_figure_whose_spread_exceeds_it_is_not_shipped() {
        let text = calibration(Op::CopyPage, 150.0).to_toml("here", "2026-01-02", "abc");
        assert!(text.contains("# copy_page = 100.0: not known, its spread is 150 %"));
        assert!(text.contains("base = \"default\""));
        assert!(!text.lines().any(|line| line.starts_with("copy_page")));
    }

    #[test]
    fn a_figure_that_has_not_settled_says_so() {
        let text = calibration(Op::CopyPage, 30.0).to_toml("here", "2026-01-02", "abc");
        let line = text.lines().find(|line| line.starts_with("copy_page"));
        assert!(line.unwrap().ends_with("not settled, its spread is 30 %"));
        assert!(!text.contains("base ="));
        let table = CostTable::parse(&text).unwrap();
        assert_eq!(table.cost_ns["copy_page"], 100.0);
    }
}
