//! Persistent memory that remembers every change, so that the power can be cut behind each of them.
//!
//! What is there after a cut follows from the list of changes, line by line: what was durable, and
//! any number of the words that were stored in the line since then. If that leaves few states, each
//! of them can be had; if it leaves many, some by chance.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Rng;

use super::recorded::Recording;
use crate::errno::Fault;
use crate::lines::{LINE_BYTES, Lines, RamLines, WORD_BYTES, first_outside};

/// A change of the media.
#[derive(Debug, Clone)]
enum Change {
    Store(u64, Arc<[u8]>),
    Persist(u64, u64),
    Fence,
}

#[derive(Debug)]
struct State {
    start: RamLines,
    now: RamLines,
    changes: Vec<Change>,
    fails_from: usize,
    /// What there was behind so many changes, the last of them a fence: where one cut is, the next
    /// is near.
    fenced: (usize, Replay),
}

impl State {
    /// What there is behind the first `changes` changes.
    fn replay(&mut self, changes: usize, rng: &mut Rng) -> Replay {
        let is_fence = |change: &Change| matches!(change, Change::Fence);
        let fenced = self.changes[..changes].iter().rposition(is_fence);
        let fenced = fenced.map_or(0, |at| at + 1);
        if self.fenced.0 > fenced {
            self.fenced = (0, Replay::new(&self.start));
        }
        // Of what the last fence made durable the order does not matter any more.
        let more = &self.changes[self.fenced.0..fenced];
        more.iter()
            .for_each(|change| self.fenced.1.change(change, None));
        self.fenced.0 = fenced;
        let mut replay = self.fenced.1.clone();
        let rest = &self.changes[fenced..changes];
        rest.iter()
            .for_each(|change| replay.change(change, Some(rng)));
        replay
    }
}

/// See the module. A clone is the same memory.
#[derive(Debug, Clone)]
pub struct RecordedLines(Rc<RefCell<State>>);

/// What was stored within one word: its address, how many bytes, and these.
#[derive(Debug, Clone, Copy)]
struct Part {
    at: u64,
    bytes: [u8; WORD_BYTES as usize],
    length: usize,
}

/// What a line has that may be lost.
#[derive(Debug, Clone, Default)]
struct Pending {
    parts: Vec<Part>,
    /// How many of them the next fence makes durable.
    persisted: usize,
}

/// The parts of a store, one a word.
fn parts(at: u64, bytes: &[u8]) -> impl Iterator<Item = Part> {
    let end = at + bytes.len() as u64;
    let words = at / WORD_BYTES..end.div_ceil(WORD_BYTES);
    words.map(move |word| {
        let from = (word * WORD_BYTES).max(at);
        let to = ((word + 1) * WORD_BYTES).min(end);
        let mut part = Part {
            at: from,
            bytes: [0; 8],
            length: (to - from) as usize,
        };
        let found = &bytes[(from - at) as usize..(to - at) as usize];
        part.bytes[..part.length].copy_from_slice(found);
        part
    })
}

/// What is durable, and what is not, behind some changes.
#[derive(Debug, Clone)]
struct Replay {
    durable: RamLines,
    pending: BTreeMap<u64, Pending>,
}

impl Replay {
    fn new(start: &RamLines) -> Replay {
        Replay {
            durable: start.clone(),
            pending: BTreeMap::new(),
        }
    }

    /// `mix` says in which order the words of a store were stored.
    fn change(&mut self, change: &Change, mix: Option<&mut Rng>) {
        match change {
            Change::Store(at, bytes) => self.store(*at, bytes, mix),
            Change::Persist(at, bytes) => self.persist(*at, *bytes),
            Change::Fence => self.fence(),
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8], mix: Option<&mut Rng>) {
        let mut all: Vec<Part> = parts(at, bytes).collect();
        if let Some(rng) = mix {
            for nth in (1..all.len()).rev() {
                all.swap(nth, rng.below(nth as u64 + 1) as usize);
            }
        }
        for part in all {
            let line = self.pending.entry(part.at / LINE_BYTES).or_default();
            line.parts.push(part);
        }
    }

