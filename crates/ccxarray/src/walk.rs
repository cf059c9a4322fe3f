//! Searches in the order of indices: the next entry, the next with a tag, the next hole.
//!
//! While others change the tree a search finds whatever is there, or so tagged, from its beginning
//! to its end; what comes or goes meanwhile it may find or not.

use std::ops::{Bound, RangeBounds};

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Tag, Tagged, Word};
use crate::epoch::Guard;
use crate::node::{ALL_SLOTS, LEVEL_BITS, LEVELS, Node, SLOTS};
use crate::tree::{Root, XArray, child};

/// What a search is for: any entry, or one with a tag.
type Find = Option<Tag>;

/// A node, and where it is.
struct Place<'g, L> {
    node: &'g Node<L>,
    level: u32,
    /// The first index below it.
    base: u64,
}

impl<L> Clone for Place<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Place<'_, L> {}

impl<'g, L: 'static> Place<'g, L> {
    /// The root, if there is one.
    fn root<W: CostHook<Line = L>>(root: Root, guard: &'g Guard<W>) -> Option<Place<'g, L>> {
        if root == Root::NONE {
            return None;
        }
        Some(Place {
            // SAFETY: the root's address was read under the guard.
            node: unsafe { guard.node::<L>(root.address()) },
            level: root.level(),
            base: 0,
        })
    }

    /// The child in a slot.
    fn child<W: CostHook<Line = L>>(&self, at: u64, guard: &'g Guard<W>) -> Option<Place<'g, L>> {
        Some(Place {
            node: child(self.node, at, guard)?,
            level: self.level - 1,
            base: self.first_index(at),
        })
    }

    /// The first index of a slot.
    fn first_index(&self, at: u64) -> u64 {
        self.base | at << (self.level * LEVEL_BITS)
    }

    /// The slots that have indices at or after `from`, as bits.
    fn slots_from(&self, from: u64) -> u64 {
        let first = from.saturating_sub(self.base) >> (self.level * LEVEL_BITS);
        if first < SLOTS as u64 {
            ALL_SLOTS & u64::MAX << first & self.usable()
        } else {
            0
        }
    }

    /// The slots that have indices of 64 bits at all.
    fn usable(&self) -> u64 {
        match self.level as usize + 1 == LEVELS {
            true => ALL_SLOTS >> (SLOTS as u64 - 1 - (u64::MAX >> (self.level * LEVEL_BITS))),
            false => ALL_SLOTS,
        }
    }

    /// The last index below it.
    fn last_index(&self) -> u64 {
        let above = (self.level + 1) * LEVEL_BITS;
        self.base | u64::MAX.checked_shl(above).map_or(u64::MAX, |mask| !mask)
    }
}

/// An entry that was found, and the leaf it is in.
struct Hit<'g, L> {
    index: u64,
    word: Word,
    leaf: Place<'g, L>,
}

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// The first entry at or after `from`, with its index.
    pub fn next_at_or_after<W: CostHook<Line = L>>(
        &self,
        from: u64,
        guard: &Guard<W>,
    ) -> Option<(u64, E)> {
        let root = Place::root(self.root(guard), guard)?;
        let hit = self.seek(root, from, None, guard)?;
        Some((hit.index, hit.word.to_entry()))
    }

    /// The first entry with a tag at or after `from`, with its index.
    ///
    /// Subtrees without the tag are passed over; bits that led to nothing are cleared.
    pub fn next_tagged<W: CostHook<Line = L>>(
        &self,
        tag: Tag,
        from: u64,
        guard: &Guard<W>,
    ) -> Option<(u64, E)> {
        let root = Place::root(self.root(guard), guard)?;
        let hit = self.seek(root, from, Some(tag), guard)?;
        Some((hit.index, hit.word.to_entry()))
    }

    /// The entries of a range with their tags, in order of their indices.
    pub fn range<'g, W: CostHook<Line = L>>(
        &'g self,
        range: impl RangeBounds<u64>,
        guard: &'g Guard<W>,
    ) -> Iter<'g, E, L, W> {
        Iter::new(self, range, None, guard)
    }

    /// The entries of a range that have a tag, in order of their indices. `take` limits them.
    pub fn range_tagged<'g, W: CostHook<Line = L>>(
        &'g self,
        tag: Tag,
        range: impl RangeBounds<u64>,
        guard: &'g Guard<W>,
    ) -> Iter<'g, E, L, W> {
        Iter::new(self, range, Some(tag), guard)
    }

    /// Gives up to `limit` entries of a range that have the tag `from` the tag `to` as well. Gives how
    /// many, and the index to go on at if the limit was reached.
    pub fn copy_tag<W: CostHook<Line = L>>(
        &self,
        range: impl RangeBounds<u64>,
        from: Tag,
        to: Tag,
        limit: usize,
        guard: &Guard<W>,
    ) -> (usize, Option<u64>) {
        let mut count = 0;
        for (index, _) in self.range_tagged(from, range, guard) {
            if count == limit {
                return (count, Some(index));
            }
            count += usize::from(self.set_tag(index, to, guard));
        }
        (count, None)
    }

    /// The first index at or after `from` without an entry; `None` if there is none up to the
    /// greatest index.
    pub fn next_hole<W: CostHook<Line = L>>(&self, from: u64, guard: &Guard<W>) -> Option<u64> {
        let Some(root) = Place::root(self.root(guard), guard) else {
            return Some(from);
        };
        if from > root.last_index() {
            return Some(from);
        }
        hole(root, from, guard).or_else(|| root.last_index().checked_add(1))
    }

    /// Removes the entries of a range for which `keep` is false, and takes out the nodes that are
    /// empty. Gives the number of entries removed.
    ///
    /// `keep` is called again for an entry that has changed meanwhile; what is inserted meanwhile may
    /// stay. To truncate, keep nothing: entries are seen by `keep` before they go.
    pub fn retain<W: CostHook<Line = L>>(
        &self,
        range: impl RangeBounds<u64> + Clone,
        guard: &Guard<W>,
        mut keep: impl FnMut(u64, Tagged<E>) -> bool,
    ) -> usize {
        let found = self.range(range.clone(), guard);
        let removed = found
            .filter(|&(index, _)| {
                self.remove_if(index, guard, |now| !keep(index, now))
                    .is_ok()
            })
            .count();
        self.reclaim(range, guard);
        removed
    }

    /// The first entry that `find` asks for, at or after `from`, below a place.
    fn seek<'g, W: CostHook<Line = L>>(
        &self,
        place: Place<'g, L>,
        from: u64,
        find: Find,
        guard: &'g Guard<W>,
    ) -> Option<Hit<'g, L>> {
        let cost_hook = guard.cost_hook();
        let mut slots = place.slots_from(from);
        if let Some(tag) = find {
            slots &= place.node.candidates(tag, cost_hook);
        }
        let (mut hit, mut stale) = (None, 0);
        while slots != 0 && hit.is_none() {
            let at = u64::from(slots.trailing_zeros());
            slots &= slots - 1;
            hit = match place.level {
                0 => {
                    let word = place.node.load(at, cost_hook);
                    is_match(word, find).then(|| Hit {
                        index: place.first_index(at),
                        word,
                        leaf: place,
                    })
                }
                _ => {
                    let below = place.child(at, guard);
                    below.and_then(|below| self.seek(below, from, find, guard))
                }
            };
            let is_whole = place.first_index(at) >= from;
            stale |= u64::from(hit.is_none() && is_whole) << at;
        }
        if let Some(tag) = find {
            self.tidy(place.node, place.level, tag, stale, guard);
        }
        hit
    }
}

