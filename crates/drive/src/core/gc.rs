//! The collector: keeps blocks free, and levels wear.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::Core;
use crate::ftl::{Batch, Urgency};

/// Erases between two looks at the wear of all blocks, as a share of the blocks.
const WEAR_CHECK_SHARE: u32 = 8;

impl Core {
    /// The collector's life.
    pub(super) async fn collect(self: Rc<Self>) {
        let blocks = self.with_ftl(|ftl| ftl.plan().blocks);
        let wear_check = u64::from((blocks / WEAR_CHECK_SHARE).max(4));
        let mut next_wear_check = wear_check;
        let mut batch = Batch::default();
        loop {
            if let Some((urgency, victim)) = self.next_victim() {
                self.collect_block(victim, urgency, &mut batch).await;
            } else {
                self.check_for_a_dead_end();
                self.collect.wait(&self.cpu).await;
            }
            if self.with_ftl(|ftl| ftl.counters().erases) >= next_wear_check {
                next_wear_check += wear_check;
                self.level_wear(&mut batch).await;
            }
        }
    }

    fn next_victim(&self) -> Option<(Urgency, u32)> {
        let urgency = self.with_ftl(|ftl| ftl.collection_need())?;
        let victim = self.cpu.work(Op::GcVictim, || {
            self.with_ftl(|ftl| ftl.take_victim(urgency))
        })?;
        Some((urgency, victim))
    }

    /// Writes wait, no block can be collected, and nothing under way will change that: the flash
    /// has too few good blocks left. Better to refuse writes than to keep them waiting for ever.
    fn check_for_a_dead_end(&self) {
        let dead_end =
            !self.space.is_empty() && self.with_ftl(|ftl| !ftl.is_busy() && ftl.has_no_space());
        if dead_end {
            self.give_up_writing();
        }
    }

    fn give_up_writing(&self) {
        self.with_ftl(|ftl| ftl.give_up_writing());
        self.tell_read_only();
        self.space.notify_all(&self.cpu);
    }

    async fn level_wear(&self, batch: &mut Batch) {
        if !self.with_ftl(|ftl| ftl.wear_gap_exceeded()) {
            return;
        }
        let victim = self.cpu.work(Op::GcVictim, || {
            self.with_ftl(|ftl| ftl.take_victim(Urgency::Wear))
        });
        if let Some(victim) = victim {
            self.collect_block(victim, Urgency::Wear, batch).await;
        }
    }

    /// Moves a victim's valid pages away and starts its erase.
    async fn collect_block(&self, victim: u32, urgency: Urgency, batch: &mut Batch) {
        let start_ns = self.flash_now();
        self.has_victim.set(true);
        self.tell_collecting();
        let pages = self.with_ftl(|ftl| ftl.plan().pages_per_block);
        batch.spoiled = false;
        let mut page = 0;
        while page < pages {
            let now_ns = self.flash_now();
            let from = page;
            page = self.cpu.work_counted(Op::GcPage, || {
                let next = self.with_ftl(|ftl| ftl.read_batch(now_ns, victim, page, batch));
                (batch.scanned, next)
            });
            self.copying(batch.moves.len() as u32, || ());
            self.cpu.sleep_until(batch.end_ns).await;
            self.move_batch(batch, urgency).await;
            if page == from {
                // Every frame of collection is under way.
                self.programmed.wait(&self.cpu).await;
            }
        }
        self.erase_when_empty(victim, urgency, batch.spoiled).await;
        self.has_victim.set(false);
        self.tell_collecting();
        let end_ns = self.flash_now();
        self.with_ftl(|ftl| ftl.counters_mut().gc_busy_ns += end_ns - start_ns);
    }

    async fn move_batch(&self, batch: &mut Batch, urgency: Urgency) {
        while let Some(moving) = batch.moves.pop() {
            loop {
                let now_ns = self.flash_now();
                match self.with_ftl(|ftl| ftl.stage_move(now_ns, moving, urgency)) {
                    Ok(Some(end_ns)) => {
                        self.after_staging(end_ns);
                        break;
                    }
                    Ok(None) => break,
                    Err(_) => self.space.wait(&self.cpu).await,
                }
            }
        }
    }

    /// Waits until nothing of the victim is needed (its pages are on flash elsewhere), then starts
    /// the erase; the collector goes on while it runs.
    ///
    /// Deallocations are logged first: the victim may hold the newest copy of a deallocated page,
    /// and without it and without the log a power cut would bring back an older copy.
    async fn erase_when_empty(&self, victim: u32, urgency: Urgency, spoiled: bool) {
        while !self.with_ftl(|ftl| ftl.is_empty(victim)) {
            if spoiled && self.with_ftl(|ftl| ftl.only_unreadable_pages_left(victim)) {
                self.with_ftl(|ftl| ftl.set_spoiled(victim));
                return;
            }
            self.programmed.wait(&self.cpu).await;
        }
        if self.write_log().await != StatusCode::Success {
            self.give_up_writing();
            return;
        }
        let now_ns = self.flash_now();
        let end_ns = self.with_ftl(|ftl| ftl.start_erase(now_ns, victim));
        self.after_staging(end_ns);
        if urgency == Urgency::Background {
            self.cpu.yield_now().await;
        }
    }
}
