//! The fetch of a pin's missing pages: frames, reads, and the wait for both.
//!
//! 1. Each page takes a free frame, or CLOCK's victim's (`core/cache.rs`), and its read starts.
//! 2. After the end of the last read the pages are copied into their frames.
//! 3. Pages that other shares bring in are waited for, and the write-backs of dirty victims.

use wharf_runtime::Op;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

use super::request::Request;
use super::state::{Stage, Tally, Wanted};
use super::wanted::stage_of;
use crate::core::hmb::Hmb;
use crate::core::{Core, Failed, Patience, Settled, unreadable};
use crate::ftl::{Entry, Fill, Ftl, Place};

/// How a missing page got its frame.
struct Taken {
    stage: Stage,
    /// When its read ends, in nanoseconds; 0 if there is none.
    read_end_ns: u64,
    /// This share brings it in: no other has done so since the page was admitted.
    is_own: bool,
}

/// Brings every admitted page into a frame, and waits for what that took.
pub(super) async fn fetch(
    core: &Core,
    job: u32,
    request: &Request,
    wanted: &mut [Wanted],
    tally: &mut Tally,
) {
    let own = core.job(job);
    own.failed.set(false);
    // One more than the write-backs, so that the count cannot reach 0 before all are staged.
    own.outstanding.set(1);
    let (mut end_ns, mut patience) = (0, Patience::default());
    for page in wanted
        .iter_mut()
        .filter(|page| page.stage == Stage::Missing)
    {
        let read_end_ns = start_fetch(core, job, request.access, page, tally, &mut patience);
        end_ns = end_ns.max(read_end_ns.await);
    }
    let end_ns = end_ns.max(tally.carried_ns);
    if end_ns > 0 {
        core.cpu.sleep_until(end_ns).await;
    }
    end_fetch(core, wanted, tally);
    await_others(core, wanted, tally).await;
    if own.outstanding.get() > 1 {
        core.hasten();
    }
    own.outstanding.set(own.outstanding.get() - 1);
    // With a volatile write cache the programs have no owner: there is none to wait for.
    Settled(own).await;
    if own.failed.get() {
        tally.fail(StatusCode::WriteFault, wanted[0].lpn);
    }
}

/// Takes a frame for a missing page and starts its read. Gives when that ends; 0 if there is none.
async fn start_fetch(
    core: &Core,
    job: u32,
    access: Access,
    page: &mut Wanted,
    tally: &mut Tally,
    patience: &mut Patience,
) -> u64 {
    core.look_below(page.lpn);
    loop {
        let now_ns = core.flash_now();
        let taken = core.cpu.work_counted(Op::FrameUpdate, || {
            let hmb = core.hmb();
            let take = |ftl: &mut Ftl| take_frame(core, ftl, &hmb, now_ns, access, page.lpn);
            let taken = core.with_ftl(take);
            (u32::from(taken.is_some()), taken)
        });
        if let Some(taken) = taken {
            if taken.is_own {
                core.table_changed();
            }
            page.stage = taken.stage;
            tally.fetched += u32::from(taken.is_own && access != Access::Overwrite);
            return taken.read_end_ns;
        }
        if let Err(status) = core.make_room(job, patience, &mut tally.carried_ns).await {
            core.with_ftl(|ftl| ftl.cached_mut().unreserve(1));
            page.stage = Stage::Failed;
            tally.fail(status, page.lpn);
            return 0;
        }
    }
}

