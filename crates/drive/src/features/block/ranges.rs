//! Commands on ranges that need no transfer: write zeroes and dataset management.
//!
//! Pages of write zeroes hold zeros from then on and stay allocated, unless the command leaves it to the drive
//! (DEAC): then they are deallocated, as those of dataset management are.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::start::{start_deallocation, start_write_zeroes};
use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Failed, Outcome, Serve, Share, Step, Waiting, outcome};

/// Pages read as zeros from now on.
pub(super) struct WriteZeroes;

impl Handler for WriteZeroes {}

impl IoCommand for WriteZeroes {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start_write_zeroes(self, controller, qid, command)
    }
}

impl Serve for WriteZeroes {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let count = core.job(job).share.get().count;
        core.with_ftl(|ftl| ftl.counters_mut().zeroed += u64::from(count));
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        let share = core.job(job).share.get();
        let command = core.slots.borrow().get(share.slot).command;
        let kept = !command.may_deallocate();
        Box::pin(clear(core, share, kept, command.fua()))
    }
}

/// Ranges of pages are deallocated; other hints are taken and not followed.
pub(super) struct DatasetManagement;

impl Handler for DatasetManagement {}

impl IoCommand for DatasetManagement {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start_deallocation(self, controller, qid, command)
    }
}

impl Serve for DatasetManagement {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let count = core.job(job).share.get().count;
        core.with_ftl(|ftl| ftl.counters_mut().trims += u64::from(count));
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        // It has other fields where others say that they force unit access.
        Box::pin(clear(core, core.job(job).share.get(), false, false))
    }
}

/// Makes pages read as zeros; they stay allocated if they are to be `kept`.
async fn clear(core: &Core, share: Share, kept: bool, is_forced: bool) -> Outcome {
    let cleared = core.clear(share.first, share.count, kept).await;
    cleared.map_err(|status| Failed {
        status,
        lpn: share.first,
    })?;
    if !is_forced && core.volatile_write_cache.get() {
        return Ok(());
    }
    outcome(core.make_deallocations_durable().await, share.first)
}
