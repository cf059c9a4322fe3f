//! Garbage collection and static wear levelling: moving a victim's pages.
//!
//! A victim's pages are read into collection's own frames and programmed like any other page, with
//! the victim's page as the old one; a page that the host overwrites meanwhile just goes its way.
//! The victim is erased when its last valid page has gone, never before.

use super::blocks::State;
use super::entry::{NONE, Place};
use super::frames::Origin;
use super::victims::Urgency;
use super::write::Refusal;
use super::{COLLECTOR, Ftl, NOBODY, READ};
use crate::media::Media;

/// Pages of a victim between one whose map entry is fetched and one that is looked at.
const LOOK_AHEAD: u32 = 16;

/// A valid page on its way out of a victim.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    lpn: u32,
    from_ppn: u32,
    frame: u32,
    owner: u32,
}

/// How far a victim's pages have been looked at.
#[derive(Debug)]
pub struct Batch {
    /// Pages that are being read, or were.
    pub moves: Vec<Move>,
    /// Pages looked at.
    pub scanned: u32,
    /// What the pages that are being read weigh together.
    weight: u32,
    /// True if a valid page could not be read.
    pub spoiled: bool,
    /// How many pages to read at most.
    pub pages_max: u32,
    /// Which collector is told when they have been read, and when they have been programmed.
    collector: Option<u32>,
}

impl Default for Batch {
    /// As many pages as there are frames, of which nobody waits for the end.
    fn default() -> Batch {
        Batch {
            moves: Vec::new(),
            scanned: 0,
            weight: 0,
            spoiled: false,
            pages_max: u32::MAX,
            collector: None,
        }
    }
}

impl Batch {
    /// A batch of this collector's.
    pub fn of(collector: u32) -> Batch {
        Batch {
            collector: Some(collector),
            ..Batch::default()
        }
    }
}

impl Ftl {
    /// Looks at the victim's pages from `page` on, and starts reading valid ones into free frames
    /// until no frame is left, or the batch is full. Returns the page to go on from.
    pub fn read_batch(&mut self, now_ns: u64, victim: u32, page: u32, batch: &mut Batch) -> u32 {
        let next = self.fill_batch(victim, page, batch);
        let mut left = match self.packs() {
            false => batch.moves.len() as u32,
            // Extents of one flash page come with one read of it, or two.
            true => Ftl::pages_of(batch.weight),
        };
        let plane = self.blocks.plane_of(victim);
        while left > 0 {
            let run = left.min(self.nand.run_max());
            left -= run;
            let waiting = batch.collector.filter(|_| left == 0).unwrap_or(NOBODY);
            self.nand.read_run(now_ns, plane, run, READ | waiting);
        }
        if next == self.plan.extents_per_block {
            // The rest became invalid before it was looked at.
            self.victims.set_unmoved(victim, batch.weight);
        }
        next
    }

    fn fill_batch(&mut self, victim: u32, page: u32, batch: &mut Batch) -> u32 {
        batch.moves.clear();
        batch.scanned = 0;
        batch.weight = 0;
        let owner = batch.collector.map_or(NONE, |c| COLLECTOR | c);
        let first = victim * self.plan.extents_per_block;
        let end = match self.packs() {
            false => self.plan.extents_per_block,
            true => self.media.written_pages(victim),
        };
        for index in page..end {
            let ppn = first + index;
            if index + LOOK_AHEAD < end
                && let Some(lpn) = self.media.lpn(ppn + LOOK_AHEAD)
            {
                // The pages of a victim are named anywhere in the map.
                self.map.prefetch(lpn);
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
            if batch.moves.len() as u32 == batch.pages_max {
                return index;
            }
            let Some(frame) = self.frames.take(Origin::Gc) else {
                return index;
            };
            self.counters.media_reads += 1;
            let read = match self.packs() {
                false => {
                    let data = self.frames.data_mut(frame);
                    self.media.read(ppn, data).map(|_| 1)
                }
                true => self.read_to_move(ppn, frame),
            };
            match read {
                Ok(weight) => {
                    batch.weight += weight;
                    batch.moves.push(Move {
                        lpn,
                        from_ppn: ppn,
                        frame,
                        owner,
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
        self.plan.extents_per_block
    }

    /// Programs a page that was read, unless it was overwritten meanwhile. `Ok(None)` if so, `Err`
    /// if no page is free now, else when [`Ftl::finish_due`] is to be called.
    pub fn stage_move(
        &mut self,
        now_ns: u64,
        moving: Move,
        urgency: Urgency,
    ) -> Result<Option<u64>, Refusal> {
        if self.place(moving.lpn) != Place::Flash(moving.from_ppn) {
            self.frames.release(moving.frame);
            self.note_moved(moving.from_ppn);
            return Ok(None);
        }
        if self.packs() {
            let Move {
                lpn, frame, owner, ..
            } = moving;
            let end_ns = self.stage_moved(now_ns, lpn, frame, owner)?;
            self.note_moved(moving.from_ppn);
            self.count_move(urgency);
            return Ok(Some(end_ns));
        }
        let ppn = self
            .take_page(now_ns, Origin::Gc, moving.lpn)
            .ok_or(Refusal::NoSpace)?;
        self.note_moved(moving.from_ppn);
        self.count_move(urgency);
        Ok(Some(self.start_program(
            now_ns,
            moving.lpn,
            ppn,
            moving.frame,
            moving.owner,
        )))
    }

    fn note_moved(&mut self, ppn: u32) {
        let weight = self.weight(ppn);
        self.victims.moved(self.block_of(ppn), weight);
    }

    fn count_move(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Foreground | Urgency::Background => self.counters.gc_moves += 1,
            Urgency::Wear => self.counters.wear_moves += 1,
        }
    }

    /// True if nothing in the victim is needed any more.
    pub fn is_empty(&self, victim: u32) -> bool {
        self.blocks.get(victim).valid == 0
    }

    /// True if all that keeps a victim is pages that could not be read: none is in a frame.
    pub fn only_unreadable_pages_left(&self, victim: u32) -> bool {
        let first = victim * self.plan.extents_per_block;
        !self
            .frames
            .any_replaces(first..first + self.plan.extents_per_block)
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

    /// No block can be collected and host writes wait. Where pages are packed and no block is worn
    /// out, that is no end: units have no room for the rests of all of them.
    pub fn stop_writing(&mut self) {
        let is_worn = self
            .blocks
            .iter()
            .any(|(_, block)| block.state == State::Retired);
        match self.packer.as_deref_mut() {
            Some(packer) if !is_worn => packer.give_up(),
            _ => self.give_up_writing(),
        }
    }

    /// No block can be collected and host writes wait: the flash cannot take more.
    pub fn give_up_writing(&mut self) {
        self.read_only = true;
    }

    /// True if host writes can open no block.
    pub fn has_no_space(&self) -> bool {
        self.blocks.free_count() <= self.plan.reserve_blocks
    }

    /// True if operations are under way that may free space.
    pub fn is_busy(&self) -> bool {
        !self.nand.is_empty()
    }
}
