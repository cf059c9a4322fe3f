//! What other commands do to cached pages, and writing them back.
//!
//! The host writes to frames whenever it likes, and tells by the frame table: a word that is taken
//! while it writes, a dirty bit when it has. So the drive copies a frame that is pinned without
//! asking, looks at the word before and after, and tries again a little later if the host was at it;
//! after `busy_wait_ns` for all frames together the command fails with [`StatusCode::FrameBusy`]. Nothing is
//! changed until the copy is whole. What the frame table says may be what a guest has made of it: it is
//! believed for that long, and for each frame once.

use std::ops::Range;
use std::sync::Arc;

use wharf_runtime::Op;
use wharf_wire::dma::HostPage;
use wharf_wire::status::StatusCode;

use super::hmb::Hmb;
use super::state::Core;
use super::stuck::{Busy, Patience, Stuck};
use crate::ftl::{Entry, Ftl, NONE, Refusal};
use crate::link::PAGE_BYTES;

/// Time between two looks at a frame that the host is writing, in nanoseconds.
const BUSY_RETRY_NS: u64 = 1_000;

impl Core {
    /// True if memory is lent: pages may be cached.
    #[inline]
    pub fn may_cache(&self) -> bool {
        self.hmb.borrow().frames() > 0
    }

    /// Frees a frame that nobody refers to, or waits for what keeps it from doing so: then or later
    /// one will be free.
    pub async fn make_room(
        &self,
        job: u32,
        patience: &mut Patience,
        carried_ns: &mut u64,
    ) -> Result<(), StatusCode> {
        match self.evict(job, carried_ns) {
            Ok(()) => Ok(()),
            Err(stuck) => self.wait_out(stuck, patience).await,
        }
    }

    /// Waits for what a frame's write-back needs.
    pub async fn wait_out(&self, stuck: Stuck, patience: &mut Patience) -> Result<(), StatusCode> {
        match stuck {
            Stuck::Busy => {
                let now_ns = self.cpu.now();
                let ends_ns = *patience.ends_ns.get_or_insert(now_ns + self.busy_wait_ns);
                if now_ns >= ends_ns {
                    return Err(StatusCode::FrameBusy);
                }
                self.cpu.sleep_until(now_ns + BUSY_RETRY_NS).await;
            }
            Stuck::Refused(refusal) => {
                let begun_ns = self.cpu.now();
                self.wait_for_room(refusal).await?;
                let waited_ns = self.cpu.now() - begun_ns;
                patience.ends_ns = patience.ends_ns.map(|ends_ns| ends_ns + waited_ns);
            }
        }
        Ok(())
    }

    /// Waits until there may be room for a page that was refused.
    async fn wait_for_room(&self, refusal: Refusal) -> Result<(), StatusCode> {
        if self.has_ended_closed_units() {
            return Ok(());
        }
        match refusal {
            Refusal::NoFrame => self.programmed.wait(&self.cpu).await,
            Refusal::NoSpace => {
                self.collect.notify_all(&self.cpu);
                self.space.wait(&self.cpu).await;
            }
            Refusal::CapacityExceeded => {
                // Collection may give a file system room.
                self.wake_collector();
                return Err(StatusCode::CapacityExceeded);
            }
            Refusal::ReadOnly => return Err(StatusCode::NamespaceWriteProtected),
        }
        Ok(())
    }

    /// Takes its frame from the page that CLOCK chooses. Dirty pages go to the write buffer; those
    /// for which there can be no room are passed over while there are others.
    fn evict(&self, job: u32, carried_ns: &mut u64) -> Result<(), Stuck> {
        let hmb = self.hmb.borrow().clone();
        let (mut stuck, mut steps) = (Stuck::Busy, 0);
        while steps <= 2 * hmb.frames() {
            let (victim, passed) = self.cpu.work_counted(Op::ClockStep, || {
                let (victim, passed) = self.with_ftl(|ftl| ftl.cached_mut().next_victim());
                (passed, (victim, passed))
            });
            steps += passed.max(1);
            let Some(victim) = victim else {
                break;
            };
            let at = hmb.at(victim);
            if at.is_dirty() {
                let owner = match self.ends_when_staged(false) {
                    true => NONE,
                    false => job,
                };
                match self.write_back_frame(victim, owner) {
                    Ok(()) => {
                        let here_ns = self.from_host.carry(&self.cpu, PAGE_BYTES);
                        *carried_ns = here_ns.max(*carried_ns);
                    }
                    Err(Stuck::Busy) => continue,
                    Err(Stuck::Refused(full @ (Refusal::CapacityExceeded | Refusal::ReadOnly))) => {
                        stuck = Stuck::Refused(full);
                        continue;
                    }
                    Err(later) => return Err(later),
                }
            }
            self.cpu.work(Op::FrameUpdate, || {
                self.with_ftl(|ftl| {
                    ftl.take_frame_back(victim);
                    ftl.counters_mut().frame_evictions += 1;
                });
            });
            self.table_changed();
            return Ok(());
        }
        Err(stuck)
    }

