//! Reading and verifying the pages of a part.

use wharf_runtime::Op;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::status::StatusCode;

use super::Core;
use super::part::{Failed, Part};
use crate::ftl::Ftl;
use crate::media::MediaError;

impl Core {
    /// Starts all page reads, waits for the last.
    pub(super) async fn read(&self, part: &Part) -> Result<(), Failed> {
        self.force_unit_access(part).await?;
        let now_ns = self.flash_now();
        let end_ns = self.cpu.work_n(Op::MapLookup, part.count, || {
            self.with_ftl(|ftl| self.start_reads(ftl, now_ns, part))
        })?;
        self.cpu.sleep_until(end_ns).await;
        Ok(())
    }

    /// With FUA, what is acknowledged becomes durable before it is read.
    async fn force_unit_access(&self, part: &Part) -> Result<(), Failed> {
        if !part.fua {
            return Ok(());
        }
        match self.make_durable().await {
            StatusCode::Success => Ok(()),
            status => Err(Failed {
                status,
                lpn: part.first,
            }),
        }
    }

    fn start_reads(&self, ftl: &mut Ftl, now_ns: u64, part: &Part) -> Result<u64, Failed> {
        let mut end_ns = now_ns;
        for (lpn, address) in (part.first..).zip(self.addresses(part)) {
            let address = address.map_err(|error| Failed {
                status: error.status(),
                lpn,
            })?;
            // SAFETY: the page is named by a command in flight, and this part alone serves it.
            let page = unsafe { self.dma.page_mut(address) }.map_err(|_| Failed {
                status: StatusCode::DataTransferError,
                lpn,
            })?;
            end_ns = end_ns.max(read_page(ftl, now_ns, lpn, page)?);
        }
        ftl.counters_mut().host_reads += u64::from(part.count);
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
    pub(super) async fn verify(&self, part: &Part) -> Result<(), Failed> {
        self.force_unit_access(part).await?;
        let mut page = vec![0u8; self.dma.page_bytes()];
        // In steps, so that a verify of the whole drive does not hold up the core.
        for first in (part.first..part.first + part.count).step_by(64) {
            let now_ns = self.flash_now();
            let last = (first + 64).min(part.first + part.count);
            let end_ns = self.cpu.work_n(Op::MapLookup, last - first, || {
                self.with_ftl(|ftl| {
                    (first..last).try_fold(now_ns, |end_ns, lpn| {
                        read_page(ftl, now_ns, lpn, &mut page).map(|at| end_ns.max(at))
                    })
                })
            })?;
            self.cpu.sleep_until(end_ns).await;
            self.cpu.yield_now().await;
        }
        Ok(())
    }
}

/// Reads one page for the host.
#[inline]
fn read_page(ftl: &mut Ftl, now_ns: u64, lpn: u32, out: &mut [u8]) -> Result<u64, Failed> {
    ftl.read(now_ns, lpn, out).map_err(|error| {
        let status = match error {
            MediaError::Rot { .. } => StatusCode::UnrecoveredReadError,
            _ => StatusCode::InternalError,
        };
        ftl.counters_mut().unrecovered_reads +=
            u64::from(status == StatusCode::UnrecoveredReadError);
        Failed { status, lpn }
    })
}
