//! Workloads of file operations: threads that each loop through the flow of a file benchmark, over files that
//! they create, append to, read, make durable and delete.
//!
//! 1. The address space is as many *regions* as there are files, one for each; a file is as long as what it holds,
//!    in whole pages, and never leaves its region. So a volume divided likewise has each in a file of its own.
//! 2. A thread plans one operation after another (`flow.rs`, `published.rs` and `store.rs` say
//!    which) as *runs*: so many bytes from here on are read, written, flushed or discarded. A run
//!    becomes requests of the request size; a discard or a flush is one request. What only names a
//!    file (`stat`, `open`, `close`) makes none.
//! 3. The next request is that of the thread that has made the fewest so far (one whose rate is
//!    limited counts its own several times). Its thread is its stream: whoever replays it keeps a
//!    stream with one client, and in order.
//!    Or a thread's next request is made when it [asks](FileGenerator::request_of) for it: so a program
//!    runs for a time, and threads that are fast make more.
//! 4. A thread has files of its own, as filebench gives no file to two threads at once. So a read is of what its
//!    thread has written, whatever the others do meanwhile. Where threads read what others wrote (`store.rs`, and
//!    the videos that are read only) the stream keeps the order, and a replay may be ahead of it.
//!
//! Some files exist when it all begins ([`FileGenerator::initial`]): drives hold them if they are filled with the
//! pages that the workload touches.

mod flow;
mod published;
mod store;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::error::WorkloadError;
use crate::generate::{SeededRng, bad};
use crate::request::{ADDRESS_BYTES_MAX, Op, PAGE_BYTES, Request};

use flow::Flow;
use store::Store;

/// Files if nothing is said: as in the evaluation of ScaleCache (section 4.2).
pub const FILES_DEFAULT: u32 = 64;
/// Threads if nothing is said: as there.
pub const THREADS_DEFAULT: u32 = 64;

/// Fewest pages of a file's region.
const REGION_PAGES_MIN: u64 = 16;

/// Most bytes of a request that moves none: what its size can say, in whole pages.
const CONTROL_BYTES_MAX: u64 = u32::MAX as u64 / PAGE_BYTES * PAGE_BYTES;

/// A benchmark whose operations are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// filebench's fileserver.
    Fileserver,
    /// filebench's varmail.
    Varmail,
    /// filebench's videoserver.
    Videoserver,
    /// The flexible file system benchmark.
    Ffsb,
    /// ScaleCache's fileserver: random writers, and readers of whole files.
    FileserverScaleCache,
    /// ScaleCache's varmail: random writers, and loops of a mail server over large files.
    VarmailScaleCache,
    /// ScaleCache's videoserver: random writers, and readers whose rate is limited.
    VideoserverScaleCache,
    /// ScaleCache's FFSB: files that are created, deleted and written over whole.
    FfsbScaleCache,
    /// YCSB's workload A.
    YcsbA,
    /// YCSB's workload F.
    YcsbF,
}

impl Personality {
    /// All of them, with their names as workloads.
    pub const ALL: [(&'static str, Personality); 10] = [
        ("fileserver", Personality::Fileserver),
        ("varmail", Personality::Varmail),
        ("videoserver", Personality::Videoserver),
        ("ffsb", Personality::Ffsb),
        ("fileserver-scalecache", Personality::FileserverScaleCache),
        ("varmail-scalecache", Personality::VarmailScaleCache),
        ("videoserver-scalecache", Personality::VideoserverScaleCache),
        ("ffsb-scalecache", Personality::FfsbScaleCache),
        ("ycsb-a", Personality::YcsbA),
        ("ycsb-f", Personality::YcsbF),
    ];

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Personality> {
        let found = Personality::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, personality)| *personality)
    }

    /// Files if nothing is said: one for each of 64 threads; those of ScaleCache's programs that
    /// have a second set of files, or room for new ones, have as many again.
    pub fn files_default(self) -> u32 {
        match self {
            Personality::FileserverScaleCache
            | Personality::VarmailScaleCache
            | Personality::FfsbScaleCache => 2 * FILES_DEFAULT,
            _ => FILES_DEFAULT,
        }
    }

    /// Seconds that its authors run it, where a time bounds it and no number of requests.
    pub fn run_seconds(self) -> Option<u64> {
        published::run_seconds(self)
    }

    /// Its name as a workload.
    pub fn name(self) -> &'static str {
        let found = Personality::ALL.iter().find(|(_, known)| *known == self);
        found.expect("all are listed").0
    }
}

