//! Bytes of a file in its region of the volume: what a read, a write, a cut ask of the block client.

use super::node::{At, Node, Pages, page_of};
use super::{Errno, FileError, FilesOnBlocks, Transfer};
use crate::design::{Client, Touch};
use crate::span::Extent;
use wharf_runtime::rw_gate::{Entry, Visitor};
use wharf_wire::dma::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

/// What a write is to do with the pages that it touches.
#[derive(Debug, Clone, Copy)]
struct Plan {
    region: u32,
    extent: Extent,
    /// Whether its first, and its last, page is covered in part and is not there: it is written whole, with zeros around.
    pads_first: bool,
    pads_last: bool,
}

/// Pages that were given back, as (first, behind the last).
type Gone = Vec<(u64, u64)>;

impl<C: Client> FilesOnBlocks<C> {
    /// The bytes of a file as bytes of the volume.
    fn in_volume(&self, region: u32, extent: Extent) -> Extent {
        let start = self.table.parts.in_volume(region, 0) * PAGE;
        Extent::new(start + extent.offset, extent.bytes)
    }

    fn is_stamps(&self) -> bool {
        self.page_bytes != PAGE_BYTES
    }

    /// Bytes of the payload up to byte `at` of a request.
    fn payload_at(&self, extent: Extent, at: u64) -> usize {
        match self.is_stamps() {
            false => (at - extent.offset) as usize,
            true => (page_of(at) - extent.first_page()) as usize * self.page_bytes,
        }
    }

    pub(super) async fn read(
        &self,
        node: &Node,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        self.check_payload(extent, out.len())?;
        let visitor = self.visitor();
        let entered = node.enter(&visitor, Entry::Shared, |state| {
            let bytes = extent.bytes.min(state.bytes.saturating_sub(extent.offset));
            let read = Extent::new(extent.offset, bytes);
            let (mut at, end) = (read.first_page(), read.first_page() + read.pages());
            let mut runs = Vec::new();
            while at < end {
                let to = state.pages.run_end(at, end);
                runs.push((at, to, state.pages.has(at)));
                at = to;
            }
            (read, state.region, runs)
        });
        let ((read, region, runs), waited) = entered.await;
        self.counters.waits.add(u64::from(waited));
        let result = self.read_runs(read, region, &runs, out).await;
        node.leave(&visitor, Entry::Shared, |state| {
            // As with relatime.
            if state.accessed_ns <= state.modified_ns {
                state.accessed_ns = self.cpu.now();
            }
        });
        let touch = result?;
        Ok(Transfer {
            bytes: read.bytes,
            touch,
        })
    }

    async fn read_runs(
        &self,
        read: Extent,
        region: Option<u32>,
        runs: &[(u64, u64, bool)],
        out: &mut [u8],
    ) -> Result<Touch, FileError> {
        let mut touch = Touch::default();
        for &(first, end, is_there) in runs {
            let from = (first * PAGE).max(read.offset);
            let part = Extent::new(from, (end * PAGE).min(read.offset + read.bytes) - from);
            let start = self.payload_at(read, from);
            let out = &mut out[start..start + part.payload_bytes(self.page_bytes)];
            match region {
                Some(region) if is_there => {
                    touch += self.client.read(self.in_volume(region, part), out).await?;
                }
                _ => out.fill(0),
            }
        }
        Ok(touch)
    }

    /// Reads within a page that the block client has at hand.
    pub(super) fn read_at_once(&self, node: &Node, extent: Extent, out: &mut [u8]) -> Option<u64> {
        let region = node.try_enter(&self.cpu, Entry::Shared, |state| {
            state.region.filter(|_| state.is_there(extent))
        })?;
        let is_read = self.client.read_now(self.in_volume(region, extent), out);
        node.leave(&self.visitor(), Entry::Shared, |_| ());
        is_read.then_some(extent.bytes)
    }

    /// Writes within a page that the block client has at hand.
    pub(super) fn write_at_once(&self, node: &Node, extent: Extent, data: &[u8]) -> bool {
        let entered = node.try_enter(&self.cpu, Entry::Shared, |state| {
            state.region.filter(|_| state.is_there(extent))
        });
        let Some(region) = entered else {
            return false;
        };
        let is_written = self.client.write_now(self.in_volume(region, extent), data);
        node.leave(&self.visitor(), Entry::Shared, |state| {
            if is_written {
                state.touch(self.cpu.now());
            }
        });
        is_written
    }

