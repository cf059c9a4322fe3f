//! The core's log: deallocations, which out-of-band data cannot tell.
//!
//! A deallocated page must read as zeros after a power cut, although old copies of it may still lie
//! on flash. So a flush writes the deallocations since the last one to the media's log, each with
//! the sequence number it had; recovery drops every copy that is older. When the log is full it is
//! written anew, with what still matters.

use super::Ftl;
use super::entry::{NONE, Place};
use crate::media::{Media, MediaError};

/// Pages `first .. first + count` held nothing from sequence number `seq` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trim {
    pub first: u32,
    pub count: u32,
    pub seq: u64,
}

const TRIM_BYTES: usize = 16;

pub(super) fn encode_trims(trims: &[Trim]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(trims.len() * TRIM_BYTES);
    for trim in trims {
        bytes.extend_from_slice(&trim.first.to_le_bytes());
        bytes.extend_from_slice(&trim.count.to_le_bytes());
        bytes.extend_from_slice(&trim.seq.to_le_bytes());
    }
    bytes
}

/// The trims of a record; `None` if it is not one of ours.
pub(super) fn decode_trims(record: &[u8]) -> Option<Vec<Trim>> {
    if !record.len().is_multiple_of(TRIM_BYTES) {
        return None;
    }
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    let trim = |bytes: &[u8]| Trim {
        first: word(&bytes[..4]),
        count: word(&bytes[4..8]),
        seq: u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes")),
    };
    Some(record.chunks_exact(TRIM_BYTES).map(trim).collect())
}

impl Ftl {
    /// True if deallocations wait to be logged.
    pub fn log_is_due(&self) -> bool {
        !self.trims.is_empty()
    }

    /// Makes all deallocations so far survive a power cut.
    pub fn write_log(&mut self) -> Result<(), MediaError> {
        if self.trims.is_empty() || !self.power.allows_change() {
            return Ok(());
        }
        match self.media.log_append(&encode_trims(&self.trims)) {
            Err(MediaError::LogFull { .. }) => {
                let standing = encode_trims(&self.standing_trims());
                self.media.log_replace(&[&standing])?;
            }
            other => other?,
        }
        self.trims.clear();
        Ok(())
    }

    /// Makes what was programmed and logged survive a crash of the machine that runs the drive.
    pub fn sync_media(&mut self) -> Result<(), MediaError> {
        self.media.sync()
    }

    /// What recovery must know of deallocated pages, as few trims as possible.
    fn standing_trims(&self) -> Vec<Trim> {
        let mut trims: Vec<Trim> = Vec::new();
        for lpn in 0..self.plan.logical_pages {
            let Some(seq) = self.trimmed_before(lpn) else {
                continue;
            };
            match trims.last_mut() {
                Some(last) if last.first + last.count == lpn && last.seq == seq => last.count += 1,
                _ => trims.push(Trim {
                    first: lpn,
                    count: 1,
                    seq,
                }),
            }
        }
        trims
    }

    /// The sequence number before which no copy of the page counts, if nothing of it is on flash.
    fn trimmed_before(&self, lpn: u32) -> Option<u64> {
        match self.place(lpn) {
            Place::Trimmed => Some(self.seq),
            Place::Frame(newest) => {
                // It may have been deallocated before it was written again, and that write may
                // never reach flash.
                let mut oldest = newest;
                while self.frames.get(oldest).older != NONE {
                    oldest = self.frames.get(oldest).older;
                }
                let account = self.frames.get(oldest);
                (account.old == NONE).then(|| account.seq - 1)
            }
            Place::Unmapped | Place::Flash(_) => None,
        }
    }
}