/// All that shapes a workload of file operations.
#[derive(Debug, Clone)]
pub struct FileSpec {
    /// The benchmark.
    pub personality: Personality,
    /// Number of requests.
    pub requests: u64,
    /// Files; at least one for each thread, and two.
    pub files: u32,
    /// Threads.
    pub threads: u32,
    /// Bytes of all regions together. If not said, an eighth of the bytes of so many requests, so that files are gone
    /// through several times, but 16 pages a file at least.
    pub footprint_bytes: Option<u64>,
    /// Bytes of a read or write, in whole pages.
    pub request_bytes: u32,
    /// Bytes from the start of one region to the next's; if not said, regions follow one another.
    pub stride_bytes: Option<u64>,
    /// Seed.
    pub seed: u64,
}

impl FileSpec {
    /// The same with each region where a volume of `volume_bytes`, divided into as many equal files, has that
    /// file.
    #[must_use]
    pub fn on_volume(&self, volume_bytes: u64) -> FileSpec {
        let pages = volume_bytes / PAGE_BYTES;
        let stride_pages = pages.div_ceil(u64::from(self.files).max(1)).max(1);
        FileSpec {
            stride_bytes: Some(stride_pages * PAGE_BYTES),
            ..self.clone()
        }
    }

    /// Bytes of a region.
    pub fn region_bytes(&self) -> u64 {
        let files = u64::from(self.files).max(1);
        let natural = || {
            let moved = self.requests.saturating_mul(self.request_bytes.into());
            (moved / 8).max(files * REGION_PAGES_MIN * PAGE_BYTES)
        };
        let footprint = self.footprint_bytes.unwrap_or_else(natural);
        footprint / files / PAGE_BYTES * PAGE_BYTES
    }

    /// Bytes of all regions together.
    pub fn footprint_bytes(&self) -> u64 {
        self.region_bytes() * u64::from(self.files)
    }

    /// First byte and end of each region.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64)> {
        let bytes = self.region_bytes();
        let stride = self.stride_bytes.unwrap_or(bytes);
        (0..u64::from(self.files)).map(move |file| (file * stride, file * stride + bytes))
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let (region, name) = (self.region_bytes(), self.personality.name());
        let stride = self.stride_bytes.unwrap_or(region);
        let end = u128::from(stride) * u128::from(self.files);
        if self.requests == 0 {
            return Err(bad("requests", "0 requests is no workload"));
        }
        let request_bytes = u64::from(self.request_bytes);
        if request_bytes == 0 || !request_bytes.is_multiple_of(PAGE_BYTES) {
            let reason = format!(
                "{name} reads and writes whole pages: {request_bytes} is no multiple of 4096"
            );
            return Err(bad("request size", reason));
        }
        if self.threads == 0 || self.files < self.threads.max(2) {
            let (files, threads) = (self.files, self.threads);
            let reason = format!(
                "{files} files for {threads} threads: give each thread one, and two in all"
            );
            return Err(bad("files", reason));
        }
        if region < REGION_PAGES_MIN * PAGE_BYTES || end > u128::from(ADDRESS_BYTES_MAX) {
            let reason =
                format!("{region} bytes for each file of {name}: give it 16 pages at least");
            return Err(bad("footprint", reason));
        }
        if stride < region {
            let reason = format!(
                "{region} bytes for each file of {name}, and the drives have {stride}: give it less"
            );
            return Err(bad("footprint", reason));
        }
        Ok(())
    }

    /// Builds the generator.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn generator(&self) -> Result<FileGenerator, WorkloadError> {
        self.check()?;
        let regions = Regions {
            files: self.files,
            threads: self.threads,
            stride: self.stride_bytes.unwrap_or(self.region_bytes()),
            bytes: self.region_bytes(),
            request_bytes: self.request_bytes.into(),
        };
        let rng = SeededRng::child(self.seed, self.personality.name());
        let behaviour = match self.personality {
            Personality::YcsbA | Personality::YcsbF => {
                Behaviour::Store(Store::new(self.personality, regions, rng))
            }
            _ => Behaviour::Flow(Flow::new(self.personality, regions, rng)),
        };
        Ok(FileGenerator {
            left: self.requests,
            initial: behaviour.initial(),
            behaviour,
            turns: (0..self.threads)
                .map(|thread| Reverse((0, thread)))
                .collect(),
            planned: vec![VecDeque::new(); self.threads as usize],
            alone: None,
        })
    }
}

