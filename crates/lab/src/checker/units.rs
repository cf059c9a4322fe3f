//! What is known of each unit: a word for all of them, a table for the few that are contended.
//!
//! A unit's word holds the latest version begun and two flags:
//!
//! | flags | meaning | who changes the word |
//! |---|---|---|
//! | none | one stable value | whoever begins a write |
//! | [`WRITING`] | a single write is under way | that write at its end, or whoever begins another |
//! | [`CONTENDED`] | an entry of the table says what is possible | who holds the entry's shard |
//!
//! A unit may be *discarded*: that is a version too, begun and ended like a write, but one that holds anything.
//! [`ANYTHING`] says that the stable version, or one of the two of a unit with a single write under way, is such.
//!
//! Words of neighbouring pages are neighbours, and what nearly all requests do takes no lock: a load for a
//! read, a compare-and-swap for the beginning of a write and one for its end.
//!
//! Orderings: a word is changed with `AcqRel` and read with `Acquire`, so that who sees the end of a write
//! sees the data that it left. Entries are guarded by the lock of their shard.

use std::sync::{Mutex, MutexGuard};

use rustc_hash::FxHashMap;
use wharf_drive::media::{SlabError, ZeroedSlab};
use wharf_runtime::sync::{AtomicU32, AtomicU64, Ordering};

/// One write is under way, and nothing else is uncertain.
const WRITING: u32 = 1 << 31;

/// The table has an entry for the unit.
const CONTENDED: u32 = 1 << 30;

/// The stable version, or one of those that are possible while a write is under way, was discarded.
const ANYTHING: u32 = 1 << 29;

/// The version in a word.
const VERSION: u32 = ANYTHING - 1;

/// Among the possible versions of a unit: a read may return whatever there is. No version has this number.
pub(super) const ANY_VERSION: u32 = u32::MAX;

/// What a new version of a unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Its stamp: it is written.
    Stamp,
    /// Anything: it is discarded.
    Anything,
}

impl Content {
    /// The flag of a word.
    fn flag(self) -> u32 {
        match self {
            Content::Stamp => 0,
            Content::Anything => ANYTHING,
        }
    }
}

/// Parts the table is divided into, so that threads rarely meet.
const SHARDS: u64 = 64;

#[derive(Debug, Clone, Copy)]
struct Version {
    number: u32,
    ended: u64,
    content: Content,
}

impl Version {
    /// As it is among the possible ones.
    fn possible(&self) -> u32 {
        match self.content {
            Content::Stamp => self.number,
            Content::Anything => ANY_VERSION,
        }
    }
}

/// A unit with several writes under way, or whose value is not certain after them.
#[derive(Debug, Default)]
struct Contended {
    candidates: Vec<Version>,
    under_way: Vec<Version>,
}

#[derive(Default)]
struct Shard {
    contended: FxHashMap<u64, Contended>,
    spare: Vec<Contended>,
}

/// See the module.
pub(super) struct Units {
    words: ZeroedSlab<AtomicU32>,
    shards: Vec<Mutex<Shard>>,
    /// Ends of contended writes so far: the order in which writes begin and end.
    order: AtomicU64,
}

impl Units {
    /// `units` units in which nothing was written; few of them ever will be if it is `sparse`.
    pub(super) fn new(units: usize, sparse: bool) -> Result<Units, SlabError> {
        let what = "the table of written versions";
        Ok(Units {
            words: match sparse {
                false => ZeroedSlab::new(what, units)?,
                true => ZeroedSlab::sparse(what, units)?,
            },
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            order: AtomicU64::new(1),
        })
    }

    /// Brings a unit's word near.
    #[inline]
    pub(super) fn prefetch(&self, unit: u64) {
        self.words.prefetch(unit as usize);
    }

    #[inline]
    fn word(&self, unit: u64) -> &AtomicU32 {
        &self.words[unit as usize]
    }

