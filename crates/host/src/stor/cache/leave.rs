//! Pages leave both caches in the background, in two steps (`ages.rs`).
//!
//! Who finds less room than there should be has it done by a task: one at a time for a process. Pages that were changed are written first,
//! in order of file and offset. Nobody waits for it, and it waits for who has a page locked or pinned. What cannot be written stays.

use super::ages::{self, Ages, Left, Part};
use super::thread::Cached;
use crate::key::{PAGES_MAX, PageKey};
use crate::kit::index::Index;
use crate::span::Extent;

/// Ranges that are looked at for those that were used least lately.
const LOOKS: usize = 64;

/// Of these, as many leave at a time, at most; and of an inactive file.
const BATCH: usize = 16;

impl Cached {
    /// Bytes of a file are used.
    #[inline]
    pub(super) fn note_use(&self, slot: u32, extent: Extent) {
        if let Some(ages) = &self.process.ages {
            let first = extent.first_page();
            ages.note(slot, &(first..first + extent.pages()), self.cpu().now());
        }
    }

    /// Pages may have come to a cache: others leave if there is little room.
    #[inline]
    pub(super) fn leave_if_low(&self) {
        let is_low = |ages: &Ages| {
            let near_free = self.process.omni.free_pages();
            self.free_pages() < ages.low_pages || near_free < ages.near_low_pages
        };
        if self.process.ages.as_ref().is_some_and(is_low) {
            self.leave_later(false);
        }
    }

    /// Has pages leave in the background, some of the drive's cache among them if that is full.
    pub(super) fn leave_later(&self, near_is_full: bool) {
        let is_begun = self.process.ages.as_ref().is_some_and(Ages::begin);
        if let Some(this) = self.this.upgrade().filter(|_| is_begun) {
            self.cpu().spawn("omni evicts", async move {
                if let Some(ages) = &this.process.ages {
                    this.have_leave(ages, near_is_full).await;
                    ages.end();
                }
            });
        }
    }

    /// Free pages of the host's cache.
    fn free_pages(&self) -> u64 {
        self.process.shared.common.free.count()
    }

    async fn have_leave(&self, ages: &Ages, near_is_full: bool) {
        let omni = &self.process.omni;
        let near_gone = self.leave_inactive(ages, near_is_full).await;
        if self.free_pages() < ages.low_pages {
            self.leave_oldest(ages).await;
        }
        let must = near_is_full && near_gone == 0;
        if must || omni.free_pages() < ages.near_low_pages {
            let goal = Ages::goal(ages.near_low_pages);
            self.leave_oldest_near(goal, must).await;
        }
    }

    /// The first step, in each cache that has no more free than the low water; gives how many pages left the drive's.
    async fn leave_inactive(&self, ages: &Ages, near_is_full: bool) -> u64 {
        let (process, now_ns) = (&self.process, self.cpu().now());
        let wants = self.free_pages() <= ages.low_pages;
        let wants_near = near_is_full || process.omni.free_pages() <= ages.near_low_pages;
        if !(wants || wants_near) || !ages.is_look_due(now_ns) {
            return 0;
        }
        let closed = self.with_table(|table| table.closed());
        let files = ages.inactive(&closed, process.shared.files_used(), now_ns);
        let (goal, near_goal) = (Ages::goal(ages.low_pages), Ages::goal(ages.near_low_pages));
        let mut near_gone = 0;
        for slot in files {
            if wants && self.free_pages() < goal {
                self.leave_file(ages, slot, goal).await;
            }
            if wants_near {
                near_gone += self.leave_file_near(slot, near_goal).await;
            }
            let is_enough = !wants || self.free_pages() >= goal;
            let is_enough_near = !wants_near || process.omni.free_pages() >= near_goal;
            if is_enough && is_enough_near {
                // Others may have pages still.
                ages.look_again();
                break;
            }
        }
        near_gone
    }

    /// Has pages of a file leave the host's cache until so many are free.
    async fn leave_file(&self, ages: &Ages, slot: u32, goal: u64) {
        let index = self.process.shared.index_of(slot);
        let (mut at, count) = (0, BATCH as u64 * ages.range_pages);
        while self.free_pages() < goal
            && let Some((first, _)) = index.next(self.cpu(), at)
        {
            at = first + count;
            self.leave_part(ages, &(slot, first..at), Left::HostInactive)
                .await;
        }
    }

    /// The second step in the host's cache.
    async fn leave_oldest(&self, ages: &Ages) {
        let goal = Ages::goal(ages.low_pages);
        loop {
            let need = goal.saturating_sub(self.free_pages());
            let pages_of = |part: &Part| self.pages_of(part, need);
            let parts = ages::oldest(self.look(ages), need, BATCH, pages_of);
            let mut gone = 0;
            for part in parts {
                gone += self.leave_part(ages, &part, Left::HostOldest).await;
            }
            if gone == 0 {
                return;
            }
        }
    }

    /// Has the pages of a part leave the host's cache that nobody uses; gives how many did.
    async fn leave_part(&self, ages: &Ages, (slot, pages): &Part, how: Left) -> u64 {
        let range = (pages.start, pages.end - 1);
        // What cannot be written stays dirty, and whoever syncs the file is told.
        let _ = self.local.write_and_wait(*slot, range).await;
        let gone = self.local.drop_clean(*slot, range);
        self.local.counters().evictions.add(gone);
        ages.count(how, gone);
        gone
    }

    /// Pages of a part that the host's cache has, as far as so many.
    fn pages_of(&self, (slot, pages): &Part, most: u64) -> u64 {
        let index = self.process.shared.index_of(*slot);
        let (mut at, mut count) = (pages.start, 0);
        while count < most
            && let Some((page, _)) = index.next(self.cpu(), at)
            && page < pages.end
        {
            (at, count) = (page + 1, count + 1);
        }
        count
    }

    /// Ranges that the host's cache has pages of, each time others, with when they were used.
    fn look(&self, ages: &Ages) -> Vec<(u64, Part)> {
        let shared = &self.process.shared;
        let mut hand = ages.hand();
        let mut looked: Vec<(u64, Part)> = Vec::new();
        let files = shared.files_used();
        // The first one again at last, as far as it was not looked at.
        for _ in 0..=files {
            let slot = hand.file() % files;
            let mut page = hand.page();
            while let Some((found, _)) = shared.index_of(slot).next(self.cpu(), page) {
                let start = found / ages.range_pages * ages.range_pages;
                let part = (slot, start..start + ages.range_pages);
                page = part.1.end;
                if looked.first().is_some_and(|(_, first)| *first == part) {
                    return looked;
                }
                looked.push((ages.used_ns(slot, found), part));
                if looked.len() == LOOKS {
                    ages.set_hand(PageKey::new(slot, page.min(PAGES_MAX - 1)));
                    return looked;
                }
            }
            hand = PageKey::new((slot + 1) % files, 0);
        }
        looked
    }
}
