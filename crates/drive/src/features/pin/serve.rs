//! A core's share of a pin or unpin.
//!
//! Problem: many pages are brought into frames at once, frames run out, and several pins want the
//! same page or the same last frames. Nobody may spin, and two pins must not wait for each other.
//!
//! Idea: a core serves all of a command's pages that are its own as one share, in these steps:
//!
//! 1. Unpins first: they may free what the pins need.
//! 2. *Admission*, in one go: pages that are cached get their reference; for the others frames are
//!    reserved, all or none. What cannot be admitted waits in line for an unpin, without a
//!    job, or fails. As the controller gives shares in one order to all cores, and each core
//!    admits in that order, waiting pins never wait for each other in a circle.
//! 3. Each missing page takes a frame: a free one, else CLOCK's victim. A dirty victim is copied to
//!    the write buffer and its frame used at once; its program is waited for at the end.
//! 4. The flash reads of all missing pages run at once. After the last the pages are copied into
//!    their frames; others that pinned them meanwhile go on.
//!
//! A share whose pages are all in frames ends at once; steps 3 and 4 are for the job's task.

use wharf_wire::pin::{LIST_ENTRIES, Unpin, unpin_offset};
use wharf_wire::status::StatusCode;

use super::fetch::fetch;
use super::guests;
use super::request::Request;
use super::state::{Admitted, InLine, Pins, Stage, Tally, Wanted};
use super::wanted::{deliver, frames_needed, hold_or_reserve, list_wanted, note_held, unpin_one};
use crate::core::{Core, Outcome, Step};

/// What admission said.
enum Admission {
    Granted,
    Waits,
    Refused(StatusCode),
}

/// Begins to serve a pin or unpin: what needs no time is done.
pub(super) fn begin(core: &Core, job: u32) -> Step {
    let share = core.job(job).share.get();
    let pins = core.state::<Pins>();
    let request = Request::of_slot(core, share.slot);
    let mut tally = Tally::default();
    let waited = pins.resumed.take();
    match waited {
        None => unpin_all(core, &request, &mut tally),
        Some(pin) => {
            assert_eq!(pin.share, share, "another share was served before it");
            tally.failed = pin.failed;
        }
    }
    if request.pages == 0 {
        return Step::Ended(end(core, share.slot, &request, &[], tally));
    }
    let mut wanted = pins.take_list();
    match admit(core, &request, waited.is_some(), &mut wanted) {
        Admission::Granted if wanted.iter().all(|page| page.frame().is_some()) => {}
        Admission::Granted => {
            pins.set_admitted(
                job,
                Admitted {
                    request,
                    wanted,
                    tally,
                },
            );
            return Step::Waits;
        }
        Admission::Waits => {
            let pin = InLine {
                share,
                failed: tally.failed,
            };
            wait_in_line(core, pin, waited.is_some());
            pins.keep_list(wanted);
            return Step::Kept;
        }
        Admission::Refused(status) => {
            for page in &mut wanted {
                page.stage = Stage::Failed;
            }
            tally.fail(status, wanted[0].lpn);
        }
    }
    if let (Some(guest), false) = (request.guest, wanted.is_empty())
        && wanted.iter().any(|page| page.frame().is_some())
    {
        guests::note_pins(core, guest, &wanted);
    }
    let outcome = end(core, share.slot, &request, &wanted, tally);
    pins.keep_list(wanted);
    Step::Ended(outcome)
}

/// Brings what is missing of an admitted share into frames, and ends it.
pub(super) async fn fetch_and_end(core: &Core, job: u32) -> Outcome {
    let share = core.job(job).share.get();
    let pins = core.state::<Pins>();
    let admitted = pins.admitted.borrow_mut()[job as usize].take();
    let Admitted {
        request,
        mut wanted,
        mut tally,
    } = admitted.expect("its share was admitted");
    fetch(core, job, &request, &mut wanted, &mut tally).await;
    if let Some(guest) = request.guest {
        guests::note_pins(core, guest, &wanted);
    }
    let outcome = end(core, share.slot, &request, &wanted, tally);
    pins.keep_list(wanted);
    outcome
}

/// The end of a share.
fn end(core: &Core, slot: u16, request: &Request, wanted: &[Wanted], tally: Tally) -> Outcome {
    let outcome = deliver(core, slot, request, wanted, tally);
    note_held(core);
    outcome
}

/// Gives back every reference of this core's that the request names.
fn unpin_all(core: &Core, request: &Request, tally: &mut Tally) {
    core.cpu.work_counted(core.find_op(), || {
        let mut done = 0;
        for index in 0..request.unpins.min(LIST_ENTRIES as u32) {
            done += u32::from(unpin_entry(core, request, index, tally));
        }
        (done, ())
    });
}

/// Gives back the reference of one entry; false if its page is not this core's.
fn unpin_entry(core: &Core, request: &Request, index: u32, tally: &mut Tally) -> bool {
    let unpin = match request.list {
        None => request.unpin,
        // The controller has read it before: the page is there.
        Some(list) => match core.dma().read_u64(list + unpin_offset(index)) {
            Ok(entry) => Unpin::from_entry(entry),
            Err(_) => return false,
        },
    };
    let (owner, lpn) = core.striping.locate(unpin.lba);
    if owner != core.index {
        return false;
    }
    if let Some(guest) = request.guest
        && !guests::may_unpin(core, guest, lpn)
    {
        tally.fail(StatusCode::NotPinned, lpn);
        return true;
    }
    let hmb = core.hmb();
    if !core.with_ftl(|ftl| unpin_one(ftl, &hmb, lpn, unpin.is_dirty)) {
        tally.fail(StatusCode::NotPinned, lpn);
    }
    true
}

/// Gives cached pages their reference and reserves frames for the others, or does nothing.
fn admit(core: &Core, request: &Request, has_waited: bool, wanted: &mut Vec<Wanted>) -> Admission {
    list_wanted(core, request, wanted);
    if wanted.is_empty() {
        // The command's pages are other cores': only unpins were for this one.
        return Admission::Granted;
    }
    if request.write_protected {
        return Admission::Refused(StatusCode::NamespaceWriteProtected);
    }
    if let Some(guest) = request.guest
        && !guests::reserve(core, guest, wanted.len())
    {
        return Admission::Refused(StatusCode::NoFreeFrame);
    }
    let admission = admit_listed(core, request, has_waited, wanted);
    if let (Some(guest), Admission::Refused(_)) = (request.guest, &admission) {
        guests::unreserve(core, guest, wanted.len());
    }
    admission
}

/// As [`admit`], for pages that are listed.
fn admit_listed(
    core: &Core,
    request: &Request,
    has_waited: bool,
    wanted: &mut [Wanted],
) -> Admission {
    let must_queue = !has_waited && !core.state::<Pins>().line.borrow().is_empty();
    core.cpu.work_n(core.find_op(), wanted.len() as u32, || {
        core.with_ftl(|ftl| {
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

/// Puts a pin in line for frames; the job is free for others.
fn wait_in_line(core: &Core, pin: InLine, was_in_line: bool) {
    let pins = core.state::<Pins>();
    if was_in_line {
        pins.line.borrow_mut().push_front(pin);
    } else {
        core.with_ftl(|ftl| ftl.counters_mut().pin_waits += 1);
        pins.line.borrow_mut().push_back(pin);
    }
    note_held(core);
}
