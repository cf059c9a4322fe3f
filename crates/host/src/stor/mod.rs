//! Files of a file system that runs in the drive: a client that sends the commands for files (section 6.7 of
//! `docs/command-set.md`).
//!
//! Problem: the drive serves files on its cores, and which core serves a file matters: what it has at hand, and who waits
//! for whom.
//!
//! Idea: a client has a *bunch* of queue pairs, one for each core of the drive, and a [`Placement`] says by which of them a
//! command goes. It keeps nothing of files but the number of what each handle stands for.
//!
//! The walk of a read: [`StorClient::read`] takes pages (`send.rs`), the placement names a queue pair (`placement.rs`),
//! the driver sends the command, and what the drive has written to the pages is copied out.
//!
//! A client speaks for a [`Caller`], and [`StorClient::as_caller`] for another one, with the same
//! open files: front ends that serve many have one client on each CPU. Paths and targets are those of
//! [`wharf_files::vfs`], with numbers in the place of paths too, so whoever uses a
//! [`Session`](wharf_files::vfs::Session) finds the same operations here.
//!
//! | file | idea |
//! |---|---|
//! | `placement.rs` | which queue pair a command goes by |
//! | `send.rs`, `pages.rs` | one command: pages for its data, its end, its error |
//! | `credentials.rs`, `authenticate.rs` | who the client is, and what proves it; showing it to the drive |
//! | `data.rs` | operations on open files |
//! | `near.rs` | the same by way of the cache in the drive's memory |
//! | `vector.rs` | functions of bytes that the drive computes |
//! | `locks.rs` | locks of open files |
//! | `lease.rs` | leases of open files |
//! | `names.rs` | operations by path: opening, asking, changing |
//! | `attributes.rs` | attributes and extended attributes |
//! | `convert.rs` | words of file systems as those of commands, and back |
//! | `design.rs` | the design `stor` |
//! | [`cache`] | the cache of a process before the commands |
//! | `client.rs` | the client as whoever is given any file client has it |

mod attributes;
mod authenticate;
pub mod cache;
mod client;
mod convert;
mod credentials;
mod data;
mod design;
mod lease;
mod locks;
mod names;
mod near;
mod pages;
mod placement;
mod send;
mod vector;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::{Caller, Handle};
use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::window::Window;

use crate::buffers::Buffers;
use crate::design::Replacement;
use crate::driver::Driver;
use crate::files::FileStatistics;
use crate::kit::kernel_path::KernelPath;
use crate::late::LateCompletions;

pub use cache::{CacheMode, Compute, Eviction, Load, ReadFill, Sides, StorFiles, Without};
use credentials::Access;
pub use credentials::{Credentials, Renewal};
pub use design::Stor;
pub use lease::Leased;
pub use locks::{HeldLock, LockRequest};
use pages::{PAGE, Pages};
use placement::Lanes;
pub use placement::Placement;
pub use vector::{Buffer, Computed, Source, StepResult, Target, Vector};