/// Gives the page its frame, if a frame is free or somebody else has given it one.
fn take_frame(
    core: &Core,
    ftl: &mut Ftl,
    hmb: &Hmb,
    now_ns: u64,
    access: Access,
    lpn: u32,
) -> Option<Taken> {
    let place = match ftl.entry(lpn) {
        Entry::Cached(frame) => {
            // Another pin has brought it since this one reserved a frame.
            ftl.counters_mut().pin_hits += 1;
            ftl.cached_mut().unreserve(1);
            ftl.cached_mut().hold(frame);
            return Some(Taken {
                stage: stage_of(ftl, frame),
                read_end_ns: 0,
                is_own: false,
            });
        }
        Entry::Uncached(place) => place,
    };
    let fill = match (access, place) {
        (Access::Overwrite, _) => Fill::Blank,
        (_, Place::Flash(_)) => Fill::Coming,
        _ => Fill::Done,
    };
    let frame = ftl.give_frame(lpn, fill)?;
    ftl.counters_mut().pin_fills += u64::from(fill != Fill::Blank);
    ftl.cached_mut().unreserve(1);
    let at = hmb.at(frame);
    at.free_word();
    at.clear_dirty();
    let fill_from = |place: Place| {
        let page = at.page(core.dma());
        // SAFETY: nobody has the address of a frame that was just taken.
        unsafe { core.fill_page(page, |bytes| ftl.copy_from_memory(place, bytes)) }
    };
    let fill_from = |place: Place| core.copying(1, || fill_from(place));
    let (stage, read_end_ns) = match (fill, place) {
        (Fill::Blank, _) => {
            fill_from(Place::Unmapped);
            (Stage::Pinned(frame), 0)
        }
        (_, Place::Flash(ppn)) => (Stage::Coming(frame), ftl.start_read(now_ns, ppn)),
        (_, place) => {
            fill_from(place);
            (Stage::Pinned(frame), 0)
        }
    };
    Some(Taken {
        stage,
        read_end_ns,
        is_own: true,
    })
}

/// Copies the pages whose reads have ended into their frames.
fn end_fetch(core: &Core, wanted: &mut [Wanted], tally: &mut Tally) {
    let hmb = core.hmb();
    let mut any = false;
    for page in wanted {
        let Stage::Coming(frame) = page.stage else {
            continue;
        };
        any = true;
        let read = core.with_ftl(|ftl| {
            let to = hmb.at(frame).page(core.dma());
            // SAFETY: the address of a frame that is being filled is told to nobody.
            let read = core.copying(1, || unsafe {
                core.fill_page(to, |bytes| read_now(ftl, page.lpn, bytes))
            });
            ftl.end_fill(frame, read.is_err());
            read
        });
        page.stage = Stage::Pinned(frame);
        if let Err(failed) = read {
            drop_failed(core, page, frame);
            tally.fail(failed.status, failed.lpn);
        }
    }
    if any {
        core.filled.notify_all(&core.cpu);
    }
}

/// Gives up the reference to a frame whose page could not be read.
fn drop_failed(core: &Core, page: &mut Wanted, frame: u32) {
    page.stage = Stage::Failed;
    core.with_ftl(|ftl| {
        if ftl.cached_mut().release(frame) == 0 {
            ftl.take_frame_back(frame);
        }
    });
}

/// Waits for the pages that other shares bring in.
async fn await_others(core: &Core, wanted: &mut [Wanted], tally: &mut Tally) {
    for page in wanted {
        let Stage::Awaited(frame) = page.stage else {
            continue;
        };
        while core.with_ftl(|ftl| ftl.cached().is_filling(frame)) {
            core.filled.wait(&core.cpu).await;
        }
        page.stage = Stage::Pinned(frame);
        if core.with_ftl(|ftl| ftl.cached().has_failed(frame)) {
            drop_failed(core, page, frame);
            tally.fail(StatusCode::UnrecoveredReadError, page.lpn);
        }
    }
}

/// Copies a page as it is now, below its frame. Collection may have moved it since its read was
/// started, or a write replaced it.
pub(super) fn read_now(ftl: &mut Ftl, lpn: u32, bytes: &mut [u8]) -> Result<(), Failed> {
    match ftl.place(lpn) {
        Place::Flash(ppn) => ftl
            .finish_read(lpn, ppn, bytes)
            .map_err(|error| unreadable(ftl, lpn, &error)),
        place => {
            ftl.copy_from_memory(place, bytes);
            Ok(())
        }
    }
}
