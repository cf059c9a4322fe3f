//! The design `ext4-model`: a journaling file system on the host, above the page cache of the
//! operating system. It is what a file system in the drive is compared with.
//!
//! Problem: the figures of papers put file systems in drives beside ext4. How much of the difference
//! comes from the place, and how much from ext4 being another file system?
//!
//! Idea: the same file system in both places. Here it is wfs (`wharf_files::block`), the very code
//! that firmware cores run, above design [`kernel`](crate::kernel):
//!
//! 1. Every operation enters by a system call, once.
//! 2. wfs does it, on the CPU of whoever asks. Its pages, of files and of metadata, are those of the
//!    page cache.
//! 3. The cache reads and writes the drive as `kernel` does, with block requests and interrupts.
//!
//! With `design.ext4-model.direct`, files are open for direct I/O (`O_DIRECT`): their bytes go past the cache, by
//! block requests of the size of the program's, and the CPU sleeps until they end. Metadata are cached all the same.
//!
//! What it is not: ext4's journal is written by a thread of its own, and ext4 gives pages to files when they
//! are written back. Files of the beginning are made without the cache, which is cold when a run begins.

use std::rc::Rc;
use std::sync::Arc;

use wharf_files::block::{self, Make, Wfs};
use wharf_files::{Errno, FileError as FilesError};
use wharf_runtime::{Cpu, OnCpu};
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Client, Design, DesignConfig, DesignError, FileParts, Gauges, Needs, NoBlocks, NoSettings,
    Parts, Statistics, Touch,
};
use crate::direct::{Direct, DirectClient};
use crate::error::IoError;
use crate::files::{
    BlocksBelow, ClientPages, FileClient, FileError, Initially, Known, SessionFiles, make_files,
};
use crate::gate::Gate;
use crate::kernel::{Kernel, KernelClient, KernelConfig};
use crate::kit::kernel_path::KernelPath;
use crate::span::Extent;
use crate::volume::Volume;

/// Bytes of metadata that wfs keeps in memory for each byte of the page cache, at most.
const METADATA_SHARE: u64 = 8;

/// The file system, as all clients see it.
type Shared = Result<Arc<Wfs<ClientPages<Cached>>>, FileError>;

crate::settings! {
    /// What a file system on the host is told.
    pub struct Ext4Config {
        /// Whether bytes of files go past the page cache, as with `O_DIRECT`.
        pub direct: bool = false;
    }
}

/// What a CPU has below the file system.
struct Cached {
    kernel: KernelClient,
    /// For bytes of files, if they go past the cache.
    direct: Option<DirectClient>,
}

/// See the module.
pub struct Ext4Model {
    kernel: Arc<Kernel>,
    /// For bytes of files that go past the cache.
    past: Option<Arc<Direct>>,
    /// Makes the files of the beginning.
    direct: Arc<Direct>,
    ready: Gate<Shared>,
    metadata_bytes: usize,
}

/// A client's part of the cache, before it has files.
pub struct Ext4Client {
    cached: Cached,
    /// Only of the client that makes the file system.
    direct: Option<DirectClient>,
    volume: Rc<Volume>,
}

impl Design for Ext4Model {
    const NAME: &'static str = "ext4-model";

    const SUMMARY: &'static str =
        "a journaling file system in the operating system, above the page cache of `kernel`";

    const FILES_ALONE: bool = true;

    type Config = Ext4Config;

    type Client = NoBlocks<Ext4Client>;

    fn needs(config: &DesignConfig, _: &Ext4Config) -> Needs {
        Kernel::needs(config, &KernelConfig::default())
    }

    fn new(
        config: &DesignConfig,
        own: &Ext4Config,
        space: &Arc<DmaSpace>,
    ) -> Result<Ext4Model, DesignError> {
        let within = DesignConfig {
            // The file system says which pages are whose; the cache has the volume as one file.
            files: 1,
            file_system: false,
            ..*config
        };
        let past = match own.direct {
            true => {
                let in_kernel = DesignConfig {
                    in_kernel: true,
                    ..within
                };
                let past = Direct::new(&in_kernel, &NoSettings {}, space)?;
                Some(Arc::new(past.from_within()))
            }
            false => None,
        };
        Ok(Ext4Model {
            past,
            kernel: Arc::new(Kernel::new(&within, &KernelConfig::default(), space)?),
            direct: Arc::new(Direct::new(&within, &NoSettings {}, space)?),
            ready: Gate::new(config.clients),
            metadata_bytes: (config.cache_bytes / METADATA_SHARE) as usize,
        })
    }

