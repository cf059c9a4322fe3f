//! What cores do for admin commands, each the whole of it.

use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::state::{Controller, Handler};
use crate::core::{Core, Serve, Step, Waiting, outcome};

/// Statistics of all cores, for a log page.
pub(super) struct LogPages;

impl Serve for LogPages {
    fn serve(&self, core: &Core, _: u32) -> Step {
        core.make_report();
        Step::Ended(Ok(()))
    }
}

impl Handler for LogPages {
    fn end(&self, controller: &mut Controller, slot: u16) {
        let command = controller.slots.borrow().get(slot).command;
        let status = controller.write_log_page(&command);
        controller.complete_with(slot, status);
    }
}

/// Statistics of all cores, for the identify data of the namespace.
pub(super) struct NamespaceData;

impl Serve for NamespaceData {
    fn serve(&self, core: &Core, _: u32) -> Step {
        core.make_report();
        Step::Ended(Ok(()))
    }
}

impl Handler for NamespaceData {
    fn end(&self, controller: &mut Controller, slot: u16) {
        let command = controller.slots.borrow().get(slot).command;
        let data = controller.identify_namespace();
        let written = controller.write_page(&command, data.as_bytes());
        controller.complete_with(slot, written.err().unwrap_or(StatusCode::Success));
    }
}

/// The volatile write cache is turned on (a note of 1) or off.
pub(super) struct SetWriteCache;

impl Serve for SetWriteCache {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let on = core.note(job) != 0;
        core.volatile_write_cache.set(on);
        match on {
            true => Step::Ended(Ok(())),
            // What it holds becomes durable.
            false => Step::Waits,
        }
    }

    fn wait<'a>(&'a self, core: &'a Core, _: u32) -> Waiting<'a> {
        Box::pin(async { outcome(core.write_all_back().await, 0) })
    }
}

impl Handler for SetWriteCache {
    fn end(&self, controller: &mut Controller, slot: u16) {
        let on = {
            let mut slots = controller.slots.borrow_mut();
            let slot = slots.get_mut(slot);
            slot.result = slot.note;
            slot.note != 0
        };
        controller.write_cache = on;
        controller.complete(slot);
    }
}

/// Every page is deallocated, durably; with a note of 1 the flash is erased too.
pub(super) struct Format;

impl Serve for Format {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        let erase = core.note(job) != 0;
        Box::pin(async move { outcome(core.format(erase).await, 0) })
    }
}

impl Handler for Format {
    fn end(&self, controller: &mut Controller, slot: u16) {
        controller.formats_under_way -= 1;
        controller.complete(slot);
    }
}
