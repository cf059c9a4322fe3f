//! Write-back through a queue and a CPU for each drive (Falcon: Kumar and Huang, USENIX ATC 2017,
//! section 3).
//!
//! Problem: the flusher makes, sends and ends the block requests of all drives itself, one after
//! another, so that its CPU is the limit of them all.
//!
//! Idea: gather apart from serving.
//!
//! 1. The flusher finds dirty pages and puts them into write-back as ever, cuts each run where a
//!    stripe ends, and puts the pieces on the queues of their drives.
//! 2. A CPU for each drive takes pieces from its queue and makes, sends and ends the block
//!    requests.
//!
//! There is still one flusher, and one lock on the tree of each file. Who waits for just its own
//! pages (a flush, a write-through) sends their requests itself.

use std::collections::VecDeque;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicU32, Ordering};
use wharf_runtime::{Cpu, Lock};

use crate::kit::run::Run;
use crate::kit::tasks::Tasks;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::Mailboxes;

/// Pieces on a queue beyond which the flusher waits before it writes back more.
const WAITING_MAX: u32 = 128;

/// Longest wait for room on a queue, in nanoseconds.
const NAP_NS: u64 = 1_000_000;

/// Pages of a file that lie on one drive.
pub(super) struct Piece {
    pub(super) file: u32,
    pub(super) run: Run,
}

/// What a drive is to write.
pub struct DriveQueue {
    pieces: Lock<VecDeque<Piece>>,
    /// Their number: a hint for who does not take the lock.
    waiting: AtomicU32,
    /// The drive's CPU, when it sleeps.
    pub(super) worker: Waiters,
}

impl DriveQueue {
    /// An empty queue, whose worker is woken through `mailboxes`.
    pub fn new(mailboxes: Arc<Mailboxes>) -> DriveQueue {
        DriveQueue {
            pieces: Lock::new(VecDeque::new()),
            waiting: AtomicU32::new(0),
            worker: Waiters::new(mailboxes),
        }
    }

    /// Number of pieces. Relaxed: compared with a limit, and who sleeps for lack of a piece looks
    /// under the lock.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    fn push(&self, cpu: &Cpu, piece: Piece) {
        self.pieces.with(cpu, |pieces| {
            pieces.push_back(piece);
            self.waiting.store(pieces.len() as u32, Ordering::Relaxed);
        });
    }

    pub(super) fn pop(&self, cpu: &Cpu) -> Option<Piece> {
        self.pieces.with(cpu, |pieces| {
            let piece = pieces.pop_front();
            self.waiting.store(pieces.len() as u32, Ordering::Relaxed);
            piece
        })
    }
}

/// Puts a run, which is in write-back, on the queues of its drives, and leaves it empty; waits
/// while one of them is long. `drive_of` gives the drive of a page of the file, `progress` is told
/// of transfers that end.
pub(super) async fn hand_over(
    queues: &[DriveQueue],
    (tasks, progress): (&Tasks, &Waiters),
    drive_of: impl Fn(u64) -> usize,
    file: u32,
    run: &mut Run,
) {
    let run = std::mem::take(run);
    let mut piece = Run::default();
    let mut last_drive = None;
    for (page, frame) in (run.first..).zip(run.frames) {
        let drive = drive_of(page);
        if let Some(last) = last_drive.filter(|last| *last != drive) {
            let run = std::mem::take(&mut piece);
            give(&queues[last], (tasks, progress), Piece { file, run }).await;
        }
        last_drive = Some(drive);
        piece.push(page, frame);
    }
    if let Some(last) = last_drive {
        give(&queues[last], (tasks, progress), Piece { file, run: piece }).await;
    }
}

async fn give(queue: &DriveQueue, (tasks, progress): (&Tasks, &Waiters), piece: Piece) {
    queue.push(&tasks.cpu, piece);
    tasks.wake(&queue.worker);
    while queue.waiting() >= WAITING_MAX {
        tasks.join(progress);
        if queue.waiting() >= WAITING_MAX {
            tasks.wait_at_most(NAP_NS).await;
        }
    }
}
