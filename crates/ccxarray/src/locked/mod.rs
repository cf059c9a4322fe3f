//! A radix tree of 64-slot nodes from page numbers to values, with tags: the page index of an
//! operating system.
//!
//! Problem: many CPUs look pages of a file up, and few change its index; a walker wants "the next
//! dirty page" without seeing the clean ones.
//!
//! Idea (the XArray of Linux; ScaleCache, section 2.2): a tree that is as high as its greatest
//! index needs, changed under one spin lock, read without any.
//!
//! 1. Each node has 64 slots; a slot holds a value, at the lowest level, or a child. For each tag
//!    a word of 64 bits says which slots have it; a slot of an inner node has a tag if anything
//!    below it has. *Present* is treated as one more such word, which is also the count.
//! 2. The lock is the user's, around a [`Control`]; who has it makes [`Changes`]: insert, remove, tag, untag.
//! 3. [`Tree::load`] and [`Tree::next`] take no lock. Nodes live in memory that is never given
//!    back while the tree lives; each has a *generation*, which grows when the node leaves the
//!    tree, and links name the generation they mean. A reader checks it after each slot it has
//!    read, and starts again if the node has left meanwhile.
//!
//! Unlike Linux's, a value at index 0 has a node too, and there are no entries of several slots.
//!
//! | file | idea |
//! |---|---|
//! | `node` | nodes, links to them, the memory they live in |
//! | this one | the tree as readers see it, and its lock |
//! | `change` | what is done under the lock |

mod change;
mod node;

use crate::entry::Tag;
use crate::sync::{AtomicU64, Ordering};

pub use change::{Changes, Control};
use node::{LEVEL_BITS, Link, Nodes, SLOT_MASK, Slot};

/// What a walk looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find {
    /// Any entry.
    Any,
    /// Entries with a tag.
    Tagged(Tag),
}

impl Find {
    /// The number of the node's word that shows it.
    fn word(self) -> usize {
        match self {
            Find::Tagged(tag) => tag as usize,
            Find::Any => node::PRESENT,
        }
    }
}

/// Bytes and shape of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Entries.
    pub entries: u64,
    /// Nodes in the tree.
    pub nodes: u64,
    /// Bytes of all memory for nodes, in the tree or not.
    pub bytes: u64,
}

/// The tree without its lock: what readers walk. Values and indices are below 2^63.
#[derive(Default)]
pub struct Tree {
    /// Link to the root; 0 if the tree is empty.
    head: AtomicU64,
    nodes: Nodes,
}

/// A node has left the tree while it was read.
struct Gone;

impl Tree {
    #[inline]
    fn head(&self) -> Option<Link> {
        // Acquire: partner of the release in `Changes::set_head`.
        match Slot(self.head.load(Ordering::Acquire)).kind() {
            node::Kind::Node(link) => Some(link),
            _ => None,
        }
    }

    /// The value at `index`.
    #[inline]
    pub fn load(&self, index: u64) -> Option<u64> {
        loop {
            if let Ok(found) = self.try_load(index) {
                return found;
            }
        }
    }

    #[inline]
    fn try_load(&self, index: u64) -> Result<Option<u64>, Gone> {
        let Some(mut link) = self.head() else {
            return Ok(None);
        };
        let mut node = self.nodes.get(link);
        let mut shift = node.shift();
        if !node.is_alive(link) {
            return Err(Gone);
        }
        if index >> shift > SLOT_MASK {
            return Ok(None);
        }
        loop {
            let slot = node.slot(index >> shift & SLOT_MASK);
            if !node.is_alive(link) {
                return Err(Gone);
            }
            match slot.kind() {
                node::Kind::Empty => return Ok(None),
                node::Kind::Value(value) => return Ok(Some(value)),
                node::Kind::Node(child) => {
                    (link, node) = (child, self.nodes.get(child));
                    // A child's shift follows from its parent's.
                    shift -= LEVEL_BITS;
                }
            }
        }
    }

    /// The first entry at or after `from` that `find` asks for, with its index.
    ///
    /// While others change the tree: what was there, so tagged, all the time is found.
    pub fn next(&self, from: u64, find: Find) -> Option<(u64, u64)> {
        loop {
            let link = self.head()?;
            let shift = self.nodes.get(link).shift();
            if !self.nodes.get(link).is_alive(link) {
                continue;
            }
            if let Ok(found) = self.next_below(link, shift, 0, from, find.word()) {
                return found;
            }
        }
    }

    /// The first entry at or after `from` in the node at `link`, whose first index is `first`.
    fn next_below(
        &self,
        link: Link,
        shift: u32,
        first: u64,
        from: u64,
        word: usize,
    ) -> Result<Option<(u64, u64)>, Gone> {
        let start = from.saturating_sub(first) >> shift;
        if start > SLOT_MASK {
            return Ok(None);
        }
        let node = self.nodes.get(link);
        let mut marks = node.marks(word) & u64::MAX << start;
        while marks != 0 {
            let at = u64::from(marks.trailing_zeros());
            let slot = node.slot(at);
            if !node.is_alive(link) {
                return Err(Gone);
            }
            let index = first + (at << shift);
            match slot.kind() {
                node::Kind::Empty => {}
                node::Kind::Value(value) => return Ok(Some((index, value))),
                node::Kind::Node(child) => {
                    let found = self.next_below(child, shift - LEVEL_BITS, index, from, word)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
            marks &= marks - 1;
        }
        // The marks were the node's own only if it is still there.
        if node.is_alive(link) {
            Ok(None)
        } else {
            Err(Gone)
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
