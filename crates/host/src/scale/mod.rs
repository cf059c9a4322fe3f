//! The design `scale`: a page cache in the program's own process (ScaleCache).
//!
//! Problem: the page cache of an operating system has one lock on the index of each file, one flusher,
//! and writers that sleep while it works. On many CPUs with many fast drives these are the limit.
//!
//! Idea: nothing that a request does goes through a lock or another CPU.
//!
//! 1. A hit looks the page up in an index without a lock, copies, and looks whether the frame
//!    changed meanwhile. It writes to nothing that others read.
//! 2. A miss takes a frame, by CLOCK if none is free, enters it into the index, and reads.
//! 3. A write pins the page, takes the frame's word for the time of the copy, and marks the page as dirty.
//! 4. Too many dirty pages: the writers write them back themselves, side by side.
//!
//! | file | idea |
//! |---|---|
//! | [`client`] | reads and writes |
//! | [`index`], [`key`](crate::key) | page to frame, with tags; pages of several files |
//! | [`frame_word`], [`frame`] | a frame's states and pins; all frames, their bytes |
//! | [`reclaim`], [`replacement`] | free frames; which page leaves next: CLOCK, or two lists |
//! | [`stride`] | readers that go in steps; those in order are in [`readahead`](crate::readahead) |
//! | [`flush`] | dirty pages to the drives |
//! | `dflush.rs`, [`background`] | who does so, and when; what a CPU does for all others |
//! | [`retry`] | when write-backs that failed are tried again |
//! | [`discard`] | pages that leave before their time |
//! | [`transfer`] | requests to what lies below and their ends |
//! | [`backing`] | what lies below: drives here; files where a program links the cache |
//! | [`shared`], [`local`] | what all CPUs share, what each has |
//!
//! In the design the volume is one file, or several of equal size ([`Parts`]).

pub mod background;
pub mod backing;
pub mod client;
mod dflush;
pub mod discard;
pub mod flush;
pub mod frame;
pub mod frame_word;
mod hints;
pub mod index;
pub mod local;
pub mod reclaim;
pub mod replacement;
pub mod retry;
pub mod shared;
pub mod stride;
pub mod transfer;

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::Ordering;
use wharf_wire::dma::DmaSpace;

use crate::design::{
    Client, Design, DesignConfig, DesignError, Statistics, Touch, WritePolicy, check_request,
};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::parts_of_volume::{Parts, Piece};
use crate::readahead::WINDOW_PAGES;
use crate::scale::backing::VolumeFiles;
use crate::scale::index::{Concurrent, Index, Locked};
use crate::scale::local::Local;
use crate::scale::shared::{Shape, Shared};
use crate::span::Extent;
use crate::volume::Volume;

/// Which parts of the design a variant of it has.
pub trait Variant: Send + Sync + 'static {
    /// The name by which it is chosen and reported.
    const NAME: &'static str;
    /// The index.
    type Index: Index;
}

/// The design whole.
pub struct Whole;

impl Variant for Whole {
    const NAME: &'static str = "scale";
    type Index = Concurrent;
}

/// Direct flush over an index with a lock: one half of the design.
pub struct DflushAlone;

impl Variant for DflushAlone {
    const NAME: &'static str = "scale-dflush";
    type Index = Locked;
}

/// What the clients share: the cache.
pub struct Scale<V: Variant> {
    shared: Arc<Shared<V::Index>>,
    policy: WritePolicy,
}

impl<V: Variant> Design for Scale<V> {
    const NAME: &'static str = V::NAME;

    type Client = ScaleClient<V::Index>;

    fn new(config: &DesignConfig, space: &Arc<DmaSpace>) -> Result<Scale<V>, DesignError> {
        let design = Self::NAME;
        let shape = Shape {
            frames: config.frames(design)?,
            files: config.files(design)?,
            balance: config.balance,
            has_flusher: true,
            has_read_ahead_thread: false,
            window_pages: WINDOW_PAGES,
            share_pages: config.share_pages,
        };
        let shared = Shared::new(config, &shape, space)
            .map_err(|source| DesignError::Memory { design, source })?;
        shared.use_file(shape.files - 1);
        Ok(Scale {
            shared: Arc::new(shared),
            policy: config.write_policy,
        })
    }

