//! The flusher: one task, on a CPU of its own, that writes dirty pages back.
//!
//! It does so when more pages are dirty than the background threshold allows, when memory is short,
//! or when pages have been dirty for long. It goes over the dirty files in turn, so many pages of
//! each, and goes on in each where it stopped. A flush, and a write that is to be on the drive when
//! it ends, write themselves.

use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::kernel::pages::CpuPages;
use crate::kit::write_back::{Reason, WriteBack, Writing};
use crate::kit::xarray::Tag;

/// Pages of a file that the flusher writes before the next file's turn (`MIN_WRITEBACK_PAGES`: 4
/// MiB).
const CHUNK_PAGES: u64 = 1024;

/// Time between two looks at how long pages have been dirty (`dirty_writeback_centisecs`).
const PERIOD_NS: u64 = 5_000_000_000;

/// Age at which dirty pages are written without need (`dirty_expire_centisecs`).
const EXPIRE_NS: u64 = 30_000_000_000;

/// Rest of a flusher that wants to write and could not begin with a single page.
const REST_NS: u64 = 1_000_000;

/// Where the flusher is: the file whose turn it is, and for each file the page.
struct Rounds {
    turn: u32,
    cursors: Box<[u64]>,
}

/// See the module.
pub(super) struct Flusher {
    pub(super) pages: Rc<CpuPages>,
    pub(super) write_back: Rc<WriteBack<CpuPages>>,
}

impl Flusher {
    /// The flusher, for as long as the CPU runs.
    pub(super) async fn run(self) {
        let (shared, tasks) = (&self.pages.shared, &self.pages.tasks);
        let (mut clean_ns, mut due_ns) = (tasks.cpu.now(), PERIOD_NS);
        let mut rounds = Rounds {
            turn: 0,
            cursors: vec![0; shared.inodes.len()].into(),
        };
        loop {
            tasks.join(&shared.common.flusher);
            let now_ns = tasks.cpu.now();
            if shared.dirty.load(Ordering::Relaxed) == 0 {
                clean_ns = now_ns;
            }
            let is_old = now_ns >= due_ns && now_ns - clean_ns >= EXPIRE_NS;
            let all = shared.common.memory_short.swap(false, Ordering::Relaxed) || is_old;
            if all || shared.is_over_background() {
                self.write_some(&mut rounds, all).await;
                continue;
            }
            if now_ns >= due_ns {
                due_ns = now_ns + PERIOD_NS;
            }
            tasks.wait_at_most(due_ns - now_ns).await;
            let written = shared.written.load(Ordering::Relaxed);
            self.pages.measured.set((tasks.cpu.now(), written));
        }
    }

    /// Writes files in turn, each once, all that is dirty or down to the threshold.
    async fn write_some(&self, rounds: &mut Rounds, all: bool) {
        let (files, first) = (rounds.cursors.len() as u32, rounds.turn);
        let mut pages = 0;
        for file in (0..files).map(|step| (first + step) % files) {
            // There is a list of the files that are dirty: no look-up tells so.
            if self.pages.shared.tree(file).is_untagged(Tag::Dirty) {
                continue;
            }
            if !all && !self.pages.shared.is_over_background() {
                break;
            }
            rounds.turn = (file + 1) % files;
            let most = if files == 1 { u64::MAX } else { CHUNK_PAGES };
            let cursor = &mut rounds.cursors[file as usize];
            pages += self.write_chunk(file, cursor, all, most).await;
        }
        if pages == 0 {
            let tasks = &self.pages.tasks;
            tasks.join(&self.pages.shared.common.progress);
            tasks.wait_at_most(REST_NS).await;
        }
    }

    /// Writes a file from its cursor on and once around, about `most` pages; gives how many.
    async fn write_chunk(&self, file: u32, cursor: &mut u64, all: bool, most: u64) -> u64 {
        let mut writing = Writing::of(file, Reason::Background);
        let more = |writing: &Writing| {
            writing.sent < most && (all || self.pages.shared.is_over_background())
        };
        let start = *cursor;
        for range in [(start, u64::MAX), (0, start)] {
            // Enough: the next round goes on where this one stopped (`writeback_index`).
            if !more(&writing) {
                break;
            }
            // Pages that are stuck are left out: who waits for them hears of it.
            let _ = self.write_back.write_range(&mut writing, range, more).await;
            *cursor = writing.at;
        }
        writing.sent
    }
}
