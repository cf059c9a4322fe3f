//! A client's own memory for transfers: a fixed number of DMA pages, taken and given back.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wharf_runtime::{Cpu, Notify};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

/// Pages for transfers, of one client. Requests get theirs in the order they asked.
pub struct Buffers {
    region: DmaRegion,
    free: RefCell<Vec<u32>>,
    given_back: Notify,
    next_ticket: Cell<u64>,
    serving: Cell<u64>,
}

impl Buffers {
    /// `pages` pages of data.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(space: &Arc<DmaSpace>, pages: u32) -> Result<Buffers, RegisterError> {
        Ok(Buffers::of_region(space.register(pages as usize)?))
    }

    /// `pages` whole pages of 4 KiB, also where a page of data is a stamp.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new_whole(space: &Arc<DmaSpace>, pages: u32) -> Result<Buffers, RegisterError> {
        Ok(Buffers::of_region(space.register_whole(pages as usize)?))
    }

    fn of_region(region: DmaRegion) -> Buffers {
        Buffers {
            free: RefCell::new((0..region.pages() as u32).rev().collect()),
            region,
            given_back: Notify::new(),
            next_ticket: Cell::new(0),
            serving: Cell::new(0),
        }
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.region.pages()
    }

    /// Takes `count` pages (at most as many as there are), waiting for them if need be, and adds
    /// their numbers to `taken` and their addresses to `addresses`.
    #[inline]
    pub async fn take(
        &self,
        cpu: &Cpu,
        count: usize,
        taken: &mut Vec<u32>,
        addresses: &mut Vec<u64>,
    ) {
        assert!(count <= self.pages(), "no more pages than there are");
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        while self.serving.get() != ticket || self.free.borrow().len() < count {
            self.given_back.wait(cpu).await;
        }
        self.serving.set(ticket + 1);
        let mut free = self.free.borrow_mut();
        let from = free.len() - count;
        addresses.extend(
            free[from..]
                .iter()
                .map(|&p| self.region.address(p as usize)),
        );
        taken.extend(free.drain(from..));
        drop(free);
        if !self.given_back.is_empty() {
            // The next in line may be served too.
            self.given_back.notify_all(cpu);
        }
    }

    /// Takes one page, if nobody is in line for it; with its address.
    #[inline]
    pub fn try_take_one(&self) -> Option<(u32, u64)> {
        let ticket = self.next_ticket.get();
        if self.serving.get() != ticket {
            return None;
        }
        let page = self.free.borrow_mut().pop()?;
        self.next_ticket.set(ticket + 1);
        self.serving.set(ticket + 1);
        Some((page, self.region.address(page as usize)))
    }

    /// Gives pages back; no command in flight may name them.
    #[inline]
    pub fn give_back(&self, cpu: &Cpu, pages: &mut Vec<u32>) {
        self.free.borrow_mut().append(pages);
        if !self.given_back.is_empty() {
            self.given_back.notify_all(cpu);
        }
    }

    /// As [`Buffers::give_back`], for one page.
    #[inline]
    pub fn give_one_back(&self, cpu: &Cpu, page: u32) {
        self.free.borrow_mut().push(page);
        if !self.given_back.is_empty() {
            self.given_back.notify_all(cpu);
        }
    }

    /// The address of a page.
    pub fn address(&self, page: u32) -> u64 {
        self.region.address(page as usize)
    }

    /// A pointer to a page, for whoever keeps track of its users.
    pub fn pointer(&self, page: u32) -> *mut u8 {
        self.region.page_pointer(page as usize)
    }

    /// A page's bytes.
    ///
    /// # Safety
    /// The page is taken, no command in flight names it, and no other reference to it is alive.
    #[inline]
    #[allow(clippy::mut_from_ref)] // pages are hmb one by one; see the contract
    pub unsafe fn page_mut(&self, page: u32) -> &mut [u8] {
        // SAFETY: the caller's contract.
        unsafe { self.region.page_mut(page as usize) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;

    use wharf_runtime::{CostTable, Machine, Seed, Side};
    use wharf_wire::dma::STAMP_BYTES;

    use super::*;

    #[test]
    fn one_page_is_not_taken_past_who_is_in_line() {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
        machine.spawn_main(cpu, "takes", |cpu| async move {
            let buffers = Rc::new(Buffers::new(&DmaSpace::new(STAMP_BYTES), 2).unwrap());
            let first = buffers.try_take_one().expect("two are free").0;
            let (in_line, task_cpu) = (buffers.clone(), cpu.clone());
            cpu.spawn("in line", async move {
                let (mut taken, mut addresses) = (Vec::new(), Vec::new());
                in_line.take(&task_cpu, 2, &mut taken, &mut addresses).await;
                in_line.give_back(&task_cpu, &mut taken);
            });
            cpu.sleep_until(10).await;
            assert_eq!(buffers.try_take_one(), None, "one is free, and spoken for");
            buffers.give_one_back(&cpu, first);
            assert_eq!(buffers.try_take_one(), None);
            cpu.sleep_until(20).await;
            assert!(buffers.try_take_one().is_some());
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
