//! Completions: taken off the queue, matched with their commands, told to the groups.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::Status;

use super::{Driver, Inner, SLOT_BITS, SlotState};
use crate::error::{IoError, Stray};
use crate::group::Outcome;

impl Driver {
    /// Takes completions off for as long as the CPU runs.
    pub(super) async fn pump(self: Rc<Self>) {
        let notifier = self.inner.borrow().queue.notifier().clone();
        notifier.attach(&self.cpu);
        loop {
            loop {
                let next = self.inner.borrow_mut().queue.poll(&self.cpu);
                let Some(completion) = next else { break };
                self.cpu
                    .work(Op::DriverComplete, || self.complete(completion));
            }
            self.inner.borrow_mut().queue.release();
            let _ = notifier.wait(&self.cpu).await;
        }
    }

    #[inline]
    fn complete(&self, completion: Completion) {
        let mut inner = self.inner.borrow_mut();
        let index = completion.cid & ((1 << SLOT_BITS) - 1);
        let known = inner.slots.get_mut(usize::from(index)).filter(|slot| {
            let with_drive = matches!(slot.state, SlotState::InFlight | SlotState::TimedOut);
            with_drive && slot.command.cid == completion.cid
        });
        let Some(slot) = known else {
            return self.note_stray(&mut inner, &completion);
        };
        let status = completion.status();
        let group = slot.group;
        self.collects_garbage.set(completion.gc_state());
        if completion.gc_state()
            && let Some((reports, cpu)) = self.reports.get()
        {
            reports.note(*cpu, self.cpu.now());
        }
        if self.has_space_levels.get() && !has_result(&slot.command) {
            self.space_level.set(completion.space_level());
        }
        if slot.state == SlotState::TimedOut {
            let error = (!status.is_success()).then(|| self.error_of(&slot.command, status));
            inner.statistics.late += 1;
            self.free(&mut inner, index);
            return self
                .groups
                .end_late(&self.cpu, group, Outcome::of(&completion, error));
        }
        if !status.is_success() {
            return self.fail(&mut inner, index, &completion);
        }
        let took_ns = self.cpu.now().saturating_sub(slot.issued_ns);
        inner.statistics.command_ns += took_ns;
        self.free(&mut inner, index);
        self.groups
            .end(&self.cpu, group, Outcome::of(&completion, None));
    }

    #[inline]
    pub(super) fn free(&self, inner: &mut Inner, index: u16) {
        inner.slots[usize::from(index)].state = SlotState::Free;
        inner.free.push(index);
        self.slot_freed.notify_one(&self.cpu);
    }

    #[cold]
    fn note_stray(&self, inner: &mut Inner, completion: &Completion) {
        inner.statistics.strays += 1;
        let (drive, cid, status) = (self.config.drive, completion.cid, completion.status());
        inner.stray = inner.stray.or(Some(Stray { drive, cid, status }));
    }

    #[cold]
    fn fail(&self, inner: &mut Inner, index: u16, completion: &Completion) {
        let status = completion.status();
        let slot = &mut inner.slots[usize::from(index)];
        if status.is_retryable() && slot.retries_left > 0 {
            slot.retries_left -= 1;
            inner.statistics.retries += 1;
            return self.send_later(slot);
        }
        let group = slot.group;
        let error = self.error_of(&slot.command, status);
        inner.statistics.errors += 1;
        self.free(inner, index);
        self.groups
            .end(&self.cpu, group, Outcome::of(completion, Some(error)));
    }

    #[cold]
    fn error_of(&self, command: &Command, status: Status) -> IoError {
        IoError::Status {
            drive: self.config.drive,
            opcode: command.opcode,
            admin: self.admin,
            lba: self.lba(command),
            status,
        }
    }

    pub(super) fn lba(&self, command: &Command) -> u64 {
        match command.io_opcode() {
            Some(IoOpcode::Flush | IoOpcode::DatasetManagement) | None => 0,
            Some(_) if self.admin => 0,
            Some(_) => command.slba(),
        }
    }
}

/// True for commands whose result takes all bits of the completion.
fn has_result(command: &Command) -> bool {
    command.io_opcode().is_some_and(IoOpcode::has_wide_result)
}
