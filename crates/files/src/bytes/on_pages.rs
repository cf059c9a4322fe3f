//! Persistent memory on pages: for media that can be written a byte at a time behind an interface
//! of pages, and for media that cannot, where a file system for memory then pays whole pages.
//!
//! Parts of pages are stored in memory, and a fence writes their pages and flushes; whole pages are
//! written at once. That keeps the promises of [`Lines`]: a page is never torn, and what was not
//! flushed may be there or not.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::gates::Gates;
use super::shared::Shared;
use crate::errno::Fault;
use crate::lines::{Lines, by_page, first_outside};
use crate::pages::{PAGE_BYTES, PageBytes, Pages, Run};
use crate::payload::{In, Out};

const PAGE: u64 = PAGE_BYTES as u64;

/// Most pages that are held in memory, besides those of one store: 1 MiB.
const HELD_MAX: usize = 256;

/// The gate of fences: two of them do not write the same page at once.
const FENCES: u64 = 0;

#[derive(Debug)]
struct Held {
    bytes: Box<PageBytes>,
    /// Changes that no fence has written so far.
    is_dirty: bool,
    /// Which change was the last one.
    version: u64,
}

#[derive(Debug, Default)]
struct State {
    held: FxHashMap<u64, Held>,
    /// Each page of `held` once, in the order in which they leave.
    ring: VecDeque<u64>,
    dirty: usize,
    /// Changes so far, and how many of them are durable.
    changes: u64,
    durable: u64,
}

impl State {
    fn hold(&mut self, page: u64, bytes: Box<PageBytes>) -> &mut Held {
        self.make_room();
        self.ring.push_back(page);
        let version = self.changes;
        self.held.entry(page).or_insert(Held {
            bytes,
            is_dirty: false,
            version,
        })
    }

    /// Lets clean pages go while there are too many.
    fn make_room(&mut self) {
        let mut looks = self.ring.len();
        while self.held.len() >= HELD_MAX && looks > 0 {
            looks -= 1;
            let Some(page) = self.ring.pop_front() else {
                return;
            };
            match self.held.get(&page) {
                Some(held) if held.is_dirty => self.ring.push_back(page),
                _ => {
                    self.held.remove(&page);
                }
            }
        }
    }

    /// Changes a page that is held; false if it is not.
    fn change(&mut self, page: u64, from: usize, bytes: &[u8]) -> bool {
        let Some(held) = self.held.get_mut(&page) else {
            return false;
        };
        self.changes += 1;
        self.dirty += usize::from(!held.is_dirty);
        (held.is_dirty, held.version) = (true, self.changes);
        held.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        true
    }
}

/// See the module.
#[derive(Debug)]
pub struct PagesAsLines<P> {
    pages: P,
    state: Shared<State>,
    gates: Gates,
}

impl<P: Pages> PagesAsLines<P> {
    /// Memory on these pages.
    pub fn new(pages: P) -> PagesAsLines<P> {
        PagesAsLines {
            pages,
            state: Shared::default(),
            gates: Gates::default(),
        }
    }

    /// The pages below. What was not fenced is not there.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The same, without the memory.
    pub fn into_pages(self) -> P {
        self.pages
    }

    fn check(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        match first_outside(at, bytes, self.bytes()) {
            Some(page) => Err(Fault::Write { page }),
            None => Ok(()),
        }
    }

    /// Whether a page is in memory.
    fn is_held(&self, page: u64) -> bool {
        self.state.with(|state| state.held.contains_key(&page))
    }

    /// Takes a page into memory.
    async fn fetch(&self, page: u64) -> Result<(), Fault> {
        if self.is_held(page) {
            return Ok(());
        }
        let mut bytes = Box::new([0; PAGE_BYTES]);
        self.pages.read(&[Run::one(page)], &mut bytes[..]).await?;
        self.state.with(|state| {
            // Somebody may have been faster, and changed it.
            if !state.held.contains_key(&page) {
                state.hold(page, bytes);
            }
        });
        Ok(())
    }

    /// How many whole pages from `page` on, of at most `most`, are not in memory.
    fn far_pages(&self, page: u64, most: u64) -> u64 {
        self.state.with(|state| {
            let far = (page..page + most).take_while(|page| !state.held.contains_key(page));
            far.count() as u64
        })
    }

    /// Loads a part of one page.
    async fn load_part(&self, page: u64, from: usize, out: &mut [u8]) -> Result<(), Fault> {
        loop {
            let is_there = self.state.with(|state| {
                let held = state.held.get(&page);
                held.is_some_and(|held| {
                    out.copy_from_slice(&held.bytes[from..from + out.len()]);
                    true
                })
            });
            if is_there {
                return Ok(());
            }
            self.fetch(page).await?;
        }
    }

    /// Stores a part of one page.
    async fn store_part(&self, page: u64, from: usize, bytes: &[u8]) -> Result<(), Fault> {
        while !self.state.with(|state| state.change(page, from, bytes)) {
            self.fetch(page).await?;
        }
        Ok(())
    }
}

/// Whole pages at the beginning of `length` bytes from `at` on.
fn whole_pages(at: u64, length: usize) -> u64 {
    match at.is_multiple_of(PAGE) {
        true => length as u64 / PAGE,
        false => 0,
    }
}

