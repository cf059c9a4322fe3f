//! Pins that wait for frames, in the order in which they came: a pin in line has no job.

use wharf_wire::command::Command;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

use super::check::PIN;
use super::request::Request;
use super::state::{InLine, Pins, Stage, Tally};
use super::wanted::{deliver, frames_needed, list_wanted};
use crate::controller::{Controller, Handler};
use crate::core::{Core, Serve, Share, Step};

/// The first pin in line, if there are frames for it now.
pub(super) fn next(core: &Core) -> Option<(Share, &'static dyn Serve)> {
    let pins = core.state::<Pins>();
    let mut line = pins.line.borrow_mut();
    let request = Request::of_slot(core, line.front()?.share.slot);
    let mut wanted = pins.lists.take();
    let mut list = wanted.pop().unwrap_or_default();
    list_wanted(core, &request, &mut list);
    let fits = core.with_ftl(|ftl| match frames_needed(ftl, &list) {
        Ok(needed) => ftl.cached().taken_or_reserved() + needed <= ftl.cached().count(),
        // It will be refused.
        Err(_) => true,
    });
    wanted.push(list);
    pins.lists.replace(wanted);
    if !fits {
        return None;
    }
    let first = line.pop_front()?;
    // It is served next, before any other share of this core.
    pins.resumed.set(Some(first));
    Some((first.share, &PIN))
}

/// Has pins end that wait and came on a queue: it is being deleted, and their unpin may be behind them.
pub(super) fn give_up(controller: &mut Controller, qid: u16, command: &Command) {
    let is_pin = |command: &Command| command.io_opcode() == Some(IoOpcode::Pin);
    let has_pins = controller
        .slots()
        .borrow()
        .any_of(qid, |slot| is_pin(&slot.command));
    if has_pins {
        controller.broadcast(&GIVE_UP, 0, *command, qid.into());
    }
}

/// Answers the pins in line that came on the queue that is noted.
pub(super) static GIVE_UP: GiveUp = GiveUp;

pub(super) struct GiveUp;

impl Serve for GiveUp {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let (pins, queue) = (core.state::<Pins>(), core.note(job));
        let of_queue = |share: &Share| u64::from(core.slots.borrow().get(share.slot).qid) == queue;
        let (given_up, kept): (Vec<InLine>, Vec<InLine>) = pins
            .line
            .take()
            .into_iter()
            .partition(|pin| of_queue(&pin.share));
        pins.line.replace(kept.into());
        let mut wanted = pins.take_list();
        for pin in given_up {
            let request = Request::of_slot(core, pin.share.slot);
            list_wanted(core, &request, &mut wanted);
            for page in &mut wanted {
                page.stage = Stage::Failed;
            }
            let mut tally = Tally::default();
            let lpn = wanted.first().map_or(0, |page| page.lpn);
            tally.fail(StatusCode::AbortedQueueDeleted, lpn);
            let outcome = deliver(core, pin.share.slot, &request, &wanted, tally);
            core.answer_share(core.job(job), pin.share, outcome);
        }
        pins.keep_list(wanted);
        core.serve_waiters();
        Step::Ended(Ok(()))
    }
}

impl Handler for GiveUp {
    /// The command that deletes the queue ends when what was fetched from the queue has.
    fn end(&self, controller: &mut Controller, slot: u16) {
        controller.forget(slot);
    }
}
