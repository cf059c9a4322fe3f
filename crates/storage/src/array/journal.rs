//! The journal of RAID-5, which closes the write hole.
//!
//! Problem: a write changes data and parity on several members, and a power cut may come in between. If a
//! member is then lost as well, the parity that does not agree gives garbage for its blocks, also for those
//! that nobody was writing. A map of stripes under way tells where that may be, but not what the lost
//! blocks were; a log of partial parity saves the blocks that nobody wrote, but not the written ones. Here each
//! block is to be old or new.
//!
//! Idea: every write is logged first, and each member logs just what it is about to be written itself.
//!
//! 1. A record takes a slot, the same on all members that the write changes. Each of these stores the window, the
//!    list of these members, and its own new bytes (data, or parity) with a checksum.
//! 2. When the record is durable on all of them, and not before, data and parity are written in place.
//! 3. Nothing else is made durable: a write that has ended is in the journal at least, so a flush has
//!    nothing to do.
//! 4. When all slots are used, everything in place is made durable and the *epoch* in all
//!    superblocks goes up, which makes every record void. There is no reuse within an epoch, so
//!    that records never outlive a newer one of the same block.
//! 5. After a cut the records of the epoch are replayed in the order of slots, those that every member
//!    that is there of their list has whole.
//!
//! Why it holds. If some member that is there lacks its part, step 2 had not begun: all is old. If all have
//! theirs, replay makes all of them new, and a lost member's block follows from the others: parity is new
//! if it was lost data, data is new if it was lost parity. A replayed record that was never ended (its
//! lost member had not stored its part) makes all new just the same. Later records of the same window have
//! later slots, as the window is locked from before the slot is taken. A write while a member is left out
//! is logged too, so that a record from before cannot undo it.

use std::sync::{Mutex, PoisonError};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::array::layout::{HEADER_BYTES, Shape};
use crate::array::state::Shared;
use crate::blocking::Blocking;
use crate::io::IoError;

const MAGIC: [u8; 8] = *b"WHARFLOG";

/// Which slots are taken.
pub(super) struct Journal {
    slots: u32,
    state: Mutex<State>,
}

struct State {
    epoch: u64,
    next: u32,
    /// Records whose writes in place have not ended.
    in_use: u32,
    /// Somebody is beginning another epoch.
    turning: bool,
}

/// What came of asking for a slot.
pub(super) enum Take<'a> {
    Slot(Slot<'a>),
    /// All are taken: the caller begins another epoch, then calls [`Journal::turned`].
    Turn,
    /// Others are in the way: ask again.
    Wait,
}

/// A slot whose record counts.
pub(super) struct Slot<'a> {
    journal: &'a Journal,
    pub(super) epoch: u64,
    pub(super) index: u32,
}

impl Journal {
    pub(super) fn new(epoch: u64, slots: u32) -> Journal {
        Journal {
            slots,
            state: Mutex::new(State {
                epoch,
                next: 0,
                in_use: 0,
                turning: false,
            }),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a slot.
    pub(super) fn take(&self) -> Take<'_> {
        let mut state = self.state();
        if state.turning {
            return Take::Wait;
        }
        if state.next < self.slots {
            state.next += 1;
            state.in_use += 1;
            return Take::Slot(Slot {
                journal: self,
                epoch: state.epoch,
                index: state.next - 1,
            });
        }
        if state.in_use > 0 {
            return Take::Wait;
        }
        state.turning = true;
        Take::Turn
    }

    /// Lets nobody take a slot any more, and waits until none is in use: the caller begins another epoch, then
    /// calls [`Journal::turned`].
    pub(super) fn stop(&self) {
        while std::mem::replace(&mut self.state().turning, true) {
            std::thread::yield_now();
        }
        while self.is_in_use() {
            std::thread::yield_now();
        }
    }

    /// Another epoch has begun, or could not.
    pub(super) fn turned(&self, epoch: Result<u64, IoError>) -> Result<(), IoError> {
        let mut state = self.state();
        state.turning = false;
        state.epoch = epoch?;
        state.next = 0;
        Ok(())
    }

    /// Whether some record's writes in place have not ended.
    pub(super) fn is_in_use(&self) -> bool {
        self.state().in_use > 0
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.journal.state().in_use -= 1;
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    uuid: [u8; 16],
    epoch: U64,
    window: U64,
    members: U64,
    slot: U32,
    member: U32,
    begin: U32,
    len_bytes: U32,
    payload_crc: U32,
    crc: U32,
}

const _: () = assert!(size_of::<Raw>() == 72);

/// Every field of a record's header with its offset and size, for the test of the document.
#[cfg(test)]
pub(super) fn fields() -> Vec<(&'static str, usize, usize)> {
    crate::array::document_test::fields_of!(
        Raw: magic, uuid, epoch, window, members, slot, member, begin, len_bytes, payload_crc, crc
    )
}

/// One member's part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) epoch: u64,
    pub(super) slot: u32,
    pub(super) member: u32,
    pub(super) window: u64,
    /// The members that have a part, one bit each.
    pub(super) members: u64,
    /// Where in the window this member's bytes begin.
    pub(super) begin: u32,
    pub(super) len_bytes: u32,
    /// CRC32C of these bytes.
    pub(super) payload_crc: u32,
}

impl Record {
    /// Puts the header in the first bytes of `out`.
    pub(super) fn encode(&self, uuid: [u8; 16], out: &mut [u8]) {
        let mut raw = Raw {
            magic: MAGIC,
            uuid,
            epoch: self.epoch.into(),
            window: self.window.into(),
            members: self.members.into(),
            slot: self.slot.into(),
            member: self.member.into(),
            begin: self.begin.into(),
            len_bytes: self.len_bytes.into(),
            payload_crc: self.payload_crc.into(),
            crc: 0.into(),
        };
        let bytes = raw.as_bytes();
        raw.crc = crc_fast::crc32_iscsi(&bytes[..bytes.len() - 4]).into();
        out.fill(0);
        raw.write_to_prefix(out).expect("a header has room");
    }

