//! Drives as sectors: a part of a volume, of bytes or of stamps.
//!
//! The media of a drive in stamp mode keep 8 bytes of each sector. So what a sector of a log holds
//! (headers, several chunks, parts of chunks) has to be kept somewhere exact: in [`Contents`], beside the
//! drives and for as long as they. Each sector that is written gets a name that was never given before,
//! and the name is what the drive keeps. A read asks the drive for the name, and gives what was written under
//! it. So the drive alone decides what a sector holds, also after a power cut, and takes the time and the
//! room of the modelled bytes; the contents only say what a name stands for. What a flush has made
//! unreadable is forgotten. Zeros have the name 0, as sectors that were never written.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, RegisterError, STAMP_BYTES};

use super::format::SECTOR_BYTES;
use super::media::Sectors;
use crate::buffers::Buffers;
use crate::error::IoError;
use crate::volume::Volume;

/// Pages of a client's memory for transfers.
const BUFFER_PAGES: u32 = 1024;

/// Pages of a transfer, at most.
const TRANSFER_PAGES: usize = 256;

/// What sectors of drives in stamp mode hold, by names.
#[derive(Debug, Default)]
pub struct Contents(Mutex<Named>);

/// A name, and what it stands for.
type Content = (u64, Box<[u8]>);

#[derive(Debug, Default)]
struct Named {
    latest: u64,
    /// Of each sector the names that it may have, the latest last, with the bytes before its last zeros.
    sectors: BTreeMap<u64, Vec<Content>>,
    /// Sectors with more than one name, or written since the last flush.
    unsettled: BTreeMap<u64, u64>,
}

impl Contents {
    /// Contents of new drives.
    pub fn new() -> Arc<Contents> {
        Arc::default()
    }

    fn with<R>(&self, f: impl FnOnce(&mut Named) -> R) -> R {
        f(&mut self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.with(|named| {
            let all = named.sectors.values().flatten();
            all.map(|(_, bytes)| bytes.len() as u64).sum()
        })
    }

    fn name(&self, sector: u64, bytes: &[u8]) -> u64 {
        self.with(|named| {
            let end = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            if end > 0 {
                named.latest += 1;
            }
            let name = if end == 0 { 0 } else { named.latest };
            named
                .sectors
                .entry(sector)
                .or_default()
                .push((name, bytes[..end].into()));
            named.unsettled.insert(sector, name);
            name
        })
    }

    /// Fills `out` with what a sector holds that has this name. Of a name that is not known the bytes are those of the
    /// name: nothing that has a checksum.
    fn look_up(&self, sector: u64, name: u64, out: &mut [u8]) {
        out.fill(0);
        if name == 0 {
            return;
        }
        self.with(|named| {
            let names = named.sectors.get(&sector);
            let held = names.and_then(|names| names.iter().find(|(own, _)| *own == name));
            match held {
                Some((_, bytes)) => out[..bytes.len()].copy_from_slice(bytes),
                None => out[..STAMP_BYTES].copy_from_slice(&name.to_le_bytes()),
            }
        });
    }

    /// The drives may have lost power: of sectors with several names only the drives know which they have.
    fn forget_flushes(&self) {
        self.with(|named| named.unsettled.clear());
    }

    fn begin_flush(&self) -> BTreeMap<u64, u64> {
        self.with(|named| named.unsettled.clone())
    }

    /// What was written before the flush is durable: nothing brings back what was there before.
    fn end_flush(&self, begun: BTreeMap<u64, u64>) {
        self.with(|named| {
            for (sector, name) in begun {
                // Another flush, which began later, may have ended before.
                let Some(names) = named.sectors.get_mut(&sector) else {
                    continue;
                };
                let at = names.iter().rposition(|(own, _)| *own == name);
                names.drain(..at.unwrap_or(0));
                if named.unsettled.get(&sector) == Some(&name) {
                    named.unsettled.remove(&sector);
                }
                if name == 0 && names.len() == 1 {
                    named.sectors.remove(&sector);
                }
            }
        });
    }
}

/// A part of a volume as sectors.
pub struct VolumeSectors {
    cpu: Cpu,
    volume: Rc<Volume>,
    first: u64,
    sectors: u64,
    buffers: Buffers,
    /// Of drives in stamp mode.
    contents: Option<Arc<Contents>>,
    /// A command was not answered, and may use our memory for ever.
    broken: Cell<Option<IoError>>,
}

impl VolumeSectors {
    /// The pages of `volume` from `first` on, with memory for transfers in `space`. Where pages are stamps, what sectors hold
    /// is in `contents`, which live as long as the drives.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If there are not so many pages.
    pub fn new(
        cpu: &Cpu,
        volume: Rc<Volume>,
        space: &Arc<DmaSpace>,
        (first, sectors): (u64, u64),
        contents: &Arc<Contents>,
    ) -> Result<VolumeSectors, RegisterError> {
        assert!(first + sectors <= volume.pages(), "a part of the volume");
        contents.forget_flushes();
        Ok(VolumeSectors {
            cpu: cpu.clone(),
            volume,
            first,
            sectors,
            buffers: Buffers::new(space, BUFFER_PAGES)?,
            contents: (space.page_bytes() == STAMP_BYTES).then(|| contents.clone()),
            broken: Cell::new(None),
        })
    }

