//! Workloads of file operations: threads that each loop through the flow of a file benchmark, over files that
//! they create, append to, read, make durable and delete.
//!
//! 1. A thread plans one step after another (`flow.rs`, `published.rs` and `store.rs` say which) as *runs*: a file is opened, so
//!    many bytes of it are read, it is closed. A run of bytes becomes operations of the request size ([`FileOp`], `stream.rs`).
//! 2. The *block view* (`blocks.rs`) is what such operations ask of a volume. Its address space is as many *regions* as there are
//!    files, one for each; a file is as long as what it holds, in whole pages, and never leaves its region. So a volume divided
//!    likewise has each in a file of its own. Reads and writes are requests, `fsync` is a flush, what is removed or cut is
//!    discarded. What only names a file (`stat`, `open`, `close`) makes none.
//! 3. In both views the next request is that of the thread that has made the fewest so far (one whose rate is
//!    limited counts its own several times). Its thread is its stream: whoever replays it keeps a
//!    stream with one client, and in order.
//!    Or a thread's next request is made when it [asks](FileGenerator::request_of) for it: so a program
//!    runs for a time, and threads that are fast make more.
//! 4. A thread has files of its own, as filebench gives no file to two threads at once. So a read is of what its
//!    thread has written, whatever the others do meanwhile. Where threads read what others wrote (`store.rs`, and
//!    the videos that are read only) the stream keeps the order, and a replay may be ahead of it.
//!
//! A store of sorted tables as LevelDB's (`lsm.rs`) is of the same kind: each thread has one.
//!
//! Jobs as fio's (`job.rs`) and filebench's web personalities (`web.rs`) are of the same kind, with directories of their own or one file
//! for several threads.
//!
//! Some files exist when it all begins ([`FileGenerator::initial`]): drives hold them if they are filled with the
//! pages that the workload touches.

mod blocks;
mod flow;
mod job;
mod lsm;
mod op;
mod published;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(test)]
mod trace_tests;
mod web;

use std::collections::VecDeque;

use crate::error::WorkloadError;
use crate::generate::{SeededRng, bad, check_share};
use crate::request::{ADDRESS_BYTES_MAX, PAGE_BYTES, SECTOR_BYTES};

pub use blocks::FileGenerator;
pub use op::{Existing, FileOp, FileOpKind, Names, OpenHow};
pub use stream::FileOps;
pub use trace::{
    Arguments, FileTraceReader, FileTraceWriter, NAMES_BYTES_MAX, NAMES_MAX, arguments,
    write_file_trace,
};

use flow::Flow;
use job::Job;
use lsm::Lsm;
use store::Store;

/// Files if nothing is said: as in the evaluation of ScaleCache (section 4.2).
pub const FILES_DEFAULT: u32 = 64;
/// Threads if nothing is said: as there.
pub const THREADS_DEFAULT: u32 = 64;

/// Threads of a store of sorted tables, and files of each, if nothing is said.
const LSM_THREADS: u32 = 4;
const LSM_FILES: u32 = 64;

/// Bytes of a job's files together, if nothing is said.
const JOB_BYTES_DEFAULT: u64 = 1 << 30;

/// Bytes that a request of vectors looks at, if nothing is said.
const KNN_BYTES_DEFAULT: u32 = 128 << 10;

/// Fewest pages of a file's region.
const REGION_PAGES_MIN: u64 = 16;

/// A benchmark whose operations are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    /// filebench's fileserver.
    Fileserver,
    /// filebench's varmail.
    Varmail,
    /// filebench's videoserver.
    Videoserver,
    /// filebench's webserver.
    Webserver,
    /// filebench's webproxy.
    Webproxy,
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
    /// YCSB's workload A on a store of sorted tables.
    LsmA,
    /// B.
    LsmB,
    /// C.
    LsmC,
    /// D.
    LsmD,
    /// E.
    LsmE,
    /// F.
    LsmF,
    /// `db_bench`'s fillrandom on such a store.
    LsmFillRandom,
    /// Its readrandom.
    LsmReadRandom,
    /// A job of reads and writes at random places of files.
    RandomFiles,
    /// A job of reads and writes one after another.
    SequentialFiles,
    /// A job that reads at random places, computes a checksum, and writes the same bytes back.
    CrcFiles,
    /// A job that reads vectors one after another, and finds those that are nearest to one.
    KnnFiles,
}

