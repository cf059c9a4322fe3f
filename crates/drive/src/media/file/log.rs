//! The log of a core in an image file: two slots, of which one is the log.
//!
//! * A record is length, checksum, bytes, padded to 8. Its checksum covers that of the record before
//!   as well, and the first record's that of the slot's header. So nothing is taken for a record
//!   that was left behind by an earlier log, an earlier end of this one, or a replacement that a
//!   crash cut short (the next one has the same generation, and may be shorter).
//! * Appending writes behind the last record. What a kill tears is not a record.
//! * Replacing writes the other slot, makes it durable, writes its header with the next
//!   generation, makes that durable, and only then wipes the old header. The log is the slot with
//!   the greater generation; with the old header wiped, rot in the new one cannot bring the old
//!   log back, but is found.
//! * Records that a replacement wrote were durable before their header: one that is missing is
//!   rot. An appended one may be torn.

use std::io::{BufReader, Read};
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use zerocopy::{FromZeros, IntoBytes};

use super::ImageError;
use super::format::{Layout, RecordHeader, SLOT_AT, Sealed, SlotHeader};
use super::store::{RangeReader, Store};
use crate::media::{HostFault, MediaError, log_record_bytes};

/// The log of one core.
#[derive(Debug)]
pub struct SlotLog {
    store: Arc<Store>,
    core: u32,
    layout: Layout,
    capacity: u64,
    slot: usize,
    header: SlotHeader,
    tail: Tail,
}

/// The end of a log: where the next record goes and what its checksum builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tail {
    len: u64,
    /// Of the last record, or of the slot's header.
    crc: u32,
}

impl SlotLog {
    /// The header of a new core's empty log, which is in slot 0.
    pub fn first_header(core: u32) -> SlotHeader {
        header(core, 0, 1, 0)
    }

    pub fn open(
        store: Arc<Store>,
        core: u32,
        layout: Layout,
        capacity: u64,
    ) -> Result<Self, ImageError> {
        let mut newest: Option<(usize, SlotHeader)> = None;
        for (slot, offset) in SLOT_AT.into_iter().enumerate() {
            let mut found = SlotHeader::new_zeroed();
            store.read_at(
                "read the log of",
                found.as_mut_bytes(),
                layout.core_page + offset,
            )?;
            let ours = (found.core.get(), found.slot.get()) == (core, slot as u32);
            let newer = newest.is_none_or(|(_, best)| found.generation > best.generation);
            if found.is_sound() && ours && newer {
                newest = Some((slot, found));
            }
        }
        let damaged = |what| ImageError::Damaged {
            path: store.path().clone(),
            what,
            core,
        };
        let Some((slot, header)) = newest else {
            return Err(damaged("log headers"));
        };
        let mut log = Self {
            store: store.clone(),
            core,
            layout,
            capacity,
            slot,
            header,
            tail: Tail::start(&header),
        };
        log.tail = log.scan(|_| ())?;
        if log.tail.len < header.base_bytes.get() {
            return Err(damaged("log"));
        }
        Ok(log)
    }

    pub fn len(&self) -> u64 {
        self.tail.len
    }

