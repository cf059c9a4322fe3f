//! A short lock between CPUs: a spin lock in real time, a serialised section in virtual time.
//!
//! In virtual time all CPUs share one thread, so the lock is always free when taken; what is
//! modelled is the waiting. The lock knows its latest busy period (`busy.rs`); a CPU that comes within
//! it spins until its end and pays for the hand-over; one that comes later pays for fetching the lock's
//! line, if another CPU had it. The section ends at the clock the holder has when it leaves. What an
//! uncontended lock costs is part of the operation that takes it.

use std::cell::UnsafeCell;

use crate::busy::Busy;
use crate::cpu::Cpu;
use crate::op::Op;
use crate::sync::{AtomicBool, AtomicU32, Ordering, spin};

/// Nobody has held the lock.
const NOBODY: u32 = u32::MAX;

/// Data behind a spin lock. Never hold it across a wait: the interface is a closure.
pub struct Lock<T> {
    taken: AtomicBool,
    /// When the lock was held, in virtual time.
    busy: Busy,
    /// The last holder's number, in virtual time.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is touched only by the holder of `taken`.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> Lock<T> {
        Lock {
            taken: AtomicBool::new(false),
            busy: Busy::default(),
            holder: AtomicU32::new(NOBODY),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the lock held.
    #[inline]
    pub fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut T) -> R) -> R {
        let from_ns = if cpu.is_virtual() {
            self.wait_virtual(cpu)
        } else {
            0
        };
        while !self.try_take() {
            assert!(!cpu.is_virtual(), "a lock was taken twice by one CPU");
            #[cfg(not(loom))]
            while self.taken.load(Ordering::Relaxed) {
                spin();
            }
            // A look may show the model checker each old value in turn, and there is always one more.
            #[cfg(loom)]
            spin();
        }
        let _unlock = Unlock(&self.taken);
        // SAFETY: `taken` was false and is ours now.
        let result = f(unsafe { &mut *self.value.get() });
        if cpu.is_virtual() {
            self.busy.occupy(from_ns, cpu.now());
        }
        result
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    fn try_take(&self) -> bool {
        // Acquire: partner of the release in `Unlock::drop`.
        #[cfg(not(loom))]
        return !self.taken.swap(true, Ordering::Acquire);
        // The model checker may have the store of a swap that found it taken come after that of the holder who leaves: it would be taken
        // for ever.
        #[cfg(loom)]
        self.taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// What a CPU pays for the lock beyond the uncontended price. Returns when it has the lock.
    fn wait_virtual(&self, cpu: &Cpu) -> u64 {
        let holder = self.holder.load(Ordering::Relaxed);
        let from_ns = self.busy.free_at(cpu.now());
        if cpu.now() < from_ns {
            cpu.spin_until(from_ns);
            cpu.work(Op::LockHandOver, || ());
        } else if holder != cpu.index() && holder != NOBODY {
            cpu.work(Op::LineTransfer, || ());
        }
        self.holder.store(cpu.index(), Ordering::Relaxed);
        from_ns
    }

    /// The value, while nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value, when nobody else can have it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

struct Unlock<'a>(&'a AtomicBool);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        // Release: partner of the swap in `with`.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::machine::Machine;
    use crate::op::{CostTable, Side};
    use crate::rng::Seed;

    /// CPUs that come to a lock at the times given and hold it for 50 ns; when each leaves.
    fn leaves(arrivals_ns: &[u64]) -> Vec<u64> {
        let mut costs = CostTable::free();
        for (op, cost_ns) in [
            (Op::MapLookup, 50.0),
            (Op::LineTransfer, 7.0),
            (Op::LockHandOver, 9.0),
        ] {
            costs.cost_ns.insert(op.key().into(), cost_ns);
        }
        let mut machine = Machine::new(costs, false);
        let lock = Arc::new(Lock::new(0));
        let times = Arc::new(Mutex::new(vec![0; arrivals_ns.len()]));
        for (index, at_ns) in arrivals_ns.iter().copied().enumerate() {
            let id = machine.add_cpu("cpu", Side::Host, 1.0);
            let (lock, times) = (lock.clone(), times.clone());
            machine.spawn_main(id, "taker", move |cpu| async move {
                cpu.sleep_until(at_ns).await;
                lock.with(&cpu, |n| cpu.work(Op::MapLookup, || *n += 1));
                times.lock().unwrap()[index] = cpu.now();
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
        let times = times.lock().unwrap();
        times.clone()
    }

    #[test]
    fn who_comes_while_it_is_held_waits_for_the_end_and_the_hand_over() {
        assert_eq!(leaves(&[100, 120, 140]), [150, 209, 268]);
    }

    #[test]
    fn who_comes_later_pays_for_the_line_alone() {
        assert_eq!(leaves(&[100, 150, 300]), [150, 207, 357]);
    }
}
