//! A command's shares, as handlers give them to cores.

use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::MDTS;
use super::state::{Controller, Handler};
use crate::core::Share;
use crate::divide::{quotient, remainder};
use crate::link::PAGE_BYTES;

impl Controller {
    /// Keeps a command that has `shares` shares in a slot.
    #[inline]
    pub fn take_slot(
        &mut self,
        handler: &'static dyn Handler,
        qid: u16,
        command: Command,
        shares: u32,
    ) -> u16 {
        let guest = self.guest_of(qid);
        let slot = self.slots.borrow_mut().take(qid, guest, command, shares);
        self.handlers[slot as usize] = Some(handler);
        slot
    }

    /// Gives a core a share, after those that it has.
    #[inline]
    pub fn send(&mut self, core: u32, share: Share, handler: &'static dyn Handler) {
        self.cpu.work(Op::CommandSplit, || ());
        self.touched.insert(core);
        let at_ns = self.cpu.stamp_ns();
        self.cores[core as usize].arrive(at_ns, share, handler);
    }

    /// Brings near what a core is going to look up for a page.
    #[inline]
    pub fn prefetch(&self, core: u32, lpn: u32) {
        self.cores[core as usize].prefetch(lpn);
    }

    /// Gives every core a share of a command that concerns whole cores, with a note for them.
    pub fn broadcast(
        &mut self,
        handler: &'static dyn Handler,
        qid: u16,
        command: Command,
        note: u64,
    ) {
        let cores = self.cores.len() as u32;
        let slot = self.take_slot(handler, qid, command, cores);
        self.slots.borrow_mut().get_mut(slot).note = note;
        let share = Share {
            slot,
            ..Share::default()
        };
        for core in 0..cores {
            self.send(core, share, handler);
        }
    }

    /// Begins a transfer of pages: checks that all of them are in host memory, and gives a share for each
    /// stripe touched. The data of a write (`from_host`) cross the link.
    ///
    /// # Errors
    /// If there are too many pages, or one of the host's is not as it should be.
    pub fn start_transfer(
        &mut self,
        handler: &'static dyn Handler,
        qid: u16,
        command: Command,
        from_host: bool,
    ) -> Result<(), StatusCode> {
        let (first, pages) = (command.slba(), command.pages());
        if pages > 1 << MDTS {
            return Err(StatusCode::InvalidField);
        }
        let dma = &self.dma;
        let check = |address| match dma.page(address) {
            Ok(_) => Ok(()),
            Err(_) => Err(StatusCode::DataTransferError),
        };
        self.slots
            .borrow_mut()
            .walk(&command, pages, |at| dma.read_prp(at), check)?;
        let stripe = self.striping.stripe_pages;
        let last = first + u64::from(pages) - 1;
        let shares = (quotient(last, stripe) - quotient(first, stripe) + 1) as u32;
        let bytes = pages * PAGE_BYTES as u32;
        let (to_host_bytes, data_ready_ns) = match from_host {
            false => (bytes, 0),
            true => (0, self.from_host.carry(&self.cpu, bytes.into())),
        };
        let slot = self.take_slot(handler, qid, command, shares);
        {
            let mut slots = self.slots.borrow_mut();
            let kept = slots.keep_walked(slot);
            (kept.to_host_bytes, kept.data_ready_ns) = (to_host_bytes, data_ready_ns);
        }
        let mut done = 0;
        while done < pages {
            let page = first + u64::from(done);
            let count = (stripe - remainder(page, stripe) as u32).min(pages - done);
            let (core, local) = self.striping.locate(page);
            let share = Share {
                slot,
                skip: done as u16,
                first: local,
                count,
            };
            self.prefetch(core, local);
            self.send(core, share, handler);
            done += count;
        }
        Ok(())
    }

    /// Gives shares of ranges that need no transfer (first page and number of pages): of each range every
    /// core gets its own pages, which are one range there.
    pub fn start_ranges(
        &mut self,
        handler: &'static dyn Handler,
        qid: u16,
        command: Command,
        ranges: impl Iterator<Item = (u64, u32)> + Clone,
    ) {
        let striping = self.striping;
        let of_core = move |(first, pages): (u64, u32), core: u32| {
            let local = striping.pages_below(first, core);
            let end = striping.pages_below(first + u64::from(pages), core);
            (local, end - local)
        };
        let cores = self.cores.len() as u32;
        let pairs =
            ranges.flat_map(move |range| (0..cores).map(move |core| (core, of_core(range, core))));
        let pairs = pairs.filter(|(_, (_, count))| *count > 0);
        let shares = pairs.clone().count() as u32;
        let slot = self.take_slot(handler, qid, command, shares);
        for (core, (first, count)) in pairs {
            // Found for all cores, and then given.
            self.cpu.work(Op::CommandSplit, || ());
            let share = Share {
                slot,
                skip: 0,
                first,
                count,
            };
            self.send(core, share, handler);
        }
    }
}
