//! The host of the mocks.

use std::sync::Arc;

use wharf_runtime::Cpu;

use crate::command::Command;
use crate::completion::Completion;
use crate::dma::{DmaRegion, DmaSpace, PAGE_BYTES};
use crate::prp::{prp_for, prp_list_pages};
use crate::queue::HostQueue;

/// A host that sends commands one by one and collects their completions.
pub struct MockHost {
    queue: HostQueue,
    data: DmaRegion,
    lists: DmaRegion,
    next_cid: u16,
    attached: bool,
}

/// Whole pages for PRP lists of each command, so that a transfer may have 1,024 pages.
const LIST_PAGES: usize = 2;

impl MockHost {
    /// A host on `queue` with `pages` pages of memory for data.
    pub fn new(queue: HostQueue, dma: &Arc<DmaSpace>, pages: usize) -> MockHost {
        let lists = dma.register_whole(queue.depth() as usize * LIST_PAGES);
        MockHost {
            data: dma.register(pages).expect("memory for the mock's pages"),
            lists: lists.expect("memory for the mock's lists"),
            queue,
            next_cid: 0,
            attached: false,
        }
    }

    /// The DMA address of page `index` of its memory.
    pub fn address(&self, index: usize) -> u64 {
        self.data.address(index)
    }

    /// The bytes of page `index`, which no command in flight may name.
    pub fn page(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: no command in flight names the page, by this function's contract; `&mut self`
        // keeps other references away.
        unsafe { self.data.page_mut(index) }
    }

    /// Sends a command whose data are the pages at `addresses`, and rings the doorbell. Returns its
    /// identifier. At most as many may be in flight as the queue has entries, less one.
    pub fn send(&mut self, cpu: &Cpu, command: Command, addresses: &[u64]) -> u16 {
        let cid = self.next_cid;
        self.next_cid = (cid + 1) % self.queue.depth() as u16;
        let mut command = command.with_cid(cid);
        if !addresses.is_empty() {
            let first = cid as usize * LIST_PAGES;
            let lists: Vec<u64> = (0..prp_list_pages(addresses.len()).min(LIST_PAGES))
                .map(|i| self.lists.address(first + i))
                .collect();
            let base = self.lists.address(0);
            let (prp1, prp2) = prp_for(addresses, &lists, |at, value| {
                let offset = (at - base) as usize;
                let page = self.lists.page_pointer(offset / PAGE_BYTES);
                // SAFETY: an aligned word of a list page of this command, which is not in flight.
                unsafe { page.add(offset % PAGE_BYTES).cast::<u64>().write(value) };
            })
            .expect("a transfer that its list pages can hold");
            command = command.with_prp(prp1, prp2);
        }
        self.queue
            .submit(cpu, command)
            .expect("fewer commands in flight than entries");
        self.queue.ring_doorbell(cpu);
        cid
    }

    /// Waits for the next completion.
    pub async fn collect(&mut self, cpu: &Cpu) -> Completion {
        if !std::mem::replace(&mut self.attached, true) {
            self.queue.notifier().attach(cpu);
        }
        loop {
            if let Some(completion) = self.queue.poll(cpu) {
                self.queue.release();
                return completion;
            }
            let notifier = self.queue.notifier().clone();
            let _ = notifier.wait(cpu).await;
        }
    }

    /// Sends a command on `pages` pages of its memory from page `first` on, and waits for its
    /// completion; no other may be in flight.
    pub async fn execute(
        &mut self,
        cpu: &Cpu,
        command: Command,
        first: usize,
        pages: usize,
    ) -> Completion {
        let addresses: Vec<u64> = (first..first + pages)
            .map(|i| self.data.address(i))
            .collect();
        let cid = self.send(cpu, command, &addresses);
        let completion = self.collect(cpu).await;
        assert_eq!(completion.cid, cid, "one command, one completion");
        completion
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{Fate, MockDrive};
    use crate::opcode::IoOpcode;
    use crate::queue::queue_pair;
    use crate::status::StatusCode;
    use wharf_runtime::{CostTable, Machine, Notifier, Seed, Side};

    #[test]
    fn the_two_mocks_understand_each_other() {
        let dma = DmaSpace::new(PAGE_BYTES);
        let notifier = Notifier::new();
        let (host_queue, drive_queue) = queue_pair(4, &notifier, 1);
        let mut drive = MockDrive::new(&dma, &notifier, 100, |_, _| Fate::Done(1_000));
        drive.attach(1, drive_queue);
        let store = drive.store();
        let mut machine = Machine::new(CostTable::free(), false);
        let host_cpu = machine.add_cpu("host", Side::Host, 1.0);
        let drive_cpu = machine.add_cpu("drive", Side::Drive, 1.0);
        machine.spawn(drive_cpu, "mock", |cpu| drive.run(cpu));
        let mut host = MockHost::new(host_queue, &dma, 6);
        machine.spawn_main(host_cpu, "host", |cpu| async move {
            for round in 0..9u8 {
                (0..3).for_each(|i| host.page(i).fill(round + i as u8));
                let written = host.execute(&cpu, Command::write(1, 7, 3), 0, 3).await;
                assert!(written.status().is_success());
                let read = host.execute(&cpu, Command::read(1, 7, 3), 3, 3).await;
                assert!(read.status().is_success());
                (0..3).for_each(|i| assert_eq!(host.page(3 + i)[9], round + i as u8));
            }
            let beyond = host.execute(&cpu, Command::read(1, 99, 2), 0, 2).await;
            assert_eq!(beyond.status().code(), Some(StatusCode::LbaOutOfRange));
        });
        machine.run_virtual(Seed(1)).unwrap();
        assert_eq!(store.count(IoOpcode::Write), 9);
        assert_eq!(store.page(9).unwrap(), vec![10; PAGE_BYTES]);
    }
}
