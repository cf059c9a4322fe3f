//! Changing the tree, with its lock held.

use crate::sync::Ordering;

use super::node::{Kind, LEVEL_BITS, Link, Node, PRESENT, SLOT_MASK, SLOTS, Slot};
use super::{Find, Size, Tree};
use crate::entry::{TAGS, Tag};

/// Levels of the highest tree: indices of 63 bits.
const LEVELS_MAX: usize = 63usize.div_ceil(LEVEL_BITS as usize);

/// What only the holder of the lock knows.
#[derive(Default)]
pub struct Control {
    free: Vec<u32>,
    /// Numbers below this have been given out.
    made: u32,
    entries: u64,
    nodes: u64,
    bytes: u64,
}

/// The way from the root to an index, root first.
struct Path {
    steps: [(Link, u64); LEVELS_MAX],
    len: usize,
}

impl Path {
    fn iter_up(&self) -> impl Iterator<Item = (Link, u64)> {
        self.steps[..self.len].iter().rev().copied()
    }

    fn leaf(&self) -> (Link, u64) {
        self.steps[self.len - 1]
    }
}

/// The right to change a tree, and to read it as it is.
pub struct Changes<'a> {
    tree: &'a Tree,
    control: &'a mut Control,
}

impl<'a> Changes<'a> {
    /// Of a tree and its own control, which the caller has the lock of.
    pub fn new(tree: &'a Tree, control: &'a mut Control) -> Changes<'a> {
        Changes { tree, control }
    }

    /// The value at `index`.
    pub fn load(&self, index: u64) -> Option<u64> {
        self.tree.load(index)
    }

    /// See [`Tree::next`].
    pub fn next(&self, from: u64, find: Find) -> Option<(u64, u64)> {
        self.tree.next(from, find)
    }

    /// Bytes and shape.
    pub fn size(&self) -> Size {
        Size {
            entries: self.control.entries,
            nodes: self.control.nodes,
            bytes: self.control.bytes,
        }
    }

    /// Puts a value at `index`; gives the one that was there, whose tags the new one keeps.
    pub fn insert(&mut self, index: u64, value: u64) -> Option<u64> {
        assert!(index >> 63 == 0, "an index of the tree has 63 bits");
        self.grow(index);
        let path = self.make_path(index);
        let (leaf, at) = path.leaf();
        let node = self.node(leaf);
        let before = node.slot(at);
        node.set_slot(at, Slot::value(value));
        if let Kind::Value(before) = before.kind() {
            return Some(before);
        }
        self.control.entries += 1;
        self.mark(&path, PRESENT, true);
        None
    }

    /// Takes the entry at `index` out, with its tags.
    pub fn remove(&mut self, index: u64) -> Option<u64> {
        let path = self.path(index)?;
        let (leaf, at) = path.leaf();
        let Kind::Value(value) = self.node(leaf).slot(at).kind() else {
            return None;
        };
        for tag in 0..TAGS {
            self.mark(&path, tag, false);
        }
        self.node(leaf).set_slot(at, Slot::EMPTY);
        self.control.entries -= 1;
        self.mark(&path, PRESENT, false);
        self.drop_empty(&path);
        self.shrink();
        Some(value)
    }

    /// Gives the entry at `index` a tag, or takes it away; false if there is no entry.
    pub fn set_tag(&mut self, index: u64, tag: Tag, on: bool) -> bool {
        let Some(path) = self.path(index) else {
            return false;
        };
        let (leaf, at) = path.leaf();
        if self.node(leaf).slot(at) == Slot::EMPTY {
            return false;
        }
        self.mark(&path, tag as usize, on);
        true
    }

    /// True if there is an entry at `index` and it has the tag.
    pub fn has_tag(&self, index: u64, tag: Tag) -> bool {
        self.path(index).is_some_and(|path| {
            let (leaf, at) = path.leaf();
            self.node(leaf).marks(tag as usize) >> at & 1 == 1
        })
    }

    /// Gives up to `max` entries with tag `from` in `first..=last` the tag `to` as well; gives how
    /// many, and where to go on, if anything is left.
    pub fn copy_tag(
        &mut self,
        (first, last): (u64, u64),
        from: Tag,
        to: Tag,
        max: u32,
    ) -> (u32, Option<u64>) {
        let mut at = first;
        for done in 0..max {
            match self.next(at, Find::Tagged(from)) {
                Some((index, _)) if index <= last => {
                    self.set_tag(index, to, true);
                    at = index + 1;
                }
                _ => return (done, None),
            }
        }
        (max, Some(at))
    }

    fn node(&self, link: Link) -> &'a Node {
        self.tree.nodes.get(link)
    }

    fn set_head(&self, slot: Slot) {
        // Release: partner of the acquire in `Tree::head`.
        self.tree.head.store(slot.0, Ordering::Release);
    }

    /// The way to the node where `index` has its slot, if it is there.
    fn path(&self, index: u64) -> Option<Path> {
        let mut link = self.tree.head()?;
        let mut shift = self.node(link).shift();
        if index >> shift > SLOT_MASK {
            return None;
        }
        let mut path = empty_path();
        loop {
            let at = index >> shift & SLOT_MASK;
            path.push(link, at);
            if shift == 0 {
                return Some(path);
            }
            match self.node(link).slot(at).kind() {
                Kind::Node(child) => link = child,
                _ => return None,
            }
            shift -= LEVEL_BITS;
        }
    }

    /// As [`Changes::path`], with nodes made where there are none. The tree is high enough.
    fn make_path(&mut self, index: u64) -> Path {
        let mut link = self.tree.head().expect("the tree has grown");
        let mut shift = self.node(link).shift();
        let mut path = empty_path();
        loop {
            let at = index >> shift & SLOT_MASK;
            path.push(link, at);
            if shift == 0 {
                return path;
            }
            shift -= LEVEL_BITS;
            link = match self.node(link).slot(at).kind() {
                Kind::Node(child) => child,
                _ => {
                    // The child's bit among those in use follows when it has an entry.
                    let child = self.make_node(shift);
                    self.node(link).set_slot(at, Slot::node(child));
                    child
                }
            };
        }
    }

    /// Makes the tree high enough for `index`.
    fn grow(&mut self, index: u64) {
        let Some(mut root) = self.tree.head() else {
            let mut shift = 0;
            while index >> shift > SLOT_MASK {
                shift += LEVEL_BITS;
            }
            let root = self.make_node(shift);
            return self.set_head(Slot::node(root));
        };
        while index >> self.node(root).shift() > SLOT_MASK {
            let higher = self.make_node(self.node(root).shift() + LEVEL_BITS);
            let node = self.node(higher);
            node.set_slot(0, Slot::node(root));
            for word in 0..=PRESENT {
                node.set_mark(word, 0, self.node(root).marks(word) != 0);
            }
            self.set_head(Slot::node(higher));
            root = higher;
        }
    }

    /// Takes roots out that have a first child alone.
    fn shrink(&mut self) {
        while let Some(root) = self.tree.head() {
            let node = self.node(root);
            let Kind::Node(child) = node.slot(0).kind() else {
                return;
            };
            if node.marks(PRESENT) != 1 {
                return;
            }
            self.set_head(Slot::node(child));
            self.free_node(root);
        }
    }

    /// Takes the nodes of a path out that have become empty.
    fn drop_empty(&mut self, path: &Path) {
        for depth in (0..path.len).rev() {
            let (link, _) = path.steps[depth];
            if self.node(link).marks(PRESENT) != 0 {
                return;
            }
            match depth.checked_sub(1) {
                Some(above) => {
                    let (parent, at) = path.steps[above];
                    self.node(parent).set_slot(at, Slot::EMPTY);
                }
                None => self.set_head(Slot::EMPTY),
            }
            self.free_node(link);
        }
    }

    /// Sets or clears a bit at the end of a path, and above as far as that changes anything.
    fn mark(&self, path: &Path, word: usize, on: bool) {
        for (link, at) in path.iter_up() {
            if !self.node(link).set_mark(word, at, on) {
                return;
            }
        }
    }

    fn make_node(&mut self, shift: u32) -> Link {
        let number = self.control.free.pop().unwrap_or_else(|| {
            self.control.made += 1;
            self.control.made - 1
        });
        self.control.bytes += self.tree.nodes.provide(number);
        self.control.nodes += 1;
        let any = Link {
            node: number,
            generation: 0,
        };
        let node = self.node(any);
        node.begin(shift);
        Link {
            node: number,
            generation: node.generation(),
        }
    }

    fn free_node(&mut self, link: Link) {
        let node = self.node(link);
        node.retire();
        self.control.free.push(link.node);
        self.control.nodes -= 1;
    }

    /// Checks the whole tree.
    ///
    /// # Panics
    /// If it is in disorder.
    pub fn verify(&self) {
        let (mut entries, mut nodes) = (0, 0);
        if let Some(root) = self.tree.head() {
            self.verify_below(root, self.node(root).shift(), &mut entries, &mut nodes);
            let node = self.node(root);
            assert!(
                node.shift() == 0 || node.marks(PRESENT) != 1,
                "a root of use"
            );
        }
        assert_eq!(entries, self.control.entries, "entries counted");
        assert_eq!(nodes, self.control.nodes, "nodes counted");
        let made = self.control.free.len() as u64 + nodes;
        assert_eq!(
            made,
            u64::from(self.control.made),
            "every node is used or free"
        );
    }

    fn verify_below(&self, link: Link, shift: u32, entries: &mut u64, nodes: &mut u64) {
        let node = self.node(link);
        *nodes += 1;
        assert!(node.is_alive(link), "links are to nodes in the tree");
        assert_eq!(node.shift(), shift, "a level for each {LEVEL_BITS} bits");
        assert!(node.marks(PRESENT) != 0, "no empty nodes");
        for at in 0..SLOTS as u64 {
            let bit = |word| node.marks(word) >> at & 1 == 1;
            match node.slot(at).kind() {
                Kind::Empty => (0..=PRESENT).for_each(|word| assert!(!bit(word), "no stray bit")),
                Kind::Value(_) => {
                    *entries += 1;
                    assert!(shift == 0 && bit(PRESENT), "values at the lowest level");
                }
                Kind::Node(child) => {
                    assert!(shift > 0, "children above the lowest level");
                    for word in 0..=PRESENT {
                        let below = self.node(child).marks(word) != 0;
                        assert_eq!(bit(word), below, "bits say what is below");
                    }
                    self.verify_below(child, shift - LEVEL_BITS, entries, nodes);
                }
            }
        }
    }
}

fn empty_path() -> Path {
    let none = Link {
        node: 0,
        generation: 0,
    };
    Path {
        steps: [(none, 0); LEVELS_MAX],
        len: 0,
    }
}

impl Path {
    fn push(&mut self, link: Link, at: u64) {
        self.steps[self.len] = (link, at);
        self.len += 1;
    }
}
