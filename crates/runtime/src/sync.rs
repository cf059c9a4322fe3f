//! The one source of atomics, and of locks that are held for a moment: `std`, or `loom` or `shuttle` when interleavings are checked (`--cfg loom`, `--cfg shuttle`).

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub use std::sync::Arc;

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::Mutex;
#[cfg(not(all(shuttle, not(loom))))]
pub use std::sync::Mutex;
pub use std::sync::PoisonError;

/// Waits a moment for another thread, in a loop that looks again.
#[inline(always)]
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(shuttle, not(loom)))]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
}

/// A place where a model of orders is to let other threads go first, as it would seldom do by itself: between two steps of
/// which others may see the first alone. Nothing in a program.
#[inline(always)]
pub fn interleave() {
    #[cfg(any(loom, shuttle))]
    spin();
}

/// `std`'s cell with loom's closure interface, so that one source serves both.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell holding `value`.
    pub const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a shared pointer to the value.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with an exclusive pointer to the value.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
