//! Flush; and ranges that are deallocated, which a disk does at once: it keeps a table of what it holds.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Serve, Step, Waiting, outcome};
use crate::features::block::start_deallocation;

/// What was acknowledged before survives.
pub(super) struct Flush;

impl Handler for Flush {}

impl IoCommand for Flush {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        controller.broadcast(self, qid, command, 0);
        Ok(())
    }

    fn takes_all_namespaces(&self) -> bool {
        true
    }
}

impl Serve for Flush {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, _: u32) -> Waiting<'a> {
        Box::pin(async {
            core.disk().count(|c| c.flushes += 1);
            let flushed = core.flush_disk().await;
            outcome(flushed.err().unwrap_or(StatusCode::Success), 0)
        })
    }
}

/// Sectors read as zeros from now on.
pub(super) struct Deallocate;

impl Handler for Deallocate {}

impl IoCommand for Deallocate {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        start_deallocation(self, controller, qid, command)
    }
}

impl Serve for Deallocate {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let share = core.job(job).share.get();
        core.disk()
            .count(|c| c.trimmed_sectors += u64::from(share.count));
        let forgotten = core.forget_sectors(share.first, share.count);
        Step::Ended(outcome(
            forgotten.err().unwrap_or(StatusCode::Success),
            share.first,
        ))
    }
}
