//! A short lock between CPUs: a spin lock in real time, a serialised section in virtual time.
//!
//! In virtual time all CPUs share one thread, so the lock is always free when taken; what is
//! modelled is the waiting: a CPU that comes before the last holder left spins until then. The
//! section ends at the clock the holder has when it leaves.

use std::cell::UnsafeCell;

use crate::cpu::Cpu;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Data behind a spin lock. Never hold it across a wait: the interface is a closure.
pub struct Lock<T> {
    taken: AtomicBool,
    /// Virtual time at which the last holder left.
    free_ns: AtomicU64,
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
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the lock held.
    #[inline]
    pub fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut T) -> R) -> R {
        if cpu.is_virtual() {
            cpu.spin_until(self.free_ns.load(Ordering::Relaxed));
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
