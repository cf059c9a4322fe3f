//! `wharf reproduce`: the figures of papers, obtained here, beside what the papers say of them.
//!
//! A figure is data: which runs it shows, what it reads off them, and which claims of the paper they test.
//! Nothing of a paper is an input: its figures are in `configs/paper/` and read when all runs are done.
//!
//! 1. Choose figures by name (`subject.rs`), build their definitions for the workloads at hand.
//! 2. Collect their runs; make each once with each seed (`runs.rs`), in virtual time, on aged drives.
//! 3. Put values into cells, evaluate and judge claims (`outcome.rs`, `estimate.rs`, `verdict.rs`).
//! 4. Join claims that rest on equal runs, and count (`score.rs`).
//! 5. Show: terminal (`text.rs`), JSON and pages (`page.rs`, `plot.rs`, `marks.rs`, `thumbnail.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `subject.rs` | which papers there are, and which figures a name means |
//! | `paper.rs` | what a paper says, from its data file |
//! | `figure.rs`, `figures/` | what a figure is; how it is made of its paper's file of figures |
//! | `run.rs`, `metric.rs`, `layers.rs` | what a run is; what is read off it; what its latency is made of |
//! | `over_time.rs` | how latency goes over a run |
//! | `vocabulary.rs` | the words for metrics in files of figures |
//! | `marks.rs` | where the paper's values stand in our plots |
//! | `memory.rs` | what a figure of memory has beside its runs: counts |
//! | `setup/` | each paper's set-up, smaller in proportion |

mod estimate;
mod figure;
mod figures;
mod layers;
mod marks;
mod memory;
mod metric;
mod outcome;
mod over_time;
mod page;
mod paper;
mod plot;
mod run;
mod runs;
mod score;
mod setup;
mod subject;
#[cfg(test)]
mod tests;
mod text;
mod thumbnail;
mod variant;
mod verdict;
mod vocabulary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use wharf_runtime::CostTable;

use crate::input::Input;
use crate::replay;

pub use estimate::Estimate;
pub use figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
pub use figures::Definition;
pub use layers::{Layer, LayerSet};
pub use marks::{Basis, Mark};
pub use metric::Metric;
pub use outcome::{Finding, FoundClaim, FoundPanel, FoundSeries, Ground, Reproduction, SCHEMA};
pub use page::{index, page};
pub use paper::{ClaimKind, Paper, PaperClaim, PaperFigure, PaperRow, PaperTable};
pub use run::{Device, Mode, Run, Start, Workloads};
pub use runs::{Gap, Measured, Traits, designs_built_in};
pub use score::{Merged, Score};
pub use setup::{SCALE_MAX, Scale};
pub use subject::{Chosen, Subject, select};
pub use text::{listing, render, summary};
pub use variant::Variant;
pub use verdict::{CLOSELY_WITHIN, Verdict, WITHIN, judge};

/// How a reproduction is made.
pub struct Options {
    /// How much smaller than the paper's the set-up is.
    pub scale: Scale,
    /// Seed of every random choice of the first runs; further ones have the numbers after it.
    pub seed: u64,
    /// Seeds that every run is made with.
    pub seeds: u32,
    /// What the drives hold before each run; `None`: what the figure needs.
    pub start: Option<Start>,
    /// Costs of CPU work.
    pub costs: CostTable,
    /// A trace in the place of every profile.
    pub trace: Option<Input>,
    /// What the trace is called.
    pub trace_name: String,
    /// The commit this program was built from.
    pub commit: String,
    /// Most runs that are made at a time.
    pub jobs: usize,
}

/// Memory of a run before a disk, about.
const DISK_RUN_BYTES: u64 = 1 << 30;

