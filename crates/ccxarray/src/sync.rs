//! The one source of atomics: `std`, `loom` (`--cfg loom`) or `shuttle` (`--cfg shuttle`).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
