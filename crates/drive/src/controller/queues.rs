//! Fetching commands: round robin over the queues that have notified, a burst from each.

use wharf_runtime::Op;
use wharf_wire::command::{Command, NAMESPACE_ALL};
use wharf_wire::status::{Status, StatusCode};

use super::guests;
use super::state::{Controller, IoCommand, NAMESPACE, Queue};

/// Commands that are taken from guests in a turn, all together, before others are looked after.
const GUEST_COMMANDS_MAX: u32 = 256;

/// How a turn at one queue ended.
enum Fetched {
    /// A burst was taken; there may be more.
    Burst,
    /// The queue is empty.
    All,
    /// No slot is free.
    NoRoom,
}

impl Controller {
    /// Fetches from the queues that have notified, up to a burst from each in turn, until they
    /// are empty or no more commands can be held; then the rest waits for answers.
    pub(super) fn fetch(&mut self) {
        let burst = self.arbitration.burst().unwrap_or(u32::MAX);
        let mut for_guests = GUEST_COMMANDS_MAX;
        while let Some(source) = self.ready.next_from(self.turn) {
            let qid = self.qid_of_source[source as usize];
            let is_guests = match self.queues.get(qid as usize) {
                Some(queue) => queue.as_ref().is_some_and(|q| q.queue.guest().is_some()),
                None => true,
            };
            let at_once = match is_guests {
                true => burst.min(for_guests),
                false => burst,
            };
            let fetched = match is_guests {
                true => self.fetch_from_guests(qid, at_once),
                false => self.fetch_burst(qid, at_once),
            };
            match fetched {
                Fetched::Burst if is_guests && at_once == for_guests => {
                    // It may move its doorbell for ever. The rest has its turn after all others.
                    self.ready.remove(source);
                    self.notifier.notify(&self.cpu, source, self.cpu.now());
                }
                Fetched::Burst if is_guests => for_guests -= at_once,
                Fetched::Burst => {}
                Fetched::All => self.ready.remove(source),
                Fetched::NoRoom => return,
            }
            self.turn = source + 1;
        }
    }

    /// Fetches up to `burst` commands from a guest's queue: this one's, or that of the guest whose turn it is.
    fn fetch_from_guests(&mut self, qid: u16, burst: u32) -> Fetched {
        if qid != guests::ALL {
            return self.fetch_burst(qid, burst);
        }
        let Some(qid) = self.guests_line.next() else {
            return Fetched::All;
        };
        let fetched = self.fetch_burst(qid, burst);
        if !matches!(fetched, Fetched::All) {
            self.guests_line.put(qid);
        }
        match fetched {
            Fetched::All if !self.guests_line.is_empty() => Fetched::Burst,
            fetched => fetched,
        }
    }

    /// Fetches up to `burst` commands from one queue.
    fn fetch_burst(&mut self, qid: u16, burst: u32) -> Fetched {
        for _ in 0..burst {
            if !self.slots.borrow().has_free() {
                return Fetched::NoRoom;
            }
            let open = self.queues[qid as usize].as_mut().filter(|q| !q.closing);
            let Some(command) = open.and_then(|q: &mut Queue| q.queue.fetch(&self.cpu)) else {
                return Fetched::All;
            };
            self.cpu.work(Op::CommandFetch, || ());
            match qid {
                0 => self.admin_command(command),
                qid => self.io_command(qid, command),
            }
        }
        Fetched::Burst
    }

    /// Starts an I/O command, or answers it with what is wrong.
    fn io_command(&mut self, qid: u16, command: Command) {
        let Some(handler) = self.table[command.opcode as usize] else {
            return self.finish(qid, &command, Status::new(StatusCode::InvalidOpcode), 0, 0);
        };
        if let Err(status) = self.start_io(handler, qid, command) {
            let result = handler.refused_result();
            self.finish(qid, &command, Status::new(status), result, 0);
        }
    }

    #[inline]
    fn start_io(
        &mut self,
        handler: &'static dyn IoCommand,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        command.check_flags()?;
        let is_all = command.nsid == NAMESPACE_ALL && handler.takes_all_namespaces();
        if command.nsid != NAMESPACE && !is_all {
            return Err(StatusCode::InvalidNamespace);
        }
        if self.is_formatting() {
            return Err(StatusCode::FormatInProgress);
        }
        if self.guest_of(qid).is_some() {
            for feature in &self.features {
                feature.check_guest(self, &command)?;
            }
        }
        handler.start(self, qid, command)
    }

    /// True if every command fetched from a queue has been answered.
    pub(super) fn is_quiet(&self, qid: u16) -> bool {
        !self.slots.borrow().has_commands_of(qid) && self.outgoing.iter().all(|o| o.qid != qid)
    }
}
