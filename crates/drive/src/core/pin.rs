//! Pinning pages in frames of the host memory buffer.
//!
//! Problem: many pages are brought into frames at once, frames run out, and several pins want the
//! same page or the same last frames. Nobody may spin, and two pins must not wait for each other.
//!
//! Idea: a core serves all of a command's pages that are its own as one part, in these steps:
//!
//! 1. Unpins first: they may free what the pins need.
//! 2. *Admission*, in one go: pages that are cached get their reference; for the others frames are
//!    reserved, all or none. What cannot be admitted waits in line for an unpin, without a
//!    worker, or fails. As the controller sends parts in one order to all cores, and each core
//!    admits in that order, waiting pins never wait for each other in a circle.
//! 3. Each missing page takes a frame: a free one, else CLOCK's victim. A dirty victim is copied to
//!    the write buffer and its frame used at once; its program is waited for at the end.
//! 4. The flash reads of all missing pages run at once. After the last the pages are copied into
//!    their frames; others that pinned them meanwhile go on.
//!
//! (ScalaCache, sections 5.1, 5.2 and 5.4.)

use wharf_wire::pin::{
    Access, LIST_ENTRIES, NOT_PINNED, Unpin, address_offset, told_address, unpin_offset,
};
use wharf_wire::status::StatusCode;

use super::Core;
use super::hmb::Hmb;
use super::part::{Answer, Failed, Part, PinRequest};
use crate::ftl::{Entry, Ftl, NONE};

/// How far a wanted page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A frame is reserved for it.
    Missing,
    /// This part brings it into the frame.
    Coming(u32),
    /// Another part brings it into the frame.
    Awaited(u32),
    /// It is in the frame, with a reference.
    Pinned(u32),
    /// It could not be pinned.
    Failed,
}

/// A page that a part wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub lpn: u32,
    /// Its place among the wanted pages of the command.
    rank: u16,
    pub stage: Stage,
}

impl Wanted {
    /// The frame that it is pinned in, if it is.
    pub(super) fn frame(&self) -> Option<u32> {
        match self.stage {
            Stage::Pinned(frame) => Some(frame),
            _ => None,
        }
    }
}

/// What a pin did besides, and how it ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    failed: Option<Failed>,
    /// Pages brought into frames.
    pub fetched: u16,
    /// The frame of a pin without a list is blank.
    is_blank: bool,
    /// When the link has carried the pages that were written back; 0 if that takes no time.
    pub carried_ns: u64,
}

impl Tally {
    /// Notes a failure; that of the lowest page counts.
    pub fn fail(&mut self, status: StatusCode, lpn: u32) {
        if self.failed.is_none_or(|failed| lpn < failed.lpn) {
            self.failed = Some(Failed { status, lpn });
        }
    }
}

/// What admission said.
enum Admission {
    Granted,
    Waits,
    Refused(StatusCode),
}

impl Core {
    /// Serves a pin or unpin, or has it wait.
    pub(super) async fn pin(&self, worker: u32, part: &Part) {
        let mut request = PinRequest::of(part);
        let mut tally = Tally::default();
        self.unpin_all(&mut request, &mut tally);
        if request.pages > 0 {
            let mut wanted = self.workers[worker as usize].wanted.take();
            match self.admit(&request, &mut wanted) {
                Admission::Granted => {
                    self.fetch(worker, &request, &mut wanted, &mut tally).await;
                    if let Some(guest) = request.guest {
                        self.note_pins(guest, &wanted);
                    }
                }
                Admission::Waits => {
                    if let Some(failed) = tally.failed {
                        request.unpin_failed = true;
                        request.unpin.lba = u64::from(failed.lpn);
                    }
                    self.wait_in_line(worker, request, part.slot, wanted);
                    return;
                }
                Admission::Refused(status) => {
                    for page in &mut wanted {
                        page.stage = Stage::Failed;
                    }
                    tally.fail(status, wanted[0].lpn);
                }
            }
            let frame = self.deliver_addresses(&request, &wanted, &mut tally);
            self.workers[worker as usize].wanted.replace(wanted);
            self.tell_held();
            self.answer_pin(part, &tally, frame);
        } else {
            self.tell_held();
            self.answer_pin(part, &tally, NONE);
        }
        self.wake_the_next_in_line();
    }