    /// Reads a header that counts; none if these bytes are anything else.
    fn decode(bytes: &[u8], shape: &Shape, uuid: [u8; 16], epoch: u64) -> Option<Record> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        let whole = raw.as_bytes();
        let good = raw.magic == MAGIC
            && raw.uuid == uuid
            && raw.epoch.get() == epoch
            && crc_fast::crc32_iscsi(&whole[..whole.len() - 4]) == raw.crc.get();
        let record = Record {
            epoch,
            slot: raw.slot.get(),
            member: raw.member.get(),
            window: raw.window.get(),
            members: raw.members.get(),
            begin: raw.begin.get(),
            len_bytes: raw.len_bytes.get(),
            payload_crc: raw.payload_crc.get(),
        };
        let end = u64::from(record.begin) + u64::from(record.len_bytes);
        let fits = record.window < shape.windows() && end <= shape.window_bytes();
        (good && fits).then_some(record)
    }
}

/// A member's part of a record with its bytes.
type Part = (Record, Vec<u8>);

/// Reads one member's part of a slot, if it is whole.
fn read_part(
    shared: &Shared,
    way: &mut Blocking,
    member: u32,
    slot: u32,
    epoch: u64,
) -> Result<Option<Part>, IoError> {
    let shape = &shared.shape;
    let offset = shape.slot_offset(slot);
    let mut header = vec![0; HEADER_BYTES as usize];
    way.read(offset, &mut header)?;
    let Some(record) = Record::decode(&header, shape, shared.uuid, epoch)
        .filter(|record| record.slot == slot && record.member == member)
    else {
        return Ok(None);
    };
    let mut payload = vec![0; record.len_bytes as usize];
    way.read(offset + HEADER_BYTES, &mut payload)?;
    let whole = crc_fast::crc32_iscsi(&payload) == record.payload_crc;
    Ok(whole.then_some((record, payload)))
}

/// Replays the records of `epoch` on the members that are there; gives how many.
pub(super) fn replay(shared: &Shared, epoch: u64) -> Result<u32, crate::StorageError> {
    let shape = shared.shape;
    let failed = |member: u32| {
        move |error| crate::StorageError::Io {
            name: format!("member {member}"),
            error,
        }
    };
    let mut ways = Vec::new();
    for member in 0..shape.members {
        let there = shared.state(member) != crate::array::MemberState::Failed;
        ways.push(if there {
            Some(shared.way(member)?)
        } else {
            None
        });
    }
    let mut replayed = 0;
    for slot in 0..shape.journal_slots {
        let mut parts: Vec<Part> = Vec::new();
        for (member, way) in (0..).zip(&mut ways) {
            let Some(way) = way else { continue };
            let part = read_part(shared, way, member, slot, epoch).map_err(failed(member))?;
            parts.extend(part);
        }
        let Some(first) = parts.first().map(|(record, _)| *record) else {
            continue;
        };
        let there = first.members & shared.usable_members(first.window);
        let have = parts.iter().fold(0, |mask, (r, _)| mask | 1u64 << r.member);
        let agree = |(r, _): &Part| r.window == first.window && r.members == first.members;
        if have & there != there || !parts.iter().all(agree) {
            continue;
        }
        for (record, payload) in &parts {
            if there & (1 << record.member) == 0 {
                continue;
            }
            let offset = shape.window_offset(record.window) + u64::from(record.begin);
            let way = ways[record.member as usize].as_mut();
            let way = way.expect("it had a part");
            way.write(offset, payload).map_err(failed(record.member))?;
        }
        replayed += 1;
    }
    for (member, way) in (0..).zip(&mut ways) {
        if let Some(way) = way {
            way.flush().map_err(failed(member))?;
        }
    }
    Ok(replayed)
}
