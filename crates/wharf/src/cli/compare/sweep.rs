//! Sweeps of `wharf compare`: its options with lists of values, or those of a file.
//!
//! Each combination of values is the options of one comparison, which are understood and refused as always. `wharf_lab::sweep` runs
//! the points.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use clap::{ArgAction, FromArgMatches};
use wharf_lab::compare::Request;
use wharf_lab::config::{file_hash, text_hash};
use wharf_lab::replay::{RunError, Setup};
use wharf_lab::result::CostTable;
use wharf_lab::sweep::{
    Axis, Combination, Described, Point, Report, Sweep, SweepRow, Word, Work, combinations,
    describe, render,
};

use super::{
    Args, Failure, Force, Progress, Reports, System, failure, input, interrupt_flag, prepare, room,
    system,
};
use crate::cli::usage;

/// Options that are of a command and not of a point; threads and profile are of real time, which no sweep of a file has.
const OF_COMMAND: [&str; 9] = [
    "json", "html", "gauges", "jobs", "force", "progress", "real", "threads", "profile",
];

/// What is swept: for each combination of values the options of a comparison.
pub(crate) struct Asked {
    axes: Vec<Axis>,
    combinations: Vec<(Vec<String>, Args)>,
}

impl Asked {
    /// The lists of values in some options; none if there is no list.
    pub(super) fn of_lists(args: &Args) -> Result<Option<Asked>, Failure> {
        let (mut axes, mut base) = (Vec::new(), args.clone());
        if let Some(cache) = &args.cache {
            axes.extend(Axis::of_option("cache", cache).map_err(|e| input(format!("--{e}")))?);
        }
        let of_cache = axes.len();
        base.sets.clear();
        for set in &args.sets {
            match Axis::of_set(set).map_err(|error| input(format!("--set: {error}")))? {
                Some(axis) => axes.push(axis),
                None => base.sets.push(set.clone()),
            }
        }
        if axes.is_empty() {
            return Ok(None);
        }
        check_keys(&axes[of_cache..], &args.sets)?;
        let with = |places: &[usize]| {
            let mut args = base.clone();
            for (number, (axis, place)) in axes.iter().zip(places).enumerate() {
                let value = &axis.values[*place];
                match number < of_cache {
                    true => args.cache = Some(value.clone()),
                    false => args.sets.push(format!("{}={value}", axis.key)),
                }
            }
            Ok(args)
        };
        Asked::new(axes.clone(), with).map(Some)
    }

    /// What a file says, which is called `label` where something is wrong with it.
    pub(crate) fn of_file(text: &str, label: &str) -> Result<Asked, Failure> {
        let described: Described = describe(text, label, &options()).map_err(input)?;
        let with = |places: &[usize]| {
            let parsed = parse(&described.words(places));
            parsed.map_err(|line| input(format!("{label}: {line}")))
        };
        Asked::new(described.axes.clone(), with)
    }

    fn new(
        axes: Vec<Axis>,
        with: impl Fn(&[usize]) -> Result<Args, Failure>,
    ) -> Result<Asked, Failure> {
        let all = combinations(&axes).map_err(input)?;
        let combination = |places: &Vec<usize>| {
            let values = axes.iter().zip(places);
            let values = values.map(|(axis, place)| axis.values[*place].clone());
            Ok((values.collect(), with(places)?))
        };
        let combinations = all
            .iter()
            .map(combination)
            .collect::<Result<_, Failure>>()?;
        Ok(Asked { axes, combinations })
    }

    /// The points. Every configuration is loaded, and refused if it cannot be.
    pub(crate) fn sweep(&self) -> Result<Sweep, Failure> {
        let mut files = BTreeMap::new();
        let combination = |(values, args): &(Vec<String>, Args)| {
            let System { designs, setup, .. } = system(args)?;
            let costs = serde_json::to_string(&setup.costs).expect("plain data");
            Ok(Combination {
                values: values.clone(),
                designs: designs.iter().map(|design| design.name.into()).collect(),
                config: setup.config_hash(),
                costs: (!args.real).then(|| CostTable::of(&setup.costs)),
                costs_hash: text_hash(&costs),
                rest: rest(args, &mut files)?,
            })
        };
        let all = self.combinations.iter().map(combination);
        let all = all.collect::<Result<Vec<_>, Failure>>()?;
        Sweep::new(self.axes.clone(), &all, env!("WHARF_COMMIT")).map_err(input)
    }

    /// Memory that a point takes at most, if all have the footprint of the first one. That one's requests are made for it, which
    /// shows most of what can be wrong before anything is run.
    pub(crate) fn run_bytes(&self) -> Result<u64, Failure> {
        let first = prepare(&self.combinations[0].1)?;
        let footprint_bytes = first.plans[0].footprint_pages * 4096;
        let bytes = |args: &Args| {
            let System {
                setup,
                device_bytes,
                ..
            } = system(args)?;
            let cache_bytes = setup.host.cache_bytes(footprint_bytes, device_bytes);
            let setup = Setup {
                cache_bytes,
                ..setup
            };
            Ok(setup.memory_bytes())
        };
        let mut all = self.combinations.iter().map(|(_, args)| bytes(args));
        all.try_fold(0, |most, bytes| Ok(most.max(bytes?)))
    }

