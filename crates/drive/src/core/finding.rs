//! What it costs a core to find cached pages, by how it does so ([`FrameIndex`](crate::config::FrameIndex)).
//!
//! | | index merged with the map | hash table beside the map |
//! |---|---|---|
//! | a page of a pin or unpin | the map entry, and the account | the table, and the account |
//! | if it is not cached | | the map entry besides: where it is on flash |
//! | it gets a frame, or loses it | the account | the table besides |
//! | a page of a read, write or deallocation | what those look up anyway | the table besides |
//!
//! The table is the one that a client of the host's design `tri` has for itself, with its entries
//! compared in a second table in the same way. So it costs what was measured there. What a frame costs
//! is the same in both ways, though with a table no map entry is written for it.

use wharf_runtime::Op;

use super::state::Core;

impl Core {
    /// What finding a page of a pin or unpin, and counting its reference, is accounted as.
    pub fn find_op(&self) -> Op {
        match self.has_table {
            true => Op::PrivateLookup,
            false => Op::FusionLookup,
        }
    }

    /// Looks up where a page is on flash, if finding that it is not cached has not told.
    pub fn look_below(&self, lpn: u32) {
        if self.has_table {
            let look = || self.with_ftl(|ftl| std::hint::black_box(ftl.place(lpn)));
            self.cpu.work(Op::FusionLookup, look);
        }
    }

    /// Accounts for a page that has entered the table, or left it: done where its frame was given or taken.
    pub fn table_changed(&self) {
        if self.has_table {
            self.cpu.work(Op::PrivateUpdate, || ());
        }
    }

    /// Accounts for `pages` look-ups in the table of a command that is no pin, done where it serves them.
    pub fn found_by_table(&self, pages: u32) {
        if self.has_table && self.may_cache() {
            self.cpu.work_n(Op::PrivateLookup, pages, || ());
        }
    }
}
