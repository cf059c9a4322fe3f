//! `wharf mrc`: what policies hit of a trace, over the size of a cache.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use wharf_lab::curves::{Curves, CurvesError, Size, Uses, render};
use wharf_policy::Kind;
use wharf_workload::Workload;
use wharf_workload::named::{self, NamedOptions};

use super::compare::check_outputs;
use super::room::{Jobs, check_memory};
use super::trace::{Reading, open, unreadable};
use super::{Failure, input, print};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The trace; `-`: standard input; or a workload's name (`wharf workloads`).
    trace: PathBuf,

    /// Requests of a workload: its own number if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Seed of a workload: 1 if left out.
    #[arg(long)]
    seed: Option<u64>,

    /// Policies, separated by commas: fifo, lru, clock, sieve, s3-fifo, 2q, arc, lirs, w-tinylfu; and belady, which knows the future and is the bound of all.
    #[arg(long, value_name = "LIST", default_values_t = Kind::ALL.map(|(_, kind)| kind), value_delimiter = ',')]
    policies: Vec<Kind>,

    /// Sizes of the cache, separated by commas: shares of the pages that the trace uses (5%), numbers of pages of 4 KiB (20000), or bytes with a unit
    /// (64MiB).
    #[arg(long, value_name = "LIST", default_value = Size::DEFAULT, value_delimiter = ',')]
    sizes: Vec<Size>,

    /// Looks at this share of the pages, chosen by a hash, with caches as much smaller: faster, and nearly the same where thousands of pages are left.
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    sample: Share,

    /// Writes JSON to a file, or to standard output in place of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Writes a page with the curves.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    jobs: Jobs,

    #[command(flatten)]
    reading: Reading,
}

/// A share of all pages.
#[derive(Debug, Clone, Copy)]
struct Share(f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let number = text.strip_suffix('%').map(|percent| (percent, 100.0));
        let (number, by) = number.unwrap_or((text, 1.0));
        let share = number.trim().parse::<f64>().map(|number| number / by);
        let share = share.ok().filter(|share| *share > 0.0 && *share <= 1.0);
        share
            .map(Share)
            .ok_or_else(|| "give a share such as 1%".into())
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let json = args.json.clone().filter(|path| path != Path::new("-"));
    check_outputs(&json, &args.html)?;
    let uses = uses(args, &AtomicBool::new(false))?;
    let bar = progress(args.policies.len() * args.sizes.len());
    let curves = curves(args, &uses, || {
        bar.inc(1);
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    let write = |path: &Path, text: String| {
        let cannot = |error| input(format!("cannot write {}: {error}", path.display()));
        std::fs::write(path, text).map_err(cannot)
    };
    if let Some(path) = &args.html {
        write(path, render(&curves))?;
    }
    match (&args.json, &json) {
        (Some(_), None) => print(curves.to_json().trim_end()),
        (_, json) => {
            if let Some(path) = json {
                write(path, curves.to_json())?;
            }
            print(&curves.to_string());
        }
    }
    Ok(())
}

/// What is used, of a trace or a workload; [`Failure::Interrupted`] after `stop` is set.
pub(super) fn uses(args: &Args, stop: &AtomicBool) -> Result<Uses, Failure> {
    let (name, workload) = workload(args)?;
    let mut uses = Uses::new(&name, args.sample.0);
    // Relaxed: whether it is seen a request later does not matter.
    let taken = uses.take(workload.take_while(|_| !stop.load(Ordering::Relaxed)));
    match (stop.load(Ordering::Relaxed), taken) {
        (true, _) => Err(Failure::Interrupted),
        (false, Err(CurvesError::Trace(error))) => Err(unreadable(error)),
        (false, taken) => taken.map(|()| uses).map_err(input),
    }
}

/// Uses of pages by number, under the name that stands for a trace.
pub(super) fn uses_of_pages(
    args: &Args,
    pages: &[u64],
    stop: &AtomicBool,
) -> Result<Uses, Failure> {
    let mut uses = Uses::new(&args.trace.to_string_lossy(), args.sample.0);
    // Relaxed: as above.
    let looked = pages.iter().take_while(|_| !stop.load(Ordering::Relaxed));
    let taken = uses.take_pages(looked.copied());
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => taken.map(|()| uses).map_err(input),
    }
}

/// The curves. `done` is called after each simulation, and says whether to go on: [`Failure::Interrupted`] if not.
pub(super) fn curves(
    args: &Args,
    uses: &Uses,
    done: impl Fn() -> ControlFlow<()> + Sync,
) -> Result<Curves, Failure> {
    let jobs = args.jobs.count(|| uses.run_bytes());
    let needed = uses.run_bytes() * jobs as u64;
    check_memory(
        "this many simulations at a time",
        needed,
        "give --sample 1%, or --jobs 1",
    )?;
    let curves = uses.curves(&args.policies, &args.sizes, jobs, done);
    curves.ok_or(Failure::Interrupted)
}

/// What is looked at: a trace, or a workload.
fn workload(args: &Args) -> Result<(String, Workload), Failure> {
    let name = args.trace.to_string_lossy();
    if named::names().any(|known| known == name) && !args.trace.exists() {
        let options = NamedOptions {
            requests: args.requests,
            seed: args.seed.unwrap_or(1),
            ..NamedOptions::default()
        };
        let made = named::named(&name, &options).map_err(input)?;
        return Ok((name.into_owned(), made));
    }
    if args.requests.is_some() || args.seed.is_some() {
        let reason = "--requests and --seed are for workloads (`wharf workloads`)";
        return Err(input(format!("{name} is a trace: {reason}")));
    }
    let workload = open(&args.trace, &args.reading.options()?)?;
    Ok((workload.info().name, workload))
}

/// A bar on a terminal, and nothing in a pipe.
fn progress(simulations: usize) -> ProgressBar {
    let bar = ProgressBar::new(simulations as u64).with_finish(ProgressFinish::AndClear);
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} simulations, {elapsed}");
    bar.set_style(style.expect("a template"));
    bar
}
