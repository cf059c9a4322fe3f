//! The tree: its root, the way down, and look-ups.

use std::marker::PhantomData;

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Tagged, Word};
use crate::epoch::Guard;
use crate::node::{LEVEL_BITS, LEVELS, Node, SLOT_MASK, SLOTS};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// The link to the root: its address, and its level in the bits that alignment leaves free.
///
/// So a look-up knows the height of the tree without touching the root's own line of tags and
/// state, which others change; and address and height change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root(u64);

impl Root {
    /// The tree is empty.
    pub const NONE: Root = Root(0);
    const LEVEL_MASK: u64 = 63;

    /// The root at an address, at a level; leaves are at level 0.
    pub fn new(address: u64, level: u32) -> Root {
        debug_assert!(address & Root::LEVEL_MASK == 0 && (level as usize) < LEVELS);
        Root(address | u64::from(level))
    }

    /// The root's address; 0 if there is none.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 & !Root::LEVEL_MASK
    }

    /// Its level.
    #[inline(always)]
    pub fn level(self) -> u32 {
        (self.0 & Root::LEVEL_MASK) as u32
    }

    /// True if there is a root and the index has a place below it.
    #[inline(always)]
    pub fn covers(self, index: u64) -> bool {
        index >> (self.level() * LEVEL_BITS) < SLOTS as u64 && self != Root::NONE
    }
}

/// The slot of an index in a node of a level.
#[inline(always)]
pub fn slot_of(index: u64, level: u32) -> u64 {
    index >> (level * LEVEL_BITS) & SLOT_MASK
}

/// A concurrent radix tree from indices to entries with tags. See the crate.
///
/// `E` is the type of entries; `L` the stand-in for a cache line that a [`CostHook`] wants in nodes.
pub struct XArray<E: Entry = u64, L = ()> {
    root: AtomicU64,
    /// True while one thread takes nodes out.
    pub(crate) is_reclaiming: AtomicBool,
    line: L,
    entries: PhantomData<E>,
}

impl<E: Entry, L: Default + Send + Sync + 'static> Default for XArray<E, L> {
    fn default() -> Self {
        XArray::new()
    }
}

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// An empty tree. It takes no memory for nodes yet.
    pub fn new() -> XArray<E, L> {
        XArray {
            root: AtomicU64::new(Root::NONE.0),
            is_reclaiming: AtomicBool::new(false),
            line: L::default(),
            entries: PhantomData,
        }
    }

    /// The entry at `index`. Writes nothing.
    #[inline]
    pub fn get<W: CostHook<Line = L>>(&self, index: u64, guard: &Guard<W>) -> Option<E> {
        let word = self.find(index, guard);
        word.is_present().then(|| word.to_entry())
    }

    /// The entry at `index` and its tags, as they were at one instant.
    #[inline]
    pub fn get_tagged<W: CostHook<Line = L>>(
        &self,
        index: u64,
        guard: &Guard<W>,
    ) -> Option<Tagged<E>> {
        self.find(index, guard).tagged()
    }

    #[inline(always)]
    fn find<W: CostHook<Line = L>>(&self, index: u64, guard: &Guard<W>) -> Word {
        let root = self.root(guard);
        if !root.covers(index) {
            return Word::EMPTY;
        }
        // SAFETY: the root's address was read under the guard.
        let mut node = unsafe { guard.node::<L>(root.address()) };
        let mut shift = root.level() * LEVEL_BITS;
        loop {
            let word = node.load(index >> shift & SLOT_MASK, guard.cost_hook());
            if shift == 0 || !word.is_present() {
                return word;
            }
            // SAFETY: the child's address was read under the guard, in a node of the tree.
            node = unsafe { guard.node::<L>(word.address()) };
            // A child's level follows from its parent's.
            shift -= LEVEL_BITS;
        }
    }

    /// The root.
    #[inline(always)]
    pub(crate) fn root<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> Root {
        guard.cost_hook().read(&self.line);
        self.peek_root()
    }

    #[inline(always)]
    fn peek_root(&self) -> Root {
        // Acquire: partner of the release in `exchange_root`: the node is complete.
        Root(self.root.load(Ordering::Acquire))
    }

    /// Changes the root, if it is `from`.
    pub(crate) fn exchange_root<W: CostHook<Line = L>>(
        &self,
        from: Root,
        to: Root,
        guard: &Guard<W>,
    ) -> bool {
        guard.cost_hook().write(&self.line);
        // Release: partner of the acquire in `peek_root`. Acquire: for the one who replaces it.
        self.root
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The node of `level` on the way to `index`, if it is there.
    pub(crate) fn node_at<'g, W: CostHook<Line = L>>(
        &self,
        index: u64,
        level: u32,
        guard: &'g Guard<W>,
    ) -> Option<&'g Node<L>> {
        let root = self.root(guard);
        if !root.covers(index) || root.level() < level {
            return None;
        }
        // SAFETY: the root's address was read under the guard.
        let mut node = unsafe { guard.node::<L>(root.address()) };
        for above in (level + 1..=root.level()).rev() {
            node = child(node, slot_of(index, above), guard)?;
        }
        Some(node)
    }

    /// Bytes of the nodes in the tree and of the tree itself. Visits all inner nodes.
    ///
    /// Nodes that have left the tree and wait to be freed are not counted.
    pub fn memory_bytes<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> usize {
        size_of::<Self>() + self.nodes(guard) * size_of::<Node<L>>()
    }

    /// Nodes in the tree. Visits all inner nodes.
    pub fn nodes<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> usize {
        let root = self.root(guard);
        if root == Root::NONE {
            return 0;
        }
        // SAFETY: the root's address was read under the guard.
        let node = unsafe { guard.node::<L>(root.address()) };
        count_nodes(node, root.level(), guard)
    }

    /// Number of entries. Visits every node: keep a count of your own beside the
    /// tree if you need it often, as a counter in here would be a line that all writers fight for.
    pub fn len<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> usize {
        self.range(.., guard).count()
    }

    /// True if there is no entry.
    pub fn is_empty<W: CostHook<Line = L>>(&self, guard: &Guard<W>) -> bool {
        self.next_at_or_after(0, guard).is_none()
    }
}