impl Personality {
    /// All of them, with their names as workloads.
    pub const ALL: [(&'static str, Personality); 24] = [
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
        ("lsm-a", Personality::LsmA),
        ("lsm-b", Personality::LsmB),
        ("lsm-c", Personality::LsmC),
        ("lsm-d", Personality::LsmD),
        ("lsm-e", Personality::LsmE),
        ("lsm-f", Personality::LsmF),
        ("lsm-fillrandom", Personality::LsmFillRandom),
        ("lsm-readrandom", Personality::LsmReadRandom),
        ("webserver", Personality::Webserver),
        ("webproxy", Personality::Webproxy),
        ("random-files", Personality::RandomFiles),
        ("sequential-files", Personality::SequentialFiles),
        ("crc-files", Personality::CrcFiles),
        ("knn-files", Personality::KnnFiles),
    ];

    /// What it does, in a few words.
    pub fn about(self) -> &'static str {
        use Personality::*;
        match self {
            Fileserver => "files are made, appended to, read whole and deleted (filebench)",
            Varmail => "small files with an fsync after each append (filebench)",
            Videoserver => "one writes videos, all others read them whole (filebench)",
            Webserver => "files are read whole, and a log is appended to (filebench)",
            Webproxy => "files are deleted, made anew, and read whole (filebench)",
            Ffsb => "reads, overwrites and appends in equal files (FFSB)",
            FileserverScaleCache | VarmailScaleCache | VideoserverScaleCache | FfsbScaleCache => {
                "the same as the ScaleCache paper published it"
            }
            YcsbA => "half reads and half updates of a log-structured store (YCSB A)",
            YcsbF => "reads, and reads with an update, of a log-structured store (YCSB F)",
            LsmA => "half reads and half updates of a store of sorted tables (YCSB A)",
            LsmB => "reads with a few updates of a store of sorted tables (YCSB B)",
            LsmC => "reads of a store of sorted tables (YCSB C)",
            LsmD => "reads of what was inserted last in a store of sorted tables (YCSB D)",
            LsmE => "scans of a store of sorted tables (YCSB E)",
            LsmF => "reads, and reads with an update, of a store of sorted tables (YCSB F)",
            LsmFillRandom => "an empty store of sorted tables is filled in any order (db_bench)",
            LsmReadRandom => "reads of any key of a store of sorted tables (db_bench)",
            RandomFiles => "reads and writes at random places of files",
            SequentialFiles => "reads and writes of files in order",
            CrcFiles => "parts of files are read, summed up and written back",
            KnnFiles => "vectors in files are searched for the nearest",
        }
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Personality> {
        let found = Personality::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, personality)| *personality)
    }

    /// Files if nothing is said: one for each of 64 threads; those of ScaleCache's programs that
    /// have a second set of files, or room for new ones, have as many again. filebench's web personalities have as many as
    /// published, and a job has one.
    pub fn files_default(self) -> u32 {
        match self {
            Personality::Webserver => 1001,
            Personality::Webproxy => 10_000,
            own if own.is_job() => 1,
            own if own.is_lsm() => LSM_THREADS * LSM_FILES,
            Personality::FileserverScaleCache
            | Personality::VarmailScaleCache
            | Personality::FfsbScaleCache => 2 * FILES_DEFAULT,
            _ => FILES_DEFAULT,
        }
    }

    /// Threads if nothing is said.
    pub fn threads_default(self) -> u32 {
        match self {
            Personality::Webserver | Personality::Webproxy => 100,
            own if own.is_job() => 1,
            own if own.is_lsm() => LSM_THREADS,
            _ => THREADS_DEFAULT,
        }
    }

    /// Bytes of a read or write if nothing is said.
    pub fn request_bytes_default(self) -> u32 {
        match self {
            Personality::Webserver | Personality::Webproxy => 1 << 20,
            Personality::LsmFillRandom | Personality::LsmReadRandom => {
                lsm::VALUE_RECORD_BYTES as u32
            }
            own if own.is_lsm() => SECTOR_BYTES as u32,
            Personality::KnnFiles => KNN_BYTES_DEFAULT,
            _ => PAGE_BYTES as u32,
        }
    }

    /// Whether it is a store of sorted tables, whose requests are records.
    pub fn is_lsm(self) -> bool {
        use Personality::*;
        matches!(
            self,
            LsmA | LsmB | LsmC | LsmD | LsmE | LsmF | LsmFillRandom | LsmReadRandom
        )
    }

    /// Whether it is a job, which is shaped by a [`FileJob`].
    pub fn is_job(self) -> bool {
        matches!(
            self,
            Personality::RandomFiles
                | Personality::SequentialFiles
                | Personality::CrcFiles
                | Personality::KnnFiles
        )
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

/// What shapes a job, beside its block size, its files and its threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileJob {
    /// Share of reads among a thread's requests.
    pub read_share: f64,
    /// So many threads, the first ones, only write, and all others only read; if not said, each does both.
    pub writers: Option<u32>,
    /// Writes of a thread after which it makes its file durable; 0 for never.
    pub fsync_every: u32,
}

