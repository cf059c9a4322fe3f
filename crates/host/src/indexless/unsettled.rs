//! Sectors that the disk was given around the cache and has not durably.
//!
//! A clean copy must be of what the disk has after a cut, too: what it may lose is not brought into
//! the cache. The list is short: where it gets long the disk is flushed.
//!
//! A range is in it from before it is written. A flush settles it only if it began after the write
//! had ended: one that began before need not have found it on the disk.

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock};

/// Ranges from which on the disk should be flushed.
const RANGES_MAX: usize = 1024;

#[derive(Default)]
struct Ranges {
    /// Those that are being written.
    writing: Vec<(u64, u64)>,
    /// First sector, and the one behind the last.
    noted: Vec<(u64, u64)>,
    /// Those that a flush is under way for.
    flushing: Vec<(u64, u64)>,
    flushes: u32,
}

/// See the module.
pub(super) struct Unsettled {
    ranges: Lock<Ranges>,
    /// How many there are, to be seen without the lock.
    count: AtomicU64,
}

impl Default for Unsettled {
    fn default() -> Unsettled {
        Unsettled {
            ranges: Lock::new(Ranges::default()),
            count: AtomicU64::new(0),
        }
    }
}

impl Unsettled {
    fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut Ranges) -> R) -> R {
        self.ranges.with(cpu, |ranges| {
            let result = f(ranges);
            let count = ranges.writing.len() + ranges.noted.len() + ranges.flushing.len();
            // Relaxed: who has noted a range has its sectors locked, and so has who asks for them.
            self.count.store(count as u64, Ordering::Relaxed);
            result
        })
    }

    /// The disk is going to be given these sectors, which are locked.
    pub(super) fn begin_write(&self, cpu: &Cpu, first: u64, count: u64) {
        self.with(cpu, |ranges| ranges.writing.push((first, first + count)));
    }

    /// It was given them, or a part of them if that failed; true if it should be flushed soon.
    pub(super) fn end_write(&self, cpu: &Cpu, first: u64, count: u64) -> bool {
        self.with(cpu, |ranges| {
            let range = (first, first + count);
            let at = ranges.writing.iter().position(|other| *other == range);
            ranges.writing.swap_remove(at.expect("it has begun"));
            match ranges.noted.last_mut() {
                Some(last) if last.1 == first => last.1 += count,
                _ => ranges.noted.push((first, first + count)),
            }
            ranges.noted.len() > RANGES_MAX
        })
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether any of these sectors is among them.
    pub(super) fn overlaps(&self, cpu: &Cpu, first: u64, count: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let end = first + count;
        self.ranges.with(cpu, |ranges| {
            let ended = ranges.noted.iter().chain(&ranges.flushing);
            let mut all = ended.chain(&ranges.writing);
            all.any(|(from, to)| *from < end && first < *to)
        })
    }

    /// A flush of the disk begins.
    pub(super) fn begin_flush(&self, cpu: &Cpu) {
        self.with(cpu, |ranges| {
            let noted = std::mem::take(&mut ranges.noted);
            ranges.flushing.extend(noted);
            ranges.flushes += 1;
        });
    }

    /// It has ended. Of several at a time the last one counts for all.
    pub(super) fn end_flush(&self, cpu: &Cpu, is_done: bool) {
        self.with(cpu, |ranges| {
            ranges.flushes -= 1;
            if !is_done {
                let failed = std::mem::take(&mut ranges.flushing);
                ranges.noted.extend(failed);
            } else if ranges.flushes == 0 {
                ranges.flushing.clear();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexless::bitmap_tests::on_a_cpu;

    /// A flush that had begun amid a write counted for it, and what was written was not flushed
    /// when a client asked for that: a cut lost it.
    #[test]
    fn a_flush_that_began_amid_a_write_settled_it() {
        on_a_cpu(|cpu| {
            let unsettled = Unsettled::default();
            unsettled.begin_write(cpu, 8, 4);
            unsettled.begin_flush(cpu);
            unsettled.end_write(cpu, 8, 4);
            unsettled.end_flush(cpu, true);
            assert!(unsettled.overlaps(cpu, 11, 1) && !unsettled.overlaps(cpu, 12, 9));
            unsettled.begin_flush(cpu);
            assert!(!unsettled.is_empty(), "it is under way");
            unsettled.end_flush(cpu, true);
            assert!(unsettled.is_empty());
        });
    }
}