    /// True if points cannot run side by side: real time is for one alone, and so is the image of a drive.
    fn is_one_by_one(&self) -> Result<bool, Failure> {
        let has_image = |args: &Args| {
            let system = system(args)?;
            let mut groups = system.setup.devices.iter();
            Ok(groups.any(|group| group.drive.media.path.is_some()))
        };
        for (_, args) in &self.combinations {
            if args.real || has_image(args)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the `chosen` points; `keep` is called with each row as soon as it is there.
    pub(crate) fn run(
        &self,
        sweep: &Sweep,
        chosen: &[usize],
        jobs: usize,
        stop: &Arc<AtomicBool>,
        keep: &(dyn Fn(&Point, SweepRow) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let jobs = if self.is_one_by_one()? { 1 } else { jobs };
        let runs = Runs {
            asked: self,
            sweep,
            stop,
            keep,
            failures: Mutex::default(),
        };
        wharf_lab::sweep::run(sweep, chosen, jobs, &runs, stop);
        let failures = runs.failures.into_inner();
        told(&failures.unwrap_or_else(|p| p.into_inner()))
    }

    /// Runs all points. The report has those that did not fail.
    fn report(
        &self,
        sweep: &Sweep,
        jobs: usize,
        stop: &Arc<AtomicBool>,
    ) -> (Report, Result<(), Failure>) {
        let all: Vec<usize> = (0..sweep.points.len()).collect();
        let rows: Mutex<BTreeMap<String, SweepRow>> = Mutex::default();
        let keep = |_: &Point, row: SweepRow| {
            let mut rows = rows.lock().unwrap_or_else(|p| p.into_inner());
            rows.insert(row.point.clone(), row);
            Ok(())
        };
        let outcome = self.run(sweep, &all, jobs, stop, &keep);
        let rows = rows.into_inner().unwrap_or_else(|p| p.into_inner());
        (Report::new(sweep, rows), outcome)
    }
}

/// A key with a list has no other value.
fn check_keys(axes: &[Axis], sets: &[String]) -> Result<(), Failure> {
    let keys: Vec<&str> = sets
        .iter()
        .map(|set| set.split('=').next().unwrap_or_default().trim())
        .collect();
    for axis in axes {
        if keys.iter().filter(|key| **key == axis.key).count() > 1 {
            let key = axis.key.clone();
            return Err(input(wharf_lab::sweep::SweepError::TwoLists(key)));
        }
    }
    Ok(())
}

/// The keys that a file may have.
fn options() -> Vec<String> {
    let command = command();
    let names = command.get_arguments().map(|argument| {
        let id = argument.get_id().as_str();
        argument.get_long().unwrap_or(id).to_string()
    });
    let of_point = |name: &String| name != "set" && !OF_COMMAND.contains(&name.as_str());
    names.filter(of_point).collect()
}

fn command() -> clap::Command {
    let command = clap::Command::new("compare").no_binary_name(true);
    <Args as clap::Args>::augment_args(command.disable_help_flag(true))
}

/// Options of a comparison as the command line would have them.
fn parse(words: &[Word]) -> Result<Args, String> {
    let command = command();
    let is_flag = |name: &str| {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| {
            argument.get_long() == Some(name) && matches!(argument.get_action(), ArgAction::SetTrue)
        })
    };
    let (mut line, mut workload) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            Word::Set(key, value) => line.push(format!("--set={key}={value}")),
            Word::Option(name, value) if name == "workload" => {
                workload = vec!["--".to_string(), value.clone()];
            }
            Word::Option(name, value) if is_flag(name) => match value.as_str() {
                "true" => line.push(format!("--{name}")),
                "false" => {}
                _ => return Err(format!("{name} = {value}: say true or false")),
            },
            Word::Option(name, value) => line.push(format!("--{name}={value}")),
        }
    }
    line.extend(workload);
    let matches = command.try_get_matches_from(line);
    let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
    args.map_err(|error| usage::first(&error))
}

