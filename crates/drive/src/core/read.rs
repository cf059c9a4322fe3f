//! Reading and verifying the pages of a part.

use wharf_runtime::Op;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::status::StatusCode;

use super::Core;
use super::part::Part;
use crate::ftl::Ftl;
use crate::media::MediaError;

impl Core {
    /// Starts all page reads, waits for the last.
    pub(super) async fn read(&self, part: &Part) -> StatusCode {
        let now_ns = self.flash_now();
        let started = self.cpu.work_n(Op::MapLookup, part.count, || {
            self.with_ftl(|ftl| self.start_reads(ftl, now_ns, part))
        });
        match started {
            Ok(end_ns) => {
                self.cpu.sleep_until(end_ns).await;
                StatusCode::Success
            }
            Err(status) => status,
        }
    }

    fn start_reads(&self, ftl: &mut Ftl, now_ns: u64, part: &Part) -> Result<u64, StatusCode> {
        let mut end_ns = now_ns;
        let mut lpn = part.first;
        for address in self.addresses(part) {
            let address = address.map_err(PrpError::status)?;
            // SAFETY: the page is named by a command in flight, and this part alone serves it.
            let page =
                unsafe { self.dma.page_mut(address) }.map_err(|_| StatusCode::DataTransferError)?;
            end_ns = end_ns.max(ftl.read(now_ns, lpn, page).map_err(|e| read_status(&e))?);
            lpn += 1;
        }
        Ok(end_ns)
    }

    /// The host pages of a part, in order.
    #[inline]
    pub(super) fn addresses(&self, part: &Part) -> impl Iterator<Item = Result<u64, PrpError>> {
        let dma = &self.dma;
        prp_walk(part.prp1, part.prp2, part.transfer_pages, |at| {
            dma.read_u64(at)
        })
        .skip(part.transfer_first as usize)
        .take(part.count as usize)
    }

    /// Reads the pages without moving them.
    pub(super) async fn verify(&self, part: &Part) -> StatusCode {
        let mut page = vec![0u8; self.dma.page_bytes()];
        // In steps, so that a verify of the whole drive does not hold up the core.
        for first in (part.first..part.first + part.count).step_by(64) {
            let now_ns = self.flash_now();
            let last = (first + 64).min(part.first + part.count);
            let started = self.cpu.work_n(Op::MapLookup, last - first, || {
                self.with_ftl(|ftl| {
                    let mut end_ns = now_ns;
                    for lpn in first..last {
                        end_ns = end_ns.max(ftl.read(now_ns, lpn, &mut page)?);
                    }
                    Ok(end_ns)
                })
            });
            match started {
                Ok(end_ns) => self.cpu.sleep_until(end_ns).await,
                Err(error) => return read_status(&error),
            }
            self.cpu.yield_now().await;
        }
        StatusCode::Success
    }
}

/// What the host is told of a page that cannot be read.
pub(super) fn read_status(error: &MediaError) -> StatusCode {
    match error {
        MediaError::Rot { .. } => StatusCode::UnrecoveredReadError,
        _ => StatusCode::InternalError,
    }
}
