//! Deallocations and zeros on their way to the log.
//!
//! Each is noted when it happens, with a sequence number of its own, and waits for the next write of
//! the log. A record is one of three kinds:
//!
//! 1. `Trims`: 16 bytes a deallocation. All that a drive with a flat map writes, unless pages were
//!    made zeros.
//! 2. `Changes`: the same, with a bit that tells zeros.
//! 3. `Runs`: those of a sparse map whose pages are all as the change left them. That no copy of such a
//!    page counts is true of any sequence number since, so all runs of a record share the latest one, and
//!    take 2 to 4 bytes each: how far on the next run is, and how long. An eviction round of 262,144 pages
//!    scattered over a drive takes less than a megabyte instead of four.
//!
//! A page that was written again after the change is not of the third kind: its copy is newer than the
//! change and older than the record. Of the first two kinds the records keep the order in which it
//! happened; pages of the third kind are in no later record of the others.

use super::Ftl;
use super::entry::Place;
use super::log::{Kind, TRIM_BYTES, long, word};
use super::recover::RecoveryError;

/// Changes of more pages than this are logged one by one: looking at each page would take long.
const RUN_PAGES_MAX: u32 = 256;

/// Marks zeros, in the sequence number of a change.
const ZEROS: u64 = 1 << 63;

/// Pages `first .. first + count` held nothing from sequence number `seq` on, or zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trim {
    pub first: u32,
    pub count: u32,
    pub seq: u64,
    /// They hold zeros; else they are deallocated.
    pub zeros: bool,
}

/// A record of such changes: of the older kind if there are only deallocations.
pub(super) fn encode_trims(trims: &[Trim]) -> Vec<u8> {
    let kind = match trims.iter().any(|trim| trim.zeros) {
        false => Kind::Trims,
        true => Kind::Changes,
    };
    let mut record = kind.begin(trims.len());
    for trim in trims {
        let mark = if trim.zeros { ZEROS } else { 0 };
        record.extend_from_slice(&trim.first.to_le_bytes());
        record.extend_from_slice(&trim.count.to_le_bytes());
        record.extend_from_slice(&(trim.seq | mark).to_le_bytes());
    }
    record
}

/// The changes among the items of a record.
pub(super) fn decode_trims(items: &[u8]) -> impl Iterator<Item = Trim> {
    items.chunks_exact(TRIM_BYTES).map(|item| {
        let seq = long(&item[8..]);
        Trim {
            first: word(&item[..4]),
            count: word(&item[4..8]),
            seq: seq & !ZEROS,
            zeros: seq & ZEROS != 0,
        }
    })
}

/// A record of changes that share a sequence number, in the order of their pages.
pub(super) fn encode_runs(runs: &[Trim], seq: u64) -> Vec<u8> {
    let mut items = seq.to_le_bytes().to_vec();
    let mut at = 0;
    for run in runs {
        put_number(&mut items, run.first - at);
        put_number(&mut items, (run.count - 1) << 1 | u32::from(run.zeros));
        at = run.first + run.count;
    }
    let mut record = Kind::Runs.begin(items.len());
    record.extend_from_slice(&items);
    record
}

/// The changes in a record of runs.
pub(super) fn decode_runs(items: &[u8]) -> Result<Vec<Trim>, RecoveryError> {
    let unknown = RecoveryError::UnknownRecord;
    let Some((seq, mut rest)) = items.split_at_checked(8) else {
        return Err(unknown);
    };
    let (seq, mut at, mut runs) = (long(seq), 0u32, Vec::new());
    while !rest.is_empty() {
        let (Some(gap), Some(run)) = (take_number(&mut rest), take_number(&mut rest)) else {
            return Err(unknown);
        };
        let (count, zeros) = ((run >> 1) + 1, run & 1 != 0);
        let first = at.checked_add(gap);
        let end = first.and_then(|first| first.checked_add(count));
        let (Some(first), Some(end)) = (first, end) else {
            return Err(unknown);
        };
        runs.push(Trim {
            first,
            count,
            seq,
            zeros,
        });
        at = end;
    }
    Ok(runs)
}

/// Adds a number, 7 bits a byte, the lowest first; the top bit says that more follow.
fn put_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number.try_into().ok();
        }
    }
    None
}

impl Ftl {
    /// Notes a change, to be logged later.
    pub(super) fn note_trim(&mut self, first: u32, count: u32, zeros: bool) {
        self.seq += 1;
        let seq = self.seq;
        match self.trims.last_mut() {
            // A long deallocation comes in steps. If nothing happened between two of them, they are
            // one: no page was written that the first must leave alone.
            Some(last)
                if last.first + last.count == first
                    && last.seq + 1 == seq
                    && last.zeros == zeros =>
            {
                (last.count, last.seq) = (last.count + count, seq);
            }
            _ => self.trims.push(Trim {
                first,
                count,
                seq,
                zeros,
            }),
        }
    }

    /// True if changes are logged as runs.
    pub(super) fn logs_runs(&self) -> bool {
        self.map.sparse().is_some()
    }

    /// The records that tell all changes that wait.
    pub(super) fn pending_records(&self) -> Vec<Vec<u8>> {
        if !self.logs_runs() {
            return vec![encode_trims(&self.trims)];
        }
        let (mut runs, single): (Vec<Trim>, Vec<Trim>) =
            self.trims.iter().partition(|trim| self.is_a_run(trim));
        runs.sort_unstable_by_key(|run| run.first);
        let records = [
            (!single.is_empty()).then(|| encode_trims(&single)),
            (!runs.is_empty()).then(|| encode_runs(&joined(&runs), self.seq)),
        ];
        records.into_iter().flatten().collect()
    }

    /// True if every page of a change is as that left it.
    fn is_a_run(&self, trim: &Trim) -> bool {
        let mut pages = trim.first..trim.first + trim.count;
        trim.count <= RUN_PAGES_MAX
            && pages.all(|lpn| match self.place(lpn) {
                Place::Zero => trim.zeros,
                Place::Unmapped | Place::Trimmed => !trim.zeros,
                Place::Frame(_) | Place::Flash(_) => false,
            })
    }
}

/// Sorted runs, those that meet or overlap made one.
fn joined(runs: &[Trim]) -> Vec<Trim> {
    let mut all: Vec<Trim> = Vec::with_capacity(runs.len());
    for run in runs {
        let end = run.first + run.count;
        match all.last_mut() {
            Some(last) if last.first + last.count >= run.first && last.zeros == run.zeros => {
                last.count = last.count.max(end - last.first);
            }
            _ => all.push(*run),
        }
    }
    all
}
