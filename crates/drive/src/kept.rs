//! What the drive's memory keeps over a loss of power (`memory.protected`): pages of files that were written near, and that the media do not
//! have yet.
//!
//! Problem: memory of the drive's own is empty after a loss of power, so what hosts have written to its cache of pages of files is lost.
//!
//! Idea: capacitors last until the pages that are dirty have been copied to a place of their own, as those of an NVDIMM do. At power-on, before
//! any command for files is served, they go to their files; the copy is given up when they are durable there, so that a loss of power
//! meanwhile has them written again.
//!
//! Where the copy is, is no part of the model: it takes no room of the flash, and no time.

use std::sync::{Arc, Mutex, MutexGuard};

use wharf_files::Caller;

use crate::power::PowerSwitch;

/// A page of a file that the media do not have.
#[derive(Debug, Clone)]
pub struct KeptPage {
    /// The file's number.
    pub number: u64,
    /// The page, from 0.
    pub page: u64,
    /// The page's bytes.
    pub bytes: Box<[u8]>,
    /// Who changed the file last.
    pub caller: Caller,
    /// And when, in nanoseconds of the clock for files.
    pub changed_ns: u64,
}

/// What a drive that is off has kept; see the [module](self).
#[derive(Debug, Default)]
pub struct KeptPages(Mutex<Vec<KeptPage>>);

impl KeptPages {
    fn all(&self) -> MutexGuard<'_, Vec<KeptPage>> {
        self.0.lock().expect("no holder panics")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().len()
    }
}

/// A protected memory that has power.
pub(crate) struct Protection {
    pages: Arc<KeptPages>,
    power: PowerSwitch,
}

impl Protection {
    /// Of memory that has kept these while the power was off.
    pub(crate) fn new(pages: Arc<KeptPages>, power: PowerSwitch) -> Protection {
        Protection { pages, power }
    }

    /// Whether the power is gone.
    pub(crate) fn is_cut(&self) -> bool {
        self.power.is_cut()
    }

    /// What was kept the last time: files in order, and pages of each in order.
    pub(crate) fn kept(&self) -> Vec<KeptPage> {
        let mut kept = self.pages.all().clone();
        kept.sort_unstable_by_key(|page| (page.number, page.page));
        kept
    }

    /// What was kept the last time is durable, or is not wanted; unless the power is gone.
    pub(crate) fn give_up(&self) {
        if !self.is_cut() {
            self.pages.all().clear();
        }
    }

    /// Keeps these.
    pub(crate) fn keep(&self, pages: Vec<KeptPage>) {
        *self.pages.all() = pages;
    }
}
