//! What lies below the cache: the drives of a [`Volume`], or whatever else keeps the pages of
//! files.
//!
//! Each CPU has a backing of its own, as it has a volume of its own, and all its files are behind
//! it. The cache knows pages and frames; that there are drives, queues or system calls is known
//! here alone.

use std::rc::Rc;

use wharf_runtime::Cpu;
use wharf_wire::dma::DmaRegion;

use crate::error::IoError;
use crate::group::Group;
use crate::kit::kernel_path::KernelPath;
use crate::kit::run::Run;
use crate::parts_of_volume::VolumeParts;
use crate::volume::{Transfer, Volume};

/// See the module.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Backing: 'static {
    /// A transfer that has begun.
    type Sent: Sent;

    /// Pages of a file, also those that are only in the cache yet.
    fn pages(&self, file: u32) -> u64;

    /// Does `f`, which begins to read pages of a file; does nothing if the file is gone, or just
    /// being cut or closed.
    fn while_open(&self, _file: u32, f: impl FnOnce()) {
        f();
    }

    /// Begins a transfer of neighbouring pages of a file. Their frames are the backing's until it
    /// [is quiet](Sent::is_quiet): nobody else touches those of a read, or changes those of a
    /// write.
    async fn begin(
        &self,
        cpu: &Cpu,
        kind: Transfer,
        file: u32,
        run: &Run,
        memory: &DmaRegion,
    ) -> Self::Sent;

    /// Makes durable the pages of a file that were written before.
    ///
    /// # Errors
    /// The storage's.
    async fn flush(&self, cpu: &Cpu, file: u32) -> Result<(), IoError>;
}

/// A transfer on its way.
#[allow(async_fn_in_trait)] // as above
pub trait Sent {
    /// Waits until it has ended, or is known to be late.
    ///
    /// # Errors
    /// The storage's.
    async fn wait(&self, cpu: &Cpu) -> Result<(), IoError>;

    /// True if nothing uses its frames any more. After an error of [`Sent::wait`] it may be late.
    fn is_quiet(&self) -> bool;

    /// Has the running task woken at every change from now on.
    fn watch(&self, cpu: &Cpu);
}

/// Drives: the files are parts of their volume.
pub struct VolumeFiles {
    /// The drives.
    pub volume: Rc<Volume>,
    /// How the volume is divided.
    pub files: VolumeParts,
    /// What commands cost besides.
    pub kernel_path: KernelPath,
}

/// Commands on their way.
pub struct Commands {
    group: Group,
    requests: u32,
    kernel_path: KernelPath,
}

impl Backing for VolumeFiles {
    type Sent = Commands;

    fn pages(&self, file: u32) -> u64 {
        self.files.pages_of(file)
    }

    async fn begin(
        &self,
        cpu: &Cpu,
        kind: Transfer,
        file: u32,
        run: &Run,
        memory: &DmaRegion,
    ) -> Commands {
        let address = |frame: &u32| memory.address(*frame as usize);
        let addresses: Vec<u64> = run.frames.iter().map(address).collect();
        let first = self.files.in_volume(file, run.first);
        let pages = addresses.len() as u64;
        let requests = self.volume.commands_of(kind, first, pages);
        self.kernel_path.submit(cpu, requests);
        let group = self.volume.open_group();
        self.volume.issue(&group, kind, first, &addresses).await;
        self.volume.ring();
        Commands {
            group,
            requests,
            kernel_path: self.kernel_path,
        }
    }

    async fn flush(&self, cpu: &Cpu, _: u32) -> Result<(), IoError> {
        self.volume.flush(cpu).await
    }
}

impl Sent for Commands {
    async fn wait(&self, cpu: &Cpu) -> Result<(), IoError> {
        let ended = self.group.wait(cpu).await;
        self.kernel_path.complete(cpu, self.requests);
        ended.map(drop)
    }

    fn is_quiet(&self) -> bool {
        self.group.is_quiet()
    }

    fn watch(&self, cpu: &Cpu) {
        self.group.watch(cpu);
    }
}