/// The first part of a range that lies in one page: the page, where in it, and how many bytes.
fn first_part(at: u64, length: usize) -> (u64, usize, usize) {
    let first = by_page(at, length).next();
    first.unwrap_or((at / PAGE, 0, 0))
}

impl<P: Pages> Lines for PagesAsLines<P> {
    fn bytes(&self) -> u64 {
        self.pages.pages().saturating_mul(PAGE)
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        if let Some(page) = first_outside(at, out.len() as u64, self.bytes()) {
            return Err(Fault::Read { page });
        }
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            let far = self.far_pages(at / PAGE, whole_pages(at, rest.len()));
            let bytes = if far > 0 {
                let bytes = (far * PAGE) as usize;
                let run = [Run::new(at / PAGE, far)];
                self.pages.read(&run, &mut rest[..bytes]).await?;
                bytes
            } else {
                let (page, from, bytes) = first_part(at, rest.len());
                self.load_part(page, from, &mut rest[..bytes]).await?;
                bytes
            };
            (at, rest) = (at + bytes as u64, &mut rest[bytes..]);
        }
        Ok(())
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.check(at, bytes.len() as u64)?;
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let far = self.far_pages(at / PAGE, whole_pages(at, rest.len()));
            let bytes = if far > 0 {
                let bytes = (far * PAGE) as usize;
                let run = [Run::new(at / PAGE, far)];
                self.pages.write(&run, &rest[..bytes]).await?;
                self.state.with(|state| state.changes += 1);
                bytes
            } else {
                let (page, from, bytes) = first_part(at, rest.len());
                self.store_part(page, from, &rest[..bytes]).await?;
                bytes
            };
            (at, rest) = (at + bytes as u64, &rest[bytes..]);
        }
        match self.state.with(|state| state.dirty >= HELD_MAX) {
            true => self.fence().await,
            false => Ok(()),
        }
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        // A fence writes all that was stored.
        self.check(at, bytes)
    }

    async fn fence(&self) -> Result<(), Fault> {
        let _inside = self.gates.alone(FENCES).await;
        let (changes, mut dirty) = self.state.with(|state| {
            let dirty = state.held.iter().filter(|(_, held)| held.is_dirty);
            let dirty = dirty.map(|(page, held)| (*page, held.version, held.bytes.clone()));
            let dirty: Vec<_> = match state.changes == state.durable {
                true => Vec::new(),
                false => dirty.collect(),
            };
            (state.changes, dirty)
        });
        if self.state.with(|state| state.durable == changes) {
            return Ok(());
        }
        dirty.sort_unstable_by_key(|(page, _, _)| *page);
        if !dirty.is_empty() {
            let runs: Vec<Run> = dirty.iter().map(|(page, _, _)| Run::one(*page)).collect();
            let bytes: Vec<u8> = dirty.iter().flat_map(|(_, _, bytes)| **bytes).collect();
            self.pages.write(&runs, &bytes).await?;
        }
        self.pages.flush().await?;
        self.state.with(|state| {
            state.durable = changes;
            for (page, version, _) in dirty {
                if let Some(held) = state.held.get_mut(&page)
                    && held.version == version
                {
                    held.is_dirty = false;
                    state.dirty -= 1;
                }
            }
        });
        Ok(())
    }

    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        self.pages.give(bytes, out).await
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        self.pages.zero(out).await
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        self.pages.fetch(data, into).await
    }
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;
    use crate::block_on;
    use crate::lines::RamLines;
    use crate::pages::RamPages;

    #[test]
    fn it_holds_what_was_stored_and_a_fence_writes_it() {
        const PAGES: u64 = 2 * HELD_MAX as u64;
        let (lines, table) = (
            PagesAsLines::new(RamPages::new(PAGES)),
            RamLines::new(PAGES),
        );
        let mut rng = Seed(6).rng();
        for round in 0..4_000u32 {
            let length = [8, 64, 5_000, 4096, 12_288][rng.below(5) as usize];
            let mut at = rng.below(PAGES * PAGE - length);
            if rng.chance(1, 2) {
                at = at / PAGE * PAGE;
            }
            let mut found = vec![0; length as usize];
            block_on(lines.load(at, &mut found)).unwrap();
            let mut right = vec![1; length as usize];
            table.peek(at, &mut right).unwrap();
            assert!(found == right, "round {round}: {length} bytes at {at}");
            let bytes: Vec<u8> = right.iter().map(|_| rng.next_u32() as u8).collect();
            block_on(lines.store(at, &bytes)).unwrap();
            table.poke(at, &bytes).unwrap();
            if round % 50 == 49 {
                block_on(lines.fence()).unwrap();
                for page in 0..PAGES {
                    let mut right = [0; PAGE_BYTES];
                    table.peek(page * PAGE, &mut right).unwrap();
                    assert!(lines.pages().peek(page) == right, "page {page}");
                }
            }
            assert!(lines.state.with(|state| state.held.len()) <= HELD_MAX + 4);
        }
    }

    #[test]
    fn a_fence_with_nothing_to_do_does_not_flush() {
        let recorded = crate::testing::recorded::RecordedPages::new(&RamPages::new(4));
        let lines = PagesAsLines::new(recorded.clone());
        block_on(lines.fence()).unwrap();
        assert_eq!(recorded.changes(), 0);
        block_on(lines.store(8, &[1])).unwrap();
        block_on(lines.fence()).unwrap();
        block_on(lines.fence()).unwrap();
        assert_eq!(recorded.changes(), 2);
    }
}
