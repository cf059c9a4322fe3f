//! A short lock between CPUs: a spin lock in real time, a serialised section in virtual time.
//!
//! In virtual time all CPUs share one thread, so the lock is always free when taken; what is
//! modelled is the waiting: a CPU that comes before the last holder left spins until then, and pays
//! for the hand-over; one that comes later pays for fetching the lock's line, if another CPU had it.
//! The section ends at the clock the holder has when it leaves. What an uncontended lock costs is
//! part of the operation that takes it.

use std::cell::UnsafeCell;

use crate::cpu::Cpu;
use crate::op::Op;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Nobody has held the lock.
const NOBODY: u32 = u32::MAX;

/// Data behind a spin lock. Never hold it across a wait: the interface is a closure.
pub struct Lock<T> {
    taken: AtomicBool,
    /// Virtual time at which the last holder left.
    free_ns: AtomicU64,
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
            free_ns: AtomicU64::new(0),
            holder: AtomicU32::new(NOBODY),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the lock held.
    #[inline]
    pub fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut T) -> R) -> R {
        if cpu.is_virtual() {
            self.wait_virtual(cpu);
        }
        // Acquire: partner of the release in `Unlock::drop`.
        while self.taken.swap(true, Ordering::Acquire) {
            assert!(!cpu.is_virtual(), "a lock was taken twice by one CPU");
            while self.taken.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        let _unlock = Unlock(&self.taken);
        // SAFETY: `taken` was false and is ours now.
        let result = f(unsafe { &mut *self.value.get() });
        if cpu.is_virtual() {
            self.free_ns.store(cpu.now(), Ordering::Relaxed);
        }
        result
    }

    /// What a CPU pays for the lock beyond the uncontended price.
    fn wait_virtual(&self, cpu: &Cpu) {
        let free_ns = self.free_ns.load(Ordering::Relaxed);
        let holder = self.holder.load(Ordering::Relaxed);
        if cpu.now() < free_ns {
            cpu.spin_until(free_ns);
            cpu.work(Op::LockHandOver, || ());
        } else if holder != cpu.index() && holder != NOBODY {
            cpu.work(Op::LineTransfer, || ());
        }
        self.holder.store(cpu.index(), Ordering::Relaxed);
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
