//! The design without a cache: every request goes to the drive.
//!
//! Reads take no locks. Writes lock the pages they touch against all other writes, since a write
//! that covers a page in part reads the page first, and no other write may come in between; such a
//! page is then written whole. Large requests go in chunks of [`CHUNK_PAGES`] pages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Op};
use wharf_wire::dma::DmaSpace;

use crate::buffers::Buffers;
use crate::design::{
    Client, Counters, Design, DesignConfig, DesignError, Needs, NoSettings, Parts, Statistics,
    Touch, check_request,
};
use crate::error::IoError;
use crate::group::Group;
use crate::kit::kernel_path::KernelPath;
use crate::late::LateCompletions;
use crate::span::{Extent, Span, spans};
use crate::volume::{Transfer, Volume};
use wharf_runtime::range_lock::{RangeGuard, RangeLocks};
use wharf_runtime::wake::Mailboxes;

/// Most pages that a request has in flight at a time: 1 MiB.
pub const CHUNK_PAGES: usize = 256;

/// What the clients share: the locked ranges.
pub struct Direct {
    space: Arc<DmaSpace>,
    locks: Arc<RangeLocks>,
    mailboxes: Arc<Mailboxes>,
    transfer_pages: u32,
    kernel_path: KernelPath,
}

impl Design for Direct {
    const NAME: &'static str = "direct";

    const SUMMARY: &'static str = "no cache: every request goes to the drive";

    const HAS_CACHE: bool = false;

    type Config = NoSettings;

    type Client = DirectClient;

    fn needs(config: &DesignConfig, _: &NoSettings) -> Needs {
        Needs {
            in_kernel: config.in_kernel,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        _: &NoSettings,
        space: &Arc<DmaSpace>,
    ) -> Result<Direct, DesignError> {
        let design = Self::NAME;
        if config.clients == 0 {
            return Err(DesignError::NoClients { design });
        }
        if config.transfer_pages == 0 {
            return Err(DesignError::NoTransferPages { design });
        }
        let mailboxes = Mailboxes::new(config.clients);
        Ok(Direct {
            space: space.clone(),
            locks: Arc::new(RangeLocks::new(mailboxes.clone())),
            mailboxes,
            transfer_pages: config.transfer_pages,
            kernel_path: KernelPath::new(config.in_kernel, config.file_system),
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<DirectClient, DesignError> {
        let design = Self::NAME;
        let buffers = Buffers::new(&self.space, self.transfer_pages)
            .map_err(|source| DesignError::Memory { design, source })?;
        let (volume, Parts { cpu, index, .. }) = (parts.cache(), parts);
        let inner = Rc::new(Inner {
            cpu: cpu.clone(),
            volume,
            index,
            buffers,
            locks: self.locks.clone(),
            page_bytes: self.space.page_bytes(),
            kernel_path: self.kernel_path,
            counters: Counters::default(),
            next_lock: Cell::new(0),
            spare: RefCell::default(),
            late: LateCompletions::default(),
        });
        self.mailboxes.serve(&cpu, index);
        let owner = inner.clone();
        cpu.spawn("direct late completions", async move {
            let release = |_, held| owner.release(held);
            owner.late.run(&owner.cpu, release).await;
        });
        Ok(DirectClient(inner))
    }
}

impl Direct {
    /// The same for a file system in the operating system: requests come from within, and enter by no system call.
    #[must_use]
    pub fn from_within(self) -> Direct {
        Direct {
            kernel_path: self.kernel_path.from_within(),
            ..self
        }
    }
}

/// One client.
pub struct DirectClient(Rc<Inner>);

struct Inner {
    cpu: Cpu,
    volume: Rc<Volume>,
    index: u32,
    buffers: Buffers,
    locks: Arc<RangeLocks>,
    page_bytes: usize,
    kernel_path: KernelPath,
    counters: Counters,
    next_lock: Cell<u64>,
    /// Vectors of requests that are done, to be used again.
    spare: RefCell<Vec<Pages>>,
    late: LateCompletions<Held>,
}

#[derive(Default)]
struct Pages {
    numbers: Vec<u32>,
    addresses: Vec<u64>,
}

/// What a request holds: pages and, if it writes, its range.
struct Held {
    pages: Pages,
    range: Option<RangeGuard>,
}

/// A request under way. Dropping it gives back what it holds, once the drive is done with it.
struct Request<'a> {
    inner: &'a Inner,
    group: Option<Group>,
    held: Option<Held>,
}

impl DirectClient {
    /// Deallocates ranges of pages (first page and number of pages): they read as zeros then. Nobody
    /// may write them meanwhile.
    ///
    /// # Errors
    /// Pages out of range, and then nothing is done; an error of the drive.
    pub async fn deallocate(&self, ranges: &[(u64, u64)]) -> Result<(), IoError> {
        self.0.volume.deallocate_many(&self.0.cpu, ranges).await
    }
}

impl Client for DirectClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let inner = &*self.0;
        inner.counters.reads.add(1);
        inner
            .counters
            .end(inner.read(extent, out).await, |touch| *touch)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let inner = &*self.0;
        inner.counters.writes.add(1);
        inner
            .counters
            .end(inner.write(extent, data).await, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let inner = &*self.0;
        inner.counters.flushes.add(1);
        inner
            .counters
            .end(inner.volume.flush(&inner.cpu).await, |()| Touch::default())
    }

    fn statistics(&self) -> Statistics {
        self.0.counters.statistics(&self.0.volume)
    }
}

impl Inner {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        check_request(&self.volume, self.page_bytes, extent, out.len())?;
        self.kernel_path.request(&self.cpu);
        if let Some(span) = only_span(extent, self.page_bytes)
            && let Some(mut page) = self.begin_page()
        {
            page.transfer(Transfer::Read, span.page).await?;
            page.with(|page| out.copy_from_slice(&page[span.in_page()]));
            return Ok(Touch::no_hits(1));
        }
        let mut request = self.begin();
        let mut rest = spans(extent, self.page_bytes);
        let mut left = extent.pages() as usize;
        while left > 0 {
            let count = request.take_pages(left).await;
            let first = rest.clone().next().expect("a page is left").page;
            request.transfer(Transfer::Read, first, 0..count).await?;
            for (at, span) in rest.by_ref().take(count).enumerate() {
                let into = &mut out[span.in_payload()];
                request.on_page(at, |page| into.copy_from_slice(&page[span.in_page()]));
            }
            left -= count;
        }
        Ok(Touch::no_hits(extent.pages()))
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        check_request(&self.volume, self.page_bytes, extent, data.len())?;
        self.kernel_path.request(&self.cpu);
        if extent.bytes == 0 {
            return Ok(Touch::default());
        }
        let range = self.lock(extent).await;
        if let Some(span) = only_span(extent, self.page_bytes)
            && let Some(mut page) = self.begin_page()
        {
            page.range = Some(range);
            return page.write(&span, data).await;
        }
        let mut request = self.begin();
        request.held().range = Some(range);
        let mut rest = spans(extent, self.page_bytes);
        let mut left = extent.pages() as usize;
        while left > 0 {
            let count = request.take_pages(left).await;
            request.read_edges(rest.clone().take(count)).await?;
            let first = rest.clone().next().expect("a page is left").page;
            for (at, span) in rest.by_ref().take(count).enumerate() {
                let from = &data[span.in_payload()];
                request.on_page(at, |page| page[span.in_page()].copy_from_slice(from));
            }
            request.transfer(Transfer::Write, first, 0..count).await?;
            left -= count;
        }
        Ok(Touch::no_hits(extent.pages()))
    }

    /// Locks what a write touches.
    #[inline]
    async fn lock(&self, extent: Extent) -> RangeGuard {
        let id = u64::from(self.index) << 40 | self.next_lock.get();
        self.next_lock
            .set((self.next_lock.get() + 1) & ((1 << 40) - 1));
        let (first, pages) = (extent.first_page(), extent.pages());
        let range = self
            .locks
            .lock(&self.cpu, self.index, id, first, pages)
            .await;
        self.counters.waits.add(range.waits);
        range
    }

    /// A request of one page, if a page is free for it at once.
    #[inline]
    fn begin_page(&self) -> Option<OnePage<'_>> {
        let (number, address) = self.buffers.try_take_one()?;
        Some(OnePage {
            inner: self,
            group: Some(self.volume.open_group()),
            number,
            address,
            range: None,
        })
    }

