//! Units of a fixed size in place, for disks that compress so: 16 to 128 KiB.
//!
//! A unit has two slots, each with room for the whole unit and a header. What is written goes to the slot that does not
//! hold what was flushed last, so that a cut leaves one of them whole; of two whole ones the greater
//! number is newer. A write of a part of a unit reads, changes and writes it all: that is counted, and is what whole
//! aligned units avoid.
//!
//! A unit that was not flushed is written again where it is. So writes take turns, a flush has a turn of its own (else what
//! it makes durable could be half of the next write), and a reader who finds a unit half written reads it again in its turn.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use wharf_runtime::{Cpu, Notify};
use zerocopy::{FromBytes, IntoBytes};

use super::format::{ChunkHeader, SECTOR_BYTES};
use super::media::Sectors;
use super::packer::Packer;
use super::{Backing, BackingError, Level, check_range};

/// How a store of units is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedConfig {
    /// Pages of a unit: 4, 8, 16 or 32.
    pub unit_pages: u32,
}

impl FixedConfig {
    /// Pages that a store on a disk of so many sectors has.
    pub fn pages(&self, disk_sectors: u64) -> u64 {
        let unit_pages = u64::from(self.unit_pages);
        disk_sectors / (2 * (unit_pages + 1)) * unit_pages
    }
}

/// What a store of units did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FixedCounters {
    /// Pages that the host wrote.
    pub written_pages: u64,
    /// Units that were written for them.
    pub written_units: u64,
    /// Of these, units that were read first, as only a part of them was new.
    pub modified_units: u64,
    /// Bytes written, with headers, in whole sectors.
    pub written_bytes: u64,
    /// Pages that were compressed and written for each page of the host's: pages of all written units.
    pub unit_pages_written: u64,
    /// Pages that the host read.
    pub read_pages: u64,
    /// Units that were read, for reads and for writes.
    pub read_units: u64,
}

/// Where the newest content of a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Current {
    slot: u64,
    /// 0 if the unit was never written.
    seq: u64,
    bytes: u32,
    codec: u8,
    /// It was flushed, so that the other slot is free.
    is_durable: bool,
}

/// A store of units of a fixed size, in place, each with two slots.
pub struct FixedStore<S> {
    cpu: Cpu,
    disk: S,
    packer: Packer,
    unit_pages: u64,
    units: u64,
    current: RefCell<BTreeMap<u64, Current>>,
    line: Line,
    counters: Cell<FixedCounters>,
}

/// Who waits for a turn, in the order of their coming; the first has it.
#[derive(Default)]
struct Line {
    tickets: RefCell<VecDeque<u64>>,
    latest: Cell<u64>,
    moved: Notify,
}

/// A place in the line. While it is the first, units stay as they are but for its holder.
struct Turn<'a> {
    cpu: &'a Cpu,
    line: &'a Line,
    ticket: u64,
}

impl Line {
    async fn turn<'a>(&'a self, cpu: &'a Cpu) -> Turn<'a> {
        let line = self;
        let ticket = self.latest.get() + 1;
        self.latest.set(ticket);
        self.tickets.borrow_mut().push_back(ticket);
        let turn = Turn { cpu, line, ticket };
        while self.tickets.borrow().front() != Some(&ticket) {
            self.moved.wait(cpu).await;
        }
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let line = self.line;
        line.tickets.borrow_mut().retain(|&t| t != self.ticket);
        line.moved.notify_all(self.cpu);
    }
}

impl<S: Sectors> FixedStore<S> {
    /// Pages of a unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }

    /// A store on a disk that holds nothing else, or such a store.
    ///
    /// # Errors
    /// A unit that is none.
    pub fn open(
        cpu: &Cpu,
        disk: S,
        packer: Packer,
        config: FixedConfig,
    ) -> Result<FixedStore<S>, BackingError> {
        if ![4, 8, 16, 32].contains(&config.unit_pages) {
            return Err(BackingError::Config("units of 16, 32, 64 or 128 KiB"));
        }
        let unit_pages = u64::from(config.unit_pages);
        Ok(FixedStore {
            cpu: cpu.clone(),
            units: config.pages(disk.sectors()) / unit_pages,
            disk,
            packer,
            unit_pages,
            current: RefCell::default(),
            line: Line::default(),
            counters: Cell::default(),
        })
    }

