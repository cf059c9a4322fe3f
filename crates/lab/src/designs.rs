//! The designs by name. Another design is a file in the host half and a line here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::clock::Clock;
use wharf_host::design::Design;
use wharf_host::direct::Direct;
use wharf_host::hardware::Hardware;
use wharf_host::kernel::{Falcon, Kernel, KernelDflush};
use wharf_host::scala::Scala;
use wharf_host::scale::{DflushAlone, Scale, Whole};
use wharf_host::tri::Tri;

use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{RunError, Setup, row};
use crate::result::Row;

type RunRow = fn(&Setup, &Arc<Plan>, Progress, &Arc<AtomicBool>) -> Result<Row, RunError>;

/// One design as the command line knows it.
#[derive(Clone, Copy)]
pub struct DesignEntry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// Runs a plan through it.
    pub run: RunRow,
}

/// All designs.
pub const DESIGNS: &[DesignEntry] = &[
    DesignEntry {
        name: Direct::NAME,
        summary: "no cache: every request goes to the drive",
        run: row::<Direct>,
    },
    DesignEntry {
        name: Clock::NAME,
        summary: "a page cache in host memory, CLOCK replacement, over ordinary block commands",
        run: row::<Clock>,
    },
    DesignEntry {
        name: Scala::NAME,
        summary: "a page cache that the drives keep in memory of the host, an index for each client",
        run: row::<Scala>,
    },
    DesignEntry {
        name: Hardware::NAME,
        summary: "the same without an index on the host: every request pins its pages by command",
        run: row::<Hardware>,
    },
    DesignEntry {
        name: Tri::NAME,
        summary: "TriCache: managers that own pages, messages, private caches, direct pins",
        run: row::<Tri>,
    },
    DesignEntry {
        name: Kernel::NAME,
        summary: "the page cache of Linux: XArray under a lock, LRU lists, one flusher",
        run: row::<Kernel>,
    },
    DesignEntry {
        name: Falcon::NAME,
        summary: "the same, with a queue and a CPU for the write-back of each drive",
        run: row::<Falcon>,
    },
    DesignEntry {
        name: KernelDflush::NAME,
        summary: "the page cache of Linux whose writers flush: ScaleCache without its index",
        run: row::<KernelDflush>,
    },
    DesignEntry {
        name: Scale::<Whole>::NAME,
        summary: "a page cache in the process: an index without locks, writers that flush",
        run: row::<Scale<Whole>>,
    },
    DesignEntry {
        name: Scale::<DflushAlone>::NAME,
        summary: "the same over an index under a lock",
        run: row::<Scale<DflushAlone>>,
    },
];

/// The design of this name.
pub fn find(name: &str) -> Option<&'static DesignEntry> {
    DESIGNS.iter().find(|entry| entry.name == name)
}
