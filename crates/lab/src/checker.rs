//! Every read is checked against the last write.
//!
//! A replayed write puts a *stamp* into each unit it covers: the unit's number and the version of
//! the write. With stamp media a unit is a 4 KiB page and the stamp is all there is of it; with real
//! data a unit is a 512-byte sector, filled with its stamp, so that a torn or misplaced sector shows.
//!
//! What a read may return when writes overlap it or each other:
//!
//! * Versions of a unit are numbered in the order the writes begin.
//! * A unit that no write is under way for has one value, its *stable* version. Nearly all units are
//!   like that at any time; they cost 4 bytes. So does one with a single write under way, which may
//!   have its old version or the new one: a bit says so.
//! * Otherwise an entry in a table holds the versions under way, and the *candidates*: ended versions
//!   that no later write has certainly replaced. (A write replaces those that had ended when it
//!   began, once it has ended itself.)
//! * A read may return what was a candidate or under way when it began, or any version begun since.
//!
//! "Before" and "after" are by the order of execution, which effects follow in either engine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use wharf_drive::ftl::MapHint;
use wharf_drive::media::{SlabError, ZeroedSlab};

/// Bytes of a unit of real data.
pub const SECTOR_BYTES: usize = 512;

/// Set in a unit's word: one write is under way, and nothing else is uncertain.
const SINGLE_WRITE: u32 = 1 << 31;

/// Parts the table is divided into, so that threads rarely meet.
const SHARDS: u64 = 64;

/// A read that returned what was never written there, or not last.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "wrong data: {place} holds {found}, expected {expected}; \
     this is a fault in the design or the drive, not in your input"
)]
pub struct WrongRead {
    /// Page or sector, with its number.
    pub place: String,
    /// What it should hold.
    pub expected: String,
    /// What was read.
    pub found: String,
}

#[derive(Debug, Clone, Copy)]
struct Version {
    number: u32,
    began: u64,
    ended: u64,
}

/// A unit with writes under way, or whose value is not certain.
#[derive(Debug, Default)]
struct Contended {
    candidates: Vec<Version>,
    under_way: Vec<Version>,
}

struct Shard {
    /// Latest version begun of each unit, and [`SINGLE_WRITE`].
    words: ZeroedSlab<u32>,
    contended: FxHashMap<u64, Contended>,
    spare: Vec<Contended>,
}

/// What is known of one unit when a read of it begins.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// Latest version begun.
    latest: u32,
    /// Range of the other allowed versions in the snapshot's list.
    others: (u32, u32),
}

/// What a read may return; reused from read to read.
#[derive(Debug, Default)]
pub struct Snapshot {
    units: Vec<Before>,
    others: Vec<u32>,
}

/// The versions a write has given its units; reused from write to write.
#[derive(Debug, Default)]
pub struct Ticket {
    versions: Vec<(u32, u64)>,
}

/// The checker of one run, shared by all clients.
pub struct Checker {
    shards: Vec<Mutex<Shard>>,
    /// Where their words are.
    hints: Vec<MapHint>,
    order: AtomicU64,
    unit_bytes: u64,
    stamp_only: bool,
}

impl Checker {
    /// A checker for an address space of `bytes` bytes in which nothing was written.
    pub fn new(bytes: u64, stamp_only: bool) -> Result<Checker, SlabError> {
        let unit_bytes = if stamp_only {
            4096
        } else {
            SECTOR_BYTES as u64
        };
        let units = bytes.div_ceil(unit_bytes).div_ceil(SHARDS) as usize;
        let shard = || {
            let words = ZeroedSlab::new("the table of written versions", units)?;
            Ok(Mutex::new(Shard {
                words,
                contended: FxHashMap::default(),
                spare: Vec::new(),
            }))
        };
        let shards = (0..SHARDS)
            .map(|_| shard())
            .collect::<Result<Vec<_>, SlabError>>()?;
        let hint = |shard: &Mutex<Shard>| {
            MapHint::new(&shard.lock().unwrap_or_else(|p| p.into_inner()).words)
        };
        Ok(Checker {
            hints: shards.iter().map(hint).collect(),
            shards,
            order: AtomicU64::new(1),
            unit_bytes,
            stamp_only,
        })
    }

