//! What is to be done: the job that every row gets, and the next request of it.

use serde::{Deserialize, Serialize};
use wharf_runtime::{Rng, Seed};

use super::stamp::PAGE_BYTES;
use crate::page_cache::Replacement;

/// A way to the file: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Design {
    /// `wharf::PageCache`.
    Scale,
    /// No cache: io_uring with O_DIRECT, at the depth.
    Direct,
    /// The kernel's page cache, by `pread` and `pwrite`.
    Kernel,
    /// The kernel's page cache, by `mmap`.
    KernelMmap,
}

impl Design {
    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Design::Scale => "scale",
            Design::Direct => "direct",
            Design::Kernel => "kernel",
            Design::KernelMmap => "kernel-mmap",
        }
    }

    /// Whether the kernel's page cache is in use.
    pub(super) fn is_kernel(self) -> bool {
        matches!(self, Design::Kernel | Design::KernelMmap)
    }
}

/// In which order, and which of them are reads: fio's `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub(super) enum Pattern {
    /// Reads in order.
    Read,
    /// Writes in order.
    Write,
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads and writes in order.
    #[value(alias = "readwrite")]
    Rw,
    /// Reads and writes anywhere.
    RandRw,
}

impl Pattern {
    pub(super) fn is_random(self) -> bool {
        matches!(
            self,
            Pattern::RandRead | Pattern::RandWrite | Pattern::RandRw
        )
    }

    pub(super) fn writes(self) -> bool {
        !matches!(self, Pattern::Read | Pattern::RandRead)
    }

    /// Reads of a hundred requests, where `mix` are of those that mix.
    pub(super) fn read_percent(self, mix: u32) -> u32 {
        match self {
            Pattern::Read | Pattern::RandRead => 100,
            Pattern::Write | Pattern::RandWrite => 0,
            Pattern::Rw | Pattern::RandRw => mix,
        }
    }

    /// fio's word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pattern::Read => "read",
            Pattern::Write => "write",
            Pattern::RandRead => "randread",
            Pattern::RandWrite => "randwrite",
            Pattern::Rw => "rw",
            Pattern::RandRw => "randrw",
        }
    }
}

/// What every row does, alike.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) pattern: Pattern,
    /// Reads of a hundred requests.
    pub(super) read_percent: u32,
    /// Bytes of a request: whole pages.
    pub(super) block_bytes: u64,
    /// Bytes of the file that are used: whole blocks.
    pub(super) file_bytes: u64,
    pub(super) threads: u32,
    /// Requests that each thread of `direct` has under way.
    pub(super) depth: u32,
    /// Requests of all threads; none means until time is up.
    pub(super) requests: Option<u64>,
    pub(super) runtime_ns: Option<u64>,
    /// Writes of a thread after which it flushes; 0 for never.
    pub(super) fsync: u64,
    pub(super) end_fsync: bool,
    pub(super) seed: u64,
    pub(super) memory_bytes: u64,
    /// Which page leaves the cache of `scale`.
    pub(super) replacement: Replacement,
}

impl Job {
    pub(super) fn blocks(&self) -> u64 {
        self.file_bytes / self.block_bytes
    }

    pub(super) fn block_pages(&self) -> u64 {
        self.block_bytes / PAGE_BYTES as u64
    }

    /// Requests of thread `thread`.
    fn share(&self, thread: u32) -> u64 {
        let threads = u64::from(self.threads);
        self.requests.map_or(u64::MAX, |all| {
            all / threads + u64::from(u64::from(thread) < all % threads)
        })
    }
}

/// A request: a block, to be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) is_read: bool,
    pub(super) block: u64,
}

/// The requests of one thread, in one round. Random ones are anywhere, each drawn for itself; those in order
/// go through the thread's own part of the file, round and round.
pub(super) struct Requests {
    rng: Rng,
    is_random: bool,
    read_percent: u64,
    /// Blocks from the first to the one after the last.
    part: (u64, u64),
    at: u64,
    left: u64,
}

