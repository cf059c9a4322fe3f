//! `wharf mrc`: what policies hit of a trace, over the size of a cache.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_lab::curves::{Curves, CurvesError, Size, Uses, render};
use wharf_policy::Kind;
use wharf_workload::named::{self, NamedOptions};
use wharf_workload::{ReadOptions, Workload};

use super::output::{Force, Reports};
use super::progress::{Progress, Steps};
use super::room::{Jobs, check_memory, room_bytes};
use super::trace::{Reading, open, unreadable};
use super::values::{self, count, share};
use super::{Failure, input};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The trace; `-`: standard input; or a workload's name (`wharf workloads`).
    trace: PathBuf,

    /// Requests of a workload, its own number if left out; of a trace, the first so many.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..=u64::MAX))]
    requests: Option<u64>,

    /// Seed of a workload: 1 if left out.
    #[arg(long, value_name = "N", value_parser = count::<u64>(0..=u64::MAX))]
    seed: Option<u64>,

    /// Policies, separated by commas: fifo, lru, clock, sieve, s3-fifo, 2q, arc, lirs, w-tinylfu; and belady, which knows the future and is the bound of all.
    #[arg(long, value_name = "LIST", default_values_t = Kind::ALL.map(|(_, kind)| kind), value_delimiter = ',')]
    policies: Vec<Kind>,

    /// Sizes of the cache, separated by commas: shares of the pages that the trace uses (5%), numbers of pages of 4 KiB (20000), or bytes with a unit
    /// (64MiB).
    #[arg(long, value_name = "LIST", default_value = Size::DEFAULT, value_delimiter = ',')]
    sizes: Vec<Size>,

    /// Looks at this share of the pages, chosen by a hash, with caches as much smaller: faster, and nearly the same where thousands of pages are left.
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = sampled)]
    sample: f64,

    /// Writes JSON to a file, or to standard output in place of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Writes a page with the curves.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    progress: Progress,

    #[command(flatten)]
    jobs: Jobs,

    #[command(flatten)]
    reading: Reading,
}

/// Memory for a use of a page, at least: its page and when that is used again.
const USE_BYTES: u64 = 12;

/// Requests of a trace between two words of how many were read.
const SAY_EVERY: u64 = 1 << 16;

/// A share of all pages that leaves some.
fn sampled(text: &str) -> Result<f64, String> {
    match share(text)? {
        0.0 => Err("no page would be left: give a share such as 1%".into()),
        share => Ok(share),
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.progress.begin();
    let reports = Reports {
        json: args.json.clone(),
        html: args.html.clone(),
    };
    reports.check(args.force.force)?;
    let reading = Steps::counted("requests read");
    let read = |count| reading.reach(count, 0);
    let uses = uses(args, &AtomicBool::new(false), read)?;
    drop(reading);
    let simulations = (args.policies.len() * args.sizes.len()) as u64;
    let steps = Steps::new(simulations, "simulations");
    let curves = curves(args, &uses, || {
        steps.step();
        ControlFlow::Continue(())
    })?;
    drop(steps);
    reports.write(
        || curves.to_string(),
        || curves.to_json(),
        || render(&curves),
    )
}

/// What is used, of a trace or a workload; [`Failure::Interrupted`] after `stop` is set. `read` is told of how many requests were read.
pub(super) fn uses(
    args: &Args,
    stop: &AtomicBool,
    mut read: impl FnMut(u64),
) -> Result<Uses, Failure> {
    let (name, workload) = workload(args)?;
    let mut uses = Uses::new(&name, args.sample).within(room_bytes());
    let mut count = 0_u64;
    let requests = workload.inspect(|_| {
        count += 1;
        if count.is_multiple_of(SAY_EVERY) {
            read(count);
        }
    });
    // Relaxed: whether it is seen a request later does not matter.
    let taken = uses.take(requests.take_while(|_| !stop.load(Ordering::Relaxed)));
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
    let mut uses = Uses::new(&args.trace.to_string_lossy(), args.sample);
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
        if let Some(option) = args.reading.given() {
            return Err(input(format!(
                "{option} is for traces, and {name} is a workload that is made: leave it out"
            )));
        }
        let requests = args.requests.unwrap_or(0);
        let needed = (requests.saturating_mul(USE_BYTES) as f64 * args.sample) as u64;
        check_memory(
            &format!("a workload of {requests} requests"),
            needed,
            "give fewer --requests",
        )?;
        let options = NamedOptions {
            requests: args.requests,
            seed: args.seed.unwrap_or(1),
            ..NamedOptions::default()
        };
        let made = named::named(&name, &options).map_err(input)?;
        return Ok((name.into_owned(), made));
    }
    if args.seed.is_some() {
        let reason = "--seed is for workloads (`wharf workloads`)";
        return Err(input(format!("{name} is a trace: {reason}")));
    }
    if !values::is_path(&name) && name != "-" && !args.trace.exists() {
        let known: Vec<&str> = named::names().collect();
        let line = values::no_such("workload", &name, &known);
        return Err(input(format!("no file '{name}', and {line}")));
    }
    let options = ReadOptions {
        requests_max: args.requests,
        ..args.reading.options()?
    };
    let workload = open(&args.trace, &options)?;
    Ok((workload.info().name, workload))
}
