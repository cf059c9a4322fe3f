//! Whether a cache and its disk agree, without changing either.
//!
//! 1. Every cached sector is read from the cache, which checks its checksum.
//! 2. A clean copy is compared with what the disk holds of the sector, unless there is a dirty one,
//!    which is newer.
//! 3. Of a disk of chunks everything is read: a mapping sector or a chunk that is not what it
//!    should be says so.
//!
//! The drive runs over an image that is read only, and the disk is under an [`Overlay`].

use std::path::{Path, PathBuf};
use std::rc::Rc;

use wharf_host::backing::{
    Backing, ChunkConfig, ChunkStore, Contents, DiskZones, FixedConfig, FixedStore, Packer,
    PlainStore, SECTOR_BYTES, VolumeSectors,
};
use wharf_host::indexless::{AddressPlan, Store};
use wharf_host::volume::Volume;

use super::CacheError;
use super::disk::Disk;
use super::label::Label;
use super::look::{Look, Runs};
use super::open::check as check_pair;
use super::overlay::Overlay;
use super::sectors::TargetSectors;

/// Pages that are compared at a time: a group of chunks.
const STEP_PAGES: u64 = 256;
/// Findings that are told; the rest are counted.
const TOLD_MAX: usize = 20;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Sectors with a clean copy that were compared with the disk.
    pub compared: u64,
    /// Sectors with a dirty copy, which were read.
    pub dirty: u64,
    /// Sectors of the disk that were read, of chunks.
    pub read: u64,
    /// What is wrong: the first findings.
    pub wrong: Vec<String>,
    /// How many findings there are.
    pub findings: u64,
}

impl Report {
    fn found(&mut self, line: String) {
        self.findings += 1;
        if self.wrong.len() < TOLD_MAX {
            self.wrong.push(line);
        }
    }
}

/// The packer that a label says.
fn packer(label: &Label) -> Result<Packer, CacheError> {
    let codec = label.disk_codec;
    let packer = Packer::bytes(codec, codec.level_default());
    packer.map_err(|_| CacheError::Choice(format!("this program was built without {codec}")))
}

/// The sectors of a cache's drive that the mapping of its disk is in.
///
/// # Errors
/// If memory is short.
pub fn mapping(look: &Look) -> Result<VolumeSectors, CacheError> {
    let (cpu, volume, space) = look.parts();
    let plan = AddressPlan::new(look.label().sectors());
    let range = (plan.metadata(), plan.mapping());
    Ok(VolumeSectors::new(
        cpu,
        volume.clone(),
        space,
        range,
        &Contents::new(),
    )?)
}

/// Compares a cache with its disk.
///
/// # Errors
/// If they cannot be used, or do not belong together.
pub fn check(fast: &Path, slow: &[PathBuf]) -> Result<Report, CacheError> {
    let disk = Disk::open(slow, true)?;
    check_pair(fast, &disk)?;
    let look = Look::open(fast)?;
    let (clean, dirty) = look.copies()?;
    let label = look.label().clone();
    let (cpu, volume, _) = look.parts();
    let sectors = TargetSectors::new(cpu, disk.target().clone(), disk.bytes().div_ceil(4096))?;
    let sectors = Overlay::new(sectors);
    let copies = Copies {
        clean,
        dirty,
        volume: volume.clone(),
        sectors: label.sectors(),
    };
    match label.store {
        Store::Plain => {
            let store = PlainStore::new(sectors, SECTOR_BYTES);
            look.run(copies.compare(&look, &store))
        }
        Store::Fixed => {
            let config = FixedConfig {
                unit_pages: label.unit_pages,
            };
            let store = FixedStore::open(cpu, sectors, packer(&label)?, config)?;
            look.run(copies.compare(&look, &store))
        }
        Store::Chunks => {
            let zone_sectors = (label.zone_bytes / SECTOR_BYTES as u64) as u32;
            let zones = DiskZones::new(sectors, zone_sectors);
            let mapping = Overlay::new(mapping(&look)?);
            let config = ChunkConfig::default();
            let packer = packer(&label)?;
            let store = look.run(ChunkStore::open(cpu, zones, mapping, packer, config));
            match store {
                Ok(store) => look.run(copies.compare(&look, &store)),
                Err(error) => {
                    let mut report = Report::default();
                    report.found(error.to_string());
                    Ok(report)
                }
            }
        }
    }
}

