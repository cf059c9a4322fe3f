//! The design as the lab knows it: its settings, what clients share, clients over a volume.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::Ordering;
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Amount, Client, Design, DesignConfig, DesignError, Gauges, Needs, Parts, Reclaim, Replacement,
    Statistics, Touch, WritePolicy, check_request,
};
use crate::dflush::{Balance, SHARE_PAGES};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::kit::backing::VolumeFiles;
use crate::kit::concurrent::Concurrent;
use crate::kit::index::Index;
use crate::kit::locked::Locked;
use crate::kit::readahead::WINDOW_PAGES;
use crate::parts_of_volume::{Piece, VolumeParts};
use crate::scale::local::Local;
use crate::scale::shared::{Shape, Shared};
use crate::span::Extent;
use crate::volume::Volume;

/// Which parts of the design a variant of it has.
pub trait Variant: Send + Sync + 'static {
    /// The name by which it is chosen and reported.
    const NAME: &'static str;
    /// What it is, in a few words.
    const SUMMARY: &'static str;
    /// The index.
    type Index: Index;
}

/// The design whole.
pub struct Whole;

impl Variant for Whole {
    const NAME: &'static str = "scale";
    const SUMMARY: &'static str =
        "a page cache in the process: an index without locks, writers that flush";
    type Index = Concurrent;
}

/// Direct flush over an index with a lock: one half of the design.
pub struct DflushAlone;

impl Variant for DflushAlone {
    const NAME: &'static str = "scale-dflush";
    const SUMMARY: &'static str = "the same over an index under a lock";
    type Index = Locked;
}

crate::settings! {
    /// What the page cache of a process is told.
    pub struct ScaleConfig {
        /// Which page leaves the cache next: `clock`: the next under CLOCK's hand that was not used
        /// since; `lru`: two lists, as in Linux.
        pub replacement: Replacement = Replacement::Clock;
        /// What a writer does when too much is dirty: `flush`: so many pages at a time, which it
        /// waits for; `flush-files`: all of a file, and of the next as long as more than
        /// `dirty_background_share` is dirty, without waiting for the writes; `sleep-then-flush`:
        /// it sleeps until a write ends or a millisecond is over, and flushes then, as ScaleCache's
        /// published code; `sleep`.
        pub dflush: Balance = Balance::Flush;
        /// Most pages that such a writer writes before it looks again.
        pub dflush_share_pages: u32 = SHARE_PAGES, in 1..=1_048_576;
        /// When empty nodes of the index go (`scale`): `eager`: with their last page; `lazy`: when
        /// their part of the file is deleted, as ScaleCache has it.
        pub index_reclaim: Reclaim = Reclaim::Eager;
    }
}

/// What the clients share: the cache.
pub struct Scale<V: Variant> {
    shared: Arc<Shared<V::Index>>,
    policy: WritePolicy,
}

impl<V: Variant> Design for Scale<V> {
    const NAME: &'static str = V::NAME;

    const SUMMARY: &'static str = V::SUMMARY;

    const TABLE: &'static str = "scale";

    type Config = ScaleConfig;

    type Client = ScaleClient<V::Index>;

