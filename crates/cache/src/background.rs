//! The cache's own thread, the *service*: it writes dirty pages back before writers have to, and reads ahead while
//! the program computes. It sleeps when there is nothing to do, and ends with the cache.
//!
//! What it does is `wharf_host::scale::background`. It holds no lock while it waits, and no part of a file that
//! others want to cut or close: they wait for its transfers, which end whatever they do.

use std::sync::Arc;

use wharf_runtime::sync::{AtomicBool, Ordering};
use wharf_runtime::wake::Pause;
use wharf_runtime::worker::Worker;
use wharf_runtime::{CostTable, Machine, Side};
use wharf_storage::StorageError;

use crate::thread::{Core, ThreadContext};

/// The number of no client.
const NOBODY: u32 = u32::MAX;

/// See the module. Dropping it ends the thread.
pub(super) struct Background {
    core: Arc<Core>,
    is_ending: Arc<AtomicBool>,
    // Joined when dropped.
    _worker: Worker,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none left to give.
    pub fn start(core: &Arc<Core>) -> Result<Background, StorageError> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let (of_thread, ends) = (core.clone(), is_ending.clone());
        let worker = Worker::spawn("wharf-cache", move || run(&of_thread, &ends))
            .map_err(StorageError::Thread)?;
        Ok(Background {
            core: core.clone(),
            is_ending,
            _worker: worker,
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Relaxed: the wake orders it.
        self.is_ending.store(true, Ordering::Relaxed);
        // This thread may have no context, and there may be none left.
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("end", Side::Host, 1.0);
        let flusher = &self.core.shared.common.flusher;
        flusher.wake_all(machine.inline().cpu(cpu), NOBODY);
    }
}

fn run(core: &Arc<Core>, is_ending: &AtomicBool) {
    let context = ThreadContext::of_service(core);
    context.run(async {
        loop {
            context.channels.begin_turn();
            let is_busy = context.local.serve().await;
            context.tell();
            if !is_busy {
                // The files have gone before the cache: there is nothing to write.
                if is_ending.load(Ordering::Relaxed) {
                    return;
                }
                Pause::default().await;
            }
        }
    });
}
