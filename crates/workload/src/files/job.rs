//! Jobs as those of fio: threads that read or write blocks of one size, at random or one after another, in files that are there
//! from the start.
//!
//! * With fewer files than threads several threads share one: thread t has file t modulo their number. Threads that go through
//!   a file in order begin at equal distances in it, and again from its start.
//! * Each request is a read with the job's share, or the first threads write and all others read ([`FileJob::writers`]).
//! * A thread's writes are made durable after each so many ([`FileJob::fsync_every`]; fio: `fsync`).

use crate::files::{FileJob, FileOpKind, Personality, Regions, Run, Runs};
use crate::generate::{SeededRng, probability};

/// A thread.
#[derive(Debug, Clone)]
struct Thread {
    file: u32,
    /// Where it goes on, in blocks.
    next: u64,
    /// Writes since the last that was made durable.
    written: u32,
    rng: SeededRng,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Job {
    regions: Regions,
    job: FileJob,
    reads: u64,
    is_random: bool,
    /// What a request does that reads, and what one does that writes.
    kinds: (FileOpKind, FileOpKind),
    threads: Vec<Thread>,
}

impl Job {
    pub(super) fn new(
        personality: Personality,
        job: FileJob,
        regions: Regions,
        mut rng: SeededRng,
    ) -> Job {
        let blocks = regions.bytes / regions.request_bytes;
        let sharing = u64::from(regions.threads.div_ceil(regions.files));
        let thread = |thread: u32| Thread {
            file: thread % regions.files,
            next: blocks / sharing * u64::from(thread / regions.files),
            written: 0,
            rng: SeededRng::child(rng.bits(), "thread"),
        };
        Job {
            threads: (0..regions.threads).map(thread).collect(),
            is_random: matches!(
                personality,
                Personality::RandomFiles | Personality::CrcFiles
            ),
            kinds: match personality {
                Personality::CrcFiles => (FileOpKind::CrcWrite, FileOpKind::CrcWrite),
                Personality::KnnFiles => (FileOpKind::Nearest, FileOpKind::Write),
                _ => (FileOpKind::Read, FileOpKind::Write),
            },
            reads: probability(job.read_share),
            regions,
            job,
        }
    }

    pub(super) fn initial(&self) -> Vec<Option<u64>> {
        vec![Some(self.regions.bytes); self.regions.files as usize]
    }

    pub(super) fn owners(&self) -> Vec<Option<u32>> {
        let (files, threads) = (self.regions.files, self.regions.threads);
        let owner = |file| (file + files >= threads && file < threads).then_some(file);
        (0..files).map(owner).collect()
    }

    /// Plans the next request of a thread.
    pub(super) fn plan(&mut self, number: u32, runs: &mut Runs) {
        let bytes = self.regions.request_bytes;
        let blocks = self.regions.bytes / bytes;
        let thread = &mut self.threads[number as usize];
        let file = thread.file;
        let run = |kind, at, end| Run::new(kind, file, (at, end), bytes);
        if self.job.fsync_every > 0 && thread.written == self.job.fsync_every {
            runs.push_back(run(FileOpKind::Fsync, 0, self.regions.bytes));
            thread.written = 0;
            return;
        }
        let block = match self.is_random {
            true => thread.rng.below(blocks),
            false => {
                let next = (thread.next + 1) % blocks;
                std::mem::replace(&mut thread.next, next)
            }
        };
        let is_read = match self.job.writers {
            Some(writers) => number >= writers,
            None => thread.rng.chance(self.reads),
        };
        let kind = match is_read {
            true => self.kinds.0,
            false => self.kinds.1,
        };
        runs.push_back(run(kind, block * bytes, (block + 1) * bytes));
        thread.written += u32::from(!is_read);
    }
}
