//! Log pages: errors, health, statistics.

use std::collections::VecDeque;

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::log_page::{ErrorLogEntry, LogPage, SmartHealth};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::{Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use super::{Controller, MDTS};

/// Entries of the error log.
const ERRORS_MAX: usize = 64;

/// 512-byte units in a page, in thousands, as SMART counts data: pages * 8 / 1000.
const UNITS_PER_PAGE: u128 = 8;

/// SMART: the namespace has become read-only.
const WARNING_READ_ONLY: u8 = 1 << 3;

/// The latest failures, newest first.
#[derive(Default)]
pub(super) struct ErrorLog {
    count: u64,
    entries: VecDeque<ErrorLogEntry>,
}

impl ErrorLog {
    /// Remembers a failed command.
    pub(super) fn record(&mut self, qid: u16, command: &Command, status: Status) {
        self.count += 1;
        self.entries.truncate(ERRORS_MAX - 1);
        let mut entry = ErrorLogEntry::default().with_status(status);
        entry.error_count = self.count;
        entry.sqid = qid;
        entry.cid = command.cid;
        entry.parameter_error_location = ErrorLogEntry::NO_FIELD;
        entry.lba = command.slba();
        entry.nsid = command.nsid;
        self.entries.push_front(entry);
    }
}

/// Commands completed, by kind, as the controller alone can count them.
#[derive(Default)]
pub(super) struct HostCommands {
    reads: u64,
    writes: u64,
    flushes: u64,
    zeroed_pages: u64,
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
            Some(IoOpcode::WriteZeroes) => self.zeroed_pages += u64::from(command.pages()),
            _ => {}
        }
    }
}

impl Controller {
    /// Fills the page that a get log page command asks for.
    pub(super) fn write_log_page(&self, command: &Command) -> StatusCode {
        let Some(page) = command.log_page() else {
            return StatusCode::InvalidLogPage;
        };
        let bytes = match page {
            LogPage::ErrorInformation => {
                let mut entries: Vec<ErrorLogEntry> = self.errors.entries.iter().copied().collect();
                entries.resize(ERRORS_MAX, ErrorLogEntry::default());
                entries.as_bytes().to_vec()
            }
            LogPage::SmartHealth => self.smart().as_bytes().to_vec(),
            LogPage::DriveStatistics => self.statistics().as_bytes().to_vec(),
            LogPage::CoreStatistics => self
                .core_statistics()
                .flat_map(|report| report.as_bytes().to_vec())
                .collect(),
        };
        match self.transfer_log(command, &bytes) {
            Ok(()) => StatusCode::Success,
            Err(status) => status,
        }
    }

    /// Copies `bytes` from the command's offset on to the host, page by page.
    fn transfer_log(&self, command: &Command, bytes: &[u8]) -> Result<(), StatusCode> {
        let length = command.log_page_bytes();
        let offset =
            usize::try_from(command.log_page_offset()).map_err(|_| StatusCode::InvalidField)?;
        if offset > bytes.len() || length > (PAGE_BYTES as u64) << MDTS {
            return Err(StatusCode::InvalidField);
        }
        let pages = length.div_ceil(PAGE_BYTES as u64) as u32;
        let mut rest = &bytes[offset..];
        let mut left = length as usize;
        let read = |at| self.dma.read_u64(at);
        for address in prp_walk(command.prp1, command.prp2, pages, read) {
            let address = address.map_err(PrpError::status)?;
            let count = rest.len().min(left).min(PAGE_BYTES);
            let (now, later) = rest.split_at(count);
            // SAFETY: the page is named by a command in flight and the controller alone writes it.
            unsafe { self.dma.write_bytes(address, now) }
                .map_err(|_| StatusCode::DataTransferError)?;
            rest = later;
            left -= count;
        }
        Ok(())
    }

    fn core_statistics(&self) -> impl Iterator<Item = DriveStatistics> {
        self.cores.iter().map(|core| {
            let report = core.shelf.report.lock().expect("no holder panics");
            report.expect("every core has answered")
        })
    }

    /// The whole drive's statistics: the sum of the cores', and what only the controller sees.
    fn statistics(&self) -> DriveStatistics {
        let mut all = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
        self.core_statistics().for_each(|core| all.merge(&core));
        all.host_read_commands = self.host_commands.reads;
        all.host_write_commands = self.host_commands.writes;
        all.flush_commands = self.host_commands.flushes;
        all.zeroed_pages = self.host_commands.zeroed_pages;
        all
    }

    fn smart(&self) -> SmartHealth {
        let all = self.statistics();
        let mut smart = SmartHealth::new_zeroed();
        let worn = self.config.ftl.endurance_cycles;
        if worn > 0 && all.blocks + all.retired_blocks > 0 {
            let used = all.erase_count_sum / (all.blocks + all.retired_blocks);
            smart.percentage_used = (used * 100 / u64::from(worn)).min(255) as u8;
        }
        let total = (all.blocks + all.retired_blocks).max(1);
        smart.available_spare = (all.blocks * 100 / total) as u8;
        smart.available_spare_threshold = 90;
        if self.cores.iter().any(|core| core.shelf.is_read_only()) {
            smart.critical_warning |= WARNING_READ_ONLY;
        }
        smart.data_units_read = u128::from(all.host_read_pages) * UNITS_PER_PAGE / 1000;
        smart.data_units_written = u128::from(all.host_write_pages) * UNITS_PER_PAGE / 1000;
        smart.host_read_commands = u128::from(all.host_read_commands);
        smart.host_write_commands = u128::from(all.host_write_commands);
        smart.media_errors = u128::from(all.unrecovered_reads);
        smart.error_log_entries = u128::from(self.errors.count);
        smart
    }
}
