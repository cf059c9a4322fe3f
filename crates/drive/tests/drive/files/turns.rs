//! Hosts that do things in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wharf_runtime::Cpu;

use super::asker::Asker;
use crate::support::host::Host;
use crate::support::rig::Script;

/// Whose turn it is: the owner's if it is even, the guest's if not.
#[derive(Clone, Default)]
pub struct Turns(Arc<AtomicU64>);

impl Turns {
    pub async fn wait(&self, cpu: &Cpu, turn: u64) {
        while self.0.load(Ordering::SeqCst) < turn {
            cpu.sleep_until(cpu.now() + 1_000).await;
            cpu.progress();
        }
    }

    /// Whether that turn is over.
    pub fn is_past(&self, turn: u64) -> bool {
        self.0.load(Ordering::SeqCst) > turn
    }

    pub fn pass(&self, turn: u64) {
        self.0.store(turn, Ordering::SeqCst);
    }
}

/// What a host does that speaks of files.
pub fn script<F: Future<Output = ()> + 'static>(
    f: impl FnOnce(Asker) -> F + Send + 'static,
) -> Script {
    Box::new(move |host: Host| Box::pin(f(Asker::new(host))))
}
