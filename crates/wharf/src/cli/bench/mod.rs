//! `wharf bench`: the same job on a file through the page cache, around all caches, and through the kernel's.
//!
//! 1. The file is made and filled, or recognised and read through: every page says what it is (`stamp`, `laid`).
//! 2. Rows take turns in rounds, forwards and backwards. Before each the kernel gives up what it has cached of
//!    the file; each runs in a process of its own (`row`), those of the kernel's cache in a control group with a
//!    memory limit (`group`).
//! 3. In there, threads send the job's requests (`job`) down their ways (`way`), check and time them (`threads`).
//! 4. What was written is read back from storage and checked. Then everything is summed up (`summary`).

mod group;
mod job;
pub(super) mod row;
mod stamp;
mod summary;
mod test_file;
mod threads;
mod way;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use wharf_lab::report;
use wharf_runtime::clock::Clock;
use wharf_runtime::sync::Ordering;

use super::compare::interrupt_flag;
use super::output::Reports;
use super::progress::{Progress, Steps};
use super::values::{count, replacement, size, time_ns};
use super::{Failure, input, room};
use crate::page_cache::{PageCacheOptions, Replacement};
use group::MemoryGroup;
use job::{Design, Job, Pattern};
use row::Ran;
use stamp::PAGE_BYTES;
use test_file::{TestFile, Wanted};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The file: made if it does not exist, and kept. One that holds other data than a bench's is refused. A block
    /// device works too.
    file: PathBuf,

    /// In which order, and which requests are reads.
    #[arg(long, alias = "readwrite", default_value = "randread", value_enum)]
    rw: Pattern,

    /// Percentage of reads where reads and writes mix (rw, randrw), 50 if left out.
    #[arg(long, value_parser = count::<u32>(0..=100))]
    rwmixread: Option<u32>,

    /// Bytes of a request: a multiple of 4k.
    #[arg(long, alias = "blocksize", default_value = "4k", value_name = "SIZE", value_parser = size)]
    bs: u64,

    /// Bytes of the file, such as 512m or 2g; an existing file keeps its size if left out.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,

    /// Bytes to read and write in each round, by all threads together; as many as the file has if left out.
    #[arg(long, alias = "io_size", value_name = "SIZE", value_parser = size)]
    io_size: Option<u64>,

    /// Threads, which share the requests.
    #[arg(long, alias = "numjobs", default_value_t = 1, value_parser = count::<u32>(1..=512))]
    threads: u32,

    /// Ends each round after this time: seconds, or with ms, s, m, h.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    runtime: Option<u64>,

    /// Goes on for the whole runtime, round and round if need be.
    #[arg(long, alias = "time_based", requires = "runtime")]
    time_based: bool,

    /// Requests that each thread keeps under way, of `direct` alone: calls of the others wait. 1 if left out.
    #[arg(long, value_parser = count::<u32>(1..=4096))]
    iodepth: Option<u32>,

    /// Flushes after so many writes of a thread; 0, and if left out, for never.
    #[arg(long, value_name = "N", value_parser = count::<u64>(0..=u64::MAX))]
    fsync: Option<u64>,

    /// Whether each round of writes ends with a flush, which counts: 1, yes, if left out.
    #[arg(long, alias = "end_fsync", value_name = "0|1", value_parser = count::<u8>(0..=1))]
    end_fsync: Option<u8>,

    /// Seed of every random choice.
    #[arg(long, alias = "randseed", default_value_t = 1, value_parser = count::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Memory for the file's pages, of each row that caches.
    #[arg(long, default_value = "64m", value_name = "SIZE", value_parser = size)]
    memory: u64,

    /// Which page leaves the cache of `scale` (`wharf policies`); that of `PageCache` if left out.
    #[arg(long, value_name = "POLICY", value_parser = replacement)]
    replacement: Option<Replacement>,

    /// Rounds, in each of which every row has its turn.
    #[arg(long, default_value_t = 3, value_parser = count::<u32>(1..=1000))]
    rounds: u32,

    /// Rows, in order; ratios are to the first.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "scale,direct,kernel,kernel-mmap",
        value_enum
    )]
    designs: Vec<Design>,

    /// Overwrites a file or device that holds other data, and reports that exist.
    #[arg(long)]
    force: bool,

    /// Removes the file in the end, if this command made it.
    #[arg(long)]
    unlink: bool,

    #[command(flatten)]
    reports: Reports,

    #[command(flatten)]
    progress: Progress,
}

