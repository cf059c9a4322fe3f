//! Pages that a CPU moves to or from the drive of the cache, with what keeps others away meanwhile.

use std::ops::Range;
use std::rc::Rc;

use wharf_runtime::range_lock::RangeGuard;
use wharf_runtime::{Cpu, Op};

use crate::buffers::Buffers;
use crate::error::IoError;
use crate::group::Group;
use crate::late::LateCompletions;
use crate::volume::{Transfer, Volume};

/// Pages of one transfer at most: 1 MiB.
pub(super) const CHUNK_PAGES: usize = 256;

/// What a CPU has for transfers.
pub(super) struct Mover {
    pub(super) cpu: Cpu,
    pub(super) cache: Rc<Volume>,
    buffers: Buffers,
    late: LateCompletions<Held>,
}

/// What a transfer holds.
struct Held {
    numbers: Vec<u32>,
    addresses: Vec<u64>,
    _range: Option<RangeGuard>,
}

impl Mover {
    /// Moves pages of `cache` by these buffers.
    pub(super) fn start(cpu: &Cpu, cache: Rc<Volume>, buffers: Buffers) -> Rc<Mover> {
        let mover = Rc::new(Mover {
            cpu: cpu.clone(),
            cache,
            buffers,
            late: LateCompletions::default(),
        });
        let owner = mover.clone();
        cpu.spawn("late completions", async move {
            let release = |_, held| owner.release(held);
            owner.late.run(&owner.cpu, release).await;
        });
        mover
    }

    fn release(&self, mut held: Held) {
        self.buffers.give_back(&self.cpu, &mut held.numbers);
    }

    /// Takes `count` pages (at most [`CHUNK_PAGES`], and as many as there are), waiting for them.
    pub(super) async fn take(self: &Rc<Self>, count: usize) -> Pages {
        let mut held = Held {
            numbers: Vec::with_capacity(count),
            addresses: Vec::with_capacity(count),
            _range: None,
        };
        let (numbers, addresses) = (&mut held.numbers, &mut held.addresses);
        self.buffers
            .take(&self.cpu, count, numbers, addresses)
            .await;
        Pages {
            mover: self.clone(),
            group: Some(self.cache.open_group()),
            held: Some(held),
        }
    }

    /// Pages that one can have at a time.
    pub(super) fn pages_max(&self) -> usize {
        CHUNK_PAGES.min(self.buffers.pages())
    }
}

/// Pages that were taken. Dropping them gives them back, once the drive is done with them.
pub(super) struct Pages {
    mover: Rc<Mover>,
    group: Option<Group>,
    held: Option<Held>,
}

impl Pages {
    fn held(&self) -> &Held {
        self.held.as_ref().expect("pages are held to the end")
    }

    /// Keeps a range locked for as long as the pages are held.
    pub(super) fn keep(&mut self, range: RangeGuard) {
        self.held
            .as_mut()
            .expect("pages are held to the end")
            ._range = Some(range);
    }

    /// Begins to move some of them, of which the first is at page `first` of the drive.
    pub(super) async fn begin(&self, kind: Transfer, first: u64, which: Range<usize>) {
        let group = self.group.as_ref().expect("pages are held to the end");
        let addresses = &self.held().addresses[which];
        self.mover.cache.issue(group, kind, first, addresses).await;
    }

    /// Waits until all that has begun has ended.
    ///
    /// # Errors
    /// The first error of a command.
    pub(super) async fn end(&self) -> Result<(), IoError> {
        self.mover.cache.ring();
        let group = self.group.as_ref().expect("pages are held to the end");
        group.wait(&self.mover.cpu).await.map(drop)
    }

    /// Works on a page while nothing is under way.
    pub(super) fn with(&mut self, at: usize, f: impl FnOnce(&mut [u8])) {
        let number = self.held().numbers[at];
        // SAFETY: the page is taken, and nothing is under way on it: whoever begins a transfer ends it before.
        let page = unsafe { self.mover.buffers.page_mut(number) };
        self.mover.cpu.work(Op::CopyPage, || f(page));
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (Some(group), Some(held)) = (self.group.take(), self.held.take()) else {
            return;
        };
        match group.is_quiet() {
            true => self.mover.release(held),
            // After a timeout the drive may still read or write the pages.
            false => self.mover.late.adopt(&self.mover.cpu, group, held),
        }
    }
}
