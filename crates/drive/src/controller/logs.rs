//! Log pages: errors, health, statistics.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{DeviceCacheLog, FileSystemLog};
use wharf_wire::log_page::{CriticalWarning, ErrorLogEntry, LogPage, SmartHealth, data_units};
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::space::SpacePage;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;
use zerocopy::{FromZeros, IntoBytes};

use super::MDTS;
use super::accounts::ERRORS_MAX;
use super::admin::check_for_controller;
use super::state::Controller;
use crate::ftl::blocks_needed;

/// SMART: percent of the spare blocks below which it warns.
const SPARE_THRESHOLD_PERCENT: u8 = 10;

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
            LogPage::Space => self.space_page().as_bytes().to_vec(),
            LogPage::FileSystem | LogPage::DeviceCache => {
                let mut features = self.features.iter();
                match features.find_map(|feature| feature.log_page(self, page)) {
                    Some(bytes) => bytes,
                    None => return StatusCode::InvalidLogPage,
                }
            }
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

    /// Checks what a get log page command asks for, and all host memory that it names.
    pub(super) fn check_log_transfer(
        &self,
        command: &Command,
        page: LogPage,
    ) -> Result<(), StatusCode> {
        check_for_controller(command, StatusCode::InvalidField)?;
        let (offset, length) = (command.log_page_offset(), command.log_page_bytes());
        let in_page = offset.is_multiple_of(4) && offset <= self.log_page_bytes(page);
        if !in_page || length > (PAGE_BYTES as u64) << MDTS {
            return Err(StatusCode::InvalidField);
        }
        // Copies of nothing check the addresses.
        self.copy_to_host(command, length, &[], 0)
    }

    fn log_page_bytes(&self, page: LogPage) -> u64 {
        let bytes = match page {
            LogPage::ErrorInformation => ERRORS_MAX * size_of::<ErrorLogEntry>(),
            LogPage::SmartHealth => size_of::<SmartHealth>(),
            LogPage::DriveStatistics => size_of::<DriveStatistics>(),
            LogPage::Space => size_of::<SpacePage>(),
            LogPage::FileSystem => size_of::<FileSystemLog>(),
            LogPage::DeviceCache => size_of::<DeviceCacheLog>(),
            LogPage::CoreStatistics => self.cores.len() * size_of::<DriveStatistics>(),
        };
        bytes as u64
    }

    /// Copies `bytes` from the command's offset on to the host, page by page, then zeros.
    fn transfer_log(&self, command: &Command, bytes: &[u8]) -> Result<(), StatusCode> {
        let offset = (command.log_page_offset() as usize).min(bytes.len());
        let asked = command.log_page_bytes();
        self.copy_to_host(command, asked, &bytes[offset..], asked as usize)
    }

    /// Copies `length` bytes, of which those beyond `bytes` are zeros, to the pages of a command that
    /// has room for `room` bytes.
    pub fn copy_to_host(
        &self,
        command: &Command,
        room: u64,
        bytes: &[u8],
        length: usize,
    ) -> Result<(), StatusCode> {
        let pages = room.div_ceil(PAGE_BYTES as u64) as u32;
        let read = |at| self.dma.read_prp(at);
        let mut done = 0;
        for address in prp_walk(command.prp1, command.prp2, pages, read) {
            let address = address.map_err(PrpError::status)?;
            let count = (length - done).min(PAGE_BYTES);
            if count == 0 && done > 0 {
                break;
            }
            let mut page = [0u8; PAGE_BYTES];
            let rest = &bytes[done.min(bytes.len())..];
            let data = &rest[..rest.len().min(count)];
            page[..data.len()].copy_from_slice(data);
            // SAFETY: the page is named by a command in flight and the controller alone writes it.
            unsafe { self.dma.write_bytes(address, &page[..count]) }
                .map_err(|_| StatusCode::DataTransferError)?;
            done += count;
        }
        Ok(())
    }

    /// What the cores reported. Commands, which several cores may serve, are counted as the first
    /// core's.
    fn core_statistics(&self) -> impl Iterator<Item = DriveStatistics> {
        self.cores().map(|core| {
            let report = core.latest_report();
            let mut report = report.expect("every core has answered");
            if report.core == 0 {
                report.host_read_commands = self.host_commands.reads;
                report.host_write_commands = self.host_commands.writes;
                report.flush_commands = self.host_commands.flushes;
                report.pin_commands = self.host_commands.pins;
                report.unpin_commands = self.host_commands.unpins;
                report.service_ns = self.host_commands.service_ns;
                report.link_to_host_bytes =
                    self.host_commands.to_host_bytes + self.to_host.loaded_bytes();
                report.link_from_host_bytes =
                    self.host_commands.from_host_bytes + self.from_host.bytes();
            }
            report
        })
    }

    /// The whole drive's statistics: the sum of the cores'.
    pub(super) fn statistics(&self) -> DriveStatistics {
        let mut all = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
        self.core_statistics().for_each(|core| all.merge(&core));
        all
    }

    fn smart(&self) -> SmartHealth {
        let all = self.statistics();
        let mut smart = SmartHealth::new_zeroed();
        let worn = u64::from(self.config.ftl.endurance_cycles);
        if worn > 0 {
            // A retired block has seen all its cycles.
            let cycles = all.erase_count_sum + all.retired_blocks * worn;
            let used = cycles * 100 / ((all.blocks + all.retired_blocks) * worn);
            smart.percentage_used = used.min(255) as u8;
        }
        smart.available_spare = self.spare_percent();
        smart.available_spare_threshold = SPARE_THRESHOLD_PERCENT;
        let spare_low = smart.available_spare < SPARE_THRESHOLD_PERCENT;
        smart.set_warning(CriticalWarning::SpareLow, spare_low);
        smart.set_warning(CriticalWarning::ReadOnly, self.is_read_only());
        smart.data_units_read = data_units(all.host_read_pages);
        smart.data_units_written = data_units(all.write_amplification_host_pages);
        smart.host_read_commands = u128::from(all.host_read_commands);
        smart.host_write_commands = u128::from(all.host_write_commands);
        smart.media_errors = u128::from(all.unrecovered_reads);
        smart.error_log_entries = u128::from(self.errors.count);
        smart
    }

    /// Blocks beyond those that a core must have, of as many as it had when new, in percent; of
    /// the core that has the fewest left.
    fn spare_percent(&self) -> u8 {
        if self.config.as_disk().is_some() {
            return 100;
        }
        let needed = u64::from(blocks_needed(&self.plan));
        let new = u64::from(self.plan.blocks) - needed;
        let percent = |core: DriveStatistics| match core.blocks.checked_sub(needed) {
            None => 0,
            Some(_) if new == 0 => 100,
            Some(left) => left * 100 / new,
        };
        self.core_statistics().map(percent).min().unwrap_or(0) as u8
    }
}
