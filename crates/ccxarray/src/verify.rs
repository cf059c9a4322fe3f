//! A look at the whole tree, while nobody changes it.

use crate::cost_hook::CostHook;
use crate::entry::{Entry, TAGS, Tag};
use crate::epoch::Guard;
use crate::node::{LEVELS, Node, Phase, SLOTS};
use crate::tree::{Root, XArray, child};

/// What a tree consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Entries.
    pub entries: usize,
    /// Nodes.
    pub nodes: usize,
    /// Nodes with nothing in them, which [`XArray::reclaim`] would take out.
    pub empty_nodes: usize,
    /// Bits of tags that lead to nothing, which a search would clear.
    pub stale_bits: usize,
    /// Nodes from the root to a leaf.
    pub height: usize,
}

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// Checks the whole tree, while nobody changes it.
    ///
    /// # Panics
    /// If it is in disorder.
    pub fn verify<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> Shape {
        let root = self.root(guard);
        let mut shape = Shape::default();
        if root != Root::NONE {
            // SAFETY: the root's address was read under the guard.
            let node = unsafe { guard.node::<L>(root.address()) };
            shape.height = root.level() as usize + 1;
            assert!(shape.height <= LEVELS, "indices have 64 bits");
            verify_below(node, root.level(), guard, &mut shape);
        }
        assert_eq!(shape.entries, self.len(guard), "a walk finds every entry");
        assert_eq!(shape.nodes, self.nodes(guard), "nodes counted");
        shape
    }
}

/// Checks a node and what is below; gives the tags that are there.
fn verify_below<L: 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    level: u32,
    guard: &Guard<W>,
    shape: &mut Shape,
) -> [bool; TAGS] {
    let cost_hook = guard.cost_hook();
    assert_eq!(
        node.state(cost_hook).phase(),
        Phase::Live,
        "nobody is at work, and no closed node is left in the tree"
    );
    shape.nodes += 1;
    shape.empty_nodes += usize::from(node.is_vacant(0, cost_hook));
    let mut all = [false; TAGS];
    for at in 0..SLOTS as u64 {
        let mut here = [false; TAGS];
        if level == 0 {
            let word = node.load(at, cost_hook);
            shape.entries += usize::from(word.is_present());
            here = Tag::ALL.map(|tag| word.tags().has(tag));
        } else if let Some(child) = child(node, at, guard) {
            here = verify_below(child, level - 1, guard, shape);
        }
        for tag in Tag::ALL {
            let has_bit = node.bits(tag, cost_hook) >> at & 1 == 1;
            let has_tag = here[tag as usize];
            assert!(has_bit || !has_tag, "a bit leads to every tag");
            shape.stale_bits += usize::from(has_bit && !has_tag);
            all[tag as usize] |= has_tag;
        }
    }
    all
}
