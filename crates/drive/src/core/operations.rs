//! The ends of flash operations, and of what waits for a time.

use std::rc::Rc;

use wharf_runtime::Op;

use super::state::Core;
use crate::ftl::COLLECTOR;

impl Core {
    /// Starts the core's tasks.
    pub fn start(self: &Rc<Self>) {
        let cpu = &self.cpu;
        for (number, job) in (0..).zip(&self.jobs) {
            // Known before it first runs: a share may have to wait before.
            job.task
                .set(Some(cpu.spawn("job", self.clone().work(number))));
        }
        cpu.spawn("finisher", self.clone().finish());
        if self.disk.is_some() {
            cpu.spawn("arm", self.clone().move_arm());
            return;
        }
        for collector in 0..self.collectors.len() as u32 {
            cpu.spawn("collector", self.clone().collect(collector));
        }
        cpu.spawn("eraser", self.clone().erase_victims());
        cpu.spawn("checkpointer", self.clone().checkpoints());
    }

    /// Ends flash operations, and has jobs go on, when their time has come.
    async fn finish(self: Rc<Self>) {
        loop {
            self.operations.wait(&self.cpu).await;
            self.is_watched.set(true);
            self.operate();
            self.is_watched.set(false);
            self.report_answers();
        }
    }

    /// Does what is due at the CPU's time.
    fn operate(&self) {
        if self.operation_end_ns.get() <= self.flash_now() {
            self.finish_now();
        }
        if self.power.is_cut() {
            return;
        }
        self.resume_jobs();
        let next_ns = self.next_ns();
        if next_ns != u64::MAX {
            self.operations.set(&self.cpu, next_ns);
        }
    }

    /// When something ends next.
    #[inline]
    fn next_ns(&self) -> u64 {
        self.operation_end_ns.get().min(self.next_resumption_ns())
    }

    /// Virtual time: does what is due by `at_ns`, each at its time, before something is done that comes then.
    #[inline]
    pub(super) fn operate_until(&self, at_ns: u64) {
        if !self.cpu.is_virtual() || self.instant {
            return;
        }
        while self.next_ns() <= at_ns && !self.power.is_cut() {
            self.cpu.enter(self.next_ns());
            self.operate();
        }
    }

    /// Ends every flash operation whose time has come, and wakes who waited for it.
    pub(super) fn finish_now(&self) {
        // Taken, not borrowed: a job's task that runs within may come here too.
        let mut finished = self.finished.take();
        let now_ns = self.flash_now();
        let (next_ns, checkpoint_due) = self.cpu.work_counted(Op::MapUpdate, || {
            let next = self.with_ftl(|ftl| {
                ftl.finish_due(now_ns, &mut finished);
                (ftl.next_end_ns(), ftl.checkpoint_is_due())
            });
            (finished.programs, next)
        });
        self.operation_end_ns.set(next_ns.unwrap_or(u64::MAX));
        if let Some(next_ns) = next_ns {
            self.operations.set(&self.cpu, next_ns);
        }
        if self.power.is_cut() {
            self.cpu.halt();
            return;
        }
        if finished.programs > 0 {
            // From the buffer to the media, above.
            self.copying(finished.programs, || ());
        }
        if finished.programs + finished.checkpoint_pages > 0 {
            self.programmed.notify_all(&self.cpu);
        }
        for collector in finished.read.drain(..) {
            self.batch_is_read(collector);
        }
        for (owner, failed) in finished.owners.drain(..) {
            match owner & COLLECTOR {
                0 => self.page_is_programmed(owner, failed),
                _ => self.page_is_moved(owner & !COLLECTOR),
            }
        }
        if std::mem::take(&mut finished.blocks_changed) {
            self.note_read_only();
            self.note_collecting();
            self.space.notify_all(&self.cpu);
        }
        (finished.programs, finished.checkpoint_pages) = (0, 0);
        self.finished.replace(finished);
        if checkpoint_due {
            self.checkpoint_due.notify_all(&self.cpu);
        }
        self.close_awaited_units();
        self.wake_collector();
    }

    /// Notes whether the core moves pages or erases blocks.
    pub(super) fn note_collecting(&self) {
        let now = self.collecting.goes_on() || self.with_ftl(|ftl| ftl.is_erasing());
        let count = &self.cores_collecting;
        match (self.is_collecting.replace(now), now) {
            (false, true) => count.set(count.get() + 1),
            (true, false) => count.set(count.get() - 1),
            _ => {}
        }
    }

    /// Wakes a collector if there may be something for it to do: a page was staged, or became
    /// invalid, or a block was closed, since it found nothing.
    #[inline]
    pub fn wake_collector(&self) {
        if !self.collect.is_empty() && self.needs_another_victim().is_some() {
            self.collect.notify_one(&self.cpu);
        }
        self.wake_eraser();
    }

    /// To be called after staging, with the time of what ends next: ends what took no time, and wakes
    /// a collector if need be.
    #[inline]
    pub fn after_staging(&self, end_ns: u64) {
        self.account_squeezed();
        if self.instant {
            self.finish_now();
        } else {
            if end_ns < self.operation_end_ns.get() {
                self.operation_end_ns.set(end_ns);
            }
            self.operations.set(&self.cpu, end_ns);
            self.wake_collector();
        }
    }
}
