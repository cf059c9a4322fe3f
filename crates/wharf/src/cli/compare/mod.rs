//! `wharf compare`.

pub(super) mod requests;
pub(super) mod sweep;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::DriveConfig;
use wharf_host::Role;
use wharf_host::admin::AdminError;
use wharf_lab::compare::{Request, compare};
use wharf_lab::config::{
    HostConfig, Sets, ShareOrBytes, load_costs, load_drive, load_host, parse_share_or_bytes,
};
use wharf_lab::designs::{self, DesignEntry};
use wharf_lab::input::{ClientRule, FilesFrom, Input, plan};
use wharf_lab::replay::{DeviceGroup, Engine, Prepare, RunError, Setup};
use wharf_lab::report;
use wharf_lab::result::Comparison;
use wharf_workload::fit::FitMode;

use super::output::{Force, Reports};
use super::progress::Progress;
use super::trace::unreadable;
use super::values::{self, count, no_such, share, size};
use super::{Failure, input, room};
use requests::workload;

/// What clients see of file operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum View {
    Blocks,
    Files,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// A trace file (`-`: standard input), a generator (sequential, uniform, zipf), file operations
    /// (fileserver, varmail, videoserver, ffsb, each of which is also there as ScaleCache's authors
    /// ran it, such as fileserver-scalecache; ycsb-a, ycsb-f, lsm-a to lsm-f, lsm-fillrandom, lsm-readrandom) or a profile (webmail, online,
    /// webusers, prn_0, usr_0, src2, T1205, T2982, proj_1, mds; lun0, lun2, lun4, bayes, kmeans, pagerank,
    /// sort, terasort). The sample trace if left out.
    workload: Option<String>,

    /// Designs to compare, in order (`wharf designs` lists them), or all: the ten that cache pages of a drive on blocks. If left out: direct,clock; and of
    /// the sample trace direct, clock, kernel, scale, hardware and scala.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::name("design", design_names))]
    designs: Vec<String>,

    /// Cache of every design: a size, or a share of the workload's footprint (of the drive with
    /// --set host.cache_of=drive). The host preset's if left out: 18.75%. Several, separated by commas, are a sweep
    /// (`docs/sweeps.md`): every combination with each list of --set.
    #[arg(long, value_name = "SIZE|SHARE")]
    cache: Option<String>,

    /// Clients, each on a CPU of its own.
    #[arg(long, default_value_t = 8, value_parser = count::<u32>(1..=96))]
    clients: u32,

    /// Requests each client keeps in flight.
    #[arg(long, default_value_t = 32, value_parser = count::<u32>(1..=4096))]
    depth: u32,

    /// Drive: a preset (see `wharf drive list`) or a TOML file. If left out: scala, and tc-csd for flash caches
    /// (indexless, ideal, improved-lru, lru, fifo, opencas, through, direct-disk).
    #[arg(long, value_name = "PRESET|FILE")]
    drive: Option<String>,

    /// Drives side by side, striped.
    #[arg(long, default_value_t = 1, value_parser = count::<u32>(1..=64))]
    drives: u32,

    /// Drives that hold all data, behind those of --drive, for flash caches, which keep a part of it there: a preset or a TOML
    /// file, hdd if left out; --set backing.KEY=VALUE changes them.
    #[arg(long, value_name = "PRESET|FILE")]
    backing: Option<String>,

    /// Backing drives side by side, striped; 1 if left out.
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=64))]
    backing_drives: Option<u32>,

    /// Host: a preset or a TOML file.
    #[arg(long, default_value = "default", value_name = "PRESET|FILE")]
    host: String,

    /// Costs of CPU work in virtual time: a table's name or a TOML file.
    #[arg(long, default_value = "default", value_name = "TABLE|FILE")]
    costs: String,

    /// Changes one parameter, such as drive.timing.read_ns=25us or host.write_policy=write-through.
    /// May be given several times; `docs/configuration.md` lists all keys. Values separated by commas are a sweep, as of --cache.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// Seed of every random choice.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Runs each design with so many seeds, from --seed on: figures are means, and their spread is said.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<u32>(1..=1000))]
    seeds: u32,

    #[command(flatten)]
    jobs: room::Jobs,

    /// What the drives hold at the beginning: `empty`, `touched` (every page of the workload, written
    /// once), `steady` (filled, then overwritten until garbage collection is steady), or the path
    /// of an image made by `wharf drive prepare`.
    #[arg(long, default_value = "touched", value_name = "STATE|IMAGE")]
    prepare: String,

    /// Real time instead of virtual time: one thread for the drives, others for the clients.
    #[arg(long)]
    real: bool,

    /// Threads for the clients in real time.
    #[arg(long, default_value_t = 1, requires = "real", value_parser = count::<u32>(1..=96))]
    threads: u32,

    /// Time every operation in real time too, for the CPU breakdown (slower).
    #[arg(long, requires = "real")]
    profile: bool,

    /// Sends requests by the trace's timestamps, this many times faster, instead of as fast as they
    /// complete.
    #[arg(long, value_name = "FACTOR")]
    speed: Option<f64>,

    /// How requests go to clients: round-robin, process (of traces and profiles that name it),
    /// stream (by device), address (by 128 KiB region). File operations always go by stream: a
    /// thread stays with a client.
    #[arg(long, default_value = "round-robin", value_name = "RULE")]
    rule: String,

    /// Requests beyond the drive: error, wrap or scale.
    #[arg(long, default_value = "error")]
    fit: String,

    /// Requests of a generator or profile, 200,000 if left out. Of a trace, the first so many; all of them if left out.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..=u64::MAX))]
    requests: Option<u64>,

    /// Address range of a generator (1 GiB if left out), profile, or of all files of file operations (in
    /// proportion to the requests).
    #[arg(long, value_name = "SIZE", value_parser = size)]
    footprint: Option<u64>,

    /// Request size of a generator, or of file operations, 4 KiB if left out. Profiles have their own sizes.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bs: Option<u64>,

    /// Share of reads of a generator or a job on files, such as 0.7 or 70%; 0.7 if left out. Profiles and other file operations have their
    /// own mix.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    read_share: Option<f64>,

    /// Skew of the zipf generator, 0.99 if left out.
    #[arg(long)]
    theta: Option<f64>,

    /// Files of file operations, 64 if left out (128 where the program has two sets, 1 for a job, as published for filebench's web
    /// personalities). With --set
    /// host.files to the same number each is a file of its own for the designs kernel and scale.
    #[arg(long, value_name = "N", value_parser = count::<u32>(0..=u32::MAX.into()))]
    files: Option<u32>,

    /// Threads that each loop through the flow of file operations, 64 if left out (1 for a job, 100 for filebench's web
    /// personalities). Of a job with fewer files several threads use one file.
    #[arg(long, value_name = "N", value_parser = count::<u32>(0..=u32::MAX.into()))]
    loops: Option<u32>,

    /// Threads of a job on files that only write, where all others only read; if left out, each does both.
    #[arg(long, value_name = "N", value_parser = count::<u32>(0..=u32::MAX.into()))]
    writers: Option<u32>,

    /// Writes of a job's thread after which it makes its file durable; never if left out.
    #[arg(long, value_name = "N", value_parser = count::<u32>(0..=u32::MAX.into()))]
    fsync_every: Option<u32>,

    /// What clients see of file operations: requests for `blocks` in regions of a volume, or `files` with names, which are opened,
    /// read, written, removed. A trace of operations on files is always replayed as files.
    #[arg(long, default_value = "blocks", value_name = "VIEW")]
    view: View,

    #[command(flatten)]
    reading: super::trace::Reading,

    /// Lays the devices of a trace over one another instead of one after another.
    #[arg(long)]
    overlay: bool,

    /// Prints what designs report of themselves, below the table.
    #[arg(long)]
    gauges: bool,

    #[command(flatten)]
    reports: Reports,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    progress: Progress,
}

