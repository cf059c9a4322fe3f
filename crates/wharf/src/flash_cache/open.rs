//! A cache that is in use: opening it, what one asks of it, closing it.
//!
//! 1. The label says how the drive is shaped and whose the cache is. Disk and label are compared
//!    before anything is written: name, size, and, where the cache was closed in order, a digest of
//!    what the disk held.
//! 2. Drive and disk are locked. The label says that the cache is open: from now on the disk may
//!    change.
//! 3. The drive starts, and the design on it. What is cached is found out while it serves.
//! 4. Closing flushes, and the label says what the disk holds then.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use wharf_drive::Drive;
use wharf_host::backing::{BackingError, Names};
use wharf_host::design::{Client as _, Design, DesignConfig, Parts};
use wharf_host::error::IoError;
use wharf_host::indexless::{
    Disks, Indexless, IndexlessClient, IndexlessConfig, OpenError, SecondChance, Start, Status,
    Store,
};
use wharf_host::volume::Volume;
use wharf_runtime::Cpu;
use wharf_storage::{FileOptions, Target};
use wharf_wire::dma::DmaSpace;

use super::disk::Disk;
use super::engine::Engine;
use super::label::{Label, State};
use super::sectors::TargetSectors;
use super::{CacheError, device};

/// Pages of the memory for transfers of a client, and of the keeper.
const TRANSFER_PAGES: u32 = 4096;

/// The policy that caches of this program have.
pub type Cache = Indexless<SecondChance, TargetDisk>;

/// Where the disk of a cache is.
pub struct TargetDisk {
    target: Arc<dyn Target>,
    /// Sectors of the target.
    sectors: u64,
    /// Sectors that users see.
    shown: u64,
}

impl Disks for TargetDisk {
    type Sectors = TargetSectors;

    fn sectors(&self, _: &Parts) -> u64 {
        self.shown
    }

    fn open(&self, parts: &Parts, _: &Arc<DmaSpace>) -> Result<TargetSectors, OpenError> {
        let sectors = TargetSectors::new(&parts.cpu, self.target.clone(), self.sectors);
        Ok(sectors.map_err(|_| BackingError::Config("no channel to the disk"))?)
    }
}

/// How a cache is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As it was left.
    Existing,
    /// For the first time: a store of chunks is made on the disk.
    New,
}

/// See the module.
pub struct FlashCache {
    // The order of the fields is the order of their end.
    client: Rc<IndexlessClient>,
    cache: Arc<Cache>,
    look: (Cpu, Rc<Volume>),
    engine: Engine,
    disk: Disk,
    fast: PathBuf,
    label: Label,
}

/// Reads a label, and compares it with the disk.
///
/// # Errors
/// If they do not belong together, or the disk is not what it was.
pub fn check(fast: &Path, disk: &Disk) -> Result<Label, CacheError> {
    disk.refuse_same(fast)?;
    let label = Label::read(fast)?;
    check_label(fast, &label, disk)?;
    Ok(label)
}

fn check_label(fast: &Path, label: &Label, disk: &Disk) -> Result<(), CacheError> {
    if label.state == State::Detached {
        return Err(CacheError::Detached(fast.into()));
    }
    let foreign = || CacheError::Foreign {
        disk: disk.path().into(),
        cache: fast.into(),
        known: label.disk_path.clone(),
    };
    let names = disk.chunk_names()?;
    match label.store {
        Store::Chunks if names != Some((label.disk_id, label.cache_id)) => return Err(foreign()),
        Store::Plain | Store::Fixed if names.is_some() => return Err(foreign()),
        _ => {}
    }
    if disk.bytes() != label.disk_bytes {
        return Err(CacheError::DiskSize {
            path: disk.path().into(),
            found: disk.bytes(),
            wanted: label.disk_bytes,
        });
    }
    // Chunks say whose they are. Of other disks nothing is known but where they are and what they
    // held.
    if label.store == Store::Chunks {
        return Ok(());
    }
    let is_same_place = disk.name_digest() == label.name_digest;
    let is_same = label.state == State::Closed && disk.digest()? == label.digest;
    match (label.state, is_same_place) {
        _ if is_same => Ok(()),
        (State::Closed, true) => Err(CacheError::Changed(disk.path().into())),
        (State::Open, true) => Ok(()),
        _ => Err(foreign()),
    }
}

impl FlashCache {
    /// Opens a cache.
    ///
    /// # Errors
    /// If cache and disk cannot be used, or do not belong together.
    pub fn open(fast: &Path, slow: &[PathBuf]) -> Result<FlashCache, CacheError> {
        let disk = Disk::open(slow, false)?;
        check(fast, &disk)?;
        FlashCache::open_on(fast, disk, How::Existing)
    }

    /// Opens a cache in front of a disk that is open, and compared with it.
    ///
    /// # Errors
    /// As [`FlashCache::open`].
    pub fn open_on(fast: &Path, disk: Disk, how: How) -> Result<FlashCache, CacheError> {
        let target = disk.target().clone();
        FlashCache::start(fast, disk, target, how)
    }

