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
//! * A discard is like a write that leaves anything: until a write has replaced it a read may return what it
//!   finds, and so may a read during which a discard began.
//!
//! Files have checkers of their own: of their bytes and sizes (`objects.rs`, `versions.rs`, `size.rs`), and of their names (`names.rs`).
//!
//! "Before" and "after" are by the order of execution, which effects follow in either engine.

pub mod names;
pub mod objects;
mod size;
mod units;
mod versions;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use wharf_drive::media::SlabError;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_workload::PAGE_BYTES;

use units::{ANY_VERSION, Content, Units};

/// Bytes of a unit of real data.
pub const SECTOR_BYTES: usize = 512;

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
    /// Discards begun before.
    discards: u64,
}

/// The versions a write or a discard has given its units; reused from one to the next.
#[derive(Debug, Default)]
pub struct Ticket {
    began: u64,
    versions: Vec<u32>,
}

/// The checker of one run, shared by all clients.
pub struct Checker {
    units: Units,
    /// The units of every discard, in the order in which they began, and their number.
    discards: Mutex<Vec<Range<u64>>>,
    discards_begun: AtomicU64,
    unit_bytes: u64,
    stamp_only: bool,
}

impl Checker {
    /// A checker for an address space of `bytes` bytes in which nothing was written, and of which little ever will be if
    /// it is `sparse`.
    ///
    /// # Errors
    /// If there is no memory for 4 bytes a unit, which count only once they are touched.
    pub fn new(bytes: u64, stamp_only: bool, sparse: bool) -> Result<Checker, SlabError> {
        let unit_bytes = if stamp_only {
            4096
        } else {
            SECTOR_BYTES as u64
        };
        Ok(Checker {
            units: Units::new(bytes.div_ceil(unit_bytes) as usize, sparse)?,
            discards: Mutex::default(),
            discards_begun: AtomicU64::new(0),
            unit_bytes,
            stamp_only,
        })
    }

    /// Alignment that offsets and lengths of requests must have: 512 bytes.
    pub const ALIGNMENT: u64 = SECTOR_BYTES as u64;

    /// Bytes of the buffer for a request: its own, or 8 for each page it touches.
    pub fn buffer_bytes(&self, offset: u64, bytes: u64) -> usize {
        if self.stamp_only {
            self.units_of(offset, bytes).count() * 8
        } else {
            bytes as usize
        }
    }

    fn units_of(&self, offset: u64, bytes: u64) -> Range<u64> {
        let first = offset / self.unit_bytes;
        let end = (offset + bytes).div_ceil(self.unit_bytes);
        first..end
    }

