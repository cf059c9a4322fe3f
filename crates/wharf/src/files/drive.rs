//! A drive that runs a file system, on this thread, and the host's side of its commands for files.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use wharf_drive::config::{DriveConfig, FileSystemKind, NewFiles};
use wharf_drive::{Drive, PowerSwitch};
use wharf_files::block::{Recovered, Replayed};
use wharf_files::vfs::{At, Target};
use wharf_files::{By, FileError, Handle};
use wharf_host::admin::{Admin, QueueOffer, offer_queues};
use wharf_host::boot::{PoweredOn, Spread, make_ready};
use wharf_host::driver::DriverConfig;
use wharf_host::stor::{StorClient, StorConfig};
use wharf_runtime::{CostTable, CpuId, Inline, Machine, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::file::{FileSystemLog, FileSystemState};
use wharf_wire::identify::DriveFeature;
use wharf_wire::queue::HostQueue;

use super::{ImageError, now_ns};
use crate::store::StoreError;

/// Bytes that the drive keeps pages of metadata in.
const METADATA_BYTES: u64 = 64 << 20;

/// The most that changes take on their way to their places: the journal of the largest file system, and more. No
/// memory is taken before there are such changes.
const JOURNAL_BYTES: u64 = 1 << 30;

/// Entries of each queue: one request is under way at a time.
const QUEUE_ENTRIES: u32 = 16;

/// How far the drive's clock and the system's may be apart before it is told again what time it is.
const DRIFT_NS: i64 = 20_000_000;

const NS_PER_MS: u64 = 1_000_000;

/// See the module. The drive runs while somebody waits for it.
pub struct FileDrive {
    // The order of the fields is the order of their end.
    /// Of whoever asked last.
    pub(super) recent: RefCell<StorClient>,
    admin: Admin,
    inline: Inline,
    boot_cpu: CpuId,
    cpu: CpuId,
    pub(super) root: u64,
    /// Handles by which all writes are at the end.
    pub(super) appending: RefCell<BTreeSet<Handle>>,
    recovered: Recovered,
    /// The system's clock less the drive's, as the drive was told it.
    told_ns: Cell<i64>,
}

impl FileDrive {
    /// Powers a drive on, which opens its file system, or makes one.
    ///
    /// # Errors
    /// If the drive cannot be opened, or has no file system that can be used.
    pub(super) fn open(
        config: DriveConfig,
        new: Option<NewFiles>,
    ) -> Result<FileDrive, ImageError> {
        let drive = Drive::new(with_files(config)).map_err(StoreError::Drive)?;
        let drive = match new {
            Some(new) => drive.with_new_files(new),
            None => drive,
        };
        let cores = drive.config().firmware.cores as u16;
        let space = DmaSpace::new(drive.config().page_bytes());
        let mut machine = Machine::new(CostTable::free(), false);
        let power = PowerSwitch::on();
        let handle = drive.power_on(&mut machine, "drive", &space, &power);
        let handle = handle.map_err(StoreError::Drive)?;
        let new_queue = |qid, entries| handle.new_queue(qid, entries);
        let made = offer_queues(&space, cores, QUEUE_ENTRIES, new_queue);
        let (queues, mut offers): (Vec<HostQueue>, Vec<QueueOffer>) =
            made.map_err(StoreError::Memory)?.into_iter().unzip();
        for (core, offer) in (0..).zip(&mut offers) {
            offer.core = Some(core);
        }
        let powered = PoweredOn {
            admin: handle.admin,
            offers,
            later: 0,
            features: &[DriveFeature::FileSystem],
            hmb: None,
        };
        let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
        let cpu = machine.add_cpu("client", Side::Host, 1.0);
        let inline = machine.inline();
        // The drive is on this thread: it answers, however long the machine's storage takes.
        let config = DriverConfig {
            timeout_ns: u64::MAX,
            ..DriverConfig::default()
        };
        let (of_boot, spread) = (&space, Spread::striped(1));
        let made = inline.block_on(boot_cpu, |cpu| async move {
            let made = make_ready(&cpu, of_boot, vec![powered], spread, config).await;
            let (mut admins, ready) = made.map_err(StoreError::Admin)?;
            let admin = admins.swap_remove(0);
            let set = admin.set_time(now_ns() / NS_PER_MS).await;
            set.map_err(StoreError::Io)?;
            Ok::<_, StoreError>((admin, ready))
        });
        let (admin, ready) = made?;
        let made = inline.block_on(cpu, |cpu| async move {
            let bunch = ready.open_bunch(&cpu, of_boot, 0, queues, config)?;
            let client = StorClient::new(&cpu, of_boot, bunch, &StorConfig::default())?;
            // It is answered when the file system is open, or cannot be.
            let root = client.stat(Target::Path(At::from(&b"/"[..]), true)).await;
            let root = root.map(|root| root.number).map_err(|error| error.errno());
            Ok::<_, StoreError>((client, root))
        });
        let (client, root) = made?;
        let log = inline.block_on(boot_cpu, |_| admin.file_system());
        let log = log.map_err(StoreError::Io)?;
        check(&log)?;
        let told_ns = now_ns() as i64 - inline.cpu(cpu).now() as i64;
        Ok(FileDrive {
            recent: RefCell::new(client),
            admin,
            boot_cpu,
            cpu,
            root: root.map_err(FileError::from)?,
            appending: RefCell::default(),
            recovered: Recovered {
                replayed: Replayed {
                    groups: log.replayed_groups,
                    images: log.replayed_pages,
                    mended: log.mended,
                },
                orphans: log.orphans,
            },
            told_ns: Cell::new(told_ns),
            inline,
        })
    }

    /// What was done to bring the file system up to date.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Most bytes that one command moves.
    pub fn bytes_max(&self) -> usize {
        self.client().bytes_max()
    }

    /// Closes all that is open, makes everything durable, and ends the drive.
    ///
    /// # Errors
    /// Of the drive.
    pub fn end(self) -> Result<(), ImageError> {
        let client = self.recent.borrow().clone();
        Ok(self.done(client.leave())?)
    }

    /// Runs everything on this thread until the host's side of a command has its answer.
    ///
    /// # Errors
    /// That of the answer.
    pub(super) fn done<T>(
        &self,
        future: impl Future<Output = Result<T, wharf_host::files::FileError>>,
    ) -> Result<T, FileError> {
        let done = self.inline.block_on(self.cpu, |_| future);
        done.map_err(|error| FileError::Errno(error.errno()))
    }

    /// The client, for a caller; and tells the drive what time it is where it does not know.
    pub(super) fn as_caller(&self, by: By<'_>) -> StorClient {
        self.tell_time(by.now_ns);
        let mut recent = self.recent.borrow_mut();
        if recent.caller() != by.caller {
            *recent = recent.as_caller(by.caller.clone(), u64::MAX);
        }
        recent.clone()
    }

    /// The client, for what no caller is asked.
    pub(super) fn client(&self) -> StorClient {
        self.recent.borrow().clone()
    }

    /// Tells the drive what time it is, if its clock is apart from the system's.
    pub(super) fn tell_time(&self, now_ns: u64) {
        let apart_ns = now_ns as i64 - self.inline.cpu(self.cpu).now() as i64;
        if (apart_ns - self.told_ns.get()).abs() < DRIFT_NS {
            return;
        }
        let set = self.admin.set_time(now_ns / NS_PER_MS);
        // Who cannot be told keeps the time that it has.
        if self.inline.block_on(self.boot_cpu, |_| set).is_ok() {
            self.told_ns.set(apart_ns);
        }
    }

    pub(super) fn appends(&self, handle: Handle) -> bool {
        self.appending.borrow().contains(&handle)
    }
}

/// The drive, with a file system and memory for it.
fn with_files(mut config: DriveConfig) -> DriveConfig {
    config.file_system = Some(FileSystemKind::Wfs);
    let memory = &mut config.memory;
    (memory.metadata_bytes, memory.journal_bytes) = (METADATA_BYTES, JOURNAL_BYTES);
    memory.bytes = METADATA_BYTES + JOURNAL_BYTES + memory.transfer_bytes;
    config
}

/// What the drive says of its file system, if that is not that it is open.
fn check(log: &FileSystemLog) -> Result<(), ImageError> {
    let text = log.text();
    Err(match log.state() {
        Some(FileSystemState::Open) => return Ok(()),
        Some(FileSystemState::NoTable) => ImageError::Table(text),
        Some(FileSystemState::None) => ImageError::NoFileSystem,
        Some(FileSystemState::NotMade) => ImageError::Make(text),
        Some(FileSystemState::NoMemory) => ImageError::Memory(text),
        Some(FileSystemState::Damaged | FileSystemState::Opening) | None => {
            ImageError::Damaged(text)
        }
    })
}
