//! The table of partitions (GPT), in which a partition names the file system that serves it.
//!
//! A disk begins with a protective MBR, a header and the entries of partitions; entries and header are
//! there again at its end. Header and entries have a CRC-32 each. Of the type-specific attribute
//! bits, 48 to 63, the lowest eight hold the number of a partition's file system (StorStack, section
//! 3.2.3): 0 where the drive has none for it.
//!
//! Nothing here reads or writes a disk: [`Gpt::encode`] makes what is to be at its beginning and its end, and
//! [`Gpt::decode`] takes these. One whole copy is enough. Source: UEFI specification 2.10, section 5.
//!
//! Not yet: tables with more than 128 entries, or entries of another size than 128 bytes; they are
//! refused.

use crc_fast::{CrcAlgorithm, checksum};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most partitions of a disk.
pub const PARTITIONS_MAX: usize = 128;

/// Most UTF-16 units of a partition's name.
pub const NAME_UNITS_MAX: usize = 36;

const ENTRY_BYTES: usize = 128;
const TABLE_BYTES: usize = PARTITIONS_MAX * ENTRY_BYTES;
const HEADER_BYTES: usize = 92;
const SIGNATURE: [u8; 8] = *b"EFI PART";
const REVISION: u32 = 0x0001_0000;
/// The lowest bit of a file system's number among the attributes.
const FILE_SYSTEM_SHIFT: u32 = 48;

/// The bytes of a GUID as they are on disk.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// No partition.
    pub const UNUSED: Guid = Guid([0; 16]);

    /// "Linux filesystem data", 0FC63DAF-8483-4772-8E79-3D69D8477DE4: what holds files.
    pub const FILES: Guid = Guid([
        0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d,
        0xe4,
    ]);
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// What it is for.
    pub kind: Guid,
    /// Its own.
    pub guid: Guid,
    /// Its first block.
    pub first_block: u64,
    /// Its last block.
    pub last_block: u64,
    /// Attribute bits as UEFI has them.
    pub attributes: u64,
    /// At most [`NAME_UNITS_MAX`] UTF-16 units.
    pub name: String,
}

impl Partition {
    /// The number of the file system that serves it; 0 for none of the drive's.
    pub fn file_system(&self) -> u8 {
        (self.attributes >> FILE_SYSTEM_SHIFT) as u8
    }

    /// Says which file system serves it.
    pub fn set_file_system(&mut self, number: u8) {
        self.attributes &= !(0xff << FILE_SYSTEM_SHIFT);
        self.attributes |= u64::from(number) << FILE_SYSTEM_SHIFT;
    }

    /// Blocks that it has.
    pub fn blocks(&self) -> u64 {
        self.last_block - self.first_block + 1
    }
}

/// Why there is no table, or a partition cannot be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GptError {
    /// Blocks are not of 512 to 4096 bytes, or there are too few of them.
    #[error("a disk of {blocks} blocks of {block_bytes} bytes cannot have a table of partitions")]
    Disk {
        /// Bytes of a block.
        block_bytes: u32,
        /// Blocks of the disk.
        blocks: u64,
    },
    /// Neither copy begins as a table does.
    #[error("there is no table of partitions")]
    Missing,
    /// Both copies are damaged, or of another disk.
    #[error("both copies of the table of partitions are damaged")]
    Damaged,
    /// A partition lies where none may, or ends before it begins.
    #[error("partition {number} is not within the disk's usable blocks")]
    Outside {
        /// Its place in the table, from 1.
        number: usize,
    },
    /// Two partitions have blocks in common.
    #[error("partitions {one} and {other} overlap")]
    Overlap {
        /// Place of the one, from 1.
        one: usize,
        /// Place of the other, from 1.
        other: usize,
    },
    /// The name is too long.
    #[error("the name of partition {number} is longer than 36 UTF-16 units")]
    Name {
        /// Its place in the table, from 1.
        number: usize,
    },
    /// All places are taken.
    #[error("the table of partitions has no place left")]
    Full,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    signature: [u8; 8],
    revision: U32,
    header_bytes: U32,
    crc: U32,
    reserved: U32,
    own_block: U64,
    other_block: U64,
    first_usable: U64,
    last_usable: U64,
    disk: Guid,
    table_block: U64,
    entries: U32,
    entry_bytes: U32,
    table_crc: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Row {
    kind: Guid,
    guid: Guid,
    first_block: U64,
    last_block: U64,
    attributes: U64,
    name: [U16; NAME_UNITS_MAX],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Row>() == ENTRY_BYTES);

/// Where things are on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    block_bytes: usize,
    blocks: u64,
}

impl Shape {
    fn new(block_bytes: u32, blocks: u64) -> Result<Shape, GptError> {
        let shape = Shape {
            block_bytes: block_bytes as usize,
            blocks,
        };
        let is_block = block_bytes.is_power_of_two() && (512..=4096).contains(&block_bytes);
        // Both copies, the MBR, and one block that can be used.
        if !is_block || blocks < 2 * (shape.table_blocks() + 1) + 2 {
            return Err(GptError::Disk {
                block_bytes,
                blocks,
            });
        }
        Ok(shape)
    }

