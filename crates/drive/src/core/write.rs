//! Writing and deallocating the pages of a part.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use wharf_runtime::Op;
use wharf_wire::prp::PrpError;
use wharf_wire::status::StatusCode;

use super::Core;
use super::cache::{Patience, Stuck};
use super::part::{Part, PartOp};
use super::worker::Worker;
use crate::ftl::{Finished, NONE, Refusal};

/// Pages that are deallocated before other work gets a turn.
const DEALLOCATE_STEP: u32 = 1024;

impl Core {
    /// Stages every page; answers at once with a volatile write cache, else when all are on flash.
    pub(super) async fn write(&self, worker: u32, part: &Part) {
        let waits = part.fua || !self.volatile_write_cache.get();
        let slot = &self.workers[worker as usize];
        slot.failed.set(false);
        // One more than the pages, so that the count cannot reach 0 before all are staged.
        slot.outstanding.set(1);
        self.cpu.sleep_until(part.data_ready_ns).await;
        self.found_by_table(part.count);
        let staged = self.stage_all(worker, part, waits).await;
        slot.outstanding.set(slot.outstanding.get() - 1);
        if waits {
            Settled { worker: slot }.await;
        }
        let status = match staged {
            Err(status) => status,
            Ok(()) if slot.failed.get() => StatusCode::WriteFault,
            Ok(()) if part.fua => self.sync_media(),
            Ok(()) => StatusCode::Success,
        };
        self.answer(part, status);
    }

    async fn stage_all(&self, worker: u32, part: &Part, waits: bool) -> Result<(), StatusCode> {
        let mut lpn = part.first;
        let mut patience = Patience::default();
        // The walk ends with the wait: it is begun anew from the page that had to wait.
        let end = part.first + part.count;
        while lpn < end {
            let rest = Part {
                first: lpn,
                count: end - lpn,
                transfer_first: part.transfer_first + (lpn - part.first),
                ..*part
            };
            if let Some(stuck) = self.stage_some(worker, &rest, waits, &mut lpn)? {
                self.wait_out(stuck, &mut patience).await?;
            }
        }
        Ok(())
    }

    /// Waits until there may be room for a page that was refused.
    pub(super) async fn wait_for_room(&self, refusal: Refusal) -> Result<(), StatusCode> {
        match refusal {
            Refusal::NoFrame => self.programmed.wait(&self.cpu).await,
            Refusal::NoSpace => {
                self.collect.notify_all(&self.cpu);
                self.space.wait(&self.cpu).await;
            }
            Refusal::CapacityExceeded => return Err(StatusCode::CapacityExceeded),
            Refusal::ReadOnly => return Err(StatusCode::NamespaceWriteProtected),
        }
        Ok(())
    }

    /// Stages pages until one is refused; `lpn` is left at that one.
    fn stage_some(
        &self,
        worker: u32,
        part: &Part,
        waits: bool,
        lpn: &mut u32,
    ) -> Result<Option<Stuck>, StatusCode> {
        let slot = &self.workers[worker as usize];
        let owner = if waits { worker } else { NONE };
        for address in self.addresses(part) {
            let address = address.map_err(PrpError::status)?;
            let page = self.dma.page(address);
            let page = page.map_err(|_| StatusCode::DataTransferError)?;
            let Ok(frame) = self.lock_frame(*lpn) else {
                return Ok(Some(Stuck::Busy));
            };
            let now_ns = self.flash_now();
            let staged = self.cpu.work(Op::PageAllocate, || {
                self.with_ftl(|ftl| {
                    ftl.stage(now_ns, *lpn, owner, |frame| {
                        // SAFETY: a command in flight names the page as its source.
                        self.copying(1, || unsafe { page.copy_out(frame) });
                    })
                })
            });
            if let Some(frame) = frame {
                if staged.is_ok() {
                    // SAFETY: as above; the frame is locked.
                    self.overwrite_frame(frame, |to| unsafe { to.copy_from(page) });
                }
                self.unlock_frame(frame);
            }
            match staged {
                Ok(end_ns) => {
                    slot.outstanding
                        .set(slot.outstanding.get() + u32::from(waits));
                    self.after_staging(end_ns);
                }
                Err(refusal) => return Ok(Some(Stuck::Refused(refusal))),
            }
            *lpn += 1;
        }
        Ok(None)
    }

    /// Makes pages read as zeros.
    pub(super) async fn deallocate(&self, part: &Part) -> StatusCode {
        self.with_ftl(|ftl| match part.op {
            PartOp::WriteZeroes => ftl.counters_mut().zeroed += u64::from(part.count),
            _ => ftl.counters_mut().trims += u64::from(part.count),
        });
        if let Err(status) = self.deallocate_range(part.first, part.count).await {
            return status;
        }
        if part.fua || !self.volatile_write_cache.get() {
            self.make_deallocations_durable().await
        } else {
            StatusCode::Success
        }
    }

    /// Deallocates in steps, so that a large range does not hold up the core.
    pub(super) async fn deallocate_range(&self, first: u32, count: u32) -> Result<(), StatusCode> {
        let (mut finished, mut locked) = (Finished::default(), Vec::new());
        let mut outcome = Ok(());
        for from in (first..first + count).step_by(DEALLOCATE_STEP as usize) {
            let pages = DEALLOCATE_STEP.min(first + count - from);
            outcome = self.lock_frames(from..from + pages, &mut locked).await;
            if outcome.is_err() {
                break;
            }
            self.cpu.work_n(Op::Deallocate, pages, || {
                self.with_ftl(|ftl| ftl.deallocate(from, pages, &mut finished));
            });
            self.found_by_table(pages);
            for frame in locked.drain(..) {
                // SAFETY: the frame is locked.
                self.overwrite_frame(frame, |page| unsafe { page.clear() });
                self.unlock_frame(frame);
            }
            if self.with_ftl(|ftl| ftl.log_is_pressing()) {
                // A failure leaves them for the next flush, which will tell the host.
                let _ = self.write_log().await;
            }
            self.cpu.yield_now().await;
        }
        if finished.blocks_changed {
            self.space.notify_all(&self.cpu);
        }
        self.wake_collector();
        outcome
    }
}

/// Waits until every page of a worker's part is on flash.
pub(super) struct Settled<'a> {
    pub(super) worker: &'a Worker,
}

impl Future for Settled<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.worker.outstanding.get() == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
