//! The superblock: 4 KiB at the start of each member that say to which array it belongs, where in it, and
//! how the array was when this was written.
//!
//! Two copies take turns, by the parity of the event count, so that a torn write leaves the one before. All
//! integers are little-endian; `crc` is CRC32C over everything before it.

use rustix::io::Errno;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::array::layout::{Level, Shape};
use crate::blocking::Blocking;
use crate::io::IoError;

/// The most members of an array.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of a copy.
pub(super) const SUPERBLOCK_BYTES: u64 = 4096;
/// First bytes of a superblock.
const MAGIC: [u8; 8] = *b"WHARFARR";
/// The version that this code reads and writes.
pub(super) const VERSION: u32 = 2;

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// Holds what it should.
    Active = 0,
    /// Left out: what it holds is old.
    Failed = 1,
    /// Being filled: up to a place it holds what it should.
    Rebuilding = 2,
}

impl MemberState {
    pub(super) fn from_u8(value: u8) -> Option<MemberState> {
        match value {
            0 => Some(MemberState::Active),
            1 => Some(MemberState::Failed),
            2 => Some(MemberState::Rebuilding),
            _ => None,
        }
    }
}

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The array's name.
    pub uuid: [u8; 16],
    /// Which member this is, from 0.
    pub member: u32,
    /// What the array is like.
    pub shape: Shape,
    /// Counts the writes of superblocks: the greatest one knows best.
    pub event: u64,
    /// Random, drawn whenever the array is opened: histories that part have different ones from then on.
    pub session: u64,
    /// The last event that every member in use was known to have. One that is behind it is stale.
    pub settled_event: u64,
    /// The session of that event.
    pub settled_session: u64,
    /// The event at which this target became the member.
    pub joined: u64,
    /// Records of the journal count only if they are of this epoch.
    pub epoch: u64,
    /// Whether the array was closed, so that nothing is to be repaired.
    pub clean: bool,
    /// How every member stood.
    pub states: Vec<MemberState>,
    /// Windows of the member being rebuilt that hold what they should.
    pub rebuilt_windows: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    level: U32,
    uuid: [u8; 16],
    members: U32,
    member: U32,
    chunk_bytes: U64,
    member_data_bytes: U64,
    data_offset: U64,
    journal_offset: U64,
    journal_slots: U32,
    block_bytes: U32,
    event: U64,
    session: U64,
    settled_event: U64,
    settled_session: U64,
    joined: U64,
    epoch: U64,
    rebuilt_windows: U64,
    clean: U32,
    reserved: U32,
    states: [u8; MEMBERS_MAX],
    crc: U32,
}

const _: () = assert!(size_of::<Raw>() == 212);

/// Why bytes are no superblock that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// There is none.
    #[error("no array superblock: it is not a member of an array")]
    None,
    /// It is of another version of the format.
    #[error(
        "array superblock of version {0}, and this program knows version {VERSION}: use {with}",
        with = if *.0 < VERSION { "the program that made the array" } else { "a newer program" }
    )]
    Version(u32),
    /// It is damaged, or says what cannot be.
    #[error("the array superblock is damaged")]
    Damaged,
    /// It cannot be read.
    #[error("cannot read the array superblock: {0}")]
    Io(IoError),
}