    fn table_blocks(&self) -> u64 {
        (TABLE_BYTES / self.block_bytes) as u64
    }

    fn first_usable(&self) -> u64 {
        2 + self.table_blocks()
    }

    fn last_usable(&self) -> u64 {
        self.blocks - 2 - self.table_blocks()
    }
}

/// The table of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpt {
    shape: Shape,
    disk: Guid,
    partitions: Vec<Option<Partition>>,
}

/// A table that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The table.
    pub gpt: Gpt,
    /// Whether the copy at the beginning is whole.
    pub is_head_whole: bool,
    /// Whether the copy at the end is whole, and says the same.
    pub is_tail_whole: bool,
}

/// Bytes at the beginning of a disk that belong to the table.
pub fn head_bytes(block_bytes: u32) -> usize {
    2 * block_bytes as usize + TABLE_BYTES
}

/// Bytes at the end of a disk that belong to the table.
pub fn tail_bytes(block_bytes: u32) -> usize {
    block_bytes as usize + TABLE_BYTES
}

impl Gpt {
    /// An empty table for a disk of `blocks` blocks.
    ///
    /// # Errors
    /// [`GptError::Disk`].
    pub fn new(disk: Guid, block_bytes: u32, blocks: u64) -> Result<Gpt, GptError> {
        Ok(Gpt {
            shape: Shape::new(block_bytes, blocks)?,
            disk,
            partitions: Vec::new(),
        })
    }

    /// The disk's own GUID.
    pub fn disk(&self) -> Guid {
        self.disk
    }

    /// The first and the last block that a partition may have.
    pub fn usable(&self) -> (u64, u64) {
        (self.shape.first_usable(), self.shape.last_usable())
    }

    /// Places of the table, in order: what programs number from 1.
    pub fn partitions(&self) -> &[Option<Partition>] {
        &self.partitions
    }

    /// Adds a partition in the first free place; gives its number, from 1.
    ///
    /// # Errors
    /// If it does not fit; the table is as before then.
    pub fn add(&mut self, partition: Partition) -> Result<usize, GptError> {
        let free = self.partitions.iter().position(Option::is_none);
        let place = free.unwrap_or(self.partitions.len());
        if place == PARTITIONS_MAX {
            return Err(GptError::Full);
        }
        let mut partitions = self.partitions.clone();
        partitions.resize(partitions.len().max(place + 1), None);
        partitions[place] = Some(partition);
        check(&self.shape, &partitions)?;
        self.partitions = partitions;
        Ok(place + 1)
    }

    /// Takes a partition out; nothing if there is none of that number.
    pub fn remove(&mut self, number: usize) -> Option<Partition> {
        let place = number.checked_sub(1)?;
        self.partitions.get_mut(place)?.take()
    }

    /// What is to be in the first [`head_bytes`] and in the last [`tail_bytes`] of the disk. Write the one, make it
    /// durable, then write the other: one is whole at any time.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let block = self.shape.block_bytes;
        let mut table = vec![0; TABLE_BYTES];
        for (partition, row) in self.partitions.iter().zip(table.chunks_mut(ENTRY_BYTES)) {
            if let Some(partition) = partition {
                row.copy_from_slice(Row::of(partition).as_bytes());
            }
        }
        let mut head = self.protective_mbr();
        head.extend(self.header(true, &table));
        head.extend(&table);
        let mut tail = table.clone();
        tail.extend(self.header(false, &table));
        debug_assert_eq!(
            (head.len(), tail.len()),
            (2 * block + TABLE_BYTES, block + TABLE_BYTES)
        );
        (head, tail)
    }

    /// An MBR of one partition that is the whole disk, so that programs that know no GPT keep off.
    fn protective_mbr(&self) -> Vec<u8> {
        let mut mbr = vec![0; self.shape.block_bytes];
        let blocks = u32::try_from(self.shape.blocks - 1).unwrap_or(u32::MAX);
        // Not bootable; from cylinder 0, head 0, sector 2 to the last there is; kind EEh.
        mbr[446..454].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
        mbr[454..458].copy_from_slice(&1_u32.to_le_bytes());
        mbr[458..462].copy_from_slice(&blocks.to_le_bytes());
        mbr[510..512].copy_from_slice(&[0x55, 0xaa]);
        mbr
    }

    fn header(&self, is_head: bool, table: &[u8]) -> Vec<u8> {
        let (first, last) = (1, self.shape.blocks - 1);
        let (own, other) = if is_head {
            (first, last)
        } else {
            (last, first)
        };
        let table_block = match is_head {
            true => 2,
            false => self.shape.last_usable() + 1,
        };
        let mut header = Header {
            signature: SIGNATURE,
            revision: REVISION.into(),
            header_bytes: (HEADER_BYTES as u32).into(),
            crc: 0.into(),
            reserved: 0.into(),
            own_block: own.into(),
            other_block: other.into(),
            first_usable: self.shape.first_usable().into(),
            last_usable: self.shape.last_usable().into(),
            disk: self.disk,
            table_block: table_block.into(),
            entries: (PARTITIONS_MAX as u32).into(),
            entry_bytes: (ENTRY_BYTES as u32).into(),
            table_crc: crc(table).into(),
        };
        header.crc = crc(header.as_bytes()).into();
        let mut block = header.as_bytes().to_vec();
        block.resize(self.shape.block_bytes, 0);
        block
    }

    /// The table of a disk of `blocks` blocks, of which `head` has the first [`head_bytes`] and `tail` the last
    /// [`tail_bytes`]. Nothing of what it says is taken that does not fit the disk.
    ///
    /// # Errors
    /// [`GptError`]; no input makes it panic.
    pub fn decode(
        block_bytes: u32,
        blocks: u64,
        head: &[u8],
        tail: &[u8],
    ) -> Result<Found, GptError> {
        let shape = Shape::new(block_bytes, blocks)?;
        let (block, table) = (shape.block_bytes, TABLE_BYTES);
        let first = head
            .get(block..2 * block)
            .zip(head.get(2 * block..2 * block + table));
        let last = tail.get(table..table + block).zip(tail.get(..table));
        let is_there = |copy: Option<(&[u8], &[u8])>| {
            copy.is_some_and(|(header, _)| header.starts_with(&SIGNATURE))
        };
        let read = |copy: Option<(&[u8], &[u8])>, own, table_block| {
            let (header, table) = copy?;
            shape.read(header, table, own, table_block)
        };
        let from_head = read(first, 1, 2);
        let from_tail = read(last, blocks - 1, shape.last_usable() + 1);
        // The copy at the beginning counts: that at the end is written after it.
        let gpt = from_head.clone().or_else(|| from_tail.clone());
        let Some(gpt) = gpt else {
            return Err(match is_there(first) || is_there(last) {
                true => GptError::Damaged,
                false => GptError::Missing,
            });
        };
        check(&shape, &gpt.partitions)?;
        Ok(Found {
            is_head_whole: from_head.is_some(),
            is_tail_whole: from_tail.as_ref() == Some(&gpt),
            gpt,
        })
    }
}