    fn index_nodes(&self) -> Option<u64> {
        let nodes =
            (0..self.shared.files.len() as u32).map(|file| self.shared.index_of(file).nodes());
        Some(nodes.sum())
    }

    fn client(
        self: &Arc<Self>,
        cpu: &Cpu,
        volume: Rc<Volume>,
        index: u32,
    ) -> Result<Self::Client, DesignError> {
        let local = self.start(cpu, volume, index);
        let told = |file| ErrSeqCursor::new(self.shared.failures_of(file));
        Ok(ScaleClient {
            told: (0..self.shared.files_used()).map(told).collect(),
            local,
            policy: self.policy,
        })
    }

    fn is_in_kernel(config: &DesignConfig) -> bool {
        config.in_kernel
    }

    fn services(_: &DesignConfig) -> u32 {
        1
    }

    fn serve(
        self: &Arc<Self>,
        cpu: &Cpu,
        volume: Rc<Volume>,
        index: u32,
    ) -> Result<(), DesignError> {
        let local = self.start(cpu, volume, self.shared.clients + index);
        cpu.spawn("flusher", local.flush_in_background());
        Ok(())
    }
}

impl<V: Variant> Scale<V> {
    /// What the CPUs share, for reports and checks.
    pub fn shared(&self) -> &Shared<V::Index> {
        &self.shared
    }

    /// The part of CPU `index`.
    fn start(&self, cpu: &Cpu, volume: Rc<Volume>, index: u32) -> Rc<Local<V::Index, VolumeFiles>> {
        let files = Parts::new(self.shared.files_used(), volume.pages());
        let backing = Rc::new(VolumeFiles {
            volume,
            files,
            kernel_path: self.shared.kernel_path,
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
        let Local {
            shared,
            backing,
            cpu,
            ..
        } = &*self.local;
        let page_bytes = shared.frames.page_bytes();
        check_request(&backing.volume, page_bytes, extent, payload_bytes)?;
        shared.kernel_path.request(cpu);
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
        let backing = &self.local.backing;
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
            let failures = || local.shared.failures_of(file);
            let written = local.write_and_wait(file, range);
            let written = self.told[file as usize].report(failures, written).await;
            outcome = outcome.and(written);
        }
        outcome?;
        local.backing.volume.flush(&local.cpu).await
    }
}

impl<I: Index> Client for ScaleClient<I> {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let counters = &self.local.counters;
        counters.reads.add(1);
        counters.end(self.read_checked(extent, out).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let counters = &self.local.counters;
        counters.writes.add(1);
        let written = self.write_checked(extent, data).await;
        counters.end(written, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let counters = &self.local.counters;
        counters.flushes.add(1);
        let all = (0..self.told.len() as u32).map(|file| (file, (0, u64::MAX)));
        let flushed = self.flush_ranges(all).await;
        counters.end(flushed, |()| Touch::default())
    }

    async fn flush_extent(&self, extent: Extent) -> Result<(), IoError> {
        let (counters, backing) = (&self.local.counters, &self.local.backing);
        counters.flushes.add(1);
        let flushed = match backing.volume.check(extent.first_page(), extent.pages()) {
            Ok(()) => self.flush_ranges(backing.files.ranges(extent)).await,
            Err(error) => Err(error),
        };
        counters.end(flushed, |()| Touch::default())
    }

    async fn discard(&self, extent: Extent) -> Result<(), IoError> {
        let counters = &self.local.counters;
        counters.discards.add(1);
        let discarded = self.discard_pages(extent.whole_pages()).await;
        counters.end(discarded, |()| Touch::default())
    }

    /// The first client's account has what the flusher did as well.
    fn statistics(&self) -> Statistics {
        let local = &self.local;
        let mut statistics = local.counters.statistics(&local.backing.volume);
        if local.index == 0 {
            let written = &local.shared.background_written;
            statistics.write_backs += written.load(Ordering::Relaxed);
            let waited = local.shared.files.iter().map(|file| file.index.waited_ns());
            statistics.index_wait_ns += waited.sum::<u64>();
            statistics.array_driver_ns += local.backing.volume.array_driver_ns();
        }
        statistics
    }
}
