//! `wharf reproduce`: a paper's figures, obtained here, beside what the paper says of them.
//!
//! A figure is data: which runs it shows, what it reads off them, and which claims of the paper they test.
//! Nothing of the paper is an input: its figures are in `configs/paper/` and read when all runs are done.
//!
//! 1. Choose figures by name (`select`), build their definitions for the workloads at hand.
//! 2. Collect their runs; make each once (`runs.rs`), in virtual time, on aged drives.
//! 3. Put values into cells, evaluate and judge claims (`outcome.rs`, `verdict.rs`).
//! 4. Show: terminal (`text.rs`), JSON and pages (`page.rs`, `plot.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `paper.rs` | what the paper says, from its data file |
//! | `figure.rs`, `figures/` | what a figure is; one definition for each |
//! | `run.rs`, `metric.rs`, `layers.rs` | what a run is; what is read off it; what its latency is made of |
//! | `scale.rs` | the paper's set-up, smaller in proportion |

mod figure;
mod figures;
mod layers;
mod metric;
mod outcome;
mod page;
mod paper;
mod plot;
mod run;
mod runs;
mod scale;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use wharf_runtime::CostTable;

use crate::config::nearest::nearest;
use crate::input::Input;
use crate::prepare::Age;

pub use figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
pub use figures::{Definition, FIGURES};
pub use layers::{Layer, LayerSet};
pub use metric::Metric;
pub use outcome::{Finding, FoundClaim, FoundPanel, FoundSeries, Ground, Reproduction, SCHEMA};
pub use page::{index, page};
pub use paper::{ClaimKind, Paper, PaperClaim, PaperFigure, PaperRow, PaperTable};
pub use run::{Run, Variant, Workloads};
pub use runs::{Gap, Measured, Traits, designs_built_in};
pub use scale::{SCALE_MAX, Scale};
pub use text::{listing, render, summary};
pub use verdict::{Verdict, judge};

/// The paper's name on the command line.
pub const PAPER: &str = "scala";

/// How a reproduction is made.
pub struct Options {
    /// How much smaller than the paper's the set-up is.
    pub scale: Scale,
    /// Seed of every random choice.
    pub seed: u64,
    /// What the drives went through before each run; `None`: the pages that the workload touches were
    /// written once, the rest of the flash is empty.
    pub age: Option<Age>,
    /// Costs of CPU work.
    pub costs: CostTable,
    /// A trace in the place of every profile.
    pub trace: Option<Input>,
    /// What the trace is called.
    pub trace_name: String,
    /// The commit this program was built from.
    pub commit: String,
}

/// A reproduction that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No figure of that name.
    #[error(
        "no figure '{name}', the nearest is '{nearest}': `wharf reproduce --list` shows all, '{PAPER}' means all of them"
    )]
    UnknownFigure {
        /// The name given.
        name: String,
        /// The known name nearest to it.
        nearest: String,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}: give another --out", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The figures that names such as `scala` and `scala/fig11a` mean, in the order of the paper, each once.
///
/// # Errors
/// The first name that means nothing.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Definition>, ReproduceError> {
    let mut chosen = BTreeSet::new();
    for name in names.iter().map(AsRef::as_ref) {
        if name == PAPER {
            chosen.extend(0..FIGURES.len());
            continue;
        }
        let known = FIGURES
            .iter()
            .position(|(figure, _)| name == format!("{PAPER}/{figure}"));
        chosen.insert(known.ok_or_else(|| unknown(name))?);
    }
    Ok(chosen.into_iter().map(|index| &FIGURES[index]).collect())
}

fn unknown(name: &str) -> ReproduceError {
    let figures = FIGURES
        .iter()
        .map(|(figure, _)| format!("{PAPER}/{figure}"));
    let all: Vec<String> = figures.chain([PAPER.to_string()]).collect();
    ReproduceError::UnknownFigure {
        name: name.into(),
        nearest: nearest(name, all.iter().map(String::as_str))
            .expect("there are figures")
            .into(),
    }
}

/// Makes the runs of these figures and finds what they show. After `stop` is set, what was run so far
/// is shown.
pub fn reproduce(
    definitions: &[&Definition],
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> Reproduction {
    let workloads = match &options.trace {
        Some(_) => Workloads::trace(options.trace_name.clone()),
        None => Workloads::profiles(),
    };
    let figures: Vec<Figure> = definitions
        .iter()
        .map(|(_, make)| make(&workloads))
        .collect();
    let all: BTreeSet<Run> = figures.iter().flat_map(Figure::runs).collect();
    let mut runs = runs::Runs::new(options, stop);
    runs.make(all);
    let paper = Paper::scala();
    let ground = ground(&paper, options);
    let finding = |figure| outcome::find(figure, &paper, &runs, &ground);
    Reproduction {
        findings: figures.iter().map(finding).collect(),
        failures: runs
            .failures()
            .map(|(run, gap)| format!("{}: {}", run.describe(), gap.reason))
            .collect(),
        runs: runs.measured().count(),
        interrupted: stop.load(Relaxed),
        ground,
    }
}

fn ground(paper: &Paper, options: &Options) -> Ground {
    let costs = &options.costs;
    let drive = options.scale.drive(&run::SCALA.clients("", run::CLIENTS));
    let drive = drive.expect("the program's own preset");
    let workload = match &options.trace {
        Some(_) => format!("every workload is the trace {}", options.trace_name),
        None => {
            "workloads are profiles fitted to the paper's Table 2, as its traces cannot be shipped"
                .into()
        }
    };
    let age = match options.age {
        None => {
            "the pages that a workload touches were written once, in order, before each run, and the rest of the flash is empty"
        }
        Some(Age::Filled) => "every page of the drives was written once, in order, before each run",
        Some(Age::Steady) => {
            "drives were filled and overwritten at random until collection was steady, before each run: the hardest state there is"
        }
    };
    Ground {
        paper: paper.title.clone(),
        cite: paper.cite.clone(),
        seed: options.seed,
        scale: options.scale,
        cost_table: crate::result::CostTable {
            name: costs.name.clone(),
            machine: costs.machine.clone(),
            date: costs.date.clone(),
            commit: costs.commit.clone(),
        },
        commit: options.commit.clone(),
        notes: vec![
            options.scale.describe(&drive),
            workload,
            age.into(),
            format!(
                "virtual time; 8 clients and 4 firmware cores a drive where a figure says nothing else, {} requests of each client in flight, \
                 dealt out in turn; caches empty at first; every read checked",
                runs::DEPTH
            ),
        ],
    }
}

/// Writes a page and a JSON file for each figure, and an index, to a directory that is made if need be.
///
/// # Errors
/// The first file that cannot be written.
pub fn write(directory: &Path, reproduction: &Reproduction) -> Result<(), ReproduceError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReproduceError::Write { path, source }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let put = |name: String, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(failed(&path))
    };
    for finding in &reproduction.findings {
        put(format!("{}.json", finding.name), json(finding))?;
        put(format!("{}.html", finding.name), page(finding))?;
    }
    put("index.html".into(), index(reproduction))
}

/// A finding as JSON text, indented, with a line feed at its end: equal reproductions give equal bytes.
pub fn json(finding: &Finding) -> String {
    serde_json::to_string_pretty(finding).expect("plain data with string keys") + "\n"
}
