//! Write.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::start::start_write;
use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{
    self, Core, Job, Outcome, Patience, Serve, Settled, Share, Step, Stuck, Waiting,
};
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
        start_write(self, controller, qid, command)
    }
}

impl Serve for Write {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let own = core.job(job);
        if waits_for_sync(core, &own.share.get()) {
            begin(own);
            return Step::Waits;
        }
        begin(own);
        let share = own.share.get();
        let data_ready_ns = core.slots.borrow().get(share.slot).data_ready_ns;
        let data_ready_ns = core.compressed_ns(data_ready_ns, share.count);
        match data_ready_ns > 0 && data_ready_ns > core.cpu.now() {
            true => Step::At(data_ready_ns),
            false => self.resume(core, job),
        }
    }

    /// The data are here.
    fn resume(&self, core: &Core, job: u32) -> Step {
        let own = core.job(job);
        let share = own.share.get();
        core.found_by_table(share.count);
        match stage_some(core, job, &share, owner(core, job, &share)) {
            Ok(Some(stuck)) => {
                own.stuck.set(Some(stuck));
                Step::Waits
            }
            // The log is to be written.
            Ok(None) if own.zeroed.get() && is_durable(core, &share) => Step::Waits,
            staged => staged_all(core, job, staged.map(|_| ())),
        }
    }

    fn settled(&self, core: &Core, job: u32) -> Step {
        Step::Ended(outcome(core, job))
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(write(core, job))
    }
}

/// Nothing of a write is staged yet.
fn begin(own: &Job) {
    own.done.set(0);
    own.failed.set(false);
    own.zeroed.set(false);
    // One more than the pages, so that the count cannot reach 0 before all are staged.
    own.outstanding.set(1);
}

/// Whether a write waits for the media in real time, where others are to go on meanwhile.
#[inline]
fn waits_for_sync(core: &Core, share: &Share) -> bool {
    !core.cpu.is_virtual() && core.is_forced(share)
}

/// Who is told when a page of the share is on flash: nobody, with a volatile write cache, or one that a
/// loss of power does not touch.
#[inline]
fn owner(core: &Core, job: u32, share: &Share) -> u32 {
    match core.ends_when_staged(core.is_forced(share)) {
        true => NONE,
        false => job,
    }
}

/// Whether a write is durable when it is acknowledged.
#[inline]
fn is_durable(core: &Core, share: &Share) -> bool {
    !core.volatile_write_cache.get() || core.is_forced(share)
}

/// No more pages are staged. The write has ended if nobody waits for their programs, or none is under way.
fn staged_all(core: &Core, job: u32, staged: Result<(), StatusCode>) -> Step {
    let own = core.job(job);
    if own.outstanding.get() > 1 {
        core.hasten();
    }
    own.outstanding.set(own.outstanding.get() - 1);
    own.refused.set(staged.err());
    match own.outstanding.get() {
        0 => Step::Ended(outcome(core, job)),
        _ => Step::Settles,
    }
}

/// What a write has come to whose pages are on flash, as far as it waits for that.
fn outcome(core: &Core, job: u32) -> Outcome {
    let own = core.job(job);
    let share = own.share.get();
    let status = match own.refused.take() {
        Some(status) => status,
        None if own.failed.get() => StatusCode::WriteFault,
        None if core.is_forced(&share) && core.cpu.is_virtual() => core.sync_media_now(),
        None => StatusCode::Success,
    };
    core::outcome(status, share.first)
}

/// Goes on where a page could not be staged.
async fn write(core: &Core, job: u32) -> Outcome {
    let own = core.job(job);
    let share = own.share.get();
    let staged = stage_all(core, job, &share, owner(core, job, &share)).await;
    own.refused.set(staged.err());
    core.hasten();
    own.outstanding.set(own.outstanding.get() - 1);
    Settled(own).await;
    if own.zeroed.take() && is_durable(core, &share) {
        core::outcome(core.make_deallocations_durable().await, share.first)?;
    }
    let written = outcome(core, job);
    if written.is_ok() && waits_for_sync(core, &share) {
        return core::outcome(core.sync_media().await, share.first);
    }
    written
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
        let page = core.transfer_page(core.host_address(share, index))?;
        let Ok(frame) = core.lock_frame(lpn) else {
            return Ok(Some(Stuck::Busy));
        };
        let now_ns = core.flash_now();
        let staged = core.cpu.work(Op::PageAllocate, || {
            let fill = |frame: &mut [u8]| {
                // SAFETY: a command in flight names the page as its source.
                core.copying(1, || unsafe { page.copy_out(frame) });
            };
            match core.elides_zeros {
                false => core.with_ftl(|ftl| ftl.stage(now_ns, lpn, owner, fill).map(Some)),
                true => core.stage_unless_zeros(now_ns, lpn, owner, fill),
            }
        });
        if let Some(frame) = frame {
            if staged.is_ok() {
                // SAFETY: as above; the frame is locked.
                core.overwrite_frame(frame, |to| unsafe { to.copy_from(page) });
            }
            core.unlock_frame(frame);
        }
        match staged {
            Ok(None) => {
                own.done.set(index + 1);
                own.zeroed.set(true);
            }
            Ok(Some(end_ns)) => {
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
