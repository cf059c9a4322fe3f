//! Which pages of files the cache has, in which pages of memory, and whose they are.
//!
//! Nothing here waits. A page is *coming* while its bytes are brought, and *there* then; one that is dirty is clean from the
//! moment at which its bytes are copied to be written, and dirty again if that fails.
//!
//! Dirty pages have the *epoch* in which they became so. Whoever has what is dirty now written begins a new one, and leaves pages of the new
//! one to others: its work ends, however busily others write meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use wharf_wire::window::FilePage;

/// What the cache has of a page of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Nothing,
    Coming,
    /// In this page of memory.
    There(u32),
}

/// A page of a file.
#[derive(Debug)]
struct Block {
    memory: u32,
    /// Whose budget it is in.
    host: u32,
    is_there: bool,
    is_dirty: bool,
    /// What it was is being written to the file.
    is_written: bool,
    /// When it became dirty.
    dirty_in: Epoch,
    /// When what is being written did.
    written_in: Epoch,
}

/// A time between two at which somebody has begun to write what was dirty then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Epoch(u64);

impl Epoch {
    /// None is later.
    pub(super) const LAST: Epoch = Epoch(u64::MAX);
}

/// A file that has a place.
#[derive(Debug, Default)]
struct File {
    pages: BTreeMap<u64, Block>,
    /// Those of them that are dirty, or being written.
    unwritten: u32,
    /// Who needs its place, with pages or without.
    users: u32,
}

impl Block {
    fn is_unwritten(&self) -> bool {
        self.is_dirty || self.is_written
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Blocks {
    files: FxHashMap<u64, File>,
    free: Vec<u32>,
    /// Pages of each host that has some.
    held: FxHashMap<u32, u32>,
    /// Most of one host.
    host_max: u32,
    /// Pages of files that are being changed by another way: none of them is here, or comes.
    changing: FxHashMap<u64, Vec<Range<u64>>>,
    /// What hosts may load, by the page of memory.
    shown: FxHashMap<u32, FilePage>,
    /// What becomes dirty now is of this one.
    epoch: Epoch,
}

/// Neighbouring pages: the first one, and where they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dirty {
    pub(super) first: u64,
    pub(super) memory: Vec<u32>,
}

impl Dirty {
    pub(super) fn range(&self) -> Range<u64> {
        self.first..self.first + self.memory.len() as u64
    }
}

impl Blocks {
    /// A cache of so many pages, of which one host has `host_max` at most.
    pub(super) fn new(pages: u32, host_max: u32) -> Blocks {
        Blocks {
            files: FxHashMap::default(),
            free: (0..pages).rev().collect(),
            held: FxHashMap::default(),
            host_max,
            changing: FxHashMap::default(),
            shown: FxHashMap::default(),
            epoch: Epoch::default(),
        }
    }

    /// Begins a new epoch; gives the one that has ended.
    pub(super) fn end_epoch(&mut self) -> Epoch {
        let ended = self.epoch;
        self.epoch = Epoch(ended.0 + 1);
        ended
    }

    /// Somebody is to change pages of a file by another way; false if one of them is here, or coming.
    pub(super) fn begin_change(&mut self, number: u64, pages: &Range<u64>) -> bool {
        let file = self.files.get(&number);
        if file.is_some_and(|file| file.pages.range(pages.clone()).next().is_some()) {
            return false;
        }
        let all = self.changing.entry(number).or_default();
        all.push(pages.clone());
        true
    }

    /// That has ended.
    pub(super) fn end_change(&mut self, number: u64, pages: &Range<u64>) {
        let all = self.changing.get_mut(&number).expect("it has begun");
        let place = all.iter().position(|own| own == pages);
        all.swap_remove(place.expect("it has begun"));
        if all.is_empty() {
            self.changing.remove(&number);
        }
    }

    /// Whether a page is being changed by another way.
    pub(super) fn is_changing(&self, number: u64, page: u64) -> bool {
        let all = self.changing.get(&number);
        all.is_some_and(|all| all.iter().any(|pages| pages.contains(&page)))
    }

    /// Most pages of one host.
    pub(super) fn host_pages(&self) -> u32 {
        self.host_max
    }