    /// Alignment that offsets and lengths of requests must have: 512 bytes.
    pub const ALIGNMENT: u64 = SECTOR_BYTES as u64;

    /// Bytes of the buffer for a request: its own, or 8 for each page it touches.
    pub fn buffer_bytes(&self, offset: u64, bytes: u64) -> usize {
        if self.stamp_only {
            self.units(offset, bytes).count() * 8
        } else {
            bytes as usize
        }
    }

    fn units(&self, offset: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let first = offset / self.unit_bytes;
        let end = (offset + bytes).div_ceil(self.unit_bytes);
        first..end
    }

    fn now(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    fn with_unit<R>(&self, unit: u64, f: impl FnOnce(&mut Shard, usize) -> R) -> R {
        let shard = &self.shards[(unit % SHARDS) as usize];
        let mut shard = shard
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        f(&mut shard, (unit / SHARDS) as usize)
    }

    /// Brings near what is known of the unit at `offset`: a request will come to it soon.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        let unit = offset / self.unit_bytes;
        self.hints[(unit % SHARDS) as usize].prefetch((unit / SHARDS) as u32);
    }

    /// A write begins: fills `data` with the stamps to write.
    pub fn begin_write(&self, offset: u64, bytes: u64, data: &mut [u8], ticket: &mut Ticket) {
        ticket.versions.clear();
        let began = self.now();
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        for (unit, part) in self.units(offset, bytes).zip(data.chunks_exact_mut(step)) {
            let number = self.with_unit(unit, |shard, index| shard.begin_write(unit, index, began));
            ticket.versions.push((number, began));
            let stamp = stamp(unit, number).to_le_bytes();
            part.chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&stamp));
        }
    }

    /// A write has been acknowledged.
    pub fn end_write(&self, offset: u64, bytes: u64, ticket: &Ticket) {
        let ended = self.now();
        for (unit, (number, began)) in self.units(offset, bytes).zip(&ticket.versions) {
            let version = Version {
                number: *number,
                began: *began,
                ended,
            };
            self.with_unit(unit, |shard, index| shard.end_write(unit, index, version));
        }
    }

    /// A read begins: remembers what it may return.
    pub fn begin_read(&self, offset: u64, bytes: u64, snapshot: &mut Snapshot) {
        snapshot.units.clear();
        snapshot.others.clear();
        for unit in self.units(offset, bytes) {
            self.with_unit(unit, |shard, index| shard.begin_read(unit, index, snapshot));
        }
    }

    /// A read has returned `data`.
    pub fn end_read(
        &self,
        offset: u64,
        bytes: u64,
        data: &[u8],
        snapshot: &Snapshot,
    ) -> Result<(), WrongRead> {
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        for ((unit, part), before) in self
            .units(offset, bytes)
            .zip(data.chunks_exact(step))
            .zip(&snapshot.units)
        {
            self.check_unit(unit, part, before, snapshot)?;
        }
        Ok(())
    }

    fn check_unit(
        &self,
        unit: u64,
        part: &[u8],
        before: &Before,
        snapshot: &Snapshot,
    ) -> Result<(), WrongRead> {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let found = word(&part[..8]);
        let torn = part
            .chunks_exact(8)
            .find(|other| word(other) != found)
            .map(word);
        let (at, number) = ((found >> 32) as u32, found as u32);
        let in_place = found == 0 || at == (unit as u32).wrapping_add(1);
        let others = &snapshot.others[before.others.0 as usize..before.others.1 as usize];
        let allowed = number == before.latest && others.is_empty()
            || others.contains(&number)
            || number > before.latest && number <= self.latest(unit);
        if in_place && torn.is_none() && allowed {
            return Ok(());
        }
        let describe = |stamp: u64| match (stamp >> 32, stamp as u32) {
            (0, 0) => "nothing (zeros)".to_string(),
            (0, _) | (_, 0) => format!("bytes that no write left ({stamp:#x})"),
            (at, version) => format!("version {version} of {} {}", self.unit_name(), at - 1),
        };
        let found = match torn {
            Some(other) => format!("a mixture of {} and {}", describe(found), describe(other)),
            None => describe(found),
        };
        let expected = match (others, before.latest) {
            ([], 0) => "nothing (zeros)".to_string(),
            ([], latest) => format!("version {latest}"),
            (several, latest) => format!("one of versions {several:?} or later than {latest}"),
        };
        Err(WrongRead {
            place: format!("{} {unit}", self.unit_name()),
            expected,
            found,
        })
    }

    fn latest(&self, unit: u64) -> u32 {
        self.with_unit(unit, |shard, index| shard.words[index] & !SINGLE_WRITE)
    }

    fn unit_name(&self) -> &'static str {
        if self.stamp_only { "page" } else { "sector" }
    }
}