    fn needs(config: &DesignConfig, _: &ScaleConfig) -> Needs {
        Needs {
            services: 1,
            bytes_per_page: 64,
            in_kernel: config.in_kernel,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &ScaleConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Scale<V>, DesignError> {
        let design = Self::NAME;
        let shape = Shape {
            frames: config.frames(design)?,
            files: config.files(design)?,
            balance: own.dflush,
            replacement: own.replacement,
            reclaim: own.index_reclaim,
            has_flusher: true,
            has_read_ahead_thread: false,
            window_pages: WINDOW_PAGES,
            share_pages: own.dflush_share_pages.into(),
        };
        let shared = Shared::new(config, &shape, space)
            .map_err(|source| DesignError::Memory { design, source })?;
        shared.use_file(shape.files - 1);
        Ok(Scale {
            shared: Arc::new(shared),
            policy: config.write_policy,
        })
    }

    fn gauges(&self) -> Gauges {
        let files = self.shared.files.iter();
        let nodes = files.map(|file| file.index.nodes()).sum();
        Gauges::none().with_level("index_nodes", Amount::Count(nodes))
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<Self::Client, DesignError> {
        let local = self.start(&parts.cpu, parts.cache(), parts.index);
        let told = |file| self.shared.files[file as usize].told();
        Ok(ScaleClient {
            told: (0..self.shared.files_used()).map(told).collect(),
            local,
            policy: self.policy,
        })
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        let index = self.shared.common.clients + parts.index;
        let local = self.start(&parts.cpu, parts.cache(), index);
        parts.cpu.spawn("flusher", local.flush_in_background());
        Ok(())
    }
}

impl<V: Variant> Scale<V> {
    /// The same for a file system in the operating system: requests come from within, and enter by no system call.
    ///
    /// # Panics
    /// If it has clients.
    #[must_use]
    pub fn from_within(mut self) -> Scale<V> {
        let shared = Arc::get_mut(&mut self.shared).expect("it has no clients yet");
        shared.common.kernel_path = shared.common.kernel_path.from_within();
        self
    }

    /// What the CPUs share, for reports and checks.
    pub fn shared(&self) -> &Shared<V::Index> {
        &self.shared
    }

    /// The part of CPU `index`.
    fn start(&self, cpu: &Cpu, volume: Rc<Volume>, index: u32) -> Rc<Local<V::Index, VolumeFiles>> {
        let files = VolumeParts::new(self.shared.files_used(), volume.pages());
        let backing = Rc::new(VolumeFiles {
            volume,
            files,
            kernel_path: self.shared.common.kernel_path,
        });
        Local::start(cpu, self.shared.clone(), backing, index)
    }
}

/// One client.
pub struct ScaleClient<I: Index> {
    local: Rc<Local<I, VolumeFiles>>,
    /// Failures of each file that a flush of this client has reported.
    told: Box<[ErrSeqCursor]>,
    policy: WritePolicy,
}

impl<I: Index> ScaleClient<I> {
    /// Begins a request: checks and pays for it, and gives its parts in each file.
    ///
    /// # Errors
    /// If it does not fit the volume, or its payload does not fit it.
    #[inline]
    fn begin(
        &self,
        extent: Extent,
        payload_bytes: usize,
    ) -> Result<impl Iterator<Item = Piece> + use<I>, IoError> {
        let pages = &self.local.pages;
        let (backing, page_bytes) = (&pages.backing, pages.shared.frames.page_bytes());
        check_request(&backing.volume, page_bytes, extent, payload_bytes)?;
        pages.tasks.kernel_path.request(pages.cpu());
        Ok(backing.files.pieces(extent, page_bytes))
    }

    async fn read_checked(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let mut touch = Touch::default();
        for piece in self.begin(extent, out.len())? {
            let out = &mut out[piece.payload];
            touch += self.local.read(piece.file, piece.extent, out).await?;
        }
        Ok(touch)
    }

    async fn write_checked(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let mut touch = Touch::default();
        for piece in self.begin(extent, data.len())? {
            let (data, policy) = (&data[piece.payload], self.policy);
            let written = self.local.write(piece.file, piece.extent, data, policy);
            touch += written.await?;
        }
        Ok(touch)
    }

    async fn discard_pages(&self, extent: Extent) -> Result<(), IoError> {
        let backing = &self.local.pages.backing;
        backing.volume.check(extent.first_page(), extent.pages())?;
        for (file, range) in backing.files.ranges(extent) {
            self.local.discard(file, range).await?;
        }
        Ok(())
    }

    /// Makes durable what was written to ranges of files.
    async fn flush_ranges(
        &self,
        ranges: impl Iterator<Item = (u32, (u64, u64))>,
    ) -> Result<(), IoError> {
        let (local, mut outcome) = (&self.local, Ok(()));
        for (file, range) in ranges {
            let failures = || local.shared().failures_of(file);
            let written = local.write_and_wait(file, range);
            let written = self.told[file as usize].report(failures, written).await;
            outcome = outcome.and(written);
        }
        outcome?;
        local.pages.backing.volume.flush(local.cpu()).await
    }
}

impl<I: Index> Client for ScaleClient<I> {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let counters = self.local.counters();
        counters.reads.add(1);
        counters.end(self.read_checked(extent, out).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let counters = self.local.counters();
        counters.writes.add(1);
        let written = self.write_checked(extent, data).await;
        counters.end(written, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let counters = self.local.counters();
        counters.flushes.add(1);
        let all = (0..self.told.len() as u32).map(|file| (file, (0, u64::MAX)));
        let flushed = self.flush_ranges(all).await;
        counters.end(flushed, |()| Touch::default())
    }

    async fn flush_extent(&self, extent: Extent) -> Result<(), IoError> {
        let (counters, backing) = (self.local.counters(), &self.local.pages.backing);
        counters.flushes.add(1);
        let flushed = match backing.volume.check(extent.first_page(), extent.pages()) {
            Ok(()) => self.flush_ranges(backing.files.ranges(extent)).await,
            Err(error) => Err(error),
        };
        counters.end(flushed, |()| Touch::default())
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let counters = self.local.counters();
        counters.discards.add(1);
        let discarded = self.discard_pages(extent.whole_pages()).await;
        counters.end(discarded, |()| Touch::default())
    }

    /// The first client's account has what the flusher did as well.
    fn statistics(&self) -> Statistics {
        let local = &self.local;
        let mut statistics = local.counters().statistics(&local.pages.backing.volume);
        if local.pages.tasks.index == 0 {
            let written = &local.shared().common.background_written;
            statistics.write_backs += written.load(Ordering::Relaxed);
        }
        statistics
    }

    fn gauges(&self) -> Gauges {
        let local = &self.local;
        if local.pages.tasks.index > 0 {
            return local.counters().gauges();
        }
        let files = local.shared().files.iter();
        let waited_ns = files.map(|file| file.index.waited_ns()).sum();
        let array_driver_ns = local.pages.backing.volume.array_driver_ns();
        local.counters().gauges_of_all(waited_ns, array_driver_ns)
    }
}