impl Superblock {
    /// The bytes of one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut states = [MemberState::Failed as u8; MEMBERS_MAX];
        for (byte, state) in states.iter_mut().zip(&self.states) {
            *byte = *state as u8;
        }
        let mut raw = Raw {
            magic: MAGIC,
            version: VERSION.into(),
            level: self.shape.level.number().into(),
            uuid: self.uuid,
            members: self.shape.members.into(),
            member: self.member.into(),
            chunk_bytes: self.shape.chunk_bytes.into(),
            member_data_bytes: self.shape.member_data_bytes.into(),
            data_offset: self.shape.data_offset.into(),
            journal_offset: self.shape.journal_offset.into(),
            journal_slots: self.shape.journal_slots.into(),
            block_bytes: self.shape.block_bytes.into(),
            event: self.event.into(),
            session: self.session.into(),
            settled_event: self.settled_event.into(),
            settled_session: self.settled_session.into(),
            joined: self.joined.into(),
            epoch: self.epoch.into(),
            rebuilt_windows: self.rebuilt_windows.into(),
            clean: u32::from(self.clean).into(),
            reserved: 0.into(),
            states,
            crc: 0.into(),
        };
        let bytes = raw.as_bytes();
        raw.crc = crc_fast::crc32_iscsi(&bytes[..bytes.len() - 4]).into();
        let mut out = raw.as_bytes().to_vec();
        out.resize(SUPERBLOCK_BYTES as usize, 0);
        out
    }

    /// Reads one copy. Any bytes give an answer.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| SuperblockError::None)?;
        if raw.magic != MAGIC {
            return Err(SuperblockError::None);
        }
        let whole = raw.as_bytes();
        if crc_fast::crc32_iscsi(&whole[..whole.len() - 4]) != raw.crc.get() {
            return Err(SuperblockError::Damaged);
        }
        if raw.version.get() != VERSION {
            return Err(SuperblockError::Version(raw.version.get()));
        }
        let damaged = SuperblockError::Damaged;
        let shape = Shape {
            level: Level::from_number(raw.level.get()).ok_or(damaged)?,
            members: raw.members.get(),
            chunk_bytes: raw.chunk_bytes.get(),
            member_data_bytes: raw.member_data_bytes.get(),
            data_offset: raw.data_offset.get(),
            journal_offset: raw.journal_offset.get(),
            journal_slots: raw.journal_slots.get(),
            block_bytes: raw.block_bytes.get(),
        };
        shape.check().map_err(|_| damaged)?;
        let states = raw.states[..shape.members as usize].iter();
        let states: Option<Vec<_>> = states.map(|b| MemberState::from_u8(*b)).collect();
        if raw.member.get() >= shape.members || raw.clean.get() > 1 {
            return Err(damaged);
        }
        Ok(Superblock {
            uuid: raw.uuid,
            member: raw.member.get(),
            shape,
            event: raw.event.get(),
            session: raw.session.get(),
            settled_event: raw.settled_event.get(),
            settled_session: raw.settled_session.get(),
            joined: raw.joined.get(),
            epoch: raw.epoch.get(),
            clean: raw.clean.get() == 1,
            states: states.ok_or(damaged)?,
            rebuilt_windows: raw.rebuilt_windows.get(),
        })
    }

    /// Reads the newer good copy of a member.
    pub(super) fn read(way: &mut Blocking, size_bytes: u64) -> Result<Superblock, SuperblockError> {
        if size_bytes < 2 * SUPERBLOCK_BYTES {
            return Err(SuperblockError::None);
        }
        let mut bytes = vec![0; 2 * SUPERBLOCK_BYTES as usize];
        way.read(0, &mut bytes).map_err(SuperblockError::Io)?;
        let (a, b) = bytes.split_at(SUPERBLOCK_BYTES as usize);
        match (Superblock::decode(a), Superblock::decode(b)) {
            (Ok(a), Ok(b)) if b.event > a.event => Ok(b),
            (Ok(a), _) => Ok(a),
            (Err(_), Ok(b)) => Ok(b),
            // The copy that says more about what is wrong.
            (Err(SuperblockError::None), Err(b)) => Err(b),
            (Err(a), Err(_)) => Err(a),
        }
    }

    /// Writes the copy whose turn it is, and makes it durable.
    pub(super) fn write(&self, way: &mut Blocking) -> Result<(), IoError> {
        way.write(self.event % 2 * SUPERBLOCK_BYTES, &self.encode())?;
        way.flush()
    }
}

/// The error of a member that is not there.
pub(super) fn absent(op: crate::io::Op, offset: u64) -> IoError {
    IoError {
        op,
        offset,
        errno: Errno::NODEV,
    }
}

/// Every field of the superblock with its offset and size, for the test of the document.
#[cfg(test)]
pub(super) fn fields() -> Vec<(&'static str, usize, usize)> {
    crate::array::document_test::fields_of!(
        Raw: magic, version, level, uuid, members, member, chunk_bytes, member_data_bytes, data_offset,
        journal_offset, journal_slots, block_bytes, event, session, settled_event, settled_session,
        joined, epoch, rebuilt_windows, clean, reserved, states, crc
    )
}