    fn answer_pin(&self, part: &Part, tally: &Tally, frame: u32) {
        let Failed { status, lpn } = tally.failed.unwrap_or(Failed {
            status: StatusCode::Success,
            lpn: 0,
        });
        self.send_answer(Answer {
            slot: part.slot,
            status,
            lpn,
            frame,
            served_ns: self.served_ns(part),
            to_host: tally.fetched,
            is_blank: tally.is_blank,
        });
    }

    /// Tells the controller how many frames are held.
    pub(super) fn tell_held(&self) {
        let held = self.with_ftl(|ftl| ftl.cached().taken_or_reserved());
        self.core_status
            .frames_held
            .store(held, super::Ordering::Relaxed);
    }

    /// Gives back every reference of this core's that the request names.
    fn unpin_all(&self, request: &mut PinRequest, tally: &mut Tally) {
        let unpins = std::mem::replace(&mut request.unpins, 0);
        self.cpu.work_counted(self.find_op(), || {
            let mut done = 0;
            for index in 0..unpins.min(LIST_ENTRIES as u32) {
                done += u32::from(self.unpin_entry(request, index, tally));
            }
            (done, ())
        });
        if request.unpin_failed {
            tally.fail(StatusCode::NotPinned, request.unpin.lba as u32);
        }
    }

    /// Gives back the reference of one entry; false if its page is not this core's.
    fn unpin_entry(&self, request: &PinRequest, index: u32, tally: &mut Tally) -> bool {
        let unpin = match request.list {
            None => request.unpin,
            // The controller has read it before: the page is there.
            Some(list) => match self.dma.read_u64(list + unpin_offset(index)) {
                Ok(entry) => Unpin::from_entry(entry),
                Err(_) => return false,
            },
        };
        let (core, lpn) = self.striping.locate(unpin.lba);
        if core != self.index {
            return false;
        }
        if let Some(guest) = request.guest
            && !self.may_unpin(guest, lpn)
        {
            tally.fail(StatusCode::NotPinned, lpn);
            return true;
        }
        if !self.with_ftl(|ftl| unpin_one(ftl, &self.hmb.borrow(), lpn, unpin.is_dirty)) {
            tally.fail(StatusCode::NotPinned, lpn);
        }
        true
    }

