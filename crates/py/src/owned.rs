//! What only the process has that made it.
//!
//! A process that is forked has a copy of a page cache, but neither the threads that serve it nor the I/Os under way, and its locks as they
//! happened to be: using the copy could hang, or write old pages over new ones. So it is refused, and dropping the copy does nothing.

use std::mem::ManuallyDrop;

/// See the module.
pub(crate) struct Owned<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Owned<T> {
        Owned {
            value: ManuallyDrop::new(value),
            process: std::process::id(),
        }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Option<&T> {
        (self.process == std::process::id()).then(|| &*self.value)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: it is dropped here alone, once.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
