//! The ranges of one owner in one file.

use std::ops::Range;

use smallvec::SmallVec;

use super::LockKind;
use super::range::LockRange;

/// A range, and how it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: LockRange,
    pub(super) kind: LockKind,
}

/// In order, without a byte in common. Neighbours of one kind are one range.
#[derive(Debug, Clone, Default)]
pub(super) struct Owned(Vec<Piece>);

/// What a change does: pieces that go, and those that come in their place.
pub(super) struct Change {
    go: Range<usize>,
    come: SmallVec<[Piece; 3]>,
}

impl Change {
    /// How many pieces there are more, or fewer, afterwards.
    pub(super) fn growth(&self) -> isize {
        self.come.len() as isize - self.go.len() as isize
    }
}

impl Owned {
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Pieces that have a byte of `range`.
    pub(super) fn within(&self, range: LockRange) -> &[Piece] {
        &self.0[self.places(range)]
    }

    fn places(&self, range: LockRange) -> Range<usize> {
        let low = self.0.partition_point(|p| p.range.last() < range.first());
        let high = self.0.partition_point(|p| p.range.first() <= range.last());
        low..high
    }

    /// What is to be done so that `range` is locked as `kind`, or not at all.
    pub(super) fn change(&self, range: LockRange, kind: Option<LockKind>) -> Change {
        let mut go = self.places(range);
        let (mut first, mut last) = (range.first(), range.last());
        let mut before = self.0[go.clone()].first().copied();
        before = before.filter(|piece| piece.range.first() < first);
        let mut behind = self.0[go.clone()].last().copied();
        behind = behind.filter(|piece| piece.range.last() > last);
        if let Some(kind) = kind {
            // What is of the same kind and touches it is one with it.
            let left = before.or_else(|| self.touching_before(&mut go, first, kind));
            if let Some(piece) = left.filter(|piece| piece.kind == kind) {
                (first, before) = (piece.range.first(), None);
            }
            let right = behind.or_else(|| self.touching_behind(&mut go, last, kind));
            if let Some(piece) = right.filter(|piece| piece.kind == kind) {
                (last, behind) = (piece.range.last(), None);
            }
        }
        let before = before.map(|piece| Piece {
            range: LockRange::of(piece.range.first(), range.first() - 1),
            ..piece
        });
        let behind = behind.map(|piece| Piece {
            range: LockRange::of(range.last() + 1, piece.range.last()),
            ..piece
        });
        let own = kind.map(|kind| Piece {
            range: LockRange::of(first, last),
            kind,
        });
        let come = [before, own, behind].into_iter().flatten().collect();
        Change { go, come }
    }

    /// The piece that ends right before `first`, if it is of this kind: it goes, too.
    fn touching_before(&self, go: &mut Range<usize>, first: u64, kind: LockKind) -> Option<Piece> {
        let index = go.start.checked_sub(1)?;
        let piece = self.0[index];
        let touches = piece.kind == kind && piece.range.last().checked_add(1) == Some(first);
        touches.then(|| {
            go.start = index;
            piece
        })
    }

    /// The piece that begins right behind `last`, if it is of this kind: it goes, too.
    fn touching_behind(&self, go: &mut Range<usize>, last: u64, kind: LockKind) -> Option<Piece> {
        let piece = *self.0.get(go.end)?;
        let touches = piece.kind == kind && last.checked_add(1) == Some(piece.range.first());
        touches.then(|| {
            go.end += 1;
            piece
        })
    }

    pub(super) fn apply(&mut self, change: Change) {
        self.0.splice(change.go, change.come);
    }
}
