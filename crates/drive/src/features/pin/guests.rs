//! What hosts in other processes hold.
//!
//! Problem: references to frames are only counted. A host that dies would leave its own behind for ever,
//! and one that errs could give back those of others.
//!
//! Idea: for each *guest* a core keeps a bit for each frame.
//!
//! 1. A guest has one reference to a page, however often it pins it, and gives back none but its own.
//!    It holds no more frames of a core than it was promised.
//! 2. When its queue is deleted, the core takes everything back ([`release_guest`]): words
//!    that it has, which a killed writer leaves taken, then its references.
//! 3. A page that it was going to overwrite, and has not, holds zeros, while another host may have it
//!    pinned too: it gets the content that it had.

use wharf_runtime::Holder;
use wharf_wire::queue::Guest;

use super::fetch::read_now;
use super::state::{Pins, Wanted};
use super::wanted::{note_held, unpin_one};
use crate::controller::Handler;
use crate::core::hmb::Hmb;
use crate::core::{Core, Failed, Patience, Serve, Step, Stuck, Waiting};
use crate::ftl::{Entry, Ftl, Place};

/// Takes back what the guest holds whose number is noted.
pub(super) static RELEASE: Release = Release;

pub(super) struct Release;

impl Handler for Release {}

impl Serve for Release {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(release_guest(core, core.note(job) as u32))
    }
}

/// Whether a guest may pin `pages` more pages; if so, it has taken or reserved them.
pub(super) fn reserve(core: &Core, guest: Guest, pages: usize) -> bool {
    let mut holdings = core.state::<Pins>().guests.borrow_mut();
    let holding = holdings.of(guest.number);
    let may = u64::from(holding.taken_or_reserved) + pages as u64 <= u64::from(guest.frames_max);
    if may {
        holding.taken_or_reserved += pages as u32;
    }
    may
}

/// Takes back what a guest has taken or reserved: its pin is refused.
pub(super) fn unreserve(core: &Core, guest: Guest, pages: usize) {
    core.state::<Pins>()
        .guests
        .borrow_mut()
        .of(guest.number)
        .taken_or_reserved -= pages as u32;
}

/// Notes what a guest's pin came to.
pub(super) fn note_pins(core: &Core, guest: Guest, wanted: &[Wanted]) {
    let mut holdings = core.state::<Pins>().guests.borrow_mut();
    let holding = holdings.of(guest.number);
    for page in wanted {
        let is_new = page.frame().is_some_and(|frame| holding.set(frame));
        holding.taken_or_reserved -= u32::from(!is_new);
        if let (Some(frame), false) = (page.frame(), is_new) {
            // The guest has the page already: one reference is enough.
            core.with_ftl(|ftl| ftl.cached_mut().release(frame));
        }
    }
}

/// Whether a guest holds the page that it gives back; from now on it does not.
pub(super) fn may_unpin(core: &Core, guest: Guest, lpn: u32) -> bool {
    let frame = core.with_ftl(|ftl| {
        (lpn < ftl.plan().logical_pages).then(|| match ftl.entry(lpn) {
            Entry::Cached(frame) => Some(frame),
            Entry::Uncached(_) => None,
        })
    });
    let mut holdings = core.state::<Pins>().guests.borrow_mut();
    let holding = holdings.of(guest.number);
    frame.flatten().is_some_and(|frame| holding.clear(frame))
}

/// Takes back everything that a guest holds, when none of its commands is under way.
pub(super) async fn release_guest(core: &Core, guest: u32) -> Result<(), Failed> {
    let holding = std::mem::take(core.state::<Pins>().guests.borrow_mut().of(guest));
    let hmb = core.hmb();
    free_words(core, Holder::guest(guest), &hmb);
    let (mut outcome, mut patience) = (Ok(()), Patience::default());
    for frame in holding.iter() {
        let Some(lpn) = core.with_ftl(|ftl| ftl.cached().lpn(frame)) else {
            continue;
        };
        let is_shared = core.with_ftl(|ftl| ftl.cached().references(frame) > 1);
        if is_shared {
            // While the reference is there, so is the page.
            outcome = outcome.and(fill_blank(core, frame, lpn, &mut patience).await);
        }
        core.with_ftl(|ftl| unpin_one(ftl, &hmb, lpn, false));
    }
    note_held(core);
    core.serve_waiters();
    outcome
}

/// Frees the words that a process has left taken; also of frames that it does not hold: what a guest
/// does to words is not to be relied on. It may have named the drive in some, which has none now.
fn free_words(core: &Core, holder: Holder, hmb: &Hmb) {
    for frame in 0..hmb.frames() {
        let at = hmb.at(frame);
        at.unlock_of(Holder::DRIVE);
        if at.is_held_by(holder) {
            // A part of its write counts as written, but for a page that was to be overwritten:
            // its other bytes are lost with the frame, so the page is what it was.
            if !core.with_ftl(|ftl| ftl.cached().is_blank(frame)) {
                at.set_dirty();
            }
            at.unlock_of(holder);
        }
    }
}

/// Gives a page that was to be overwritten, and has not been, the content that it had.
async fn fill_blank(
    core: &Core,
    frame: u32,
    lpn: u32,
    patience: &mut Patience,
) -> Result<(), Failed> {
    let hmb = core.hmb();
    let at = hmb.at(frame);
    let is_blank = |ftl: &mut Ftl| ftl.cached().is_blank(frame) && !at.is_dirty();
    if !core.with_ftl(is_blank) {
        return Ok(());
    }
    let now_ns = core.flash_now();
    let end_ns = core.with_ftl(|ftl| match ftl.place(lpn) {
        Place::Flash(ppn) => ftl.start_read(now_ns, ppn),
        _ => now_ns,
    });
    core.cpu.sleep_until(end_ns).await;
    while !at.try_lock() {
        // Another host writes, the whole page in one go: soon it is not blank any more. If it stays
        // busy, the word is what the guest has left.
        if core.wait_out(Stuck::Busy, patience).await.is_err() {
            at.free_word();
        }
        if !core.with_ftl(is_blank) {
            return Ok(());
        }
    }
    let filled = core.with_ftl(|ftl| {
        if !is_blank(ftl) {
            return Ok(());
        }
        let mut content = vec![0; core.dma().page_bytes()];
        read_now(ftl, lpn, &mut content)?;
        // SAFETY: the frame is locked.
        unsafe { at.page(core.dma()).copy_in(&content) };
        ftl.cached_mut().set_written(frame);
        Ok(())
    });
    at.unlock();
    filled
}