/// What is cached.
struct Copies {
    clean: Runs,
    dirty: Runs,
    volume: Rc<Volume>,
    sectors: u64,
}

/// Whether a sector is in one of the runs.
fn holds(runs: &Runs, sector: u64) -> bool {
    let at = runs.partition_point(|run| run.0 + run.1 <= sector);
    runs.get(at).is_some_and(|run| run.0 <= sector)
}

impl Copies {
    async fn compare(&self, look: &Look, store: &impl Backing) -> Result<Report, CacheError> {
        let mut report = Report::default();
        let (cpu, _, space) = look.parts();
        // All addresses of the drive: both copies.
        let range = (0, 2 * self.sectors);
        let cached = VolumeSectors::new(cpu, self.volume.clone(), space, range, &Contents::new())?;
        for (first, count) in pieces(&self.clean) {
            self.compare_piece(&cached, store, (first, count), &mut report)
                .await;
        }
        for (first, count) in pieces(&self.dirty) {
            let mut bytes = vec![0; count as usize * SECTOR_BYTES];
            let read =
                wharf_host::backing::Sectors::read(&cached, self.sectors + first, &mut bytes);
            match read.await {
                Ok(()) => report.dirty += count,
                Err(error) => report.found(format!("sectors {first} on, dirty: {error}")),
            }
        }
        if look.label().store == Store::Chunks {
            self.read_all(store, &mut report).await;
        }
        Ok(report)
    }

    async fn compare_piece(
        &self,
        cached: &VolumeSectors,
        store: &impl Backing,
        (first, count): (u64, u64),
        report: &mut Report,
    ) {
        let bytes = count as usize * SECTOR_BYTES;
        let (mut copy, mut held) = (vec![0; bytes], vec![0; bytes]);
        if let Err(error) = wharf_host::backing::Sectors::read(cached, first, &mut copy).await {
            return report.found(format!("sectors {first} on, cached: {error}"));
        }
        if let Err(error) = store.read(first, &mut held).await {
            return report.found(format!("sectors {first} on, on the disk: {error}"));
        }
        let sectors = copy.chunks(SECTOR_BYTES).zip(held.chunks(SECTOR_BYTES));
        for (sector, (copy, held)) in (first..).zip(sectors) {
            if holds(&self.dirty, sector) {
                continue;
            }
            report.compared += 1;
            if copy != held {
                report.found(format!(
                    "sector {sector}: its clean copy is not what the disk holds"
                ));
            }
        }
    }

    /// Reads everything that the disk holds.
    async fn read_all(&self, store: &impl Backing, report: &mut Report) {
        let mut first = 0;
        let mut bytes = vec![0; STEP_PAGES as usize * SECTOR_BYTES];
        while first < self.sectors {
            let count = STEP_PAGES.min(self.sectors - first);
            let out = &mut bytes[..count as usize * SECTOR_BYTES];
            match store.read(first, out).await {
                Ok(()) => report.read += count,
                Err(error) => report.found(format!("sectors {first} on, on the disk: {error}")),
            }
            first += count;
        }
    }
}

/// Runs cut at multiples of [`STEP_PAGES`].
fn pieces(runs: &Runs) -> impl Iterator<Item = (u64, u64)> {
    runs.iter().flat_map(|(first, count)| {
        let (mut at, end) = (*first, first + count);
        std::iter::from_fn(move || {
            let from = at;
            at = end.min((from / STEP_PAGES + 1) * STEP_PAGES);
            (from < end).then_some((from, at - from))
        })
    })
}