    #[inline]
    fn begin(&self) -> Request<'_> {
        let pages = self.spare.borrow_mut().pop().unwrap_or_default();
        Request {
            inner: self,
            group: Some(self.volume.open_group()),
            held: Some(Held { pages, range: None }),
        }
    }

    fn release(&self, held: Held) {
        let mut pages = held.pages;
        pages.addresses.clear();
        self.buffers.give_back(&self.cpu, &mut pages.numbers);
        self.spare.borrow_mut().push(pages);
        drop(held.range);
    }
}

/// The page of a request that touches one.
#[inline]
fn only_span(extent: Extent, page_bytes: usize) -> Option<Span> {
    let first = spans(extent, page_bytes).next();
    first.filter(|_| extent.pages() == 1)
}

/// As a [`Request`], of one page that was free at once: without lists, and without waiting for a place in line.
struct OnePage<'a> {
    inner: &'a Inner,
    group: Option<Group>,
    number: u32,
    address: u64,
    range: Option<RangeGuard>,
}

impl OnePage<'_> {
    async fn write(mut self, span: &Span, data: &[u8]) -> Result<Touch, IoError> {
        let inner = self.inner;
        if !span.whole {
            self.issue(Transfer::Read, span.page).await;
            self.group().wait(&inner.cpu).await?;
        }
        self.with(|page| page[span.in_page()].copy_from_slice(data));
        self.transfer(Transfer::Write, span.page).await?;
        Ok(Touch::no_hits(1))
    }

    #[inline]
    fn group(&self) -> &Group {
        let group = self.group.as_ref();
        group.expect("a request has its group to its end")
    }

    #[inline]
    async fn issue(&self, kind: Transfer, page: u64) {
        let (volume, group) = (&self.inner.volume, self.group());
        if !volume.issue_now(group, kind, page, self.address) {
            volume.issue(group, kind, page, &[self.address]).await;
        }
        volume.ring();
    }

    #[inline]
    async fn transfer(&mut self, kind: Transfer, page: u64) -> Result<(), IoError> {
        let Inner {
            cpu,
            volume,
            kernel_path,
            ..
        } = self.inner;
        if !kernel_path.is_due() {
            self.issue(kind, page).await;
            return self.group().wait(cpu).await.map(drop);
        }
        let requests = volume.commands_of(kind, page, 1);
        kernel_path.submit(cpu, requests);
        self.issue(kind, page).await;
        let ended = kernel_path.sleep(cpu, self.group().wait(cpu)).await;
        kernel_path.complete(cpu, requests);
        ended.map(drop)
    }

    #[inline]
    fn with(&mut self, f: impl FnOnce(&mut [u8])) {
        // SAFETY: the page is this request's, which has nothing in flight now: each transfer is waited for, and a request ends at
        // the first error.
        let page = unsafe { self.inner.buffers.page_mut(self.number) };
        self.inner.cpu.work(Op::CopyPage, || f(page));
    }
}

