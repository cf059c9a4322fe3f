//! Reading and verifying the pages of a part.

use wharf_runtime::Op;
use wharf_wire::dma::HostPage;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::status::StatusCode;

use super::Core;
use super::cache::{Busy, Patience, Stuck};
use super::part::{Failed, Part};
use crate::ftl::{Ftl, NONE, Place};
use crate::media::MediaError;

/// Among the physical pages of a part: the page is in a frame of the host memory buffer.
const IN_FRAME: u32 = NONE - 1;

impl Core {
    /// Starts all page reads, waits for the last, delivers.
    pub(super) async fn read(&self, worker: u32, part: &Part) -> Result<(), Failed> {
        self.force_unit_access(part).await?;
        let now_ns = self.flash_now();
        let mut pages = self.workers[worker as usize].pages.take();
        let end_ns = self.cpu.work_n(Op::MapLookup, part.count, || {
            self.with_ftl(|ftl| self.start_reads(ftl, now_ns, part, &mut pages))
        });
        self.found_by_table(part.count);
        let outcome = match end_ns {
            Ok(end_ns) => {
                self.cpu.sleep_until(end_ns).await;
                match self.deliver(part, &pages) {
                    Ok(()) if pages.contains(&IN_FRAME) => self.deliver_cached(part, &pages).await,
                    outcome => outcome,
                }
            }
            Err(failed) => Err(failed),
        };
        pages.clear();
        self.workers[worker as usize].pages.replace(pages);
        outcome
    }

    /// With FUA, what is acknowledged becomes durable before it is read.
    async fn force_unit_access(&self, part: &Part) -> Result<(), Failed> {
        if !part.fua {
            return Ok(());
        }
        let failed = |status| Failed {
            status,
            lpn: part.first,
        };
        self.write_back(part.first..part.first + part.count)
            .await
            .map_err(failed)?;
        match self.make_durable().await {
            StatusCode::Success => Ok(()),
            status => Err(failed(status)),
        }
    }

    /// Starts the reads of a part's pages, and notes which they are; copies what is not on flash.
    fn start_reads(
        &self,
        ftl: &mut Ftl,
        now_ns: u64,
        part: &Part,
        pages: &mut Vec<u32>,
    ) -> Result<u64, Failed> {
        let (mut end_ns, caches) = (now_ns, self.may_cache());
        for (lpn, address) in (part.first..).zip(self.addresses(part)) {
            match ftl.place(lpn) {
                _ if caches && self.is_in_frame(ftl, lpn) => pages.push(IN_FRAME),
                Place::Flash(ppn) => {
                    end_ns = end_ns.max(ftl.start_read(now_ns, ppn));
                    pages.push(ppn);
                }
                place => {
                    let copy = |page: &mut [u8]| ftl.copy_from_memory(place, page);
                    self.copying(1, || self.with_host_page(address, lpn, copy))?;
                    pages.push(NONE);
                }
            }
        }
        ftl.counters_mut().host_reads += u64::from(part.count);
        Ok(end_ns)
    }

    /// Copies the pages that were read to the host.
    fn deliver(&self, part: &Part, pages: &[u32]) -> Result<(), Failed> {
        self.with_ftl(|ftl| {
            for ((lpn, ppn), address) in (part.first..).zip(pages).zip(self.addresses(part)) {
                if *ppn < IN_FRAME {
                    let read = |page: &mut [u8]| ftl.finish_read(lpn, *ppn, page);
                    let done = self.copying(1, || self.with_host_page(address, lpn, read))?;
                    done.map_err(|error| unreadable(ftl, lpn, &error))?;
                }
            }
            Ok(())
        })
    }

    /// Copies the pages that were in frames to the host.
    async fn deliver_cached(&self, part: &Part, pages: &[u32]) -> Result<(), Failed> {
        let in_frames = (0..).zip(pages).filter(|(_, ppn)| **ppn == IN_FRAME);
        for (index, _) in in_frames {
            self.deliver_from_frame(part, index).await?;
        }
        Ok(())
    }

    /// Copies page number `index` of a part to the host; if it has lost its frame since, it is read.
    async fn deliver_from_frame(&self, part: &Part, index: u32) -> Result<(), Failed> {
        let (lpn, mut patience) = (part.first + index, Patience::default());
        let address = || {
            let mut addresses = self.addresses(part);
            addresses.nth(index as usize).expect("one for each page")
        };
        loop {
            // Lent memory is the host's: the page crosses the link twice.
            let here_ns = self.from_host.carry(&self.cpu, 1);
            self.cpu.sleep_until(here_ns).await;
            let copy = |page: &mut [u8]| self.copy_cached(lpn, page);
            let copied = self.copying(1, || self.with_host_page(address(), lpn, copy))?;
            match copied {
                Some(Ok(())) => return Ok(()),
                Some(Err(Busy)) => {
                    let waited = self.wait_out(Stuck::Busy, &mut patience).await;
                    waited.map_err(|status| Failed { status, lpn })?;
                }
                None => {
                    let now_ns = self.flash_now();
                    let read =
                        |page: &mut [u8]| self.with_ftl(|ftl| read_page(ftl, now_ns, lpn, page));
                    let end_ns = self.with_host_page(address(), lpn, read)??;
                    self.cpu.sleep_until(end_ns).await;
                    return Ok(());
                }
            }
        }
    }

    /// Has `f` make the whole of a page of the host's.
    #[inline]
    fn with_host_page<R>(
        &self,
        address: Result<u64, PrpError>,
        lpn: u32,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Failed> {
        let failed = |status| Failed { status, lpn };
        let address = address.map_err(|error| failed(error.status()))?;
        let page = self.dma.page(address);
        let page = page.map_err(|_| failed(StatusCode::DataTransferError))?;
        // SAFETY: a command in flight names the page as its target, and its part alone serves it.
        Ok(unsafe { self.fill_page(page, f) })
    }

    /// Has `f` make the whole of a page. What other processes can write gets a copy: of bytes that may
    /// change meanwhile no checksum can be taken.
    ///
    /// # Safety
    /// Nobody else in this process uses the page.
    #[inline]
    pub(super) unsafe fn fill_page<R>(
        &self,
        page: HostPage<'_>,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        if !page.is_shared() {
            // SAFETY: the caller's contract, and no other process has the page.
            return f(unsafe { page.bytes_mut() });
        }
        let mut copy = self.filling.borrow_mut();
        copy.resize(page.bytes(), 0);
        let made = f(&mut copy);
        // SAFETY: the caller's contract.
        unsafe { page.copy_in(&copy) };
        made
    }

    /// The host pages of a part, in order.
    #[inline]
    pub(super) fn addresses(&self, part: &Part) -> impl Iterator<Item = Result<u64, PrpError>> {
        let dma = &self.dma;
        prp_walk(part.prp1, part.prp2, part.transfer_pages, |at| {
            dma.read_prp(at)
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
fn read_page(ftl: &mut Ftl, now_ns: u64, lpn: u32, out: &mut [u8]) -> Result<u64, Failed> {
    ftl.read(now_ns, lpn, out)
        .map_err(|error| unreadable(ftl, lpn, &error))
}

/// What the host is told of a page that cannot be read.
#[cold]
pub(super) fn unreadable(ftl: &mut Ftl, lpn: u32, error: &MediaError) -> Failed {
    let status = match error {
        MediaError::Rot { .. } => StatusCode::UnrecoveredReadError,
        _ => StatusCode::InternalError,
    };
    ftl.counters_mut().unrecovered_reads += u64::from(status == StatusCode::UnrecoveredReadError);
    Failed { status, lpn }
}
