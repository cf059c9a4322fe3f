//! `crossbeam-epoch`, in its default collector alone.

use crate::node::Node;

/// A guard of the default collector. The type of the crate is wrapped because its guards may
/// belong to other collectors, which would not keep nodes alive.
pub struct Guard(crossbeam_epoch::Guard);

#[inline(always)]
pub fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

/// Nothing to check: nobody knows which nodes are freed.
#[inline(always)]
pub fn check<L>(_: &Node<L>) {}

impl Guard {
    pub fn defer(&self, f: impl FnOnce() + Send + 'static) {
        self.0.defer(f);
    }

    pub fn repin(&mut self) {
        self.0.repin();
    }

    /// # Safety
    /// See [`super::Guard::retire`].
    pub unsafe fn retire<L: Send + 'static>(&self, node: &Node<L>) {
        let address = node.address();
        // SAFETY: no link leads to the node, so that later guards cannot reach it; the caller alone
        // retires it.
        self.0.defer(move || unsafe { Node::<L>::free(address) });
    }
}