    /// Lists the pages of this core's that the request wants. The host may have changed the list
    /// since the controller checked it: what makes no sense any more is left out.
    fn list_wanted(&self, request: &PinRequest, wanted: &mut Vec<Wanted>) {
        wanted.clear();
        let mut rank = 0;
        let mut add = |page: u64| {
            let (core, lpn) = self.striping.locate(page);
            if core == self.index && usize::from(rank) < LIST_ENTRIES {
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
            let word = self.dma.read_u64(list + u64::from(first / 8)).unwrap_or(0);
            let mut bits = word & u64::MAX >> (64 - (request.pages - first).min(64));
            while bits != 0 {
                add(request.window + u64::from(first + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
    }

    /// Gives cached pages their reference and reserves frames for the others, or does nothing.
    fn admit(&self, request: &PinRequest, wanted: &mut Vec<Wanted>) -> Admission {
        self.list_wanted(request, wanted);
        if wanted.is_empty() {
            // The command's pages are other cores': only unpins were for this one.
            return Admission::Granted;
        }
        if request.write_protected {
            return Admission::Refused(StatusCode::NamespaceWriteProtected);
        }
        if let Some(guest) = request.guest
            && !self.reserve(guest, wanted.len())
        {
            return Admission::Refused(StatusCode::NoFreeFrame);
        }
        let admission = self.admit_listed(request, wanted);
        if let (Some(guest), Admission::Refused(_)) = (request.guest, &admission) {
            self.unreserve(guest, wanted.len());
        }
        admission
    }

    /// As [`Core::admit`], for pages that are listed.
    fn admit_listed(&self, request: &PinRequest, wanted: &mut [Wanted]) -> Admission {
        let must_queue = !request.has_waited && !self.in_line.borrow().is_empty();
        self.cpu.work_n(self.find_op(), wanted.len() as u32, || {
            self.with_ftl(|ftl| {
                let needed = match frames_needed(ftl, wanted) {
                    Ok(needed) => needed,
                    Err(status) => return Admission::Refused(status),
                };
                let fits = ftl.cached().taken_or_reserved() + needed <= ftl.cached().count();
                if fits && !must_queue || needed == 0 && request.may_not_wait {
                    hold_or_reserve(ftl, wanted);
                    return Admission::Granted;
                }
                match request.may_not_wait {
                    true => Admission::Refused(StatusCode::NoFreeFrame),
                    false => Admission::Waits,
                }
            })
        })
    }

    /// Puts a request in line for frames; the worker is free for others.
    fn wait_in_line(&self, worker: u32, request: PinRequest, slot: u16, wanted: Vec<Wanted>) {
        self.workers[worker as usize].wanted.replace(wanted);
        let was_in_line = request.has_waited;
        let part = PinRequest {
            has_waited: true,
            ..request
        }
        .into_part(slot);
        if was_in_line {
            self.in_line.borrow_mut().push_front(part);
        } else {
            self.with_ftl(|ftl| ftl.counters_mut().pin_waits += 1);
            self.in_line.borrow_mut().push_back(part);
        }
        self.tell_held();
        self.wake_the_next_in_line();
    }

    /// Answers the pins in line that came on a queue.
    pub(super) fn give_up(&self, worker: u32, qid: u16) {
        let mut line = self.in_line.take();
        let given_up: Vec<Part> = line.iter().copied().filter(|p| p.qid == qid).collect();
        line.retain(|part| part.qid != qid);
        self.in_line.replace(line);
        let mut wanted = self.workers[worker as usize].wanted.take();
        for part in given_up {
            let request = PinRequest::of(&part);
            self.list_wanted(&request, &mut wanted);
            for page in &mut wanted {
                page.stage = Stage::Failed;
            }
            let mut tally = Tally::default();
            tally.fail(
                StatusCode::AbortedQueueDeleted,
                wanted.first().map_or(0, |page| page.lpn),
            );
            let frame = self.deliver_addresses(&request, &wanted, &mut tally);
            self.answer_pin(&part, &tally, frame);
        }
        self.workers[worker as usize].wanted.replace(wanted);
        self.wake_the_next_in_line();
    }

    /// The first pin in line, if there are frames for it now.
    pub(super) fn next_in_line(&self) -> Option<Part> {
        let mut line = self.in_line.borrow_mut();
        let request = PinRequest::of(line.front()?);
        let mut wanted = self.line_scratch.take();
        self.list_wanted(&request, &mut wanted);
        let fits = self.with_ftl(|ftl| match frames_needed(ftl, &wanted) {
            Ok(needed) => ftl.cached().taken_or_reserved() + needed <= ftl.cached().count(),
            // It will be refused.
            Err(_) => true,
        });
        self.line_scratch.replace(wanted);
        if fits { line.pop_front() } else { None }
    }

    /// Hands the first pin in line to an idle worker, if there is one and there are frames. If not,
    /// the next worker that ends its part looks again.
    pub(super) fn wake_the_next_in_line(&self) {
        while !self.idle.borrow().is_empty()
            && let Some(part) = self.next_in_line()
        {
            let worker = self.idle.borrow_mut().pop().expect("checked above");
            self.hand_to(worker, part);
        }
    }

    /// Writes the addresses of pinned pages to the list; gives the frame of a pin without a list.
    fn deliver_addresses(&self, request: &PinRequest, wanted: &[Wanted], tally: &mut Tally) -> u32 {
        let hmb = self.hmb.borrow();
        let mut single = NONE;
        for page in wanted {
            let address = match page.stage {
                Stage::Pinned(frame) => {
                    (single, tally.is_blank) = (frame, self.is_blank(&hmb, request, frame));
                    told_address(hmb.at(frame).address(), tally.is_blank)
                }
                _ => NOT_PINNED,
            };
            if let Some(list) = request.list {
                let entry = list + address_offset(u32::from(page.rank));
                // SAFETY: the list page is named by a command in flight, and the entries of this
                // core's pages are its own.
                if unsafe { self.dma.write_u64(entry, address) }.is_err() {
                    tally.fail(StatusCode::DataTransferError, page.lpn);
                }
            }
        }
        if request.list.is_none() { single } else { NONE }
    }

    /// Whether who asked has to wait until somebody else has overwritten a frame.
    fn is_blank(&self, hmb: &Hmb, request: &PinRequest, frame: u32) -> bool {
        request.access != Access::Overwrite
            && self.with_ftl(|ftl| ftl.cached().is_blank(frame))
            && !hmb.at(frame).is_dirty()
    }
}

/// How many of the wanted pages need a frame that is not held.
fn frames_needed(ftl: &Ftl, wanted: &[Wanted]) -> Result<u32, StatusCode> {
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
fn hold_or_reserve(ftl: &mut Ftl, wanted: &mut [Wanted]) {
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
