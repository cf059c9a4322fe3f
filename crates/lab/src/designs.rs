//! The designs by name. Another design is a file in the host half and a line here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::clock::Clock;
use wharf_host::design::Design;
use wharf_host::direct::Direct;
use wharf_host::kernel::Kernel;

use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{RunError, Setup, row};
use crate::result::Row;

/// A design that the lab can run.
pub trait Runnable: Design {
    /// True if requests can be hits: a design without a cache has no hit ratio.
    const HAS_CACHE: bool;
}

impl Runnable for Direct {
    const HAS_CACHE: bool = false;
}

impl Runnable for Clock {
    const HAS_CACHE: bool = true;
}

impl Runnable for Kernel {
    const HAS_CACHE: bool = true;
}

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
        name: Kernel::NAME,
        summary: "the page cache of Linux: XArray under a lock, LRU lists, one flusher",
        run: row::<Kernel>,
    },
];

/// The design of this name.
pub fn find(name: &str) -> Option<&'static DesignEntry> {
    DESIGNS.iter().find(|entry| entry.name == name)
}
