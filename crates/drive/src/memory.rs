//! Memory of the drive's own, beside its write buffer: for file systems.
//!
//! Problem: what serves files keeps metadata, and bytes that cannot go straight between flash and host, in the
//! drive's memory. There is only so much of it, and no host may name it.
//!
//! Idea: the memory has *budgets*, each for one purpose, and each a wall: who wants more waits, or is refused. Pages
//! for transfers have addresses with bit 63 set, as the host's have addresses without: handlers of commands copy from
//! and to either. Only cores can resolve them. The host's memory space knows no such address, so a command that
//! names one names nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use wharf_runtime::{Cpu, Resource, TaskId};
use wharf_wire::dma::{DmaFault, DmaRegion, DmaSpace, HostPage, PAGE_BYTES, RegisterError};
use wharf_wire::window::{Times, Window};

use crate::config::MemoryConfig;
use crate::kept::Protection;
use crate::persistent::PersistentMemory;

/// Set in addresses of the drive's own memory.
const OWN: u64 = 1 << 63;

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Pages of metadata that a file system keeps.
    Metadata,
    /// Changes of metadata on their way to their places.
    Journal,
}

/// More than a budget has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes are more than the {left} bytes of device memory that are left for this")]
pub struct Exceeded {
    /// Bytes that were asked for.
    pub wanted: u64,
    /// Bytes that are left.
    pub left: u64,
}

/// See the [module](self).
pub struct DeviceMemory {
    space: Arc<DmaSpace>,
    region: DmaRegion,
    /// Pages for transfers that nobody has.
    free: RefCell<Vec<u32>>,
    /// Tasks that wait for some, in order, with how many.
    line: RefCell<VecDeque<(u64, TaskId, usize)>>,
    next_in_line: Cell<u64>,
    metadata_left: Cell<u64>,
    journal_left: Cell<u64>,
    latency_ns: u64,
    ns_per_page: u64,
    busy: Cell<Resource>,
    persistent: Option<PersistentMemory>,
    /// What has pages of files be there after a loss of power, if anything does.
    protection: Option<Protection>,
    /// Pages of files that hosts have the drive keep.
    near: Option<Arc<DmaRegion>>,
    /// What hosts may load of them and store to.
    window: Option<Arc<Window>>,
}

impl DeviceMemory {
    /// Memory that nobody uses.
    ///
    /// # Errors
    /// If this machine has none.
    pub fn new(config: &MemoryConfig) -> Result<DeviceMemory, RegisterError> {
        let space = DmaSpace::new(PAGE_BYTES);
        let pages = config.transfer_bytes as usize / PAGE_BYTES;
        let region = space.register(pages)?;
        let near_pages = config.near_bytes as usize / PAGE_BYTES;
        let near = match near_pages {
            0 => None,
            pages => Some(Arc::new(space.register(pages)?)),
        };
        Ok(DeviceMemory {
            space,
            region,
            near,
            window: None,
            free: RefCell::new((0..pages as u32).rev().collect()),
            line: RefCell::default(),
            next_in_line: Cell::new(0),
            metadata_left: Cell::new(config.metadata_bytes),
            journal_left: Cell::new(config.journal_bytes),
            latency_ns: config.latency_ns,
            ns_per_page: (PAGE_BYTES as u64 * 1000)
                .checked_div(config.mb_s)
                .unwrap_or(0),
            busy: Cell::default(),
            persistent: None,
            protection: None,
        })
    }

    /// The same, with memory that a power cut leaves as it is.
    pub(crate) fn with_persistent(self, persistent: Option<PersistentMemory>) -> DeviceMemory {
        DeviceMemory { persistent, ..self }
    }

    /// The same, whose pages of files are there after a loss of power.
    pub(crate) fn with_protection(self, protection: Option<Protection>) -> DeviceMemory {
        DeviceMemory { protection, ..self }
    }

    /// What has pages of files be there after a loss of power, if anything does.
    pub(crate) fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    /// The same, of whose pages of files hosts may load and store those that are shown.
    pub(crate) fn with_window(self, times: Times) -> DeviceMemory {
        let window = |near: &Arc<DmaRegion>| Arc::new(Window::new(near.clone(), times));
        DeviceMemory {
            window: self.near.as_ref().map(window),
            ..self
        }
    }

    /// What hosts may load and store, if they may.
    pub fn window(&self) -> Option<&Arc<Window>> {
        self.window.as_ref()
    }

    /// What of it a power cut leaves as it is, if there is any.
    pub fn persistent(&self) -> Option<&PersistentMemory> {
        self.persistent.as_ref()
    }

