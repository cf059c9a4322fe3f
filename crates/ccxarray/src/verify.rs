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
    /// Bits of tags that lead to nothing, which a search would clear. (A bit below a slot whose own bit is
    /// away misleads no search: a node that took a hollow one's place is born with all its first bits.)
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
            verify_below(node, root.level(), [true; TAGS], guard, &mut shape);
        }
        assert_eq!(shape.entries, self.len(guard), "a walk finds every entry");
        assert_eq!(shape.nodes, self.nodes(guard), "nodes counted");
        shape
    }
}

/// Checks a node and what is below; gives the tags that are there. `is_searched` are the tags whose
/// searches come to the node.
fn verify_below<L: 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    level: u32,
    is_searched: [bool; TAGS],
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
        let has_bit = Tag::ALL.map(|tag| node.bits(tag, cost_hook) >> at & 1 == 1);
        let is_led_to = Tag::ALL.map(|tag| is_searched[tag as usize] && has_bit[tag as usize]);
        let mut here = [false; TAGS];
        if level == 0 {
            let word = node.load(at, cost_hook);
            shape.entries += usize::from(word.is_present());
            here = Tag::ALL.map(|tag| word.tags().has(tag));
        } else if let Some(child) = child(node, at, guard) {
            here = verify_below(child, level - 1, is_led_to, guard, shape);
        }
        for tag in Tag::ALL {
            let has_tag = here[tag as usize];
            assert!(
                has_bit[tag as usize] || !has_tag,
                "a bit leads to every tag"
            );
            shape.stale_bits += usize::from(is_led_to[tag as usize] && !has_tag);
            all[tag as usize] |= has_tag;
        }
    }
    all
}
