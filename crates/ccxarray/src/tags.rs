//! The bits that lead to tags.
//!
//! An entry's tags are in its word. Above them each node has a bit for each slot and tag: *there may
//! be something with the tag below*. Bits may be too many, never too few:
//!
//! > When `set_tag` has returned, and as long as the entry has the tag, every node on the way to it
//! > has its bit set, or is `Busy` with a thread that will set it again.
//!
//! **Setting** ([`XArray::mark`]), after the word has got its tag:
//!
//! 1. from the leaf to the root: load the bits, and set the bit if it is not set;
//! 2. if a node is closed, or the root is another one than before, find the way and do it all again. (A
//!    node that takes a place above others is born with its first bits set.)
//!
//! **Clearing** ([`XArray::tidy`]), by a search that has found nothing where bits were set:
//!
//! 1. lock the node (one at a time; who finds it locked leaves it);
//! 2. clear the bits;
//! 3. look again by a *settling* read, at the slot's word in a leaf, at the child's bits in an inner
//!    node, with the child locked; where there is something, set the bit again; unlock.
//!
//! Why nothing is lost: of a setter's change below and a clearer's settling read one is first in that
//! word's own order. If the change is first, the clearer sees it and sets the bit again. If the read
//! is first, the setter's change reads from it (acquire), so that the setter's later load of the
//! bits sees them cleared, and sets its own. It is the same if the setter's bit below was set already:
//! then it was set by someone for whom this holds. The child is locked while it is looked at because a bit of
//! it might be away for a moment, in the middle of a clearer's step 2.
//!
//! A search in a node reads state, bits, state; if it was locked, or changed, it looks into every slot
//! ([`Node::candidates`](crate::node::Node::candidates)).

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Tag, Tags};
use crate::epoch::Guard;
use crate::node::{LEVELS, Node, SLOTS};
use crate::tree::{Root, XArray, child, slot_of};

/// The nodes on the way to an index, by their levels.
struct Path<'g, L> {
    nodes: [Option<&'g Node<L>>; LEVELS],
}

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// Sets the bits that lead to an entry which has just been given the tags.
    pub(crate) fn mark<W: CostHook<Line = L>>(&self, index: u64, tags: Tags, guard: &Guard<W>) {
        loop {
            let root = self.root(guard);
            let Some(path) = path(root, index, guard) else {
                // The entry has been taken out, and its node after it.
                return;
            };
            if self.mark_path(&path, index, tags, guard) && self.root(guard) == root {
                return;
            }
        }
    }

    /// Sets the bits on a path; false if a node of it leaves the tree.
    fn mark_path<W: CostHook<Line = L>>(
        &self,
        path: &Path<'_, L>,
        index: u64,
        tags: Tags,
        guard: &Guard<W>,
    ) -> bool {
        for (node, level) in path.nodes.iter().flatten().zip(0..) {
            for tag in tags.iter() {
                node.set_bit(tag, slot_of(index, level), guard.cost_hook());
            }
            if node.is_closed(guard.cost_hook()) {
                self.finish_leaving(node, level, index, guard);
                return false;
            }
        }
        true
    }

    /// Clears those of the bits below which nothing has the tag.
    pub(crate) fn tidy<W: CostHook<Line = L>>(
        &self,
        node: &Node<L>,
        level: u32,
        tag: Tag,
        bits: u64,
        guard: &Guard<W>,
    ) {
        let cost_hook = guard.cost_hook();
        let stale = bits & node.bits(tag, cost_hook);
        if stale == 0 {
            return;
        }
        let Some(_locked) = node.lock(cost_hook) else {
            return;
        };
        node.clear_bits(tag, stale, cost_hook);
        let mut again = 0;
        for at in (0..SLOTS as u64).filter(|at| stale >> at & 1 == 1) {
            again |= u64::from(is_tagged(node, level, at, tag, guard)) << at;
        }
        if again != 0 {
            node.or_bits(tag, again, cost_hook);
        }
    }
}

/// True if there may be something with the tag below a slot, read in order with all changes.
fn is_tagged<L: 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    level: u32,
    at: u64,
    tag: Tag,
    guard: &Guard<W>,
) -> bool {
    let cost_hook = guard.cost_hook();
    let word = node.settle(at, cost_hook);
    if level == 0 || !word.is_present() {
        return word.tags().has(tag);
    }
    // SAFETY: the address was read under the guard in a node of the tree.
    let child = unsafe { guard.node::<L>(word.address()) };
    let Some(_locked) = child.lock(cost_hook) else {
        return true;
    };
    child.or_bits(tag, 0, cost_hook) != 0
}

fn path<'g, L: 'static, W: CostHook<Line = L>>(
    root: Root,
    index: u64,
    guard: &'g Guard<W>,
) -> Option<Path<'g, L>> {
    if !root.covers(index) {
        return None;
    }
    let mut path = Path {
        nodes: [None; LEVELS],
    };
    // SAFETY: the root's address was read under the guard.
    let mut node = unsafe { guard.node::<L>(root.address()) };
    path.nodes[root.level() as usize] = Some(node);
    for level in (1..=root.level()).rev() {
        node = child(node, slot_of(index, level), guard)?;
        path.nodes[level as usize - 1] = Some(node);
    }
    Some(path)
}