impl Default for FileJob {
    /// Reads alone.
    fn default() -> FileJob {
        FileJob {
            read_share: 1.0,
            writers: None,
            fsync_every: 0,
        }
    }
}

/// All that shapes a workload of file operations.
#[derive(Debug, Clone)]
pub struct FileSpec {
    /// The benchmark.
    pub personality: Personality,
    /// Number of requests.
    pub requests: u64,
    /// Files; at least one for each thread, and two. Of a job and of `webserver`, whose threads share files: as many as wanted.
    pub files: u32,
    /// Threads.
    pub threads: u32,
    /// Bytes of all regions together. If not said, an eighth of the bytes of so many requests, so that files are gone
    /// through several times, but 16 pages a file at least. Of a job 1 GiB; of the web personalities what their sizes need.
    pub footprint_bytes: Option<u64>,
    /// Bytes of a read or write, in whole pages; of a job in sectors.
    pub request_bytes: u32,
    /// Bytes from the start of one region to the next's; if not said, regions follow one another.
    pub stride_bytes: Option<u64>,
    /// What else shapes a job; of no meaning in others.
    pub job: FileJob,
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
            if let Some(bytes) = web::region_bytes(self.personality) {
                return bytes * files;
            }
            if self.personality.is_job() {
                return JOB_BYTES_DEFAULT;
            }
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
        let (unit, units) = match self.personality.is_job() || self.personality.is_lsm() {
            true => (SECTOR_BYTES, "sectors"),
            false => (PAGE_BYTES, "pages"),
        };
        if request_bytes == 0 || !request_bytes.is_multiple_of(unit) {
            let reason = format!(
                "{name} reads and writes whole {units}: {request_bytes} is no multiple of {unit}"
            );
            return Err(bad("request size", reason));
        }
        if self.personality.is_job() {
            self.check_job()?;
        }
        let files_min = match self.personality {
            Personality::RandomFiles | Personality::SequentialFiles | Personality::KnnFiles => 1,
            // Who writes back what was there undoes what another one writes meanwhile.
            Personality::CrcFiles => self.threads,
            Personality::Webserver => 2,
            own if own.is_lsm() => self.threads.saturating_mul(lsm::FILES_MIN),
            _ => self.threads.max(2),
        };
        if self.threads == 0 || self.files < files_min {
            let (files, threads) = (self.files, self.threads);
            let reason = match self.personality.is_lsm() {
                true => format!(
                    "{files} files for {threads} threads: give each {}",
                    lsm::FILES_MIN
                ),
                false => format!(
                    "{files} files for {threads} threads: give each thread one, and two in all"
                ),
            };
            return Err(bad("files", reason));
        }
        if self.personality.is_lsm() && footprint_keys(self) > lsm::KEYS_MAX {
            let reason = format!(
                "more than {} records for each thread of {name}",
                lsm::KEYS_MAX
            );
            return Err(bad("footprint", reason));
        }
        if region < REGION_PAGES_MIN * PAGE_BYTES || end > u128::from(ADDRESS_BYTES_MAX) {
            let reason =
                format!("{region} bytes for each file of {name}: give it 16 pages at least");
            return Err(bad("footprint", reason));
        }
        if self.personality.is_lsm() && region < lsm::block_bytes(request_bytes) {
            let reason = format!(
                "{region} bytes for each file of {name} are less than a block of records of {request_bytes}"
            );
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

    fn check_job(&self) -> Result<(), WorkloadError> {
        check_share("read share", self.job.read_share)?;
        if self.region_bytes() < self.request_bytes.into() {
            let reason = format!(
                "{} bytes for each file, and a request has {}",
                self.region_bytes(),
                self.request_bytes
            );
            return Err(bad("footprint", reason));
        }
        match self.job.writers {
            Some(writers) if writers > self.threads => {
                let reason = format!("{writers} of {} threads", self.threads);
                Err(bad("writers", reason))
            }
            _ => Ok(()),
        }
    }

    /// Builds the block view: the requests that the operations make in regions of a volume.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn generator(&self) -> Result<FileGenerator, WorkloadError> {
        let (regions, behaviour) = self.behaviour()?;
        Ok(FileGenerator::new(self.requests, regions, behaviour))
    }

