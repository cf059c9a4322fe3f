//! Announcements: pages that are going to be overwritten whole and are in no frame yet.
//!
//! Counted by hash of the page, so a false wait is rare and short. Each process has counters of its own,
//! which it alone changes and all look at: those of one that dies are set to zero.

use std::ptr::NonNull;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicU32, Ordering};
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::memory::SharedMemory;

/// Counters of a process.
const COUNTERS: usize = 4096;

/// Pages that they take.
const PAGES: usize = COUNTERS * size_of::<u32>() / PAGE_BYTES;

/// The counters of all processes.
pub struct Announcements {
    region: DmaRegion,
    /// Which are this process's.
    own: usize,
    processes: usize,
}

/// Bytes of the counters of `processes` processes.
pub const fn announcement_bytes(processes: usize) -> usize {
    processes * PAGES * PAGE_BYTES
}

impl Announcements {
    /// The counters of a process and its `guests` guests, all zeros.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(space: &Arc<DmaSpace>, guests: u32) -> Result<Announcements, RegisterError> {
        let processes = 1 + guests as usize;
        Ok(Announcements {
            region: space.register_whole(processes * PAGES)?,
            own: 0,
            processes,
        })
    }

    /// The same, as guest number `guest` of `guests` sees them.
    pub fn attach(memory: &Arc<SharedMemory>, guests: u32, guest: u32) -> Announcements {
        assert!(guest < guests, "guests are numbered from 0");
        let processes = 1 + guests as usize;
        Announcements {
            region: DmaRegion::of_owner(memory, processes * PAGES, PAGE_BYTES),
            own: 1 + guest as usize,
            processes,
        }
    }

    /// The memory, if other processes can be given it.
    pub fn shared(&self) -> Option<&Arc<SharedMemory>> {
        self.region.shared()
    }

    /// Bytes of the counters.
    pub fn bytes(&self) -> usize {
        announcement_bytes(self.processes)
    }

    fn counter(&self, process: usize, page: u64) -> &AtomicU32 {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        self.at(process, hash as usize % COUNTERS)
    }

    fn at(&self, process: usize, index: usize) -> &AtomicU32 {
        let first = NonNull::new(self.region.page_pointer(process * PAGES));
        let first = first
            .expect("a mapping is not at address 0")
            .cast::<AtomicU32>();
        // SAFETY: the counters of a process are whole pages of the region; an atomic, for which any
        // bytes are valid.
        unsafe { first.add(index).as_ref() }
    }

    /// Announces that a page is going to be overwritten. To be called before the command is sent: who
    /// finds the page in a frame afterwards finds the announcement too.
    pub fn announce(&self, page: u64) {
        self.counter(self.own, page).fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the announcement back: the page is written, or not in a frame.
    pub fn retract(&self, page: u64) {
        // Release: partner of the acquire in `is_announced`, for what was written to the page.
        self.counter(self.own, page).fetch_sub(1, Ordering::Release);
    }

    /// Whether somebody is overwriting the page. To be asked after the drive has answered.
    pub fn is_announced(&self, page: u64) -> bool {
        // Acquire: partner of the release in `retract`.
        let announced = |process| self.counter(process, page).load(Ordering::Acquire) > 0;
        (0..self.processes).any(announced)
    }

    /// Takes back what guest number `guest` has announced: it is gone, and its pages are what they
    /// were.
    pub fn forget(&self, guest: u32) {
        for index in 0..COUNTERS {
            // Release: as in `retract`.
            self.at(1 + guest as usize, index)
                .store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_counted() {
        let announced = Announcements::new(&DmaSpace::new(8), 0).unwrap();
        announced.announce(7);
        announced.announce(7);
        announced.retract(7);
        assert!(announced.is_announced(7) && !announced.is_announced(8));
        announced.retract(7);
        assert!(!announced.is_announced(7));
    }

    #[test]
    fn all_see_those_of_a_guest_until_it_is_forgotten() {
        let owner = Announcements::new(&DmaSpace::shareable(PAGE_BYTES), 2).unwrap();
        let memory = owner.shared().unwrap();
        let guests = [0, 1].map(|guest| Announcements::attach(memory, 2, guest));
        guests[1].announce(7);
        owner.announce(9);
        assert!(owner.is_announced(7) && guests[0].is_announced(7) && guests[1].is_announced(9));
        owner.forget(1);
        assert!(!guests[0].is_announced(7) && guests[0].is_announced(9));
    }
}
