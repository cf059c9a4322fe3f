//! What the controller keeps account of: failures, and commands by kind.

use std::collections::VecDeque;

use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::log_page::ErrorLogEntry;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::Status;

/// Entries of the error log.
pub(super) const ERRORS_MAX: usize = 64;

/// The latest failures, newest first.
#[derive(Default)]
pub(super) struct ErrorLog {
    pub(super) count: u64,
    pub(super) entries: VecDeque<ErrorLogEntry>,
}

impl ErrorLog {
    /// Remembers a failed command, and the first page that failed.
    pub(super) fn record(&mut self, qid: u16, command: &Command, status: Status, page: u64) {
        self.count += 1;
        self.entries.truncate(ERRORS_MAX - 1);
        let mut entry = ErrorLogEntry::default().with_status(status.with_more());
        entry.error_count = self.count;
        entry.sqid = qid;
        entry.cid = command.cid;
        entry.parameter_error_location = ErrorLogEntry::NO_FIELD;
        entry.lba = page;
        entry.nsid = command.nsid;
        self.entries.push_front(entry);
    }
}

/// Commands completed, by kind, as the controller alone can count them.
#[derive(Default)]
pub(super) struct HostCommands {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) pins: u64,
    pub(super) unpins: u64,
    pub(super) service_ns: u64,
    /// Bytes to the host.
    pub(super) to_host_bytes: u64,
    /// Commands whose bytes nobody else has counted.
    pub(super) from_host_bytes: u64,
}

impl HostCommands {
    #[inline]
    pub(super) fn count(&mut self, qid: u16, command: &Command) {
        if qid == 0 {
            return;
        }
        match command.io_opcode() {
            Some(IoOpcode::Read) => self.reads += 1,
            Some(IoOpcode::Write) => self.writes += 1,
            Some(IoOpcode::Flush) => self.flushes += 1,
            Some(IoOpcode::Pin) => self.pins += 1,
            Some(IoOpcode::Unpin) => self.unpins += 1,
            _ => {}
        }
    }

    /// Counts what the link carries for a command that is over.
    #[inline]
    pub(super) fn count_link(&mut self, qid: u16, command: &Command, to_host_bytes: u32) {
        if qid == 0 {
            return;
        }
        self.to_host_bytes += u64::from(to_host_bytes);
        // Who serves files has the link carry all of a command.
        if !command.io_opcode().is_some_and(IoOpcode::is_of_files) {
            self.from_host_bytes += size_of::<Command>() as u64;
            self.to_host_bytes += size_of::<Completion>() as u64;
        }
    }

    /// Accounts how long the core that ended last served a command.
    #[inline]
    pub(super) fn count_service(&mut self, qid: u16, served_ns: u32) {
        if qid != 0 {
            self.service_ns += u64::from(served_ns);
        }
    }
}