/// Compares, prints the table, writes the reports.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.progress.begin();
    args.reports.check(args.force.force)?;
    if let Some(asked) = sweep::Asked::of_lists(args)? {
        return sweep::run(args, &asked);
    }
    let (request, stop) = (prepare(args)?, interrupt_flag()?);
    let comparison = compared(&request, &stop)?;
    let table = || {
        let mut text = report::table::render(&comparison, report::table::stdout_width());
        if args.gauges {
            text = format!("{text}\n{}", report::table::gauges(&comparison));
        }
        text
    };
    let json = || report::json::to_string(&comparison);
    args.reports
        .write(table, json, || report::html::render(&comparison))?;
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        Err(Failure::Interrupted)
    } else {
        Ok(())
    }
}

/// Runs the designs; says whose fault a failure is.
pub(super) fn compared(request: &Request, stop: &Arc<AtomicBool>) -> Result<Comparison, Failure> {
    compare(request, stop).map_err(|error| failure(&error, request.setup.seed))
}

/// What a failed run means.
fn failure(error: &RunError, seed: u64) -> Failure {
    match error {
        RunError::Drive(_)
        | RunError::ImageExists(_)
        | RunError::Design(_)
        | RunError::Roles { .. }
        | RunError::ShowTooLittle { .. }
        | RunError::MixedMedia
        | RunError::Boot(AdminError::TooFewFrames { .. })
        | RunError::Memory(_) => Failure::Input(error.to_string()),
        _ => Failure::Run(format!("{error} (seed {seed})")),
    }
}

