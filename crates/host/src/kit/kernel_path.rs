//! What a design pays to the operating system.
//!
//! Caches in the program's process, and I/O past every cache, talk to drives by queues of their
//! own. The same designs *in the operating system* (ScaleCache is a change to Linux) are entered by
//! a system call, take pages from its allocator, count them, send through its block layer, hear of
//! the end by an interrupt, and let another thread run while they wait. With
//! [`DesignConfig::in_kernel`](crate::design::DesignConfig::in_kernel) they pay for that, by the
//! costs that `kernel` pays; else nothing.

use std::future::Future;

use wharf_runtime::{Cpu, Op};

use crate::kit::accounting::{Change, FileCounters};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelPath {
    is_due: bool,
    /// Its requests come from within the operating system.
    is_within: bool,
    /// Its pages are those of files in a file system.
    has_file_system: bool,
}

impl KernelPath {
    /// Paid if `in_kernel`; for pages of a file system too, if it `has_file_system`.
    pub fn new(in_kernel: bool, has_file_system: bool) -> KernelPath {
        KernelPath {
            is_due: in_kernel,
            is_within: false,
            has_file_system,
        }
    }

    /// The same for requests of the operating system's own: they enter by no system call.
    #[must_use]
    pub fn from_within(self) -> KernelPath {
        KernelPath {
            is_within: true,
            ..self
        }
    }

    /// True if anything is paid.
    #[inline]
    pub fn is_due(self) -> bool {
        self.is_due
    }

    #[inline]
    fn pay(self, cpu: &Cpu, op: Op, times: u32) {
        if self.is_due {
            cpu.work_n(op, times, || ());
        }
    }

    /// A request enters and leaves.
    #[inline]
    pub fn request(self, cpu: &Cpu) {
        if !self.is_within {
            self.pay(cpu, Op::SystemCall, 1);
        }
    }

    /// A page is written through a file system.
    #[inline]
    pub fn page_write(self, cpu: &Cpu) {
        if self.has_file_system {
            self.pay(cpu, Op::FileWrite, 1);
        }
    }

    /// A frame is taken or given back.
    #[inline]
    pub fn frame(self, cpu: &Cpu) {
        self.pay(cpu, Op::PageAllocator, 1);
    }

    /// What happens to a page is counted.
    #[inline]
    pub fn count(self, cpu: &Cpu, counters: &FileCounters, change: Change) {
        if self.is_due {
            counters.count(cpu, change, 1);
        }
    }

    /// Block requests are sent.
    #[inline]
    pub fn submit(self, cpu: &Cpu, requests: u32) {
        self.pay(cpu, Op::BlockSubmit, requests);
    }

    /// Block requests end.
    #[inline]
    pub fn complete(self, cpu: &Cpu, requests: u32) {
        self.pay(cpu, Op::Interrupt, requests);
    }

    /// Waits as a thread does: another one runs meanwhile, and the switch costs both times.
    #[inline]
    pub async fn sleep<R>(self, cpu: &Cpu, until: impl Future<Output = R>) -> R {
        self.pay(cpu, Op::ContextSwitch, 1);
        let result = until.await;
        self.pay(cpu, Op::ContextSwitch, 1);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;
    use crate::kit::concurrent::Concurrent;
    use crate::kit::index::Index;
    use crate::kit::locked::Locked;

    /// ScaleCache counted nothing, where it counts all that Linux does: its tree alone has no lock.
    #[test]
    fn what_happens_to_pages_is_counted_in_the_operating_system_once() {
        assert!(Locked::default().counters().is_none());
        for (in_kernel, counted) in [(true, 9), (false, 0)] {
            let mut costs = CostTable::free();
            costs.cost_ns.insert(Op::LineLocal.key().into(), 10.0);
            let mut machine = Machine::new(costs, false);
            let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
            machine.spawn_main(cpu, "dirties", move |cpu| async move {
                let index = Concurrent::default();
                let counters = index.counters().expect("no lock");
                KernelPath::new(in_kernel, false).count(&cpu, counters, Change::Dirtied);
                assert_eq!(cpu.now(), 10 * counted);
            });
            machine.run_virtual(Seed(1)).unwrap();
        }
    }
}
