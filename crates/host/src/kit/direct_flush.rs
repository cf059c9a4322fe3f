//! Direct flush: who keeps the number of dirty pages down (ScaleCache, section 3.3). What the page
//! caches that have it share: `scale` and its variants, and `kernel-dflush`.
//!
//! Problem: one flusher uses one of many drives at a time, and writers that sleep until it has
//! caught up use none.
//!
//! Idea: writers flush. A writer that finds too much dirty, or on its way, writes a *share* itself:
//! the next few dirty pages of the next file ([`Turns`]), behind a cursor that all its flushers
//! move on ([`Cursor`]), so that each has a file or a range of its own. It waits for its transfers,
//! and looks again (`writers.rs`).
//!
//! In the published code (fs/scext4/fs/fs-writeback.c and mm/page-writeback.c of ScaleCache's
//! repository) a writer's part is no range but a file, that nobody else flushes meanwhile, with all
//! that is dirty in it; it waits for no write (`WB_SYNC_NONE`), and takes the next file as long as
//! more is dirty than the background threshold allows ([`Balance::FlushFiles`]). So few requests
//! flush, and these for long: where a file has more than a thousand dirty pages, less than one in a
//! thousand.
//!
//! As published that code sleeps before it flushes. [`Balance`] has that rule too, and one that
//! only sleeps.

#[cfg(feature = "designs")]
use serde::{Deserialize, Serialize};
use wharf_runtime::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line};

use crate::design::{Amount, Counter, Counters, Gauges};

/// Most pages of a share of the designs unless the configuration says otherwise, in as many
/// transfers as they happen to be.
pub const SHARE_PAGES: u32 = 64;

/// Sleep of who waits for others to write, in nanoseconds.
pub(crate) const SLEEP_NS: u64 = 1_000_000;

/// What a writer does above the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "designs",
    derive(Serialize, Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Balance {
    /// It flushes.
    #[default]
    Flush,
    /// It flushes whole files, and waits for no write.
    FlushFiles,
    /// It waits while the background flusher keeps the storage busy, and flushes when not: where
    /// the storage says so, in programs that link the cache.
    #[cfg_attr(feature = "designs", serde(skip))]
    FlushUnlessBusy,
    /// It sleeps, then flushes: as the published code begins.
    SleepThenFlush,
    /// It sleeps.
    Sleep,
}

/// What a CPU of a cache counts whose writers wait or flush.
#[derive(Default)]
pub struct WriterCounters {
    shared: Counters,
    /// Nanoseconds in which requests slept because too much was dirty.
    pub(crate) throttled_ns: Counter,
    /// Nanoseconds in which requests wrote back dirty pages themselves, since too much was dirty.
    pub(crate) flushing_ns: Counter,
    /// Nanoseconds in which requests waited for memory: no page was clean.
    pub(crate) memory_ns: Counter,
}

impl std::ops::Deref for WriterCounters {
    type Target = Counters;

    #[inline]
    fn deref(&self) -> &Counters {
        &self.shared
    }
}

impl WriterCounters {
    /// What they report.
    pub(crate) fn gauges(&self) -> Gauges {
        Gauges::none()
            .with("throttled", Amount::OfRequestsNs(self.throttled_ns.get()))
            .with("flushing", Amount::OfRequestsNs(self.flushing_ns.get()))
    }

    /// Nanoseconds in which requests waited for room in the cache, for whatever reason.
    pub(crate) fn stalled_ns(&self) -> u64 {
        self.throttled_ns.get() + self.flushing_ns.get() + self.memory_ns.get()
    }

    /// As [`WriterCounters::gauges`], with what all CPUs did together: the time of virtual runs in
    /// which they waited for locks of indexes, and in which they were in the driver of an array of
    /// the operating system.
    pub(crate) fn gauges_of_all(&self, index_wait_ns: u64, array_driver_ns: u64) -> Gauges {
        self.gauges()
            .with("index_wait", Amount::OfRequestsNs(index_wait_ns))
            .with("array_driver", Amount::OfRequestsNs(array_driver_ns))
    }
}

/// Whose turn it is to be flushed, of several files.
#[derive(Default)]
pub struct Turns {
    /// The file, when divided by their number.
    next: AtomicU32,
}

impl Turns {
    /// The next of `files` files for which `claim` gives something, with that.
    pub(crate) fn claim<R>(
        &self,
        files: u32,
        claim: impl Fn(u32) -> Option<R>,
    ) -> Option<(u32, R)> {
        let turn = match files {
            1 => 0,
            // Relaxed: a place to begin, which orders nothing.
            _ => self.next.fetch_add(1, Ordering::Relaxed),
        };
        (0..files)
            .map(|step| turn.wrapping_add(step) % files)
            .find_map(|file| Some((file, claim(file)?)))
    }
}

/// Where the next flusher of a file looks for dirty pages.
#[derive(Default)]
pub struct Cursor {
    page: AtomicU64,
    /// Somebody flushes the whole file (Linux: `I_SYNC`).
    is_taken: AtomicBool,
    line: Line,
}

/// The right to flush a file, until it is dropped.
pub(crate) struct Sole<'a>(&'a Cursor);

impl Drop for Sole<'_> {
    fn drop(&mut self) {
        // Relaxed: it guards no memory, each page is claimed by itself.
        self.0.is_taken.store(false, Ordering::Relaxed);
    }
}

impl Cursor {
    /// The file for one flusher alone, if nobody has it and it `is_dirty`.
    pub(crate) fn take(&self, cpu: &Cpu, is_dirty: impl FnOnce() -> bool) -> Option<Sole<'_>> {
        if self.is_taken.load(Ordering::Relaxed) || !is_dirty() {
            return None;
        }
        self.line.write(cpu);
        // Relaxed: as above.
        let was_taken = self.is_taken.swap(true, Ordering::Relaxed);
        (!was_taken).then_some(Sole(self))
    }

    /// Moves the cursor over the file's next dirty pages, `most` at most; gives the first and the
    /// last of them. `next` finds the first dirty page from one on.
    pub(crate) fn claim(
        &self,
        cpu: &Cpu,
        most: u64,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Option<(u64, u64)> {
        loop {
            // Relaxed: a place to begin, which orders nothing.
            let at = self.page.load(Ordering::Relaxed);
            let first = next(at).or_else(|| next(0))?;
            let mut last = first;
            for _ in 1..most {
                match next(last + 1) {
                    Some(page) => last = page,
                    None => break,
                }
            }
            self.line.write(cpu);
            let moved =
                self.page
                    .compare_exchange(at, last + 1, Ordering::Relaxed, Ordering::Relaxed);
            if moved.is_ok() {
                return Some((first, last));
            }
        }
    }
}
