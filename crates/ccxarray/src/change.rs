//! Changing an entry that is there: one exchange of its word, which has the tags in it too.

use crate::cost_hook::CostHook;
use crate::entry::{Entry, Tag, Tagged, Tags, Word};
use crate::epoch::Guard;
use crate::tree::{XArray, slot_of};

impl<E: Entry, L: Default + Send + Sync + 'static> XArray<E, L> {
    /// Changes the entry at `index`, its tags, or both in one step: `f` says to what, or `None` to
    /// leave it. `f` is called again if the entry has changed meanwhile.
    ///
    /// Gives what was there before.
    ///
    /// # Errors
    /// What is there, if `f` leaves it; `None` if nothing is.
    ///
    /// # Panics
    /// If the new entry has more than 60 bits.
    pub fn update<W: CostHook<Line = L>>(
        &self,
        index: u64,
        guard: &Guard<W>,
        mut f: impl FnMut(Tagged<E>) -> Option<Tagged<E>>,
    ) -> Result<Tagged<E>, Option<Tagged<E>>> {
        let mut added = Tags::NONE;
        let changed = self.change(index, guard, |now| {
            let new = f(now)?;
            added = new.tags.beyond(now.tags);
            Some(Word::entry(new))
        });
        if changed.is_ok() && !added.is_empty() {
            self.mark(index, added, guard);
        }
        changed
    }

    /// Puts an entry at `index`, whatever is there; gives that, whose tags the new one keeps.
    ///
    /// # Panics
    /// If the entry has more than 60 bits.
    pub fn replace<W: CostHook<Line = L>>(
        &self,
        index: u64,
        entry: E,
        guard: &Guard<W>,
    ) -> Option<E> {
        loop {
            let with_entry = |now: Tagged<E>| Some(Word::entry(Tagged { entry, ..now }));
            if let Ok(before) = self.change(index, guard, with_entry) {
                return Some(before.entry);
            }
            if self.insert(index, entry, guard).is_ok() {
                return None;
            }
        }
    }

    /// Replaces the entry at `index` if it is `current`. It keeps its tags.
    ///
    /// # Errors
    /// The entry that is there instead, if one is.
    ///
    /// # Panics
    /// If the entry has more than 60 bits.
    pub fn compare_exchange<W: CostHook<Line = L>>(
        &self,
        index: u64,
        current: E,
        new: E,
        guard: &Guard<W>,
    ) -> Result<(), Option<E>> {
        let current = current.into_bits();
        let exchange = |now: Tagged<E>| {
            let is_it = now.entry.into_bits() == current;
            is_it.then(|| Word::entry(Tagged { entry: new, ..now }))
        };
        match self.change(index, guard, exchange) {
            Ok(_) => Ok(()),
            Err(found) => Err(found.map(|found| found.entry)),
        }
    }

    /// Takes the entry at `index` out, with its tags.
    ///
    /// The node stays for the next one there, even if it is empty now: see [`XArray::reclaim`].
    pub fn remove<W: CostHook<Line = L>>(&self, index: u64, guard: &Guard<W>) -> Option<Tagged<E>> {
        self.change(index, guard, |_| Some(Word::EMPTY)).ok()
    }

    /// Takes the entry at `index` out if `f` says so: of the very entry and tags that leave.
    ///
    /// # Errors
    /// What stays there; `None` if nothing was there.
    pub fn remove_if<W: CostHook<Line = L>>(
        &self,
        index: u64,
        guard: &Guard<W>,
        mut f: impl FnMut(Tagged<E>) -> bool,
    ) -> Result<Tagged<E>, Option<Tagged<E>>> {
        self.change(index, guard, |now| f(now).then_some(Word::EMPTY))
    }

    /// Gives the entry at `index` a tag; false if there is no entry.
    ///
    /// When it has returned, every search that begins later finds the tag.
    pub fn set_tag<W: CostHook<Line = L>>(&self, index: u64, tag: Tag, guard: &Guard<W>) -> bool {
        let with_tag = |now: Tagged<E>| {
            let tags = now.tags.with(tag);
            (tags != now.tags).then(|| Word::entry(Tagged { tags, ..now }))
        };
        if matches!(self.change(index, guard, with_tag), Err(None)) {
            return false;
        }
        // Also if it had the tag: who gave it may not have come to the end yet.
        self.mark(index, tag.into(), guard);
        true
    }

    /// Takes a tag from the entry at `index`; false if there is no entry.
    ///
    /// The bits above are cleared by the next search that comes by in vain.
    pub fn clear_tag<W: CostHook<Line = L>>(&self, index: u64, tag: Tag, guard: &Guard<W>) -> bool {
        let without_tag = |now: Tagged<E>| {
            let tags = now.tags.without(tag);
            (tags != now.tags).then(|| Word::entry(Tagged { tags, ..now }))
        };
        !matches!(self.change(index, guard, without_tag), Err(None))
    }

    /// True if there is an entry at `index` and it has the tag.
    pub fn has_tag<W: CostHook<Line = L>>(&self, index: u64, tag: Tag, guard: &Guard<W>) -> bool {
        self.get_tagged(index, guard)
            .is_some_and(|found| found.tags.has(tag))
    }

    /// Changes the word of an entry; what was there, or what is there and was left.
    #[inline]
    fn change<W: CostHook<Line = L>>(
        &self,
        index: u64,
        guard: &Guard<W>,
        mut f: impl FnMut(Tagged<E>) -> Option<Word>,
    ) -> Result<Tagged<E>, Option<Tagged<E>>> {
        let leaf = self.node_at(index, 0, guard).ok_or(None)?;
        let at = slot_of(index, 0);
        let mut word = leaf.load(at, guard.cost_hook());
        loop {
            let found = word.tagged().ok_or(None)?;
            let new = f(found).ok_or(Some(found))?;
            match leaf.exchange(at, word, new, guard.cost_hook()) {
                Ok(()) => return Ok(found),
                Err(other) => word = other,
            }
        }
    }
}
