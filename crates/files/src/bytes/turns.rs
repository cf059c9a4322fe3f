//! Turns of those who change the bytes of a file: of those who want the same pages one at a time, in the order in which they came.
//!
//! Gates (`gates.rs`) are gone through alone by who changes an inode. Who overwrites bytes needs that only for the record of it: the bytes
//! go to pages that nobody else knows of so far. What has to stay as it is meanwhile are the pages of the file that these replace.
//! So who changes bytes has a turn at their pages, before any gate.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shared::Shared;

/// All pages that a file can have.
pub const ALL: Range<u64> = 0..u64::MAX;

/// One who has a turn, or waits for it.
#[derive(Debug)]
struct One {
    ticket: u64,
    pages: Range<u64>,
    /// Of who waits.
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct State {
    /// Those at each file, in the order in which they came. A file that nobody is at takes no memory.
    files: FxHashMap<u64, Vec<One>>,
    tickets: u64,
}

impl State {
    /// Whether nobody came before one, of those at a file, who wants any of its pages.
    fn is_first(all: &[One], own: usize) -> bool {
        let pages = &all[own].pages;
        let overlaps = |other: &One| other.pages.start < pages.end && pages.start < other.pages.end;
        !all[..own].iter().any(overlaps)
    }
}

/// All turns.
#[derive(Debug, Default)]
pub struct Turns(Shared<State>);

/// A turn, or a place in the line: it is given back when this is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
    ticket: u64,
}

impl Turns {
    /// Waits for a turn at pages of a file.
    pub async fn at(&self, number: u64, pages: Range<u64>) -> Turn<'_> {
        let ticket = self.0.with(|state| {
            state.tickets += 1;
            let ticket = state.tickets;
            let waker = None;
            state.files.entry(number).or_default().push(One {
                ticket,
                pages,
                waker,
            });
            ticket
        });
        // From here on its place is given back, whatever becomes of it.
        let turn = Turn {
            turns: self,
            number,
            ticket,
        };
        poll_fn(|context| turn.poll(context.waker())).await;
        turn
    }
}

impl Turn<'_> {
    fn poll(&self, waker: &Waker) -> Poll<()> {
        self.turns.0.with(|state| {
            let all = state.files.get_mut(&self.number);
            let all = all.expect("it is there until it is dropped");
            let own = all.iter().position(|one| one.ticket == self.ticket);
            let own = own.expect("it is there until it is dropped");
            let is_first = State::is_first(all, own);
            all[own].waker = (!is_first).then(|| waker.clone());
            match is_first {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let wake = self.turns.0.with(|state| {
            let mut wake: SmallVec<[Waker; 4]> = SmallVec::new();
            let Some(all) = state.files.get_mut(&self.number) else {
                return wake;
            };
            all.retain(|one| one.ticket != self.ticket);
            for own in 0..all.len() {
                if all[own].waker.is_some() && State::is_first(all, own) {
                    wake.extend(all[own].waker.take());
                }
            }
            if all.is_empty() {
                state.files.remove(&self.number);
            }
            wake
        });
        wake.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::Context;

    use super::*;
    use crate::block_on;

    /// Whether a turn has come.
    fn has_come<'a>(future: Pin<&mut impl Future<Output = Turn<'a>>>) -> Option<Turn<'a>> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn those_at_other_pages_are_beside_and_nobody_is_overtaken() {
        let turns = Turns::default();
        let first = block_on(turns.at(7, 0..4));
        let beside = block_on(turns.at(7, 4..8));
        let elsewhere = block_on(turns.at(8, ALL));
        let mut all = pin!(turns.at(7, ALL));
        assert!(has_come(all.as_mut()).is_none());
        let mut behind = pin!(turns.at(7, 20..21));
        assert!(
            has_come(behind.as_mut()).is_none(),
            "who wants all came before"
        );
        drop(first);
        assert!(has_come(all.as_mut()).is_none());
        drop(beside);
        assert!(has_come(behind.as_mut()).is_none());
        let alone = has_come(all.as_mut()).expect("nobody else is there");
        assert!(has_come(behind.as_mut()).is_none());
        drop(alone);
        drop(has_come(behind.as_mut()).expect("nobody else is there"));
        drop(elsewhere);
        assert!(turns.0.with(|state| state.files.is_empty()));
    }

    #[test]
    fn who_gives_up_lets_others_have_their_turns() {
        let turns = Turns::default();
        let first = block_on(turns.at(7, 0..4));
        let mut behind = pin!(turns.at(7, 8..9));
        {
            let mut all = pin!(turns.at(7, ALL));
            assert!(has_come(all.as_mut()).is_none());
            assert!(has_come(behind.as_mut()).is_none());
        }
        drop(has_come(behind.as_mut()).expect("who was before has given up"));
        drop(first);
        assert!(turns.0.with(|state| state.files.is_empty()));
    }
}
