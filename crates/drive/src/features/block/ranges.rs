//! Commands on ranges that need no transfer: write zeroes and dataset management.
//!
//! Pages of write zeroes hold zeros from then on and stay allocated, unless the command leaves it to the drive
//! (DEAC): then they are deallocated, as those of dataset management are.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::dsm::{DsmRange, RANGES_MAX, read_ranges};
use wharf_wire::status::{Status, StatusCode};

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
        command.check_lba_range(controller.namespace_pages())?;
        controller.check_write_protection()?;
        let range = (command.slba(), command.pages());
        controller.start_ranges(self, qid, command, std::iter::once(range));
        Ok(())
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

/// Checks a dataset management command, and has `handler` deallocate its ranges, if it asks for that.
///
/// # Errors
/// What is wrong with the command.
pub(in crate::features) fn start_deallocation(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) -> Result<(), StatusCode> {
    let count = command.range_count();
    let mut buffer = [0u8; PAGE_BYTES];
    let bytes = count as usize * size_of::<DsmRange>();
    if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
        return Err(StatusCode::PrpOffsetInvalid);
    }
    let dma = controller.dma();
    // SAFETY: the page is named by a command in flight and the controller alone reads it.
    unsafe { dma.read_bytes(command.prp1, &mut buffer[..bytes]) }
        .map_err(|_| StatusCode::DataTransferError)?;
    let mut ranges = [DsmRange::new(0, 0); RANGES_MAX];
    let read = read_ranges(&buffer, count).map_err(|_| StatusCode::InvalidField)?;
    for (slot, range) in ranges.iter_mut().zip(read) {
        range.check(controller.namespace_pages())?;
        *slot = range;
    }
    let used = &ranges[..count as usize];
    if command.deallocates() {
        controller.check_write_protection()?;
    }
    if !command.deallocates() || used.iter().all(|r| r.pages == 0) {
        // The other attributes are hints that this drive has no use for.
        controller.finish(qid, &command, Status::SUCCESS, 0, 0);
        return Ok(());
    }
    let used = used.iter().map(|range| (range.slba, range.pages));
    controller.start_ranges(handler, qid, command, used);
    Ok(())
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
