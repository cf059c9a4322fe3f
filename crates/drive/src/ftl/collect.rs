//! Garbage collection and static wear levelling: which block, and moving its pages.
//!
//! A victim's pages are read into collection's own frames and programmed like any other page, with
//! the victim's page as the old one; a page that the host overwrites meanwhile just goes its way.
//! The victim is erased when its last valid page has gone, never before.

use super::Ftl;
use super::blocks::State;
use super::entry::{NONE, Place};
use super::frames::Origin;
use super::write::Refusal;
use crate::config::GcPolicy;
use crate::media::Media;

/// Pages of a victim between one whose map entry is fetched and one that is looked at.
const LOOK_AHEAD: u32 = 16;

/// Why a block is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Host writes wait, or soon will.
    Foreground,
    /// Free blocks are getting few.
    Background,
    /// The block is worn much less than others.
    Wear,
}

/// A valid page on its way out of a victim.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    lpn: u32,
    from_ppn: u32,
    frame: u32,
}

/// How far a victim's pages have been looked at.
#[derive(Debug, Default)]
pub struct Batch {
    /// Pages read, on their way.
    pub moves: Vec<Move>,
    /// Pages looked at.
    pub scanned: u32,
    /// When the last of them is read.
    pub end_ns: u64,
    /// True if a valid page could not be read.
    pub spoiled: bool,
}

impl Ftl {
    /// Whether collection is needed, and how badly.
    #[inline]
    pub fn collection_need(&self) -> Option<Urgency> {
        if self.wiping {
            return Some(Urgency::Background);
        }
        let free = self.blocks.free_count() + self.erases_pending;
        if free <= self.plan.foreground_blocks {
            Some(Urgency::Foreground)
        } else if free < self.plan.background_blocks {
            Some(Urgency::Background)
        } else {
            None
        }
    }

    /// Takes the block to collect, if one is worth it.
    pub fn take_victim(&mut self, urgency: Urgency) -> Option<u32> {
        let valid_max = match urgency {
            Urgency::Foreground => self.plan.pages_per_block - 1,
            Urgency::Background => self
                .plan
                .background_valid_max
                .min(self.plan.pages_per_block - 1),
            Urgency::Wear => self.plan.pages_per_block,
        };
        let victim = match (urgency, self.config.gc_policy) {
            (Urgency::Wear, _) => self.least_worn(),
            (_, GcPolicy::Greedy) => self.blocks.emptiest(),
            (_, GcPolicy::CostBenefit) => self.most_beneficial(valid_max),
        };
        let victim = victim.filter(|b| self.blocks.get(*b).valid <= valid_max)?;
        self.blocks.take_victim(victim);
        match urgency {
            Urgency::Foreground => self.counters.gc_foreground_runs += 1,
            Urgency::Background => self.counters.gc_background_runs += 1,
            Urgency::Wear => self.counters.wear_moves_runs += 1,
        }
        Some(victim)
    }

    /// The closed block with the largest benefit for its cost: `age * (1 - u) / 2u`.
    fn most_beneficial(&self, valid_max: u32) -> Option<u32> {
        let pages = u128::from(self.plan.pages_per_block);
        let closed = self
            .blocks
            .iter()
            .filter(|(_, b)| b.state == State::Closed && b.valid <= valid_max);
        // In whole numbers, so that every machine chooses alike; an empty block is worth most.
        let benefit = |valid: u32, closed_seq: u64| {
            let age = u128::from(self.seq - closed_seq) + 1;
            match u128::from(valid) {
                0 => u128::MAX,
                valid => (age << 32) * (pages - valid) / (2 * valid),
            }
        };
        closed
            .max_by_key(|(_, b)| benefit(b.valid, b.closed_seq))
            .map(|(block, _)| block)
    }

    fn least_worn(&self) -> Option<u32> {
        let closed = self.blocks.iter().filter(|(_, b)| b.state == State::Closed);
        closed
            .min_by_key(|(block, _)| self.media.erase_count(*block))
            .map(|(block, _)| block)
    }

    /// True if static wear levelling should move a block now. Looks at all blocks: ask once in
    /// many erases.
    pub fn wear_gap_exceeded(&self) -> bool {
        if self.config.wear_gap_max == 0 {
            return false;
        }
        let Some(coldest) = self.least_worn() else {
            return false;
        };
        let most = (0..self.plan.blocks)
            .map(|b| self.media.erase_count(b))
            .max()
            .unwrap_or(0);
        most - self.media.erase_count(coldest) > self.config.wear_gap_max
    }