impl Requests {
    pub(super) fn new(job: &Job, round: u32, thread: u32) -> Requests {
        let seed = Seed(job.seed).child("bench").index(u64::from(round));
        let (blocks, threads) = (job.blocks(), u64::from(job.threads));
        let from = |thread: u64| blocks * thread / threads;
        let part = match job.pattern.is_random() {
            true => (0, blocks),
            false => (from(thread.into()), from(u64::from(thread) + 1)),
        };
        Requests {
            rng: seed.index(u64::from(thread)).rng(),
            is_random: job.pattern.is_random(),
            read_percent: u64::from(job.read_percent),
            part,
            at: part.0,
            left: job.share(thread),
        }
    }

    /// The next one, which `may` take: a block that somebody writes has to be left to them. `Err` if there was
    /// none in many tries, `None` if there are no more.
    pub(super) fn next(
        &mut self,
        mut may: impl FnMut(Request) -> bool,
    ) -> Option<Result<Request, Busy>> {
        /// Blocks that are looked at before the thread waits.
        const TRIES: u32 = 32;
        if self.left == 0 {
            return None;
        }
        let is_read = match self.read_percent {
            0 => false,
            100 => true,
            percent => self.rng.chance(percent, 100),
        };
        for _ in 0..TRIES {
            let block = self.block();
            let request = Request { is_read, block };
            if may(request) {
                self.left -= 1;
                return Some(Ok(request));
            }
        }
        Some(Err(Busy))
    }

    fn block(&mut self) -> u64 {
        let (first, end) = self.part;
        if self.is_random {
            return first + self.rng.below(end - first);
        }
        let block = self.at;
        self.at = if block + 1 == end { first } else { block + 1 };
        block
    }
}

/// All blocks that were looked at are being written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::bench) fn job(pattern: Pattern, blocks: u64) -> Job {
        Job {
            pattern,
            read_percent: pattern.read_percent(50),
            block_bytes: 4096,
            file_bytes: blocks * 4096,
            threads: 2,
            depth: 1,
            requests: Some(100),
            runtime_ns: None,
            fsync: 0,
            end_fsync: true,
            seed: 1,
            memory_bytes: 1 << 20,
            replacement: Replacement::Clock,
        }
    }

    fn all(job: &Job, thread: u32) -> Vec<Request> {
        let mut requests = Requests::new(job, 0, thread);
        let next = || requests.next(|_| true).map(|r| r.expect("none is busy"));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn threads_share_the_requests_and_go_through_their_own_part_in_order() {
        let mut job = job(Pattern::Read, 60);
        job.requests = Some(101);
        let (first, second) = (all(&job, 0), all(&job, 1));
        assert_eq!((first.len(), second.len()), (51, 50));
        let blocks: Vec<u64> = second.iter().map(|r| r.block).collect();
        assert_eq!(
            blocks[..32],
            [(30..60).collect::<Vec<_>>(), vec![30, 31]].concat()
        );
        assert!(first.iter().all(|r| r.is_read && r.block < 30));
    }

    #[test]
    fn equal_seeds_draw_equal_requests_all_over_the_file() {
        let mut job = job(Pattern::RandRw, 1000);
        job.requests = Some(2000);
        assert_eq!(all(&job, 0), all(&job, 0));
        assert_ne!(all(&job, 0), all(&job, 1));
        let drawn = all(&job, 0);
        let reads = drawn.iter().filter(|r| r.is_read).count();
        assert!((400..600).contains(&reads), "{reads}");
        assert!(drawn.iter().any(|r| r.block < 100) && drawn.iter().any(|r| r.block >= 900));
    }

    #[test]
    fn blocks_that_may_not_be_taken_are_passed_over_and_cost_no_request() {
        let job = job(Pattern::RandWrite, 4);
        let mut requests = Requests::new(&job, 0, 0);
        assert_eq!(requests.next(|_| false), Some(Err(Busy)));
        let taken = requests.next(|r| r.block == 3).expect("there are more");
        assert_eq!(taken.expect("one of four").block, 3);
        assert_eq!(requests.left, 49);
    }
}
