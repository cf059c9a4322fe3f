//! The host's buffer: bytes out of it, and into it.
//!
//! The controller has checked that all of it is memory of the host. Each byte is copied once: what was checked is
//! what is used, whatever the host writes there meanwhile.

use smallvec::SmallVec;
use wharf_files::HostBytes;
use wharf_runtime::Op;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::status::StatusCode;

use super::Call;

/// Addresses of pages: those of most commands need no memory of their own.
pub(super) type SmallPages = SmallVec<[u64; 8]>;

/// A part of one page: its address, where it lies in the buffer.
type Piece = (u64, std::ops::Range<usize>);

impl Call<'_> {
    /// Bytes of the buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.command.file_bytes() as usize
    }

    /// Where in the first page the buffer begins.
    pub(super) fn offset(&self) -> usize {
        (self.command.prp1 % PAGE_BYTES as u64) as usize
    }

    /// The pages that the buffer lies in.
    pub(super) fn pages(&self) -> SmallPages {
        self.at
            .with_slot(|slot| SmallPages::from_slice(slot.addresses()))
    }

    /// The whole buffer, in its pages.
    pub(super) fn host_bytes<'p>(&self, pages: &'p [u64]) -> HostBytes<'p> {
        HostBytes::new(pages, self.offset(), self.buffer_bytes() as u64)
    }

    /// Where bytes of the buffer lie.
    fn pieces(&self, from: usize, bytes: usize) -> Vec<Piece> {
        let (mut at, end) = (from, from + bytes);
        let mut pieces = Vec::new();
        while at < end {
            let within = self.offset() + at;
            let (page, start) = (within / PAGE_BYTES, within % PAGE_BYTES);
            let address = self.at.with_slot(|slot| slot.address(page as u32));
            let to = end.min(at + PAGE_BYTES - start);
            pieces.push((address + start as u64, at - from..to - from));
            at = to;
        }
        pieces
    }

    /// Copies bytes from byte `from` of the buffer on.
    pub(super) fn copy_out(&self, from: usize, out: &mut [u8]) -> Result<(), StatusCode> {
        let core = self.at.core;
        for (address, range) in self.pieces(from, out.len()) {
            let part = &mut out[range];
            let copied = core.cpu.work(Op::DriveCopy, || {
                // SAFETY: the command is in flight and names the page as its source. A host that writes there all the
                // same changes what is copied, and nothing else.
                unsafe { core.dma().read_bytes(address, part) }
            });
            copied.map_err(|_| StatusCode::DataTransferError)?;
        }
        Ok(())
    }

    /// Copies bytes to the beginning of the buffer.
    pub(super) fn copy_in(&self, bytes: &[u8]) -> Result<(), StatusCode> {
        self.copy_in_at(0, bytes)
    }

    /// Copies bytes to byte `from` of the buffer on.
    pub(super) fn copy_in_at(&self, from: usize, bytes: &[u8]) -> Result<(), StatusCode> {
        let core = self.at.core;
        for (address, range) in self.pieces(from, bytes.len()) {
            let part = &bytes[range];
            let copied = core.cpu.work(Op::DriveCopy, || {
                // SAFETY: the command is in flight and names the page as its target.
                unsafe { core.dma().write_bytes(address, part) }
            });
            copied.map_err(|_| StatusCode::DataTransferError)?;
        }
        Ok(())
    }

    /// Waits until the link has carried so many bytes from the host.
    pub(super) async fn carry(&self, bytes: usize) {
        let core = self.at.core;
        let here_ns = core.from_host.carry(&core.cpu, bytes as u64);
        core.cpu.sleep_until(here_ns).await;
    }
}
