//! I/O commands: checked whole before any part is sent, then split by stripe.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::dsm::{DsmRange, RANGES_MAX, read_ranges};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::status::{Status, StatusCode};

use super::pin::NO_ADDRESS;
use super::slots::After;
use super::{Controller, MDTS};
use crate::core::part::{Part, PartOp};
use crate::divide::{quotient, remainder};

/// The one namespace.
pub(super) const NAMESPACE: u32 = 1;

/// The namespace id that means all.
const ALL_NAMESPACES: u32 = u32::MAX;

impl Controller {
    /// Starts an I/O command, or answers it with what is wrong.
    pub(super) fn io_command(&mut self, qid: u16, command: Command) {
        if let Err(status) = self.start_io(qid, command) {
            let result = match command.io_opcode() {
                Some(IoOpcode::Pin) => NO_ADDRESS,
                _ => 0,
            };
            self.finish(qid, &command, Status::new(status), result, 0);
        }
    }

    fn start_io(&mut self, qid: u16, command: Command) -> Result<(), StatusCode> {
        let opcode = command
            .io_opcode()
            .filter(|opcode| self.has(*opcode))
            .ok_or(StatusCode::InvalidOpcode)?;
        command.check_flags()?;
        let all_allowed = opcode == IoOpcode::Flush;
        if command.nsid != NAMESPACE && !(all_allowed && command.nsid == ALL_NAMESPACES) {
            return Err(StatusCode::InvalidNamespace);
        }
        if self.formats_under_way > 0 {
            return Err(StatusCode::FormatInProgress);
        }
        match opcode {
            IoOpcode::Read => self.start_transfer(qid, command, PartOp::Read),
            IoOpcode::Write => self.start_transfer(qid, command, PartOp::Write),
            IoOpcode::Flush => {
                self.broadcast(qid, command, PartOp::Flush, 0, After::Nothing);
                Ok(())
            }
            IoOpcode::WriteZeroes | IoOpcode::Verify => {
                command.check_lba_range(self.namespace_pages)?;
                let op = if opcode == IoOpcode::Verify {
                    PartOp::Verify
                } else {
                    self.check_write_protection()?;
                    PartOp::WriteZeroes
                };
                let range = DsmRange::new(command.slba(), command.pages());
                self.start_ranges(qid, command, op, std::iter::once(range));
                Ok(())
            }
            IoOpcode::DatasetManagement => self.start_dataset_management(qid, command),
            IoOpcode::Pin => {
                let access = command.access()?;
                self.start_pin(qid, command, Some(access))
            }
            IoOpcode::Unpin => self.start_pin(qid, command, None),
        }
    }

    /// True if the drive has the command.
    #[inline]
    fn has(&self, opcode: IoOpcode) -> bool {
        !matches!(opcode, IoOpcode::Pin | IoOpcode::Unpin) || self.config.host_memory.enabled
    }

    /// Reads and writes: one part for each stripe touched.
    fn start_transfer(&mut self, qid: u16, command: Command, op: PartOp) -> Result<(), StatusCode> {
        command.check_lba_range(self.namespace_pages)?;
        if op == PartOp::Write {
            self.check_write_protection()?;
        }
        let (first, pages) = (command.slba(), command.pages());
        if pages > 1 << MDTS {
            return Err(StatusCode::InvalidField);
        }
        self.check_prp(&command, pages)?;
        let stripe = self.striping.stripe_pages;
        let last = first + u64::from(pages) - 1;
        let parts = (quotient(last, stripe) - quotient(first, stripe) + 1) as u32;
        let (to_host_pages, data_ready_ns) = match op {
            PartOp::Read => (pages, 0),
            _ => (0, self.from_host.carry(&self.cpu, pages)),
        };
        let slot = self
            .slots
            .take(qid, command, parts, to_host_pages, After::Nothing);
        let mut done = 0;
        while done < pages {
            let page = first + u64::from(done);
            let count = (stripe - remainder(page, stripe) as u32).min(pages - done);
            let (core, local) = self.striping.locate(page);
            let part = Part {
                prp1: command.prp1,
                prp2: command.prp2,
                data_ready_ns,
                taken_ns: 0,
                first: local,
                count,
                transfer_pages: pages,
                transfer_first: done,
                slot,
                qid: 0,
                op,
                fua: command.fua(),
            };
            self.cores[core as usize].map.prefetch(local);
            self.send(core, part);
            done += count;
        }
        Ok(())
    }

    /// Every page of the transfer must be in host memory before anything is changed.
    fn check_prp(&self, command: &Command, pages: u32) -> Result<(), StatusCode> {
        let read = |at| self.dma.read_prp(at);
        for address in prp_walk(command.prp1, command.prp2, pages, read) {
            let address = address.map_err(PrpError::status)?;
            let page = self.dma.page(address);
            page.map_err(|_| StatusCode::DataTransferError)?;
        }
        Ok(())
    }

    pub(super) fn check_write_protection(&self) -> Result<(), StatusCode> {
        match self.is_read_only() {
            true => Err(StatusCode::NamespaceWriteProtected),
            false => Ok(()),
        }
    }

    fn start_dataset_management(&mut self, qid: u16, command: Command) -> Result<(), StatusCode> {
        let count = command.range_count();
        let mut buffer = [0u8; PAGE_BYTES];
        let bytes = count as usize * size_of::<DsmRange>();
        if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
            return Err(StatusCode::PrpOffsetInvalid);
        }
        // SAFETY: the page is named by a command in flight and the controller alone reads it.
        unsafe { self.dma.read_bytes(command.prp1, &mut buffer[..bytes]) }
            .map_err(|_| StatusCode::DataTransferError)?;
        let mut ranges = [DsmRange::new(0, 0); RANGES_MAX];
        let read = read_ranges(&buffer, count).map_err(|_| StatusCode::InvalidField)?;
        for (slot, range) in ranges.iter_mut().zip(read) {
            range.check(self.namespace_pages)?;
            *slot = range;
        }
        let used = &ranges[..count as usize];
        if command.deallocates() {
            self.check_write_protection()?;
        }
        if !command.deallocates() || used.iter().all(|r| r.pages == 0) {
            // The other attributes are hints that this drive has no use for.
            self.finish(qid, &command, Status::SUCCESS, 0, 0);
            return Ok(());
        }
        self.start_ranges(qid, command, PartOp::Deallocate, used.iter().copied());
        Ok(())
    }

    /// Ranges that need no transfer: of each range every core gets its own pages, which are one
    /// range there.
    fn start_ranges(
        &mut self,
        qid: u16,
        command: Command,
        op: PartOp,
        ranges: impl Iterator<Item = DsmRange> + Clone,
    ) {
        let striping = self.striping;
        let of_core = move |range: &DsmRange, core: u32| {
            let first = striping.pages_below(range.slba, core);
            let end = striping.pages_below(range.slba + u64::from(range.pages), core);
            (first, end - first)
        };
        let cores = self.cores.len() as u32;
        let pairs =
            ranges.flat_map(move |range| (0..cores).map(move |core| (core, of_core(&range, core))));
        let parts = pairs.clone().filter(|(_, (_, count))| *count > 0).count() as u32;
        let slot = self.slots.take(qid, command, parts, 0, After::Nothing);
        // Dataset management has other fields where the others have FUA.
        let fua = op != PartOp::Deallocate && command.fua();
        for (core, (first, count)) in pairs.filter(|(_, (_, count))| *count > 0) {
            self.cpu.work(Op::CommandSplit, || ());
            let part = Part {
                first,
                count,
                fua,
                ..super::whole_part(op, slot, count)
            };
            self.send(core, part);
        }
    }
}