/// The stamp of a version of a unit; version 0 is what was never written: zeros.
fn stamp(unit: u64, version: u32) -> u64 {
    (unit + 1) << 32 | u64::from(version)
}

impl Shard {
    fn begin_write(&mut self, unit: u64, index: usize, began: u64) -> u32 {
        let word = self.words[index];
        let latest = word & !SINGLE_WRITE;
        let number = latest + 1;
        assert!(number < SINGLE_WRITE, "fewer than 2^31 writes of one unit");
        if word == latest && !self.is_contended(unit) {
            self.words[index] = number | SINGLE_WRITE;
            return number;
        }
        self.words[index] = number;
        let spare = &mut self.spare;
        let entry = self.contended.entry(unit).or_insert_with(|| {
            // The write under way, and what it has not yet replaced.
            let mut entry = spare.pop().unwrap_or_default();
            let (began, ended) = (0, 0);
            entry.candidates.push(Version {
                number: latest - 1,
                began,
                ended,
            });
            let ended = u64::MAX;
            entry.under_way.push(Version {
                number: latest,
                began,
                ended,
            });
            entry
        });
        entry.under_way.push(Version {
            number,
            began,
            ended: u64::MAX,
        });
        number
    }

    fn is_contended(&self, unit: u64) -> bool {
        !self.contended.is_empty() && self.contended.contains_key(&unit)
    }

    fn end_write(&mut self, unit: u64, index: usize, version: Version) {
        if self.words[index] == version.number | SINGLE_WRITE {
            self.words[index] = version.number;
            return;
        }
        let entry = self
            .contended
            .get_mut(&unit)
            .expect("one of several writes under way has an entry");
        entry.under_way.retain(|v| v.number != version.number);
        entry.candidates.retain(|v| v.ended > version.began);
        entry.candidates.push(version);
        let certain = entry.under_way.is_empty()
            && matches!(entry.candidates[..], [only] if only.number == self.words[index]);
        if certain {
            let mut entry = self.contended.remove(&unit).expect("just found");
            entry.candidates.clear();
            self.spare.push(entry);
        }
    }

