//! How the commands of a block device are checked and divided: once, whatever is below the cores that
//! serve them.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::dsm::{DsmRange, RANGES_MAX, read_ranges};
use wharf_wire::status::{Status, StatusCode};

use crate::controller::{Controller, Handler};

/// Pages go to host memory.
///
/// # Errors
/// What is wrong with the command.
pub(in crate::features) fn start_read(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) -> Result<(), StatusCode> {
    command.check_lba_range(controller.namespace_pages())?;
    controller.start_transfer(handler, qid, command, false)
}

/// Pages come from host memory.
///
/// # Errors
/// What is wrong with the command.
pub(in crate::features) fn start_write(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) -> Result<(), StatusCode> {
    command.check_lba_range(controller.namespace_pages())?;
    controller.check_write_protection()?;
    controller.start_transfer(handler, qid, command, true)
}

/// Pages are read and go nowhere.
///
/// # Errors
/// What is wrong with the command.
pub(in crate::features) fn start_verify(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) -> Result<(), StatusCode> {
    command.check_lba_range(controller.namespace_pages())?;
    start_range(handler, controller, qid, command);
    Ok(())
}

/// Pages are to hold zeros.
///
/// # Errors
/// What is wrong with the command.
pub(in crate::features) fn start_write_zeroes(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) -> Result<(), StatusCode> {
    command.check_lba_range(controller.namespace_pages())?;
    controller.check_write_protection()?;
    start_range(handler, controller, qid, command);
    Ok(())
}

/// Gives cores their shares of the one range that a command names.
fn start_range(
    handler: &'static dyn Handler,
    controller: &mut Controller,
    qid: u16,
    command: Command,
) {
    let range = (command.slba(), command.pages());
    controller.start_ranges(handler, qid, command, std::iter::once(range));
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