/// Set by the first Ctrl-C; a second one ends the program at once.
pub(super) fn interrupt_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let signal = signal_hook::consts::SIGINT;
    let register = || {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            super::INTERRUPTED.into(),
            stop.clone(),
        )?;
        signal_hook::flag::register(signal, stop.clone())
    };
    register().map_err(|error| Failure::Input(format!("cannot catch Ctrl-C: {error}")))?;
    Ok(stop)
}

/// Designs, drives and host, without a workload.
struct System {
    designs: Vec<&'static DesignEntry>,
    setup: Setup,
    unit_bytes: u64,
    device_bytes: u64,
}

fn system(args: &Args) -> Result<System, Failure> {
    let designs = chosen(&args.designs, args.workload.is_none())?;
    let sets = Sets::parse(&args.sets).map_err(input)?;
    let caches = one_kind(&designs)?;
    let default = if caches { "tc-csd" } else { "scala" };
    let drive = args.drive.as_deref().unwrap_or(default);
    let (drive, _) = load_drive(drive, &sets).map_err(input)?;
    let backing = backing(args, &sets, caches)?;
    let (mut host, _) = load_host(&args.host, &sets).map_err(input)?;
    let (costs, _) = load_costs(&args.costs).map_err(input)?;
    if let Some(cache) = &args.cache {
        host.cache = parse_share_or_bytes(cache).map_err(|e| input(format!("--cache: {e}")))?;
        host.check().map_err(input)?;
    }
    for (drive, key) in [(Some(&drive), "drive"), (backing.as_ref(), "backing")] {
        let queues = drive.map_or(u32::MAX, |drive| drive.firmware.queues_max);
        if args.clients > queues {
            return Err(input(format!(
                "--clients {} needs as many queues, the drive has {queues}: give --clients {queues}, or --set {key}.firmware.queues_max={}",
                args.clients, args.clients
            )));
        }
    }
    host.check_drives(args.drives).map_err(input)?;
    let unit_bytes = unit_bytes(drive.page_bytes());
    let mut setup = Setup::new(drive, args.drives, host, costs);
    if let Some(backing) = backing {
        let drives = args.backing_drives.unwrap_or(1);
        setup.host.check_drives(drives).map_err(input)?;
        let group = DeviceGroup::new(Role::Backing, backing, drives, &setup.host);
        setup.devices.push(group);
    }
    check_roles(&designs, &setup)?;
    setup.show_enough(&designs);
    let device_bytes = setup.addressable_bytes(&designs);
    Ok(System {
        designs,
        setup,
        unit_bytes,
        device_bytes,
    })
}