    /// Looks at the victim's pages from `page` on, and starts reading valid ones into free frames
    /// until no frame is left. Returns the page to go on from.
    pub fn read_batch(&mut self, now_ns: u64, victim: u32, page: u32, batch: &mut Batch) -> u32 {
        batch.moves.clear();
        (batch.scanned, batch.end_ns) = (0, now_ns);
        let first = victim * self.plan.pages_per_block;
        for index in page..self.plan.pages_per_block {
            let ppn = first + index;
            if index + LOOK_AHEAD < self.plan.pages_per_block
                && let Some(lpn) = self.media.lpn(ppn + LOOK_AHEAD)
            {
                // The pages of a victim are named anywhere in the map.
                self.map.prefetch(lpn as usize);
            }
            let Some(lpn) = self.media.lpn(ppn) else {
                // Erased, or its out-of-band data are lost: it may be mapped all the same.
                batch.spoiled |= index < self.media.written_pages(victim);
                continue;
            };
            batch.scanned += 1;
            if self.place(lpn) != Place::Flash(ppn) {
                continue;
            }
            let Some(frame) = self.frames.take(Origin::Gc) else {
                return index;
            };
            self.counters.media_reads += 1;
            match self.media.read(ppn, self.frames.data_mut(frame)) {
                Ok(_) => {
                    let end_ns = self.nand.read(now_ns, self.plane_of(ppn));
                    batch.end_ns = batch.end_ns.max(end_ns);
                    batch.moves.push(Move {
                        lpn,
                        from_ppn: ppn,
                        frame,
                    });
                }
                Err(_) => {
                    // The page stays where it is, so that reads of it go on failing.
                    self.counters.rot_found += 1;
                    self.frames.release(frame);
                    batch.spoiled = true;
                }
            }
        }
        self.plan.pages_per_block
    }

    /// Programs a page that was read, unless it was overwritten meanwhile. `Ok(None)` if so, `Err`
    /// if no page is free now.
    pub fn stage_move(
        &mut self,
        now_ns: u64,
        moving: Move,
        urgency: Urgency,
    ) -> Result<Option<u64>, Refusal> {
        if self.place(moving.lpn) != Place::Flash(moving.from_ppn) {
            self.frames.release(moving.frame);
            return Ok(None);
        }
        let ppn = self.take_page(Origin::Gc).ok_or(Refusal::NoSpace)?;
        match urgency {
            Urgency::Foreground | Urgency::Background => self.counters.gc_moves += 1,
            Urgency::Wear => self.counters.wear_moves += 1,
        }
        Ok(Some(self.start_program(
            now_ns,
            moving.lpn,
            ppn,
            moving.frame,
            NONE,
        )))
    }

    /// True if nothing in the victim is needed any more.
    pub fn is_empty(&self, victim: u32) -> bool {
        self.blocks.get(victim).valid == 0
    }

    /// True if all that keeps a victim is pages that could not be read: none is in a frame.
    pub fn only_unreadable_pages_left(&self, victim: u32) -> bool {
        let first = victim * self.plan.pages_per_block;
        !self
            .frames
            .any_replaces(first..first + self.plan.pages_per_block)
    }

    /// Gives up on a victim with an unreadable page: its other pages have moved.
    pub fn set_spoiled(&mut self, victim: u32) {
        self.blocks.set_state(victim, State::Spoiled);
    }

    /// Has the collector erase every block, now that no logical page holds data and no program is
    /// under way.
    pub fn begin_wipe(&mut self) {
        assert!(self.mapped == 0, "{} pages hold data", self.mapped);
        self.wiping = true;
        for block in self.frontiers.close_all() {
            self.blocks.close(block, self.seq);
        }
    }

    /// True if no block holds anything any more, or none can be erased.
    pub fn is_wiped(&self) -> bool {
        let done = |state| matches!(state, State::Free | State::Retired);
        self.read_only || self.blocks.iter().all(|(_, block)| done(block.state))
    }

    /// Back to collection as usual.
    pub fn end_wipe(&mut self) {
        self.wiping = false;
    }

    /// No block can be collected and host writes wait: the flash cannot take more.
    pub fn give_up_writing(&mut self) {
        self.read_only = true;
    }

    /// True if host writes can open no block.
    pub fn has_no_space(&self) -> bool {
        self.blocks.free_count() <= self.plan.foreground_blocks
    }

    /// True if operations are under way that may free space.
    pub fn is_busy(&self) -> bool {
        !self.inflight.is_empty()
    }
}
