//! Flush: every write acknowledged before survives.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Serve, Step, Waiting, outcome};

/// The command.
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
            outcome(core.write_all_back().await, 0)?;
            core.with_ftl(|ftl| ftl.counters_mut().flushes += 1);
            Ok(())
        })
    }
}
