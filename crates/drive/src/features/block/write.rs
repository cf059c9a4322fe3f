//! Write.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::controller::{Controller, Handler, IoCommand, MDTS};
use crate::core::{Core, Failed, Outcome, Patience, Serve, Settled, Share, Step, Stuck, Waiting};
use crate::ftl::NONE;

/// Pages come from host memory.
pub(super) struct Write;

impl Handler for Write {}

impl IoCommand for Write {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        command.check_lba_range(controller.namespace_pages())?;
        controller.check_write_protection()?;
        if command.pages() > 1 << MDTS {
            return Err(StatusCode::InvalidField);
        }
        controller.start_transfer(self, qid, command, true)
    }
}

impl Serve for Write {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let own = core.job(job);
        own.done.set(0);
        own.failed.set(false);
        let share = own.share.get();
        let (data_ready_ns, is_forced) = {
            let slots = core.slots.borrow();
            let slot = slots.get(share.slot);
            (slot.data_ready_ns, slot.command.fua())
        };
        if is_forced || !core.volatile_write_cache.get() {
            return Step::Waits;
        }
        match data_ready_ns > 0 && data_ready_ns > core.cpu.now() {
            true => Step::At(data_ready_ns),
            false => self.resume(core, job),
        }
    }

    /// With a volatile write cache a write has ended when every page is staged.
    fn resume(&self, core: &Core, job: u32) -> Step {
        let own = core.job(job);
        let share = own.share.get();
        core.found_by_table(share.count);
        match stage_some(core, job, &share, NONE) {
            Ok(None) => Step::Ended(Ok(())),
            Ok(stuck) => {
                own.stuck.set(stuck);
                Step::Waits
            }
            Err(status) => Step::Ended(Err(failed(&share, status))),
        }
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(write(core, job))
    }
}

fn failed(share: &Share, status: StatusCode) -> Failed {
    Failed {
        status,
        lpn: share.first,
    }
}

/// Stages every page that is not staged yet; has ended at once with a volatile write cache, else when all are
/// on flash.
async fn write(core: &Core, job: u32) -> Outcome {
    let own = core.job(job);
    let share = own.share.get();
    let (data_ready_ns, is_forced) = {
        let slots = core.slots.borrow();
        let slot = slots.get(share.slot);
        (slot.data_ready_ns, slot.command.fua())
    };
    let waits = is_forced || !core.volatile_write_cache.get();
    // One more than the pages, so that the count cannot reach 0 before all are staged.
    own.outstanding.set(1);
    if own.done.get() == 0 && waits {
        core.cpu.sleep_until(data_ready_ns).await;
        core.found_by_table(share.count);
    }
    let owner = if waits { job } else { NONE };
    let staged = stage_all(core, job, &share, owner).await;
    own.outstanding.set(own.outstanding.get() - 1);
    if waits {
        Settled(own).await;
    }
    let status = match staged {
        Err(status) => status,
        Ok(()) if own.failed.get() => StatusCode::WriteFault,
        Ok(()) if is_forced => core.sync_media(),
        Ok(()) => StatusCode::Success,
    };
    match status {
        StatusCode::Success => Ok(()),
        status => Err(failed(&share, status)),
    }
}

async fn stage_all(core: &Core, job: u32, share: &Share, owner: u32) -> Result<(), StatusCode> {
    let mut patience = Patience::default();
    if let Some(stuck) = core.job(job).stuck.take() {
        core.wait_out(stuck, &mut patience).await?;
    }
    while let Some(stuck) = stage_some(core, job, share, owner)? {
        core.wait_out(stuck, &mut patience).await?;
    }
    Ok(())
}

/// Stages pages until one is refused: the job notes how many are staged. `owner` is told when they are on
/// flash.
fn stage_some(
    core: &Core,
    job: u32,
    share: &Share,
    owner: u32,
) -> Result<Option<Stuck>, StatusCode> {
    let own = core.job(job);
    while own.done.get() < share.count {
        let index = own.done.get();
        let lpn = share.first + index;
        let page = core.dma().page(core.host_address(share, index));
        let page = page.map_err(|_| StatusCode::DataTransferError)?;
        let Ok(frame) = core.lock_frame(lpn) else {
            return Ok(Some(Stuck::Busy));
        };
        let now_ns = core.flash_now();
        let staged = core.cpu.work(Op::PageAllocate, || {
            core.with_ftl(|ftl| {
                ftl.stage(now_ns, lpn, owner, |frame| {
                    // SAFETY: a command in flight names the page as its source.
                    core.copying(1, || unsafe { page.copy_out(frame) });
                })
            })
        });
        if let Some(frame) = frame {
            if staged.is_ok() {
                // SAFETY: as above; the frame is locked.
                core.overwrite_frame(frame, |to| unsafe { to.copy_from(page) });
            }
            core.unlock_frame(frame);
        }
        match staged {
            Ok(end_ns) => {
                own.done.set(index + 1);
                if owner != NONE {
                    own.outstanding.set(own.outstanding.get() + 1);
                }
                core.after_staging(end_ns);
            }
            Err(refusal) => return Ok(Some(Stuck::Refused(refusal))),
        }
    }
    Ok(None)
}
