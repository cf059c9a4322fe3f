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
//! | [`index`], [`key`] | page to frame, with tags; pages of several files |
//! | [`frame`] | state, pins, bytes |
//! | [`reclaim`] | free frames, CLOCK |
//! | [`flush`] | dirty pages to the drives |
//! | [`dflush`] | who does so, and when |
//! | [`discard`] | pages that leave before their time |
//! | [`transfer`] | requests to what lies below and their ends |
//! | [`backing`] | what lies below: drives here; files where a program links the cache |
//! | [`shared`], [`local`] | what all CPUs share, what each has |
//!
//! In the design the volume is one file, number 0.

pub mod backing;
pub mod client;
pub mod dflush;
pub mod discard;
pub mod flush;
pub mod frame;
pub mod index;
pub mod key;
pub mod local;
pub mod reclaim;
pub mod shared;
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
use crate::failures::Told;
use crate::scale::dflush::Balance;
use crate::scale::index::{Concurrent, Index, Locked};
use crate::scale::local::Local;
use crate::scale::shared::{Shape, Shared};
use crate::span::Extent;
use crate::volume::Volume;

/// The number of the volume among files.
const FILE: u32 = 0;

/// Which parts of the design a variant of it has.
pub trait Variant: Send + Sync + 'static {
    /// The name by which it is chosen and reported.
    const NAME: &'static str;
    /// The index.
    type Index: Index;
    /// What writers do above the hard threshold.
    const BALANCE: Balance;
}

/// The design whole.
pub struct Whole;

impl Variant for Whole {
    const NAME: &'static str = "scale";
    type Index = Concurrent;
    const BALANCE: Balance = Balance::Flush;
}

/// Direct flush over an index with a lock: one half of the design.
pub struct DflushAlone;

impl Variant for DflushAlone {
    const NAME: &'static str = "scale-dflush";
    type Index = Locked;
    const BALANCE: Balance = Balance::Flush;
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
            files: 1,
            balance: V::BALANCE,
            has_flusher: true,
            share_pages: dflush::SHARE_PAGES,
        };
        let shared = Shared::new(config, &shape, space)
            .map_err(|source| DesignError::Memory { design, source })?;
        Ok(Scale {
            shared: Arc::new(shared),
            policy: config.write_policy,
        })
    }

    fn client(
        self: &Arc<Self>,
        cpu: &Cpu,
        volume: Rc<Volume>,
        index: u32,
    ) -> Result<Self::Client, DesignError> {
        let local = Local::start(cpu, self.shared.clone(), volume, index);
        Ok(ScaleClient {
            local,
            told: Told::new(self.shared.failures_of(FILE)),
            policy: self.policy,
        })
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
        let number = self.shared.clients + index;
        let local = Local::start(cpu, self.shared.clone(), volume, number);
        cpu.spawn("flusher", local.flush_in_background());
        Ok(())
    }
}

impl<V: Variant> Scale<V> {
    /// What the CPUs share, for reports and checks.
    pub fn shared(&self) -> &Shared<V::Index> {
        &self.shared
    }
}

/// One client.
pub struct ScaleClient<I: Index> {
    local: Rc<Local<I, Volume>>,
    told: Told,
    policy: WritePolicy,
}

impl<I: Index> ScaleClient<I> {
    #[inline]
    fn check(&self, extent: Extent, payload_bytes: usize) -> Result<(), IoError> {
        let page_bytes = self.local.shared.frames.page_bytes();
        check_request(&self.local.backing, page_bytes, extent, payload_bytes)
    }
}

impl<I: Index> Client for ScaleClient<I> {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let counters = &self.local.counters;
        counters.reads.add(1);
        let read = match self.check(extent, out.len()) {
            Ok(()) => self.local.read(FILE, extent, out).await,
            Err(error) => Err(error),
        };
        counters.end(read, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let counters = &self.local.counters;
        counters.writes.add(1);
        let written = match self.check(extent, data.len()) {
            Ok(()) => self.local.write(FILE, extent, data, self.policy).await,
            Err(error) => Err(error),
        };
        counters.end(written, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let counters = &self.local.counters;
        counters.flushes.add(1);
        let flushed = self.local.flush(FILE, &self.told).await;
        counters.end(flushed, |()| Touch::default())
    }

    /// The first client's account has what the flusher did as well.
    fn statistics(&self) -> Statistics {
        let local = &self.local;
        let mut statistics = local.counters.statistics(&local.backing);
        if local.index == 0 {
            let written = &local.shared.background_written;
            statistics.write_backs += written.load(Ordering::Relaxed);
        }
        statistics
    }
}
