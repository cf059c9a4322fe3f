//! Which cache a page goes to that is in neither, or in the drive's.
//!
//! The paper says: to the drive's cache, if that has room, and not what of reads becomes if it has none. Reads would never come to the host's
//! cache then, which is the larger one. So `read_fill` says it.

use std::ops::Range;

use super::super::mode::ReadFill;
use super::super::thread::Cached;

/// The share of the host's cache that stays for what makes files longer and for who goes through files in order.
const ROOM_SHARE: u64 = 32;

/// Where the first pages of a request are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In the host's cache, where they are.
    Here,
    /// In the host's cache, where they come to.
    Host,
    /// By way of the drive's, which keeps them if it has room.
    Near,
    /// Past both: the drive's cache keeps what it has.
    Past,
}

impl Way {
    /// Whether they are used in the host's cache.
    pub(super) fn is_host(self) -> bool {
        matches!(self, Way::Here | Way::Host)
    }
}

/// What is asked of the first pages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) writes: bool,
    /// Whether they are read or written whole.
    pub(super) is_whole: bool,
    /// Whether it is one of several in order.
    pub(super) is_in_order: bool,
}

/// The place of the first pages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) way: Way,
    /// How many go this way together.
    pub(super) pages: u64,
    /// Whether the drive may have them in its cache.
    pub(super) is_on_device: bool,
}

impl Cached {
    /// The place of the first pages of a request. All are as whole as the first one.
    pub(super) fn place(&self, slot: u32, pages: &Range<u64>, ask: Ask) -> Place {
        let first = pages.start;
        if self.is_here(slot, first) {
            return Place {
                way: Way::Here,
                pages: 1,
                is_on_device: false,
            };
        }
        let is_on_device = self.is_on_device(slot, first);
        let alike = |page: &u64| {
            !self.is_here(slot, *page) && self.is_on_device(slot, *page) == is_on_device
        };
        let run = 1 + (first + 1..pages.end).take_while(alike).count() as u64;
        Place {
            way: self.way(is_on_device, run, ask),
            pages: run,
            is_on_device,
        }
    }

    fn way(&self, is_on_device: bool, pages: u64, ask: Ask) -> Way {
        // What is written whole is not read before, so it does not leave the drive's cache by coming here.
        if is_on_device && ask.writes && ask.is_whole {
            return Way::Near;
        }
        // Who goes through a file in order uses all of its pages soon: they come here, or the drive has them at hand.
        if ask.is_in_order {
            let is_fed = self.process.prefetch_pages > 0 && !ask.is_whole;
            return match is_fed && (is_on_device || self.process.omni.has_room(pages)) {
                true => Way::Near,
                false => Way::Host,
            };
        }
        if is_on_device {
            return Way::Near;
        }
        // Near saves nothing of whole pages.
        if ask.is_whole && self.host_has_room(pages) {
            return Way::Host;
        }
        if self.process.omni.has_room(pages) {
            return Way::Near;
        }
        match self.process.read_fill {
            ReadFill::Host if self.host_has_room(pages) => Way::Host,
            _ => Way::Past,
        }
    }

    /// Whether the host's cache has room for so many pages more, beyond what stays for others.
    pub(super) fn host_has_room(&self, pages: u64) -> bool {
        let shared = &self.process.shared;
        let stays = u64::from(shared.frames.count()) / ROOM_SHARE;
        // Else pages would leave for those that come for their reads, and those for the next ones.
        let low = self.process.ages.as_ref().map_or(0, |ages| ages.low_pages);
        let stays = stays.max(low);
        shared.common.free.count() > pages + stays
    }

    /// Whether who makes a file longer would have to wait for room in the host's cache.
    pub(in crate::stor::cache) fn host_is_full(&self) -> bool {
        let shared = &self.process.shared;
        shared.common.free.count() == 0 && shared.unwritten() >= shared.limits.dirty_hard
    }
}