impl Shape {
    /// A copy of the table, if it is whole, and where it says it is.
    fn read(&self, header: &[u8], table: &[u8], own: u64, table_block: u64) -> Option<Gpt> {
        let (found, _) = Header::read_from_prefix(header).ok()?;
        let as_written = Header {
            crc: 0.into(),
            ..found
        };
        let entries = found.entries.get() as usize;
        let is_ours = found.signature == SIGNATURE
            && found.header_bytes.get() as usize == HEADER_BYTES
            && found.crc.get() == crc(as_written.as_bytes())
            && found.own_block.get() == own
            && found.table_block.get() == table_block
            && found.entry_bytes.get() as usize == ENTRY_BYTES
            && entries <= PARTITIONS_MAX;
        if !is_ours || found.table_crc.get() != crc(&table[..entries * ENTRY_BYTES]) {
            return None;
        }
        let rows = table.chunks(ENTRY_BYTES).take(entries);
        let mut partitions: Vec<Option<Partition>> = rows.map(Row::partition).collect();
        while partitions.last() == Some(&None) {
            partitions.pop();
        }
        Some(Gpt {
            shape: *self,
            disk: found.disk,
            partitions,
        })
    }
}

impl Row {
    fn of(partition: &Partition) -> Row {
        let mut name = [U16::new(0); NAME_UNITS_MAX];
        for (unit, out) in partition.name.encode_utf16().zip(&mut name) {
            *out = unit.into();
        }
        Row {
            kind: partition.kind,
            guid: partition.guid,
            first_block: partition.first_block.into(),
            last_block: partition.last_block.into(),
            attributes: partition.attributes.into(),
            name,
        }
    }

    fn partition(row: &[u8]) -> Option<Partition> {
        let row = Row::read_from_bytes(row).ok()?;
        if row.kind == Guid::UNUSED {
            return None;
        }
        let units = row.name.iter().map(|unit| unit.get());
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        Some(Partition {
            kind: row.kind,
            guid: row.guid,
            first_block: row.first_block.get(),
            last_block: row.last_block.get(),
            attributes: row.attributes.get(),
            name: String::from_utf16_lossy(&units),
        })
    }
}

/// Every partition lies within the disk, and no two have a block in common.
fn check(shape: &Shape, partitions: &[Option<Partition>]) -> Result<(), GptError> {
    let mut by_place = Vec::new();
    for (number, partition) in (1..).zip(partitions) {
        let Some(partition) = partition else { continue };
        let (first, last) = (partition.first_block, partition.last_block);
        if first > last || first < shape.first_usable() || last > shape.last_usable() {
            return Err(GptError::Outside { number });
        }
        if partition.name.encode_utf16().count() > NAME_UNITS_MAX {
            return Err(GptError::Name { number });
        }
        by_place.push((first, last, number));
    }
    by_place.sort_unstable();
    for pair in by_place.windows(2) {
        let ((_, last, one), (first, _, other)) = (pair[0], pair[1]);
        if first <= last {
            return Err(GptError::Overlap { one, other });
        }
    }
    Ok(())
}

/// CRC-32 as Ethernet has it.
fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}
