//! Read and verify.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Failed, Outcome, Serve, Share, Step, Waiting};
use crate::features::block::{start_read, start_verify};

/// Sectors that are verified before other work gets a turn.
const VERIFY_STEP: u32 = 256;

/// Sectors go to host memory.
pub(super) struct Read;

impl Handler for Read {}

impl IoCommand for Read {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start_read(self, controller, qid, command)
    }
}

impl Serve for Read {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(read(core, core.job(job).share.get()))
    }
}

async fn read(core: &Core, share: Share) -> Outcome {
    if core.is_forced(&share) {
        force(core, &share).await?;
    }
    fetch(core, share.first, share.count).await;
    core.disk()
        .count(|c| c.read_sectors += u64::from(share.count));
    for (index, sector) in (0..share.count).zip(share.first..) {
        let address = core.host_address(&share, index);
        let copy = |page: &mut [u8]| core.copy_sector(sector, page);
        core.copying(1, || core.with_host_page(address, sector, copy))??;
    }
    Ok(())
}

/// With FUA, what is acknowledged becomes durable before it is read.
async fn force(core: &Core, share: &Share) -> Outcome {
    let seq = core.disk().buffer.borrow().seq();
    let (first, count) = (share.first, share.count);
    let settled = core.settle(|disk| disk.buffer.borrow().range_is_settled(first, count, seq));
    settled
        .await
        .map_err(|status| Failed { status, lpn: first })
}

/// Waits until the heads have read what of the sectors is not in the buffer.
async fn fetch(core: &Core, first: u32, count: u32) {
    let disk = core.disk();
    let is_missing = |sector: &u32| disk.buffer.borrow().get(*sector).is_none();
    let Some(from) = (first..first + count).find(is_missing) else {
        return;
    };
    let end = (from..first + count)
        .rfind(is_missing)
        .map_or(from, |last| last + 1);
    let number = disk.ask(core.cpu.now(), from, end - from);
    disk.work.set(&core.cpu, core.cpu.now());
    while disk.is_waiting(number) {
        disk.done.wait(&core.cpu).await;
    }
}

/// Sectors are read and go nowhere.
pub(super) struct Verify;

impl Handler for Verify {}

impl IoCommand for Verify {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start_verify(self, controller, qid, command)
    }
}

impl Serve for Verify {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(verify(core, core.job(job).share.get()))
    }
}

async fn verify(core: &Core, share: Share) -> Outcome {
    if core.is_forced(&share) {
        force(core, &share).await?;
    }
    let (mut page, end) = (vec![0; core.dma().page_bytes()], share.first + share.count);
    for first in (share.first..end).step_by(VERIFY_STEP as usize) {
        let count = VERIFY_STEP.min(end - first);
        fetch(core, first, count).await;
        for sector in first..first + count {
            core.copy_sector(sector, &mut page)?;
        }
    }
    Ok(())
}