    /// Whether it has a place for a file, with pages or without.
    pub(super) fn has(&self, number: u64) -> bool {
        self.files.contains_key(&number)
    }

    /// Files of which it has pages of a host.
    pub(super) fn of_host(&self, host: u32) -> Vec<u64> {
        let is_of = |block: &Block| block.host == host;
        let files = self.files.iter();
        let mut own: Vec<u64> = files
            .filter(|(_, file)| file.pages.values().any(is_of))
            .map(|(number, _)| *number)
            .collect();
        own.sort_unstable();
        own
    }

    /// All files that it has a place for.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.files.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Gives a file a place, or has it keep the one that it has, for one who needs it.
    pub(super) fn add_user(&mut self, number: u64) {
        self.files.entry(number).or_default().users += 1;
    }

    /// Somebody needs the place of a file no more.
    pub(super) fn remove_user(&mut self, number: u64) {
        self.file_mut(number).users -= 1;
    }

    /// Takes the place of a file away, if it has no pages and nobody needs it; false if not.
    pub(super) fn remove_file_if_empty(&mut self, number: u64) -> bool {
        let is_unused = |file: &File| file.pages.is_empty() && file.users == 0;
        let is_empty = self.files.get(&number).is_some_and(is_unused);
        if is_empty {
            self.files.remove(&number);
        }
        is_empty
    }

    pub(super) fn look(&self, number: u64, page: u64) -> Look {
        match self.block(number, page) {
            None => Look::Nothing,
            Some(block) if block.is_there => Look::There(block.memory),
            Some(_) => Look::Coming,
        }
    }

    /// Gives a page of a file that has a place, and that it has nothing of, a page of memory: it is coming from now on.
    /// Nothing if the host has its share, or there is none.
    pub(super) fn claim(&mut self, number: u64, page: u64, host: u32) -> Option<u32> {
        let held = self.held.get(&host).copied().unwrap_or(0);
        if held >= self.host_max {
            return None;
        }
        let memory = self.free.pop()?;
        self.held.insert(host, held + 1);
        let block = Block {
            memory,
            host,
            is_there: false,
            is_dirty: false,
            is_written: false,
            dirty_in: Epoch::default(),
            written_in: Epoch::default(),
        };
        assert!(
            !self.is_changing(number, page),
            "it waits for who changes it"
        );
        let before = self.file_mut(number).pages.insert(page, block);
        assert!(before.is_none(), "a page is in the cache once");
        Some(memory)
    }

    /// A page is there.
    pub(super) fn arrive(&mut self, number: u64, page: u64) {
        self.change(number, page, |block| block.is_there = true);
    }

    /// A page that is there has changed.
    pub(super) fn mark_dirty(&mut self, number: u64, page: u64) {
        let epoch = self.epoch;
        self.change(number, page, |block| {
            assert!(block.is_there, "what is dirty is there");
            if !block.is_dirty {
                (block.is_dirty, block.dirty_in) = (true, epoch);
            }
        });
    }

    /// Hosts may load a page that is there, in this page of memory.
    pub(super) fn show(&mut self, memory: u32, name: FilePage) {
        let look = self.look(name.number, name.page);
        assert_eq!(look, Look::There(memory), "what is shown is there");
        self.shown.insert(memory, name);
    }

    /// Hosts may not load what is there any more.
    pub(super) fn hide(&mut self, memory: u32) {
        self.shown.remove(&memory);
    }

    /// Where the pages of a range are that hosts may load.
    pub(super) fn shown(&self, number: u64, range: &Range<u64>) -> Vec<u32> {
        if self.shown.is_empty() {
            return Vec::new();
        }
        let file = self.files.get(&number).into_iter();
        let blocks = file.flat_map(|file| file.pages.range(range.clone()));
        let memory = blocks.map(|(_, block)| block.memory);
        memory
            .filter(|memory| self.shown.contains_key(memory))
            .collect()
    }

