//! Taking nodes out that are empty, and roots that are higher than need be.
//!
//! `remove` leaves an empty node where it is, for the next entry there. Taking it out is for a *safe
//! point* that the owner of the tree chooses (a file is closed, a range was given up, memory is
//! short). Everybody else may go on meanwhile. One thread at a time:
//!
//! 1. **Empty node**: *close* it. Every slot is frozen, then the state goes from `Freezing` to `Dead`;
//!    whoever fills a slot in between calls it off. A dead node is cut off from its parent, or
//!    from the root, and retired: freed when nobody can see it.
//! 2. **Root with nothing but its first child**: close the other slots; `Hollow`. The root is changed
//!    to the child. If meanwhile the tree has grown over the hollow node, a new node takes its place
//!    there: a closed node never opens again, so that its address means the same to all.
//!
//! Steps after *close* can be done by anybody, and whoever wants to fill a slot of a closed node does them
//! before he tries again ([`XArray::finish_leaving`]): a reclaimer that sleeps delays nobody.
//!
//! ScaleCache, section 3.2.3, without flags and counts.

use std::ops::RangeBounds;

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Word};
use crate::epoch::Guard;
use crate::node::{LEVEL_BITS, Node, Phase, SLOTS};
use crate::sync::{AtomicBool, Ordering};
use crate::tree::{Root, XArray, child, slot_of};
use crate::walk::limits;

/// The turn to take nodes out, given back at its end.
struct Turn<'a>(&'a AtomicBool);

