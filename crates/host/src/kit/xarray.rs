//! The tree of a file with the lock of this machine: readers walk it without.

use ccxarray::locked::{Changes, Control, Tree};
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Lock};

use crate::kit::accounting::{Change, FileCounters};

pub use ccxarray::Tag;
pub use ccxarray::locked::Find;

/// A radix tree from page numbers to frames, changed under one spin lock
/// ([`ccxarray::locked`]).
pub struct XArray {
    tree: Tree,
    control: Lock<Control>,
    /// Nodes in the tree, for who does not take the lock.
    nodes: AtomicU64,
    /// Virtual time in which CPUs waited for the lock, in nanoseconds.
    waited_ns: AtomicU64,
    counters: FileCounters,
}

impl Default for XArray {
    fn default() -> Self {
        XArray::new()
    }
}

impl XArray {
    /// An empty tree.
    pub fn new() -> XArray {
        XArray {
            tree: Tree::default(),
            control: Lock::new(Control::default()),
            nodes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            counters: FileCounters::default(),
        }
    }

    /// The value at `index`.
    #[inline]
    pub fn load(&self, index: u64) -> Option<u64> {
        self.tree.load(index)
    }

    /// The first entry at or after `from` that `find` asks for, with its index.
    ///
    /// While others change the tree: what was there, so tagged, all the time is found.
    #[inline]
    pub fn next(&self, from: u64, find: Find) -> Option<(u64, u64)> {
        self.tree.next(from, find)
    }

    /// True if no entry has `tag`.
    pub fn is_untagged(&self, tag: Tag) -> bool {
        self.next(0, Find::Tagged(tag)).is_none()
    }

    /// Runs `f` with the lock held.
    #[inline]
    pub fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut Changes<'_>) -> R) -> R {
        let came_ns = if cpu.is_virtual() { cpu.now() } else { 0 };
        self.control.with(cpu, |control| {
            if cpu.is_virtual() {
                // Relaxed: a sum to look at, and virtual time is one thread.
                self.waited_ns
                    .fetch_add(cpu.now() - came_ns, Ordering::Relaxed);
            }
            let mut changes = Changes::new(&self.tree, control);
            let result = f(&mut changes);
            // Relaxed: a count to look at, written under the lock alone.
            self.nodes.store(changes.size().nodes, Ordering::Relaxed);
            result
        })
    }

    /// As [`XArray::with`], for a change that happens to `pages` pages and is counted under the
    /// lock.
    #[inline]
    pub fn change<R>(
        &self,
        cpu: &Cpu,
        change: Change,
        pages: u32,
        f: impl FnOnce(&mut Changes<'_>) -> R,
    ) -> R {
        self.with(cpu, |changes| {
            let result = f(changes);
            self.counters.count(cpu, change, pages);
            result
        })
    }

    /// Virtual time in which CPUs waited for the lock and fetched its line, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    /// Nodes in the tree: 576 bytes each. A look from outside, which takes no lock.
    pub fn nodes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_runtime::machine::Idle;
    use wharf_runtime::{CostTable, CpuId, Machine, Seed, Side};

    use super::*;

    #[test]
    fn readers_on_other_threads_see_what_is_there_all_the_time() {
        let array = std::sync::Arc::new(XArray::new());
        let mut machine = Machine::new(CostTable::free(), false);
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let [writer, reader] =
            ["writer", "reader"].map(|name| machine.add_cpu(name, Side::Host, 1.0));
        let (array_too, done_too) = (array.clone(), done.clone());
        // Page 70 stays; its neighbours come and go, and with them height and siblings.
        machine.spawn_main(writer, "writer", move |cpu| async move {
            let mut rng = Seed(1).rng();
            array_too.with(&cpu, |changes| {
                changes.insert(70, 70);
                changes.set_tag(70, Tag::Dirty, true);
            });
            for _ in 0..20_000 {
                let index = [3, 71, 5_000, 1 << 30][rng.below(4) as usize] + rng.below(3);
                array_too.with(&cpu, |changes| match changes.load(index) {
                    Some(_) => changes.remove(index),
                    None => changes.insert(index, index),
                });
            }
            done_too.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        machine.spawn_main(reader, "reader", move |cpu| async move {
            while array.load(70).is_none() {
                cpu.yield_now().await;
            }
            let mut rng = Seed(2).rng();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(array.load(70), Some(70));
                assert_eq!(array.next(4, Find::Tagged(Tag::Dirty)), Some((70, 70)));
                let index = [3, 71, 5_000, 1 << 30][rng.below(4) as usize];
                assert!(array.load(index).is_none_or(|value| value == index));
                cpu.progress();
                cpu.yield_now().await;
            }
            array.with(&cpu, |changes| changes.verify());
        });
        run_on_threads(machine, writer, reader);
    }

    fn run_on_threads(machine: Machine, writer: CpuId, reader: CpuId) {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let summary = machine.run_threads(&[vec![writer], vec![reader]], Idle::default(), stop);
        drop(summary);
    }
}
