//! The whole structure checked against itself: slow, for tests and simulations.

use super::blocks::State;
use super::entry::{Entry, NONE, Place};
use super::frames::OLD_ZEROS;
use super::{CHECKPOINT, ERASE, Ftl, READ};
use crate::media::Media;

impl Ftl {
    /// Checks every invariant of map, frames and blocks.
    ///
    /// # Panics
    /// With what does not hold.
    pub fn verify(&self) {
        let mut valid = vec![0u32; self.plan.blocks as usize];
        let (mut mapped, mut used) = (0, 0);
        let mut at = 0;
        while let Some(lpn) = self.map.next_known(at..self.plan.logical_pages) {
            at = lpn + 1;
            if let Entry::Cached(frame) = self.entry(lpn) {
                assert!(
                    self.cached.lpn(frame) == Some(lpn),
                    "{lpn} is not in {frame}"
                );
            }
            let place = self.place(lpn);
            mapped += u32::from(place.is_mapped());
            used += self.granules_at(place);
            let on_flash = match place {
                Place::Flash(ppn) => ppn,
                Place::Frame(frame) => self.verify_chain(lpn, frame),
                Place::Unmapped | Place::Trimmed | Place::Zero => NONE,
            };
            if on_flash < OLD_ZEROS {
                let found = self.media.lpn(on_flash);
                // What a checkpoint mapped stays so if its out-of-band data rot: reads of it fail.
                let block = self.block_of(on_flash);
                let index = on_flash - block * self.plan.extents_per_block;
                let is_lost = found.is_none() && index < self.media.written_pages(block);
                assert!(
                    found == Some(lpn) || is_lost,
                    "{lpn} is mapped to {on_flash}, which holds {found:?}"
                );
                valid[self.block_of(on_flash) as usize] += self.weight(on_flash);
            }
        }
        assert!(
            mapped == self.mapped,
            "{mapped} pages are mapped, {} counted",
            self.mapped
        );
        assert!(
            used == self.used_granules,
            "{used} granules are used, {} counted",
            self.used_granules
        );
        self.cached.verify();
        // With a table beside the map, not all of these are known to a sparse map.
        let is_found = |(frame, lpn): &(u32, u32)| self.entry(*lpn) == Entry::Cached(*frame);
        let cached = self.cached.iter().filter(is_found).count() as u32;
        let used = self.cached.used();
        assert!(cached == used, "{cached} pages are cached, {used} counted");
        self.verify_blocks(&valid);
    }

    /// Checks the chain that ends at `newest`; returns the flash page it stands for.
    fn verify_chain(&self, lpn: u32, newest: u32) -> u32 {
        let (mut frame, mut newer) = (newest, NONE);
        loop {
            let account = self.frames.get(frame);
            assert!(
                account.lpn == lpn && !account.dead && account.newer == newer,
                "{lpn}: {account:?}"
            );
            if account.older == NONE {
                return account.old;
            }
            assert!(
                account.old == NONE,
                "only the oldest frame of {lpn} holds the old page"
            );
            (newer, frame) = (frame, account.older);
        }
    }

    fn verify_blocks(&self, valid: &[u32]) {
        let mut pending = vec![0u32; valid.len()];
        let mut erasing = 0;
        for what in self.nand.iter() {
            if what & ERASE != 0 {
                erasing += 1;
            } else if what & READ == 0 && what != CHECKPOINT && !self.packs() {
                pending[self.block_of(self.frames.get(what).ppn) as usize] += 1;
            }
        }
        if self.packs() {
            for block in self.blocks_of_units() {
                pending[block as usize] += 1;
            }
        }
        assert!(
            erasing == self.erases_pending,
            "{erasing} erases, {} counted",
            self.erases_pending
        );
        let mut free = 0;
        for (block, account) in self.blocks.iter() {
            let index = block as usize;
            assert!(
                account.valid == valid[index],
                "block {block}: {account:?} but {} valid",
                valid[index]
            );
            assert!(
                account.pending == pending[index],
                "block {block}: {account:?}, {}",
                pending[index]
            );
            if account.state == State::Free {
                free += 1;
                assert!(
                    self.media.written_slots(block) == 0,
                    "block {block} is free but not erased"
                );
            }
        }
        assert!(free == self.blocks.free_count(), "{free} blocks are free");
    }
}
