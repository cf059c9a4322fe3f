//! The bitmap: what is cached, by address.
//!
//! Problem: four bits for each sector of a store of 256 TB are 32 GiB, as much as the index that
//! they are to replace (Hao et al., sections II-B and III-A). Little of the store is cached, so most
//! bits are zeros; but a general compressor would have to run at every access.
//!
//! Idea: the bitmap is cut into parts of 8192 sectors, each in the form that takes the least memory
//! (`part/`); packed parts are looked up as they are. Those in use stay raw, within a budget.
//!
//! 1. 16 parts that follow each other are a *group*, which is there once one of them is touched.
//! 2. Groups go round *shards*, each with a lock that is held for no longer than a look at a part.
//! 3. A part is unpacked when what it caches changes; one that was not used for a while is packed
//!    for it (second chance).
//!    A look at a raw part takes no lock, if it makes nothing hotter that is cold (`raws.rs`).
//! 4. Heat that a packed form cannot take in place is noted in a short list of the shard, and put
//!    in when the list is full or the part is scanned. Until then the sectors seem cooler.
//!
//! After a start all parts may be *unknown*: whoever meets one asks the drive which of its sectors
//! are allocated, and says so ([`Bitmap::learn`]).

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock, Op};

use super::part::{Counts, Run, SECTORS};
use super::raws::Raws;
use super::shard::{self, Change, GROUP_PARTS, Shard};
use super::stretch;
use super::word::Word;

pub use super::stretch::{Stretch, Unknown};

/// Locks, where there are groups enough; a power of two.
const SHARDS_MAX: u64 = 256;

/// Sectors in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// All.
    pub cached: u64,
    /// Those that the disk has not.
    pub dirty: u64,
}

/// Sectors in the cache that are cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cold {
    /// Clean ones.
    pub clean: u64,
    /// Dirty ones that are not being written back.
    pub dirty: u64,
}

/// Four bits for each sector of a store.
pub struct Bitmap {
    shards: Box<[CachePadded<Lock<Shard>>]>,
    /// The raw parts of each, to be seen without the lock.
    raws: Box<[Arc<Raws>]>,
    shard_bits: u32,
    sectors: u64,
    cached: CachePadded<AtomicU64>,
    dirty: CachePadded<AtomicU64>,
}

impl Bitmap {
    /// Nothing is cached of `sectors` sectors; if `recovers`, nothing is known instead. At most
    /// `raw_bytes` are taken by parts that are not packed, but for those that must not be.
    pub fn new(sectors: u64, raw_bytes: usize, recovers: bool) -> Bitmap {
        let groups = sectors.div_ceil(u64::from(SECTORS) * GROUP_PARTS);
        let shards = groups.next_power_of_two().min(SHARDS_MAX);
        let shard = |index: u64| {
            let own = groups.saturating_sub(index).div_ceil(shards);
            let raw_bytes = raw_bytes / shards as usize;
            Shard::new(own, shards.ilog2(), raw_bytes, recovers)
        };
        let shards: Vec<Shard> = (0..shards).map(shard).collect();
        Bitmap {
            raws: shards.iter().map(Shard::raws).collect(),
            shard_bits: shards.len().ilog2(),
            shards: (shards.into_iter())
                .map(|shard| CachePadded::new(Lock::new(shard)))
                .collect(),
            sectors,
            cached: CachePadded::default(),
            dirty: CachePadded::default(),
        }
    }

    /// Sectors that it has words for.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// How many parts there are.
    pub fn parts(&self) -> u64 {
        self.sectors.div_ceil(u64::from(SECTORS))
    }

    /// Sectors in the cache, as far as parts are known. While others change them this may be off by
    /// what they do.
    pub fn totals(&self) -> Totals {
        // Relaxed: these are counts, and nothing else is told by them.
        let of = |count: &AtomicU64| (count.load(Ordering::Relaxed) as i64).max(0) as u64;
        Totals {
            cached: of(&self.cached),
            dirty: of(&self.dirty),
        }
    }

    /// Says where `count` sectors from `first` on are, and makes those that are cached hotter. `out`
    /// gets the stretches in ascending order; neighbours differ in their place.
    ///
    /// # Errors
    /// A part of which nothing is known yet; `out` then has what lies before it.
    pub fn access(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.look_at(cpu, first, count, true, out)
    }

    /// As [`Bitmap::access`], without making anything hotter.
    ///
    /// # Errors
    /// As [`Bitmap::access`].
    pub fn look(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.look_at(cpu, first, count, false, out)
    }

