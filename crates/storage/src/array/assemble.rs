//! Making an array, and opening one from its members.
//!
//! Opening:
//!
//! 1. The superblock with the greatest event count knows best. A member that it calls failed is stale, and so is one whose
//!    own superblock does not fit (`history`), whatever that says; one that it counts on and that is not there is lost.
//! 2. A change that was being told to the members when the power went is told to the rest of them.
//! 3. What was lost is written down as failed *before* anything is mended: otherwise a member that comes back
//!    after another cut would be taken for one of those that were mended.
//! 4. If the array was not closed, RAID-5 replays its journal, and RAID-10 makes mirrors equal where
//!    they may differ.
//! 5. Another epoch begins, and the superblocks say that the array is open.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use crate::array::history::{self, Fit, Found};
use crate::array::intent::Intent;
use crate::array::layout::{HEADER_BYTES, INTENT_BYTES, INTENT_OFFSET, Level, Shape};
use crate::array::state::Shared;
use crate::array::superblock::{MemberState, SUPERBLOCK_BYTES, Superblock};
use crate::array::{Array, ArrayError, check, journal};
use crate::blocking::Blocking;
use crate::error::StorageError;
use crate::io::IoError;
use crate::target::{Target, TargetInfo};

/// How much of a target's start and end is looked at for data: partition tables, superblocks of file
/// systems, md and LVM all lie there.
const LOOK_BYTES: u64 = 1 << 20;

/// How an array is made.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// How data is spread.
    pub level: Level,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Records of the journal (RAID-5): each takes a window and 4 KiB on every member.
    pub journal_slots: u32,
    /// The name; has to be unique.
    pub uuid: [u8; 16],
    /// The targets are known to hold zeros, so that redundancy agrees already.
    pub zeroed: bool,
}

impl CreateOptions {
    /// An array with chunks of 512 KiB and a journal of 64 MiB.
    pub fn new(level: Level, uuid: [u8; 16]) -> CreateOptions {
        CreateOptions {
            level,
            chunk_bytes: 512 << 10,
            journal_slots: 960,
            uuid,
            zeroed: false,
        }
    }
}

/// Whether a target holds anything where data is known by.
pub fn holds_data(target: &dyn Target) -> Result<bool, ArrayError> {
    let block = u64::from(target.info().block_bytes);
    let size = target.size_bytes();
    let mut way = Blocking::new(target)?;
    let mut look = |begin: u64, end: u64| -> Result<bool, ArrayError> {
        let begin = begin - begin % block;
        let mut bytes = vec![0; (end - begin).next_multiple_of(block) as usize];
        if !bytes.is_empty() {
            way.read(begin, &mut bytes)?;
        }
        Ok(bytes.iter().any(|b| *b != 0))
    };
    Ok(look(0, size.min(LOOK_BYTES))? || look(size.saturating_sub(LOOK_BYTES), size)?)
}

/// What a target's superblock says.
pub fn superblock_of(target: &dyn Target) -> Result<Superblock, ArrayError> {
    let read = Superblock::read(&mut Blocking::new(target)?, target.size_bytes());
    read.map_err(|error| ArrayError::Member {
        name: target.info().name.clone(),
        error,
    })
}

/// Whether a target can be a member.
pub(super) fn check_target(target: &dyn Target, shape: &Shape) -> Result<(), ArrayError> {
    let info = target.info();
    let (name, bytes, needed) = (info.name.clone(), target.size_bytes(), shape.member_bytes());
    if info.read_only {
        return Err(ArrayError::ReadOnly(name));
    }
    if bytes < needed {
        return Err(ArrayError::Short {
            name,
            bytes,
            needed,
        });
    }
    if info.block_bytes > shape.block_bytes {
        return Err(ArrayError::Shape(crate::array::ShapeError::Chunk(
            shape.chunk_bytes,
        )));
    }
    Ok(())
}

/// Lets a target forget the array that it was of. Left there, the superblock whose turn it is not would count if that
/// array had seen more events; and if it was this array, whose history has parted since, so would records of an
/// epoch that is yet to come.
pub(super) fn wipe(way: &mut Blocking, shape: &Shape) -> Result<(), IoError> {
    way.write(0, &[0; 2 * SUPERBLOCK_BYTES as usize])?;
    way.write(INTENT_OFFSET, &[0; INTENT_BYTES as usize])?;
    if shape.level == Level::Raid5 {
        for slot in 0..shape.journal_slots {
            way.write(shape.slot_offset(slot), &[0; HEADER_BYTES as usize])?;
        }
    }
    way.flush()
}