    /// Copies a frame to the write buffer and starts its program.
    fn write_back_frame(&self, frame: u32, owner: u32) -> Result<(), Stuck> {
        let hmb = self.hmb.borrow().clone();
        let at = hmb.at(frame);
        let Some(lpn) = self.with_ftl(|ftl| ftl.cached().lpn(frame)) else {
            // The host marked a frame that holds nothing.
            at.clear_dirty();
            return Ok(());
        };
        // Cleared before the copy: what the host writes from now on sets it again.
        at.clear_dirty();
        let mut copy = self.copy.borrow_mut();
        if !self.copying(1, || at.copy_out(&self.dma, &mut copy)) {
            at.set_dirty();
            return Err(Stuck::Busy);
        }
        let now_ns = self.flash_now();
        let staged = self.cpu.work(Op::PageAllocate, || {
            self.with_ftl(|ftl| {
                ftl.stage(now_ns, lpn, owner, |buffer| {
                    self.copying(1, || buffer.copy_from_slice(&copy));
                })
            })
        });
        drop(copy);
        let end_ns = staged.map_err(|refusal| {
            at.set_dirty();
            Stuck::Refused(refusal)
        })?;
        self.with_ftl(|ftl| {
            ftl.cached_mut().set_written(frame);
            ftl.counters_mut().frame_write_backs += 1;
        });
        if owner != NONE {
            let outstanding = &self.job(owner).outstanding;
            outstanding.set(outstanding.get() + 1);
        }
        self.after_staging(end_ns);
        Ok(())
    }

    /// Sends every dirty page of `pages` on its way to flash, pinned or not; if one cannot be sent,
    /// all others are, and the first failure is told.
    pub async fn write_back(&self, pages: Range<u32>) -> Result<(), StatusCode> {
        if !self.may_cache() {
            return Ok(());
        }
        let hmb = self.hmb.borrow().clone();
        let (mut outcome, mut patience) = (Ok(()), Patience::default());
        for (first, mut bits) in hmb.dirty_words() {
            while bits != 0 {
                let frame = first + bits.trailing_zeros();
                bits &= bits - 1;
                let lpn = self.with_ftl(|ftl| ftl.cached().lpn(frame));
                if lpn.is_none_or(|lpn| pages.contains(&lpn)) {
                    let written = self.write_back_patiently(&hmb, frame, &mut patience).await;
                    outcome = outcome.and(written);
                }
            }
        }
        outcome
    }

    /// Sends one dirty page, once: what is written to it later is for the next to send.
    async fn write_back_patiently(
        &self,
        hmb: &Arc<Hmb>,
        frame: u32,
        patience: &mut Patience,
    ) -> Result<(), StatusCode> {
        // While this waits its page may be evicted, and so written back, or all memory taken back.
        let needs_it = || Arc::ptr_eq(hmb, &self.hmb.borrow()) && hmb.at(frame).is_dirty();
        while needs_it() {
            let here_ns = self.from_host.carry(&self.cpu, PAGE_BYTES);
            self.cpu.sleep_until(here_ns).await;
            if !needs_it() {
                break;
            }
            // Copied when it has come over the link.
            match self.write_back_frame(frame, NONE) {
                Ok(()) => break,
                Err(stuck) => self.wait_out(stuck, patience).await?,
            }
        }
        Ok(())
    }

    /// Locks the frame of a page, if the page is cached and there.
    #[inline]
    pub fn lock_frame(&self, lpn: u32) -> Result<Option<u32>, Busy> {
        let hmb = self.hmb.borrow();
        if hmb.frames() == 0 {
            return Ok(None);
        }
        self.with_ftl(|ftl| match ftl.entry(lpn) {
            Entry::Cached(frame) if !ftl.cached().is_filling(frame) => {
                match hmb.at(frame).try_lock() {
                    true => Ok(Some(frame)),
                    false => Err(Busy),
                }
            }
            _ => Ok(None),
        })
    }

