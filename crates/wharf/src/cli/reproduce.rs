//! `wharf reproduce`.

use std::path::{Path, PathBuf};

use wharf_lab::config::load_costs;
use wharf_lab::input::{Input, TraceFrom};
use wharf_lab::report::table::stdout_width;
use wharf_lab::reproduce::{
    Chosen, Options, Reproduction, SCALE_MAX, Scale, Score, Start, Subject, listing, memory_bytes,
    render, reproduce, select, summary, write,
};
use wharf_workload::ReadOptions;
use wharf_workload::layout::Layout;

use super::compare::requests::requests_room;
use super::output::{self, Force};
use super::progress::Progress;
use super::trace::from_stdin;
use super::values::count;
use super::{Failure, input, print, room};

/// Divisor of a paper's set-up when none is said: an hour or so for all its figures.
fn usual_scale(subject: Subject) -> u32 {
    match subject {
        Subject::Scala => 16,
        Subject::Scale => 64,
        Subject::Indexless => 128,
        Subject::Stor => 8,
        Subject::Omni => 256,
    }
}

/// Divisor with `--quick`: some minutes for all figures.
fn quick_scale(subject: Subject) -> u32 {
    match subject {
        Subject::Scala => 128,
        Subject::Scale => 512,
        Subject::Indexless => 512,
        Subject::Stor => 64,
        Subject::Omni => 1_024,
    }
}

/// Seeds when none are said: the fewest that tell noise from a result.
const SEEDS: u32 = 5;

#[derive(clap::Args)]
pub(super) struct Args {
    /// What to make anew: `scala` for all figures of ScalaCache (ATC 2024), `scale` for those of ScaleCache
    /// (EuroSys 2024), `indexless` for those of the flash cache without an index (Hao et al.), `stor` for those of StorStack (JSA
    /// 2025), `omni` for those of OmniCache (FAST 2024), `scala/fig11a` for one. All of them if left out.
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,

    /// Lists all figures.
    #[arg(long)]
    list: bool,

    /// All figures in some minutes: drives, caches and workloads 128 times (`scala`), 512 times (`scale`, `indexless`), 64
    /// times (`stor`) or 1,024 times (`omni`) smaller than the paper's.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,

    /// Divides drives, caches and workloads: a power of two, 1 for the paper's size. 16 for `scala`, 64
    /// for `scale`, 128 for `indexless`, 8 for `stor` and 256 for `omni` if left out.
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=SCALE_MAX.into()))]
    scale: Option<u32>,

    /// A trace in the place of every workload; `-`: standard input.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    reading: super::trace::Reading,

    /// What the drives went through before each run: `touched` (the workload's pages written once),
    /// `filled` (every page written once, in order) or `steady` (filled, then overwritten at random until
    /// garbage collection is steady). If left out, what each figure needs: `filled` for those of
    /// collection, `touched` for all others.
    #[arg(long, value_name = "STATE")]
    prepare: Option<String>,

    /// Costs of CPU work in virtual time: a table's name (`default`: this project's machine) or a TOML file. Those of the
    /// paper's machine if left out.
    #[arg(long, value_name = "TABLE|FILE")]
    costs: Option<String>,

    /// Seed of every random choice; further seeds are the numbers after it.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Seeds that every run is made with: claims are judged by the mean and its noise.
    #[arg(long, default_value_t = SEEDS, value_name = "N", value_parser = count::<u32>(1..=1000))]
    seeds: u32,

    #[command(flatten)]
    jobs: room::Jobs,

    /// Writes a page and a JSON file for each figure, and index.html, to a directory of the paper's name in
    /// this one.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    progress: Progress,
}

/// Makes the figures, prints them, writes the pages.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        print(listing().trim_end());
        return Ok(());
    }
    let chosen = select(&args.figures).map_err(input)?;
    let trace = trace(args)?;
    let options: Vec<Options> = chosen
        .iter()
        .map(|part| options(args, part, trace.clone()))
        .collect::<Result<_, Failure>>()?;
    args.progress.begin();
    if let Some(directory) = &args.out {
        for part in chosen.iter().filter(|_| !args.force.force) {
            output::refuse_existing(&directory.join(part.subject.name()).join("index.html"))?;
        }
        make(directory)?;
    }
    let stop = super::compare::interrupt_flag()?;
    let (mut failures, mut score) = (Vec::new(), Score::default());
    for (part, options) in chosen.iter().zip(&options) {
        let reproduction = reproduce(part, options, &stop);
        show(&reproduction);
        if let Some(directory) = &args.out {
            let index = write(directory, &reproduction).map_err(input)?;
            print(&format!("pages: {}", index.display()));
        }
        if reproduction.interrupted {
            return Err(Failure::Interrupted);
        }
        score.add(&reproduction.score);
        failures.extend(reproduction.failures);
    }
    print(&score.lines());
    match failures.as_slice() {
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

fn options(args: &Args, part: &Chosen, trace: Option<Input>) -> Result<Options, Failure> {
    let divisor = match args.scale {
        Some(divisor) => divisor,
        None if args.quick => quick_scale(part.subject),
        None => usual_scale(part.subject),
    };
    let scale = Scale::new(divisor).ok_or_else(|| {
        input(format!(
            "--scale {divisor}: give a power of two from 1 to {SCALE_MAX}"
        ))
    })?;
    let table = args.costs.as_deref().unwrap_or(part.subject.costs());
    let (costs, _) = load_costs(table).map_err(input)?;
    let trace_name = args.trace.as_deref().map(name_of).unwrap_or_default();
    let needed = memory_bytes(part, scale);
    room::check_memory("a run of this scale", needed, "give a larger --scale")?;
    Ok(Options {
        scale,
        seed: args.seed,
        seeds: args.seeds,
        start: args.prepare.as_deref().map(start).transpose()?,
        costs,
        trace,
        trace_name,
        commit: env!("WHARF_COMMIT").to_string(),
        jobs: args.jobs.count(|| needed),
    })
}

fn start(name: &str) -> Result<Start, Failure> {
    let named = Start::ALL.into_iter().find(|start| start.name() == name);
    named.ok_or_else(|| input(format!("--prepare {name}: use touched, filled or steady")))
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
    let options = ReadOptions {
        requests_room: Some(requests_room()),
        ..args.reading.options()?
    };
    let from = match path == Path::new("-") {
        true => from_stdin()?,
        false => TraceFrom::File(path.clone()),
    };
    from.open(&options).map_err(input)?;
    Ok(Some(Input::Trace {
        from,
        options,
        layout: Layout::Concatenate,
    }))
}
