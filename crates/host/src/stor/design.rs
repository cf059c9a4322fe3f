//! The design `stor` (StorStack, JSA 2025): the file system runs in the drive, and the host keeps
//! nothing, or a cache for each process.
//!
//! Every operation on a file is a command of its client's own queue pairs, one for each firmware
//! core, unless the [cache](super::cache) of its process has what it is about; no operating system
//! stands between. What is there at the beginning the first client makes before a run, by commands.
//!
//! With `host.in_kernel` it does stand between: an operation is a system call, pages of the cache come
//! from its allocator, and a command goes by its block layer and ends by an interrupt.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::file::{lock_area, write_area};
use wharf_wire::identify::DriveFeature;
use wharf_wire::memory::SharedMemory;

use super::cache::{Compute, Process, StorFiles};
use super::{Credentials, StorClient, StorConfig};
use crate::design::{
    Amount, Design, DesignConfig, DesignError, FileParts, Gauges, Needs, NoBlocks, Parts,
};
use crate::driver::Driver;
use crate::files::{FileClient, FileError, make_files};
use crate::gate::Gate;
use crate::guest::{SharedDesign, Writers};
use crate::kit::kernel_path::KernelPath;

/// Pages by which a client is told, and behind them those from which the drive takes what it has written, and then its locks.
pub(super) const LEASE_PAGES: usize = 1 + write_area::AREA_PAGES + lock_area::AREA_PAGES;

/// A client's queue pairs.
type Bunch = Vec<Rc<Driver>>;

/// What the clients share: the memory that they have their buffers in, and threads of a process its cache.
pub struct Stor {
    space: Arc<DmaSpace>,
    own: StorConfig,
    /// What clients pay if they are in the operating system.
    kernel_path: KernelPath,
    /// The caches of the processes, by number; none if there are none.
    processes: Vec<Arc<Process>>,
    /// Open when what is to be there at the beginning is.
    begun: Gate<Result<(), FileError>>,
}

impl Design for Stor {
    const NAME: &'static str = "stor";

    const SUMMARY: &'static str = "a file system in the drive, by commands for files, with a cache for each process or none (StorStack)";

    const FILES_ALONE: bool = true;

    type Config = StorConfig;

    type Client = NoBlocks<Bunch>;

    fn has_cache(own: &StorConfig) -> bool {
        own.cache.is_some()
    }

    fn needs(config: &DesignConfig, own: &StorConfig) -> Needs {
        use DriveFeature::{DeviceCache, FileSystem};
        Needs {
            features: match (own.cache.is_near(), own.compute == Compute::Host) {
                (true, true) => &[FileSystem, DeviceCache],
                (true, false) => &[FileSystem, DeviceCache, DriveFeature::Compute],
                (false, true) => &[FileSystem],
                (false, false) => &[FileSystem, DriveFeature::Compute],
            },
            bunch: true,
            near_bytes: own.near_bytes(config.cache_bytes),
            attached_pages: own.buffer_pages as usize + LEASE_PAGES,
            bytes_per_page: match own.cache.is_some() {
                true => 64 + own.replacement.bytes_per_page(),
                false => 0,
            },
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &StorConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Stor, DesignError> {
        Stor::named(Self::NAME, config, own, space)
    }

    fn gauges(&self) -> Gauges {
        if self.processes.is_empty() {
            return Gauges::none();
        }
        let sum = |bytes: fn(&Process) -> u64| self.processes.iter().map(|one| bytes(one)).sum();
        let mut gauges = Gauges::none()
            .with_level("index_bytes", Amount::Bytes(sum(Process::index_bytes)))
            .with_level("near_bytes", Amount::Bytes(sum(Process::near_bytes)));
        for process in &self.processes {
            let with = |all: Gauges, (name, pages)| all.with(name, Amount::Count(pages));
            gauges.merge(&process.counts().fold(Gauges::none(), with));
        }
        gauges
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError> {
        Ok(NoBlocks(parts.devices.bunch().to_vec()))
    }

    async fn files(
        self: &Arc<Self>,
        client: Self::Client,
        parts: FileParts,
    ) -> Result<impl FileClient, FileError> {
        let (cpu, index) = (&parts.cpu, parts.index);
        let made = self.open_shown(&client, &parts).await;
        if index == 0 {
            let begun = match &made {
                Ok(client) => make_files(client, &parts.initially).await,
                Err(error) => Err(*error),
            };
            self.begun
                .open(cpu, begun.map(|numbers| parts.tell(numbers)));
        }
        self.begun.pass(cpu, index).await?;
        let client = made?;
        client.pay(self.kernel_path);
        Ok(self.files_of(client, index))
    }
}

impl Stor {
    /// The same as a part of the design of this name.
    pub(crate) fn named(
        name: &'static str,
        config: &DesignConfig,
        own: &StorConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Stor, DesignError> {
        let processes = match own.cache.is_some() {
            true => config.clients.div_ceil(own.threads),
            false => 0,
        };
        let process = |_| Process::new(name, config, own, space).map(Arc::new);
        Ok(Stor {
            space: space.clone(),
            own: own.clone(),
            kernel_path: KernelPath::new(config.in_kernel, config.file_system),
            processes: (0..processes).map(process).collect::<Result<_, _>>()?,
            begun: Gate::new(config.clients),
        })
    }

    /// The memory that clients have theirs in.
    pub(super) fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    /// Files by the commands of client number `index`, with the cache of its process if there is one.
    pub fn files_of(&self, client: StorClient, index: u32) -> StorFiles {
        let (process, thread) = (index / self.own.threads, index % self.own.threads);
        match self.processes.get(process as usize) {
            Some(process) => StorFiles::cached(client, process, thread),
            None => StorFiles::uncached(client, self.own.compute),
        }
    }

    /// Files by a client's queue pairs; a drive that has a key has been shown who it is.
    async fn open_shown(
        &self,
        client: &NoBlocks<Bunch>,
        parts: &FileParts,
    ) -> Result<StorClient, FileError> {
        // A client without memory for its buffers is one for whom there is no space.
        let opened = self.open_files(&parts.cpu, client);
        let opened = opened.map_err(|_| FileError::from(wharf_files::Errno::ENOSPC))?;
        if let Some(key) = &parts.key {
            opened.authenticate(&Credentials::root(key)).await?;
        }
        Ok(opened)
    }

    /// Files by a client's queue pairs.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn open_files(
        &self,
        cpu: &Cpu,
        client: &NoBlocks<Bunch>,
    ) -> Result<StorClient, RegisterError> {
        StorClient::new(cpu, &self.space, client.0.clone(), &self.own)
    }
}

/// Processes share the drive, which closes what a guest has open when its queue pair is deleted. Of the host's memory
/// they share nothing.
impl SharedDesign for Stor {
    fn shared_parts(_: &DesignConfig) -> Vec<(usize, Writers)> {
        Vec::new()
    }

    fn shared_memory(&self) -> Vec<Arc<SharedMemory>> {
        Vec::new()
    }

    fn attach(
        config: &DesignConfig,
        own: &StorConfig,
        space: &Arc<DmaSpace>,
        _: &[Arc<SharedMemory>],
        _: u32,
    ) -> Result<Stor, DesignError> {
        Stor::new(config, own, space)
    }

    fn frames_max(&self, _: u32, _: u32) -> Result<u32, DesignError> {
        Ok(0)
    }

    fn admit(&self, _: u32) {}

    fn mend(&self, _: Option<u32>) {}

    fn forget(&self, _: u32) {}
}