impl Drop for OnePage<'_> {
    #[inline]
    fn drop(&mut self) {
        let inner = self.inner;
        let Some(group) = self.group.take() else {
            return;
        };
        if group.is_quiet() {
            return inner.buffers.give_one_back(&inner.cpu, self.number);
        }
        // After a timeout the drive may still read or write the page.
        let pages = Pages {
            numbers: vec![self.number],
            addresses: Vec::new(),
        };
        let range = self.range.take();
        inner.late.adopt(&inner.cpu, group, Held { pages, range });
    }
}

impl Request<'_> {
    #[inline]
    fn held(&mut self) -> &mut Held {
        self.held
            .as_mut()
            .expect("a request holds its pages to its end")
    }

    #[inline]
    fn group(&self) -> &Group {
        self.group
            .as_ref()
            .expect("a request has its group to its end")
    }

    /// Takes pages for the next chunk of at most `wanted`, giving those of the last back.
    #[inline]
    async fn take_pages(&mut self, wanted: usize) -> usize {
        let inner = self.inner;
        let count = wanted.min(CHUNK_PAGES).min(inner.buffers.pages());
        let pages = &mut self.held().pages;
        if pages.numbers.len() != count {
            pages.addresses.clear();
            inner.buffers.give_back(&inner.cpu, &mut pages.numbers);
            let (numbers, addresses) = (&mut pages.numbers, &mut pages.addresses);
            inner
                .buffers
                .take(&inner.cpu, count, numbers, addresses)
                .await;
        }
        count
    }

    /// Reads the pages of a chunk that the write covers in part: at most the first and the last.
    async fn read_edges(&mut self, chunk: impl Iterator<Item = Span>) -> Result<(), IoError> {
        let inner = self.inner;
        let mut any = false;
        for (at, span) in chunk.enumerate() {
            if !span.whole {
                any = true;
                let address = self.held().pages.addresses[at];
                inner
                    .volume
                    .issue(self.group(), Transfer::Read, span.page, &[address])
                    .await;
            }
        }
        if any {
            inner.volume.ring();
            self.group().wait(&inner.cpu).await?;
        }
        Ok(())
    }

    /// Moves a chunk, of which `range` are the places in it.
    #[inline]
    async fn transfer(
        &mut self,
        kind: Transfer,
        first: u64,
        range: std::ops::Range<usize>,
    ) -> Result<(), IoError> {
        let inner = self.inner;
        let held = self
            .held
            .as_ref()
            .expect("a request holds its pages to its end");
        let addresses = &held.pages.addresses[range];
        let pages = addresses.len() as u64;
        let requests = inner.volume.commands_of(kind, first, pages);
        inner.kernel_path.submit(&inner.cpu, requests);
        inner
            .volume
            .issue(self.group(), kind, first, addresses)
            .await;
        inner.volume.ring();
        let ended = self.group().wait(&inner.cpu);
        let ended = inner.kernel_path.sleep(&inner.cpu, ended).await;
        inner.kernel_path.complete(&inner.cpu, requests);
        ended.map(drop)
    }

    #[inline]
    fn on_page(&mut self, at: usize, f: impl FnOnce(&mut [u8])) {
        let number = self.held().pages.numbers[at];
        // SAFETY: the page is this request's, which has nothing in flight now: each transfer is
        // waited for, and a request ends at the first error.
        let page = unsafe { self.inner.buffers.page_mut(number) };
        self.inner.cpu.work(Op::CopyPage, || f(page));
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let (Some(group), Some(held)) = (self.group.take(), self.held.take()) else {
            return;
        };
        if group.is_quiet() {
            self.inner.release(held);
        } else {
            // After a timeout the drive may still read or write the pages.
            self.inner.late.adopt(&self.inner.cpu, group, held);
        }
    }
}