/// Memory that the largest run of these figures takes, in bytes.
pub fn memory_bytes(chosen: &Chosen, scale: Scale) -> u64 {
    let workloads = Workloads::own();
    let figures = chosen.figures.iter().map(|figure| figure.make(&workloads));
    let runs: BTreeSet<Run> = figures.flat_map(|figure| figure.runs()).collect();
    let bytes = |run: &Run| {
        let drive = setup::drive(scale, run).ok()?;
        let host = setup::host(scale, run).ok()?;
        if run.subject == Subject::Indexless {
            // What a run writes, and nobody knows before; the drives' tables are of that alone.
            return Some(DISK_RUN_BYTES);
        }
        let cache_bytes = host.cache.of(drive.namespace_pages() * 4096);
        Some(replay::memory_bytes(&drive, run.drives, cache_bytes))
    };
    runs.iter().filter_map(bytes).max().unwrap_or(0)
}

/// A reproduction that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No figure of that name.
    #[error(
        "no figure '{name}', the nearest is '{nearest}': `wharf reproduce --list` shows all; a paper's name means all of its"
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

/// Makes the runs of some figures of a paper and finds what they show. After `stop` is set, what was run
/// so far is shown.
pub fn reproduce(chosen: &Chosen, options: &Options, stop: &Arc<AtomicBool>) -> Reproduction {
    let workloads = match &options.trace {
        Some(_) => Workloads::trace(options.trace_name.clone()),
        None => Workloads::own(),
    };
    let definitions = chosen.figures.iter();
    let figures: Vec<Figure> = definitions.map(|figure| figure.make(&workloads)).collect();
    let all: BTreeSet<Run> = figures.iter().flat_map(Figure::runs).collect();
    let mut runs = runs::Runs::new(options, stop);
    runs.make(all);
    let paper = Paper::of(chosen.subject);
    let ground = ground(chosen.subject, &paper, options);
    let finding = |figure| outcome::find(figure, &paper, &runs, &ground);
    let mut findings: Vec<Finding> = figures.iter().map(finding).collect();
    memory::count(&mut findings, options);
    let score = score::join(&figures, &paper, &mut findings);
    Reproduction {
        findings,
        score,
        failures: runs
            .failures()
            .map(|(run, gap)| format!("{}: {}", run.describe(), gap.reason))
            .collect(),
        runs: runs.count(),
        interrupted: stop.load(Relaxed),
        ground,
    }
}

fn ground(subject: Subject, paper: &Paper, options: &Options) -> Ground {
    let costs = &options.costs;
    let mut notes = setup::notes(options.scale, subject);
    if options.trace.is_some() {
        notes.push(format!(
            "every workload is the trace {}",
            options.trace_name
        ));
    }
    notes.push(started(options.start).into());
    notes.push("virtual time; caches empty at first; every read checked".into());
    Ground {
        subject,
        paper: paper.title.clone(),
        cite: paper.cite.clone(),
        seed: options.seed,
        seeds: options.seeds,
        scale: options.scale,
        cost_table: crate::result::CostTable::of(costs),
        commit: options.commit.clone(),
        notes,
    }
}

/// What the drives hold before each run, as part of a sentence.
fn started(start: Option<Start>) -> &'static str {
    match start {
        None => {
            "the pages that a workload touches were written once, in order, before each run, and the rest of the drives is empty, where \
             a figure says nothing else"
        }
        Some(Start::Touched) => {
            "the pages that a workload touches were written once, in order, before each run, and the rest of the drives is empty"
        }
        Some(Start::Filled) => {
            "every page of the drives was written once, in order, before each run"
        }
        Some(Start::Steady) => {
            "drives were filled and overwritten at random until collection was steady, before each run: the hardest state there is"
        }
    }
}

/// Writes a page and a JSON file for each figure, and an index, to a directory of the paper's name within
/// this one; each is made if need be. Gives the index.
///
/// # Errors
/// The first file that cannot be written.
pub fn write(directory: &Path, reproduction: &Reproduction) -> Result<PathBuf, ReproduceError> {
    let directory = directory.join(reproduction.ground.subject.name());
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReproduceError::Write { path, source }
    };
    std::fs::create_dir_all(&directory).map_err(failed(&directory))?;
    let put = |name: String, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
        Ok(path)
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
