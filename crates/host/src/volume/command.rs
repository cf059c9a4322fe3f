//! The commands that a volume sends: which transfer, of which pages of a drive.

use wharf_wire::command::Command;

use crate::driver::Driver;
use crate::group::Group;

/// The namespace that a volume uses of each drive.
pub(crate) const NAMESPACE: u32 = 1;

/// Which transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the volume to memory.
    Read,
    /// From memory to the volume.
    Write,
    /// As a write, durable when it completes.
    WriteThrough,
}

/// Writes commands for neighbouring pages of one drive to its queue, none longer than it takes.
#[inline]
pub(super) async fn issue_run(
    driver: &Driver,
    group: &Group,
    kind: Transfer,
    mut lba: u64,
    addresses: &[u64],
) {
    for chunk in addresses.chunks(driver.config().max_transfer_pages as usize) {
        let slot = driver.reserve().await;
        driver.issue(slot, group, command(kind, lba, chunk.len() as u32), chunk);
        lba += chunk.len() as u64;
    }
}

#[inline]
pub(super) fn command(kind: Transfer, lba: u64, pages: u32) -> Command {
    match kind {
        Transfer::Read => Command::read(NAMESPACE, lba, pages),
        Transfer::Write => Command::write(NAMESPACE, lba, pages),
        Transfer::WriteThrough => Command::write(NAMESPACE, lba, pages).with_fua(),
    }
}
