//! Which pages leave for others, and how pages enter.
//!
//! Frames are tried that the policy names
//! ([`SharedReplacement`](super::replacement::SharedReplacement)), of the CPU's own node first. A
//! page that was used since the policy came by stays; so does one that is dirty, on its way, or
//! pinned. As many as two rounds are tried.

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::accounting::Change;
use crate::kit::backing::Backing;
use crate::kit::index::Index;
use crate::kit::memory::{Reclaims, Stock};
use crate::kit::pages::Pages;
use crate::kit::reading::Brings;
use crate::scale::frame::{READAHEAD, UNTOUCHED};
use crate::scale::pages::CpuPages;
use crate::scale::replacement::Candidates;

impl<I: Index, B: Backing> Reclaims for CpuPages<I, B> {
    fn has_flusher(&self) -> bool {
        self.shared.has_flusher
    }

    fn stock(&self) -> &Stock {
        &self.stock
    }

    /// Tries frames until some are free.
    fn reclaim(&self) {
        let (cpu, shared) = (self.cpu(), &self.shared);
        let (mut tried, mut freed) = (0, 0);
        self.tell_uses();
        let mut nodes = shared.common.nodes.from(self.home()).cycle();
        while tried < 2 * u64::from(shared.frames.count()) && freed == 0 {
            let mut candidates = Candidates::new();
            let node = nodes.next().expect("there is one");
            let frames = &shared.frames;
            let looked = shared
                .replacement
                .victims(cpu, node, frames, &mut candidates);
            // One at least, lest there be no page at all.
            tried += u64::from(looked.max(1));
            candidates.retain(|frame| {
                let is_taken = frames.take(cpu, *frame);
                if is_taken {
                    self.evict(*frame);
                    freed += 1;
                }
                !is_taken
            });
            shared.replacement.keep(cpu, frames, candidates);
        }
        self.counters.evictions.add(freed);
    }

    fn failures(&self) -> u64 {
        self.shared.failures()
    }

    fn no_frame(&self, key: PageKey) -> IoError {
        match self.shared.unwritten() {
            // Nothing is to be written: guards have all of it.
            0 => IoError::NoRoom {
                page: key.page(),
                pages: self.shared.frames.count(),
            },
            _ => self.stuck(key),
        }
    }
}

impl<I: Index, B: Backing> Brings for CpuPages<I, B> {
    fn pages_of(&self, file: u32) -> u64 {
        self.backing.pages(file)
    }

    fn is_cached(&self, file: u32, page: u64) -> bool {
        self.index_of(file).get(self.cpu(), page).is_some()
    }

    fn bring(&self, frame: u32, key: PageKey, untouched: bool) -> bool {
        self.insert(frame, key, if untouched { UNTOUCHED } else { 0 })
    }

    fn keep_for_read(&self, frame: u32) {
        self.shared.frames.pin_again(self.cpu(), frame);
    }

    fn mark(&self, frame: u32) {
        self.change(frame, READAHEAD, 0);
    }

    fn frames(&self) -> u32 {
        self.shared.frames.count()
    }
}

impl<I: Index, B: Backing> CpuPages<I, B> {
    /// Frees a frame that has been taken from its page.
    pub(super) fn evict(&self, frame: u32) {
        let (cpu, shared) = (self.cpu(), &self.shared);
        let key = shared.frames.key(frame).expect("a taken page");
        let index = self.index_of(key.file());
        index.remove(cpu, key.page(), shared.reclaim);
        self.note(key.file(), Change::Removed);
        // From here on the page may be in another frame, with newer bytes.
        wharf_runtime::sync::interleave();
        shared.replacement.remove(cpu, &shared.frames, frame);
        shared.frames.empty(cpu, frame);
        self.give_free(frame);
    }

    /// Gives a free frame to a page, with a pin of the caller, who fills it, and `flags`; false if
    /// the page has one, and then the frame is free again.
    pub(super) fn insert(&self, frame: u32, key: PageKey, flags: u32) -> bool {
        let (cpu, shared) = (self.cpu(), &self.shared);
        shared.frames.begin(cpu, frame, key, flags);
        let is_new = self.index_of(key.file()).insert(cpu, key.page(), frame);
        if is_new {
            self.note(key.file(), Change::Added);
            self.tell_uses();
            shared.replacement.insert(cpu, &shared.frames, frame);
        } else {
            shared.frames.cancel(cpu, frame);
            self.give_free(frame);
        }
        is_new
    }
}