    /// What it did.
    pub fn counters(&self) -> FixedCounters {
        self.counters.get()
    }

    /// Bytes of memory that it takes to know where units are.
    pub fn memory_bytes(&self) -> u64 {
        (self.current.borrow().len() * size_of::<(u64, Current)>()) as u64
    }

    fn count(&self, change: impl FnOnce(&mut FixedCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn sector(&self, unit: u64, slot: u64) -> u64 {
        (2 * unit + slot) * (self.unit_pages + 1)
    }

    /// Reads the header and payload in a slot, if they are whole.
    async fn read_slot(
        &self,
        unit: u64,
        slot: u64,
    ) -> Result<Option<(ChunkHeader, Vec<u8>)>, BackingError> {
        let at = self.sector(unit, slot);
        let mut data = vec![0; SECTOR_BYTES];
        self.disk.read(at, &mut data).await?;
        let Ok((header, _)) = ChunkHeader::read_from_prefix(&data) else {
            return Ok(None);
        };
        let is_own = header.is_plausible_unit(unit * self.unit_pages, self.unit_pages);
        if !is_own {
            return Ok(None);
        }
        let bytes = size_of::<ChunkHeader>() + header.bytes.get() as usize;
        let whole = bytes.next_multiple_of(SECTOR_BYTES);
        if whole > SECTOR_BYTES {
            data.resize(whole, 0);
            self.disk.read(at + 1, &mut data[SECTOR_BYTES..]).await?;
        }
        let payload = &data[size_of::<ChunkHeader>()..bytes];
        Ok(header.is_whole(payload).then(|| (header, payload.to_vec())))
    }

    /// Where a unit is; found by looking at both slots the first time.
    async fn find(&self, unit: u64) -> Result<Current, BackingError> {
        if let Some(known) = self.current.borrow().get(&unit) {
            return Ok(*known);
        }
        let mut newest = Current {
            slot: 1,
            seq: 0,
            bytes: 0,
            codec: 0,
            is_durable: true,
        };
        for slot in 0..2 {
            if let Some((header, _)) = self.read_slot(unit, slot).await?
                && header.seq.get() > newest.seq
            {
                newest = Current {
                    slot,
                    seq: header.seq.get(),
                    bytes: header.bytes.get(),
                    codec: header.codec,
                    is_durable: true,
                };
            }
        }
        Ok(*self.current.borrow_mut().entry(unit).or_insert(newest))
    }

    /// The pages of a unit.
    async fn read_unit(&self, unit: u64) -> Result<Vec<u8>, BackingError> {
        if let Some(pages) = self.try_read_unit(unit).await? {
            return Ok(pages);
        }
        let turn = self.line.turn(&self.cpu).await;
        self.read_resting_unit(unit, &turn).await
    }

    /// The pages of a unit that nobody else writes.
    async fn read_resting_unit(&self, unit: u64, _: &Turn<'_>) -> Result<Vec<u8>, BackingError> {
        let page = unit * self.unit_pages;
        let pages = self.try_read_unit(unit).await?;
        pages.ok_or(BackingError::DamagedChunk { page })
    }

    /// The pages of a unit; nothing if it is damaged, or was written meanwhile.
    async fn try_read_unit(&self, unit: u64) -> Result<Option<Vec<u8>>, BackingError> {
        let mut pages = vec![0; self.unit_pages as usize * self.packer.page_bytes()];
        let current = self.find(unit).await?;
        if current.seq == 0 {
            return Ok(Some(pages));
        }
        let found = self.read_slot(unit, current.slot).await?;
        let Some((header, payload)) = found.filter(|(h, _)| h.seq.get() == current.seq) else {
            return Ok(None);
        };
        let unpacked = (self.packer).unpack_on(&self.cpu, header.codec, &payload, &mut pages);
        if unpacked.is_err() {
            return Ok(None);
        }
        self.count(|c| c.read_units += 1);
        Ok(Some(pages))
    }

    async fn write_unit(&self, unit: u64, pages: &[u8], _: &Turn<'_>) -> Result<(), BackingError> {
        let before = self.find(unit).await?;
        let (codec, payload) = self.packer.pack_on(&self.cpu, pages);
        let slot = match before.is_durable {
            true => 1 - before.slot,
            false => before.slot,
        };
        let (seq, lba) = (before.seq + 1, unit * self.unit_pages);
        let header = ChunkHeader::new(seq, lba, self.unit_pages as u32, codec, &payload);
        let mut data = header.as_bytes().to_vec();
        data.extend_from_slice(&payload);
        data.resize(data.len().next_multiple_of(SECTOR_BYTES), 0);
        self.disk.write(self.sector(unit, slot), &data).await?;
        self.count(|c| {
            c.written_units += 1;
            c.written_bytes += data.len() as u64;
            c.unit_pages_written += self.unit_pages;
        });
        let now = Current {
            slot,
            seq,
            bytes: header.bytes.get(),
            codec,
            is_durable: false,
        };
        self.current.borrow_mut().insert(unit, now);
        Ok(())
    }

    /// Changes a part of a unit, or all of it.
    async fn change(&self, unit: u64, from: usize, data: &[u8]) -> Result<(), BackingError> {
        let turn = self.line.turn(&self.cpu).await;
        let unit_bytes = self.unit_pages as usize * self.packer.page_bytes();
        if data.len() == unit_bytes {
            return self.write_unit(unit, data, &turn).await;
        }
        let mut pages = self.read_resting_unit(unit, &turn).await?;
        pages[from..from + data.len()].copy_from_slice(data);
        self.count(|c| c.modified_units += 1);
        self.write_unit(unit, &pages, &turn).await
    }

    async fn write_all(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        let page = self.packer.page_bytes();
        let (mut at, mut rest) = (first, data);
        while !rest.is_empty() {
            let (unit, from) = (at / self.unit_pages, (at % self.unit_pages) as usize);
            let count = (self.unit_pages as usize - from).min(rest.len() / page);
            let (piece, more) = rest.split_at(count * page);
            self.change(unit, from * page, piece).await?;
            (at, rest) = (at + count as u64, more);
        }
        Ok(())
    }
}

impl ChunkHeader {
    /// Whether it can be the header of a unit.
    fn is_plausible_unit(&self, first: u64, pages: u64) -> bool {
        self.is_plausible() && self.lba.get() == first && u64::from(self.sectors.get()) == pages
    }
}

impl<S: Sectors> Backing for FixedStore<S> {
    fn page_bytes(&self) -> usize {
        self.packer.page_bytes()
    }

    fn pages(&self) -> u64 {
        self.units * self.unit_pages
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), BackingError> {
        let page = self.packer.page_bytes();
        check_range(first, (out.len() / page) as u64, self.pages())?;
        self.count(|c| c.read_pages += (out.len() / page) as u64);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (unit, from) = (at / self.unit_pages, (at % self.unit_pages) as usize);
            let count = (self.unit_pages as usize - from).min(rest.len() / page);
            let (piece, more) = rest.split_at_mut(count * page);
            let pages = self.read_unit(unit).await?;
            piece.copy_from_slice(&pages[from * page..(from + count) * page]);
            (at, rest) = (at + count as u64, more);
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        let pages = (data.len() / self.packer.page_bytes()) as u64;
        check_range(first, pages, self.pages())?;
        self.count(|c| c.written_pages += pages);
        self.write_all(first, data).await
    }

    async fn discard(&self, first: u64, pages: u64) -> Result<(), BackingError> {
        check_range(first, pages, self.pages())?;
        let zeros = vec![0; self.unit_pages as usize * self.packer.page_bytes()];
        let mut at = first;
        while at < first + pages {
            let count = (self.unit_pages - at % self.unit_pages).min(first + pages - at);
            // A unit that was never written is zeros.
            if self.find(at / self.unit_pages).await?.seq > 0 {
                self.write_all(at, &zeros[..count as usize * self.packer.page_bytes()])
                    .await?;
            }
            at += count;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), BackingError> {
        let _turn = self.line.turn(&self.cpu).await;
        self.disk.flush().await?;
        let mut current = self.current.borrow_mut();
        (current.values_mut()).for_each(|unit| unit.is_durable = true);
        Ok(())
    }

    /// Every unit has its place: it is never full.
    fn level(&self) -> Level {
        Level::of(0, 1)
    }
}
