//! Cached frames: pages of memory that the host lends, which hold logical pages for it.
//!
//! A cached page's map entry names its frame, and what the entry held before is kept in the frame's
//! account as the *original*: a flash page, a frame of the write buffer, or nothing. So one look at
//! the map tells a hit from a miss, and what a cache costs grows with the cache and not with
//! the drive: 12 bytes a frame, 0.293 % of it (ScalaCache, section 5.1). Everything else in this
//! module works on the original and need not know that the page is cached: when
//! collection moves the page or a write-back ends, the original changes in place.
//!
//! The other way, for comparison: a hash table from page to frame, and a map that knows of no frame
//! ([`FrameIndex::Hash`]). Then an account has no original, and the table takes 8 to 12 bytes a frame more.
//!
//! 1. A frame is *free*, or holds one page. A page with references is *held*: its frame stays.
//! 2. A pin *reserves* the frames that it will need before it takes any. Held and reserved frames
//!    together never exceed all frames; so what was reserved is found, and two pins never wait
//!    for what the other has.
//! 3. Victims are frames without references, chosen by CLOCK.
//!
//! Bytes and dirty bits are in host memory, which only [`crate::core`] touches.
//!
//! # Cached pages, from the host to the map
//!
//! * A cached page's map entry names its frame, and the frame's account (12 bytes: page, original,
//!   references and CLOCK bit) keeps what the entry held before. Everything in `drive/ftl/` works on
//!   that original (`Ftl::place`), so collection, write-back and recovery need not know of caching.
//! * For comparison a core can find cached pages by a hash table instead
//!   (`drive.host_memory.index`): the map then knows of no frame, `Ftl::entry` looks at the table
//!   first, and accounts have no original. What that costs is in `drive/core/finding.rs`.
//! * **Lent memory** is chunks of frames, each with a *frame table*: a word for each frame, which
//!   names who writes, and a dirty bit. The host writes to frames without asking. The drive clears
//!   the bit, copies, and looks at the word again; so the newest bytes are in the copy, or the bit is
//!   set (`runtime/versioned.rs`, `dirty.rs`). Flush copies every frame whose bit is set, pinned or
//!   not.
//! * Clients in other processes (**guests**) share frames, frame tables and their own queue pairs
//!   with the drives' process (`wire/memory.rs`, `shared_queue.rs`, `runtime/notifier_words.rs`).
//!   What a guest's commands name is confined (`wire/dma/`), what it pins is kept book of
//!   (`drive/features/pin/guests.rs`), and taken back when its connection closes
//!   (`wharf/store/listener.rs`). What each process says of itself is in memory that others can only
//!   read (`host/scala/notes.rs`): by it a word that names who does not have it is mended. Nobody
//!   waits without a bound for what a guest can write; `docs/library.md` has the table of all that is
//!   shared.
//! * Each core has a run of frames of its own. A pin reserves all it needs before it takes any, and
//!   cores admit pins in the order of commands: waiting pins never wait for each other.
//! * Memory is taken back, or changed, after the cores have written back what is dirty, and never
//!   while pages are pinned.

use wharf_runtime::page_index::{Index, hash_page};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Ftl;
use super::entry::{CACHED_MAX, Entry, Place};
use crate::config::FrameIndex;
use crate::media::{SlabError, ZeroedSlab};

/// References to the page.
const REFERENCES: u32 = 0xffff;
/// It was pinned since the clock hand passed.
const RECENT: u32 = 1 << 16;
/// It holds a page.
const USED: u32 = 1 << 17;
/// Its page is on the way from flash.
const FILLING: u32 = 1 << 18;
/// Its page could not be read: it goes when the last reference does.
const FAILED: u32 = 1 << 19;
/// It holds zeros until the host has written it whole.
const BLANK: u32 = 1 << 20;

/// One frame's account.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Account {
    /// The map entry that the frame stands in for, where the index is merged with the map; of a free frame
    /// the next free one, plus 1.
    original: u32,
    /// The logical page.
    lpn: u32,
    /// References and flags.
    word: u32,
}

/// The accounts of a core's cached frames.
pub struct CachedFrames {
    accounts: ZeroedSlab<Account>,
    /// Finds pages where the map does not.
    table: Option<Index>,
    /// First of the free frames that were used before, plus 1; 0 if there is none.
    free: u32,
    /// Frames from here on were never used.
    fresh: u32,
    hand: u32,
    used: u32,
    held: u32,
    reserved: u32,
}

/// How a page comes into a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Its bytes are on the way from flash.
    Coming,
    /// Its bytes are there.
    Done,
    /// The host will write it whole; until then it holds zeros.
    Blank,
}

impl CachedFrames {
    /// Accounts of `count` free frames, whose pages are found by `index`.
    pub(super) fn new(count: u32, index: FrameIndex) -> Result<CachedFrames, SlabError> {
        assert!(count <= CACHED_MAX, "entries cannot name {count} frames");
        Ok(CachedFrames {
            table: (index == FrameIndex::Hash && count > 0).then(|| Index::new(count)),
            accounts: ZeroedSlab::new("the accounts of cached frames", count as usize)?,
            free: 0,
            fresh: 0,
            hand: 0,
            used: 0,
            held: 0,
            reserved: 0,
        })
    }