    #[inline]
    fn look_at(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        warms: bool,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        for (part, sectors) in self.parts_of(first, count) {
            if self.glance(cpu, part, sectors.clone(), warms, out) {
                continue;
            }
            self.locked(cpu, part, |shard| {
                let (op, looks) = shard.cost_of_look(part, &sectors);
                cpu.work_n(op, looks, || {
                    shard.look(part, sectors.clone(), out)?;
                    if warms {
                        shard.warm(part, sectors.clone());
                    }
                    Ok(Change::default())
                })
            })?;
        }
        Ok(())
    }

    /// Looks at sectors of a raw part without its lock; false if that cannot be.
    #[inline]
    fn glance(
        &self,
        cpu: &Cpu,
        part: u64,
        sectors: Range<u32>,
        warms: bool,
        out: &mut Vec<Stretch>,
    ) -> bool {
        let raws = &self.raws[self.shard_of(part)];
        let at = shard::index_of(part, self.shard_bits);
        if !raws.has(at) {
            return false;
        }
        cpu.work_counted(Op::BitmapLookup, || {
            let words = raws.look(at, sectors.start, sectors.end);
            let Some(words) = words.filter(|words| !warms || !words.any_cold()) else {
                return (0, false);
            };
            let begin = part * u64::from(SECTORS);
            words.places(|first, count, place| {
                let place = Word::of_bits(place).place();
                stretch::push(out, begin + u64::from(first), count, place);
            });
            if warms {
                raws.warm(at, &words);
            }
            (sectors.end - sectors.start, true)
        })
    }

    /// Says which of `count` sectors from `first` on have a word that `wanted` likes, as [`Bitmap::look`] does.
    ///
    /// # Errors
    /// As [`Bitmap::access`].
    pub fn look_for(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        wanted: impl Fn(Word) -> bool,
        out: &mut Vec<Stretch>,
    ) -> Result<(), Unknown> {
        self.each_part(cpu, first, count, |shard, part, sectors| {
            shard.look_for(part, sectors, &wanted, out)?;
            Ok(Change::default())
        })
    }

    /// Changes the words of sectors.
    ///
    /// # Errors
    /// A part of which nothing is known yet; what lies before it is changed.
    pub fn change(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        change: impl Fn(Word) -> Word,
    ) -> Result<(), Unknown> {
        self.each_part(cpu, first, count, |shard, part, sectors| {
            shard.known(part)?;
            let count = sectors.end - sectors.start;
            Ok(cpu.work_n(Op::BitmapUpdate, count, || {
                shard.change(part, sectors, &change)
            }))
        })
    }

    /// Looks at a part whole, with what was noted of it put in, and replaces its runs by what
    /// `visit` makes of them if that returns true. They are in `runs`, whose room is used again. A
    /// part that is unknown or empty is not visited.
    pub fn visit(
        &self,
        cpu: &Cpu,
        part: u64,
        runs: &mut Vec<Run>,
        visit: impl FnOnce(&mut Vec<Run>) -> bool,
    ) {
        let shard = self.shard(part);
        let visited = Cell::new(0);
        let counted = |runs: &mut Vec<Run>| {
            visited.set(runs.len() as u32);
            visit(runs)
        };
        let change = shard.with(cpu, |shard| {
            cpu.work_counted(Op::ScanVisit, || {
                let change = shard.visit(part, runs, counted);
                (visited.get(), change)
            })
        });
        self.count(change);
    }

    /// Notes which sectors of a part the drive holds, unless the part is known: its runs, ascending,
    /// none of them touching another with the same word. True if it was not.
    pub fn learn(&self, cpu: &Cpu, part: u64, runs: &[Run]) -> bool {
        let change = self.shard(part).with(cpu, |shard| shard.learn(part, runs));
        self.count(change.unwrap_or_default());
        change.is_some()
    }

