//! When a node that has left the tree may be freed.
//!
//! A reader pins the epoch and then follows pointers without telling anybody. A node that was taken
//! out of the tree is freed when every guard that was there at that time is gone: only they can
//! still have its address. `crossbeam-epoch` does that; where threads are modelled or watched
//! (loom, shuttle, ThreadSanitizer, none of which understands its fences) a plain list of guards
//! behind a lock does, and also says when somebody touches a freed node ([`slow`]).

#[cfg(any(loom, shuttle, tsan))]
mod slow;
#[cfg(any(loom, shuttle, tsan))]
use slow as imp;

#[cfg(not(any(loom, shuttle, tsan)))]
mod fast;
#[cfg(not(any(loom, shuttle, tsan)))]
use fast as imp;

use crate::cost_hook::CostHook;
use crate::node::Node;

/// The right to look into trees: nodes seen under a guard stay in memory as long as it does.
///
/// Pinning costs some nanoseconds, more than a look-up's own work in a small tree, and one guard does for any number of
/// operations, on any trees. But while a guard lives, no node and nothing given to [`Guard::defer`]
/// since it was made is freed: keep it for a batch, not for a program's run.
pub struct Guard<W = ()> {
    inner: imp::Guard,
    cost_hook: W,
}

/// Pins the calling thread.
#[inline]
pub fn pin() -> Guard {
    pin_with(())
}

/// Pins the calling thread, for operations of which `cost_hook` is told.
#[inline]
pub fn pin_with<W: CostHook>(cost_hook: W) -> Guard<W> {
    Guard {
        inner: imp::pin(),
        cost_hook,
    }
}

impl<W> Guard<W> {
    /// Runs `f` when every guard that is there now is gone, on whichever thread finds that out.
    ///
    /// This is for what entries point to: take the entry out, then free its target so.
    pub fn defer(&self, f: impl FnOnce() + Send + 'static) {
        self.inner.defer(f);
    }

    /// Lets go and pins anew: what was held back only for this guard can be freed.
    pub fn repin(&mut self) {
        self.inner.repin();
    }

    #[inline(always)]
    pub(crate) fn cost_hook(&self) -> &W {
        &self.cost_hook
    }

    /// The node at an address that was read from the tree under this guard.
    ///
    /// # Safety
    /// The address is that of a node that was linked in a tree while this guard was there.
    #[inline(always)]
    pub(crate) unsafe fn node<L>(&self, address: u64) -> &Node<L> {
        let node = std::ptr::with_exposed_provenance::<Node<L>>(address as usize);
        // SAFETY: nodes are freed through `retire`, later than the end of any guard under
        // which their address could be read.
        let node = unsafe { &*node };
        imp::check(node);
        node
    }

    /// Frees a node when nobody can see it any more.
    ///
    /// # Safety
    /// The node was just taken out of its tree, by the caller alone, and no link leads to it.
    pub(crate) unsafe fn retire<L: Send + 'static>(&self, node: &Node<L>) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.retire(node) }
    }
}
