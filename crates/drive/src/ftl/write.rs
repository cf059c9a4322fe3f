//! Writing: stage a page, finish its program.

use super::blocks::State;
use super::entry::{NONE, Place};
use super::frames::{Frame, OLD_ZEROS, Origin};
use super::frontier::Wanted;
use super::space::PAGE_GRANULES;
use super::{ERASE, Finished, Ftl};
use crate::config::{CorePlan, Placement};
use crate::divide::remainder;
use crate::media::{Media, Oob};

/// Why a page cannot be staged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Every frame is under way: one will be free when a program ends.
    NoFrame,
    /// No page can be allocated: collection must free a block first.
    NoSpace,
    /// The thinly provisioned namespace is full, or the file system that the flash lies on.
    CapacityExceeded,
    /// The flash is worn out.
    ReadOnly,
}

impl Ftl {
    /// Starts writing a logical page with what `fill` puts into the frame. Returns when
    /// [`Ftl::finish_due`] is to be called.
    #[inline]
    pub fn stage(
        &mut self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, Refusal> {
        if self.read_only {
            return Err(Refusal::ReadOnly);
        }
        if self.packs() {
            return self.stage_packed(now_ns, lpn, owner, fill);
        }
        self.check_capacity(lpn, PAGE_GRANULES)?;
        if !self.frames.has_free(Origin::Host) {
            return Err(Refusal::NoFrame);
        }
        let ppn = self
            .take_page(now_ns, Origin::Host, lpn)
            .ok_or(Refusal::NoSpace)?;
        let frame = self.frames.take(Origin::Host).expect("checked above");
        fill(self.frames.data_mut(frame));
        self.counters.host_writes += 1;
        Ok(self.start_program(now_ns, lpn, ppn, frame, owner))
    }

    #[inline]
    pub(super) fn take_page(&mut self, now_ns: u64, origin: Origin, lpn: u32) -> Option<u32> {
        let pages = self.plan.pages_per_block;
        let by_address = origin == Origin::Host && self.config.placement == Placement::Address;
        let wanted = Wanted {
            origin,
            plane: by_address.then(|| remainder(u64::from(lpn), self.plan.planes) as u32),
            reserve: self.plan.reserve_blocks,
            pages_per_block: pages,
        };
        let backlog_ns = |plane| self.nand.backlog_ns(now_ns, plane);
        let (block, page) = self.frontiers.take_page(
            &mut self.blocks,
            wanted,
            |_| false,
            backlog_ns,
            |_, _, _| true,
        )?;
        Some(block * pages + page)
    }

    /// Points the map at a filled frame and starts its program.
    #[inline]
    pub(super) fn start_program(
        &mut self,
        now_ns: u64,
        lpn: u32,
        ppn: u32,
        frame: u32,
        owner: u32,
    ) -> u64 {
        self.point_map_at(frame, lpn, ppn, owner);
        let (block, plane) = (self.block_of(ppn), self.plane_of(ppn));
        self.blocks.begin_program(block);
        self.media.prefetch(ppn);
        self.nand.program(now_ns, plane, frame);
        self.next_end_ns().expect("a program is under way")
    }

    /// Points the map at a filled frame that goes to `ppn`; it keeps what the map held before.
    #[inline]
    pub(super) fn point_map_at(&mut self, frame: u32, lpn: u32, ppn: u32, owner: u32) {
        self.seq += 1;
        let seq = self.seq;
        let (mut old, mut older) = (NONE, NONE);
        match self.place(lpn) {
            Place::Flash(page) => old = page,
            Place::Frame(before) => {
                older = before;
                self.frames.get_mut(before).newer = frame;
            }
            Place::Zero => {
                old = OLD_ZEROS;
                self.used_granules += PAGE_GRANULES;
            }
            Place::Unmapped | Place::Trimmed => {
                self.mapped += 1;
                self.used_granules += PAGE_GRANULES;
            }
        }
        let account = self.frames.get_mut(frame);
        (account.lpn, account.ppn, account.old, account.older) = (lpn, ppn, old, older);
        (account.newer, account.owner, account.seq, account.dead) = (NONE, owner, seq, false);
        self.set_place(lpn, Place::Frame(frame));
    }

    /// A program has ended: the page is on flash.
    pub(super) fn finish_program(&mut self, frame: u32, finished: &mut Finished) {
        if !self.power.allows_change() {
            return;
        }
        let account = *self.frames.get(frame);
        let oob = Oob {
            lpn: account.lpn,
            seq: account.seq,
        };
        let failed = self
            .media
            .program(account.ppn, oob, self.frames.data(frame))
            .is_err();
        self.counters.programs += 1;
        self.programs_since_checkpoint += 1;
        finished.programs += 1;
        let block = self.block_of(account.ppn);
        if failed {
            // The image's host refuses (no space, an I/O error): nothing more is taken, what is
            // on flash stays readable.
            self.read_only = true;
            self.abandon(frame);
        } else if !account.dead {
            self.settle(frame, finished);
        }
        if account.owner != NONE {
            finished.owners.push((account.owner, failed));
        }
        self.frames.release(frame);
        self.end_program(block, finished);
    }

    /// A program of a block has ended: it may have been its last.
    #[inline]
    pub(super) fn end_program(&mut self, block: u32, finished: &mut Finished) {
        if self.blocks.end_program(block) && !self.frontiers.is_open(&self.blocks, block) {
            self.blocks.close(block, self.seq);
            finished.blocks_changed |= self.blocks.get(block).valid == 0;
        }
    }

    /// The page of `frame` is the newest on flash: the map or the next frame refers to it now.
    #[inline]
    pub(super) fn settle(&mut self, frame: u32, finished: &mut Finished) {
        let old = self.frames.settle_older(frame);
        if old < OLD_ZEROS {
            self.invalidate(old, finished);
        }
        let account = *self.frames.get(frame);
        let weight = self.weight(account.ppn);
        self.blocks.validate(self.block_of(account.ppn), weight);
        if account.newer == NONE {
            debug_assert!(self.place(account.lpn) == Place::Frame(frame));
            self.set_place(account.lpn, Place::Flash(account.ppn));
        } else {
            let newer = self.frames.get_mut(account.newer);
            (newer.older, newer.old) = (NONE, account.ppn);
        }
    }

    /// Takes a frame whose program failed out of its chain: the page stays as it was.
    pub(super) fn abandon(&mut self, frame: u32) {
        let account = *self.frames.get(frame);
        if account.dead {
            return;
        }
        if account.newer == NONE {
            self.take_back_granules(frame, &account);
        }
        if account.newer != NONE {
            let newer = self.frames.get_mut(account.newer);
            (newer.older, newer.old) = (account.older, account.old);
        } else if account.older != NONE {
            self.set_place(account.lpn, Place::Frame(account.older));
        } else if account.old == OLD_ZEROS {
            self.set_place(account.lpn, Place::Zero);
        } else if account.old != NONE {
            self.set_place(account.lpn, Place::Flash(account.old));
        } else {
            // Not `Unmapped`: it may have been deallocated, and older copies may lie on flash.
            self.set_place(account.lpn, Place::Trimmed);
            self.mapped -= 1;
        }
        if account.older != NONE {
            self.frames.get_mut(account.older).newer = account.newer;
        }
    }

    /// The page of a frame is what it was before, and takes as much.
    fn take_back_granules(&mut self, frame: u32, account: &Frame) {
        let before = match (account.older, account.old) {
            (NONE, NONE | OLD_ZEROS) => Place::Trimmed,
            (NONE, old) => Place::Flash(old),
            (older, _) => Place::Frame(older),
        };
        self.used_granules += self.granules_at(before);
        self.used_granules -= self.granules_at(Place::Frame(frame));
    }

    #[inline]
    pub(super) fn invalidate(&mut self, ppn: u32, finished: &mut Finished) {
        let block = self.block_of(ppn);
        let weight = self.weight(ppn);
        finished.blocks_changed |= self.blocks.invalidate(block, weight);
    }

    /// Starts the erase of a victim none of whose pages is needed any more. Returns when
    /// [`Ftl::finish_due`] is to be called.
    pub fn start_erase(&mut self, now_ns: u64, block: u32) -> u64 {
        assert!(self.blocks.get(block).valid == 0 && self.blocks.get(block).pending == 0);
        self.victims.end(block);
        self.blocks.set_state(block, State::Erasing);
        self.erases_pending += 1;
        let plane = self.blocks.plane_of(block);
        self.nand.erase(now_ns, plane, ERASE | block);
        self.next_end_ns().expect("an erase is under way")
    }

    /// True while blocks are being erased.
    pub fn is_erasing(&self) -> bool {
        self.erases_pending > 0
    }

    pub(super) fn finish_erase(&mut self, block: u32, finished: &mut Finished) {
        if !self.power.allows_change() {
            return;
        }
        self.erases_pending -= 1;
        self.wear.set(None);
        finished.blocks_changed = true;
        self.counters.erases += 1;
        let failed = self.media.erase(block).is_err();
        let wear = self.media.erase_count(block);
        if failed || (self.config.endurance_cycles > 0 && wear >= self.config.endurance_cycles) {
            self.blocks.set_state(block, State::Retired);
            self.read_only |= failed || !self.has_spare_blocks();
        } else {
            self.blocks.set_free(block, wear);
        }
        if let Some(packer) = self.packer.as_deref_mut() {
            packer.block_is_erased(block);
        }
    }

    /// True while the blocks in use can hold the namespace and what collection needs.
    pub(super) fn has_spare_blocks(&self) -> bool {
        let usable = self
            .blocks
            .iter()
            .filter(|(_, b)| b.state != State::Retired)
            .count();
        usable as u32 >= blocks_needed(&self.plan)
    }

    /// True if a write is durable as soon as it is staged.
    #[inline]
    pub fn is_protected(&self) -> bool {
        self.config.power_loss_protection
    }

    /// The power is gone, or going: capacitors have what is staged programmed, where there are any.
    /// What they must last for is the write buffer, whose size is bounded.
    pub fn save_staged(&mut self) {
        if self.packs() {
            return self.save_units();
        }
        let mut frames: Vec<(u32, u32)> = self
            .frames
            .under_way()
            .map(|(frame, account)| (account.ppn, frame))
            .collect();
        frames.sort_unstable();
        for (ppn, frame) in frames {
            let Frame { lpn, seq, .. } = *self.frames.get(frame);
            let data = self.frames.data(frame);
            // There is nobody left to be told of a failure.
            let _ = self.media.program(ppn, Oob { lpn, seq }, data);
        }
    }

    /// True if no program is under way, and none will be of what is staged now.
    pub fn is_at_rest(&self) -> bool {
        self.frames.under_way().next().is_none()
    }

    /// Newest sequence number handed out: what a flush has to wait for.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// True once every program up to `seq` has ended.
    ///
    /// Of packed pages those of the host count alone: what collection moves is on flash already. What
    /// is protected from a loss of power need not be there at all.
    pub fn is_settled(&self, seq: u64) -> bool {
        if self.config.power_loss_protection {
            return true;
        }
        if self.packs() {
            return self.is_host_settled(seq);
        }
        self.frames.oldest_seq().is_none_or(|oldest| oldest > seq)
    }
}

/// Blocks that a core must have to hold its data and collect garbage.
pub(crate) fn blocks_needed(plan: &CorePlan) -> u32 {
    plan.capacity_pages.div_ceil(plan.data_pages_per_block())
        + plan.foreground_blocks
        + 2 * plan.planes
}