    fn persist(&mut self, at: u64, bytes: u64) {
        let lines = at / LINE_BYTES..(at + bytes).div_ceil(LINE_BYTES);
        for (_, pending) in self.pending.range_mut(lines) {
            pending.persisted = pending.parts.len();
        }
    }

    fn fence(&mut self) {
        let durable = &self.durable;
        self.pending.retain(|_, pending| {
            for part in pending.parts.drain(..pending.persisted) {
                keep(durable, &part);
            }
            pending.persisted = 0;
            !pending.parts.is_empty()
        });
    }

    /// How many states there can be: `u64::MAX` if that is more.
    fn states(&self) -> u64 {
        let states = |pending: &Pending| pending.parts.len() as u64 + 1;
        self.pending
            .values()
            .map(states)
            .fold(1, u64::saturating_mul)
    }

    /// The state in which of each line so many parts are there as `kept` says.
    fn state(&self, mut kept: impl FnMut(&Pending) -> usize) -> RamLines {
        let medium = self.durable.clone();
        for pending in self.pending.values() {
            let count = kept(pending);
            pending.parts[..count]
                .iter()
                .for_each(|part| keep(&medium, part));
        }
        medium
    }

    /// All states, if they are no more than `most`; else `most` of them by chance.
    fn some(&self, most: u32, rng: &mut Rng) -> Vec<RamLines> {
        let states = self.states();
        if states <= u64::from(most) {
            let nth_state = |nth: u64| {
                let mut rest = nth;
                self.state(|pending| {
                    let base = pending.parts.len() as u64 + 1;
                    let kept = rest % base;
                    rest /= base;
                    kept as usize
                })
            };
            return (0..states).map(nth_state).collect();
        }
        let one = |_| {
            // From nothing to all of it; of some lines all or nothing, of others a part.
            let (of_8, whole_of_8) = (rng.below(9), rng.below(9));
            self.state(|pending| match rng.chance(whole_of_8, 8) {
                true if rng.chance(of_8, 8) => pending.parts.len(),
                true => 0,
                false => rng.below(pending.parts.len() as u64 + 1) as usize,
            })
        };
        (0..most).map(one).collect()
    }
}

fn keep(medium: &RamLines, part: &Part) {
    let kept = medium.poke(part.at, &part.bytes[..part.length]);
    kept.expect("it was stored there before");
}

impl RecordedLines {
    /// The same as [`Recording::new`]; every change from the `fails_from`th on fails and is not
    /// made.
    pub fn failing(medium: &RamLines, fails_from: usize) -> RecordedLines {
        RecordedLines(Rc::new(RefCell::new(State {
            start: medium.clone(),
            now: medium.clone(),
            changes: Vec::new(),
            fails_from,
            fenced: (0, Replay::new(medium)),
        })))
    }

    fn change(&self, change: Change) -> bool {
        let state = &mut *self.0.borrow_mut();
        if state.changes.len() >= state.fails_from {
            return false;
        }
        if let Change::Store(at, bytes) = &change {
            state.now.poke(*at, bytes).expect("it was looked at before");
        }
        state.changes.push(change);
        true
    }
}

impl Recording for RecordedLines {
    type Medium = RamLines;

    fn new(medium: &RamLines) -> RecordedLines {
        RecordedLines::failing(medium, usize::MAX)
    }

    fn cut_to(other: &RecordedLines, changes: usize) -> RecordedLines {
        let other = other.0.borrow();
        let lines = RecordedLines::new(&other.start);
        for change in &other.changes[..changes] {
            lines.change(change.clone());
        }
        lines
    }

    fn changes(&self) -> usize {
        self.0.borrow().changes.len()
    }

    fn medium(&self) -> RamLines {
        self.0.borrow().now.clone()
    }

    fn some_after_cut(&self, changes: usize, most: u32, rng: &mut Rng) -> Vec<RamLines> {
        let replay = self.0.borrow_mut().replay(changes, rng);
        replay.some(most, rng)
    }