fn is_match(word: Word, find: Find) -> bool {
    match find {
        Some(tag) => word.tags().has(tag),
        None => word.is_present(),
    }
}

/// The first index at or after `from` without an entry below a place.
fn hole<L: 'static, W: CostHook<Line = L>>(
    place: Place<'_, L>,
    from: u64,
    guard: &Guard<W>,
) -> Option<u64> {
    let mut slots = place.slots_from(from);
    while slots != 0 {
        let at = u64::from(slots.trailing_zeros());
        slots &= slots - 1;
        if !place.node.load(at, guard.cost_hook()).is_present() {
            return Some(place.first_index(at).max(from));
        }
        if place.level > 0 {
            // A child that has just left is a hole too.
            let Some(below) = place.child(at, guard) else {
                return Some(place.first_index(at).max(from));
            };
            if let Some(found) = hole(below, from, guard) {
                return Some(found);
            }
        }
    }
    None
}

/// Entries in the order of their indices. See [`XArray::range`].
pub struct Iter<'g, E: Entry, L: 'static, W> {
    tree: &'g XArray<E, L>,
    guard: &'g Guard<W>,
    find: Find,
    /// Where to go on, if anywhere.
    next: Option<u64>,
    last: u64,
    /// The leaf of the entry before: its neighbours are found without the way down.
    leaf: Option<Place<'g, L>>,
}

impl<'g, E: Entry, L: Default + Send + Sync + 'static, W: CostHook<Line = L>> Iter<'g, E, L, W> {
    fn new(
        tree: &'g XArray<E, L>,
        range: impl RangeBounds<u64>,
        find: Find,
        guard: &'g Guard<W>,
    ) -> Self {
        let limits = limits(range);
        Iter {
            tree,
            guard,
            find,
            next: limits.map(|(first, _)| first),
            last: limits.map_or(0, |(_, last)| last),
            leaf: None,
        }
    }

    fn seek(&self) -> Option<Hit<'g, L>> {
        let mut from = self.next?;
        if let Some(leaf) = self.leaf
            && from <= leaf.last_index()
        {
            // What was there all the time is in this leaf, even if that has left the tree.
            let hit = self.tree.seek(leaf, from, self.find, self.guard);
            if hit.is_some() {
                return hit;
            }
            from = leaf.last_index().checked_add(1)?;
        }
        let root = Place::root(self.tree.root(self.guard), self.guard)?;
        self.tree.seek(root, from, self.find, self.guard)
    }
}

impl<E: Entry, L: Default + Send + Sync + 'static, W: CostHook<Line = L>> Iterator
    for Iter<'_, E, L, W>
{
    type Item = (u64, Tagged<E>);

    fn next(&mut self) -> Option<Self::Item> {
        let hit = self.seek().filter(|hit| hit.index <= self.last);
        let Some(hit) = hit else {
            self.next = None;
            return None;
        };
        self.next = hit.index.checked_add(1);
        self.leaf = Some(hit.leaf);
        Some((hit.index, hit.word.tagged()?))
    }
}

/// The first and the last index of a range; `None` if it is empty.
pub fn limits(range: impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(&last) => last,
        Bound::Excluded(&end) => end.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (first <= last).then_some((first, last))
}
