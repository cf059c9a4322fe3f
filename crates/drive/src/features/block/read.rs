//! Read and verify.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::start::{start_read, start_verify};
use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{
    Core, Failed, Outcome, Serve, Share, Step, Waiting, outcome, read_page, unreadable,
};
use crate::ftl::{Ftl, NONE, Place};

/// Among the physical pages of a share: the page is in a frame of the host memory buffer.
const IN_FRAME: u32 = NONE - 1;

/// How often to look for pages that are on their way from slow media, in nanoseconds.
const NEAR_LOOK_NS: u64 = 20_000;

/// How long: then they are waited for, with all else.
const NEAR_LOOKS_NS: u64 = 50_000_000;

/// Pages that are verified before other work gets a turn.
const VERIFY_STEP: u32 = 64;

/// Pages go to host memory.
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
    fn serve(&self, core: &Core, job: u32) -> Step {
        let share = core.job(job).share.get();
        if core.is_forced(&share) {
            return Step::Waits;
        }
        match begin(core, job, &share) {
            Err(failed) => end(core, job, Err(failed)),
            Ok(end_ns) if end_ns > core.cpu.now() => Step::At(end_ns),
            Ok(_) => self.resume(core, job),
        }
    }

    fn resume(&self, core: &Core, job: u32) -> Step {
        let share = core.job(job).share.get();
        let mut pages = core.job(job).pages.borrow_mut();
        let delivered = deliver(core, &share, &mut pages, may_wait(core, job));
        let in_frames = delivered.is_ok() && pages.contains(&IN_FRAME);
        drop(pages);
        match delivered {
            Ok(false) => look_again(core, job),
            Ok(true) if in_frames => Step::Waits,
            Ok(true) => end(core, job, Ok(())),
            Err(failed) => end(core, job, Err(failed)),
        }
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(read(core, job))
    }
}

/// A read has ended: the job's pages are free for the next.
#[inline]
fn end(core: &Core, job: u32, outcome: Outcome) -> Step {
    core.job(job).pages.borrow_mut().clear();
    core.job(job).looks_since_ns.set(0);
    Step::Ended(outcome)
}

/// What of a read waits: all of it if it forces unit access, else the pages in frames.
async fn read(core: &Core, job: u32) -> Outcome {
    let share = core.job(job).share.get();
    let mut result = Ok(());
    if core.is_forced(&share) {
        force(core, &share).await?;
        match begin(core, job, &share) {
            Ok(end_ns) => {
                core.cpu.sleep_until(end_ns).await;
                let mut pages = core.job(job).pages.borrow_mut();
                result = deliver(core, &share, &mut pages, true).map(drop);
            }
            Err(failed) => result = Err(failed),
        }
    }
    let mut pages = core.job(job).pages.take();
    if result.is_ok() {
        result = deliver_cached(core, &share, &pages).await;
    }
    pages.clear();
    core.job(job).pages.replace(pages);
    core.job(job).looks_since_ns.set(0);
    result
}

/// With FUA, what is acknowledged becomes durable before it is read.
async fn force(core: &Core, share: &Share) -> Outcome {
    let pages = share.first..share.first + share.count;
    core.write_back(pages).await.map_err(|status| Failed {
        status,
        lpn: share.first,
    })?;
    outcome(core.make_durable().await, share.first)
}

/// Starts the reads of a share's pages, and notes which they are; copies what is not on flash. Gives when the
/// last one ends.
#[inline]
fn begin(core: &Core, job: u32, share: &Share) -> Result<u64, Failed> {
    let now_ns = core.flash_now();
    let mut pages = core.job(job).pages.borrow_mut();
    let end_ns = core.cpu.work_n(Op::MapLookup, share.count, || {
        core.with_ftl(|ftl| start_reads(core, ftl, now_ns, share, &mut pages))
    });
    core.found_by_table(share.count);
    end_ns.map(|end_ns| core.expanded_ns(end_ns, share.count))
}

