//! Logs: records of one inode in a chain of pages.
//!
//! A page of a log says whose it is, and where the log ends in the page before it; neither ever
//! changes. So one word says all of a log: the address behind its last record. It is the commit of
//! every operation: to append, records are stored behind the last one, made durable, and then the
//! word is stored. To say it anew in fewer records, a new chain is made, and the same word leads to
//! it.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{Geometry, PAGE, SLOT_BYTES, Slot, crc32c, damaged};
use super::node::Node;
use super::record::{Record, Whose};
use crate::errno::{Errno, Fault, FileError};
use crate::lines::Lines;
use crate::pages::{PAGE_BYTES, PageBytes};

/// What a page of a log says that it is.
pub const LOG_MAGIC: u32 = 0x676f_6c77;

/// Bytes of the head of a page.
pub const HEAD_BYTES: u64 = size_of::<LogHead>() as u64;

/// The first bytes of a page of a log.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LogHead {
    /// CRC32C of the rest of the head and the page's number.
    pub crc: U32,
    /// [`LOG_MAGIC`].
    pub magic: U32,
    /// Which file system it is.
    pub file_system: U64,
    /// The inode's number.
    pub owner: U64,
    /// The address behind the last record of the page before; 0 of the first page.
    pub previous: U64,
}

impl LogHead {
    fn crc_of(&self, page: u64) -> u32 {
        crc32c(&[&self.as_bytes()[4..], &page.to_le_bytes()])
    }

    /// The head of a page, sealed.
    pub fn new(whose: Whose, page: u64, previous: u64) -> LogHead {
        let mut head = LogHead {
            crc: 0.into(),
            magic: LOG_MAGIC.into(),
            file_system: whose.file_system.into(),
            owner: whose.number.into(),
            previous: previous.into(),
        };
        head.crc = head.crc_of(page).into();
        head
    }
}

/// The page that has the last record of a log that ends at an address.
pub fn page_of_end(end: u64) -> u64 {
    (end - 1) / PAGE
}

/// Reads a slot: how often it was used, and where the log ends.
///
/// # Errors
/// Of the media; damage.
pub async fn read_slot<L: Lines>(
    lines: &L,
    geometry: &Geometry,
    slot: u64,
) -> Result<(u64, u64), Fault> {
    let at = geometry.slot_at(slot);
    let mut bytes = [0; SLOT_BYTES as usize];
    lines.load(at, &mut bytes).await?;
    let found = Slot::read_from_bytes(&bytes[..]).map_err(|_| damaged(at, "it is no slot"))?;
    let uses = geometry.value(at, found.uses.get())?;
    Ok((uses, geometry.value(at + 8, found.log_end.get())?))
}

/// Reads the log of a number, and gives what it says.
///
/// # Errors
/// `ESTALE`, if the number stands for nothing; of the media; damage.
pub async fn load<L: Lines>(
    lines: &L,
    geometry: &Geometry,
    number: u64,
) -> Result<Node, FileError> {
    let (slot, generation) = geometry.slot_of(number).ok_or(Errno::ESTALE)?;
    let (uses, end) = read_slot(lines, geometry, slot).await?;
    if end == 0 || uses != generation + 1 {
        return Err(Errno::ESTALE.into());
    }
    Ok(load_from(lines, geometry, number, end).await?)
}

/// The pages of a log, from the first on, each with the address where its records end.
async fn chain<L: Lines>(
    lines: &L,
    geometry: &Geometry,
    whose: Whose,
    end: u64,
) -> Result<Vec<(u64, u64)>, Fault> {
    let (mut chain, mut end) = (Vec::new(), end);
    while end > 0 {
        let page = page_of_end(end);
        let inside = end - page * PAGE;
        if !geometry.has(page, 1) || inside < HEAD_BYTES || chain.len() as u64 > geometry.pages {
            return Err(damaged(end, "a log leads out of its place"));
        }
        let mut bytes = [0; HEAD_BYTES as usize];
        lines.load(page * PAGE, &mut bytes).await?;
        let head = LogHead::read_from_bytes(&bytes[..]);
        let head = head.map_err(|_| damaged(end, "it is no page of a log"))?;
        let right = LogHead::new(whose, page, head.previous.get());
        if right.as_bytes() != bytes {
            return Err(damaged(end, "it is no page of this log"));
        }
        chain.push((page, end));
        end = head.previous.get();
    }
    chain.reverse();
    Ok(chain)
}

async fn load_from<L: Lines>(
    lines: &L,
    geometry: &Geometry,
    number: u64,
    end: u64,
) -> Result<Node, Fault> {
    let whose = Whose {
        number,
        file_system: geometry.file_system,
    };
    let chain = chain(lines, geometry, whose, end).await?;
    let mut node = Node::new(number);
    let mut freed = Vec::new();
    let mut bytes: Box<PageBytes> = Box::new([0; PAGE_BYTES]);
    for (page, end) in &chain {
        let start = page * PAGE;
        let length = (end - start) as usize;
        lines.load(start, &mut bytes[..length]).await?;
        let mut at = HEAD_BYTES as usize;
        while at < length {
            let address = start + at as u64;
            let found = whose.open(address, &bytes[at..length]);
            let found = found.ok_or(damaged(address, "a record does not match its checksum"))?;
            let record = Record::decode(found);
            let record = record.ok_or(damaged(address, "a record says what cannot be"))?;
            let applied = node.apply(geometry, &record, &mut freed);
            applied.map_err(|what| damaged(address, what))?;
            freed.clear();
            at += found.len();
        }
    }
    if !node.is_whole() {
        return Err(damaged(end, "a log says nothing"));
    }
    node.log.end = end;
    node.log.pages = chain.iter().map(|(page, _)| *page).collect();
    Ok(node)
}
