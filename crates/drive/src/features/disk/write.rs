//! Write and write zeroes: both put sectors into the buffer, which the arm empties.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Failed, Outcome, Serve, Share, Step, Waiting};
use crate::features::block::{start_write, start_write_zeroes};

/// Sectors come from host memory.
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
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(write(core, core.job(job).share.get()))
    }
}

async fn write(core: &Core, share: Share) -> Outcome {
    let data_ready_ns = core.slots.borrow().get(share.slot).data_ready_ns;
    core.cpu.sleep_until(data_ready_ns).await;
    core.disk()
        .count(|c| c.written_sectors += u64::from(share.count));
    let mut data = vec![0; core.dma().page_bytes()];
    for (index, sector) in (0..share.count).zip(share.first..) {
        let page = core.transfer_page(core.host_address(&share, index));
        let page = page.map_err(|status| Failed {
            status,
            lpn: sector,
        })?;
        // SAFETY: a command in flight names the page as its source.
        core.copying(1, || unsafe { page.copy_out(&mut data) });
        put(core, sector, &data).await?;
    }
    end(core, &share).await
}

/// Puts a sector into the buffer when there is room.
async fn put(core: &Core, sector: u32, data: &[u8]) -> Outcome {
    let disk = core.disk();
    if !disk.buffer.borrow().takes(sector) {
        let room = core.settle(|disk| disk.buffer.borrow().takes(sector));
        room.await.map_err(|status| Failed {
            status,
            lpn: sector,
        })?;
    }
    let now_ns = core.cpu.now();
    disk.buffer.borrow_mut().put(now_ns, sector, data);
    Ok(())
}

/// The sectors are in the buffer: the command ends when they are where they must be.
async fn end(core: &Core, share: &Share) -> Outcome {
    let disk = core.disk();
    let forced = core.is_forced(share);
    if core.volatile_write_cache.get() && !forced {
        disk.work.set(&core.cpu, core.cpu.now());
        return Ok(());
    }
    let seq = disk.buffer.borrow().seq();
    let (first, count) = (share.first, share.count);
    let failed = |status| Failed { status, lpn: first };
    let settled = core.settle(|disk| disk.buffer.borrow().range_is_settled(first, count, seq));
    settled.await.map_err(failed)?;
    match forced {
        true => core.sync_platters().map_err(failed),
        false => Ok(()),
    }
}

/// Sectors of zeros, which heads write like others.
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
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(write_zeroes(core, core.job(job).share.get()))
    }
}

async fn write_zeroes(core: &Core, share: Share) -> Outcome {
    core.disk()
        .count(|c| c.zeroed_sectors += u64::from(share.count));
    let zeros = vec![0; core.dma().page_bytes()];
    for sector in share.first..share.first + share.count {
        put(core, sector, &zeros).await?;
    }
    end(core, &share).await
}
