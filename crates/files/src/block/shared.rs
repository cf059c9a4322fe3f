//! What several tasks share: values behind a short lock.

use wharf_runtime::sync::{Mutex, PoisonError};

/// A value behind a lock that is never held across a wait.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// A value.
    pub fn new(value: T) -> Shared<T> {
        Shared(Mutex::new(value))
    }

    /// Runs `f` with the lock held.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
