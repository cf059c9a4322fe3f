//! An index with an entry for each cached sector: what the bitmap replaces, to be compared with (design `opencas`).
//!
//! Caches of this kind (Open CAS, flashcache, bcache) keep for each line of the cache which line of the disk it has, links of
//! a hash table and of a list by use, and bits of state. Here are the same parts, as small as they come:
//!
//! | of an entry | bytes | for |
//! |---|---:|---|
//! | `sector` | 8 | whose it is |
//! | `next`, `before` | 8 | the other entries of its bucket |
//! | `older`, `newer` | 8 | who was used before it, and after it |
//! | `word` | 1 | cached, dirty, being written back |
//! | not used | 7 | entries are aligned |
//! | a bucket | 4 | the first entry of the hash table; there are as many as entries |
//!
//! 36 bytes a sector, all taken when the cache is made, as in Open CAS. That has more for each line: locks, bits for each
//! 512 bytes of it, the number of its disk, its class.
//!
//! *Where things lie.* An index could place lines anywhere, and the drive would have to show no more than it has. This one
//! leaves them at their own addresses, so that all that is not the index (drive, disk, rounds, R1 to R6 of `evict.rs`,
//! recovery) is as in the other designs, and what differs in a report is the index. What it is spared by that: the durable
//! copy of its entries, which Open CAS writes before a write is acknowledged, and reads when it starts.
//!
//! The order by use is the list; there is no heat. It is lost when the cache ends. One lock guards all, as it does the
//! lists of the other policies.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock, Op};

use super::bitmap::Totals;
use super::part::{Run, SECTORS};
use super::policy::{Victim, tidy};
use super::stretch::{Stretch, Unknown};
use super::word::{Place, Word};

/// No entry.
const NONE: u32 = u32::MAX;

/// A cached sector.
#[derive(Clone, Copy)]
struct Line {
    sector: u64,
    /// The next entry of the bucket; of a free entry, the next free one.
    next: u32,
    /// The entry before it in the bucket.
    before: u32,
    older: u32,
    newer: u32,
    /// Absent where the entry is free.
    word: Word,
}

const _: () = assert!(size_of::<Line>() == 32);

/// What is behind the lock.
struct Lines {
    lines: Vec<Line>,
    buckets: Box<[u32]>,
    free: u32,
    oldest: u32,
    newest: u32,
    /// Sectors that there may be entries of.
    sectors: u64,
    /// Parts of 8192 sectors of which nothing is known, a bit each; empty where all are known.
    unknown: Vec<u64>,
}

/// See the module.
pub struct LineIndex {
    lines: Lock<Lines>,
    cached: AtomicU64,
    dirty: AtomicU64,
}

impl LineIndex {
    /// An empty index for so many lines. It grows if there are more.
    pub fn new(lines: u64) -> Arc<LineIndex> {
        let lines = lines.clamp(1, u64::from(NONE)) as usize;
        Arc::new(LineIndex {
            lines: Lock::new(Lines {
                lines: Vec::with_capacity(lines),
                buckets: vec![NONE; lines].into_boxed_slice(),
                free: NONE,
                oldest: NONE,
                newest: NONE,
                sectors: 0,
                unknown: Vec::new(),
            }),
            cached: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
        })
    }

    /// Says of how many sectors the disk is, and whether nothing is known of them.
    pub fn begin(&self, cpu: &Cpu, sectors: u64, recovers: bool) {
        self.lines.with(cpu, |all| {
            all.sectors = sectors;
            if recovers {
                all.unknown = vec![u64::MAX; all.parts().div_ceil(64) as usize];
            }
        });
    }

    /// How many parts of 8192 sectors there are.
    pub(super) fn parts(&self, cpu: &Cpu) -> u64 {
        self.lines.with(cpu, |all| all.parts())
    }

    /// As [`super::bitmap::Bitmap::totals`].
    pub fn totals(&self) -> Totals {
        // Relaxed: these are counts, and nothing else is told by them.
        Totals {
            cached: self.cached.load(Ordering::Relaxed),
            dirty: self.dirty.load(Ordering::Relaxed),
        }
    }

    /// As [`super::bitmap::Bitmap::look`].
    ///
    /// # Errors
    /// As there.
    pub fn look(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.look_for(cpu, first, count, |_| true, out)
    }

