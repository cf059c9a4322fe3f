//! `wharf reproduce`.

use std::path::{Path, PathBuf};

use wharf_lab::config::load_costs;
use wharf_lab::input::{Input, TraceFrom};
use wharf_lab::prepare::Age;
use wharf_lab::report::table::stdout_width;
use wharf_lab::reproduce::{
    Options, Reproduction, SCALE_MAX, Scale, listing, render, reproduce, select, summary, write,
};
use wharf_workload::layout::Layout;

use super::{Failure, input, print};

/// Divisor of the paper's set-up when none is said: an hour or so for all figures.
const SCALE: u32 = 16;

/// Divisor with `--quick`: some minutes for all figures.
const SCALE_QUICK: u32 = 128;

#[derive(clap::Args)]
pub(super) struct Args {
    /// What to make anew: `scala` for all figures of ScalaCache (ATC 2024), `scala/fig11a` for one.
    #[arg(value_name = "FIGURE", default_value = "scala")]
    figures: Vec<String>,

    /// Lists all figures.
    #[arg(long)]
    list: bool,

    /// All figures in some minutes: drives, caches and workloads 128 times smaller than the paper's.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,

    /// Divides drives, caches and workloads: a power of two, 1 for the paper's size.
    #[arg(long, value_name = "N", default_value_t = SCALE)]
    scale: u32,

    /// A trace in the place of every workload.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    reading: super::trace::Reading,

    /// What the drives went through before each run: `touched` (the workload's pages written once),
    /// `filled` (every page written once, in order) or `steady` (filled, then overwritten at random until
    /// garbage collection is steady).
    #[arg(long, default_value = "filled", value_name = "STATE")]
    prepare: String,

    /// Costs of CPU work in virtual time: a table's name or a TOML file.
    #[arg(long, default_value = "default", value_name = "TABLE|FILE")]
    costs: String,

    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes a page and a JSON file for each figure, and index.html, to this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the figures, prints them, writes the pages.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        print(listing().trim_end());
        return Ok(());
    }
    let figures = select(&args.figures).map_err(input)?;
    let options = options(args)?;
    if let Some(directory) = &args.out {
        make(directory)?;
    }
    let stop = super::compare::interrupt_flag()?;
    let reproduction = reproduce(&figures, &options, &stop);
    show(&reproduction);
    if let Some(directory) = &args.out {
        write(directory, &reproduction).map_err(input)?;
        print(&format!(
            "pages: {}",
            directory.join("index.html").display()
        ));
    }
    if reproduction.interrupted {
        return Err(Failure::Interrupted);
    }
    match reproduction.failures.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => Err(Failure::Run(match rest.len() {
            0 => first.clone(),
            more => format!("{first} (and {more} more runs failed)"),
        })),
    }
}

fn show(reproduction: &Reproduction) {
    let width = stdout_width();
    for finding in &reproduction.findings {
        print(&render(finding, width));
    }
    print(summary(reproduction, width).trim_end());
}

/// A directory that cannot be made is found before a long run and not after it.
fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        input(format!(
            "cannot make --out {}: {error}: give another directory",
            directory.display()
        ))
    })
}

fn options(args: &Args) -> Result<Options, Failure> {
    let divisor = if args.quick { SCALE_QUICK } else { args.scale };
    let scale = Scale::new(divisor).ok_or_else(|| {
        input(format!(
            "--scale {divisor}: give a power of two from 1 to {SCALE_MAX}"
        ))
    })?;
    let (costs, _) = load_costs(&args.costs).map_err(input)?;
    let trace_name = args.trace.as_deref().map(name_of).unwrap_or_default();
    Ok(Options {
        scale,
        seed: args.seed,
        age: match args.prepare.as_str() {
            "touched" => None,
            "filled" => Some(Age::Filled),
            "steady" => Some(Age::Steady),
            other => {
                return Err(input(format!(
                    "--prepare {other}: use touched, filled or steady"
                )));
            }
        },
        costs,
        trace: trace(args)?,
        trace_name,
        commit: env!("WHARF_COMMIT").to_string(),
    })
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The trace asked for. One that cannot be read is found here, before any run.
fn trace(args: &Args) -> Result<Option<Input>, Failure> {
    let Some(path) = &args.trace else {
        return Ok(None);
    };
    let options = args.reading.options()?;
    wharf_workload::Workload::open(path, &options).map_err(input)?;
    Ok(Some(Input::Trace {
        from: TraceFrom::File(path.clone()),
        options,
        layout: Layout::Concatenate,
    }))
}