crate::settings! {
    /// What the client of a file system in the drive is told.
    pub struct StorConfig {
        /// Which queue pair, and so which core of the drive, a command goes to: `by-inode` (all of
        /// a file to the same), `round-robin`, `least-loaded` (the one with the fewest commands of
        /// this client), `read-spread` (reads in turn, all else by file).
        pub placement: Placement = Placement::ByInode;
        /// Pages of memory that a client has for data and requests.
        pub buffer_pages: u32 = 512, in 32..=65_536;
        /// What becomes of a write in the cache of a process: `none` (there is no cache),
        /// `write-back`, `write-around` (it goes to the drive, and the cache forgets its pages),
        /// `write-through`, `near` (what makes a file longer is kept, all else goes by way of the cache
        /// in the drive's memory). The processes have equal parts of the host's cache.
        pub cache: CacheMode = CacheMode::None;
        /// The share of the host's cache that is in the drive's memory instead, where `cache` is `near`.
        pub device_share: f64 = 0.2, in 0.01..=0.99;
        /// Clients that are threads of one process, and share its cache. Nothing keeps caches of
        /// different processes in step.
        pub threads: u32 = 1, in 1..=1_024;
        /// Files that a cache has pages of at a time, those that are open among them.
        pub cache_files: u32 = 1_024, in 1..=65_536;
        /// With `near`: what becomes of pages in neither cache, of which a part is read, if the drive's cache
        /// has no room: `host` (they go to the host's cache, as far as that has room) or `paper` (they stay
        /// where they are, as OmniCache's paper says).
        pub read_fill: ReadFill = ReadFill::Host;
        /// With `near`: a range of a file that was not used for so long leaves the drive's cache when that
        /// has no room. OmniCache's has 30 s.
        pub epoch_ns: u64 = 1_000_000_000, in 0..=3_600_000_000_000;
        /// Which pages leave before there is no room: `clock` (none of the host's cache: `replacement` names one when one is needed), or
        /// `two-step` (in the background, of either cache: first those of files that are closed or were not used for
        /// `inactive_ns`; if still less than `low_water` is free, the ranges of up to 2 MiB that were used least lately).
        pub eviction: Eviction = Eviction::Clock;
        /// With `eviction = "two-step"`: the share of a cache below which ranges leave it. OmniCache has a tenth.
        pub low_water: f64 = 0.1, in 0.01..=0.5;
        /// With `eviction = "two-step"`: a file that was not used for so long is inactive. OmniCache has 30 s.
        pub inactive_ns: u64 = 30_000_000_000, in 0..=3_600_000_000_000;
        /// Who computes on files, where a workload has something computed: `host`; `drive`; `presence` (the host if it
        /// has more of the pages than the drive's cache); `dynamic` (whoever is expected to be done first), and with terms of that left
        /// out `data` (that of moving data alone) and `exec` (moving and computing). Without a cache it is the drive, unless it is `host`.
        /// What the drive refuses the host computes.
        pub compute: Compute = Compute::Host;
        /// With `near`: a part that is left out, so that what it does is seen: `nothing`; `ranges` (a lock is of a
        /// whole file); `exclusion` (a page that comes to the host's cache stays in the drive's too); `near-io`
        /// (whole pages cross the link).
        pub without: Without = Without::Nothing;
        /// With `near`, on a link that carries loads and stores (`drive.link.kind` is `cxl`): whether pages of the drive's cache
        /// are loaded and stored, and not read and written by commands.
        pub window: bool = true;
        /// Most pages that a cache reads ahead at a time. StorStack's reads 7, then 8 more.
        pub read_ahead_pages: u32 = 15, in 1..=4_096;
        /// With `near`: most pages that the drive brings to its own cache at a time ahead of who goes through a file in order by less than a page
        /// at a time; only bytes that are asked for cross the link then. 0: pages come to the host's cache ahead. OmniCache has 512 (2 MiB).
        /// No more than a 32nd of the drive's cache.
        pub prefetch_pages: u32 = 0, in 0..=512;
        /// Which page leaves the cache of a process next: as `design.scale.replacement`.
        pub replacement: Replacement = Replacement::Clock;
    }
}

/// See the [module](self). Clones are the same client.
#[derive(Clone)]
pub struct StorClient {
    inner: Rc<Inner>,
    caller: Rc<Caller>,
    file_bytes_max: u64,
    /// See [`StorClient::with_links_leaving`].
    links_leave: bool,
}

struct Inner {
    cpu: Cpu,
    lanes: Lanes,
    access: Access,
    buffers: Buffers,
    /// Most bytes of a command.
    bytes_max: usize,
    /// The number of what each handle stands for, by its index, with its generation.
    numbers: RefCell<Vec<(u32, u64)>>,
    statistics: Cell<FileStatistics>,
    /// Commands that may wait in the drive for a lock.
    lock_waits: Cell<usize>,
    /// Vectors of commands that are done, to be used again.
    spare: RefCell<Vec<Pages>>,
    late: LateCompletions<Pages>,
    /// What it pays if it is in the operating system.
    kernel_path: Cell<KernelPath>,
    /// Pages of the drive's cache that can be loaded and stored.
    window: Option<Arc<Window>>,
}

