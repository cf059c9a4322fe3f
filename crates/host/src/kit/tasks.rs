//! The tasks of one CPU of a cache: how they sleep, and how they wake each other and those of other
//! CPUs.

use std::future::Future;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::waits::{TimedWait, Waiters};
use wharf_runtime::wake::{Mailboxes, Sleeper};

use crate::kit::kernel_path::KernelPath;

/// See the module.
pub struct Tasks {
    /// Their CPU.
    pub cpu: Cpu,
    /// The client, or a service behind the clients.
    pub index: u32,
    /// What they pay to the operating system.
    pub kernel_path: KernelPath,
    mailboxes: Arc<Mailboxes>,
}

impl Tasks {
    /// The tasks of CPU `index`, which gets its mailbox's.
    pub fn start(
        cpu: &Cpu,
        mailboxes: &Arc<Mailboxes>,
        index: u32,
        kernel_path: KernelPath,
    ) -> Tasks {
        mailboxes.serve(cpu, index);
        Tasks {
            cpu: cpu.clone(),
            index,
            kernel_path,
            mailboxes: mailboxes.clone(),
        }
    }

    /// The running one.
    pub fn sleeper(&self) -> Sleeper {
        Sleeper {
            client: self.index,
            task: self.cpu.current(),
        }
    }

    /// Enters the running task among those who are woken by `waiters`.
    pub fn join(&self, waiters: &Waiters) {
        waiters.join(&self.cpu, self.sleeper());
    }

    /// Wakes who is on `waiters`.
    pub fn wake(&self, waiters: &Waiters) {
        waiters.wake_all(&self.cpu, self.index);
    }

    /// Wakes one task.
    pub fn wake_one(&self, sleeper: Sleeper) {
        self.mailboxes.wake(&self.cpu, self.index, sleeper);
    }

    /// Sleeps as a thread does where there are threads: see [`KernelPath::sleep`].
    pub async fn sleep<R>(&self, until: impl Future<Output = R>) -> R {
        self.kernel_path.sleep(&self.cpu, until).await
    }

    /// Sleeps until something is woken on what the caller has [joined](Tasks::join), looking at its
    /// condition afterwards, but for `most_ns` at most.
    pub async fn wait_at_most(&self, most_ns: u64) {
        let nap = TimedWait::until(&self.cpu, self.cpu.now() + most_ns);
        self.sleep(nap).await;
    }
}