    /// All parts are known: those of which nothing is cached need no memory to say so.
    pub fn end_learning(&self, cpu: &Cpu) {
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.with(cpu, Shard::end_learning));
    }

    /// Makes clean sectors of a part cooler if `clean`, dirty ones if `dirty`, as a visit would; tells how many sectors
    /// it looked at. `runs` is room to work in.
    pub fn cool(
        &self,
        cpu: &Cpu,
        part: u64,
        (clean, dirty): (bool, bool),
        runs: &mut Vec<Run>,
    ) -> u64 {
        let cooled = self.shard(part).with(cpu, |shard| {
            cpu.work_counted(Op::ScanVisit, || {
                let cooled = shard.cool(part, clean, dirty);
                (cooled.map_or(0, |(_, runs)| runs), cooled)
            })
        });
        if let Some((sectors, _)) = cooled {
            return sectors;
        }
        let mut sectors = 0;
        self.visit(cpu, part, runs, |runs| {
            for run in runs.iter_mut() {
                sectors += u64::from(run.count);
                if if run.word.is_dirty() { dirty } else { clean } {
                    run.word = run.word.cooler();
                }
            }
            true
        });
        sectors
    }

    /// The first part from `from` on whose counts `wanted` likes; parts that are unknown or empty
    /// have none.
    pub fn find_part(&self, cpu: &Cpu, from: u64, wanted: impl Fn(&Counts) -> bool) -> Option<u64> {
        let mut part = from;
        while part < self.parts() {
            let end = (part / GROUP_PARTS + 1) * GROUP_PARTS;
            let likes = |counts: &Counts| counts.cached > 0 && wanted(counts);
            let shard = self.shard(part);
            let found = shard.with(cpu, |shard| {
                (part..end).find(|part| shard.counts(*part).as_ref().is_some_and(likes))
            });
            if found.is_some() {
                return found;
            }
            part = end;
        }
        None
    }

    /// Counts the cold sectors of all parts that are known, by the counts of the parts.
    pub fn cold(&self, cpu: &Cpu) -> Cold {
        let (mut cold, mut group) = (Cold::default(), 0);
        while group < self.parts() {
            let parts = group..group + GROUP_PARTS;
            self.shard(group).with(cpu, |shard| {
                for counts in parts.filter_map(|part| shard.counts(part)) {
                    cold.clean += u64::from(counts.cold_clean);
                    cold.dirty += u64::from(counts.cold_dirty);
                }
            });
            group += GROUP_PARTS;
        }
        cold
    }

    /// The first part from `from` on of which nothing is known yet.
    pub fn find_unknown(&self, cpu: &Cpu, from: u64) -> Option<u64> {
        let mut part = from;
        while part < self.parts() {
            let end = ((part / GROUP_PARTS + 1) * GROUP_PARTS).min(self.parts());
            let found = self
                .shard(part)
                .with(cpu, |shard| (part..end).find(|p| shard.known(*p).is_err()));
            if found.is_some() {
                return found;
            }
            part = end;
        }
        None
    }

    /// Bytes of memory that it takes: parts, groups and directory.
    pub fn memory_bytes(&self, cpu: &Cpu) -> usize {
        let shards = self.shards.iter();
        let sum: usize = shards.map(|s| s.with(cpu, |s| s.memory_bytes())).sum();
        sum + size_of_val(&*self.shards) + size_of_val(&*self.raws)
    }

    #[inline]
    fn shard_of(&self, part: u64) -> usize {
        (part / GROUP_PARTS) as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn shard(&self, part: u64) -> &Lock<Shard> {
        &self.shards[self.shard_of(part)]
    }

    /// The parts that sectors are in, with the sectors within each.
    #[inline]
    fn parts_of(&self, first: u64, count: u32) -> impl Iterator<Item = (u64, Range<u32>)> {
        let (mut at, end) = (first, first + u64::from(count));
        debug_assert!(end <= self.sectors);
        std::iter::from_fn(move || {
            let part = at / u64::from(SECTORS);
            let begin = part * u64::from(SECTORS);
            let until = end.min(begin + u64::from(SECTORS));
            let sectors = (at - begin) as u32..(until - begin) as u32;
            (at < end).then(|| {
                at = until;
                (part, sectors)
            })
        })
    }

    /// Calls `each` for each part that sectors are in, with the shard and the sectors within the
    /// part.
    #[inline]
    fn each_part(
        &self,
        cpu: &Cpu,
        first: u64,
        count: u32,
        mut each: impl FnMut(&mut Shard, u64, Range<u32>) -> Result<Change, Unknown>,
    ) -> Result<(), Unknown> {
        for (part, sectors) in self.parts_of(first, count) {
            self.locked(cpu, part, |shard| each(shard, part, sectors))?;
        }
        Ok(())
    }

    /// Works on a part under the lock of its shard.
    #[inline]
    fn locked(
        &self,
        cpu: &Cpu,
        part: u64,
        work: impl FnOnce(&mut Shard) -> Result<Change, Unknown>,
    ) -> Result<(), Unknown> {
        let change = self.shard(part).with(cpu, |shard| {
            let before = shard.packs();
            let change = work(shard);
            match (shard.packs() - before) as u32 {
                0 => {}
                // Timed with what it was done for; in virtual time it is as often a cost of its own.
                packs => cpu.work_n(Op::BitmapPack, packs, || ()),
            }
            change
        })?;
        self.count(change);
        Ok(())
    }

    /// Adds a change to the totals.
    #[inline]
    fn count(&self, change: Change) {
        // Relaxed: see `totals`. Less is more modulo 2^64.
        if change.cached != 0 {
            self.cached
                .fetch_add(i64::from(change.cached) as u64, Ordering::Relaxed);
        }
        if change.dirty != 0 {
            self.dirty
                .fetch_add(i64::from(change.dirty) as u64, Ordering::Relaxed);
        }
    }
}
