//! The fetch of a pin's missing pages: frames, reads, and the wait for both.
//!
//! 1. Each page takes a free frame, or CLOCK's victim's ([`cache`](super::cache)), and its read starts.
//! 2. After the end of the last read the pages are copied into their frames.
//! 3. Pages that other parts bring in are waited for, and the write-backs of dirty victims.

use wharf_runtime::Op;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

use super::Core;
use super::cache::Patience;
use super::hmb::Hmb;
use super::part::{Failed, PinRequest};
use super::pin::{Stage, Tally, Wanted, stage_of};
use super::write::Settled;
use crate::ftl::{Entry, Fill, Ftl, Place};

/// How a missing page got its frame.
struct Taken {
    stage: Stage,
    /// When its read ends, in nanoseconds; 0 if there is none.
    read_end_ns: u64,
    /// This part brings it in: no other has done so since the page was admitted.
    is_own: bool,
}

impl Core {
    /// Brings every admitted page into a frame, and waits for what that took.
    pub(super) async fn fetch(
        &self,
        worker: u32,
        request: &PinRequest,
        wanted: &mut [Wanted],
        tally: &mut Tally,
    ) {
        let slot = &self.workers[worker as usize];
        slot.failed.set(false);
        // One more than the write-backs, so that the count cannot reach 0 before all are staged.
        slot.outstanding.set(1);
        let (mut end_ns, mut patience) = (0, Patience::default());
        for page in wanted
            .iter_mut()
            .filter(|page| page.stage == Stage::Missing)
        {
            let read_end_ns = self.start_fetch(worker, request.access, page, tally, &mut patience);
            end_ns = end_ns.max(read_end_ns.await);
        }
        let end_ns = end_ns.max(tally.carried_ns);
        if end_ns > 0 {
            self.cpu.sleep_until(end_ns).await;
        }
        self.end_fetch(wanted, tally);
        self.await_others(wanted, tally).await;
        slot.outstanding.set(slot.outstanding.get() - 1);
        // With a volatile write cache the programs have no owner: there is none to wait for.
        Settled { worker: slot }.await;
        if slot.failed.get() {
            tally.fail(StatusCode::WriteFault, wanted[0].lpn);
        }
    }

    /// Takes a frame for a missing page and starts its read. Gives when that ends; 0 if there is none.
    async fn start_fetch(
        &self,
        worker: u32,
        access: Access,
        page: &mut Wanted,
        tally: &mut Tally,
        patience: &mut Patience,
    ) -> u64 {
        self.look_below(page.lpn);
        loop {
            let now_ns = self.flash_now();
            let taken = self.cpu.work_counted(Op::FrameUpdate, || {
                let hmb = self.hmb.borrow();
                let take = |ftl: &mut Ftl| self.take_frame(ftl, &hmb, now_ns, access, page.lpn);
                let taken = self.with_ftl(take);
                (u32::from(taken.is_some()), taken)
            });
            if let Some(taken) = taken {
                if taken.is_own {
                    self.table_changed();
                }
                page.stage = taken.stage;
                tally.fetched += u16::from(taken.is_own && access != Access::Overwrite);
                return taken.read_end_ns;
            }
            if let Err(status) = self.make_room(worker, patience, tally).await {
                self.with_ftl(|ftl| ftl.cached_mut().unreserve(1));
                page.stage = Stage::Failed;
                tally.fail(status, page.lpn);
                return 0;
            }
        }
    }

