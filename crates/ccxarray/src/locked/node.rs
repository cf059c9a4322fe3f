//! Nodes of the tree, links to them, and the memory they live in.
//!
//! Nodes are named by number. Memory comes in chunks that double in size and stay where they are,
//! so that a reader may look into a node that has left the tree: it finds another generation there.

use std::sync::OnceLock;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use crate::entry::TAGS;

/// Bits of an index that a level of the tree resolves.
pub const LEVEL_BITS: u32 = 6;

/// Slots of a node.
pub const SLOTS: usize = 1 << LEVEL_BITS;

/// An index's part that chooses a slot.
pub const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// The word of a node that shows which slots are in use; those before it are of the tags.
pub const PRESENT: usize = TAGS;

/// Nodes of the first chunk, as a power of two.
const FIRST_CHUNK_BITS: u32 = 4;

/// Chunks: 2^32 nodes in all.
const CHUNKS: usize = 33 - FIRST_CHUNK_BITS as usize;

/// A node by its number, and the generation that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The node's number.
    pub node: u32,
    /// Its generation, below 2^31.
    pub generation: u32,
}

/// The content of a slot: nothing, a value, or a child.
///
/// Zero is nothing; an odd word is twice a value and one; any other word is a link, with
/// the generation, which is never zero, in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u64);

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// An entry of the tree.
    Value(u64),
    /// A child.
    Node(Link),
}

impl Slot {
    /// Nothing.
    pub const EMPTY: Slot = Slot(0);

    /// A slot with a value below 2^63.
    pub fn value(value: u64) -> Slot {
        assert!(value >> 63 == 0, "a value of the tree has 63 bits");
        Slot(value << 1 | 1)
    }

    /// A slot with a child.
    pub fn node(link: Link) -> Slot {
        Slot(u64::from(link.generation) << 33 | u64::from(link.node) << 1)
    }

    /// What it holds.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 {
            0 => Kind::Empty,
            word if word & 1 == 1 => Kind::Value(word >> 1),
            word => Kind::Node(Link {
                node: (word >> 1) as u32,
                generation: (word >> 33) as u32,
            }),
        }
    }
}

/// A node. All fields change under the tree's lock alone.
pub struct Node {
    /// Grows when the node leaves the tree; at least 1.
    generation: AtomicU32,
    /// Bits of an index below those that choose a slot here.
    shift: AtomicU32,
    marks: [AtomicU64; TAGS + 1],
    slots: [AtomicU64; SLOTS],
}

impl Node {
    fn new() -> Node {
        Node {
            generation: AtomicU32::new(1),
            shift: AtomicU32::new(0),
            marks: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// True if the node is still the one that `link` means: what was read before was its own.
    #[inline]
    pub fn is_alive(&self, link: Link) -> bool {
        // Who has read a later user's slot or word has, by the acquire there, also seen the
        // generation that `retire` set before. Acquire: partner of the release in `retire`: who sees
        // that the node has gone sees that no link leads there any more, and gets on.
        self.generation.load(Ordering::Acquire) == link.generation
    }

    /// The generation it is in.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// See the field.
    #[inline]
    pub fn shift(&self) -> u32 {
        // Acquire: partner of the release in `begin`.
        self.shift.load(Ordering::Acquire)
    }

    /// A slot.
    #[inline]
    pub fn slot(&self, at: u64) -> Slot {
        // Acquire: partner of the release in `set_slot`.
        Slot(self.slots[at as usize].load(Ordering::Acquire))
    }

    /// The slots with a tag, or those in use.
    #[inline]
    pub fn marks(&self, word: usize) -> u64 {
        // Acquire: partner of the release in `set_mark`.
        self.marks[word].load(Ordering::Acquire)
    }

    /// Makes an empty node one of the level of `shift`, before it is linked. Lock held.
    pub fn begin(&self, shift: u32) {
        // Release: partner of the acquire in `shift`.
        self.shift.store(shift, Ordering::Release);
    }

    /// Fills or empties a slot. Lock held.
    pub fn set_slot(&self, at: u64, slot: Slot) {
        // Release: partner of the acquire in `slot`: a child is complete before it is seen.
        self.slots[at as usize].store(slot.0, Ordering::Release);
    }

    /// Sets or clears a bit of a word; true if the word was or becomes zero by that. Lock held.
    pub fn set_mark(&self, word: usize, at: u64, on: bool) -> bool {
        let before = self.marks[word].load(Ordering::Relaxed);
        let after = before & !(1 << at) | u64::from(on) << at;
        // Release: partner of the acquire in `marks`.
        self.marks[word].store(after, Ordering::Release);
        (before == 0) != (after == 0)
    }

    /// The node has left the tree: it is emptied, and readers that are in it start again. Lock held.
    ///
    /// A reader that sleeps in a node while it leaves the tree 2^31 times could be fooled.
    pub fn retire(&self) {
        let next = (self.generation() + 1) & (u32::MAX >> 1);
        // Release: partner of the acquire in `is_alive`.
        self.generation.store(next.max(1), Ordering::Release);
        for word in self.slots.iter().chain(&self.marks) {
            if word.load(Ordering::Relaxed) != 0 {
                // Release: who sees the zero sees the generation above.
                word.store(0, Ordering::Release);
            }
        }
    }
}

/// The memory of nodes.
pub struct Nodes {
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            chunks: std::array::from_fn(|_| OnceLock::new()),
        }
    }
}

impl Nodes {
    /// The node that a link names, whatever its generation.
    #[inline]
    pub fn get(&self, link: Link) -> &Node {
        let (chunk, at) = place(link.node);
        let chunk = self.chunks[chunk].get().expect("linked nodes have memory");
        &chunk[at]
    }

    /// Makes sure that node number `node` has memory; gives the bytes that this took.
    pub fn provide(&self, node: u32) -> u64 {
        let chunk = place(node).0;
        if self.chunks[chunk].get().is_some() {
            return 0;
        }
        let nodes = self.chunks[chunk]
            .get_or_init(|| (0..chunk_nodes(chunk)).map(|_| Node::new()).collect());
        size_of_val::<[Node]>(nodes) as u64
    }
}

/// Nodes of a chunk: the first two are alike, then each is as large as all before it.
fn chunk_nodes(chunk: usize) -> usize {
    1 << (FIRST_CHUNK_BITS + chunk.saturating_sub(1) as u32)
}

/// The chunk of a node, and the node's place there.
#[inline]
fn place(node: u32) -> (usize, usize) {
    let rank = node >> FIRST_CHUNK_BITS;
    if rank == 0 {
        return (0, node as usize);
    }
    let bits = rank.ilog2();
    let start = 1u32 << (FIRST_CHUNK_BITS + bits);
    (bits as usize + 1, (node - start) as usize)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_place() {
        let mut expected = (0, 0);
        for node in 0..10_000 {
            assert_eq!(place(node), expected);
            expected.1 += 1;
            if expected.1 == chunk_nodes(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(u32::MAX).0, CHUNKS - 1);
    }

    #[test]
    fn slots_keep_what_they_are_given() {
        let link = Link {
            node: u32::MAX,
            generation: u32::MAX >> 1,
        };
        assert_eq!(Slot::node(link).kind(), Kind::Node(link));
        for value in [0, 1, u64::MAX >> 1] {
            assert_eq!(Slot::value(value).kind(), Kind::Value(value));
        }
        assert_eq!(Slot::EMPTY.kind(), Kind::Empty);
    }
}
