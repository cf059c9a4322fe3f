//! Pages in memory that remember every change, so that the power can be cut behind each of them.
//!
//! A program runs once. What is on the media after a cut behind a change follows from the list: all
//! that was flushed by then, and of what was not, any part: of each page what it was before, or
//! what any of the changes since then made of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Rng;

use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Pages, RamPages, Run, first_outside};

/// A medium that remembers every change. A clone is the same medium.
pub trait Recording: Clone {
    /// What is left of it after a power cut.
    type Medium: Clone;

    /// One that holds what is on `medium`.
    fn new(medium: &Self::Medium) -> Self;

    /// As if only the first `changes` changes of another had been made.
    fn cut_to(other: &Self, changes: usize) -> Self;

    /// How many changes there were.
    fn changes(&self) -> usize;

    /// What is on the media if no power is cut.
    fn medium(&self) -> Self::Medium;

    /// Two media with the same hold the same, as long as both are there; `None` if that cannot be
    /// told cheaply.
    fn identity(medium: &Self::Medium) -> Option<Vec<(u64, usize)>> {
        _ = medium;
        None
    }

    /// What may be on the media after a power cut behind the first `changes` changes: at most
    /// `most` of all that is possible, by chance; all of it, where the medium can tell, if that is
    /// no more.
    fn some_after_cut(&self, changes: usize, most: u32, rng: &mut Rng) -> Vec<Self::Medium>;
}

/// A change of the media; of a run of pages each is a change of its own.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Arc<PageBytes>),
    Discard(u64),
    Flush,
}

impl Change {
    fn apply(&self, medium: &RamPages) {
        match self {
            Change::Write(page, bytes) => medium.put(*page, bytes.clone()),
            Change::Discard(page) => medium.clear(*page),
            Change::Flush => {}
        }
    }
}

/// A medium of which all is durable that it has, and of `changes`, which were not flushed, a random
/// part. Between all and nothing of them everything happens.
fn after_cut(medium: RamPages, changes: &[Change], rng: &mut Rng) -> RamPages {
    let kept_of_8 = rng.below(9);
    for change in changes {
        if rng.chance(kept_of_8, 8) {
            change.apply(&medium);
        }
    }
    medium
}

#[derive(Debug)]
struct State {
    start: RamPages,
    now: RamPages,
    changes: Vec<Change>,
    fails_from: usize,
    /// What was durable behind so many changes: where one cut is, the next is near.
    durable: (usize, RamPages),
}

impl State {
    /// What is durable behind the first `changes` changes, and how many of them that are.
    fn durable_at(&mut self, changes: usize) -> (&RamPages, usize) {
        let is_flush = |change: &Change| matches!(change, Change::Flush);
        let flushed = self.changes[..changes].iter().rposition(is_flush);
        let flushed = flushed.map_or(0, |at| at + 1);
        if self.durable.0 > flushed {
            self.durable = (0, self.start.clone());
        }
        let more = &self.changes[self.durable.0..flushed];
        more.iter().for_each(|change| change.apply(&self.durable.1));
        self.durable.0 = flushed;
        (&self.durable.1, flushed)
    }
}

/// See the module. A clone is the same pages.
#[derive(Debug, Clone)]
pub struct RecordedPages(Rc<RefCell<State>>);

impl RecordedPages {
    /// Pages that hold what is on `medium`.
    pub fn new(medium: &RamPages) -> RecordedPages {
        RecordedPages::failing(medium, usize::MAX)
    }

    /// The same; every change from the `fails_from`th on fails and is not made.
    pub fn failing(medium: &RamPages, fails_from: usize) -> RecordedPages {
        RecordedPages(Rc::new(RefCell::new(State {
            start: medium.clone(),
            now: medium.clone(),
            changes: Vec::new(),
            fails_from,
            durable: (0, medium.clone()),
        })))
    }

    /// As if only the first `changes` changes of other pages had been made.
    pub fn cut_to(other: &RecordedPages, changes: usize) -> RecordedPages {
        let other = other.0.borrow();
        let pages = RecordedPages::new(&other.start);
        for change in &other.changes[..changes] {
            pages.change(change.clone());
        }
        pages
    }

    /// How many changes there were.
    pub fn changes(&self) -> usize {
        self.0.borrow().changes.len()
    }

    /// What is on the media if no power is cut.
    pub fn medium(&self) -> RamPages {
        self.0.borrow().now.clone()
    }

    /// What was on the media after the first `changes` changes, and after a power cut then: a
    /// random part of what was not flushed is there.
    pub fn after_cut(&self, changes: usize, rng: &mut Rng) -> RamPages {
        let mut state = self.0.borrow_mut();
        let (durable, flushed) = state.durable_at(changes);
        let durable = durable.clone();
        after_cut(durable, &state.changes[flushed..changes], rng)
    }

