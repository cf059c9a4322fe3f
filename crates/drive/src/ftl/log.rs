//! The core's log: what out-of-band data cannot tell, or only after a long search.
//!
//! * A deallocated page must read as zeros after a power cut, although old copies of it may still
//!   lie on flash; one that holds zeros takes no flash at all. So a flush writes the deallocations and
//!   zeros since the last one to the media's log (`trims.rs`), each with the sequence number it had;
//!   recovery drops every copy that is older.
//! * A checkpoint (`checkpoint.rs`) takes the place of the whole log. A log that is full is
//!   therefore replaced by a checkpoint, which always fits.
//!
//! Every record begins with its kind and the number of its items, 4 bytes each; all numbers are
//! little-endian. `docs/durability.md` has the table.

use super::Ftl;
use crate::media::{Media, MediaError, Syncing, log_record_bytes};

/// What a record holds: its first 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Deallocations: [`Trim`]s.
    Trims = 1,
    /// A checkpoint begins: sequence number, logical pages, blocks; one item.
    Checkpoint = 2,
    /// The blocks of a checkpoint: erase count and written pages of each.
    Blocks = 3,
    /// The next part of a checkpoint's map: an entry for each logical page.
    Map = 4,
    /// When the pages that a checkpoint's map calls held were deallocated.
    Held = 5,
    /// Deallocations and zeros: [`Trim`]s.
    Changes = 6,
    /// Many short ones of one sequence number: runs of pages in few bytes each.
    Runs = 7,
    /// The next part of a checkpoint's sparse map: rows that hold something.
    Rows = 8,
}

const HEAD_BYTES: usize = 8;
pub(super) const TRIM_BYTES: usize = 16;

/// Deallocations not yet logged that a core keeps: beyond that, it logs them unasked. They take
/// 64 KiB of a log that has at least 4 MiB for them.
const TRIMS_PENDING_MAX: usize = 4096;

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Trims,
        Kind::Checkpoint,
        Kind::Blocks,
        Kind::Map,
        Kind::Held,
        Kind::Changes,
        Kind::Runs,
        Kind::Rows,
    ];

    /// Bytes of an item.
    fn item_bytes(self) -> usize {
        match self {
            Kind::Trims | Kind::Checkpoint | Kind::Changes => TRIM_BYTES,
            Kind::Blocks => 8,
            Kind::Map | Kind::Held | Kind::Rows => 4,
            Kind::Runs => 1,
        }
    }

    /// The start of a record with `items` items, with room for them.
    pub fn begin(self, items: usize) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEAD_BYTES + items * self.item_bytes());
        record.extend_from_slice(&(self as u32).to_le_bytes());
        let items = u32::try_from(items).expect("records are cut long before that");
        record.extend_from_slice(&items.to_le_bytes());
        record
    }

    /// The kind of a record, and its items; `None` if it is not one of ours.
    pub fn parse(record: &[u8]) -> Option<(Kind, &[u8])> {
        let (head, items) = record.split_at_checked(HEAD_BYTES)?;
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| *kind as u32 == word(&head[..4]))?;
        (word(&head[4..]) as usize * kind.item_bytes() == items.len()).then_some((kind, items))
    }
}

/// Four bytes as a number.
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}

/// Eight bytes as a number.
pub(super) fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

impl Ftl {
    /// True if deallocations wait to be logged.
    #[inline]
    pub fn log_is_due(&self) -> bool {
        !self.trims.is_empty()
    }

    /// True if so many deallocations wait that they should be logged without a flush.
    #[inline]
    pub fn log_is_pressing(&self) -> bool {
        self.trims.len() >= TRIMS_PENDING_MAX
    }

    /// True if the log has no room for the deallocations that wait: a checkpoint must be taken.
    pub fn log_is_full(&self) -> bool {
        let wanted: u64 = match self.logs_runs() {
            false => log_record_bytes(HEAD_BYTES + self.trims.len() * TRIM_BYTES),
            true => (self.pending_records().iter())
                .map(|record| log_record_bytes(record.len()))
                .sum(),
        };
        self.media.log_len() + wanted > self.media.geometry().log_bytes
    }

    /// Makes all deallocations so far survive a power cut.
    pub fn write_log(&mut self) -> Result<(), MediaError> {
        if self.trims.is_empty() {
            return Ok(());
        }
        if self.log_is_full() {
            return self.write_checkpoint();
        }
        for record in self.pending_records() {
            if !self.power.allows_change() {
                return Ok(());
            }
            self.media.log_append(&record)?;
        }
        self.trims.clear();
        Ok(())
    }

    /// Makes what was programmed and logged survive a crash of the machine that runs the drive.
    pub fn sync_media(&mut self) -> Result<(), MediaError> {
        self.media.sync()
    }

    /// As [`Ftl::sync_media`], beside: [`Ftl::end_sync`] is to be called once it is done.
    pub fn begin_sync(&mut self) -> Result<Option<Syncing>, MediaError> {
        self.media.begin_sync()
    }

    /// A sync beside has ended.
    pub fn end_sync(&mut self, syncing: &Syncing) -> Result<(), MediaError> {
        self.media.end_sync(syncing)
    }

    /// All that a victim held has been synced where it is now.
    pub fn cover_erase(&mut self, victim: u32) {
        self.media.cover_erase(victim);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trims::{Trim, decode_trims, encode_trims};
    use super::*;

    #[test]
    fn a_record_that_is_none_of_ours_is_told() {
        let trim = |first, count, seq| Trim {
            first,
            count,
            seq,
            zeros: false,
        };
        let trims = [trim(3, 9, 1 << 40), trim(0, 1, 7)];
        let record = encode_trims(&trims);
        let (kind, items) = Kind::parse(&record).unwrap();
        assert_eq!(kind, Kind::Trims);
        assert!(decode_trims(items).eq(trims));
        assert_eq!(Kind::parse(&record[..record.len() - 1]), None);
        assert_eq!(Kind::parse(&record[..7]), None);
        assert_eq!(Kind::parse(&[0; 8]), None);
        assert_eq!(Kind::parse(&[9, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