    /// Which page of a file hosts may load there.
    pub(super) fn shown_at(&self, memory: u32) -> Option<FilePage> {
        self.shown.get(&memory).copied()
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, number: u64, page: u64) {
        let file = self.file_mut(number);
        let block = file.pages.remove(&page).expect("it is in the cache");
        file.unwritten -= u32::from(block.is_unwritten());
        let is_shown = self.shown.contains_key(&block.memory);
        assert!(!is_shown, "what hosts may load stays");
        self.free.push(block.memory);
        let held = self.held.get_mut(&block.host).expect("it has one");
        *held -= 1;
        if *held == 0 {
            self.held.remove(&block.host);
        }
    }

    /// Takes those pages of a range out that are clean and there, of one host; gives how many, and whether that host has none left there.
    pub(super) fn remove_clean(
        &mut self,
        number: u64,
        range: &Range<u64>,
        host: u32,
    ) -> (u64, bool) {
        let found = self.pages(number, range, Some(host));
        let mut removed = 0;
        for page in &found {
            let block = self.block(number, *page).expect("it is in the cache");
            if block.is_there && !block.is_unwritten() {
                self.remove(number, *page);
                removed += 1;
            }
        }
        (removed, removed == found.len() as u64)
    }

    /// Pages of a range, of one host or of all.
    pub(super) fn pages(&self, number: u64, range: &Range<u64>, host: Option<u32>) -> Vec<u64> {
        let file = self.files.get(&number).into_iter();
        let blocks = file.flat_map(|file| file.pages.range(range.clone()));
        blocks
            .filter(|(_, block)| host.is_none_or(|host| block.host == host))
            .map(|(page, _)| *page)
            .collect()
    }

    /// Of a range, the first neighbours that were dirty in an epoch, `most` of them at most: they are clean, and being written, from now on.
    pub(super) fn begin_writing(
        &mut self,
        number: u64,
        range: &Range<u64>,
        most: usize,
        epoch: Epoch,
    ) -> Option<Dirty> {
        let file = self.files.get_mut(&number)?;
        let mut found: Option<Dirty> = None;
        for (page, block) in file.pages.range_mut(range.clone()) {
            let may = block.is_dirty && !block.is_written && block.dirty_in <= epoch;
            match &mut found {
                None if !may => continue,
                None => {
                    found = Some(Dirty {
                        first: *page,
                        memory: vec![block.memory],
                    });
                }
                Some(run) => {
                    if !may || *page != run.range().end || run.memory.len() == most {
                        break;
                    }
                    run.memory.push(block.memory);
                }
            }
            (block.is_dirty, block.is_written) = (false, true);
            block.written_in = block.dirty_in;
        }
        found
    }

    /// Pages that were being written are, or that failed.
    pub(super) fn end_writing(&mut self, number: u64, run: &Dirty, is_done: bool) {
        for page in run.range() {
            self.change(number, page, |block| {
                block.is_written = false;
                if !is_done {
                    (block.is_dirty, block.dirty_in) = (true, block.written_in);
                }
            });
        }
    }

    /// Whether pages of a range that were dirty in an epoch are being written.
    pub(super) fn is_writing(&self, number: u64, range: &Range<u64>, epoch: Epoch) -> bool {
        let file = self.files.get(&number).into_iter();
        let mut blocks = file.flat_map(|file| file.pages.range(range.clone()));
        blocks.any(|(_, block)| block.is_written && block.written_in <= epoch)
    }

    /// All that is dirty, or being written: file, page, and where it is.
    pub(super) fn unwritten(&self) -> Vec<(u64, u64, u32)> {
        let files = self.files.iter().filter(|(_, file)| file.unwritten > 0);
        let pages = files.flat_map(|(number, file)| {
            let unwritten = file.pages.iter().filter(|(_, block)| block.is_unwritten());
            unwritten.map(|(page, block)| (*number, *page, block.memory))
        });
        pages.collect()
    }

    /// Whether pages of a file are dirty, or being written.
    pub(super) fn is_unwritten(&self, number: u64) -> bool {
        let file = self.files.get(&number);
        file.is_some_and(|file| file.unwritten > 0)
    }

    /// Whether pages of any file are.
    pub(super) fn is_any_unwritten(&self) -> bool {
        self.files.values().any(|file| file.unwritten > 0)
    }

