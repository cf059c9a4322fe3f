//! Bytes of files between the drive's pages and a host's. Whole pages that lie alike on both sides go straight. What
//! is left, at the ends or of bytes that lie otherwise, goes through pages of the drive's memory, and only what was
//! asked for crosses the link.

use wharf_files::pages::{PAGE_BYTES, Run};
use wharf_files::{Fault, HostBytes, In, Out};

use super::pages::{FilePages, pages_of, unread, unwritten};
use crate::config::TRANSFER_PAGES_MAX;
use crate::core::{ASK_PAGES_MAX, Core};
use crate::features::block::asked;
use crate::memory::DeviceMemory;

const PAGE: u64 = PAGE_BYTES as u64;

/// Of runs that are taken as if side by side, those that have the `pages` pages from page `first` on.
fn part_of(runs: &[Run], first: u64, pages: u64) -> Vec<Run> {
    let (mut at, end) = (0, first + pages);
    let part = runs.iter().filter_map(|run| {
        let (from, to) = (first.max(at), end.min(at + run.pages));
        let start = at;
        at += run.pages;
        (from < to).then(|| Run::new(run.first + (from - start), to - from))
    });
    part.collect()
}

impl FilePages {
    /// As [`Pages::read_bytes`](wharf_files::pages::Pages::read_bytes).
    pub(super) async fn read_to(
        &self,
        runs: &[Run],
        skip: u64,
        mut out: Out<'_>,
    ) -> Result<(), Fault> {
        let last = (skip + out.len()).div_ceil(PAGE);
        assert!(
            last <= Run::total(runs),
            "there are as many bytes as are wanted"
        );
        self.check(runs, unread)?;
        let bytes = out.len();
        let straight = match &out {
            Out::Host(host) if host.offset() as u64 == skip % PAGE => {
                let head = (skip.next_multiple_of(PAGE) - skip).min(bytes);
                head..head + (bytes - head) / PAGE * PAGE
            }
            _ => 0..0,
        };
        if let Out::Host(host) = &out
            && !straight.is_empty()
        {
            let first = (skip + straight.start) / PAGE;
            let runs = part_of(runs, first, (straight.end - straight.start) / PAGE);
            self.read_straight(&runs, host.slice(straight.clone()).addresses())
                .await?;
        }
        if straight.start > 0 {
            self.read_through(runs, skip, out.slice(0..straight.start))
                .await?;
        }
        if straight.end < bytes {
            let rest = out.slice(straight.end..bytes);
            self.read_through(runs, skip + straight.end, rest).await?;
        }
        Ok(())
    }

    /// Whole pages to addresses.
    async fn read_straight(&self, runs: &[Run], addresses: &[u64]) -> Result<(), Fault> {
        let (core, mut rest) = (self.core(), addresses);
        for chunk in self.chunks(runs, ASK_PAGES_MAX) {
            let (own, more) = rest.split_at(pages_of(&chunk));
            rest = more;
            self.transfer(&core, asked::READ, &chunk, own, 0, unread)
                .await?;
        }
        Ok(())
    }

    /// Bytes through pages of the drive's memory.
    async fn read_through(&self, runs: &[Run], skip: u64, mut out: Out<'_>) -> Result<(), Fault> {
        let (core, bytes) = (self.core(), out.len());
        let memory = own(&core);
        let (first, last) = (skip / PAGE, (skip + bytes).div_ceil(PAGE));
        let mut start = first * PAGE;
        for chunk in self.chunks(&part_of(runs, first, last - first), TRANSFER_PAGES_MAX) {
            let count = pages_of(&chunk);
            let mut lent = memory.lend(&core.cpu, count).await;
            let addresses: Vec<u64> = lent.addresses().collect();
            self.transfer(&core, asked::READ, &chunk, &addresses, 0, unread)
                .await?;
            core.cpu
                .sleep_until(memory.moved_ns(&core.cpu, count as u32))
                .await;
            for nth in 0..count {
                let (from, to) = (start.max(skip), (start + PAGE).min(skip + bytes));
                let page = &lent.bytes(nth)[(from - start) as usize..(to - start) as usize];
                let part = out.slice(from - skip..to - skip);
                core.copying(1, || put(&core, part, page))?;
                start += PAGE;
            }
        }
        Ok(())
    }