#[inline]
fn start_reads(
    core: &Core,
    ftl: &mut Ftl,
    now_ns: u64,
    share: &Share,
    pages: &mut Vec<u32>,
) -> Result<u64, Failed> {
    let (mut end_ns, caches) = (now_ns, core.may_cache());
    for (index, lpn) in (0..share.count).zip(share.first..) {
        match ftl.place(lpn) {
            _ if caches && core.is_in_frame(ftl, lpn) => pages.push(IN_FRAME),
            Place::Flash(ppn) => {
                end_ns = end_ns.max(ftl.start_read(now_ns, ppn));
                pages.push(ppn);
            }
            place => {
                let copy = |page: &mut [u8]| ftl.copy_from_memory(place, page);
                let address = core.host_address(share, index);
                core.copying(1, || core.with_host_page(address, lpn, copy))?;
                pages.push(NONE);
            }
        }
    }
    ftl.counters_mut().host_reads += u64::from(share.count);
    Ok(end_ns)
}

/// Whether a job may wait for slow media: in virtual time they take none, and who has looked for long waits in the end.
#[inline]
fn may_wait(core: &Core, job: u32) -> bool {
    let since_ns = core.job(job).looks_since_ns.get();
    core.cpu.is_virtual() || since_ns > 0 && core.cpu.now() - since_ns > NEAR_LOOKS_NS
}

/// Looks again a little later.
#[cold]
fn look_again(core: &Core, job: u32) -> Step {
    let (now_ns, since) = (core.cpu.now(), &core.job(job).looks_since_ns);
    if since.get() == 0 {
        since.set(now_ns.max(1));
    }
    Step::At(now_ns + NEAR_LOOK_NS)
}

/// Copies the pages that were read to the host, and notes which were; false if some are on their way from slow media,
/// which are then not waited for.
#[inline]
fn deliver(core: &Core, share: &Share, pages: &mut [u32], waits: bool) -> Result<bool, Failed> {
    let delivered = core.with_ftl(|ftl| {
        let mut all = true;
        for ((index, lpn), ppn) in (0..).zip(share.first..).zip(pages) {
            if *ppn < IN_FRAME {
                let read = |page: &mut [u8]| match waits {
                    true => ftl.finish_read(lpn, *ppn, page).map(|()| true),
                    false => ftl.finish_read_if_near(lpn, *ppn, page),
                };
                let address = core.host_address(share, index);
                let done = core.copying(1, || core.with_host_page(address, lpn, read))?;
                match done.map_err(|error| unreadable(ftl, lpn, &error))? {
                    true => *ppn = NONE,
                    false => all = false,
                }
            }
        }
        Ok(all)
    });
    core.account_squeezed();
    delivered
}

/// Copies the pages that were in frames to the host.
async fn deliver_cached(core: &Core, share: &Share, pages: &[u32]) -> Outcome {
    let in_frames = (0..).zip(pages).filter(|(_, ppn)| **ppn == IN_FRAME);
    for (index, _) in in_frames {
        deliver_from_frame(core, share, index).await?;
    }
    Ok(())
}

/// Copies page number `index` of a share to the host; if it has lost its frame since, it is read.
async fn deliver_from_frame(core: &Core, share: &Share, index: u32) -> Outcome {
    let (lpn, address) = (share.first + index, core.host_address(share, index));
    let copy = || {
        let cached = |page: &mut [u8]| core.copy_cached(lpn, page);
        core.copying(1, || core.with_host_page(address, lpn, cached))
    };
    if core.copy_from_frame(lpn, copy).await? {
        return Ok(());
    }
    let now_ns = core.flash_now();
    let read = |page: &mut [u8]| core.with_ftl(|ftl| read_page(ftl, now_ns, lpn, page));
    let end_ns = core.with_host_page(address, lpn, read)??;
    core.cpu.sleep_until(end_ns).await;
    Ok(())
}

/// Pages are read and go nowhere.
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
    let mut page = vec![0u8; core.dma().page_bytes()];
    // In steps, so that a verify of the whole drive does not hold up the core.
    for first in (share.first..share.first + share.count).step_by(VERIFY_STEP as usize) {
        let now_ns = core.flash_now();
        let last = (first + VERIFY_STEP).min(share.first + share.count);
        let end_ns = core.cpu.work_n(Op::MapLookup, last - first, || {
            core.with_ftl(|ftl| {
                (first..last).try_fold(now_ns, |end_ns, lpn| {
                    read_page(ftl, now_ns, lpn, &mut page).map(|at| end_ns.max(at))
                })
            })
        })?;
        core.cpu.sleep_until(end_ns).await;
        core.cpu.yield_now().await;
    }
    Ok(())
}
