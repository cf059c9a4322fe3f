//! What CPUs do that serve all others, besides the flusher: the background reclaimer (Linux:
//! kswapd), the drives' CPUs of `falcon`, and the flusher's neighbour.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_runtime::sync::Ordering;
use wharf_runtime::wake::Pause;

use crate::kernel::drive_queues::Piece;
use crate::kernel::pages::CpuPages;
use crate::kit::memory::NAP_NS;
use crate::kit::transfers::{Ends, Transfers};
use crate::volume::Transfer;

/// Keeps some frames free, for as long as the CPU runs.
pub(super) async fn reclaim(pages: Rc<CpuPages>) {
    let (shared, tasks, limits) = (&pages.shared, &pages.tasks, pages.shared.limits);
    let free = || shared.common.free.count();
    loop {
        tasks.join(&shared.reclaimer);
        if free() >= limits.free_low {
            tasks.sleep(Pause::default()).await;
            continue;
        }
        while free() < limits.free_high {
            let freed = pages.reclaim_batch();
            let evictions = &shared.background_evictions;
            evictions.fetch_add(freed.into(), Ordering::Relaxed);
            if freed == 0 {
                shared.common.memory_short.store(true, Ordering::Relaxed);
                tasks.wake(&shared.common.flusher);
                tasks.wait_at_most(NAP_NS).await;
            } else {
                tasks.cpu.yield_now().await;
            }
        }
    }
}

/// Writes what is on the queue of a drive, for as long as its CPU runs.
pub(super) async fn serve_drive(
    pages: Rc<CpuPages>,
    transfers: Rc<Transfers<CpuPages>>,
    drive: usize,
) {
    let (tasks, queue) = (&pages.tasks, &pages.shared.drives[drive]);
    loop {
        let piece = queue.pop(&tasks.cpu).or_else(|| {
            tasks.join(&queue.worker);
            queue.pop(&tasks.cpu)
        });
        match piece {
            Some(Piece { file, mut run }) => {
                transfers.submit(Transfer::Write, file, &mut run);
                transfers.wait_for_room().await;
                // One that works for long must not meet others in its past.
                tasks.cpu.pace().await;
            }
            None => tasks.sleep(Pause::default()).await,
        }
    }
}

/// Ends the flusher's requests to drives with odd numbers, for as long as the CPU runs.
pub(super) async fn end_for_flusher(pages: Rc<CpuPages>) {
    let (shared, tasks) = (&pages.shared, &pages.tasks);
    let neighbour = &shared.neighbour;
    neighbour.come();
    loop {
        let one = neighbour.pop().or_else(|| {
            tasks.join(&neighbour.sleeper);
            neighbour.pop()
        });
        let Some(one) = one else {
            Pause::default().await;
            continue;
        };
        tasks.cpu.work_n(Op::Interrupt, one.requests, || ());
        pages.end_write(one.file, &one.run, true);
        tasks.wake(&shared.common.progress);
        // As above.
        tasks.cpu.pace().await;
    }
}
