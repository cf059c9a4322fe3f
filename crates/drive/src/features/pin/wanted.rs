//! The pages that a pin wants of a core.

use wharf_wire::pin::{Access, LIST_ENTRIES, NOT_PINNED, address_offset, told_address};
use wharf_wire::status::StatusCode;

use super::request::Request;
use super::state::{Stage, Tally, Wanted};
use crate::core::hmb::Hmb;
use crate::core::{Core, Outcome};
use crate::ftl::{Entry, Ftl};
use crate::link::PAGE_BYTES;

/// Notes how many frames are held, for the controller.
pub(super) fn note_held(core: &Core) {
    let held = core.with_ftl(|ftl| ftl.cached().taken_or_reserved());
    core.frames_held.set(held);
}

/// Lists the pages of this core's that the request wants. The host may have changed the list
/// since the controller checked it: what makes no sense any more is left out.
pub(super) fn list_wanted(core: &Core, request: &Request, wanted: &mut Vec<Wanted>) {
    wanted.clear();
    let mut rank = 0;
    let mut add = |page: u64| {
        let (owner, lpn) = core.striping.locate(page);
        if owner == core.index && usize::from(rank) < LIST_ENTRIES {
            wanted.push(Wanted {
                lpn,
                rank,
                stage: Stage::Missing,
            });
        }
        rank += 1;
    };
    let Some(list) = request.list else {
        return add(request.window);
    };
    for first in (0..request.pages).step_by(64) {
        let word = core
            .dma()
            .read_u64(list + u64::from(first / 8))
            .unwrap_or(0);
        let mut bits = word & u64::MAX >> (64 - (request.pages - first).min(64));
        while bits != 0 {
            add(request.window + u64::from(first + bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }
}

/// Tells the host where pages are: in its list, or as the result of a pin without one.
pub(super) fn deliver(
    core: &Core,
    slot: u16,
    request: &Request,
    wanted: &[Wanted],
    mut tally: Tally,
) -> Outcome {
    let hmb = core.hmb();
    for page in wanted {
        let address = match page.stage {
            Stage::Pinned(frame) => {
                let is_blank = is_blank(core, &hmb, request, frame);
                told_address(hmb.at(frame).address(), is_blank)
            }
            _ => NOT_PINNED,
        };
        match (request.list, page.frame()) {
            (None, Some(_)) => core.slots.borrow_mut().get_mut(slot).result = address,
            (None, None) => {}
            (Some(list), _) => {
                let entry = list + address_offset(u32::from(page.rank));
                // SAFETY: the list page is named by a command in flight, and the entries of this
                // core's pages are its own.
                if unsafe { core.dma().write_u64(entry, address) }.is_err() {
                    tally.fail(StatusCode::DataTransferError, page.lpn);
                }
            }
        }
    }
    core.slots.borrow_mut().get_mut(slot).to_host_bytes += tally.fetched * PAGE_BYTES as u32;
    tally.failed.map_or(Ok(()), Err)
}

/// Whether who asked has to wait until somebody else has overwritten a frame.
fn is_blank(core: &Core, hmb: &Hmb, request: &Request, frame: u32) -> bool {
    request.access != Access::Overwrite
        && core.with_ftl(|ftl| ftl.cached().is_blank(frame))
        && !hmb.at(frame).is_dirty()
}

/// How many of the wanted pages need a frame that is not held.
pub(super) fn frames_needed(ftl: &Ftl, wanted: &[Wanted]) -> Result<u32, StatusCode> {
    let cached = ftl.cached();
    if wanted.len() > cached.count() as usize {
        // They could never be held together.
        return Err(StatusCode::NoFreeFrame);
    }
    let mut needed = 0;
    for page in wanted {
        match ftl.entry(page.lpn) {
            Entry::Cached(frame) if cached.is_full(frame) => return Err(StatusCode::NoFreeFrame),
            Entry::Cached(frame) => needed += u32::from(cached.references(frame) == 0),
            Entry::Uncached(_) => needed += 1,
        }
    }
    Ok(needed)
}

/// Gives cached pages their reference and reserves a frame for each other one.
pub(super) fn hold_or_reserve(ftl: &mut Ftl, wanted: &mut [Wanted]) {
    let mut hits = 0;
    for page in wanted.iter_mut() {
        match ftl.entry(page.lpn) {
            Entry::Cached(frame) => {
                ftl.cached_mut().hold(frame);
                page.stage = stage_of(ftl, frame);
                hits += 1;
            }
            Entry::Uncached(_) => ftl.cached_mut().reserve(1),
        }
    }
    ftl.counters_mut().pinned_pages += wanted.len() as u64;
    ftl.counters_mut().pin_hits += hits;
}

pub(super) fn stage_of(ftl: &Ftl, frame: u32) -> Stage {
    match ftl.cached().is_filling(frame) {
        true => Stage::Awaited(frame),
        false => Stage::Pinned(frame),
    }
}

/// Takes a reference to a page away; false if it has none.
pub(super) fn unpin_one(ftl: &mut Ftl, hmb: &Hmb, lpn: u32, is_dirty: bool) -> bool {
    if lpn >= ftl.plan().logical_pages {
        return false;
    }
    let Entry::Cached(frame) = ftl.entry(lpn) else {
        return false;
    };
    if ftl.cached().references(frame) == 0 {
        return false;
    }
    let at = hmb.at(frame);
    if is_dirty {
        at.set_dirty();
    }
    let left = ftl.cached_mut().release(frame);
    if ftl.cached().is_blank(frame) {
        if at.is_dirty() {
            ftl.cached_mut().set_written(frame);
        } else if left == 0 {
            // It never got what it was pinned for: the page is what it was.
            ftl.take_frame_back(frame);
        }
    }
    true
}