    fn left(&self, purpose: Purpose) -> &Cell<u64> {
        match purpose {
            Purpose::Metadata => &self.metadata_left,
            Purpose::Journal => &self.journal_left,
        }
    }

    /// Bytes that a budget has left.
    pub fn bytes_left(&self, purpose: Purpose) -> u64 {
        self.left(purpose).get()
    }

    /// Takes bytes out of a budget.
    ///
    /// # Errors
    /// If there are not as many.
    pub fn reserve(&self, purpose: Purpose, bytes: u64) -> Result<(), Exceeded> {
        let left = self.left(purpose);
        let exceeded = Exceeded {
            wanted: bytes,
            left: left.get(),
        };
        left.set(left.get().checked_sub(bytes).ok_or(exceeded)?);
        Ok(())
    }

    /// The page at an address of this memory.
    pub(crate) fn page(&self, address: u64) -> Result<HostPage<'_>, DmaFault> {
        match address & OWN {
            0 => Err(DmaFault(address)),
            _ => self.space.page(address & !OWN),
        }
    }

    /// Puts bytes into a page of this memory, at an address in it.
    ///
    /// # Errors
    /// If the address is none of this memory's.
    ///
    /// # Safety
    /// Nobody else uses the bytes.
    pub(crate) unsafe fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), DmaFault> {
        match address & OWN {
            0 => Err(DmaFault(address)),
            // SAFETY: as the caller promises.
            _ => unsafe { self.space.write_bytes(address & !OWN, bytes) },
        }
    }

    /// Pages that there are for pages of files.
    pub fn near_pages(&self) -> u32 {
        self.near.as_ref().map_or(0, |near| near.pages() as u32)
    }

    fn near(&self) -> &DmaRegion {
        self.near.as_ref().expect("it has pages of files")
    }

    /// The address of one of them.
    pub(crate) fn near_address(&self, page: u32) -> u64 {
        self.near().address(page as usize) | OWN
    }

    /// Looks at one of them, or changes it, while no request names it.
    pub(crate) fn with_near<R>(&self, page: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: all cores of a drive are one thread, `f` waits for nothing, and it has no way to come here again: so nobody else
        // uses the page meanwhile.
        f(unsafe { self.near().page_mut(page as usize) })
    }

    /// When `pages` pages that are moved now have been.
    pub fn moved_ns(&self, cpu: &Cpu, pages: u32) -> u64 {
        if self.latency_ns == 0 && self.ns_per_page == 0 {
            return 0;
        }
        let mut busy = self.busy.get();
        let end_ns = busy.reserve(cpu.now(), self.ns_per_page * u64::from(pages));
        self.busy.set(busy);
        end_ns + self.latency_ns
    }

    /// Lends `count` pages for a transfer, in turn: waits until so many are free. For tasks that have none.
    ///
    /// # Panics
    /// If there are not so many pages at all.
    pub async fn lend(&self, cpu: &Cpu, count: usize) -> Lent<'_> {
        assert!(count <= self.region.pages(), "a transfer of {count} pages");
        let mut place = None;
        let pages = poll_fn(|_| match self.take(place, count) {
            Some(pages) => Poll::Ready(pages),
            None => {
                place.get_or_insert_with(|| self.stand_in_line(cpu.current(), count));
                Poll::Pending
            }
        })
        .await;
        self.wake_next(cpu);
        Lent {
            memory: self,
            cpu: cpu.clone(),
            pages,
        }
    }

    /// Takes pages, if it is the turn of who stands at `place` in the line, or of one who has just come.
    fn take(&self, place: Option<u64>, count: usize) -> Option<Vec<u32>> {
        let mut line = self.line.borrow_mut();
        let is_next = line.front().map(|first| first.0) == place;
        let mut free = self.free.borrow_mut();
        if !is_next || free.len() < count {
            return None;
        }
        if place.is_some() {
            line.pop_front();
        }
        let rest = free.len() - count;
        Some(free.split_off(rest))
    }

    fn stand_in_line(&self, task: TaskId, count: usize) -> u64 {
        let place = self.next_in_line.get();
        self.next_in_line.set(place + 1);
        self.line.borrow_mut().push_back((place, task, count));
        place
    }

    /// Wakes who stands first in line, if there is enough.
    fn wake_next(&self, cpu: &Cpu) {
        let line = self.line.borrow();
        if let Some((_, task, count)) = line.front()
            && self.free.borrow().len() >= *count
        {
            cpu.wake_at(cpu.now(), *task);
        }
    }
}

