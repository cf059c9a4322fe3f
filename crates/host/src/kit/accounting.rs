//! What Linux counts for a page while it has the lock of its file's tree (5.4: mm/filemap.c,
//! mm/page-writeback.c).
//!
//! Problem: how long the lock of a tree is held decides how many CPUs can change a file, and the
//! change of the tree is only a part of that.
//!
//! Idea: the same counters. Those of nodes, groups and devices have a part for each CPU, so that a
//! change is one of a line which the CPU has ([`Op::LineLocal`]). The file's number of pages is one
//! word for all, and has a [`Line`].
//!
//! ScaleCache counts all of it too, beside its tree: the number of pages of a file has a lock of
//! its own there (`nr_lock` of the published `mm/filemap.c`).
//!
//! Not charged: parts of CPUs that are added to the sum of all, once in 125 changes of a node's
//! counter (the most that `vmstat` lets a CPU keep) and once in 56 of a device's (`WB_STAT_BATCH`
//! with 64 CPUs). Of the 10 and 7 such changes in the life of a page that is written once this is a
//! fifth of a line's transfer, of several lines on which nobody has to wait for long.

use wharf_runtime::{Cpu, Line, Op};

/// What becomes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is in the cache now (`__add_to_page_cache_locked`): pages of files.
    Added,
    /// It is not any more (`__delete_from_page_cache`): pages of files, and the page forgets its
    /// file.
    Removed,
    /// It is dirty (`account_page_dirtied`): dirty pages of the node and of the group, pages to be
    /// written of the zone, pages ever dirtied, those of the device twice, and the writer's own
    /// three.
    Dirtied,
    /// It is on its way (`__test_set_page_writeback`): pages under way of the device.
    Sent,
    /// It has been written (`test_clear_page_writeback`): pages under way of the device, pages ever
    /// written, the device's share of them.
    Written,
}

impl Change {
    /// Counters of the CPU's own that change.
    const fn counters(self) -> u32 {
        match self {
            Change::Added => 1,
            Change::Removed => 2,
            Change::Dirtied => 9,
            Change::Sent => 1,
            Change::Written => 3,
        }
    }

    /// Whether the file's number of pages changes.
    const fn moves_the_file(self) -> bool {
        matches!(self, Change::Added | Change::Removed)
    }
}

/// The counters of a file.
#[derive(Debug, Default)]
pub struct FileCounters {
    /// The line of its number of pages.
    pages: Line,
}

impl FileCounters {
    /// Counts `pages` pages to which the same happens under one lock.
    pub fn count(&self, cpu: &Cpu, change: Change, pages: u32) {
        if change.moves_the_file() {
            self.pages.write(cpu);
        }
        cpu.work_n(Op::LineLocal, change.counters() * pages, || ());
    }
}