    /// Writes `bytes` bytes; says where.
    pub(super) async fn write(
        &self,
        node: &Node,
        at: At,
        bytes: u64,
        data: &[u8],
    ) -> Result<(u64, Touch), FileError> {
        let visitor = self.visitor();
        let mut entry = match at {
            At::Offset(_) => Entry::Shared,
            At::End => Entry::Alone,
        };
        loop {
            let entered = node.enter(&visitor, entry, |state| {
                let offset = match at {
                    At::Offset(offset) => offset,
                    At::End => state.bytes,
                };
                let extent = Extent::new(offset, bytes);
                self.check_payload(extent, data.len())?;
                if state.is_gone {
                    return Err(Errno::EBADF);
                }
                let end = offset.checked_add(bytes).ok_or(Errno::EFBIG)?;
                let (first, last) = (page_of(offset), page_of(end.saturating_sub(1)));
                let is_partial = |page: u64| offset > page * PAGE || end < (page + 1) * PAGE;
                let pads = |page: u64| is_partial(page) && !state.pages.has(page);
                let (pads_first, pads_last) = (pads(first), last > first && pads(last));
                let changes = end > state.bytes || pads_first || pads_last;
                if bytes > 0 && (changes || state.region.is_none()) && entry == Entry::Shared {
                    return Ok(None);
                }
                if end > self.table.file_bytes_max() {
                    return Err(Errno::EFBIG);
                }
                let region = match state.region {
                    _ if bytes == 0 => 0,
                    Some(region) => region,
                    None => {
                        let region = self.table.take_region(&self.cpu)?;
                        state.region = Some(region);
                        region
                    }
                };
                Ok(Some(Plan {
                    region,
                    extent,
                    pads_first,
                    pads_last,
                }))
            });
            let (plan, waited) = entered.await;
            self.counters.waits.add(u64::from(waited));
            let plan = match plan {
                Ok(Some(plan)) => plan,
                other => {
                    node.leave(&visitor, entry, |_| ());
                    other?;
                    // It changes more than bytes: alone, then.
                    entry = Entry::Alone;
                    continue;
                }
            };
            let written = self.write_planned(&plan, data).await;
            let extent = plan.extent;
            node.leave(&visitor, entry, |state| {
                if written.is_ok() && extent.bytes > 0 {
                    let end = extent.offset + extent.bytes;
                    let first = extent.first_page();
                    state.pages.add(first, first + extent.pages());
                    state.bytes = state.bytes.max(end);
                    state.touch(self.cpu.now());
                }
            });
            return Ok((extent.offset, written?));
        }
    }

    /// Sends the parts of a write to the block client: a first and a last page with zeros around, and what is between.
    async fn write_planned(&self, plan: &Plan, data: &[u8]) -> Result<Touch, FileError> {
        let Plan { region, extent, .. } = *plan;
        let mut touch = Touch::default();
        if extent.bytes == 0 {
            return Ok(touch);
        }
        let (mut from, mut to) = (extent.offset, extent.offset + extent.bytes);
        if plan.pads_first {
            let end = to.min((page_of(from) + 1) * PAGE);
            touch += self.write_padded(plan, from, end, data).await?;
            from = end;
        }
        if plan.pads_last {
            let start = page_of(to - 1) * PAGE;
            touch += self.write_padded(plan, start, to, data).await?;
            to = start;
        }
        if from < to {
            let part = Extent::new(from, to - from);
            let start = self.payload_at(extent, from);
            let data = &data[start..start + part.payload_bytes(self.page_bytes)];
            touch += self
                .client
                .write(self.in_volume(region, part), data)
                .await?;
        }
        Ok(touch)
    }

    /// Writes a page of which a request covers the bytes `from` to before `to`, and which was not there.
    async fn write_padded(
        &self,
        plan: &Plan,
        from: u64,
        to: u64,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        let page = page_of(from);
        let mut padded = vec![0; self.page_bytes];
        let part = Extent::new(from, to - from);
        let bytes = part.payload_bytes(self.page_bytes);
        let at = match self.is_stamps() {
            true => 0,
            false => (from - page * PAGE) as usize,
        };
        let start = self.payload_at(plan.extent, from);
        padded[at..at + bytes].copy_from_slice(&data[start..start + bytes]);
        let whole = self.in_volume(plan.region, Extent::of_pages(page, 1));
        Ok(self.client.write(whole, &padded).await?)
    }

    /// Sets the size.
    pub(super) async fn cut(&self, node: &Node, bytes: u64) -> Result<(), FileError> {
        if bytes > self.table.file_bytes_max() {
            return Err(Errno::EFBIG.into());
        }
        let visitor = self.visitor();
        let entered = node.enter(&visitor, Entry::Alone, |state| (state.bytes, state.is_gone));
        let ((old, is_gone), waited) = entered.await;
        self.counters.waits.add(u64::from(waited));
        if is_gone || bytes >= old {
            node.leave(&visitor, Entry::Alone, |state| {
                state.bytes = if is_gone { old } else { bytes };
                state.touch(self.cpu.now());
            });
            return match is_gone {
                true => Err(Errno::EBADF.into()),
                false => Ok(()),
            };
        }
        let end = old.next_multiple_of(PAGE);
        let result = self.clear(node, Extent::new(bytes, end - bytes)).await;
        node.leave(&visitor, Entry::Alone, |state| {
            if result.is_ok() {
                state.bytes = bytes;
                state.touch(self.cpu.now());
            }
        });
        result
    }

