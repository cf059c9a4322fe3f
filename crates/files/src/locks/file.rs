//! One space of one file: owners in the order in which they came, and those in line.

use super::owned::{Change, Owned, Piece};
use super::range::LockRange;
use super::{Lock, LockKind, LockOwner};

/// One who waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    /// By what the table's user knows it.
    pub(super) ticket: u32,
    pub(super) owner: LockOwner,
    pub(super) range: LockRange,
    pub(super) kind: LockKind,
    /// It is looked at when deadlocks are looked for.
    pub(super) detects: bool,
    /// One whose lock is in its way. Nothing that others do can end its wait.
    pub(super) blocker: LockOwner,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    owners: Vec<(LockOwner, Owned)>,
    /// In the order in which they came.
    pub(super) line: Vec<Waiter>,
}

impl FileLocks {
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.line.is_empty()
    }

    fn owned(&self, owner: LockOwner) -> Option<&Owned> {
        let mut owners = self.owners.iter();
        owners
            .find(|(who, _)| *who == owner)
            .map(|(_, owned)| owned)
    }

    /// All locks that conflict with one of `owner`'s, in the order of owners, and then of ranges.
    pub(super) fn conflicts(
        &self,
        owner: LockOwner,
        range: LockRange,
        kind: LockKind,
    ) -> impl Iterator<Item = Lock> {
        let others = self.owners.iter().filter(move |(who, _)| *who != owner);
        others.flat_map(move |(who, owned)| {
            let conflicting = owned.within(range).iter();
            let conflicting = conflicting.filter(move |piece| piece.kind.conflicts_with(kind));
            conflicting.map(|piece| lock(*who, *piece))
        })
    }

    /// The first lock in the way of a waiter.
    pub(super) fn in_the_way_of(&self, waiter: &Waiter) -> Option<Lock> {
        self.conflicts(waiter.owner, waiter.range, waiter.kind)
            .next()
    }

    /// Whether an owner has a lock of exactly this.
    pub(super) fn has(&self, owner: LockOwner, piece: Piece) -> bool {
        self.owned(owner)
            .is_some_and(|owned| owned.within(piece.range) == [piece])
    }

    /// Whether no other session has anything.
    pub(super) fn is_of(&self, session: u32) -> bool {
        self.owners.iter().all(|(who, _)| who.session == session)
    }

    /// Locks of all owners.
    pub(super) fn locks(&self) -> impl Iterator<Item = Lock> {
        self.owners
            .iter()
            .flat_map(|(who, owned)| owned.pieces().iter().map(|piece| lock(*who, *piece)))
    }

    /// What is to be done so that an owner has `range` as `kind`, or not at all.
    pub(super) fn change(
        &self,
        owner: LockOwner,
        range: LockRange,
        kind: Option<LockKind>,
    ) -> Change {
        match self.owned(owner) {
            Some(owned) => owned.change(range, kind),
            None => Owned::default().change(range, kind),
        }
    }

    pub(super) fn apply(&mut self, owner: LockOwner, change: Change) {
        let found = self.owners.iter().position(|(who, _)| *who == owner);
        let index = found.unwrap_or_else(|| {
            self.owners.push((owner, Owned::default()));
            self.owners.len() - 1
        });
        self.owners[index].1.apply(change);
        if self.owners[index].1.pieces().is_empty() {
            self.owners.remove(index);
        }
    }

    /// Takes all owners out whom `goes` names; gives them, each with how many locks it had.
    pub(super) fn take_owners(
        &mut self,
        goes: impl Fn(LockOwner) -> bool,
    ) -> Vec<(LockOwner, usize)> {
        let gone = self.owners.extract_if(.., |(who, _)| goes(*who));
        gone.map(|(who, owned)| (who, owned.pieces().len()))
            .collect()
    }

    /// Takes out of the line whom `goes` names.
    pub(super) fn take_waiters(&mut self, goes: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        self.line.extract_if(.., |waiter| goes(waiter)).collect()
    }

    /// Takes the first in line that need not wait any more, of those for whom one of `changed` was in the way.
    pub(super) fn next_in_line(&mut self, changed: &[LockOwner]) -> Option<Waiter> {
        for index in 0..self.line.len() {
            if !changed.contains(&self.line[index].blocker) {
                continue;
            }
            match self.in_the_way_of(&self.line[index]) {
                None => return Some(self.line.remove(index)),
                Some(lock) => self.line[index].blocker = lock.owner,
            }
        }
        None
    }
}

fn lock(owner: LockOwner, piece: Piece) -> Lock {
    Lock {
        owner,
        range: piece.range,
        kind: piece.kind,
    }
}