    /// Number of frames.
    #[inline]
    pub fn count(&self) -> u32 {
        self.accounts.len() as u32
    }

    /// Frames that hold pages.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Frames that pins under way are going to take.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Frames with references, and those that pins under way are going to take.
    #[inline]
    pub fn taken_or_reserved(&self) -> u32 {
        self.held + self.reserved
    }

    /// Bytes of the drive's memory that the accounts and the hash table take.
    pub fn bytes(&self) -> usize {
        let accounts = self.accounts.len() * size_of::<Account>() + size_of::<CachedFrames>();
        accounts + self.table.as_ref().map_or(0, Index::bytes)
    }

    /// The frame of a page by the hash table, if there is one and it has the page.
    #[inline]
    pub(super) fn find(&self, lpn: u32) -> Option<u32> {
        let (table, page) = (self.table.as_ref()?, u64::from(lpn));
        table.find(page, hash_page(page), |frame| self.get(frame).lpn == lpn)
    }

    #[inline]
    fn get(&self, frame: u32) -> &Account {
        &self.accounts[frame as usize]
    }

    #[inline]
    fn get_mut(&mut self, frame: u32) -> &mut Account {
        &mut self.accounts[frame as usize]
    }

    /// Where the frame's page is below.
    #[inline]
    pub(super) fn original(&self, frame: u32) -> Place {
        Place::decode(self.get(frame).original)
    }

    #[inline]
    pub(super) fn set_original(&mut self, frame: u32, place: Place) {
        self.get_mut(frame).original = place.encode();
    }

    /// The page that a frame holds, if it holds one.
    #[inline]
    pub fn lpn(&self, frame: u32) -> Option<u32> {
        let account = (frame < self.fresh).then(|| self.get(frame))?;
        (account.word & USED != 0).then_some(account.lpn)
    }

    /// References to the page of a frame.
    #[inline]
    pub fn references(&self, frame: u32) -> u32 {
        self.get(frame).word & REFERENCES
    }

    /// True if no reference can be added.
    #[inline]
    pub fn is_full(&self, frame: u32) -> bool {
        self.references(frame) == REFERENCES
    }

    /// True if the frame's page is on the way from flash.
    #[inline]
    pub fn is_filling(&self, frame: u32) -> bool {
        self.get(frame).word & FILLING != 0
    }

    /// True if the frame's page could not be read.
    #[inline]
    pub fn has_failed(&self, frame: u32) -> bool {
        self.get(frame).word & FAILED != 0
    }

    /// True if the frame holds zeros that are nobody's data.
    #[inline]
    pub fn is_blank(&self, frame: u32) -> bool {
        self.get(frame).word & BLANK != 0
    }

    /// The host has written a blank frame.
    #[inline]
    pub fn set_written(&mut self, frame: u32) {
        self.get_mut(frame).word &= !BLANK;
    }

    /// Adds a reference.
    #[inline]
    pub fn hold(&mut self, frame: u32) {
        let account = self.get_mut(frame);
        assert!(
            account.word & USED != 0 && account.word & REFERENCES < REFERENCES,
            "frame {frame}: {account:?}"
        );
        account.word = (account.word + 1) | RECENT;
        self.held += u32::from(account.word & REFERENCES == 1);
    }

    /// Takes a reference away; gives how many are left.
    #[inline]
    pub fn release(&mut self, frame: u32) -> u32 {
        let account = self.get_mut(frame);
        let references = account.word & REFERENCES;
        assert!(references > 0, "frame {frame}: {account:?}");
        account.word -= 1;
        self.held -= u32::from(references == 1);
        references - 1
    }

    /// Speaks for `frames` frames.
    pub fn reserve(&mut self, frames: u32) {
        self.reserved += frames;
        assert!(
            self.taken_or_reserved() <= self.count(),
            "more than all frames"
        );
    }

    /// Takes back what was taken or reserved.
    pub fn unreserve(&mut self, frames: u32) {
        self.reserved -= frames;
    }

    /// Takes a free frame.
    #[inline]
    fn take_free(&mut self) -> Option<u32> {
        if let Some(frame) = self.free.checked_sub(1) {
            self.free = self.get(frame).original;
            return Some(frame);
        }
        let frame = (self.fresh < self.count()).then_some(self.fresh)?;
        self.fresh += 1;
        Some(frame)
    }