    fn begin_read(&mut self, unit: u64, index: usize, snapshot: &mut Snapshot) {
        let from = snapshot.others.len() as u32;
        let word = self.words[index];
        let latest = word & !SINGLE_WRITE;
        if word != latest {
            snapshot.others.extend([latest - 1, latest]);
        } else if !self.contended.is_empty()
            && let Some(entry) = self.contended.get(&unit)
        {
            let versions = entry.candidates.iter().chain(&entry.under_way);
            snapshot.others.extend(versions.map(|v| v.number));
        }
        let to = snapshot.others.len() as u32;
        snapshot.units.push(Before {
            latest,
            others: (from, to),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Probe {
        checker: Checker,
    }

    impl Probe {
        fn new(stamp_only: bool) -> Probe {
            Probe {
                checker: Checker::new(1 << 20, stamp_only).unwrap(),
            }
        }

        fn begin(&self, bytes: u64) -> (Ticket, Vec<u8>) {
            let mut ticket = Ticket::default();
            let mut data = vec![0; self.checker.buffer_bytes(0, bytes)];
            self.checker.begin_write(0, bytes, &mut data, &mut ticket);
            (ticket, data)
        }

        fn snapshot(&self, bytes: u64) -> Snapshot {
            let mut snapshot = Snapshot::default();
            self.checker.begin_read(0, bytes, &mut snapshot);
            snapshot
        }
    }

    #[test]
    fn a_quiet_page_has_one_value() {
        let probe = Probe::new(true);
        let zeros = [0u8; 8];
        assert!(
            probe
                .checker
                .end_read(0, 4096, &zeros, &probe.snapshot(4096))
                .is_ok()
        );
        let (ticket, data) = probe.begin(4096);
        probe.checker.end_write(0, 4096, &ticket);
        assert!(
            probe
                .checker
                .end_read(0, 4096, &data, &probe.snapshot(4096))
                .is_ok()
        );
        let stale = probe
            .checker
            .end_read(0, 4096, &zeros, &probe.snapshot(4096))
            .unwrap_err();
        assert_eq!(
            (stale.place.as_str(), stale.expected.as_str()),
            ("page 0", "version 1")
        );
        assert_eq!(stale.found, "nothing (zeros)");
    }

    #[test]
    fn a_write_under_way_may_be_seen_or_not_until_it_ends() {
        let probe = Probe::new(true);
        let (first, old) = probe.begin(4096);
        probe.checker.end_write(0, 4096, &first);
        let before = probe.snapshot(4096);
        let (second, new) = probe.begin(4096);
        for data in [&old, &new] {
            assert!(probe.checker.end_read(0, 4096, data, &before).is_ok());
            assert!(
                probe
                    .checker
                    .end_read(0, 4096, data, &probe.snapshot(4096))
                    .is_ok()
            );
        }
        probe.checker.end_write(0, 4096, &second);
        assert!(
            probe
                .checker
                .end_read(0, 4096, &old, &probe.snapshot(4096))
                .is_err()
        );
        assert!(
            probe
                .checker
                .end_read(0, 4096, &new, &probe.snapshot(4096))
                .is_ok()
        );
    }

    #[test]
    fn overlapping_writes_leave_either_until_one_comes_after_both() {
        let probe = Probe::new(true);
        let (a, first) = probe.begin(4096);
        let (b, second) = probe.begin(4096);
        probe.checker.end_write(0, 4096, &b);
        probe.checker.end_write(0, 4096, &a);
        for data in [&first, &second] {
            assert!(
                probe
                    .checker
                    .end_read(0, 4096, data, &probe.snapshot(4096))
                    .is_ok()
            );
        }
        assert!(
            probe
                .checker
                .end_read(0, 4096, &[0; 8], &probe.snapshot(4096))
                .is_err()
        );
        let (c, third) = probe.begin(4096);
        probe.checker.end_write(0, 4096, &c);
        assert!(
            probe
                .checker
                .end_read(0, 4096, &first, &probe.snapshot(4096))
                .is_err()
        );
        assert!(
            probe
                .checker
                .end_read(0, 4096, &third, &probe.snapshot(4096))
                .is_ok()
        );
    }

    #[test]
    fn a_torn_sector_and_a_misplaced_one_are_found() {
        let probe = Probe::new(false);
        let (ticket, mut data) = probe.begin(1024);
        probe.checker.end_write(0, 1024, &ticket);
        assert!(
            probe
                .checker
                .end_read(0, 1024, &data, &probe.snapshot(1024))
                .is_ok()
        );
        let mut swapped = data.clone();
        swapped.rotate_left(512);
        let error = probe
            .checker
            .end_read(0, 1024, &swapped, &probe.snapshot(1024))
            .unwrap_err();
        assert_eq!(error.found, "version 1 of sector 1");
        data[600..608].fill(0);
        let error = probe
            .checker
            .end_read(0, 1024, &data, &probe.snapshot(1024))
            .unwrap_err();
        assert!(error.found.starts_with("a mixture"), "{error}");
    }
}