    /// Gives the page its frame, if a frame is free or somebody else has given it one.
    fn take_frame(
        &self,
        ftl: &mut Ftl,
        hmb: &Hmb,
        now_ns: u64,
        access: Access,
        lpn: u32,
    ) -> Option<Taken> {
        let place = match ftl.entry(lpn) {
            Entry::Cached(frame) => {
                // Another pin has brought it since this one reserved a frame.
                ftl.counters_mut().pin_hits += 1;
                ftl.cached_mut().unreserve(1);
                ftl.cached_mut().hold(frame);
                return Some(Taken {
                    stage: stage_of(ftl, frame),
                    read_end_ns: 0,
                    is_own: false,
                });
            }
            Entry::Uncached(place) => place,
        };
        let fill = match (access, place) {
            (Access::Overwrite, _) => Fill::Blank,
            (_, Place::Flash(_)) => Fill::Coming,
            _ => Fill::Done,
        };
        let frame = ftl.give_frame(lpn, fill)?;
        ftl.counters_mut().pin_fills += u64::from(fill != Fill::Blank);
        ftl.cached_mut().unreserve(1);
        let at = hmb.at(frame);
        at.free_word();
        at.clear_dirty();
        let fill_from = |place: Place| {
            let page = at.page(&self.dma);
            // SAFETY: nobody has the address of a frame that was just taken.
            unsafe { self.fill_page(page, |bytes| ftl.copy_from_memory(place, bytes)) }
        };
        let fill_from = |place: Place| self.copying(1, || fill_from(place));
        let (stage, read_end_ns) = match (fill, place) {
            (Fill::Blank, _) => {
                fill_from(Place::Unmapped);
                (Stage::Pinned(frame), 0)
            }
            (_, Place::Flash(ppn)) => (Stage::Coming(frame), ftl.start_read(now_ns, ppn)),
            (_, place) => {
                fill_from(place);
                (Stage::Pinned(frame), 0)
            }
        };
        Some(Taken {
            stage,
            read_end_ns,
            is_own: true,
        })
    }

    /// Copies the pages whose reads have ended into their frames.
    fn end_fetch(&self, wanted: &mut [Wanted], tally: &mut Tally) {
        let hmb = self.hmb.borrow();
        let mut any = false;
        for page in wanted {
            let Stage::Coming(frame) = page.stage else {
                continue;
            };
            any = true;
            let read = self.with_ftl(|ftl| {
                let to = hmb.at(frame).page(&self.dma);
                // SAFETY: the address of a frame that is being filled is told to nobody.
                let read = self.copying(1, || unsafe {
                    self.fill_page(to, |bytes| read_now(ftl, page.lpn, bytes))
                });
                ftl.end_fill(frame, read.is_err());
                read
            });
            page.stage = Stage::Pinned(frame);
            if let Err(failed) = read {
                self.drop_failed(page, frame);
                tally.fail(failed.status, failed.lpn);
            }
        }
        drop(hmb);
        if any {
            self.filled.notify_all(&self.cpu);
        }
    }

    /// Gives up the reference to a frame whose page could not be read.
    fn drop_failed(&self, page: &mut Wanted, frame: u32) {
        page.stage = Stage::Failed;
        self.with_ftl(|ftl| {
            if ftl.cached_mut().release(frame) == 0 {
                ftl.take_frame_back(frame);
            }
        });
    }

    /// Waits for the pages that other parts bring in.
    async fn await_others(&self, wanted: &mut [Wanted], tally: &mut Tally) {
        for page in wanted {
            let Stage::Awaited(frame) = page.stage else {
                continue;
            };
            while self.with_ftl(|ftl| ftl.cached().is_filling(frame)) {
                self.filled.wait(&self.cpu).await;
            }
            page.stage = Stage::Pinned(frame);
            if self.with_ftl(|ftl| ftl.cached().has_failed(frame)) {
                self.drop_failed(page, frame);
                tally.fail(StatusCode::UnrecoveredReadError, page.lpn);
            }
        }
    }
}

/// Copies a page as it is now, below its frame. Collection may have moved it since its read was
/// started, or a write replaced it.
pub(super) fn read_now(ftl: &mut Ftl, lpn: u32, bytes: &mut [u8]) -> Result<(), Failed> {
    match ftl.place(lpn) {
        Place::Flash(ppn) => ftl
            .finish_read(lpn, ppn, bytes)
            .map_err(|error| super::read::unreadable(ftl, lpn, &error)),
        place => {
            ftl.copy_from_memory(place, bytes);
            Ok(())
        }
    }
}
