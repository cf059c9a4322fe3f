//! A gate that clients on many CPUs wait at until one task, which boots the drives, opens it.

use std::sync::{Arc, OnceLock};

use wharf_runtime::{Cpu, Notifier};

struct Shared<T> {
    /// What the opener says, and since when it can be known.
    said: OnceLock<(u64, T)>,
    notifiers: Box<[Notifier]>,
}

/// See the module. Clones are the same gate.
pub struct Gate<T>(Arc<Shared<T>>);

impl<T> Clone for Gate<T> {
    fn clone(&self) -> Self {
        Gate(self.0.clone())
    }
}

impl<T: Clone> Gate<T> {
    /// A shut gate at which `waiters` tasks may wait.
    pub fn new(waiters: u32) -> Gate<T> {
        Gate(Arc::new(Shared {
            said: OnceLock::new(),
            notifiers: (0..waiters).map(|_| Notifier::new()).collect(),
        }))
    }

    /// Opens the gate and tells every waiter `what`.
    ///
    /// # Panics
    /// If it is open already.
    pub fn open(&self, cpu: &Cpu, what: T) {
        let said = self.0.said.set((cpu.now(), what));
        assert!(said.is_ok(), "a gate opens once");
        self.0
            .notifiers
            .iter()
            .for_each(|notifier| notifier.notify(cpu, 0, cpu.now()));
    }

    /// Waits as waiter number `index`, each number once, until the gate is open.
    pub async fn pass(&self, cpu: &Cpu, index: u32) -> T {
        let notifier = &self.0.notifiers[index as usize];
        notifier.attach(cpu);
        loop {
            if let Some((since_ns, what)) = self.0.said.get()
                && (!cpu.is_virtual() || cpu.now() >= *since_ns)
            {
                return what.clone();
            }
            let _ = notifier.wait(cpu).await;
        }
    }
}