    /// Builds the file view: the operations themselves.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn operations(&self) -> Result<FileOps, WorkloadError> {
        let (regions, behaviour) = self.behaviour()?;
        Ok(FileOps::new(self.requests, &regions, behaviour))
    }

    fn behaviour(&self) -> Result<(Regions, Behaviour), WorkloadError> {
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
            own if own.is_job() => {
                Behaviour::Job(Job::new(self.personality, self.job, regions, rng))
            }
            own if own.is_lsm() => Behaviour::Lsm(Lsm::new(own, regions, rng)),
            _ => Behaviour::Flow(Flow::new(self.personality, regions, rng)),
        };
        Ok((regions, behaviour))
    }
}

/// Records that the files of a thread have room for.
fn footprint_keys(spec: &FileSpec) -> u64 {
    let of_file = spec.region_bytes() / u64::from(spec.request_bytes.max(1));
    u64::from(spec.files / spec.threads.max(1)).saturating_mul(of_file)
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

/// What a thread is going to do with a file: an operation, or, where bytes move, as many as its pieces are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    kind: FileOpKind,
    how: OpenHow,
    file: u32,
    /// First byte, within the file.
    at: u64,
    /// The byte behind the last.
    end: u64,
    /// Bytes of a read or write, at most.
    piece: u64,
}

impl Run {
    /// Of bytes of a file that is there.
    fn new(kind: FileOpKind, file: u32, (at, end): (u64, u64), piece: u64) -> Run {
        Run {
            kind,
            how: OpenHow::EXISTING,
            file,
            at,
            end,
            piece,
        }
    }

    /// Whether it makes requests in the block view, and so takes a thread's turn in either.
    fn counts(&self) -> bool {
        self.at < self.end
    }
}

/// Runs that a thread has planned.
type Runs = VecDeque<Run>;

/// Who plans operations.
#[derive(Debug, Clone)]
enum Behaviour {
    Flow(Flow),
    Store(Store),
    Lsm(Lsm),
    Job(Job),
}

impl Behaviour {
    /// The bytes of each file when all begins; nothing of one that is not there.
    fn initial(&self) -> Vec<Option<u64>> {
        match self {
            Behaviour::Flow(flow) => flow.initial(),
            Behaviour::Store(store) => store.initial(),
            Behaviour::Lsm(lsm) => lsm.initial(),
            Behaviour::Job(job) => job.initial(),
        }
    }

    /// The thread that alone uses a file; nothing if several do.
    fn owners(&self) -> Vec<Option<u32>> {
        match self {
            Behaviour::Flow(flow) => flow.owners(),
            Behaviour::Store(store) => store.owners(),
            Behaviour::Lsm(lsm) => lsm.owners(),
            Behaviour::Job(job) => job.owners(),
        }
    }

    /// Whether what a thread has planned is done before another's turn, as others go on from there.
    fn is_shared(&self) -> bool {
        match self {
            Behaviour::Flow(flow) => flow.has_log(),
            Behaviour::Store(_) => true,
            Behaviour::Lsm(_) | Behaviour::Job(_) => false,
        }
    }

    /// The directories of a file and its name, where they are not those of its thread.
    fn path(&self, file: u32) -> Option<Vec<String>> {
        match self {
            Behaviour::Flow(flow) => flow.path(file),
            _ => None,
        }
    }

    /// Turns that a request of a thread takes.
    fn turns(&self, thread: u32) -> u64 {
        match self {
            Behaviour::Flow(flow) => flow.turns(thread),
            Behaviour::Store(_) | Behaviour::Lsm(_) | Behaviour::Job(_) => 1,
        }
    }

    /// When a thread may begin its next operation, in nanoseconds from the beginning.
    fn due_ns(&mut self, thread: u32) -> u64 {
        match self {
            Behaviour::Flow(flow) => flow.due_ns(thread),
            Behaviour::Store(_) | Behaviour::Lsm(_) | Behaviour::Job(_) => 0,
        }
    }

    /// Plans a thread's next operation.
    fn plan(&mut self, thread: u32, runs: &mut Runs) {
        match self {
            Behaviour::Flow(flow) => flow.plan(thread, runs),
            Behaviour::Store(store) => store.plan(thread, runs),
            Behaviour::Lsm(lsm) => lsm.plan(thread, runs),
            Behaviour::Job(job) => job.plan(thread, runs),
        }
    }
}