    /// Makes a hole.
    pub(super) async fn make_hole(&self, node: &Node, extent: Extent) -> Result<(), FileError> {
        let visitor = self.visitor();
        let entered = node.enter(&visitor, Entry::Alone, |state| {
            // What lies behind the end, in its page, is zeros.
            let end = extent.offset.saturating_add(extent.bytes);
            let end = end.min(state.bytes.next_multiple_of(PAGE));
            Extent::new(extent.offset, end.saturating_sub(extent.offset))
        });
        let (extent, waited) = entered.await;
        self.counters.waits.add(u64::from(waited));
        let result = self.clear(node, extent).await;
        node.leave(&visitor, Entry::Alone, |state| {
            state.touch(self.cpu.now());
        });
        result
    }

    /// Makes zeros of a range, for one who is alone in the file: pages that it covers are given back, others are written in part.
    async fn clear(&self, node: &Node, extent: Extent) -> Result<(), FileError> {
        let (region, there) = node.with(&self.cpu, |state| (state.region, state.pages.clone()));
        let Some(region) = region.filter(|_| extent.bytes > 0) else {
            return Ok(());
        };
        let whole = extent.whole_pages();
        let (first, last) = (
            extent.first_page(),
            extent.first_page() + extent.pages() - 1,
        );
        let edges = if first == last {
            vec![first]
        } else {
            vec![first, last]
        };
        for page in edges {
            let from = extent.offset.max(page * PAGE);
            let to = (extent.offset + extent.bytes).min((page + 1) * PAGE);
            // A stamp stands for a whole page: what is left of the page keeps it.
            if to - from == PAGE || !there.has(page) || self.is_stamps() {
                continue;
            }
            let zeros = vec![0; (to - from) as usize];
            let part = self.in_volume(region, Extent::new(from, to - from));
            self.client.write(part, &zeros).await?;
        }
        let (first, end) = (whole.first_page(), whole.first_page() + whole.pages());
        node.with(&self.cpu, |state| state.pages.remove(first, end));
        self.give_back(region, &there, (first, end)).await
    }

    /// Tells the block client which pages of a region, of those that were there, hold nothing any more.
    async fn give_back(
        &self,
        region: u32,
        there: &Pages,
        (first, end): (u64, u64),
    ) -> Result<(), FileError> {
        let mut gone = Gone::new();
        let mut at = first;
        while at < end {
            let to = there.run_end(at, end);
            if there.has(at) {
                gone.push((at, to));
            }
            at = to;
        }
        for (first, end) in gone {
            let pages = self.in_volume(region, Extent::of_pages(first, end - first));
            self.client.discard(pages).await?;
        }
        Ok(())
    }

    /// Gives back the storage of a file that nobody can reach any more.
    pub(super) async fn give_up(&self, node: &Node) {
        let visitor = self.visitor();
        let ((), waited) = node.enter(&visitor, Entry::Alone, |_| ()).await;
        self.counters.waits.add(u64::from(waited));
        let (region, pages) = node.with(&self.cpu, |state| {
            state.is_gone = true;
            state.bytes = 0;
            (state.region.take(), std::mem::take(&mut state.pages))
        });
        if let Some(region) = region {
            let end = self.table.parts.pages_of(region);
            // A discard is a hint: without it the pages are written for nothing, and read by nobody.
            let _ = self.give_back(region, &pages, (0, end)).await;
            self.table.return_region(&self.cpu, region);
        }
        node.leave(&visitor, Entry::Alone, |_| ());
    }

    /// Makes a range durable.
    pub(super) async fn make_durable(&self, node: &Node, extent: Extent) -> Result<(), FileError> {
        let (region, bytes) = node.with(&self.cpu, |state| (state.region, state.bytes));
        let end = extent.offset.saturating_add(extent.bytes).min(bytes);
        match region {
            Some(region) if extent.offset < end => {
                let part = Extent::new(extent.offset, end - extent.offset);
                let part = self.in_volume(region, part);
                Ok(self.client.flush_extent(part).await?)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a payload that does not fit its request.
    pub(super) fn check_payload(&self, extent: Extent, payload_bytes: usize) -> Result<(), Errno> {
        if extent.offset.checked_add(extent.bytes).is_none() {
            return Err(Errno::EINVAL);
        }
        match extent.payload_bytes(self.page_bytes) == payload_bytes {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }

    /// Who goes into files for this client.
    pub(super) fn visitor(&self) -> Visitor<'_> {
        Visitor {
            cpu: &self.cpu,
            mailboxes: &self.table.mailboxes,
            client: self.index,
        }
    }
}