    /// Whether pages of a range are dirty, or being written.
    pub(super) fn is_unwritten_in(&self, number: u64, range: &Range<u64>) -> bool {
        let file = self.files.get(&number).filter(|file| file.unwritten > 0);
        let mut blocks = file
            .into_iter()
            .flat_map(|file| file.pages.range(range.clone()));
        blocks.any(|(_, block)| block.is_unwritten())
    }

    fn block(&self, number: u64, page: u64) -> Option<&Block> {
        self.files.get(&number)?.pages.get(&page)
    }

    fn file_mut(&mut self, number: u64) -> &mut File {
        self.files.get_mut(&number).expect("the file has a place")
    }

    fn change(&mut self, number: u64, page: u64, f: impl FnOnce(&mut Block)) {
        let file = self.file_mut(number);
        let block = file.pages.get_mut(&page).expect("it is in the cache");
        let before = u32::from(block.is_unwritten());
        f(block);
        file.unwritten = file.unwritten + u32::from(block.is_unwritten()) - before;
    }

    /// Pages that it has, and those of them that are dirty.
    pub(super) fn counts(&self) -> (u32, u32) {
        let blocks = self.files.values().flat_map(|file| file.pages.values());
        blocks.fold((0, 0), |(all, dirty), block| {
            (all + 1, dirty + u32::from(block.is_dirty))
        })
    }

