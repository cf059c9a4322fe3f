//! Lending: the host memory feature.
//!
//! 1. Everything about the chunks is checked before anything changes. While pages are pinned, nothing
//!    is lent or taken back.
//! 2. The cores write back what is dirty. If one cannot, the memory stays as it is.
//! 3. Each core gets its share, and begins with empty frames.
//!
//! Pins and unpins are refused from step 2 to the end of step 3.

use std::sync::Arc;

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::host_memory::{DESCRIPTORS_MAX, HostMemoryDescriptor};
use wharf_wire::status::StatusCode;
use zerocopy::{FromZeros, IntoBytes};

use super::Controller;
use super::slots::After;
use crate::core::hmb::{Chunk, Hmb, divide};
use crate::core::part::PartOp;
use crate::ftl::CACHED_MAX;

/// The host's address of a frame: a multiple of 4096 with bit 63 clear.
const VADD_RESERVED: u64 = 1 << 63 | (PAGE_BYTES as u64 - 1);

impl Controller {
    /// The frames that the drive prefers to be lent, and the fewest it takes: one for every page that a
    /// core could have in a frame, and one for each core.
    pub(super) fn host_memory_sizes(&self) -> (u32, u32) {
        let cores = self.cores.len() as u32;
        let each = self.plan.logical_pages.min(CACHED_MAX);
        (each.saturating_mul(cores), cores)
    }

    /// Begins to lend memory, or to take it back.
    pub(super) fn set_host_memory(&mut self, command: Command) -> Result<Option<u32>, StatusCode> {
        if !self.config.host_memory.enabled {
            return Err(StatusCode::InvalidField);
        }
        if self.lending || self.formats_under_way > 0 {
            return Err(StatusCode::CommandSequenceError);
        }
        let chunks = match command.lends_host_memory() {
            true => self.hmb_chunks(&command)?,
            false => Vec::new(),
        };
        self.check_nothing_pinned()?;
        self.lending = true;
        self.to_lend = divide(&chunks, self.cores.len() as u32);
        self.broadcast(0, command, PartOp::WriteBack, 0, After::WriteBack);
        Ok(None)
    }

    /// Refuses what cannot be done while pages are pinned.
    pub(super) fn check_nothing_pinned(&self) -> Result<(), StatusCode> {
        match self.pins_out > 0
            || self
                .cores
                .iter()
                .any(|core| core.core_status.holds_frames())
        {
            true => Err(StatusCode::FramesPinned),
            false => Ok(()),
        }
    }

    /// Everything dirty is written back: each core gets its share.
    pub(super) fn lend(&mut self, command: Command) {
        for (link, share) in self.cores.iter_mut().zip(self.to_lend.drain(..)) {
            *link.core_status.hmb.lock().expect("no holder panics") = share.clone();
            link.hmb = share;
        }
        self.broadcast(0, command, PartOp::Lend, 0, After::Lend);
    }

    /// The end of a lending, done or not.
    pub(super) fn end_lending(&mut self, command: &Command, status: StatusCode) {
        self.lending = false;
        self.to_lend.clear();
        if status == StatusCode::Success {
            self.hmb_frames = match command.lends_host_memory() {
                true => command.host_memory_frames(),
                false => 0,
            };
        }
    }

    /// Reads and checks the descriptors.
    fn hmb_chunks(&self, command: &Command) -> Result<Vec<Chunk>, StatusCode> {
        let (list, entries) = command.host_memory_list();
        if !list.is_multiple_of(PAGE_BYTES as u64) {
            return Err(StatusCode::PrpOffsetInvalid);
        }
        if entries == 0 || entries > DESCRIPTORS_MAX {
            return Err(StatusCode::InvalidField);
        }
        let bytes = size_of::<HostMemoryDescriptor>() as u64;
        let chunks = (0..u64::from(entries)).map(|index| {
            let mut descriptor = HostMemoryDescriptor::new_zeroed();
            // SAFETY: the list is named by a command in flight and the controller alone reads it.
            unsafe {
                self.dma
                    .read_bytes(list + index * bytes, descriptor.as_mut_bytes())
            }
            .map_err(|_| StatusCode::DataTransferError)?;
            self.chunk(&descriptor)
        });
        let chunks: Vec<Chunk> = chunks.collect::<Result<_, _>>()?;
        let frames: u64 = chunks.iter().map(|c| c.table.frames() as u64).sum();
        let each = frames / self.cores.len() as u64;
        let counted = frames == u64::from(command.host_memory_frames());
        if !counted || each == 0 || each > u64::from(CACHED_MAX) {
            return Err(StatusCode::InvalidField);
        }
        Ok(chunks)
    }

    fn chunk(&self, descriptor: &HostMemoryDescriptor) -> Result<Chunk, StatusCode> {
        let HostMemoryDescriptor {
            badd,
            bsize,
            vadd,
            table,
            ..
        } = *descriptor;
        let length = u64::from(bsize) * PAGE_BYTES as u64;
        let end = vadd.checked_add(length).ok_or(StatusCode::InvalidField)?;
        if bsize == 0 || vadd & VADD_RESERVED != 0 || end > 1 << 63 {
            return Err(StatusCode::InvalidField);
        }
        let fault = |_| StatusCode::DataTransferError;
        self.dma.check_pages(badd, bsize as usize).map_err(fault)?;
        let table = self.dma.frame_table(table, bsize as usize).map_err(fault)?;
        Ok(Chunk {
            badd,
            vadd,
            table: Arc::new(table),
        })
    }
}

/// The shares of the cores, while they are on their way.
pub(super) type Shares = Vec<Arc<Hmb>>;