/// One row's turn.
struct Turn {
    design: Design,
    round: u32,
    place: u32,
    ran: Ran,
    wall_ns: u64,
}

/// Runs the bench, prints the table, writes the reports.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.progress.begin();
    check_words(args)?;
    args.reports.check(args.force)?;
    let (memory_bytes, block_bytes, wanted_bytes) = (args.memory, args.bs, args.size);
    check_sizes(block_bytes, wanted_bytes, memory_bytes)?;
    if let Some(bytes) = wanted_bytes {
        check_blocks(bytes / block_bytes, args.threads)?;
    }
    let there_bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    check_room(
        args,
        block_bytes,
        wanted_bytes.unwrap_or(there_bytes),
        memory_bytes,
    )?;
    let stop = interrupt_flag()?;
    let wanted = Wanted {
        path: &args.file,
        size_bytes: wanted_bytes,
        force: args.force,
        stop: &stop,
    };
    let test_file = TestFile::prepare(&wanted, &mut lay_progress())?;
    let _unlink = Unlink((args.unlink && test_file.is_new).then(|| args.file.clone()));
    let blocks = test_file.bytes / block_bytes;
    check_blocks(blocks, args.threads)?;
    let job = Job {
        pattern: args.rw,
        read_percent: args.rw.read_percent(args.rwmixread.unwrap_or(50)),
        block_bytes,
        file_bytes: blocks * block_bytes,
        threads: args.threads,
        depth: args.iodepth.unwrap_or(1),
        requests: (!args.time_based)
            .then(|| (args.io_size.unwrap_or(test_file.bytes) / block_bytes).max(1)),
        runtime_ns: args.runtime,
        fsync: args.fsync.unwrap_or(0),
        end_fsync: args.end_fsync != Some(0),
        seed: args.seed,
        memory_bytes,
        replacement: args
            .replacement
            .unwrap_or(PageCacheOptions::default().replacement),
    };
    let bench = Bench::new(args, &test_file, &job, &stop);
    let (turns, outcome) = bench.take_turns();
    // Before the report: what it says was checked has been.
    outcome?;
    if !turns.is_empty() {
        let comparison = summary::sum_up(&job, args, &test_file, &turns, bench.notes());
        args.reports.write(
            || report::rounds::render(&comparison, report::table::stdout_width()),
            || report::json::to_string(&comparison),
            || report::html::render(&comparison),
        )?;
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

/// Removes a file when this is dropped.
struct Unlink(Option<PathBuf>);

impl Drop for Unlink {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What cannot be removed stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// All rows of all rounds.
struct Bench<'a> {
    args: &'a Args,
    test_file: &'a TestFile,
    job: &'a Job,
    stop: &'a AtomicBool,
    /// For rows of the kernel's cache; or why there is none.
    group: Result<MemoryGroup, String>,
    /// Room in the group beside the file's pages.
    room_bytes: Cell<u64>,
    /// Rows that were killed for want of room, and the room that they had.
    killed: RefCell<Vec<(Design, u64)>>,
    /// The kernel's cache, to be emptied through.
    file: std::io::Result<std::fs::File>,
}

impl<'a> Bench<'a> {
    fn new(
        args: &'a Args,
        test_file: &'a TestFile,
        job: &'a Job,
        stop: &'a AtomicBool,
    ) -> Bench<'a> {
        let any_kernel = args.designs.iter().any(|design| design.is_kernel());
        Bench {
            args,
            test_file,
            job,
            stop,
            group: match any_kernel {
                true => MemoryGroup::make(),
                false => Err("no row uses the kernel's cache".into()),
            },
            room_bytes: Cell::new(group::room_bytes(job)),
            killed: RefCell::new(Vec::new()),
            file: std::fs::File::open(&test_file.path),
        }
    }

    /// Runs rows in turns until all rounds are done or somebody stops it; gives those that ran.
    fn take_turns(&self) -> (Vec<Turn>, Result<(), Failure>) {
        let designs = &self.args.designs;
        let steps = Steps::new(u64::from(self.args.rounds) * designs.len() as u64, "turns");
        let mut turns = Vec::new();
        for round in 0..self.args.rounds {
            let mut order: Vec<Design> = designs.clone();
            if round % 2 == 1 {
                order.reverse();
            }
            for (place, design) in (0..).zip(order) {
                if self.stop.load(Ordering::Relaxed) {
                    return (turns, Ok(()));
                }
                steps.now(format!(
                    "round {} of {}: {}",
                    round + 1,
                    self.args.rounds,
                    design.name()
                ));
                match self.turn(design, round, place) {
                    Ok(turn) => turns.push(turn),
                    Err(failure) => return (turns, Err(failure)),
                }
                steps.step();
            }
        }
        (turns, Ok(()))
    }

    fn turn(&self, design: Design, round: u32, place: u32) -> Result<Turn, Failure> {
        let group = self.group.as_ref().ok().filter(|_| design.is_kernel());
        loop {
            let before = self.test_file.versions.all();
            if let Some(group) = group {
                group.lift();
            }
            self.empty_kernel_cache()?;
            let clock = Clock::start();
            let within = group.map(|group| (group, self.room_bytes.get()));
            let row::Ended::Ran(ran) = row::run(design, self.job, round, self.test_file, within)?
            else {
                self.give_room(design)?;
                continue;
            };
            let wall_ns = clock.now_ns();
            self.test_file.check_written(&before)?;
            return Ok(Turn {
                design,
                round,
                place,
                ran,
                wall_ns,
            });
        }
    }

    /// After a row was killed: twice the room for it and all that follow.
    fn give_room(&self, design: Design) -> Result<(), Failure> {
        let room_bytes = self.room_bytes.get();
        self.killed.borrow_mut().push((design, room_bytes));
        if 2 * room_bytes > group::ROOM_BYTES_MAX {
            return Err(input(format!(
                "row {}: its control group killed it with {} MiB beside --memory {}: give more --memory",
                design.name(),
                room_bytes >> 20,
                room::size(self.args.memory)
            )));
        }
        self.room_bytes.set(2 * room_bytes);
        match self.job.pattern.writes() {
            true => self.test_file.fill_again(self.stop),
            false => Ok(()),
        }
    }

    /// Has the kernel give up what it has cached of the file.
    fn empty_kernel_cache(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::Run(format!(
                "{}: cannot empty the kernel's cache: {error}",
                self.test_file.path.display()
            ))
        };
        let file = self.file.as_ref().map_err(|e| failed(e.kind().into()))?;
        // Only clean pages go.
        file.sync_all().map_err(failed)?;
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|errno| failed(errno.into()))
    }

    /// What a reader has to know, and what makes rows unequal.
    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let (mut notes, mut warnings) = (Vec::new(), Vec::new());
        if let Err(reason) = &self.group
            && self.args.designs.iter().any(|design| design.is_kernel())
        {
            warnings.push(format!(
                "The kernel's rows had no memory limit ({reason}): they could use all memory of the machine."
            ));
        }
        let room_bytes = self.room_bytes.get();
        if self.group.is_ok() && room_bytes > self.job.memory_bytes / 8 {
            warnings.push(format!(
                "The control group of the kernel's rows has {:.1} MiB beside --memory, for what the kernel cannot reclaim, or it \
                 would be killed: what is left of them holds pages too. More --memory makes rows equal.",
                room_bytes as f64 / f64::from(1 << 20)
            ));
        }
        for (design, room_bytes) in &*self.killed.borrow() {
            warnings.push(format!(
                "{} was killed by its control group's limit, with {:.1} MiB beside the file's pages: it ran again, and the \
                 kernel's rows from there on, with twice that.",
                design.name(),
                *room_bytes as f64 / f64::from(1 << 20)
            ));
        }
        if let Ok(group) = &self.group
            && group.name().contains("v1")
            && self.job.pattern.writes()
        {
            warnings.push(
                "Control groups of version 1 do not count dirty pages by group: the kernel throttles writers by the \
                 whole machine's memory, and writes back when the group's is full."
                    .into(),
            );
        }
        if !self.test_file.target.info().access.contains("O_DIRECT") {
            warnings.push("The file system has no O_DIRECT: scale and direct went through the kernel's cache.".into());
        }
        if let Ok(file) = &self.file
            && rustix::fs::fstatfs(file)
                .is_ok_and(|system| MEMORY_FILE_SYSTEMS.contains(&(system.f_type as u32)))
        {
            warnings.push("The file is in memory (tmpfs), not on storage: the kernel's rows read and write it there, and no row waits for a device.".into());
        }
        if self.job.depth > 1 {
            notes.push(format!(
                "Of direct alone, each thread had {} requests under way; calls of the other rows wait for each.",
                self.job.depth
            ));
        }
        (notes, warnings)
    }
}

