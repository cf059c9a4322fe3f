//! What the threads of a process share: the page cache, and which files have a place in it.

use std::sync::Arc;

use wharf_runtime::Lock;
use wharf_wire::dma::{DmaSpace, RegisterError};

use super::mode::CacheMode;
use super::node::Node;
use super::ranges::Ranges;
use super::table::Table;
use crate::design::{DesignConfig, DesignError, Reclaim, Replacement};
use crate::dflush::{Balance, SHARE_PAGES};
use crate::kit::concurrent::Concurrent;
use crate::scale::shared::{Shape, Shared};
use crate::stor::StorConfig;

/// The cache of a process, which its threads share.
pub(in crate::stor) struct Process {
    pub(super) mode: CacheMode,
    pub(super) shared: Arc<Shared<Concurrent>>,
    nodes: Box<[Node]>,
    pub(super) table: Lock<Table>,
    /// What it has the drive keep.
    pub(super) device: Lock<Ranges>,
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
            in_kernel: false,
            ..*config
        };
        let shape = Shape {
            frames: share.frames(design)?,
            files: own.cache_files,
            balance: Balance::Flush,
            replacement: Replacement::Clock,
            reclaim: Reclaim::Eager,
            has_flusher: true,
            has_read_ahead_thread: false,
            window_pages: own.read_ahead_pages.into(),
            share_pages: SHARE_PAGES.into(),
        };
        let memory = |source: RegisterError| DesignError::Memory { design, source };
        Ok(Process {
            mode: own.cache,
            shared: Arc::new(Shared::new(&share, &shape, space).map_err(memory)?),
            nodes: (0..own.cache_files).map(|_| Node::default()).collect(),
            table: Lock::new(Table::new(own.cache_files)),
            device: Lock::new(Ranges::new(near_bytes / u64::from(processes))),
        })
    }

    pub(super) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }
}