    /// Brings near what is known of the unit at `offset`: a request will come to it soon.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        self.units.prefetch(offset / self.unit_bytes);
    }

    /// A write begins: fills `data` with the stamps to write.
    #[inline]
    pub fn begin_write(&self, offset: u64, bytes: u64, data: &mut [u8], ticket: &mut Ticket) {
        ticket.versions.clear();
        ticket.began = self.units.now();
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        let units = self.units_of(offset, bytes);
        for (unit, part) in units.zip(data.chunks_exact_mut(step)) {
            let number = self.units.begin(unit, Content::Stamp);
            ticket.versions.push(number);
            let stamp = stamp(unit, number).to_le_bytes();
            part.chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&stamp));
        }
    }

    /// A write has been acknowledged.
    #[inline]
    pub fn end_write(&self, offset: u64, bytes: u64, ticket: &Ticket) {
        for (unit, number) in self.units_of(offset, bytes).zip(&ticket.versions) {
            self.units.end(unit, *number, Content::Stamp, ticket.began);
        }
    }

    /// The units that a discard covers whole.
    fn units_within(&self, offset: u64, bytes: u64) -> Range<u64> {
        let page_units = PAGE_BYTES / self.unit_bytes;
        let first = offset.div_ceil(PAGE_BYTES) * page_units;
        let end = (offset + bytes) / PAGE_BYTES * page_units;
        first..end.max(first)
    }

    fn discards(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.discards.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// A discard begins: whole pages of its range may hold anything.
    pub fn begin_discard(&self, offset: u64, bytes: u64, ticket: &mut Ticket) {
        let units = self.units_within(offset, bytes);
        {
            let mut discards = self.discards();
            discards.push(units.clone());
            // Release: partner of the load in `begin_read`.
            self.discards_begun
                .store(discards.len() as u64, Ordering::Release);
        }
        ticket.versions.clear();
        ticket.began = self.units.now();
        let begun = units.map(|unit| self.units.begin(unit, Content::Anything));
        ticket.versions.extend(begun);
    }

    /// A discard has been acknowledged.
    pub fn end_discard(&self, offset: u64, bytes: u64, ticket: &Ticket) {
        for (unit, number) in self.units_within(offset, bytes).zip(&ticket.versions) {
            let content = Content::Anything;
            self.units.end(unit, *number, content, ticket.began);
        }
    }

    /// A read begins: remembers what it may return.
    #[inline]
    pub fn begin_read(&self, offset: u64, bytes: u64, snapshot: &mut Snapshot) {
        snapshot.units.clear();
        snapshot.others.clear();
        // Acquire: partner of the store in `begin_discard`.
        snapshot.discards = self.discards_begun.load(Ordering::Acquire);
        for unit in self.units_of(offset, bytes) {
            let from = snapshot.others.len() as u32;
            let latest = self.units.begin_read(unit, &mut snapshot.others);
            let to = snapshot.others.len() as u32;
            let others = (from, to);
            snapshot.units.push(Before { latest, others });
        }
    }

    /// A read has returned `data`.
    ///
    /// # Errors
    /// If that is not what the unit may hold.
    #[inline]
    pub fn end_read(
        &self,
        offset: u64,
        bytes: u64,
        data: &[u8],
        snapshot: &Snapshot,
    ) -> Result<(), WrongRead> {
        let step = if self.stamp_only { 8 } else { SECTOR_BYTES };
        for ((unit, part), before) in self
            .units_of(offset, bytes)
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
        if others.contains(&ANY_VERSION) {
            return Ok(());
        }
        let allowed = number == before.latest && others.is_empty()
            || others.contains(&number)
            || number > before.latest && number <= self.units.latest(unit);
        if in_place && torn.is_none() && allowed {
            return Ok(());
        }
        let discards = self.discards();
        let mut since = discards[snapshot.discards as usize..].iter();
        if since.any(|units| units.contains(&unit)) {
            return Ok(());
        }
        Err(self.wrong_read(unit, found, torn, before.latest, others))
    }

    #[cold]
    fn wrong_read(
        &self,
        unit: u64,
        found: u64,
        torn: Option<u64>,
        latest: u32,
        others: &[u32],
    ) -> WrongRead {
        let describe = |stamp: u64| match (stamp >> 32, stamp as u32) {
            (0, 0) => "nothing (zeros)".to_string(),
            (0, _) | (_, 0) => format!("bytes that no write left ({stamp:#x})"),
            (at, version) => format!("version {version} of {} {}", self.unit_name(), at - 1),
        };
        let found = match torn {
            Some(other) => format!("a mixture of {} and {}", describe(found), describe(other)),
            None => describe(found),
        };
        let expected = match (others, latest) {
            ([], 0) => "nothing (zeros)".to_string(),
            ([], latest) => format!("version {latest}"),
            (several, latest) => format!("one of versions {several:?} or later than {latest}"),
        };
        WrongRead {
            place: format!("{} {unit}", self.unit_name()),
            expected,
            found,
        }
    }

    fn unit_name(&self) -> &'static str {
        if self.stamp_only { "page" } else { "sector" }
    }
}

/// The stamp of a version of a unit; version 0 is what was never written: zeros.
fn stamp(unit: u64, version: u32) -> u64 {
    (unit + 1) << 32 | u64::from(version)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod files_tests;