    fn identity(medium: &RamLines) -> Option<Vec<(u64, usize)>> {
        Some(medium.identity())
    }
}

impl Lines for RecordedLines {
    fn bytes(&self) -> u64 {
        self.0.borrow().now.bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.0.borrow().now.peek(at, out)
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        let outside = first_outside(at, bytes.len() as u64, self.bytes());
        if outside.is_none() && self.change(Change::Store(at, bytes.into())) {
            return Ok(());
        }
        let page = outside.unwrap_or(at / crate::limits::PAGE_BYTES);
        Err(Fault::Write { page })
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        let outside = first_outside(at, bytes, self.bytes());
        if outside.is_none() && self.change(Change::Persist(at, bytes)) {
            return Ok(());
        }
        let page = outside.unwrap_or(at / crate::limits::PAGE_BYTES);
        Err(Fault::Write { page })
    }

    async fn fence(&self) -> Result<(), Fault> {
        match self.change(Change::Fence) {
            true => Ok(()),
            false => Err(Fault::Flush),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wharf_runtime::Seed;

    use super::*;
    use crate::block_on;

    fn bytes_of(medium: &RamLines, addresses: &[u64]) -> Vec<u8> {
        let byte = |at: &u64| {
            let mut out = [0];
            medium.peek(*at, &mut out).unwrap();
            out[0]
        };
        addresses.iter().map(byte).collect()
    }

    fn states(lines: &RecordedLines, changes: usize, addresses: &[u64]) -> BTreeSet<Vec<u8>> {
        let mut rng = Seed(3).rng();
        let all = lines.some_after_cut(changes, 1000, &mut rng);
        all.iter()
            .map(|medium| bytes_of(medium, addresses))
            .collect()
    }

    #[test]
    fn every_allowed_state_is_had_and_no_other() {
        let lines = RecordedLines::new(&RamLines::new(1));
        block_on(async {
            lines.store(0, &[1]).await.unwrap();
            lines.persist(0, 1).await.unwrap();
            lines.fence().await.unwrap();
            // Two words of one line, in this order, and one of another.
            lines.store(8, &[2]).await.unwrap();
            lines.store(0, &[3]).await.unwrap();
            lines.store(64, &[4]).await.unwrap();
        });
        let at = [0, 8, 64];
        let found = states(&lines, 6, &at);
        let right = [
            [1, 0, 0],
            [1, 2, 0],
            [3, 2, 0],
            [1, 0, 4],
            [1, 2, 4],
            [3, 2, 4],
        ];
        assert_eq!(found, right.map(Vec::from).into());
        assert_eq!(
            states(&lines, 1, &at),
            [vec![0, 0, 0], vec![1, 0, 0]].into()
        );
        assert_eq!(states(&lines, 3, &at), [vec![1, 0, 0]].into());
    }

    #[test]
    fn a_fence_makes_durable_what_was_persisted_before_it_alone() {
        let lines = RecordedLines::new(&RamLines::new(1));
        block_on(async {
            lines.store(0, &[1]).await.unwrap();
            lines.persist(0, 1).await.unwrap();
            lines.store(8, &[2]).await.unwrap();
            lines.store(128, &[3]).await.unwrap();
            lines.fence().await.unwrap();
        });
        let found = states(&lines, 5, &[0, 8, 128]);
        let right = [[1, 0, 0], [1, 2, 0], [1, 0, 3], [1, 2, 3]];
        assert_eq!(found, right.map(Vec::from).into());
    }

    #[test]
    fn words_of_one_store_come_in_any_order_and_are_never_torn() {
        let lines = RecordedLines::new(&RamLines::new(1));
        block_on(lines.store(0, &[7; 16])).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            let all = lines.some_after_cut(1, 8, &mut Seed(seed).rng());
            seen.extend(all.iter().map(|medium| bytes_of(medium, &[0, 7, 8, 15])));
        }
        let right = [[0, 0, 0, 0], [7, 7, 0, 0], [0, 0, 7, 7], [7, 7, 7, 7]];
        assert_eq!(seen, right.map(Vec::from).into());
    }
}
