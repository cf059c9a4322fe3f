//! Pages of the host, as a core copies from and to them.

use wharf_runtime::Op;
use wharf_wire::dma::HostPage;
use wharf_wire::status::StatusCode;

use super::commands::{Failed, Share};
use super::state::Core;
use super::stuck::{Busy, Patience, Stuck};
use crate::ftl::Ftl;
use crate::link::PAGE_BYTES;
use crate::media::MediaError;

impl Core {
    /// Host page number `index` of a share's, counted from its first.
    #[inline]
    pub fn host_address(&self, share: &Share, index: u32) -> u64 {
        let slots = self.slots.borrow();
        slots.get(share.slot).address(u32::from(share.skip) + index)
    }

    /// The page at an address of a transfer: the host's, or the drive's own.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn transfer_page(&self, address: u64) -> Result<HostPage<'_>, StatusCode> {
        let page = self.dma.page(address);
        page.or_else(|_| self.own_page(address))
    }

    #[cold]
    fn own_page(&self, address: u64) -> Result<HostPage<'_>, StatusCode> {
        let own = self
            .memory
            .as_ref()
            .and_then(|memory| memory.page(address).ok());
        own.ok_or(StatusCode::DataTransferError)
    }

    /// Has `f` make the whole of a page of the host's.
    #[inline]
    pub fn with_host_page<R>(
        &self,
        address: u64,
        lpn: u32,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Failed> {
        let page = self
            .transfer_page(address)
            .map_err(|status| Failed { status, lpn })?;
        // SAFETY: a command in flight names the page as its target, and its share alone serves it.
        Ok(unsafe { self.fill_page(page, f) })
    }

    /// Has `f` make the whole of a page. What other processes can write gets a copy: of bytes that may
    /// change meanwhile no checksum can be taken.
    ///
    /// # Safety
    /// Nobody else in this process uses the page.
    #[inline]
    pub unsafe fn fill_page<R>(&self, page: HostPage<'_>, f: impl FnOnce(&mut [u8]) -> R) -> R {
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

    /// Copies a page from its frame by `copy`, which crosses the link, as frames are the host's memory; waits while
    /// the host writes to it. False if the page is in no frame any more.
    ///
    /// # Errors
    /// Of the copy; if the frame stays busy for too long.
    pub async fn copy_from_frame(
        &self,
        lpn: u32,
        mut copy: impl FnMut() -> Result<Option<Result<(), Busy>>, Failed>,
    ) -> Result<bool, Failed> {
        let mut patience = Patience::default();
        loop {
            let here_ns = self.from_host.carry(&self.cpu, PAGE_BYTES);
            self.cpu.sleep_until(here_ns).await;
            match copy()? {
                Some(Ok(())) => return Ok(true),
                Some(Err(Busy)) => {
                    let waited = self.wait_out(Stuck::Busy, &mut patience).await;
                    waited.map_err(|status| Failed { status, lpn })?;
                }
                None => return Ok(false),
            }
        }
    }

    /// Reads a page of this core's as a read of the host's would: from its frame, the write buffer
    /// or flash. Waits for flash, and while the host writes to the frame.
    ///
    /// # Errors
    /// If the page cannot be read, or stays busy for too long.
    pub async fn read_page(&self, lpn: u32, out: &mut [u8]) -> Result<(), Failed> {
        if self.may_cache() && self.with_ftl(|ftl| self.is_in_frame(ftl, lpn)) {
            let copy = || Ok(self.copying(1, || self.copy_cached(lpn, out)));
            if self.copy_from_frame(lpn, copy).await? {
                return Ok(());
            }
        }
        let now_ns = self.flash_now();
        let end_ns = self.cpu.work(Op::MapLookup, || {
            self.with_ftl(|ftl| read_page(ftl, now_ns, lpn, out))
        })?;
        self.cpu.sleep_until(end_ns).await;
        Ok(())
    }
}

/// Reads one page for the host from below its frame; gives when the flash has delivered it.
///
/// # Errors
/// If the page cannot be read.
pub fn read_page(ftl: &mut Ftl, now_ns: u64, lpn: u32, out: &mut [u8]) -> Result<u64, Failed> {
    ftl.read(now_ns, lpn, out)
        .map_err(|error| unreadable(ftl, lpn, &error))
}

/// What the host is told of a page that cannot be read.
#[cold]
pub fn unreadable(ftl: &mut Ftl, lpn: u32, error: &MediaError) -> Failed {
    let status = match error {
        MediaError::Rot { .. } => StatusCode::UnrecoveredReadError,
        _ => StatusCode::InternalError,
    };
    ftl.counters_mut().unrecovered_reads += u64::from(status == StatusCode::UnrecoveredReadError);
    Failed { status, lpn }
}