    /// Calls `judge` with the media after a power cut behind each change, and the number of changes
    /// before the cut: [`RecordedPages::after_cut`] for all of them.
    pub fn cut_everywhere(&self, rng: &mut Rng, mut judge: impl FnMut(usize, RamPages)) {
        let state = self.0.borrow();
        let (changes, durable) = (&state.changes, state.start.clone());
        let mut flushed = 0;
        for at in 0..=changes.len() {
            if at > 0 && matches!(changes[at - 1], Change::Flush) {
                changes[flushed..at].iter().for_each(|c| c.apply(&durable));
                flushed = at;
            }
            judge(at, after_cut(durable.clone(), &changes[flushed..at], rng));
        }
    }

    fn change(&self, change: Change) -> bool {
        let state = &mut *self.0.borrow_mut();
        if state.changes.len() >= state.fails_from {
            return false;
        }
        change.apply(&state.now);
        state.changes.push(change);
        true
    }
}

impl Recording for RecordedPages {
    type Medium = RamPages;

    fn new(medium: &RamPages) -> RecordedPages {
        RecordedPages::new(medium)
    }

    fn cut_to(other: &RecordedPages, changes: usize) -> RecordedPages {
        RecordedPages::cut_to(other, changes)
    }

    fn changes(&self) -> usize {
        RecordedPages::changes(self)
    }

    fn medium(&self) -> RamPages {
        RecordedPages::medium(self)
    }

    fn identity(medium: &RamPages) -> Option<Vec<(u64, usize)>> {
        Some(medium.identity())
    }

    fn some_after_cut(&self, changes: usize, most: u32, rng: &mut Rng) -> Vec<RamPages> {
        let mut state = self.0.borrow_mut();
        let (durable, flushed) = state.durable_at(changes);
        let durable = durable.clone();
        let pending = &state.changes[flushed..changes];
        if 1 << pending.len().min(31) > most {
            let one = |_| after_cut(durable.clone(), pending, rng);
            return (0..most).map(one).collect();
        }
        let state = |nth: u32| {
            let medium = durable.clone();
            let kept = pending
                .iter()
                .enumerate()
                .filter(|(at, _)| nth >> at & 1 == 1);
            kept.for_each(|(_, change)| change.apply(&medium));
            medium
        };
        (0..1 << pending.len()).map(state).collect()
    }
}

impl Pages for RecordedPages {
    fn pages(&self) -> u64 {
        self.0.borrow().now.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.0.borrow().now.look(runs, buffer)
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(runs, bytes.len(), self.pages()) {
            return Err(Fault::Write { page });
        }
        let pages = runs.iter().flat_map(|run| run.iter());
        for (page, bytes) in pages.zip(bytes.as_chunks::<PAGE_BYTES>().0) {
            if !self.change(Change::Write(page, Arc::new(*bytes))) {
                return Err(Fault::Write { page });
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        match self.change(Change::Flush) {
            true => Ok(()),
            false => Err(Fault::Flush),
        }
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        for page in runs.iter().flat_map(|run| run.iter()) {
            if page >= self.pages() || !self.change(Change::Discard(page)) {
                return Err(Fault::Write { page });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;
    use crate::block_on;

    #[test]
    fn a_cut_keeps_what_was_flushed_and_any_part_of_the_rest() {
        let pages = RecordedPages::new(&RamPages::new(4));
        block_on(async {
            let write = async |page, byte| {
                let (runs, bytes) = ([Run::one(page)], [byte; PAGE_BYTES]);
                pages.write(&runs, &bytes).await.unwrap();
            };
            write(0, 1).await;
            pages.flush().await.unwrap();
            write(0, 2).await;
            write(0, 3).await;
            write(1, 4).await;
            pages.discard(&[Run::one(0)]).await.unwrap();
        });
        assert_eq!((pages.changes(), pages.medium().peek(0)[0]), (6, 0));
        let mut rng = Seed(1).rng();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let medium = pages.after_cut(6, &mut rng);
            seen.insert((medium.peek(0)[0], medium.peek(1)[0]));
            assert_eq!(pages.after_cut(2, &mut rng).peek(0)[0], 1);
            assert!(pages.after_cut(1, &mut rng).peek(0)[0] <= 1);
        }
        let all = [0, 1, 2, 3].map(|first| [(first, 0), (first, 4)]);
        assert!(seen.iter().eq(all.as_flattened()), "{seen:?}");
    }

    #[test]
    fn changes_fail_from_where_they_are_told_to() {
        let pages = RecordedPages::failing(&RamPages::new(4), 1);
        block_on(async {
            let two = [Run::new(0, 2)];
            let bytes = [7; 2 * PAGE_BYTES];
            assert_eq!(
                pages.write(&two, &bytes).await,
                Err(Fault::Write { page: 1 })
            );
            assert_eq!(pages.flush().await, Err(Fault::Flush));
        });
        assert_eq!(
            (pages.medium().peek(0)[0], pages.medium().peek(1)[0]),
            (7, 0)
        );
    }
}