    fn check(&self, first: u64, sectors: u64) -> Result<u64, IoError> {
        if let Some(error) = self.broken.get() {
            return Err(error);
        }
        match first.checked_add(sectors) {
            Some(end) if end <= self.sectors => Ok(self.first + first),
            _ => Err(IoError::OutOfRange {
                first,
                pages: sectors,
                volume_pages: self.sectors,
            }),
        }
    }

    /// Takes note of how a transfer went, and gives its pages back unless a drive may still use them.
    fn settle(&self, done: Result<(), IoError>, mut pages: Vec<u32>) -> Result<(), IoError> {
        match done {
            Err(error @ IoError::Timeout { .. }) => self.broken.set(Some(error)),
            _ => self.buffers.give_back(&self.cpu, &mut pages),
        }
        done
    }

    async fn read_step(&self, at: u64, out: &mut [u8]) -> Result<(), IoError> {
        let (mut pages, mut addresses) = (Vec::new(), Vec::new());
        let count = out.len() / SECTOR_BYTES;
        self.buffers
            .take(&self.cpu, count, &mut pages, &mut addresses)
            .await;
        let done = self.volume.read(&self.cpu, at, &addresses).await;
        if done.is_ok() {
            for (index, page) in pages.iter().enumerate() {
                let sector = &mut out[index * SECTOR_BYTES..][..SECTOR_BYTES];
                // SAFETY: the page is ours, and the command that named it has ended.
                let found = unsafe { self.buffers.page_mut(*page) };
                match &self.contents {
                    None => sector.copy_from_slice(found),
                    Some(contents) => {
                        let name =
                            u64::from_le_bytes(found[..STAMP_BYTES].try_into().expect("a stamp"));
                        contents.look_up(at + index as u64, name, sector);
                    }
                }
            }
        }
        self.settle(done, pages)
    }

    async fn write_step(&self, at: u64, data: &[u8]) -> Result<(), IoError> {
        let (mut pages, mut addresses) = (Vec::new(), Vec::new());
        let count = data.len() / SECTOR_BYTES;
        self.buffers
            .take(&self.cpu, count, &mut pages, &mut addresses)
            .await;
        for (index, page) in pages.iter().enumerate() {
            let sector = &data[index * SECTOR_BYTES..][..SECTOR_BYTES];
            // SAFETY: the page is ours, and no command names it yet.
            let to = unsafe { self.buffers.page_mut(*page) };
            match &self.contents {
                None => to.copy_from_slice(sector),
                Some(contents) => {
                    let name = contents.name(at + index as u64, sector);
                    to.copy_from_slice(&name.to_le_bytes());
                }
            }
        }
        let done = self.volume.write(&self.cpu, at, &addresses, false).await;
        self.settle(done, pages)
    }
}

impl Sectors for VolumeSectors {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        let mut at = self.check(first, (out.len() / SECTOR_BYTES) as u64)?;
        for piece in out.chunks_mut(TRANSFER_PAGES * SECTOR_BYTES) {
            self.read_step(at, piece).await?;
            at += (piece.len() / SECTOR_BYTES) as u64;
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        let mut at = self.check(first, (data.len() / SECTOR_BYTES) as u64)?;
        for piece in data.chunks(TRANSFER_PAGES * SECTOR_BYTES) {
            self.write_step(at, piece).await?;
            at += (piece.len() / SECTOR_BYTES) as u64;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.check(0, 0)?;
        let begun = self
            .contents
            .as_ref()
            .map(|contents| contents.begin_flush());
        self.volume.flush(&self.cpu).await?;
        if let (Some(contents), Some(begun)) = (&self.contents, begun) {
            contents.end_flush(begun);
        }
        Ok(())
    }

    /// The drives are not told: an empty zone is written from its beginning soon.
    async fn forget(&self, first: u64, sectors: u64) -> Result<(), IoError> {
        self.check(first, sectors).map(drop)
    }

    async fn written(&self) -> Result<Vec<(u64, u64)>, IoError> {
        let at = self.check(0, self.sectors)?;
        let found = self.volume.allocated(at, self.sectors).await?;
        let within = |(first, count)| (first - at, count);
        Ok(found.into_iter().map(within).collect())
    }

    /// Deallocates them: a drive of flash reads them as zeros then.
    async fn clear(&self) -> Result<(), IoError> {
        let at = self.check(0, self.sectors)?;
        let found = self.volume.allocated(at, self.sectors).await?;
        self.volume.deallocate_many(&self.cpu, &found).await
    }
}