    /// As [`Pages::write_bytes`](wharf_files::pages::Pages::write_bytes).
    pub(super) async fn write_from(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        assert!(
            data.len() == Run::total(runs) * PAGE,
            "there are as many bytes as pages"
        );
        self.check(runs, unwritten)?;
        match data {
            In::Host(host) if host.offset() == 0 => {
                self.write_straight(runs, host.addresses()).await
            }
            _ => self.write_through(runs, data).await,
        }
    }

    /// Whole pages from addresses of a host.
    async fn write_straight(&self, runs: &[Run], addresses: &[u64]) -> Result<(), Fault> {
        let (core, mut rest) = (self.core(), addresses);
        for chunk in self.chunks(runs, ASK_PAGES_MAX) {
            let (own, more) = rest.split_at(pages_of(&chunk));
            rest = more;
            let here_ns = core
                .from_host
                .carry(&core.cpu, (own.len() * PAGE_BYTES) as u64);
            self.change(&core, asked::WRITE, &chunk, own, here_ns)
                .await?;
        }
        Ok(())
    }

    /// Whole pages through those of the drive's memory.
    async fn write_through(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        let core = self.core();
        let memory = own(&core);
        let mut at = 0;
        for chunk in self.chunks(runs, TRANSFER_PAGES_MAX) {
            let count = pages_of(&chunk);
            let mut lent = memory.lend(&core.cpu, count).await;
            for nth in 0..count {
                self.take(&core, data.slice(at..at + PAGE), lent.bytes(nth))
                    .await?;
                at += PAGE;
            }
            core.cpu
                .sleep_until(memory.moved_ns(&core.cpu, count as u32))
                .await;
            let addresses: Vec<u64> = lent.addresses().collect();
            self.change(&core, asked::WRITE, &chunk, &addresses, 0)
                .await?;
        }
        Ok(())
    }

    /// Fills with zeros.
    pub(super) fn clear(&self, mut out: Out<'_>) -> Result<(), Fault> {
        const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        let (core, bytes) = (self.core(), out.len());
        for from in (0..bytes).step_by(PAGE_BYTES) {
            let to = bytes.min(from + PAGE);
            put(&core, out.slice(from..to), &ZEROS[..(to - from) as usize])?;
        }
        Ok(())
    }

    /// Puts bytes of a page at most where they are wanted.
    pub(super) fn put_to(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        let core = self.core();
        core.copying(1, || put(&core, out, bytes))
    }

    /// Brings bytes into memory; those of a host cross the link.
    pub(super) async fn take(
        &self,
        core: &Core,
        data: In<'_>,
        into: &mut [u8],
    ) -> Result<(), Fault> {
        let host = match data {
            In::Bytes(bytes) => {
                into.copy_from_slice(bytes);
                return Ok(());
            }
            In::Host(host) => host,
        };
        let here_ns = core.from_host.carry(&core.cpu, host.len());
        core.cpu.sleep_until(here_ns).await;
        let mut rest = into;
        core.copying(1, || {
            for (address, from, bytes) in host.pieces() {
                let (part, more) = rest.split_at_mut(bytes);
                rest = more;
                // SAFETY: a command in flight names the page as its source.
                let read = unsafe { core.dma().read_bytes(address + from as u64, part) };
                read.map_err(|_| Fault::Payload)?;
            }
            Ok(())
        })
    }
}

/// The memory of a drive that serves files.
pub(super) fn own(core: &Core) -> &DeviceMemory {
    core.memory()
        .expect("a drive that serves files has memory of its own")
}

/// Puts bytes where they are wanted.
pub(super) fn put(core: &Core, out: Out<'_>, bytes: &[u8]) -> Result<(), Fault> {
    let host: HostBytes<'_> = match out {
        Out::Bytes(out) => {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        Out::Host(host) => host,
    };
    let mut rest = bytes;
    for (address, from, count) in host.pieces() {
        let (part, more) = rest.split_at(count);
        rest = more;
        let address = address + from as u64;
        // SAFETY: a command in flight names the page as its target, and its file task alone writes there now; pages of the
        // drive's own are those of the task too.
        let written = unsafe {
            let to_host = core.dma().write_bytes(address, part);
            to_host.or_else(|_| own(core).write_bytes(address, part))
        };
        written.map_err(|_| Fault::Payload)?;
    }
    Ok(())
}