impl Turn<'_> {
    fn take(is_taken: &AtomicBool) -> Option<Turn<'_>> {
        // Acquire: partner of the release in `drop`.
        (!is_taken.swap(true, Ordering::Acquire)).then(|| Turn(is_taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// Takes out the nodes below a range of indices in which there is nothing, and lowers the
    /// tree if it is higher than need be. Gives the number of nodes taken out.
    ///
    /// Looks at every node of the range once. Does nothing if another thread is at it.
    pub fn reclaim<W: CostHook<Line = L>>(
        &self,
        range: impl RangeBounds<u64>,
        guard: &Guard<W>,
    ) -> usize {
        let Some(limits) = limits(range) else {
            return 0;
        };
        let Some(_turn) = Turn::take(&self.is_reclaiming) else {
            return 0;
        };
        let root = self.root(guard);
        if root == Root::NONE {
            return 0;
        }
        // SAFETY: the root's address was read under the guard.
        let node = unsafe { guard.node::<L>(root.address()) };
        self.reclaim_below(node, root.level(), 0, limits, guard) + self.lower(guard)
    }

    /// Takes the leaf of an index out if there is nothing in it, and what has become empty above it. Gives the
    /// number of nodes taken out.
    ///
    /// For after a [`remove`](XArray::remove), where memory matters more than that the next entry finds its node: looks at
    /// one leaf, and takes no turn if there is something in it. Does nothing if another thread is at it: an
    /// empty leaf may be left, for the next removal there or [`XArray::reclaim`].
    pub fn reclaim_leaf<W: CostHook<Line = L>>(&self, index: u64, guard: &Guard<W>) -> usize {
        match self.node_at(index, 0, guard) {
            Some(leaf) if leaf.is_vacant(0, guard.cost_hook()) => {
                self.reclaim(index..=index, guard)
            }
            _ => 0,
        }
    }

    /// Reclaims below a node, and then the node. Its first index is `base`.
    fn reclaim_below<W: CostHook<Line = L>>(
        &self,
        node: &Node<L>,
        level: u32,
        base: u64,
        (first, last): (u64, u64),
        guard: &Guard<W>,
    ) -> usize {
        let mut count = 0;
        if level > 0 {
            let shift = level * LEVEL_BITS;
            let from = first.saturating_sub(base) >> shift;
            let to = (last.saturating_sub(base) >> shift).min(SLOTS as u64 - 1);
            for at in from..=to {
                if let Some(child) = child(node, at, guard) {
                    let limits = (first, last);
                    count +=
                        self.reclaim_below(child, level - 1, base | at << shift, limits, guard);
                }
            }
        }
        let cost_hook = guard.cost_hook();
        if node.is_vacant(0, cost_hook) && node.close(0, Phase::Dead, cost_hook) {
            self.cut_off(node, level, base, guard);
            count += 1;
        }
        count
    }

    /// Takes roots out that have nothing but a first child.
    fn lower<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> usize {
        let cost_hook = guard.cost_hook();
        for count in 0.. {
            let root = self.root(guard);
            if root.level() == 0 {
                return count;
            }
            // SAFETY: the root's address was read under the guard.
            let node = unsafe { guard.node::<L>(root.address()) };
            let is_hollow = node.load(0, cost_hook).is_present() && node.is_vacant(1, cost_hook);
            if !is_hollow || !node.close(1, Phase::Hollow, cost_hook) {
                return count;
            }
            self.pass_over(node, root.level(), guard);
        }
        unreachable!("a tree has few levels")
    }

    /// Finishes what the closing of a node has begun: it leaves the tree, or is opened again.
    #[cold]
    pub(crate) fn finish_leaving<W: CostHook<Line = L>>(
        &self,
        node: &Node<L>,
        level: u32,
        index: u64,
        guard: &Guard<W>,
    ) {
        match node.state(guard.cost_hook()).phase() {
            Phase::Dead => self.cut_off(node, level, index, guard),
            Phase::Hollow => self.pass_over(node, level, guard),
            Phase::Live | Phase::Busy | Phase::Freezing => {}
        }
    }

    /// Cuts a dead node off from what leads to it.
    fn cut_off<W: CostHook<Line = L>>(
        &self,
        node: &Node<L>,
        level: u32,
        index: u64,
        guard: &Guard<W>,
    ) {
        loop {
            let root = self.root(guard);
            let is_cut_off = if root.address() == node.address() {
                if !self.exchange_root(root, Root::NONE, guard) {
                    // The tree has grown over it.
                    continue;
                }
                true
            } else {
                let parent = self.node_at(index, level + 1, guard);
                parent.is_some_and(|parent| {
                    let (at, link) = (slot_of(index, level + 1), Word::child(node.address()));
                    let cut = parent.exchange(at, link, Word::EMPTY, guard.cost_hook());
                    cut.is_ok()
                })
            };
            if is_cut_off {
                // SAFETY: the exchange above took the one link to the node away.
                unsafe { guard.retire(node) };
            }
            return;
        }
    }

    /// Puts what is of use of a hollow node into its place: its first child, which becomes the root;
    /// or a new node over that child, if the tree has grown over the hollow one.
    fn pass_over<W: CostHook<Line = L>>(&self, node: &Node<L>, level: u32, guard: &Guard<W>) {
        let cost_hook = guard.cost_hook();
        // A hollow node's first slot does not change.
        let child = node.load(0, cost_hook).address();
        loop {
            let root = self.root(guard);
            let is_replaced = if root.address() == node.address() {
                if !self.exchange_root(root, Root::new(child, level - 1), guard) {
                    continue;
                }
                true
            } else {
                let parent = self.node_at(0, level + 1, guard);
                parent.is_some_and(|parent| replace_hollow(parent, node, child, cost_hook))
            };
            if is_replaced {
                // SAFETY: the exchange took the one link to the node away.
                unsafe { guard.retire(node) };
            }
            return;
        }
    }
}

/// Puts a new node over `child` into the first slot of `parent`, where a hollow one is; false if
/// that is not there.
fn replace_hollow<L: Default, W: CostHook<Line = L>>(
    parent: &Node<L>,
    hollow: &Node<L>,
    child: u64,
    cost_hook: &W,
) -> bool {
    let new = Node::<L>::make_above(child).into_address();
    let from = Word::child(hollow.address());
    let is_replaced = parent
        .exchange(0, from, Word::child(new), cost_hook)
        .is_ok();
    if !is_replaced {
        // SAFETY: it was not linked, so nobody has seen it.
        unsafe { Node::<L>::free(new) };
    }
    is_replaced
}