/// Pages that a task has, until this is dropped.
pub struct Lent<'a> {
    memory: &'a DeviceMemory,
    cpu: Cpu,
    pages: Vec<u32>,
}

impl Lent<'_> {
    /// Their addresses, in order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        let region = &self.memory.region;
        self.pages
            .iter()
            .map(|page| region.address(*page as usize) | OWN)
    }

    /// The bytes of one of them, while nobody has been asked to transfer it.
    pub fn bytes(&mut self, nth: usize) -> &mut [u8] {
        let page = self.pages[nth] as usize;
        // SAFETY: the page is lent to this task alone, whose requests that name it have been answered: it
        // awaits each of them.
        unsafe { self.memory.region.page_mut(page) }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.memory.free.borrow_mut().append(&mut self.pages);
        self.memory.wake_next(&self.cpu);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    const CONFIG: MemoryConfig = MemoryConfig {
        bytes: 1 << 20,
        mb_s: 4096,
        latency_ns: 50,
        metadata_bytes: 100,
        journal_bytes: 10,
        transfer_bytes: 8 * PAGE_BYTES as u64,
        near_bytes: 0,
        near_host_bytes: 0,
        protected: false,
        compute_bytes: 0,
    };

    #[test]
    fn a_budget_is_a_wall() {
        let memory = DeviceMemory::new(&CONFIG).unwrap();
        memory.reserve(Purpose::Metadata, 60).unwrap();
        let exceeded = Exceeded {
            wanted: 41,
            left: 40,
        };
        assert_eq!(memory.reserve(Purpose::Metadata, 41), Err(exceeded));
        memory.reserve(Purpose::Metadata, 40).unwrap();
        assert_eq!(memory.bytes_left(Purpose::Metadata), 0);
        // One has nothing of another's.
        assert!(memory.reserve(Purpose::Journal, 11).is_err());
        memory.reserve(Purpose::Journal, 10).unwrap();
    }

    /// Tasks that take pages for 100 ns: when each had its own, in order.
    fn lent_at(wanted: &[usize]) -> Vec<(u64, usize)> {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("core", Side::Drive, 1.0);
        let wanted = wanted.to_vec();
        let got = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let found = got.clone();
        machine.spawn_main(id, "tasks", move |cpu| async move {
            let memory = Rc::new(DeviceMemory::new(&CONFIG).unwrap());
            for (nth, count) in wanted.into_iter().enumerate() {
                let (memory, own, got) = (memory.clone(), cpu.clone(), got.clone());
                cpu.spawn_main("task", async move {
                    own.sleep_until(nth as u64).await;
                    let mut lent = memory.lend(&own, count).await;
                    got.lock().unwrap().push((own.now(), nth));
                    (0..count).for_each(|page| lent.bytes(page).fill(nth as u8));
                    own.sleep_until(own.now() + 100).await;
                    let is_own = |page| lent.bytes(page).iter().all(|b| *b == nth as u8);
                    assert!((0..count).all(is_own), "pages are one task's");
                });
            }
        });
        machine.run_virtual(Seed(1)).unwrap();
        std::mem::take(&mut *found.lock().unwrap())
    }

    #[test]
    fn who_wants_more_than_there_is_waits_and_is_not_overtaken() {
        // There would be room for the fourth beside the first, but the third stands before it.
        let got = lent_at(&[5, 2, 8, 1, 8]);
        assert_eq!(got, [(0, 0), (1, 1), (101, 2), (201, 3), (301, 4)]);
    }

    #[test]
    fn an_address_finds_its_page_and_no_memory_of_a_host() {
        let memory = DeviceMemory::new(&CONFIG).unwrap();
        let first = memory.region.address(0);
        assert!(memory.page(first | OWN).is_ok());
        assert!(memory.page(first).is_err(), "as a host's it is none");
        let behind = first + 8 * PAGE_BYTES as u64;
        assert!(memory.page(behind | OWN).is_err());
        assert!(DmaSpace::new(PAGE_BYTES).page(first | OWN).is_err());
    }

    #[test]
    fn what_is_moved_takes_the_time_of_its_bytes_one_after_the_other() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("core", Side::Drive, 1.0);
        machine.spawn_main(id, "moves", |cpu| async move {
            let memory = DeviceMemory::new(&CONFIG).unwrap();
            assert_eq!(memory.moved_ns(&cpu, 2), 2_050);
            assert_eq!(memory.moved_ns(&cpu, 1), 3_050);
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