    /// As [`super::bitmap::Bitmap::look_for`].
    ///
    /// # Errors
    /// As there.
    pub fn look_for(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        wanted: impl Fn(Word) -> bool,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.lines.with(cpu, |all| {
            cpu.work_n(Op::CacheLookup, count, || {
                for sector in first..first + u64::from(count) {
                    all.known(sector)?;
                    let word = all.word(sector);
                    if wanted(word) {
                        push(out, sector, word.place());
                    }
                }
                Ok(())
            })
        })
    }

    /// As [`super::bitmap::Bitmap::change`]. What comes in is the one used last.
    ///
    /// # Errors
    /// As there.
    pub fn change(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        change: impl Fn(Word) -> Word,
    ) -> Result<(), Unknown> {
        self.lines.with(cpu, |all| {
            cpu.work_n(Op::CacheUpdate, count, || {
                for sector in first..first + u64::from(count) {
                    all.known(sector)?;
                    let old = all.word(sector);
                    let new = change(old);
                    all.set(sector, new);
                    self.count(old, new);
                }
                Ok(())
            })
        })
    }

    /// Sectors were used that are cached.
    pub fn touched(&self, cpu: &Cpu, first: u64, count: u32) {
        self.lines.with(cpu, |all| {
            cpu.work_n(Op::ListUpdate, count, || {
                for sector in first..first + u64::from(count) {
                    if let Some(at) = all.find(sector) {
                        all.unlink(at);
                        all.link_newest(at);
                    }
                }
            });
        });
    }

    /// The `budget` sectors that were not used for longest, or all there are, in ascending order.
    pub fn oldest(&self, cpu: &Cpu, budget: u64) -> Vec<Victim> {
        let mut found = self.lines.with(cpu, |all| {
            let line = |at: u32| (at != NONE).then(|| &all.lines[at as usize]);
            let each = std::iter::successors(line(all.oldest), |last| line(last.newer));
            let single = |line: &Line| Victim {
                first: line.sector,
                count: 1,
            };
            each.take(budget as usize).map(single).collect()
        });
        tidy(&mut found);
        found
    }

    /// Dirty sectors of the entries from number `from` on, as many as `budget` says, in ascending order; and the number
    /// of the entry to go on with, 0 after the last.
    pub(super) fn dirty(&self, cpu: &Cpu, from: u64, budget: u64) -> (Vec<Victim>, u64) {
        let (mut found, next) = self.lines.with(cpu, |all| {
            let (mut found, mut at) = (Vec::new(), from as usize);
            while let Some(line) = all.lines.get(at).filter(|_| (found.len() as u64) < budget) {
                if line.word.is_dirty() {
                    found.push(Victim {
                        first: line.sector,
                        count: 1,
                    });
                }
                at += 1;
            }
            let is_end = at >= all.lines.len();
            (found, if is_end { 0 } else { at as u64 })
        });
        tidy(&mut found);
        (found, next)
    }

    /// As [`super::bitmap::Bitmap::learn`].
    pub(super) fn learn(&self, cpu: &Cpu, part: u64, runs: &[Run]) -> bool {
        let begin = part * u64::from(SECTORS);
        self.lines.with(cpu, |all| {
            if all.known(begin).is_ok() {
                return false;
            }
            all.unknown[part as usize / 64] &= !(1 << (part % 64));
            for run in runs {
                for sector in run.first..run.end() {
                    all.set(begin + u64::from(sector), run.word);
                    self.count(Word::ABSENT, run.word);
                }
            }
            true
        })
    }

    /// As [`super::bitmap::Bitmap::end_learning`].
    pub(super) fn end_learning(&self, cpu: &Cpu) {
        self.lines.with(cpu, |all| all.unknown = Vec::new());
    }

    /// As [`super::bitmap::Bitmap::find_unknown`].
    pub(super) fn find_unknown(&self, cpu: &Cpu, from: u64) -> Option<u64> {
        self.lines.with(cpu, |all| {
            let is_unknown = |part: &u64| all.known(part * u64::from(SECTORS)).is_err();
            match all.unknown.is_empty() {
                true => None,
                false => (from..all.parts()).find(is_unknown),
            }
        })
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self, cpu: &Cpu) -> usize {
        let behind = self.lines.with(cpu, |all| {
            all.lines.capacity() * size_of::<Line>()
                + size_of_val(&*all.buckets)
                + all.unknown.capacity() * size_of::<u64>()
        });
        behind + size_of::<LineIndex>()
    }

