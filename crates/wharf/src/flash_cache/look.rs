//! What a cache holds, without changing it: the drive is started over an image that is read only.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use wharf_drive::Drive;
use wharf_host::indexless::Store;
use wharf_host::indexless::bitmap::Bitmap;
use wharf_host::indexless::part::{Run, SECTORS};
use wharf_host::indexless::word::Word;
use wharf_host::volume::Volume;
use wharf_runtime::Cpu;
use wharf_wire::dma::DmaSpace;

use super::engine::Engine;
use super::label::{Label, State};
use super::{CacheError, FlashCache, device, hex};

/// What is cached.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// The cache's name.
    pub cache_id: String,
    /// The disk's name.
    pub disk_id: String,
    /// Where the disk was when it was last used.
    pub disk: String,
    /// How the disk holds data: plain, chunks or fixed.
    pub store: Store,
    /// How the cache was left: closed, open (killed, or in use) or detached.
    pub state: &'static str,
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes that users see.
    pub export_bytes: u64,
    /// Bytes that are cached at most.
    pub limit_bytes: u64,
    /// Bytes that are cached.
    pub cached_bytes: u64,
    /// Of these, bytes that the disk has not got.
    pub dirty_bytes: u64,
    /// Runs of them.
    pub dirty_runs: u64,
    /// Bytes of flash that what is cached takes.
    pub flash_used_bytes: u64,
    /// Bytes of flash that may be taken.
    pub flash_bytes: u64,
    /// What is cached, for each byte of flash that it takes.
    pub ratio: f64,
    /// Bytes of memory that the bitmap takes when all of it is known and packed.
    pub bitmap_bytes: u64,
}

/// Runs of sectors: the first and how many.
pub type Runs = Vec<(u64, u64)>;

/// A cache that is looked at.
pub struct Look {
    engine: Engine,
    volume: Rc<Volume>,
    label: Label,
}

impl Look {
    /// Starts the drive in `fast`; the image stays as it is.
    ///
    /// # Errors
    /// If there is no cache, or somebody uses it.
    pub fn open(fast: &Path) -> Result<Look, CacheError> {
        let label = Label::read(fast)?;
        Look::of(device::open_read_only(fast, &label)?, label)
    }

    /// Starts a drive.
    pub(super) fn of(drive: Drive, label: Label) -> Result<Look, CacheError> {
        let mut engine = Engine::power_on(drive, &[])?;
        let (_, volume) = engine.volume(0)?;
        Ok(Look {
            engine,
            volume,
            label,
        })
    }

    /// Sectors that are dirty in a cache that is open.
    ///
    /// # Errors
    /// If the drive fails.
    pub fn dirty(cache: &FlashCache) -> Result<u64, CacheError> {
        let (sectors, volume) = (cache.label().sectors(), &cache.look().1);
        let runs = cache
            .engine()
            .run_look(volume.allocated(sectors, sectors))?;
        Ok(runs.iter().map(|run| run.1).sum())
    }

    /// What the cache says of itself.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// A CPU, the drive, and the memory that it reaches.
    pub fn parts(&self) -> (&Cpu, &Rc<Volume>, &Arc<DmaSpace>) {
        (self.engine.client_cpu(), &self.volume, self.engine.space())
    }

    /// Runs everything until `future` is done.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.engine.run(future)
    }

    /// Runs of sectors with a clean copy and with a dirty one. Of sectors with both the dirty one
    /// counts.
    ///
    /// # Errors
    /// If the drive fails.
    pub fn copies(&self) -> Result<(Runs, Runs), CacheError> {
        let sectors = self.label.sectors();
        let volume = &self.volume;
        let found = self.engine.run(async {
            let clean = volume.allocated(0, sectors).await?;
            let dirty = volume.allocated(sectors, sectors).await?;
            Ok::<_, CacheError>((clean, dirty))
        });
        let (clean, mut dirty) = found?;
        for run in &mut dirty {
            run.0 -= sectors;
        }
        Ok((clean, dirty))
    }

    /// What is cached.
    ///
    /// # Errors
    /// If the drive fails.
    pub fn info(&self) -> Result<Info, CacheError> {
        let (clean, dirty) = self.copies()?;
        let space = self.engine.space_page()?;
        let sum = |runs: &Runs| runs.iter().map(|run| run.1).sum::<u64>();
        let (cached, bitmap_bytes) = self.bitmap(&clean, &dirty);
        let granule = u64::from(space.granule_bytes);
        let used = space.used * granule;
        let label = &self.label;
        Ok(Info {
            cache_id: hex(&label.cache_id),
            disk_id: hex(&label.disk_id),
            disk: label.disk_path.clone(),
            store: label.store,
            state: match label.state {
                State::Closed => "closed",
                State::Open => "open",
                State::Detached => "detached",
            },
            disk_bytes: label.disk_bytes,
            export_bytes: label.export_bytes,
            limit_bytes: label.limit_bytes,
            cached_bytes: cached * 4096,
            dirty_bytes: sum(&dirty) * 4096,
            dirty_runs: dirty.len() as u64,
            flash_used_bytes: used,
            flash_bytes: space.capacity * granule,
            ratio: ((sum(&clean) + sum(&dirty)) * 4096) as f64 / used.max(1) as f64,
            bitmap_bytes,
        })
    }

    /// Sectors that are cached, and what a bitmap of them takes.
    fn bitmap(&self, clean: &Runs, dirty: &Runs) -> (u64, u64) {
        let bitmap = Bitmap::new(self.label.sectors(), 0, true);
        let cpu = self.engine.client_cpu();
        let mut words = vec![Word::ABSENT; SECTORS as usize];
        for part in 0..bitmap.parts() {
            let first = part * u64::from(SECTORS);
            words.fill(Word::ABSENT);
            for (runs, word) in [(clean, Word::clean(0)), (dirty, Word::dirty(0))] {
                mark(runs, first, word, &mut words);
            }
            bitmap.learn(cpu, part, &runs_of(&words));
        }
        (bitmap.totals().cached, bitmap.memory_bytes(cpu) as u64)
    }
}

/// Runs of sectors of a part with one word.
fn runs_of(words: &[Word]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, word) in (0..).zip(words).filter(|(_, word)| word.is_cached()) {
        match runs.last_mut() {
            Some(last) if last.end() == at && last.word == *word => last.count += 1,
            _ => runs.push(Run {
                first: at,
                count: 1,
                word: *word,
            }),
        }
    }
    runs
}

/// Marks the sectors of runs that lie in a part.
fn mark(runs: &Runs, first: u64, word: Word, words: &mut [Word]) {
    let end = first + words.len() as u64;
    let begin = runs.partition_point(|run| run.0 + run.1 <= first);
    for run in runs[begin..].iter().take_while(|run| run.0 < end) {
        let (from, to) = (run.0.max(first), (run.0 + run.1).min(end));
        words[(from - first) as usize..(to - first) as usize].fill(word);
    }
}