/// What a point's results depend on besides its configuration: all other options, and the contents of the files that are its
/// workload and the drive that it begins with, whatever they are called.
fn rest(args: &Args, files: &mut BTreeMap<String, String>) -> Result<String, Failure> {
    let mut key = Args {
        cache: None,
        drive: None,
        backing: None,
        host: String::new(),
        costs: String::new(),
        reports: Reports::default(),
        force: Force::default(),
        progress: Progress::default(),
        ..args.clone()
    };
    key.designs.clear();
    key.sets.clear();
    key.jobs.forget();
    if args.workload.as_deref() == Some("-") {
        return Err(input(
            "a sweep reads its trace more than once, and standard input can be read once: name a file",
        ));
    }
    let mut known = |name: &str| {
        if !files.contains_key(name) {
            files.insert(name.into(), contents(name)?);
        }
        Ok(files[name].clone())
    };
    if let Some(name) = &args.workload
        && Path::new(name).exists()
    {
        key.workload = Some(known(name)?);
    }
    if !["empty", "touched", "steady"].contains(&args.prepare.as_str()) {
        key.prepare = known(&args.prepare)?;
    }
    Ok(format!("{key:?}"))
}

/// A file by its contents.
fn contents(name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    if !path.is_file() {
        return Err(input(format!(
            "{name} is no regular file, and a sweep reads it more than once: name one"
        )));
    }
    match file_hash(path) {
        Ok(hash) => Ok(format!("file {hash}")),
        Err(error) => Err(input(format!("cannot read {name}: {error}"))),
    }
}

/// How the points of a sweep are made and what becomes of them.
struct Runs<'a> {
    asked: &'a Asked,
    sweep: &'a Sweep,
    stop: &'a Arc<AtomicBool>,
    keep: &'a (dyn Fn(&Point, SweepRow) -> Result<(), Failure> + Sync),
    failures: Mutex<Vec<Failure>>,
}

impl Work for Runs<'_> {
    type Failure = Failure;

    fn request(&self, combination: usize) -> Result<Request, Failure> {
        prepare(&self.asked.combinations[combination].1)
    }

    fn failed(&self, error: &RunError) -> Failure {
        failure(error, self.asked.combinations[0].1.seed)
    }

    fn done(&self, point: &Point, row: Result<SweepRow, Failure>) {
        let about = |line: String| format!("{}: {line}", self.sweep.describe(point));
        let failed = match row {
            // What cannot be kept need not be run.
            Ok(row) => {
                (self.keep)(point, row).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
            }
            Err(Failure::Input(line)) => Err(Failure::Input(about(line))),
            Err(Failure::Run(line)) => Err(Failure::Run(about(line))),
            Err(Failure::File { line, errno }) => Err(Failure::File {
                line: about(line),
                errno,
            }),
            Err(Failure::Interrupted) => Err(Failure::Interrupted),
        };
        if let Err(failure) = failed {
            let mut failures = self.failures.lock().unwrap_or_else(|p| p.into_inner());
            failures.push(failure);
        }
    }
}

/// Several failures as one: bad input, if all are.
fn told(failures: &[Failure]) -> Result<(), Failure> {
    let is_run = |failure: &&Failure| matches!(failure, Failure::Run(_));
    let worst = failures.iter().find(is_run).or(failures.first());
    let more = match failures.len() {
        0 => return Ok(()),
        1 => String::new(),
        count => format!(" (and {} more points failed)", count - 1),
    };
    Err(match worst {
        Some(Failure::Input(line)) => Failure::Input(line.clone() + &more),
        Some(Failure::Run(line)) => Failure::Run(line.clone() + &more),
        Some(Failure::File { line, errno }) => Failure::File {
            line: line.clone() + &more,
            errno: *errno,
        },
        _ => Failure::Interrupted,
    })
}

/// Runs the lists of `wharf compare`, prints the table, writes the reports.
pub(super) fn run(args: &Args, asked: &Asked) -> Result<(), Failure> {
    if args.gauges {
        return Err(input(
            "--gauges is for one comparison, and this is a sweep: its --json has what designs report",
        ));
    }
    let (sweep, run_bytes) = (asked.sweep()?, asked.run_bytes()?);
    let (jobs, stop) = (args.jobs.count(|| run_bytes), interrupt_flag()?);
    let (report, outcome) = asked.report(&sweep, jobs, &stop);
    if !report.rows.is_empty() {
        write(&args.reports, &report)?;
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => outcome,
    }
}

/// Prints the table, writes the reports.
pub(crate) fn write(reports: &Reports, report: &Report) -> Result<(), Failure> {
    reports.write(|| report.table(), || report.to_json(), || render(report))
}

/// Runs the sweep that a text describes, `jobs` points at a time, or as many as fit; `stop` ends it early.
///
/// # Errors
/// As the command line.
pub(crate) fn described(
    text: &str,
    jobs: Option<usize>,
    stop: &Arc<AtomicBool>,
) -> Result<Report, Failure> {
    let asked = Asked::of_file(text, "sweep")?;
    let (sweep, run_bytes) = (asked.sweep()?, asked.run_bytes()?);
    let jobs = jobs.unwrap_or_else(|| room::jobs(run_bytes));
    let (report, outcome) = asked.report(&sweep, jobs, stop);
    outcome.map(|()| report)
}
