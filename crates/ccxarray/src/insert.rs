//! Filling slots: entries, the nodes on the way to them, and a higher root.
//!
//! 1. While the root's level is too low for the index, the tree *grows*: a chain of nodes is built
//!    above the present root, out of everybody's sight, and published by one exchange of the
//!    root. Who loses frees his own chain alone, to which nothing leads.
//! 2. On the way down a missing child is made and put into its slot by an exchange. Who loses frees his
//!    node and goes on with the winner's, so there is one node for a place.
//! 3. In the leaf an exchange fills the slot.
//!
//! A slot of a node that is leaving the tree cannot be filled; then the leaving is finished here and
//! now, and the way begins anew at the root. Nobody waits for anybody.
//!
//! ScaleCache, sections 3.2.1 and 3.2.2, without its reference counts.

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Tagged, Tags, Word};
use crate::epoch::Guard;
use crate::node::{LEVEL_BITS, Node, Refused, SLOTS};
use crate::tree::{Root, XArray, slot_of};

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// Puts an entry at `index`, without tags, if there is none.
    ///
    /// # Errors
    /// The entry that is there.
    ///
    /// # Panics
    /// If the entry has more than 60 bits.
    #[inline]
    pub fn insert<W: CostHook<Line = L>>(
        &self,
        index: u64,
        entry: E,
        guard: &Guard<W>,
    ) -> Result<(), E> {
        let word = Word::entry(Tagged {
            entry,
            tags: Tags::NONE,
        });
        loop {
            let leaf = self.make_leaf(index, guard);
            match leaf.fill(slot_of(index, 0), word, guard.cost_hook()) {
                Ok(()) => return Ok(()),
                Err(Refused::Occupied(other)) => return Err(other.to_entry()),
                Err(Refused::Closed) => self.finish_leaving(leaf, 0, index, guard),
            }
        }
    }

    /// The leaf of an index, made if it is not there.
    #[inline]
    fn make_leaf<'g, W: CostHook<Line = L>>(&self, index: u64, guard: &'g Guard<W>) -> &'g Node<L> {
        loop {
            let root = self.root(guard);
            if !root.covers(index) {
                self.grow(root, index, guard);
            } else if let Some(leaf) = self.make_leaf_below(root, index, guard) {
                return leaf;
            }
        }
    }

    /// None if a node on the way is leaving.
    #[inline]
    fn make_leaf_below<'g, W: CostHook<Line = L>>(
        &self,
        root: Root,
        index: u64,
        guard: &'g Guard<W>,
    ) -> Option<&'g Node<L>> {
        // SAFETY: the root's address was read under the guard.
        let mut node = unsafe { guard.node::<L>(root.address()) };
        for level in (1..=root.level()).rev() {
            let at = slot_of(index, level);
            let word = node.load(at, guard.cost_hook());
            let address = if word.is_present() {
                word.address()
            } else {
                match make_child(node, at, guard) {
                    Some(address) => address,
                    None => {
                        self.finish_leaving(node, level, index, guard);
                        return None;
                    }
                }
            };
            // SAFETY: the address was read, or linked, under the guard in a node of the tree.
            node = unsafe { guard.node::<L>(address) };
        }
        Some(node)
    }

    /// Makes the tree high enough for an index, unless another thread changes the root first.
    #[cold]
    fn grow<W: CostHook<Line = L>>(&self, root: Root, index: u64, guard: &Guard<W>) {
        let (mut top, mut level) = (root.address(), root.level());
        if root == Root::NONE {
            top = Node::<L>::make().into_address();
            while index >> (level * LEVEL_BITS) >= SLOTS as u64 {
                level += 1;
            }
        }
        while index >> (level * LEVEL_BITS) >= SLOTS as u64 {
            top = Node::<L>::make_above(top).into_address();
            level += 1;
        }
        if self.exchange_root(root, Root::new(top, level), guard) {
            return;
        }
        while top != root.address() {
            // SAFETY: a node of our own chain, which nobody has seen.
            let node = unsafe { &*std::ptr::with_exposed_provenance::<Node<L>>(top as usize) };
            let below = node.peek(0);
            // SAFETY: as above; it is freed once.
            unsafe { Node::<L>::free(top) };
            if !below.is_present() {
                break;
            }
            top = below.address();
        }
    }
}

/// Puts a new child into an empty slot, or finds the one that was put there first. None if the
/// node is leaving.
#[cold]
fn make_child<L: Default + Send + Sync + 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    at: u64,
    guard: &Guard<W>,
) -> Option<u64> {
    let new = Node::<L>::make().into_address();
    let result = node.fill(at, Word::child(new), guard.cost_hook());
    let Err(refused) = result else {
        return Some(new);
    };
    // SAFETY: it was not linked, so nobody has seen it.
    unsafe { Node::<L>::free(new) };
    match refused {
        Refused::Occupied(other) => Some(other.address()),
        Refused::Closed => None,
    }
}