/// Where files are, and whose they are.
#[derive(Debug, Clone, Copy)]
struct Regions {
    files: u32,
    threads: u32,
    stride: u64,
    bytes: u64,
    request_bytes: u64,
}

impl Regions {
    /// First byte of a file.
    fn start(&self, file: u32) -> u64 {
        u64::from(file) * self.stride
    }
}

/// Bytes that a thread is going to ask for, piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    op: Op,
    at: u64,
    end: u64,
    /// Bytes of a read or write, at most.
    piece: u64,
}

/// Runs that a thread has planned.
type Runs = VecDeque<Run>;

/// Who plans operations.
#[derive(Debug, Clone)]
enum Behaviour {
    Flow(Flow),
    Store(Store),
}

impl Behaviour {
    /// The bytes that exist when all begins, as (first, end).
    fn initial(&self) -> Vec<(u64, u64)> {
        match self {
            Behaviour::Flow(flow) => flow.initial(),
            Behaviour::Store(store) => store.initial(),
        }
    }

    /// Turns that a request of a thread takes.
    fn turns(&self, thread: u32) -> u64 {
        match self {
            Behaviour::Flow(flow) => flow.turns(thread),
            Behaviour::Store(_) => 1,
        }
    }

    /// When a thread may begin its next operation, in nanoseconds from the beginning.
    fn due_ns(&mut self, thread: u32) -> u64 {
        match self {
            Behaviour::Flow(flow) => flow.due_ns(thread),
            Behaviour::Store(_) => 0,
        }
    }

    /// Plans a thread's next operation.
    fn plan(&mut self, thread: u32, runs: &mut Runs) {
        match self {
            Behaviour::Flow(flow) => flow.plan(thread, runs),
            Behaviour::Store(store) => store.plan(thread, runs),
        }
    }
}

/// A stream of file operations' requests.
#[derive(Debug, Clone)]
pub struct FileGenerator {
    left: u64,
    initial: Vec<(u64, u64)>,
    behaviour: Behaviour,
    /// Threads by the turns that they have had.
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    planned: Vec<Runs>,
    /// The thread whose requests are not to be parted, and how many turns it has had.
    alone: Option<(u64, u32)>,
}

impl FileGenerator {
    /// The bytes that exist when all begins, as (first, end), each in one file.
    pub fn initial(&self) -> &[(u64, u64)] {
        &self.initial
    }

    /// The next request of a thread that asks for it, and when it may be made, in nanoseconds from the beginning; nothing
    /// when all have been made. Equal orders of asking give equal requests.
    ///
    /// # Panics
    /// If threads read what others write: then the stream alone keeps the order.
    pub fn request_of(&mut self, thread: u32) -> Option<(Request, u64)> {
        let is_shared = matches!(self.behaviour, Behaviour::Store(_));
        assert!(!is_shared, "threads of a store are not asked one by one");
        self.left = self.left.checked_sub(1)?;
        let due_ns = match self.planned[thread as usize].is_empty() {
            true => self.behaviour.due_ns(thread),
            false => 0,
        };
        Some((self.make(thread), due_ns))
    }

    /// The next request of a thread.
    fn make(&mut self, thread: u32) -> Request {
        let runs = &mut self.planned[thread as usize];
        while runs.is_empty() {
            self.behaviour.plan(thread, runs);
            runs.retain(|run| run.at < run.end);
        }
        let run = runs.front_mut().expect("just planned");
        let request = FileGenerator::cut(run, thread);
        if run.at == run.end {
            runs.pop_front();
        }
        request
    }

    /// The next request of a run, which is shorter then.
    fn cut(run: &mut Run, thread: u32) -> Request {
        let most = match run.op {
            Op::Read | Op::Write => run.piece,
            Op::Flush | Op::Discard => CONTROL_BYTES_MAX,
        };
        let bytes = (run.end - run.at).min(most);
        let request = Request {
            stream: thread,
            ..Request::new(run.op, run.at, bytes as u32)
        };
        run.at += bytes;
        request
    }
}

impl Iterator for FileGenerator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let (made, thread) = self.alone.take().unwrap_or_else(|| {
            let Reverse(turn) = self.turns.pop().expect("there are threads");
            turn
        });
        let request = self.make(thread);
        // What others may read is not left half done.
        let next = made + self.behaviour.turns(thread);
        let is_shared = matches!(self.behaviour, Behaviour::Store(_));
        if is_shared && !self.planned[thread as usize].is_empty() {
            self.alone = Some((next, thread));
        } else {
            self.turns.push(Reverse((next, thread)));
        }
        Some(request)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}