    /// Checks that each page of memory is somebody's once, and that nobody has more than may be.
    ///
    /// # Panics
    /// If something is in disorder.
    pub(super) fn verify(&self, pages: u32) {
        let mut used: Vec<u32> = self.free.clone();
        let mut held = FxHashMap::<u32, u32>::default();
        for block in self.files.values().flat_map(|file| file.pages.values()) {
            used.push(block.memory);
            *held.entry(block.host).or_default() += 1;
            assert!(block.is_there || !(block.is_dirty || block.is_written));
        }
        used.sort_unstable();
        assert!(used.into_iter().eq(0..pages), "each page has one use");
        assert_eq!(held, self.held, "what is counted is there");
        assert!(held.values().all(|held| *held <= self.host_max));
        for file in self.files.values() {
            let unwritten = file.pages.values().filter(|block| block.is_unwritten());
            assert_eq!(unwritten.count() as u32, file.unwritten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pages: &[u64]) -> Blocks {
        let mut blocks = Blocks::new(8, 6);
        blocks.add_user(3);
        for page in pages {
            blocks.claim(3, *page, 0).unwrap();
            blocks.arrive(3, *page);
            blocks.mark_dirty(3, *page);
        }
        blocks
    }

    #[test]
    fn a_host_has_its_share_and_no_more() {
        let mut blocks = with(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(blocks.claim(3, 6, 0), None, "its share is full");
        assert!(blocks.claim(3, 6, 1).is_some() && blocks.claim(3, 7, 1).is_some());
        assert_eq!(blocks.claim(3, 8, 2), None, "there is none");
        blocks.verify(8);
        assert_eq!(blocks.pages(3, &(0..100), Some(1)), [6, 7]);
        blocks.remove(3, 6);
        assert!(blocks.claim(3, 9, 2).is_some());
        blocks.verify(8);
    }

    #[test]
    fn neighbours_are_written_together_and_are_dirty_again_if_that_fails() {
        let mut blocks = with(&[1, 2, 3, 5]);
        let first = blocks.begin_writing(3, &(0..9), 2, Epoch::LAST).unwrap();
        assert_eq!(first.range(), 1..3);
        let second = blocks.begin_writing(3, &(0..9), 2, Epoch::LAST).unwrap();
        assert_eq!(second.range(), 3..4);
        assert_eq!(blocks.begin_writing(3, &(0..5), 2, Epoch::LAST), None);
        let is_writing = |pages: Range<u64>| blocks.is_writing(3, &pages, Epoch::LAST);
        assert!(is_writing(0..9) && !is_writing(4..9));
        assert!(blocks.is_unwritten_in(3, &(1..2)) && blocks.is_unwritten_in(3, &(5..6)));
        assert!(!blocks.is_unwritten_in(3, &(4..5)) && !blocks.is_unwritten_in(4, &(0..9)));
        // What changes meanwhile is dirty, and is written once more.
        blocks.mark_dirty(3, 1);
        blocks.end_writing(3, &first, true);
        blocks.end_writing(3, &second, false);
        let again = |blocks: &mut Blocks| {
            let begun = blocks.begin_writing(3, &(0..4), 9, Epoch::LAST);
            begun.unwrap().range()
        };
        assert_eq!(again(&mut blocks), 1..2);
        assert_eq!(again(&mut blocks), 3..4);
    }

    #[test]
    fn what_becomes_dirty_after_an_epoch_is_not_written_for_it() {
        let mut blocks = with(&[1, 2, 5]);
        let ended = blocks.end_epoch();
        let begin = |blocks: &mut Blocks, epoch| {
            let begun = blocks.begin_writing(3, &(0..9), 9, epoch);
            begun.map(|run| (run.range(), run))
        };
        let (pages, run) = begin(&mut blocks, ended).unwrap();
        assert_eq!(pages, 1..3);
        // While these are written page 2 changes, and page 7 comes; page 5 has been dirty all the time.
        blocks.mark_dirty(3, 2);
        blocks.mark_dirty(3, 5);
        blocks.claim(3, 7, 0).unwrap();
        blocks.arrive(3, 7);
        blocks.mark_dirty(3, 7);
        blocks.end_writing(3, &run, true);
        let (pages, run) = begin(&mut blocks, ended).unwrap();
        assert_eq!(pages, 5..6);
        assert!(blocks.is_writing(3, &(0..9), ended));
        // What could not be written is dirty since it was.
        blocks.end_writing(3, &run, false);
        let (pages, run) = begin(&mut blocks, ended).unwrap();
        assert_eq!(pages, 5..6);
        blocks.end_writing(3, &run, true);
        assert!(
            begin(&mut blocks, ended).is_none(),
            "the rest is of the next"
        );
        let next = blocks.end_epoch();
        let (pages, run) = begin(&mut blocks, next).unwrap();
        assert_eq!(pages, 2..3);
        assert!(!blocks.is_writing(3, &(0..9), ended));
        blocks.end_writing(3, &run, true);
        assert_eq!(begin(&mut blocks, next).unwrap().0, 7..8);
        blocks.verify(8);
    }

    #[test]
    fn a_page_that_is_changed_by_another_way_is_not_here() {
        let mut blocks = with(&[2]);
        assert!(!blocks.begin_change(3, &(0..5)), "page 2 is here");
        assert!(blocks.begin_change(3, &(3..5)) && blocks.begin_change(3, &(4..6)));
        blocks.end_change(3, &(3..5));
        assert!(!blocks.is_changing(3, 3) && blocks.is_changing(3, 4));
        blocks.end_change(3, &(4..6));
        assert!(!blocks.is_changing(3, 4));
        // What is dirty stays.
        assert_eq!(blocks.remove_clean(3, &(0..9), 0), (0, false));
        let run = blocks.begin_writing(3, &(0..9), 9, Epoch::LAST).unwrap();
        assert_eq!(blocks.remove_clean(3, &(0..9), 0), (0, false));
        blocks.end_writing(3, &run, true);
        assert_eq!(blocks.remove_clean(3, &(0..9), 1), (0, true));
        assert_eq!(blocks.remove_clean(3, &(0..9), 0), (1, true));
    }

    #[test]
    fn a_page_that_comes_is_not_there() {
        let mut blocks = with(&[]);
        let memory = blocks.claim(3, 7, 0).unwrap();
        assert_eq!(blocks.look(3, 7), Look::Coming);
        blocks.arrive(3, 7);
        assert_eq!(blocks.look(3, 7), Look::There(memory));
        assert!(!blocks.remove_file_if_empty(3));
        blocks.remove(3, 7);
        assert_eq!(blocks.look(3, 7), Look::Nothing);
        assert!(!blocks.remove_file_if_empty(3), "somebody needs it");
        blocks.remove_user(3);
        assert!(blocks.remove_file_if_empty(3) && !blocks.has(3));
    }
}