/// What is compared, as it was asked for.
pub(super) fn prepare(args: &Args) -> Result<Request, Failure> {
    let System {
        designs,
        setup,
        unit_bytes,
        device_bytes,
    } = system(args)?;
    let rule: ClientRule = args
        .rule
        .parse()
        .map_err(|e| input(format!("--rule: {e}")))?;
    let fit: FitMode = args.fit.parse().map_err(input)?;
    let mut plans = Vec::new();
    for seed in 0..args.seeds {
        let input_of_seed = workload(args, args.seed.wrapping_add(seed.into()), unit_bytes)?;
        let made = plan(&input_of_seed, fit, rule, args.clients, device_bytes);
        plans.push(Arc::new(made.map_err(unreadable)?));
        // A trace is the same whatever the seed.
        let is_listed = matches!(&input_of_seed, Input::Files { from, .. }
            if matches!(from, FilesFrom::Listed { .. }));
        if is_listed || matches!(input_of_seed, Input::Trace { .. }) {
            plans.resize(args.seeds as usize, plans[0].clone());
            break;
        }
    }
    if rule == ClientRule::Process && plans[0].rule == ClientRule::RoundRobin {
        return Err(input(format!(
            "--rule process: {} does not say which process made a request: use another rule",
            plans[0].name
        )));
    }
    let cache_bytes = setup
        .host
        .cache_bytes(plans[0].footprint_pages * 4096, device_bytes);
    let setup = Setup {
        cache_bytes,
        clients: args.clients,
        depth: args.depth,
        speed: speed(args.speed)?,
        seed: args.seed,
        engine: match args.real {
            false => Engine::Virtual,
            true => Engine::Real {
                client_threads: args.threads,
                profile: args.profile,
            },
        },
        prepare: match args.prepare.as_str() {
            "empty" => Prepare::Empty,
            "touched" => Prepare::Touched,
            "steady" => Prepare::Steady,
            path => Prepare::Image(path.into()),
        },
        ..setup
    };
    let jobs = args.jobs.count(|| setup.memory_bytes());
    let cache_spec = cache_spec(args, &setup.host);
    let request = Request {
        setup,
        designs,
        plans,
        cache_spec,
        commit: env!("WHARF_COMMIT").to_string(),
        jobs,
    };
    check_memory(&request)?;
    Ok(request)
}