    fn count(&self, old: Word, new: Word) {
        // Relaxed: see `totals`. Less is more modulo 2^64.
        let differ = |count: &AtomicU64, old: bool, new: bool| {
            if old != new {
                let more = if new { 1 } else { u64::MAX };
                count.fetch_add(more, Ordering::Relaxed);
            }
        };
        differ(&self.cached, old.is_cached(), new.is_cached());
        differ(&self.dirty, old.is_dirty(), new.is_dirty());
    }
}

impl Lines {
    fn parts(&self) -> u64 {
        self.sectors.div_ceil(u64::from(SECTORS))
    }

    /// Refuses a sector of a part of which nothing is known.
    fn known(&self, sector: u64) -> Result<(), Unknown> {
        let part = sector / u64::from(SECTORS);
        match self.unknown.get(part as usize / 64) {
            Some(word) if word >> (part % 64) & 1 == 1 => Err(Unknown(part)),
            _ => Ok(()),
        }
    }

    /// The bucket of a sector.
    fn bucket(&self, sector: u64) -> usize {
        // The golden ratio as a share of 2^64: neighbours go far apart.
        let spread = sector.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((spread * self.buckets.len() as u64) >> 32) as usize
    }

    fn find(&self, sector: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(sector)];
        while at != NONE {
            let line = &self.lines[at as usize];
            if line.sector == sector {
                return Some(at);
            }
            at = line.next;
        }
        None
    }

    fn word(&self, sector: u64) -> Word {
        let found = self.find(sector);
        found.map_or(Word::ABSENT, |at| self.lines[at as usize].word)
    }

    /// Gives a sector a word: it comes in, stays or leaves.
    fn set(&mut self, sector: u64, word: Word) {
        match self.find(sector) {
            Some(at) if word.is_cached() => self.lines[at as usize].word = word,
            Some(at) => self.remove(at),
            None if word.is_cached() => self.insert(sector, word),
            None => {}
        }
    }

    fn insert(&mut self, sector: u64, word: Word) {
        let bucket = self.bucket(sector);
        let line = Line {
            sector,
            next: self.buckets[bucket],
            before: NONE,
            older: NONE,
            newer: NONE,
            word,
        };
        let at = match self.free {
            NONE => {
                let at = self.lines.len() as u32;
                assert!(at < NONE, "entries are numbered by 32 bits: 16 TiB");
                self.lines.push(line);
                at
            }
            free => {
                self.free = self.lines[free as usize].next;
                self.lines[free as usize] = line;
                free
            }
        };
        if line.next != NONE {
            self.lines[line.next as usize].before = at;
        }
        self.buckets[bucket] = at;
        self.link_newest(at);
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let Line {
            sector,
            next,
            before,
            ..
        } = self.lines[at as usize];
        if next != NONE {
            self.lines[next as usize].before = before;
        }
        match before {
            NONE => {
                let bucket = self.bucket(sector);
                self.buckets[bucket] = next;
            }
            _ => self.lines[before as usize].next = next,
        }
        let line = &mut self.lines[at as usize];
        (line.word, line.next) = (Word::ABSENT, self.free);
        self.free = at;
    }

    /// Takes an entry out of the order by use.
    fn unlink(&mut self, at: u32) {
        let Line { older, newer, .. } = self.lines[at as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.lines[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.lines[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        let line = &mut self.lines[at as usize];
        (line.older, line.newer) = (older, NONE);
        match older {
            NONE => self.oldest = at,
            _ => self.lines[older as usize].newer = at,
        }
    }
}

/// Adds a sector to the stretches.
fn push(out: &mut Vec<Stretch>, sector: u64, place: Place) {
    match out.last_mut() {
        Some(last) if last.place == place && last.first + u64::from(last.count) == sector => {
            last.count += 1;
        }
        _ => out.push(Stretch {
            first: sector,
            count: 1,
            place,
        }),
    }
}