/// Numbers of tmpfs and ramfs, whose files are in memory (linux/magic.h).
const MEMORY_FILE_SYSTEMS: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Shows how far the file is made ready.
fn lay_progress() -> impl FnMut(u64, u64) {
    let steps = Steps::new(0, "MiB of the file made ready");
    move |done, all| steps.reach(done >> 20, all >> 20)
}

/// What does not apply to this job is refused, not ignored.
fn check_words(args: &Args) -> Result<(), Failure> {
    let (mixes, writes) = (
        matches!(args.rw, Pattern::Rw | Pattern::RandRw),
        args.rw.writes(),
    );
    let is_direct = args.designs.contains(&Design::Direct);
    let words = [
        (
            args.rwmixread.is_some() && !mixes,
            "--rwmixread",
            "is for --rw rw and randrw",
        ),
        (
            args.fsync.is_some() && !writes,
            "--fsync",
            "is for jobs that write",
        ),
        (
            args.end_fsync.is_some() && !writes,
            "--end-fsync",
            "is for jobs that write",
        ),
        (
            args.iodepth.is_some() && !is_direct,
            "--iodepth",
            "is for the row direct",
        ),
    ];
    if let Some((_, option, line)) = words.into_iter().find(|(is_wrong, ..)| *is_wrong) {
        return Err(input(format!("{option} {line}: leave it out")));
    }
    for (nth, design) in args.designs.iter().enumerate() {
        if args.designs[..nth].contains(design) {
            let name = design.name();
            return Err(input(format!(
                "--designs: {name} is there twice: name each once"
            )));
        }
    }
    Ok(())
}

