//! The designs `ext4-model` and `ext4-scale`: a journaling file system on the host, above a page cache in the
//! operating system. The first is what a file system in the drive is compared with.
//!
//! Problem: the figures of papers put file systems in drives beside ext4. How much of the difference
//! comes from the place, and how much from ext4 being another file system?
//!
//! Idea: the same file system in both places. Here it is wfs (`wharf_files::block`), the very code
//! that firmware cores run, above design [`kernel`](crate::kernel), or above [`scale`](crate::scale) in the
//! operating system, as ScaleCache is a change to Linux below ext4 (section 4):
//!
//! 1. Every operation enters by a system call, once.
//! 2. wfs does it, on the CPU of whoever asks. Its pages, of files and of metadata, are those of the
//!    page cache.
//! 3. The cache reads and writes the drive as it does, with block requests and interrupts.
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
use crate::kernel::{Kernel, KernelConfig};
use crate::kit::kernel_path::KernelPath;
use crate::scale::{Scale, ScaleConfig, Whole};
use crate::span::Extent;
use crate::volume::Volume;

/// Bytes of metadata that wfs keeps in memory for each byte of the page cache, at most.
const METADATA_SHARE: u64 = 8;

/// What the file system stands on.
pub trait Below: Send + Sync + 'static {
    /// The name of the design.
    const NAME: &'static str;
    /// What it is, in a few words.
    const SUMMARY: &'static str;
    /// The page cache.
    type Cache: Design;

    /// The page cache, with its own settings as they are by themselves, for requests from within the operating system.
    ///
    /// # Errors
    /// As [`Design::new`].
    fn new(config: &DesignConfig, space: &Arc<DmaSpace>) -> Result<Self::Cache, DesignError>;
}

/// The page cache of Linux.
pub struct OnKernel;

impl Below for OnKernel {
    const NAME: &'static str = "ext4-model";

    const SUMMARY: &'static str =
        "a journaling file system in the operating system, above the page cache of `kernel`";

    type Cache = Kernel;

    fn new(config: &DesignConfig, space: &Arc<DmaSpace>) -> Result<Kernel, DesignError> {
        Ok(Kernel::new(config, &KernelConfig::default(), space)?.from_within())
    }
}

/// ScaleCache's.
pub struct OnScale;

impl Below for OnScale {
    const NAME: &'static str = "ext4-scale";

    const SUMMARY: &'static str =
        "the same file system above the page cache of `scale`, in the operating system";

    type Cache = Scale<Whole>;

    fn new(config: &DesignConfig, space: &Arc<DmaSpace>) -> Result<Scale<Whole>, DesignError> {
        Ok(Scale::new(config, &ScaleConfig::default(), space)?.from_within())
    }
}

/// A client of the cache.
type CacheClient<B> = <<B as Below>::Cache as Design>::Client;

/// The file system, as all clients see it.
type Shared<C> = Result<Arc<Wfs<ClientPages<Cached<C>>>>, FileError>;

crate::settings! {
    /// What a file system on the host is told.
    pub struct Ext4Config {
        /// Whether bytes of files go past the page cache, as with `O_DIRECT`.
        pub direct: bool = false;
    }
}

/// What a CPU has below the file system.
struct Cached<C> {
    cache: C,
    /// For bytes of files, if they go past the cache.
    direct: Option<DirectClient>,
}

/// See the module.
pub struct Ext4Model<B: Below = OnKernel> {
    cache: Arc<B::Cache>,
    /// For bytes of files that go past the cache.
    past: Option<Arc<Direct>>,
    /// Makes the files of the beginning.
    direct: Arc<Direct>,
    ready: Gate<Shared<CacheClient<B>>>,
    metadata_bytes: usize,
}

/// A client's part of the cache, before it has files.
pub struct Ext4Client<C> {
    cached: Cached<C>,
    /// Only of the client that makes the file system.
    direct: Option<DirectClient>,
    volume: Rc<Volume>,
}

impl<B: Below> Design for Ext4Model<B> {
    const NAME: &'static str = B::NAME;

    const SUMMARY: &'static str = B::SUMMARY;

    const TABLE: &'static str = "ext4-model";

    const FILES_ALONE: bool = true;

    type Config = Ext4Config;

    type Client = NoBlocks<Ext4Client<CacheClient<B>>>;

    fn needs(config: &DesignConfig, _: &Ext4Config) -> Needs {
        let own = <B::Cache as Design>::Config::default();
        B::Cache::needs(&in_kernel(config), &own)
    }

    fn new(
        config: &DesignConfig,
        own: &Ext4Config,
        space: &Arc<DmaSpace>,
    ) -> Result<Ext4Model<B>, DesignError> {
        let within = in_kernel(config);
        let past = match own.direct {
            true => {
                let past = Direct::new(&within, &NoSettings {}, space)?;
                Some(Arc::new(past.from_within()))
            }
            false => None,
        };
        let around = DesignConfig {
            in_kernel: false,
            ..within
        };
        Ok(Ext4Model {
            past,
            cache: Arc::new(B::new(&within, space)?),
            direct: Arc::new(Direct::new(&around, &NoSettings {}, space)?),
            ready: Gate::new(config.clients),
            metadata_bytes: (config.cache_bytes / METADATA_SHARE) as usize,
        })
    }

    fn gauges(&self) -> Gauges {
        self.cache.gauges()
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
            cache: self.cache.client(parts)?,
            direct: past.transpose()?,
        };
        Ok(NoBlocks(Ext4Client {
            cached,
            direct,
            volume,
        }))
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        self.cache.serve(parts)
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

impl<C: Client> BlocksBelow for Cached<C> {
    type Metadata = C;

    fn metadata(&self) -> &C {
        &self.cache
    }

    async fn read_data(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        match &self.direct {
            Some(direct) => direct.read(extent, out).await,
            None => self.cache.read(extent, out).await,
        }
    }

    async fn write_data(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        match &self.direct {
            Some(direct) => direct.write(extent, data).await,
            None => self.cache.write(extent, data).await,
        }
    }

    fn statistics(&self) -> Statistics {
        let mut all = Client::statistics(&self.cache);
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
enum Way<C> {
    Waits(Cached<C>),
    Knows(Known<Cached<C>>),
}

use Way::{Knows, Waits};

fn told(error: FilesError) -> FileError {
    FileError::Errno(error.errno())
}

/// What the cache is told: the file system says which pages are whose, and the cache has the volume as one file.
fn in_kernel(config: &DesignConfig) -> DesignConfig {
    DesignConfig {
        files: 1,
        file_system: false,
        in_kernel: true,
        ..*config
    }
}

impl<B: Below> Ext4Model<B> {
    /// Makes the file system and what is to be in it around the cache, then opens it.
    async fn begin(
        &self,
        cpu: &Cpu,
        (direct, cached): (DirectClient, Cached<CacheClient<B>>),
        volume: &Volume,
        parts: &FileParts,
    ) -> (Way<CacheClient<B>>, Shared<CacheClient<B>>) {
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
