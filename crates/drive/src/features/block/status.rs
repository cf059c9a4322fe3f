//! Get LBA status: runs of allocated pages, from what every core finds of its own.
//!
//! 1. The command, of either kind of queue, is checked, and each core given the pages of the range that are its
//!    own, which are one range there.
//! 2. A core looks for as many runs as the answer holds, in steps, and leaves them in its state
//!    (`allocated.rs`). It stops behind the last, or at the end, or when it has found any and looked long enough.
//! 3. When all have done, the controller puts the runs together: stripes of different cores that meet are one
//!    run. It goes no further than the core that stopped first. A core's runs are parts of as many runs of
//!    the drive, so the answer is full before that.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::lba_status::{
    Completeness, LbaStatusRun, StatusAction, answer_bytes, write_answer,
};
use wharf_wire::status::StatusCode;

use super::allocated::{Allocated, CoreRuns, merge};
use crate::controller::{Controller, Handler, IoCommand, MDTS};
use crate::core::{Core, Serve, Share, Step, Waiting};

/// The command.
pub(super) struct GetLbaStatus;

/// Runs that the answer holds.
fn runs_max(command: &Command) -> usize {
    let room = command.status_bytes() as usize - answer_bytes(0);
    room / (answer_bytes(1) - answer_bytes(0))
}

impl IoCommand for GetLbaStatus {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        let StatusAction::Allocated = command.status_action().ok_or(StatusCode::InvalidField)?;
        let bytes = command.status_bytes();
        if bytes < answer_bytes(1) as u64 || bytes > (PAGE_BYTES as u64) << MDTS {
            return Err(StatusCode::InvalidField);
        }
        let (first, end) = command.status_range(controller.namespace_pages())?;
        // A copy of nothing checks the addresses.
        controller.copy_to_host(&command, bytes, &[], 0)?;
        let striping = controller.striping();
        let cores = controller.cores().len() as u32;
        let slot = controller.take_slot(self, qid, command, cores);
        for core in 0..cores {
            let local = striping.pages_below(first, core);
            let share = Share {
                slot,
                skip: 0,
                first: local,
                count: striping.pages_below(end, core) - local,
            };
            controller.send(core, share, self);
        }
        Ok(())
    }
}

impl Serve for GetLbaStatus {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        let share = core.job(job).share.get();
        let command = core.slots.borrow().get(share.slot).command;
        Box::pin(async move {
            let runs = CoreRuns::find(core, share.first, share.count, runs_max(&command)).await;
            core.state::<Allocated>().put(share.slot, runs);
            Ok(())
        })
    }
}

impl Handler for GetLbaStatus {
    fn end(&self, controller: &mut Controller, slot: u16) {
        let command = controller.slots().borrow().get(slot).command;
        let status = match answer(controller, slot, &command) {
            Ok(()) => StatusCode::Success,
            Err(status) => status,
        };
        controller.complete_with(slot, status);
    }
}

/// Puts the answer together, and writes it to the host.
fn answer(controller: &Controller, slot: u16, command: &Command) -> Result<(), StatusCode> {
    let found: Vec<CoreRuns> = controller
        .cores()
        .map(|core| core.state::<Allocated>().take(slot))
        .collect();
    let range = command.status_range(controller.namespace_pages())?;
    let (runs, is_whole) = merge(&found, controller.striping(), range, runs_max(command));
    let runs: Vec<LbaStatusRun> = runs
        .into_iter()
        .map(|(first, pages)| LbaStatusRun::new(first, pages))
        .collect();
    let completeness = match is_whole {
        true => Completeness::Whole,
        false => Completeness::Partly,
    };
    let bytes = write_answer(&runs, completeness);
    controller.copy_to_host(command, command.status_bytes(), &bytes, bytes.len())
}