    /// Moves the clock hand to the next frame without references that was not pinned since it
    /// passed last; gives it and how many frames the hand passed. `None` if every frame is held.
    pub fn next_victim(&mut self) -> (Option<u32>, u32) {
        // Once round to find a frame that was not pinned, once more for one whose mark that cleared.
        for steps in 1..=2 * self.fresh {
            let frame = self.hand;
            self.hand = if frame + 1 < self.fresh { frame + 1 } else { 0 };
            let account = self.get_mut(frame);
            if account.word & (USED | REFERENCES) != USED {
                continue;
            }
            if account.word & RECENT == 0 {
                return (Some(frame), steps);
            }
            account.word &= !RECENT;
        }
        (None, 2 * self.fresh)
    }

    /// Every frame that holds a page, with the page.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.fresh).filter_map(|frame| self.lpn(frame).map(|lpn| (frame, lpn)))
    }

    /// Checks the accounts against each other.
    ///
    /// # Panics
    /// With what does not hold.
    pub(super) fn verify(&self) {
        let used = self.iter().count() as u32;
        let count = |is: &dyn Fn(u32) -> bool| (0..self.fresh).filter(|f| is(*f)).count() as u32;
        let held = count(&|frame| self.references(frame) > 0);
        let failed = count(&|frame| self.has_failed(frame));
        assert!(
            (used, held) == (self.used, self.held),
            "{used} frames are used and {held} held, counted are {} and {}",
            self.used,
            self.held
        );
        let (mut free, mut next) = (0, self.free);
        while let Some(frame) = next.checked_sub(1) {
            assert!(
                self.get(frame).word == 0 && free < self.fresh,
                "free frame {frame}"
            );
            (free, next) = (free + 1, self.get(frame).original);
        }
        assert!(free + used + failed == self.fresh, "frames are lost");
        assert!(
            self.taken_or_reserved() <= self.count(),
            "more than all frames"
        );
    }
}

impl Ftl {
    /// The cached frames.
    #[inline]
    pub fn cached(&self) -> &CachedFrames {
        &self.cached
    }

    /// The cached frames, to change.
    #[inline]
    pub fn cached_mut(&mut self) -> &mut CachedFrames {
        &mut self.cached
    }

    /// How the frames of cached pages are found.
    #[inline]
    pub fn frame_index(&self) -> FrameIndex {
        self.frame_index
    }

    /// Has `count` frames from now on. No page may be cached.
    ///
    /// # Errors
    /// If there is no memory for their accounts.
    pub fn set_cached_frames(&mut self, count: u32) -> Result<(), SlabError> {
        let (used, taken_or_reserved) = (self.cached.used, self.cached.taken_or_reserved());
        assert!(
            used == 0 && taken_or_reserved == 0,
            "{used} pages are cached, {taken_or_reserved} frames taken or reserved"
        );
        self.cached = CachedFrames::new(count, self.frame_index)?;
        Ok(())
    }

    /// Gives a page a free frame, with a reference, if a frame is free.
    #[inline]
    pub fn give_frame(&mut self, lpn: u32, fill: Fill) -> Option<u32> {
        let frame = self.cached.take_free()?;
        let flags = match fill {
            Fill::Coming => FILLING,
            Fill::Done => 0,
            Fill::Blank => BLANK,
        };
        let Entry::Uncached(place) = self.entry(lpn) else {
            panic!("page {lpn} is cached already");
        };
        *self.cached.get_mut(frame) = Account {
            original: place.encode(),
            lpn,
            word: USED | flags,
        };
        match &mut self.cached.table {
            None => self.map.set(lpn, Entry::Cached(frame).encode()),
            Some(table) => table.insert(lpn.into(), hash_page(lpn.into()), frame),
        }
        self.cached.used += 1;
        self.cached.hold(frame);
        Some(frame)
    }

    /// The page of a frame has come, or could not be read: then its map entry is what it was, and
    /// the frame goes with its last reference.
    pub fn end_fill(&mut self, frame: u32, failed: bool) {
        self.cached.get_mut(frame).word &= !FILLING;
        if failed {
            self.uncache(frame);
            self.cached.get_mut(frame).word |= FAILED;
        }
    }

    /// The page of a frame is cached no more: its map entry is what it was below.
    fn uncache(&mut self, frame: u32) {
        let Account { original, lpn, .. } = *self.cached.get(frame);
        debug_assert!(self.entry(lpn) == Entry::Cached(frame));
        let CachedFrames {
            table, accounts, ..
        } = &mut self.cached;
        match table {
            None => self.map.set(lpn, original),
            Some(table) => {
                let page_of = |frame: u32| u64::from(accounts[frame as usize].lpn);
                table.remove(lpn.into(), hash_page(lpn.into()), frame, page_of);
            }
        }
        self.cached.get_mut(frame).word &= !USED;
        self.cached.used -= 1;
    }

    /// Takes the frame from a page without references: a victim, or a failed or blank one.
    pub fn take_frame_back(&mut self, frame: u32) {
        assert!(self.cached.references(frame) == 0, "frame {frame} is held");
        if self.cached.lpn(frame).is_some() {
            self.uncache(frame);
        }
        let free = self.cached.free;
        let account = self.cached.get_mut(frame);
        (account.original, account.word) = (free, 0);
        self.cached.free = frame + 1;
    }
}