    fn gauges(&self) -> Gauges {
        self.kernel.gauges()
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError> {
        let (volume, cpu, index) = (parts.cache(), parts.cpu.clone(), parts.index);
        let direct = match index {
            0 => Some(self.direct.client(Parts::new(&cpu, volume.clone(), 0))?),
            _ => None,
        };
        let past = self.past.as_ref();
        let past = past.map(|past| past.client(Parts::new(&cpu, volume.clone(), index)));
        let cached = Cached {
            kernel: self.kernel.client(parts)?.from_within(),
            direct: past.transpose()?,
        };
        Ok(NoBlocks(Ext4Client {
            cached,
            direct,
            volume,
        }))
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        self.kernel.serve(parts)
    }

    async fn files(
        self: &Arc<Self>,
        client: Self::Client,
        parts: FileParts,
    ) -> Result<impl FileClient, FileError> {
        let Ext4Client {
            cached,
            direct,
            volume,
        } = client.0;
        let cpu = &parts.cpu;
        let known = match direct {
            Some(direct) => {
                let (known, shared) = self.begin(cpu, (direct, cached), &volume, &parts).await;
                self.ready.open(cpu, shared);
                known
            }
            None => Waits(cached),
        };
        let fs = self.ready.pass(cpu, parts.index).await?;
        let known = match known {
            Waits(cached) => fs.pages().know(cpu.index(), cached),
            Knows(known) => known,
        };
        let entry = KernelPath::new(true, false);
        Ok(SessionFiles::new(cpu, fs, known, entry))
    }
}

impl BlocksBelow for Cached {
    type Metadata = KernelClient;

    fn metadata(&self) -> &KernelClient {
        &self.kernel
    }

    async fn read_data(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        match &self.direct {
            Some(direct) => direct.read(extent, out).await,
            None => self.kernel.read(extent, out).await,
        }
    }

    async fn write_data(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        match &self.direct {
            Some(direct) => direct.write(extent, data).await,
            None => self.kernel.write(extent, data).await,
        }
    }

    fn statistics(&self) -> Statistics {
        let mut all = Client::statistics(&self.kernel);
        if let Some(direct) = &self.direct {
            // Both have the same drivers.
            let driver = all.driver;
            all.merge(&Client::statistics(direct));
            all.driver = driver;
        }
        all
    }
}

/// A client's way to the cache, before and after the file system knows it.
enum Way {
    Waits(Cached),
    Knows(Known<Cached>),
}

use Way::{Knows, Waits};

fn told(error: FilesError) -> FileError {
    FileError::Errno(error.errno())
}

impl Ext4Model {
    /// Makes the file system and what is to be in it around the cache, then opens it.
    async fn begin(
        &self,
        cpu: &Cpu,
        (direct, cached): (DirectClient, Cached),
        volume: &Volume,
        parts: &FileParts,
    ) -> (Way, Shared) {
        let made = make_around(cpu, direct, volume.pages(), &parts.initially).await;
        match made {
            Ok(numbers) => parts.tell(numbers),
            Err(error) => return (Waits(cached), Err(error)),
        }
        let pages = ClientPages::new(volume.pages());
        let known = pages.know(cpu.index(), cached);
        let opened = OnCpu::new(cpu, Wfs::open(pages, self.metadata_bytes)).await;
        (
            Knows(known),
            opened.map(|(fs, _)| Arc::new(fs)).map_err(told),
        )
    }
}

/// Bytes of metadata that are kept while files are made.
const MAKING_BYTES: usize = 16 << 20;

/// Makes a file system, with what is to be in it, past every cache.
async fn make_around(
    cpu: &Cpu,
    direct: DirectClient,
    volume_pages: u64,
    initially: &[Initially],
) -> Result<Vec<u64>, FileError> {
    let pages = ClientPages::new(volume_pages);
    let known = pages.know(cpu.index(), direct);
    let make = Make {
        file_system: 1,
        hash_key: [1, 2],
        now_ns: cpu.now(),
        uid: 0,
        gid: 0,
        mode: 0o755,
    };
    let made = async {
        let made = block::make(&pages, make).await;
        made.map_err(|error| match error {
            block::MakeError::Fault(fault) => fault.into(),
            block::MakeError::Size => FilesError::from(Errno::ENOSPC),
        })?;
        Ok(Arc::new(Wfs::open(pages, MAKING_BYTES).await?.0))
    };
    let fs = OnCpu::new(cpu, made).await.map_err(told)?;
    let files = SessionFiles::new(cpu, fs.clone(), known, KernelPath::new(false, false));
    let numbers = make_files(&files, initially).await?;
    OnCpu::new(cpu, fs.settle()).await.map_err(told)?;
    Ok(numbers)
}