/// Makes an array of `members`, in this order. **What they hold is lost.** Without `zeroed` all of it is read once, so
/// that parity or mirrors agree; `progress` hears of windows done and in all. The array exists when this returns.
pub fn create(
    members: &[Arc<dyn Target>],
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Superblock, ArrayError> {
    let smallest = members.iter().map(|m| m.size_bytes()).min().unwrap_or(0);
    let block = members
        .iter()
        .map(|m| m.info().block_bytes)
        .max()
        .unwrap_or(512);
    let shape = Shape::new(
        options.level,
        members.len() as u32,
        options.chunk_bytes,
        smallest,
        options.journal_slots,
        block,
    )?;
    for member in members {
        check_target(&**member, &shape)?;
    }
    let superblock = Superblock {
        uuid: options.uuid,
        member: 0,
        shape,
        event: 0,
        session: 0,
        settled_event: 0,
        settled_session: 0,
        joined: 0,
        epoch: 1,
        clean: true,
        states: vec![MemberState::Active; members.len()],
        rebuilt_windows: 0,
    };
    let targets = members.iter().cloned().map(|m| Some((m, 0))).collect();
    let shared = shared(&superblock, draw_session()?, targets, Intent::new(&shape));
    if !options.zeroed {
        for member in 0..shape.members {
            wipe(&mut shared.way(member)?, &shape)?;
        }
    }
    if !options.zeroed && options.level != Level::Raid0 {
        check::run(&shared, true, progress)?;
    }
    let mut admin = shared.admin();
    shared.write_superblocks(&mut admin, shared.states())?;
    let made = shared.superblock(&admin, &shared.states(), 0);
    // A member that failed was left out: no array is begun like that.
    match made.states.iter().position(|s| *s != MemberState::Active) {
        Some(member) => Err(ArrayError::Degraded(member as u32)),
        None => Ok(made),
    }
}

/// 8 bytes that no other opening has drawn.
fn draw_session() -> Result<u64, StorageError> {
    let path = PathBuf::from("/dev/urandom");
    let mut bytes = [0; 8];
    let read = File::open(&path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| StorageError::File {
        path,
        doing: "read",
        source,
    })?;
    Ok(u64::from_le_bytes(bytes))
}

/// A member's target, and the event at which it joined.
type Seat = Option<(Arc<dyn Target>, u64)>;

fn shared(superblock: &Superblock, session: u64, seats: Vec<Seat>, intent: Intent) -> Arc<Shared> {
    let joined = seats
        .iter()
        .map(|s| s.as_ref().map_or(0, |s| s.1))
        .collect();
    let members: Vec<_> = seats.into_iter().map(|s| s.map(|s| s.0)).collect();
    let shape = superblock.shape;
    let infos: Vec<TargetInfo> = members.iter().flatten().map(|m| m.info().clone()).collect();
    let row = shape.chunk_bytes * u64::from(shape.data_chunks());
    let name: Vec<&str> = infos.iter().map(|i| i.name.as_str()).collect();
    let info = TargetInfo {
        name: format!("RAID-{} of {}", shape.level.number(), name.join(", ")),
        block_bytes: shape.block_bytes,
        memory_align_bytes: infos
            .iter()
            .map(|i| i.memory_align_bytes)
            .max()
            .unwrap_or(1),
        optimal_io_bytes: row.min(1 << 30) as u32,
        // What RAID-5 has written is in its journal, durably.
        needs_flush: shape.level != Level::Raid5 && infos.iter().any(|i| i.needs_flush),
        read_only: false,
        access: infos.first().map_or(String::new(), |i| i.access.clone()),
    };
    Arc::new(Shared::new(
        info, superblock, session, members, joined, intent,
    ))
}

impl Array {
    /// Opens the array that `members`, in any order, are of. With `allow_missing` it goes on without a member
    /// that was in use until now, or is stale, if it can; such a member has to be rebuilt when it comes back.
    pub fn open(members: &[Arc<dyn Target>], allow_missing: bool) -> Result<Array, ArrayError> {
        let found = read_all(members)?;
        let (newest, fits) = history::gather(&found)?;
        let shape = newest.shape;
        let mut seats: Vec<Seat> = vec![None; shape.members as usize];
        let mut stale = Vec::new();
        for ((target, superblock), fit) in found.iter().zip(&fits) {
            check_target(&**target, &shape)?;
            match fit {
                Fit::Same => {
                    let seat = (target.clone(), superblock.joined);
                    seats[superblock.member as usize] = Some(seat);
                }
                Fit::Stale => stale.push(superblock.member),
                Fit::Parted => return Err(parted(&found, &fits, superblock)),
            }
        }
        let mut superblock = newest.clone();
        let lost = note_lost(&mut superblock, &seats, &found, allow_missing)?;
        end_change(&newest, &found, &fits)?;
        let mut intent = Intent::new(&shape);
        if shape.level == Level::Raid10 && !superblock.clean {
            for (target, _) in seats.iter().flatten() {
                intent.add_from(&mut Blocking::new(&**target)?)?;
            }
        }
        let shared = shared(&superblock, draw_session()?, seats, intent);
        begin(&shared, superblock.clean, superblock.epoch, lost)?;
        Ok(Array { shared, stale })
    }
}

/// The superblocks of all targets.
pub(super) fn read_all(members: &[Arc<dyn Target>]) -> Result<Vec<Found>, ArrayError> {
    let read = |target: &Arc<dyn Target>| Ok((target.clone(), superblock_of(&**target)?));
    members.iter().map(read).collect()
}

/// The error for a member whose history has parted from that of those that fit.
fn parted(found: &[Found], fits: &[Fit], one: &Superblock) -> ArrayError {
    let names = |fit: Fit| {
        let those = found.iter().zip(fits).filter(|(_, f)| **f == fit);
        let names: Vec<&str> = those.map(|((t, _), _)| t.info().name.as_str()).collect();
        names.join(", ")
    };
    ArrayError::Parted {
        one: names(Fit::Parted),
        member: one.member,
        others: names(Fit::Same),
    }
}

/// Calls failed what is not there or is stale, unless that is too much; whether that is news.
fn note_lost(
    superblock: &mut Superblock,
    seats: &[Seat],
    found: &[Found],
    allow_missing: bool,
) -> Result<bool, ArrayError> {
    let (before, event) = (superblock.states.clone(), superblock.event);
    for (state, seat) in superblock.states.iter_mut().zip(seats) {
        if seat.is_none() {
            *state = MemberState::Failed;
        }
    }
    let out = |m: &u32| superblock.states[*m as usize] != MemberState::Active;
    let outs: Vec<u32> = (0..superblock.shape.members).filter(out).collect();
    let too_many = match superblock.shape.level {
        Level::Raid0 => !outs.is_empty(),
        Level::Raid5 => outs.len() > 1,
        Level::Raid10 => outs.iter().any(|m| outs.contains(&(m ^ 1))),
    };
    if too_many {
        return Err(ArrayError::TooFew(outs));
    }
    let needed = |m: &&u32| before[**m as usize] == MemberState::Active;
    if let Some(member) = outs.iter().find(needed).filter(|_| !allow_missing).copied() {
        let there = found.iter().find(|(_, own)| own.member == member);
        return Err(there.map_or(ArrayError::Missing(member), |(target, own)| {
            ArrayError::Stale {
                name: target.info().name.clone(),
                member,
                own_event: own.event,
                event,
            }
        }));
    }
    Ok(before != superblock.states)
}

/// Ends the change that a cut has left half told: all that fit say the same then. It may be acted on, as all that it
/// rests on was durable before the first member was told.
fn end_change(newest: &Superblock, found: &[Found], fits: &[Fit]) -> Result<(), ArrayError> {
    for ((target, own), _) in found.iter().zip(fits).filter(|(_, f)| **f == Fit::Same) {
        if own.event != newest.event {
            let told = Superblock {
                member: own.member,
                joined: own.joined,
                ..newest.clone()
            };
            told.write(&mut Blocking::new(&**target)?)?;
        }
    }
    Ok(())
}

/// Mends what a cut has left, and marks the array open.
fn begin(shared: &Arc<Shared>, clean: bool, epoch: u64, lost: bool) -> Result<(), ArrayError> {
    if lost {
        let mut admin = shared.admin();
        shared.write_superblocks(&mut admin, shared.states())?;
    }
    if !clean {
        match shared.shape.level {
            Level::Raid0 => {}
            Level::Raid5 => {
                journal::replay(shared, epoch)?;
            }
            Level::Raid10 => make_mirrors_equal(shared)?,
        }
    }
    let epoch = shared.checkpoint(false)?;
    Ok(shared.journal.turned(Ok(epoch))?)
}

fn make_mirrors_equal(shared: &Arc<Shared>) -> Result<(), ArrayError> {
    let mut intent = shared.intent.lock().unwrap_or_else(|e| e.into_inner());
    check::repair_windows(shared, intent.windows())?;
    shared.flush_members()?;
    intent.clear();
    Ok(shared.write_intent(&intent)?)
}

/// Makes all durable, and marks the array clean.
pub(super) fn close(shared: &Shared) -> Result<(), ArrayError> {
    shared.flush_members()?;
    if shared.shape.level == Level::Raid10 {
        let mut intent = shared.intent.lock().unwrap_or_else(|e| e.into_inner());
        intent.clear();
        shared.write_intent(&intent)?;
    }
    shared.checkpoint(true)?;
    Ok(())
}
