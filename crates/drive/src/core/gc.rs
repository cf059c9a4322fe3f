//! The collectors: they keep blocks free, and level wear.
//!
//! A core has as many collectors as it may have victims at once; each collects one block after
//! another in straight line:
//!
//! 1. it takes a victim, if another one is needed;
//! 2. it reads a batch of valid pages, all from the victim's plane, into its share of the frames,
//!    and has each programmed wherever there is least to do; a batch follows as soon as half of the
//!    share is free again;
//! 3. it turns to the next victim when the last page is on its way; the *eraser* starts the erase
//!    when nothing of the old one is needed any more.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::collecting::{Collector, Moved};
use super::state::Core;
use crate::ftl::{Batch, Refusal, Urgency};

/// Erases between two looks at the wear of all blocks, as a share of the blocks.
const WEAR_CHECK_SHARE: u32 = 8;

/// How often collection looks whether a full file system has room again.
const ROOM_LOOK_NS: u64 = 100_000_000;

/// Wear levelling, by one of the collectors.
struct WearCheck {
    every: u64,
    next: u64,
}

impl Core {
    /// A collector's life.
    pub(super) async fn collect(self: Rc<Self>, collector: u32) {
        let own = &self.collectors[collector as usize];
        own.task.set(Some(self.cpu.current()));
        let blocks = self.with_ftl(|ftl| ftl.plan().blocks);
        let every = u64::from((blocks / WEAR_CHECK_SHARE).max(4));
        let mut wear_check = (collector == 0).then_some(WearCheck { every, next: every });
        let mut batch = Batch::of(collector);
        loop {
            if let Some((urgency, victim)) = self.next_victim() {
                // One victim may not be enough.
                self.wake_collector();
                self.collect_block(own, victim, urgency, &mut batch).await;
            } else {
                self.close_awaited_units();
                self.check_for_a_dead_end();
                self.collect.wait(&self.cpu).await;
            }
            if let Some(check) = &mut wear_check
                && self.with_ftl(|ftl| ftl.counters().erases) >= check.next
            {
                check.next += check.every;
                self.level_wear(own, &mut batch).await;
            }
        }
    }

    /// Whether another victim should be collected beside those that are, and how badly.
    #[inline]
    pub(super) fn needs_another_victim(&self) -> Option<Urgency> {
        self.with_ftl(|ftl| {
            let urgency = ftl.need_of_another_victim(true)?;
            match urgency {
                Urgency::Background => ftl.need_of_another_victim(self.host_is_quiet()),
                _ => Some(urgency),
            }
        })
    }

    /// True if no share is being served, and none has come for a while.
    fn host_is_quiet(&self) -> bool {
        self.is_at_rest() && self.flash_now() >= self.latest_share_ns.get() + self.quiet_ns
    }

    fn next_victim(&self) -> Option<(Urgency, u32)> {
        let urgency = self.needs_another_victim()?;
        let victim = self.cpu.work(Op::GcVictim, || {
            self.with_ftl(|ftl| ftl.take_victim(urgency))
        })?;
        Some((urgency, victim))
    }

    /// Writes wait, no block can be collected, and nothing under way will change that: the flash
    /// has too few good blocks left. Better to refuse writes than to keep them waiting for ever.
    fn check_for_a_dead_end(&self) {
        let dead_end = !self.space.is_empty()
            && self.with_ftl(|ftl| !ftl.is_busy() && ftl.victims() == 0 && ftl.has_no_space());
        if dead_end {
            self.with_ftl(|ftl| ftl.stop_writing());
            self.note_read_only();
            self.space.notify_all(&self.cpu);
        }
    }

    fn give_up_writing(&self) {
        self.with_ftl(|ftl| ftl.give_up_writing());
        self.note_read_only();
        self.space.notify_all(&self.cpu);
    }

    async fn level_wear(&self, own: &Collector, batch: &mut Batch) {
        if !self.with_ftl(|ftl| ftl.wear_gap_exceeded()) {
            return;
        }
        let victim = self.cpu.work(Op::GcVictim, || {
            self.with_ftl(|ftl| ftl.take_victim(Urgency::Wear))
        });
        if let Some(victim) = victim {
            self.collect_block(own, victim, Urgency::Wear, batch).await;
        }
    }

    /// Moves a victim's valid pages away and starts its erase.
    async fn collect_block(
        &self,
        own: &Collector,
        victim: u32,
        urgency: Urgency,
        batch: &mut Batch,
    ) {
        self.begin_collecting();
        let (pages, frames) = self.with_ftl(|ftl| {
            let plan = ftl.plan();
            (plan.extents_per_block, ftl.gc_frames() / plan.victims_max)
        });
        batch.spoiled = false;
        let mut page = 0;
        while page < pages {
            self.come_to(own, frames / 2).await;
            batch.pages_max = frames - own.outstanding.get();
            let now_ns = self.flash_now();
            page = self.cpu.work_counted(Op::GcPage, || {
                let next = self.with_ftl(|ftl| ftl.read_batch(now_ns, victim, page, batch));
                (batch.scanned, next)
            });
            if batch.moves.is_empty() {
                continue;
            }
            self.copying(batch.moves.len() as u32, || ());
            own.is_reading.set(true);
            let end_ns = self.with_ftl(|ftl| ftl.next_end_ns());
            self.after_staging(end_ns.expect("the batch is read"));
            self.come_to(own, frames).await;
            self.move_batch(own, batch, urgency).await;
        }
        self.with_ftl(|ftl| ftl.set_moved(victim));
        let spoiled = batch.spoiled;
        self.moved.borrow_mut().push(Moved { victim, spoiled });
        self.wake_eraser();
        if urgency == Urgency::Background {
            self.cpu.yield_now().await;
        }
    }