/// The child in a slot of an inner node.
pub fn child<'g, L: 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    at: u64,
    guard: &'g Guard<W>,
) -> Option<&'g Node<L>> {
    let word = node.load(at, guard.cost_hook());
    if !word.is_present() {
        return None;
    }
    // SAFETY: the address was read under the guard in a node of the tree, an inner one as the
    // caller knows.
    Some(unsafe { guard.node::<L>(word.address()) })
}

fn count_nodes<L: 'static, W: CostHook<Line = L>>(
    node: &Node<L>,
    level: u32,
    guard: &Guard<W>,
) -> usize {
    let slots = 0..SLOTS as u64;
    match level {
        0 => 1,
        // Leaves are counted without a look at them.
        1 => {
            1 + slots
                .filter(|&at| node.load(at, guard.cost_hook()).is_present())
                .count()
        }
        _ => {
            let children = slots.filter_map(|at| child(node, at, guard));
            1 + children
                .map(|child| count_nodes(child, level - 1, guard))
                .sum::<usize>()
        }
    }
}

impl<E: Entry, L> Drop for XArray<E, L> {
    fn drop(&mut self) {
        // Acquire: partner of the release in `exchange_root`.
        let root = Root(self.root.load(Ordering::Acquire));
        if root != Root::NONE {
            // SAFETY: nobody else has the tree any more, and what has left it is not found.
            unsafe { free_below::<L>(root.address(), root.level()) };
        }
    }
}

/// Frees a node and all below it.
///
/// # Safety
/// The caller alone has them, and each is linked once.
unsafe fn free_below<L>(address: u64, level: u32) {
    if level > 0 {
        let node = std::ptr::with_exposed_provenance::<Node<L>>(address as usize);
        for at in 0..SLOTS as u64 {
            // SAFETY: the node is freed below, later than this.
            let word = unsafe { &*node }.peek(at);
            if word.is_present() {
                // SAFETY: as the caller promises.
                unsafe { free_below::<L>(word.address(), level - 1) };
            }
        }
    }
    // SAFETY: as the caller promises.
    unsafe { Node::<L>::free(address) };
}
