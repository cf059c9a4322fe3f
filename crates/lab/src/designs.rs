//! The designs by name. Another design is a file in the host half and a line here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::clock::Clock;
use wharf_host::design::Design;
use wharf_host::direct::Direct;
use wharf_host::hardware::Hardware;
use wharf_host::kernel::{Falcon, Kernel, KernelDflush, PageCache, WriteBack};
use wharf_host::scala::Scala;
use wharf_host::scale::{DflushAlone, Scale, Variant, Whole};
use wharf_host::tri::Tri;

use crate::config::HostConfig;
use crate::input::Plan;
use crate::progress::Progress;
use crate::replay::{RunError, Setup, row};
use crate::result::Row;

/// A design that the lab can run.
pub trait Runnable: Design {
    /// True if requests can be hits: a design without a cache has no hit ratio.
    const HAS_CACHE: bool;

    /// What the design stands for, if that is a part of another machine of which only the work in memory runs in real
    /// time: whoever measures it has to know what cost nothing.
    fn model(_: &HostConfig) -> Option<&'static str> {
        None
    }
}

/// Designs that are told to be in the operating system.
const IN_KERNEL: &str = "a model of itself in the operating system (host.in_kernel), whose system calls, block layer, \
    interrupts and switches of threads took no time";

impl Runnable for Direct {
    const HAS_CACHE: bool = false;

    fn model(host: &HostConfig) -> Option<&'static str> {
        host.in_kernel.then_some(IN_KERNEL)
    }
}

impl Runnable for Clock {
    const HAS_CACHE: bool = true;
}

impl Runnable for Hardware {
    const HAS_CACHE: bool = true;
}

impl Runnable for Scala {
    const HAS_CACHE: bool = true;
}

impl Runnable for Tri {
    const HAS_CACHE: bool = true;
}

impl<W: WriteBack> Runnable for PageCache<W> {
    const HAS_CACHE: bool = true;

    fn model(_: &HostConfig) -> Option<&'static str> {
        Some(
            "a model of the page cache of Linux, whose system calls, block layer, interrupts and switches of \
             threads took no time",
        )
    }
}

impl<V: Variant> Runnable for Scale<V> {
    const HAS_CACHE: bool = true;

    fn model(host: &HostConfig) -> Option<&'static str> {
        host.in_kernel.then_some(IN_KERNEL)
    }
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
        name: Whole::NAME,
        summary: "a page cache in the process: an index without locks, writers that flush",
        run: row::<Scale<Whole>>,
    },
    DesignEntry {
        name: DflushAlone::NAME,
        summary: "the same over an index under a lock",
        run: row::<Scale<DflushAlone>>,
    },
];

/// The design of this name.
pub fn find(name: &str) -> Option<&'static DesignEntry> {
    DESIGNS.iter().find(|entry| entry.name == name)
}
