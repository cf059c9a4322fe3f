//! What a core does about packed pages: the time of their compression, and when units are closed.

use super::collecting::Collector;
use super::state::Core;

impl Core {
    /// Whether a write has ended when all of it is staged, and not when it is on flash.
    #[inline]
    pub fn ends_when_staged(&self, is_forced: bool) -> bool {
        self.is_protected || self.volatile_write_cache.get() && !is_forced
    }

    /// When `pages` pages that have come from the host by `ready_ns` are compressed; 0 stands for now,
    /// or for no time.
    #[inline]
    pub fn compressed_ns(&self, ready_ns: u64, pages: u32) -> u64 {
        match &self.engine {
            Some(engine) if self.cpu.is_virtual() => {
                engine.compress(ready_ns.max(self.cpu.now()), pages)
            }
            _ => ready_ns,
        }
    }

    /// When `pages` pages that flash has delivered by `ready_ns` are expanded.
    #[inline]
    pub fn expanded_ns(&self, ready_ns: u64, pages: u32) -> u64 {
        match &self.engine {
            Some(engine) if self.cpu.is_virtual() => engine.expand(ready_ns, pages),
            _ => ready_ns,
        }
    }

    /// Accounts for pages that were compressed or expanded since the last call: work of the processor,
    /// unless the drive has an engine for it.
    #[inline]
    pub fn account_squeezed(&self) {
        let Some((compress, expand)) = self.squeezing else {
            return;
        };
        let now = self.with_ftl(|ftl| {
            let counters = ftl.counters();
            (counters.pages_compressed, counters.pages_expanded)
        });
        let before = self.squeezed.replace(now);
        let pages = |now: u64, before: u64| now.saturating_sub(before) as u32;
        self.cpu.work_n(compress, pages(now.0, before.0), || ());
        self.cpu.work_n(expand, pages(now.1, before.1), || ());
    }

    /// Somebody is going to wait for pages that are staged: a unit that they are in is programmed soon,
    /// though it is not full.
    #[inline]
    pub fn hasten(&self) {
        if !self.packs {
            return;
        }
        let now_ns = self.flash_now();
        if self.with_ftl(|ftl| ftl.close_host_units(now_ns, self.pack_wait_ns)) {
            let end_ns = self.with_ftl(|ftl| ftl.next_end_ns());
            self.after_staging(end_ns.unwrap_or(u64::MAX));
        }
    }

    /// Has collection's open units programmed if nothing else will have those go on who wait for what
    /// is in it: no other unit of collection's is being programmed.
    #[inline]
    pub(super) fn close_gc_units(&self) {
        let now_ns = self.flash_now();
        if self.with_ftl(|ftl| ftl.packs() && ftl.close_gc_units(now_ns)) {
            let end_ns = self.with_ftl(|ftl| ftl.next_end_ns());
            self.after_staging(end_ns.unwrap_or(u64::MAX));
        }
    }

    /// To be called when a page was refused: a unit may have been closed for it. True if its program,
    /// which takes no time, has ended, and there may be room.
    pub(super) fn has_ended_closed_units(&self) -> bool {
        if !self.packs {
            return false;
        }
        let Some(end_ns) = self.with_ftl(|ftl| ftl.next_end_ns()) else {
            return false;
        };
        self.after_staging(end_ns);
        self.instant
    }

    /// As [`Core::close_gc_units`], after programs have ended: if a collector still waits, or none is at
    /// work.
    #[inline]
    pub(super) fn close_awaited_units(&self) {
        if !self.packs {
            return;
        }
        let waits = |own: &Collector| {
            let most = own.waits_for.get();
            most.is_some_and(|most| own.outstanding.get() > most)
        };
        let nobody_moves = || !self.with_ftl(|ftl| ftl.is_moving());
        if self.collectors.iter().any(waits) || nobody_moves() {
            self.close_gc_units();
        }
    }
}