/// Whether the designs are flash caches: all of them, or none.
fn one_kind(designs: &[&'static DesignEntry]) -> Result<bool, Failure> {
    let is_cache = |design: &&&DesignEntry| design.is_flash_cache();
    let cache = designs.iter().find(is_cache);
    let other = designs.iter().find(|design| !is_cache(design));
    match (cache, other) {
        (Some(cache), Some(other)) => Err(input(format!(
            "{} keeps all data on a disk behind its drives and {} has no disk: compare them apart",
            cache.name, other.name
        ))),
        (cache, _) => Ok(cache.is_some()),
    }
}

/// The drives that hold all data, if they are others: those of flash `caches` are disks if nobody says what they are.
fn backing(args: &Args, sets: &Sets, caches: bool) -> Result<Option<DriveConfig>, Failure> {
    let default = caches.then_some("hdd");
    let Some(name) = args.backing.as_deref().or(default) else {
        let line = match (sets.backing.is_empty(), args.backing_drives) {
            (true, None) => return Ok(None),
            (false, _) => "--set backing.*: there are no backing drives: give --backing",
            (true, Some(_)) => "--backing-drives: there are none: give --backing",
        };
        return Err(input(line));
    };
    let loaded = load_drive(name, &sets.of_backing());
    loaded.map(|(drive, _)| Some(drive)).map_err(input)
}

/// A design has the drives that it uses, and no others.
fn check_roles(designs: &[&'static DesignEntry], setup: &Setup) -> Result<(), Failure> {
    let given = setup.group(Role::Backing).is_some();
    for design in designs {
        let name = design.name;
        match (design.needs(setup).roles.contains(&Role::Backing), given) {
            (true, false) => {
                return Err(input(format!(
                    "{name} keeps its data on backing drives: give them, such as --backing hdd"
                )));
            }
            (false, true) => {
                return Err(input(format!(
                    "{name} uses no backing drives: leave out --backing, or name designs that do"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What the drives' media tell apart: with stamps a page, else a sector.
fn unit_bytes(page_bytes: usize) -> u64 {
    match page_bytes {
        4096 => 512,
        _ => 4096,
    }
}

fn cache_spec(args: &Args, host: &HostConfig) -> String {
    let of = match (&host.cache, host.cache_of) {
        (ShareOrBytes::Bytes(_), _) => "",
        (_, wharf_lab::config::CacheOf::Workload) => " of the workload's footprint",
        (_, wharf_lab::config::CacheOf::Drive) => " of the drives",
    };
    let said = args.cache.clone().unwrap_or_else(|| host.cache.to_string());
    format!("{said}{of}")
}

fn speed(speed: Option<f64>) -> Result<Option<f64>, Failure> {
    match speed {
        Some(factor) if !(factor > 0.0 && factor.is_finite()) => {
            Err(input(format!("--speed {factor}: give a factor above 0")))
        }
        other => Ok(other),
    }
}

/// Drives or a cache larger than the machine's memory would end in a kill rather than in a line.
fn check_memory(request: &Request) -> Result<(), Failure> {
    let held_bytes = request.setup.held_bytes(request.plans[0].footprint_pages);
    room::check_memory(
        "what is on the drives",
        held_bytes.saturating_mul(request.threads() as u64),
        "give a smaller --footprint or --drive, --jobs 1, or --set drive.media.kind=stamp",
    )?;
    if request.setup.group(Role::Backing).is_some() {
        // What is cached is on drives.
        return Ok(());
    }
    let (setup, cache_spec) = (&request.setup, &request.cache_spec);
    let cache_bytes = setup.cache_bytes.saturating_mul(request.threads() as u64);
    let page_bytes = setup.cache().drive.page_bytes() as u64;
    let needs = |design: &&DesignEntry| {
        let page = page_bytes + design.needs(setup).bytes_per_page;
        (cache_bytes / 4096 * page, design.name)
    };
    let cached = request.designs.iter().copied();
    let cached = cached.filter(|design| design.has_cache(setup));
    let Some((needed, design)) = cached.map(|design| needs(&design)).max() else {
        return Ok(());
    };
    let what = format!("a cache of {cache_spec}, in {design},");
    room::check_memory(&what, needed, "give a smaller --cache")
}

/// The designs if none are named: of a workload, and of the sample trace.
const DESIGNS: &str = "direct,clock";
const DESIGNS_OF_SAMPLE: &str = "direct,clock,kernel,scale,hardware,scala";

/// What `all` means.
const DESIGNS_ALL: &str =
    "direct,clock,kernel,falcon,kernel-dflush,scale,scale-dflush,tri,hardware,scala";

fn chosen(names: &[String], of_sample: bool) -> Result<Vec<&'static DesignEntry>, Failure> {
    let listed = match names {
        [] if of_sample => Some(DESIGNS_OF_SAMPLE),
        [] => Some(DESIGNS),
        [all] if all == "all" => Some(DESIGNS_ALL),
        _ => None,
    };
    let listed = listed.map(|listed| listed.split(',').map(String::from).collect::<Vec<_>>());
    let names = listed.as_deref().unwrap_or(names);
    for (nth, name) in names.iter().enumerate() {
        if names[..nth].contains(name) {
            return Err(input(format!(
                "--designs: {name} is there twice: name each once"
            )));
        }
    }
    let known: Vec<&str> = designs::all().iter().map(|design| design.name).collect();
    let find =
        |name: &String| designs::find(name).ok_or_else(|| input(no_such("design", name, &known)));
    names.iter().map(find).collect()
}

/// What `--designs` takes.
fn design_names() -> Vec<&'static str> {
    let all = designs::all().into_iter().map(|design| design.name);
    all.chain(["all"]).collect()
}
