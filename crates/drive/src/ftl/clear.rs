//! Pages that read as zeros from now on: deallocated ones, and ones that hold zeros.
//!
//! Neither takes flash. A page that *holds* zeros is allocated all the same: its state is the host's
//! data, and survives a power cut once it is in the log. What was on flash, or on its way there, is
//! given up at once; that this survives is the log's business too.

use super::entry::Place;
use super::frames::{OLD_ZEROS, Origin};
use super::space::PAGE_GRANULES;
use super::write::Refusal;
use super::{Finished, Ftl};

impl Ftl {
    /// Deallocates `count` logical pages from `first` on; returns how many held data. Reads give
    /// zeros from now on; [`Ftl::write_log`] makes that survive a power cut.
    pub fn deallocate(&mut self, first: u32, count: u32, finished: &mut Finished) -> u32 {
        let (mut dropped, mut at) = (0, first);
        while let Some(lpn) = self.map.next_known(at..first + count) {
            at = lpn + 1;
            let place = self.place(lpn);
            if place.is_mapped() {
                self.give_up(place, finished);
                self.set_place(lpn, Place::Trimmed);
                dropped += 1;
            }
        }
        if dropped > 0 {
            self.mapped -= dropped;
            self.note_trim(first, count, false);
        }
        dropped
    }

    /// Has `count` logical pages from `first` on hold zeros: they are allocated, and take no flash.
    /// [`Ftl::write_log`] makes that survive a power cut.
    pub fn zero(&mut self, first: u32, count: u32, finished: &mut Finished) {
        let mut changed = false;
        for lpn in first..first + count {
            let place = self.place(lpn);
            if place == Place::Zero {
                continue;
            }
            changed = true;
            self.mapped += u32::from(!place.is_mapped());
            self.give_up(place, finished);
            self.set_place(lpn, Place::Zero);
        }
        if changed {
            self.note_trim(first, count, true);
        }
    }

    /// As [`Ftl::stage`], but a page of zeros takes no flash, and nothing has to be waited for: `None`.
    pub fn stage_unless_zeros(
        &mut self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        finished: &mut Finished,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<u64>, Refusal> {
        if self.is_read_only() {
            return Err(Refusal::ReadOnly);
        }
        if self.packs() {
            return self.stage_packed_unless_zeros(now_ns, lpn, owner, finished, fill);
        }
        let frame = self.frames.take(Origin::Host).ok_or(Refusal::NoFrame)?;
        fill(self.frames.data_mut(frame));
        if self.frames.data(frame).iter().all(|byte| *byte == 0) {
            self.frames.release(frame);
            self.counters_mut().host_writes += 1;
            self.zero(lpn, 1, finished);
            return Ok(None);
        }
        let ppn = self.check_capacity(lpn, PAGE_GRANULES).and_then(|()| {
            let ppn = self.take_page(now_ns, Origin::Host, lpn);
            ppn.ok_or(Refusal::NoSpace)
        });
        let ppn = ppn.inspect_err(|_| self.frames.release(frame))?;
        self.counters_mut().host_writes += 1;
        Ok(Some(self.start_program(now_ns, lpn, ppn, frame, owner)))
    }

    /// True if a page that the host writes with zeros takes no flash.
    #[inline]
    pub fn elides_zeros(&self) -> bool {
        self.config.elide_zeros
    }

    /// What is at `place` is needed no more.
    fn give_up(&mut self, place: Place, finished: &mut Finished) {
        self.used_granules -= self.granules_at(place);
        match place {
            Place::Flash(ppn) => self.invalidate(ppn, finished),
            Place::Frame(frame) => {
                let old = self.frames.settle_older(frame);
                self.frames.get_mut(frame).dead = true;
                if old < OLD_ZEROS {
                    self.invalidate(old, finished);
                }
            }
            Place::Unmapped | Place::Trimmed | Place::Zero => return,
        }
        self.note_dropped();
    }

    /// The first page of `first .. end` that may hold something: those before it do not.
    pub fn next_known(&self, first: u32, end: u32) -> Option<u32> {
        self.map.next_known(first..end)
    }
}