    fn shard(&self, unit: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(unit % SHARDS) as usize];
        shard
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The time of a write that begins now: a contended write that has ended by now has ended at this
    /// time or before.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.order.load(Ordering::Acquire)
    }

    /// The latest version begun.
    #[inline]
    pub(super) fn latest(&self, unit: u64) -> u32 {
        self.word(unit).load(Ordering::Acquire) & VERSION
    }

    /// Changes a word from `old` to `new`; false if it is not `old` any more.
    #[inline]
    fn change(&self, unit: u64, old: u32, new: u32) -> bool {
        let word = self.word(unit);
        let changed = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }

    /// A write, or a discard, begins: gives its version.
    #[inline]
    pub(super) fn begin(&self, unit: u64, content: Content) -> u32 {
        let word = self.word(unit).load(Ordering::Acquire);
        let number = next_version(word);
        let new = number | WRITING | (word & ANYTHING) | content.flag();
        if word & (WRITING | CONTENDED) == 0 && self.change(unit, word, new) {
            return number;
        }
        self.begin_contended(unit, content)
    }

    #[cold]
    fn begin_contended(&self, unit: u64, content: Content) -> u32 {
        let shard = &mut *self.shard(unit);
        loop {
            let word = self.word(unit).load(Ordering::Acquire);
            let number = next_version(word);
            let flag = if word & (WRITING | CONTENDED) == 0 {
                WRITING | (word & ANYTHING) | content.flag()
            } else {
                CONTENDED
            };
            if !self.change(unit, word, number | flag) {
                continue; // A single write has begun or ended meanwhile.
            }
            if word & WRITING != 0 {
                shard.make_entry(unit, word);
            }
            if flag == CONTENDED {
                let entry = shard.contended.get_mut(&unit);
                let entry = entry.expect("a contended unit has an entry");
                entry.under_way.push(Version {
                    number,
                    ended: u64::MAX,
                    content,
                });
            }
            return number;
        }
    }

    /// The version `number`, which began at `began`, has ended.
    #[inline]
    pub(super) fn end(&self, unit: u64, number: u32, content: Content, began: u64) {
        let word = number | WRITING | content.flag();
        let end = |word| self.change(unit, word, number | content.flag());
        // With the flag of the version before, perhaps.
        let is_ended = end(word) || content == Content::Stamp && end(word | ANYTHING);
        if !is_ended {
            self.end_contended(unit, number, content, began);
        }
    }

    #[cold]
    fn end_contended(&self, unit: u64, number: u32, content: Content, began: u64) {
        let shard = &mut *self.shard(unit);
        let entry = shard
            .contended
            .get_mut(&unit)
            .expect("one of several writes under way has an entry");
        // AcqRel: partner of the load in `now`.
        let ended = self.order.fetch_add(1, Ordering::AcqRel) + 1;
        entry.under_way.retain(|v| v.number != number);
        entry.candidates.retain(|v| v.ended > began);
        entry.candidates.push(Version {
            number,
            ended,
            content,
        });
        let latest = self.latest(unit);
        let certain = entry.under_way.is_empty()
            && matches!(entry.candidates[..], [only] if only.number == latest);
        if certain {
            let mut entry = shard.contended.remove(&unit).expect("just found");
            entry.candidates.clear();
            shard.spare.push(entry);
            // Release: as every change of a word.
            let word = latest | content.flag();
            self.word(unit).store(word, Ordering::Release);
        }
    }

    /// A read begins: gives the latest version begun. If another one is possible too, all that are go
    /// to `possible`.
    #[inline]
    pub(super) fn begin_read(&self, unit: u64, possible: &mut Vec<u32>) -> u32 {
        let word = self.word(unit).load(Ordering::Acquire);
        match word & (WRITING | CONTENDED | ANYTHING) {
            0 => word,
            WRITING => {
                let latest = word & VERSION;
                possible.extend([latest - 1, latest]);
                latest
            }
            flags if flags & CONTENDED == 0 => {
                possible.push(ANY_VERSION);
                word & VERSION
            }
            _ => self.begin_contended_read(unit, possible),
        }
    }

    #[cold]
    fn begin_contended_read(&self, unit: u64, possible: &mut Vec<u32>) -> u32 {
        let shard = self.shard(unit);
        match shard.contended.get(&unit) {
            Some(entry) => {
                let versions = entry.candidates.iter().chain(&entry.under_way);
                possible.extend(versions.map(Version::possible));
                self.latest(unit)
            }
            // Its last write has ended meanwhile.
            None => {
                drop(shard);
                self.begin_read(unit, possible)
            }
        }
    }
}

#[inline]
fn next_version(word: u32) -> u32 {
    let number = (word & VERSION) + 1;
    assert!(number <= VERSION, "fewer than 2^29 writes of one unit");
    number
}

impl Shard {
    /// An entry for a unit with a single write under way, as its word was, and what that one has not yet
    /// replaced.
    fn make_entry(&mut self, unit: u64, word: u32) {
        let under_way = word & VERSION;
        // The word does not say which of the two it is: both may hold anything, until the write ends.
        let content = match word & ANYTHING {
            0 => Content::Stamp,
            _ => Content::Anything,
        };
        let mut entry = self.spare.pop().unwrap_or_default();
        entry.candidates.push(Version {
            number: under_way - 1,
            ended: 0,
            content,
        });
        entry.under_way.push(Version {
            number: under_way,
            ended: u64::MAX,
            content,
        });
        self.contended.insert(unit, entry);
    }
}