    fn begin_collecting(&self) {
        self.count_collecting();
        let victims = &self.collecting.victims;
        victims.set(victims.get() + 1);
        self.note_collecting();
    }

    fn end_collecting(&self) {
        self.count_collecting();
        let victims = &self.collecting.victims;
        victims.set(victims.get() - 1);
        self.note_collecting();
    }

    /// Counts the time since the last call, if there were victims.
    fn count_collecting(&self) {
        let now_ns = self.flash_now();
        let from_ns = self.collecting.counted_ns.replace(now_ns);
        if self.collecting.goes_on() {
            self.with_ftl(|ftl| ftl.counters_mut().gc_busy_ns += now_ns - from_ns);
        }
    }

    /// Has the pages that were read programmed.
    async fn move_batch(&self, own: &Collector, batch: &mut Batch, urgency: Urgency) {
        while let Some(moving) = batch.moves.pop() {
            loop {
                let now_ns = self.flash_now();
                match self.with_ftl(|ftl| ftl.stage_move(now_ns, moving, urgency)) {
                    Ok(Some(end_ns)) => {
                        own.outstanding.set(own.outstanding.get() + 1);
                        self.after_staging(end_ns);
                        break;
                    }
                    Ok(None) => break,
                    Err(_) if self.has_ended_closed_units() => {}
                    Err(Refusal::CapacityExceeded) if self.with_ftl(|ftl| ftl.lacks_room()) => {
                        // Those who wait for collection are told, or they would wait as long.
                        self.space.notify_all(&self.cpu);
                        self.cpu.sleep_until(self.cpu.now() + ROOM_LOOK_NS).await;
                    }
                    Err(_) => self.space.wait(&self.cpu).await,
                }
            }
        }
    }

    /// The eraser's life: starts the erase of victims of which nothing is needed any more, their
    /// pages being on flash elsewhere, and goes on while it runs.
    ///
    /// Deallocations are logged first: the victim may hold the newest copy of a deallocated page,
    /// and without it and without the log a power cut would bring back an older copy.
    pub(super) async fn erase_victims(self: Rc<Self>) {
        loop {
            let Some(victim) = self.next_emptied() else {
                // A victim that was given up may have been the last hope of those who wait.
                self.wake_collector();
                self.emptied.wait(&self.cpu).await;
                continue;
            };
            if self.prepare_erase(victim).await == StatusCode::Success {
                let now_ns = self.flash_now();
                let end_ns = self.with_ftl(|ftl| ftl.start_erase(now_ns, victim));
                self.end_collecting();
                self.after_staging(end_ns);
            } else {
                self.with_ftl(|ftl| ftl.abandon_victim(victim));
                self.end_collecting();
                self.give_up_writing();
            }
        }
    }

    /// Sees to it that nothing is lost with a victim.
    async fn prepare_erase(&self, victim: u32) -> StatusCode {
        let logged = self.write_log().await;
        if self.cpu.is_virtual() || logged != StatusCode::Success {
            // The erase itself waits for what it relies on.
            return logged;
        }
        let synced = self.sync_media().await;
        if synced == StatusCode::Success {
            self.with_ftl(|ftl| ftl.cover_erase(victim));
        }
        synced
    }

    /// Takes a victim that can be erased; gives up on those that never will be.
    fn next_emptied(&self) -> Option<u32> {
        let mut moved = self.moved.borrow_mut();
        loop {
            let found = moved.iter().position(|moved| self.is_done(moved))?;
            let Moved { victim, .. } = moved.remove(found);
            if self.with_ftl(|ftl| ftl.is_empty(victim)) {
                return Some(victim);
            }
            self.with_ftl(|ftl| ftl.set_spoiled(victim));
            self.end_collecting();
        }
    }

    /// True if the victim's readable pages are on flash elsewhere.
    fn is_done(&self, moved: &Moved) -> bool {
        self.with_ftl(|ftl| {
            ftl.is_empty(moved.victim)
                || moved.spoiled && ftl.only_unreadable_pages_left(moved.victim)
        })
    }

    /// Wakes the eraser if there is something to do for it.
    #[inline]
    pub(super) fn wake_eraser(&self) {
        if !self.emptied.is_empty() && self.moved.borrow().iter().any(|moved| self.is_done(moved)) {
            self.emptied.notify_all(&self.cpu);
        }
    }

    /// Waits until a collector's batch is read and no more than `outstanding` of its pages are on
    /// their way.
    fn come_to<'a>(&self, own: &'a Collector, outstanding: u32) -> ComeTo<'a> {
        if own.outstanding.get() > outstanding {
            self.close_gc_units();
        }
        ComeTo { own, outstanding }
    }

    /// A collector's batch has been read.
    pub(super) fn batch_is_read(&self, collector: u32) {
        let own = &self.collectors[collector as usize];
        own.is_reading.set(false);
        self.wake_if_come(own);
    }

    /// A page of a collector's has been programmed.
    pub(super) fn page_is_moved(&self, collector: u32) {
        let own = &self.collectors[collector as usize];
        own.outstanding.set(own.outstanding.get() - 1);
        self.wake_if_come(own);
    }

    fn wake_if_come(&self, own: &Collector) {
        if own.waits_for.get().is_some_and(|n| own.has_come_to(n)) {
            own.waits_for.set(None);
            self.cpu.wake(own.task.get().expect("it waits"));
        }
    }
}

/// See [`Core::come_to`].
struct ComeTo<'a> {
    own: &'a Collector,
    outstanding: u32,
}

impl Future for ComeTo<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.own.has_come_to(self.outstanding) {
            self.own.waits_for.set(None);
            return Poll::Ready(());
        }
        self.own.waits_for.set(Some(self.outstanding));
        Poll::Pending
    }
}
