//! What the threads of a process share: the page cache, and which files have a place in it.

use std::sync::Arc;

use wharf_runtime::Lock;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};

use super::ages::{Ages, Left};
use super::compute::{Compute, Refusals};
use super::mode::{CacheMode, Eviction, ReadFill, Without};
use super::near::OmniIndex;
use super::node::Node;
use super::table::Table;
use crate::design::{DesignConfig, DesignError, Reclaim};
use crate::dflush::{Balance, SHARE_PAGES};
use crate::kit::concurrent::Concurrent;
use crate::kit::index::{Index, NODE_BYTES};
use crate::scale::shared::{Shape, Shared};
use crate::stor::StorConfig;

/// Of a cache in the drive, what is brought to it at a time is one part of so many at most: several who go through files in order find room
/// in the tenth that is free.
const PREFETCH_SHARE: u64 = 32;

/// Pages that it has so at least, if it has as many.
const PREFETCH_PAGES_MIN: u64 = 4;

/// Most pages that are brought at a time to a cache of so many pages in the drive.
fn prefetch_max(near_pages: u64) -> u64 {
    let share = (near_pages / PREFETCH_SHARE).max(PREFETCH_PAGES_MIN);
    share.min(near_pages)
}

/// The cache of a process, which its threads share.
pub(in crate::stor) struct Process {
    pub(super) mode: CacheMode,
    pub(super) shared: Arc<Shared<Concurrent>>,
    nodes: Box<[Node]>,
    pub(super) table: Lock<Table>,
    /// What it has the drive keep.
    pub(super) omni: OmniIndex,
    pub(super) read_fill: ReadFill,
    /// Who computes on files.
    pub(super) compute: Compute,
    /// What the drive refused to compute.
    pub(super) refusals: Refusals,
    /// What is left out of the way by both caches.
    pub(super) without: Without,
    /// What was not used for so long may leave the drive's cache.
    pub(super) epoch_ns: u64,
    /// Most pages that the drive brings to its cache at a time ahead of that one; 0 if it brings none.
    pub(super) prefetch_pages: u64,
    /// Pages that it was asked to bring so.
    pub(super) prefetched: AtomicU64,
    /// How pages leave before there is no room, if they do.
    pub(super) ages: Option<Ages>,
    /// Most pages that are brought ahead of who goes through a file in order, where the drive has a cache too.
    pub(super) window_pages: u64,
}

impl Process {
    /// A cache for a process of so many threads, with its share of the memory of all.
    ///
    /// # Errors
    /// If there is no memory.
    pub(in crate::stor) fn new(
        design: &'static str,
        config: &DesignConfig,
        own: &StorConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Process, DesignError> {
        let processes = config.clients.div_ceil(own.threads).max(1);
        let near_bytes = own.near_bytes(config.cache_bytes);
        let host_bytes = config.cache_bytes - near_bytes;
        let share = DesignConfig {
            cache_bytes: host_bytes / u64::from(processes),
            clients: own.threads.min(config.clients),
            guests: 0,
            ..*config
        };
        let shape = Shape {
            frames: share.frames(design)?,
            files: own.cache_files,
            balance: Balance::Flush,
            replacement: own.replacement,
            reclaim: Reclaim::Eager,
            has_flusher: true,
            has_read_ahead_thread: false,
            // What is read ahead must not be in the drive's cache: whoever knows that sees to it.
            window_pages: match own.cache.is_near() {
                true => 0,
                false => own.read_ahead_pages.into(),
            },
            share_pages: SHARE_PAGES.into(),
        };
        let memory = |source: RegisterError| DesignError::Memory { design, source };
        let shared = Shared::new(&share, &shape, space).map_err(memory)?;
        let near_bytes = near_bytes / u64::from(processes);
        let pages = (shape.frames.into(), near_bytes / PAGE_BYTES as u64);
        let ages = || Ages::new(own.cache_files, pages, own.low_water, own.inactive_ns);
        Ok(Process {
            mode: own.cache,
            omni: OmniIndex::new(own, near_bytes, &shared.common.mailboxes),
            read_fill: own.read_fill,
            compute: own.compute,
            refusals: Refusals::default(),
            without: own.without,
            epoch_ns: own.epoch_ns,
            prefetch_pages: u64::from(own.prefetch_pages).min(prefetch_max(pages.1)),
            prefetched: AtomicU64::new(0),
            ages: (own.eviction == Eviction::TwoStep).then(ages),
            window_pages: own.read_ahead_pages.into(),
            shared: Arc::new(shared),
            nodes: (0..own.cache_files).map(|_| Node::default()).collect(),
            table: Lock::new(Table::new(own.cache_files)),
        })
    }

    /// Bytes of memory by which it finds pages, in either cache.
    pub(in crate::stor) fn index_bytes(&self) -> u64 {
        let files = (0..self.shared.files_used()).map(|slot| self.shared.index_of(slot).nodes());
        let ages = self.ages.as_ref().map_or(0, Ages::bytes);
        files.sum::<u64>() * NODE_BYTES + self.omni.bytes() + ages
    }

    /// Bytes of pages that the drive may have for it in its cache.
    pub(in crate::stor) fn near_bytes(&self) -> u64 {
        self.omni.pages() * PAGE_BYTES as u64
    }

    /// Pages that left before there was no room, by how they did, and those that the drive brought ahead; nothing of what is not done.
    pub(in crate::stor) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let ages = self.ages.iter();
        let left = ages.flat_map(|ages| Left::ALL.map(|(how, name)| (name, ages.counted(how))));
        let prefetched = self.prefetched.load(Ordering::Relaxed);
        let is_on = self.prefetch_pages > 0;
        left.chain(is_on.then_some(("near_prefetched", prefetched)))
    }

    pub(super) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }
}
