//! Answers become completions, in order behind the data on the link.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::{Status, StatusCode};

use super::state::{Controller, Outgoing};

impl Controller {
    /// Takes what a core has answered by now.
    #[inline]
    pub(super) fn gather_from(&mut self, core: u32) {
        let now_ns = self.cpu.stamp_ns();
        while let Some(answer) = self.cores[core as usize].take_answer(now_ns) {
            self.cpu.work(Op::CommandGather, || ());
            let page = || self.striping.page_of(core, answer.lpn);
            let is_last = self.slots.borrow_mut().gather(&answer, page);
            if is_last {
                let handler = self.handlers[answer.slot as usize];
                handler
                    .expect("a slot in use has one")
                    .end(self, answer.slot);
            }
        }
    }

    /// Completes a command as its cores have answered it.
    #[inline]
    pub fn complete(&mut self, slot: u16) {
        let status = self.slots.borrow().get(slot).status;
        self.complete_with(slot, status);
    }

    /// Completes a command with this status.
    pub fn complete_with(&mut self, slot: u16, status: StatusCode) {
        let (qid, command, served_ns, failed_page, result, to_host_bytes) = {
            let mut slots = self.slots.borrow_mut();
            slots.release(slot);
            let slot = slots.get(slot);
            (
                slot.qid,
                slot.command,
                slot.served_ns,
                slot.failed_page,
                slot.result,
                slot.to_host_bytes,
            )
        };
        if status == StatusCode::Success {
            self.host_commands.count(qid, &command);
        }
        self.host_commands.count_service(qid, served_ns);
        let mut answer = Status::new(status);
        if qid != 0 && is_drive_failure(status) {
            self.errors.record(qid, &command, answer, failed_page);
            answer = answer.with_more();
        }
        self.finish(qid, &command, answer, result, to_host_bytes);
    }

    /// Forgets a command that goes on under another slot, or is never completed.
    pub fn forget(&mut self, slot: u16) {
        self.slots.borrow_mut().release(slot);
    }

    /// Answers a command: after the link has carried what it transfers.
    pub fn finish(
        &mut self,
        qid: u16,
        command: &Command,
        status: Status,
        result: u64,
        to_host_bytes: u32,
    ) {
        let collects = qid != 0 && self.tells_collection() && self.anyone_collects();
        let mut completion = Completion::new(command.cid, status)
            .with_wide_result(result)
            .with_gc_state(collects);
        if qid != 0 && self.events.thresholds.in_completions && !has_result(command) {
            completion = completion.with_space_level(self.space_level());
        }
        self.cpu.work(Op::CommandComplete, || ());
        self.host_commands.count_link(qid, command, to_host_bytes);
        let due_ns = self.to_host.carry(&self.cpu, u64::from(to_host_bytes));
        self.post(Outgoing {
            due_ns,
            qid,
            completion,
        });
        if qid != 0 {
            self.tell_events();
        }
    }

    /// Puts a completion on its queue; in real time not before it is due, in virtual time with the
    /// time at which the host sees it.
    #[inline]
    fn post(&mut self, outgoing: Outgoing) {
        let wait = !self.outgoing.is_empty()
            || (!self.cpu.is_virtual() && outgoing.due_ns > 0 && outgoing.due_ns > self.cpu.now());
        if wait || !self.try_post(&outgoing) {
            self.outgoing.push_back(outgoing);
        }
    }

    #[inline]
    fn try_post(&mut self, outgoing: &Outgoing) -> bool {
        let Some(queue) = &mut self.queues[outgoing.qid as usize] else {
            return true; // The queue was deleted: nobody waits for the completion.
        };
        if !queue.queue.has_room() {
            // A guest that gives none back keeps nobody else waiting.
            return queue.queue.guest().is_some();
        }
        queue.queue.complete(
            &self.cpu,
            outgoing.qid,
            outgoing.completion,
            outgoing.due_ns,
        );
        true
    }

    pub(super) fn post_outgoing(&mut self) {
        while let Some(next) = self.outgoing.pop_front() {
            let early = !self.cpu.is_virtual() && next.due_ns > self.cpu.now();
            if early || !self.try_post(&next) {
                self.outgoing.push_front(next);
                return;
            }
        }
    }
}

/// True for commands whose result takes all bits of the completion.
fn has_result(command: &Command) -> bool {
    command.io_opcode().is_some_and(IoOpcode::has_wide_result)
}

/// True for failures that are the drive's or the media's, not the command's.
fn is_drive_failure(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::InternalError | StatusCode::WriteFault | StatusCode::UnrecoveredReadError
    )
}