    /// Makes what a new cache needs on its drive, in front of a disk that stays as it is, and
    /// closes it.
    ///
    /// # Errors
    /// As [`FlashCache::open`].
    pub fn format(fast: &Path, disk: Disk) -> Result<(), CacheError> {
        // What is written to the disk goes to a file of holes that nobody sees.
        let failed = |error: rustix::io::Errno| CacheError::Thread(error.into());
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let scratch = rustix::fs::memfd_create("wharf scratch", flags).map_err(failed)?;
        rustix::fs::ftruncate(&scratch, disk.bytes()).map_err(failed)?;
        let path = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&scratch)
        );
        let target = wharf_storage::open(Path::new(&path), &FileOptions::default())?;
        FlashCache::start(fast, disk, target, How::New)?.close()
    }

    fn start(
        fast: &Path,
        disk: Disk,
        target: Arc<dyn Target>,
        how: How,
    ) -> Result<FlashCache, CacheError> {
        let label = Label::read(fast)?;
        let drive = device::open(fast, &label)?;
        FlashCache::start_drive(fast, drive, disk, target, how)
    }

    /// Starts a cache on its drive.
    pub(super) fn start_drive(
        fast: &Path,
        drive: Drive,
        disk: Disk,
        target: Arc<dyn Target>,
        how: How,
    ) -> Result<FlashCache, CacheError> {
        // Whoever had the drive till now may have changed it.
        let mut label = Label::read(fast)?;
        if how == How::Existing {
            check_label(fast, &label, &disk)?;
        }
        if label.state == State::Open {
            // What a killed process wrote and did not flush is taken for durable from now on. That of
            // FAST is flushed as the label is written.
            flush(&*target)?;
        }
        label.state = State::Open;
        label.disk_path = disk.path().display().to_string();
        label.name_digest = disk.name_digest();
        label.write(fast)?;
        let design = DesignConfig {
            cache_bytes: label.limit_bytes,
            clients: 1,
            transfer_pages: TRANSFER_PAGES,
            ..DesignConfig::default()
        };
        let own = own_config(&label);
        let needs = <Indexless<SecondChance> as Design>::needs(&design, &own);
        let mut engine = Engine::power_on(drive, needs.features)?;
        engine.watch_space()?;
        let names = Names {
            disk_id: label.disk_id,
            cache_id: label.cache_id,
        };
        let start = match how {
            How::New => Start::Create { names },
            How::Existing => Start::Open { names: Some(names) },
        };
        let disks = TargetDisk {
            target,
            sectors: disk.bytes().div_ceil(4096),
            shown: label.sectors(),
        };
        let cache = Arc::new(Cache::over(&design, &own, engine.space(), start, disks)?);
        let (cpu, volume) = engine.volume(0)?;
        volume.expect_space_levels();
        let client = engine.on_client(|| cache.make_client(Parts::new(&cpu, volume, 0)))?;
        let (cpu, volume) = engine.volume(1)?;
        volume.expect_space_levels();
        cache.start_keeper(Parts::new(&cpu, volume, 1))?;
        let look = engine.volume(2)?;
        let flash = FlashCache {
            client: Rc::new(client),
            cache,
            look,
            engine,
            disk,
            fast: fast.into(),
            label,
        };
        flash.run(async |client| client.opened().await)?;
        Ok(flash)
    }

    /// The client, whose tasks run in [`FlashCache::pass`] and while anybody waits.
    pub fn client(&self) -> &Rc<IndexlessClient> {
        &self.client
    }

    /// The design.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The thread.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The drive, for whoever looks at it, and the CPU of such tasks.
    pub fn look(&self) -> &(Cpu, Rc<Volume>) {
        &self.look
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What the cache says of itself.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What the cache is now.
    pub fn status(&self) -> Status {
        self.cache.status(self.engine.client_cpu())
    }

    /// Writes everything that is dirty to the disk, durably. What was dirty leaves the cache.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn write_back(&self) -> Result<(), CacheError> {
        let drained: Result<(), IoError> = self.run(async |client| client.drain().await);
        drained?;
        match self.status().dirty {
            0 => Ok(()),
            dirty => Err(CacheError::Stuck { dirty }),
        }
    }

    /// Closes a cache that nothing is dirty in, for good.
    ///
    /// # Errors
    /// As [`FlashCache::close`].
    pub fn detach(self) -> Result<(), CacheError> {
        self.close_as(State::Detached)
    }

    /// Runs everything until what `ask` does with the client is done.
    pub fn run<T>(&self, ask: impl AsyncFnOnce(Rc<IndexlessClient>) -> T) -> T {
        self.engine.run(ask(self.client.clone()))
    }

    /// Lets everything that can go on do so once; true if anything did.
    pub fn pass(&self) -> bool {
        self.engine.pass()
    }

    /// Makes durable what was written, and says in the label how the disk is left.
    ///
    /// # Errors
    /// If something is not durable: then the cache counts as killed, which loses nothing that was
    /// flushed before.
    pub fn close(self) -> Result<(), CacheError> {
        self.close_as(State::Closed)
    }

    fn close_as(self, state: State) -> Result<(), CacheError> {
        let closed: Result<(), IoError> = self.run(async |client| {
            client.close().await?;
            client.release().await
        });
        closed?;
        let FlashCache {
            client,
            cache,
            look,
            engine,
            disk,
            fast,
            mut label,
        } = self;
        drop((client, look));
        drop(engine);
        drop(cache);
        flush(&**disk.target())?;
        if label.store != Store::Chunks {
            label.digest = disk.digest()?;
        }
        label.state = state;
        label.write(&fast)
    }
}

/// Makes durable what was written to a disk.
fn flush(target: &dyn Target) -> Result<(), CacheError> {
    let flushed = wharf_storage::Blocking::new(target)?.flush();
    flushed.map_err(|error| {
        let name = target.info().name.clone();
        wharf_storage::StorageError::Io { name, error }.into()
    })
}

/// What the design is told.
pub fn own_config(label: &Label) -> IndexlessConfig {
    IndexlessConfig {
        store: label.store,
        codec: label.disk_codec,
        unit_pages: label.unit_pages,
        zone_bytes: label.zone_bytes,
        ..IndexlessConfig::default()
    }
}
