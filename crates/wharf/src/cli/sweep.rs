//! `wharf sweep`: the points of a file, in parts, in a directory that machines share.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use wharf_lab::sweep::{Folder, Found, Point, Report, Shard, SweepRow};

use super::compare::interrupt_flag;
use super::compare::sweep::{Asked, write};
use super::output::{Force, Reports};
use super::{Failure, input, print, room};

/// What to do with a sweep (`docs/sweeps.md`).
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Lists the points of a sweep: what each is of, and its identity.
    List {
        /// The sweep: a TOML file with the options of `wharf compare` as its keys, and lists of values.
        file: PathBuf,
    },
    /// Runs the points of a sweep and writes a line of JSON for each to a directory. Processes on several machines may run parts of
    /// it at the same time.
    Run(Run),
    /// Puts the lines of a directory together, prints the table, writes the reports.
    Merge {
        /// The directory that `wharf sweep run` has written.
        dir: PathBuf,

        /// Writes JSON to a file, or to standard output in place of the table.
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<PathBuf>,

        /// Writes a page with the curves.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,

        #[command(flatten)]
        force: Force,
    },
}

#[derive(clap::Args)]
pub(super) struct Run {
    /// The sweep: a TOML file with the options of `wharf compare` as its keys, and lists of values.
    file: PathBuf,

    /// Runs one of n equal parts, such as 2/8. All points if left out.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,

    /// Goes on where earlier runs ended: points that are in the directory already are not run again.
    #[arg(long)]
    resume: bool,

    /// The directory for the lines, made if need be. Machines that run parts of one sweep share it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    jobs: room::Jobs,
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List { file } => {
            let sweep = read(file)?.sweep()?;
            let line = |point: &Point| format!("{}  {}", point.id, sweep.describe(point));
            let lines: Vec<String> = sweep.points.iter().map(line).collect();
            print(&lines.join("\n"));
            Ok(())
        }
        Command::Run(args) => run_part(args),
        Command::Merge {
            dir,
            json,
            html,
            force,
        } => {
            let (json, html) = (json.clone(), html.clone());
            merge(dir, &Reports { json, html }, force)
        }
    }
}

fn read(file: &Path) -> Result<Asked, Failure> {
    let label = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| input(format!("cannot read {label}: {error}")))?;
    Asked::of_file(&text, &label)
}

/// Runs the points of a shard that are not there yet.
fn run_part(args: &Run) -> Result<(), Failure> {
    let asked = read(&args.file)?;
    let (sweep, run_bytes) = (asked.sweep()?, asked.run_bytes()?);
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let folder = Folder::join(&args.out, &sweep).map_err(input)?;
    let (todo, there) = left(&folder, shard, args)?;
    let total = todo.len();
    if total == 0 {
        print(&format!(
            "all {there} points are in {} already",
            args.out.display()
        ));
        return Ok(());
    }
    let writer = Mutex::new(folder.writer(shard).map_err(input)?);
    let keep = |point: &Point, row: SweepRow| {
        let mut writer = writer.lock().unwrap_or_else(|p| p.into_inner());
        let written = writer.write(&row);
        written.map_err(|error| Failure::Run(error.to_string()))?;
        let (done, words) = (writer.rows(), sweep.describe(point));
        let figure = row.row.bandwidth_mb_s;
        print(&format!("{done} of {total}: {words}: {figure:.1} MB/s"));
        Ok(())
    };
    let stop = interrupt_flag()?;
    let outcome = asked.run(&sweep, &todo, args.jobs.count(|| run_bytes), &stop, &keep);
    if stop.load(Ordering::Relaxed) && outcome.is_ok() {
        return Err(Failure::Interrupted);
    }
    outcome
}

/// The points of the shard that are to be run, and how many are there.
fn left(folder: &Folder, shard: Shard, args: &Run) -> Result<(Vec<usize>, usize), Failure> {
    let (sweep, found) = (&folder.sweep, read_rows(folder)?);
    let is_there = |at: &usize| found.rows.contains_key(&sweep.points[*at].id);
    let (there, todo): (Vec<usize>, Vec<usize>) =
        sweep.shard(shard).into_iter().partition(is_there);
    if !there.is_empty() && !args.resume {
        let (count, of) = (there.len(), there.len() + todo.len());
        return Err(input(format!(
            "{} has {count} of these {of} points already: give --resume to run the others, or another --out",
            args.out.display()
        )));
    }
    Ok((todo, there.len()))
}

/// All rows of a directory. Says which lines were passed over.
fn read_rows(folder: &Folder) -> Result<Found, Failure> {
    let found = folder.read().map_err(input)?;
    for path in &found.torn {
        eprintln!(
            "wharf: {}: its last line was not written whole, and is passed over",
            path.display()
        );
    }
    Ok(found)
}

/// Puts the rows of a directory together.
fn merge(dir: &Path, reports: &Reports, force: &Force) -> Result<(), Failure> {
    reports.check(force.force)?;
    let folder = Folder::open(dir).map_err(input)?;
    let report = Report::new(&folder.sweep, read_rows(&folder)?.rows);
    write(reports, &report)?;
    match report.gap() {
        None => Ok(()),
        Some(gap) => Err(Failure::Run(format!(
            "{gap}: `wharf sweep run FILE --resume --out {}` runs them",
            dir.display()
        ))),
    }
}