impl StorConfig {
    /// Of a cache of so many bytes, those that are in the drive's memory: whole pages.
    pub(crate) fn near_bytes(&self, cache_bytes: u64) -> u64 {
        match self.cache.is_near() {
            true => (cache_bytes as f64 * self.device_share) as u64 / PAGE as u64 * PAGE as u64,
            false => 0,
        }
    }
}

impl StorClient {
    /// A client on `cpu`, which speaks for root, over a bunch: `drivers` of queue pairs of one drive, either one that goes
    /// to any core, or one for each core in order.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If there are no drivers.
    pub fn new(
        cpu: &Cpu,
        space: &Arc<DmaSpace>,
        drivers: Vec<Rc<Driver>>,
        config: &StorConfig,
    ) -> Result<StorClient, RegisterError> {
        let pages = drivers
            .iter()
            .map(|driver| driver.config().max_transfer_pages);
        let pages = pages.min().expect("a client has a queue pair");
        let inner = Rc::new(Inner {
            cpu: cpu.clone(),
            lanes: Lanes::new(drivers, config.placement, cpu.index()),
            access: Access::default(),
            bytes_max: PAGE * pages.min(config.buffer_pages) as usize,
            buffers: Buffers::new_whole(space, config.buffer_pages)?,
            numbers: RefCell::default(),
            statistics: Cell::default(),
            lock_waits: Cell::default(),
            spare: RefCell::default(),
            late: LateCompletions::default(),
            kernel_path: Cell::new(KernelPath::new(false, false)),
            window: space
                .window()
                .filter(|_| config.window && config.without != Without::NearIo),
        });
        let owner = inner.clone();
        cpu.spawn("stor late completions", async move {
            let release = |_, held| owner.release(held);
            owner.late.run(&owner.cpu, release).await;
        });
        Ok(StorClient {
            inner,
            caller: Rc::new(Caller::root()),
            file_bytes_max: u64::MAX,
            links_leave: false,
        })
    }

    /// The same open files, for what another caller does, whose files grow to `file_bytes_max` at most. What is
    /// done by a handle is done as who opened it.
    #[must_use]
    pub fn as_caller(&self, caller: Caller, file_bytes_max: u64) -> StorClient {
        StorClient {
            inner: self.inner.clone(),
            caller: Rc::new(caller),
            file_bytes_max,
            links_leave: self.links_leave,
        }
    }

    /// The same, where symbolic links to absolute paths, and `..` in the root, lead out of the file system (`EREMOTE`).
    #[must_use]
    pub fn with_links_leaving(self) -> StorClient {
        StorClient {
            links_leave: true,
            ..self
        }
    }

    /// Who it speaks for.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// It pays this to the operating system from now on, for all callers: for each operation that a program asks for, and
    /// for each command.
    pub(crate) fn pay(&self, kernel_path: KernelPath) {
        self.inner.kernel_path.set(kernel_path);
    }

    /// What it did so far, for all callers.
    pub fn counted(&self) -> FileStatistics {
        self.inner.statistics.get()
    }

    /// Notes what a handle stands for.
    fn note_number(&self, handle: Handle, number: u64) {
        let mut numbers = self.inner.numbers.borrow_mut();
        let index = handle.index as usize;
        if numbers.len() <= index {
            numbers.resize(index + 1, (0, 0));
        }
        numbers[index] = (handle.generation, number);
    }

    /// The number of what a handle stands for; its index if that is not known.
    fn number(&self, handle: Handle) -> u64 {
        let numbers = self.inner.numbers.borrow();
        match numbers.get(handle.index as usize) {
            Some((generation, number)) if *generation == handle.generation => *number,
            _ => handle.index.into(),
        }
    }
}
