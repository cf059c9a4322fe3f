//! What all CPUs of a cache share, whatever its index and its frames are.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicBool, AtomicU64};
use wharf_runtime::waits::{PageWaits, Waiters};
use wharf_runtime::wake::Mailboxes;
use wharf_wire::dma::RegisterError;

use crate::design::DesignConfig;
use crate::kit::direct_flush::{Balance, Turns};
use crate::kit::kernel_path::KernelPath;
use crate::kit::nodes::{FreeFrames, Nodes};

/// See the module.
pub struct Common {
    /// Number of clients; services are the CPUs behind them.
    pub clients: u32,
    /// Whose frames are whose.
    pub nodes: Nodes,
    /// Frames that no CPU has and no page.
    pub free: FreeFrames,
    /// Who waits for pages.
    pub page_waits: PageWaits,
    /// The flusher, when it sleeps.
    pub flusher: Waiters,
    /// Who waits for a transfer to end, or for memory.
    pub progress: Waiters,
    /// Somebody found no frame: whatever is dirty is to be written.
    pub memory_short: AtomicBool,
    /// Pages that services wrote.
    pub background_written: AtomicU64,
    /// What writers do above the hard threshold, where they flush.
    pub balance: Balance,
    /// Whose turn it is to be flushed by them.
    pub turns: Turns,
    /// Most pages that such a writer writes before it looks again: as many I/Os, if they lie apart,
    /// as keep what lies below busy.
    pub share_pages: u64,
    /// What is paid to the operating system.
    pub kernel_path: KernelPath,
    /// How tasks of other CPUs are woken.
    pub mailboxes: Arc<Mailboxes>,
}

impl Common {
    /// For a cache of so many free frames, and as many services.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        config: &DesignConfig,
        (frames, services): (u32, u32),
        kernel_path: KernelPath,
        (balance, share_pages): (Balance, u64),
    ) -> Result<Common, RegisterError> {
        let mailboxes = Mailboxes::new(config.clients + services);
        let nodes = Nodes::new(config.memory_nodes, frames, config.clients);
        let waiters = || Waiters::new(mailboxes.clone());
        Ok(Common {
            clients: config.clients,
            nodes,
            free: FreeFrames::all(nodes)?,
            page_waits: PageWaits::default(),
            flusher: waiters(),
            progress: waiters(),
            memory_short: AtomicBool::new(false),
            background_written: AtomicU64::new(0),
            balance,
            turns: Turns::default(),
            share_pages,
            kernel_path,
            mailboxes,
        })
    }
}
