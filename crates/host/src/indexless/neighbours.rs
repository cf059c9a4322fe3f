//! Neighbours of what was missed.
//!
//! A store of chunks, or of units, has to expand a chunk as a whole for one sector of it. The
//! others of it need no seek any more: up to `fill_neighbours_bytes` of them come into the cache,
//! cold, so that they are the first to leave again.
//!
//! The walk: before the keeper is asked, the count of changes near the sectors is noted
//! (`changes.rs`); the keeper gives the sectors with their neighbours; those that were asked for go
//! their way (`read.rs`); of the neighbours on either side, beside what else there is to do, those
//! come in that are absent, if they can be locked at once, nothing near them has changed since, the
//! disk has them durably (R3 in `evict.rs`), the drive of the cache has much room, and nothing has
//! to leave for them.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_wire::space::SpaceLevel;

use super::bitmap::Stretch;
use super::client::{Inner, sectors_in};
use super::jobs::Given;
use super::mode::{Mode, Reason};
use super::planted::Fault;
use super::word::Place;

/// Neighbours of one read.
#[derive(Default)]
pub(super) struct Near {
    /// How many are wanted for each run that was missed, at most.
    pub(super) most: u32,
    found: RefCell<Vec<Side>>,
}

/// Neighbours on one side.
struct Side {
    first: u64,
    data: Vec<u8>,
    /// The count of changes before they were read.
    seen: u64,
}

impl Inner {
    /// How many neighbours a read that is admitted, or not, is to have.
    pub(super) fn begin_neighbours(&self, refusal: Option<Reason>) -> Near {
        let is_roomy = self.mover.cache.space_level() == SpaceLevel::Green;
        let bytes = match refusal {
            None if is_roomy && self.shared.mode.get() != Mode::Bypass => {
                self.shared.config.fill_neighbours_bytes
            }
            _ => 0,
        };
        Near {
            most: (bytes / 4096) as u32,
            found: RefCell::default(),
        }
    }

    /// The counts of changes before a run is read: of the side before it, and of that behind it.
    pub(super) fn see(&self, near: &Near, run: &Stretch) -> (u64, u64) {
        if near.most == 0 {
            return (0, 0);
        }
        let last = run.first + u64::from(run.count) - 1;
        let changes = &self.shared.changes;
        (changes.seen(run.first), changes.seen(last))
    }

    /// Puts neighbours aside, and gives what was asked for.
    pub(super) fn part_neighbours<'a>(
        &self,
        near: &Near,
        run: &Stretch,
        (seen_before, seen_behind): (u64, u64),
        given: &'a Given,
    ) -> &'a [u8] {
        let page_bytes = self.shared.space.page_bytes();
        let (before, rest) = given.data.split_at(given.before as usize * page_bytes);
        let (wanted, behind) = rest.split_at(run.count as usize * page_bytes);
        let sides = [
            (run.first - u64::from(given.before), before, seen_before),
            (run.first + u64::from(run.count), behind, seen_behind),
        ];
        let some = sides.into_iter().filter(|(_, data, _)| !data.is_empty());
        let some = some.map(|(first, data, seen)| Side {
            first,
            data: data.to_vec(),
            seen,
        });
        near.found.borrow_mut().extend(some);
        wanted
    }

    /// Brings neighbours into the cache, beside what else there is to do.
    pub(super) fn fill_neighbours(self: &Rc<Self>, near: Near) {
        for side in near.found.into_inner() {
            let inner = self.clone();
            self.cpu.spawn("neighbours", async move {
                inner.fill_side(side).await;
            });
        }
    }

    async fn fill_side(self: &Rc<Self>, side: Side) {
        let (first, shared, bitmap) = (side.first, &self.shared, &self.known.bitmap);
        let count = side.data.len() / shared.space.page_bytes();
        let mut pages = self.mover.take(count).await;
        let locker = self.numbers.locker(self.index, false);
        let locks = &shared.locks;
        let Some(alone) = locks.try_lock_as(&self.cpu, locker, first, count as u64) else {
            return;
        };
        let overtakes = shared.changes.seen(first) != side.seen
            && !shared.planted.is(Fault::NeighboursOvertake);
        let is_unsettled = shared.unsettled.overlaps(&self.cpu, first, count as u64);
        if overtakes || is_unsettled || shared.refusal(&self.mover).is_some() {
            return;
        }
        let mut found = Vec::new();
        // What is not known is not asked for.
        if bitmap
            .look(&self.cpu, first, count as u32, &mut found)
            .is_err()
        {
            return;
        }
        found.retain(|stretch| stretch.place == Place::Disk);
        let sectors = sectors_in(&found, Place::Disk);
        let reserved = match sectors {
            0 => None,
            _ => (shared.room).reserve_spare(&self.cpu, self.index, bitmap, sectors),
        };
        let Some(reserved) = reserved else { return };
        self.put(&mut pages, 0, &side.data);
        pages.keep(alone);
        self.fill(pages, first, found, (reserved, 0)).await;
    }
}