fn check_sizes(block: u64, file: Option<u64>, memory: u64) -> Result<(), Failure> {
    let page = PAGE_BYTES as u64;
    if block == 0 || !block.is_multiple_of(page) || block > 64 << 20 {
        return Err(input(format!(
            "--bs {block}: give a multiple of 4k, 64m at most"
        )));
    }
    if file.is_some_and(|bytes| bytes < block || !bytes.is_multiple_of(page)) {
        return Err(input(format!(
            "--size {}: give a multiple of 4k that holds a block of --bs {block}",
            file.unwrap_or(0)
        )));
    }
    if memory < 16 * page {
        return Err(input(format!("--memory {memory}: give at least 64k")));
    }
    Ok(())
}

/// Memory of a thread in bytes: its stack as far as it is used, two histograms.
const THREAD_BYTES: u64 = 2 << 20;

/// What memory or disk cannot hold is refused before a byte of it is written.
fn check_room(args: &Args, block: u64, file: u64, memory: u64) -> Result<(), Failure> {
    let threads = u64::from(args.threads);
    let (pages, buffers) = (
        file / PAGE_BYTES as u64,
        u64::from(args.iodepth.unwrap_or(1)) * block,
    );
    let needs = [
        // The version of every page, and two copies of all of them while a turn is checked.
        ("a file of this --size", 12 * pages, "give a smaller --size"),
        (
            "so many --threads with so many requests of --iodepth and --bs",
            threads.saturating_mul(THREAD_BYTES.saturating_add(buffers)),
            "give less of one of them",
        ),
        // Frames and their account.
        (
            "the cache of --memory",
            memory.saturating_add(memory / 32),
            "give less --memory",
        ),
    ];
    for (what, bytes, advice) in needs {
        room::check_memory(what, bytes, advice)?;
    }
    let all = needs
        .iter()
        .fold(0u64, |sum, need| sum.saturating_add(need.1));
    room::check_memory(
        "all of this job",
        all,
        "give a smaller --size or less --memory",
    )?;
    let there = std::fs::metadata(&args.file);
    match args.size.is_some() && there.map_or(true, |there| there.is_file()) {
        true => room::check_disk(&args.file, file, "give a smaller --size"),
        false => Ok(()),
    }
}

fn check_blocks(blocks: u64, threads: u32) -> Result<(), Failure> {
    match blocks < u64::from(threads) {
        true => Err(input(format!(
            "--size: has {blocks} blocks for {threads} threads: give more"
        ))),
        false => Ok(()),
    }
}