    pub fn append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        let wanted = log_record_bytes(record.len());
        let len = self.tail.len;
        if wanted > self.capacity - len {
            return Err(MediaError::LogFull {
                len,
                capacity: self.capacity,
                wanted,
            });
        }
        let (tail, bytes) = self.tail.then(record);
        self.store
            .write_at("log to", &bytes, self.layout.slots[self.slot] + len)?;
        self.tail = tail;
        Ok(())
    }

    pub fn replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        let wanted = records
            .iter()
            .map(|record| log_record_bytes(record.len()))
            .sum();
        if wanted > self.capacity {
            return Err(MediaError::LogFull {
                len: 0,
                capacity: self.capacity,
                wanted,
            });
        }
        let (old, new) = (self.slot, 1 - self.slot);
        let generation = self.header.generation.get() + 1;
        let header = header(self.core, new, generation, wanted);
        let mut tail = Tail::start(&header);
        for record in records {
            let (next, bytes) = tail.then(record);
            let at = self.layout.slots[new] + tail.len;
            self.store.write_at("replace the log of", &bytes, at)?;
            tail = next;
        }
        self.store.barrier()?;
        self.write_header(new, header)?;
        self.store.barrier()?;
        (self.slot, self.header, self.tail) = (new, header, tail);
        self.write_header(old, SlotHeader::new_zeroed())?;
        Ok(())
    }

    pub fn read(&self) -> Result<Vec<Vec<u8>>, MediaError> {
        let mut records = Vec::new();
        let tail = self.scan(|record| records.push(record.to_vec()))?;
        match tail == self.tail {
            true => Ok(records),
            false => Err(MediaError::LogRot { offset: tail.len }),
        }
    }

    fn write_header(&self, slot: usize, header: SlotHeader) -> Result<(), Box<HostFault>> {
        let at = self.layout.core_page + SLOT_AT[slot];
        self.store
            .write_at("replace the log of", header.as_bytes(), at)
    }

    /// Gives each whole record to `take`, and answers where they end.
    fn scan(&self, mut take: impl FnMut(&[u8])) -> Result<Tail, Box<HostFault>> {
        let start = self.layout.slots[self.slot];
        let range = RangeReader {
            store: &self.store,
            at: start,
            end: start + self.capacity,
        };
        let mut reader = BufReader::with_capacity(1 << 16, range);
        let fault = |cause| HostFault {
            action: "read the log of",
            path: self.store.path().clone(),
            cause,
        };
        let mut tail = Tail::start(&self.header);
        let mut bytes = Vec::new();
        while self.capacity - tail.len >= log_record_bytes(0) {
            let mut header = RecordHeader::new_zeroed();
            reader.read_exact(header.as_mut_bytes()).map_err(fault)?;
            let len = header.len.get() as usize;
            if log_record_bytes(len) > self.capacity - tail.len {
                break;
            }
            bytes.resize(
                log_record_bytes(len) as usize - size_of::<RecordHeader>(),
                0,
            );
            reader.read_exact(&mut bytes).map_err(fault)?;
            let crc = tail.crc_of(&bytes[..len]);
            if header.crc.get() != crc {
                break;
            }
            take(&bytes[..len]);
            tail = tail.after(len, crc);
        }
        Ok(tail)
    }
}

impl Tail {
    fn start(header: &SlotHeader) -> Self {
        Self {
            len: 0,
            crc: header.crc.get(),
        }
    }

    fn after(self, record_len: usize, crc: u32) -> Self {
        Self {
            len: self.len + log_record_bytes(record_len),
            crc,
        }
    }

    /// The checksum of a record that comes next.
    fn crc_of(&self, record: &[u8]) -> u32 {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.crc.to_le_bytes());
        digest.update(&(record.len() as u32).to_le_bytes());
        digest.update(record);
        digest.finalize() as u32
    }

    /// A record that comes next as it stands in the file, and the tail behind it.
    fn then(self, record: &[u8]) -> (Self, Vec<u8>) {
        let len = u32::try_from(record.len()).expect("a record of 4 GiB does not fit the log");
        let crc = self.crc_of(record);
        let room = log_record_bytes(record.len()) as usize;
        let mut bytes = Vec::with_capacity(room);
        bytes.extend_from_slice(
            RecordHeader {
                len: len.into(),
                crc: crc.into(),
            }
            .as_bytes(),
        );
        bytes.extend_from_slice(record);
        bytes.resize(room, 0);
        (self.after(record.len(), crc), bytes)
    }
}

fn header(core: u32, slot: usize, generation: u64, base_bytes: u64) -> SlotHeader {
    let mut header = SlotHeader::new_zeroed();
    header.generation = generation.into();
    header.base_bytes = base_bytes.into();
    header.core = core.into();
    header.slot = (slot as u32).into();
    header.sealed()
}