    /// Ends [`Core::lock_frame`].
    pub fn unlock_frame(&self, frame: u32) {
        self.hmb.borrow().at(frame).unlock();
    }

    /// Locks the frames of all pages of a range that are cached and there, all or none; waits while
    /// the host writes to one of them. They must be unlocked before anything else is waited for.
    pub async fn lock_frames(
        &self,
        pages: Range<u32>,
        locked: &mut Vec<u32>,
    ) -> Result<(), StatusCode> {
        if !self.may_cache() {
            return Ok(());
        }
        let mut patience = Patience::default();
        loop {
            let tries = pages.clone().map(|lpn| self.lock_frame(lpn));
            let busy = tries
                .map(|lock| lock.map(|frame| locked.extend(frame)))
                .any(|lock| lock.is_err());
            if !busy {
                return Ok(());
            }
            locked.drain(..).for_each(|frame| self.unlock_frame(frame));
            self.wait_out(Stuck::Busy, &mut patience).await?;
        }
    }

    /// Copies a page that is cached to `out`: `None` if it is not in a frame any more.
    pub fn copy_cached(&self, lpn: u32, out: &mut [u8]) -> Option<Result<(), Busy>> {
        let hmb = self.hmb.borrow();
        let frame = self.with_ftl(|ftl| frame_with_data(ftl, &hmb, lpn))?;
        match hmb.at(frame).copy_out(&self.dma, out) {
            true => Some(Ok(())),
            false => Some(Err(Busy)),
        }
    }

    /// True if the page's bytes are in a frame.
    #[inline]
    pub fn is_in_frame(&self, ftl: &Ftl, lpn: u32) -> bool {
        let hmb = self.hmb.borrow();
        hmb.frames() > 0 && frame_with_data(ftl, &hmb, lpn).is_some()
    }

    /// Changes the bytes of a frame that is locked; what it holds then is on its way to flash.
    pub fn overwrite_frame(&self, frame: u32, change: impl FnOnce(HostPage<'_>)) {
        let hmb = self.hmb.borrow();
        let at = hmb.at(frame);
        at.clear_dirty();
        self.copying(1, || change(at.page(&self.dma)));
        self.with_ftl(|ftl| ftl.cached_mut().set_written(frame));
    }

    /// What lending begins with: nothing that is cached may be lost with it.
    pub async fn write_all_back(&self) -> StatusCode {
        if self.disk.is_some() {
            return self.flush_disk().await.err().unwrap_or(StatusCode::Success);
        }
        let written_back = self.write_back(0..u32::MAX).await;
        let durable = self.make_durable().await;
        written_back.err().unwrap_or(durable)
    }

    /// Forgets what is cached and takes other frames.
    pub fn take_frames(&self, hmb: Arc<Hmb>) -> StatusCode {
        let taken = self.with_ftl(|ftl| {
            for frame in 0..ftl.cached().count() {
                if ftl.cached().lpn(frame).is_some() {
                    ftl.take_frame_back(frame);
                }
            }
            ftl.set_cached_frames(hmb.frames())
        });
        if taken.is_err() {
            return StatusCode::InternalError;
        }
        self.note_book(match hmb.frames() {
            0 => 0,
            _ => self.with_ftl(|ftl| ftl.cached().bytes()) + hmb.bytes(),
        });
        *self.copy.borrow_mut() = vec![0; self.dma.page_bytes()];
        *self.hmb.borrow_mut() = hmb;
        StatusCode::Success
    }
}

/// The frame that has a page's bytes, if one has.
pub fn frame_with_data(ftl: &Ftl, hmb: &Hmb, lpn: u32) -> Option<u32> {
    let Entry::Cached(frame) = ftl.entry(lpn) else {
        return None;
    };
    let cached = ftl.cached();
    let is_blank = cached.is_blank(frame) && !hmb.at(frame).is_dirty();
    if is_blank {
        // Who is to write it may wait for a word that only the drive can mend.
        hmb.at(frame).mend();
    }
    (!is_blank && !cached.is_filling(frame)).then_some(frame)
}
