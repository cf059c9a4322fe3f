//! The driver: one queue pair of one client on one drive.
//!
//! Problem: many tasks of a CPU have commands in flight on one queue pair; each must learn of the
//! end of its own, errors must surface, and a drive that answers late, twice or never must not
//! corrupt anything.
//!
//! 1. A command takes a *slot*: its identifier, and a page or more for its PRP list. There is one
//!    slot less than the queue has entries, so a free slot means a free entry.
//! 2. [`Driver::issue`] writes the command; [`Driver::ring`] rings the doorbell once for all that
//!    were written since.
//! 3. A pump task takes completions off, matches them by identifier, and ends the command in its
//!    [group](crate::group).
//! 4. A timer task looks after commands that are due: a *timeout* ends the command for the one who
//!    waits, while the slot and its list stay reserved until the drive answers; the data
//!    buffers are kept by the group's owner, who sees that the group is not quiet.
//!    A *retry* sends a command again that failed with a retryable status.
//!
//! | file | idea |
//! |---|---|
//! | `config.rs` | timeouts, retries, what is known of the drive |
//! | `allocated.rs`, `answer_page.rs` | which pages of the drive are allocated |
//! | `answers.rs` | completions and what becomes of their commands |
//! | `timer.rs` | timeouts, and sending again |
//! | `statistics.rs` | what it counts |
//!
//! The identifier holds the slot's number in its low 12 bits and how often the slot was used, modulo
//! 16, above: a second answer to a finished command is told from the first to its successor.

mod allocated;
mod answer_page;
mod answers;
mod config;
mod statistics;
mod timer;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Alarm, Cpu, Notify, Op};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::dsm::{DsmRange, write_ranges};
use wharf_wire::opcode::AdminOpcode;
use wharf_wire::prp::{prp_for, prp_list_pages};
use wharf_wire::queue::HostQueue;
use wharf_wire::space::SpaceLevel;

use crate::collection::CollectionReports;
use crate::error::IoError;
use crate::group::{Group, Groups};

pub use crate::error::Stray;
use answer_page::AnswerPage;
pub use config::DriverConfig;
pub(crate) use config::TRANSFER_PAGES_MAX;
pub use statistics::DriverStatistics;
use statistics::count;

/// Bits of an identifier that hold the slot; the queue's largest depth is 4096.
const SLOT_BITS: u32 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Free,
    /// The drive has it.
    InFlight,
    /// The drive has it, and nobody waits any more.
    TimedOut,
    /// It failed and is sent again at the time given.
    Retry(u64),
}

struct Slot {
    state: SlotState,
    group: u32,
    command: Command,
    issued_ns: u64,
    deadline_ns: u64,
    retries_left: u8,
    uses: u8,
}

struct Inner {
    queue: HostQueue,
    slots: Vec<Slot>,
    free: Vec<u16>,
    statistics: DriverStatistics,
    stray: Option<Stray>,
}

/// See the module. Shared by the tasks of one CPU.
pub struct Driver {
    cpu: Cpu,
    config: DriverConfig,
    groups: Rc<Groups>,
    inner: RefCell<Inner>,
    /// PRP lists: `list_pages` whole pages for each slot; and one page more.
    lists: DmaRegion,
    list_pages: usize,
    slot_freed: Notify,
    alarm: Alarm,
    unrung: Cell<bool>,
    collects_garbage: Cell<bool>,
    /// Completions carry the level of space.
    has_space_levels: Cell<bool>,
    space_level: Cell<SpaceLevel>,
    /// The last page of `lists` is for answers to questions that anyone may ask.
    answer: RefCell<AnswerPage>,
    answer_freed: Notify,
    /// Who else is told of collection, and under which number.
    reports: OnceCell<(Arc<CollectionReports>, usize)>,
    admin: bool,
}

/// A free slot, taken. It must be used before the task waits for anything.
#[must_use]
pub struct FreeSlot(());

impl Driver {
    /// A driver on `queue`, with its two tasks on `cpu`. `groups` is shared by all drivers of the
    /// CPU. `admin` says that it is the admin queue, for messages.
    ///
    /// # Errors
    /// If there is no memory for PRP lists.
    pub fn start(
        cpu: &Cpu,
        queue: HostQueue,
        space: &Arc<DmaSpace>,
        groups: &Rc<Groups>,
        config: DriverConfig,
        admin: bool,
    ) -> Result<Rc<Driver>, RegisterError> {
        assert!(
            config.max_transfer_pages > 0,
            "a command moves at least a page"
        );
        let count = queue.depth() as usize - 1;
        // One page at least: a list of ranges to deallocate takes one too.
        let list_pages = prp_list_pages(config.max_transfer_pages as usize).max(1);
        let slot = |_| Slot {
            state: SlotState::Free,
            group: 0,
            command: Command::default(),
            issued_ns: 0,
            deadline_ns: u64::MAX,
            retries_left: 0,
            uses: 0,
        };
        let driver = Rc::new(Driver {
            cpu: cpu.clone(),
            config,
            groups: groups.clone(),
            lists: space.register_whole(count * list_pages + 1)?,
            list_pages,
            inner: RefCell::new(Inner {
                queue,
                slots: (0..count).map(slot).collect(),
                free: (0..count as u16).rev().collect(),
                statistics: DriverStatistics::default(),
                stray: None,
            }),
            slot_freed: Notify::new(),
            alarm: Alarm::default(),
            unrung: Cell::new(false),
            collects_garbage: Cell::new(false),
            has_space_levels: Cell::new(false),
            space_level: Cell::new(SpaceLevel::Green),
            answer: RefCell::default(),
            answer_freed: Notify::new(),
            reports: OnceCell::new(),
            admin,
        });
        cpu.spawn("driver pump", driver.clone().pump());
        cpu.spawn("driver timer", driver.clone().timer());
        Ok(driver)
    }

    /// Pages that a driver on a queue of `depth` entries takes at most for its lists.
    pub fn list_pages_max(depth: u32) -> usize {
        (depth as usize - 1) * prp_list_pages(TRANSFER_PAGES_MAX as usize).max(1) + 1
    }

    /// The configuration.
    pub fn config(&self) -> &DriverConfig {
        &self.config
    }

    /// Most commands in flight.
    pub fn slots(&self) -> usize {
        self.inner.borrow().slots.len()
    }

    /// The CPU it runs on.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// The groups of its CPU.
    pub fn groups(&self) -> &Rc<Groups> {
        &self.groups
    }

    /// What it did so far.
    pub fn statistics(&self) -> DriverStatistics {
        self.inner.borrow().statistics
    }

    /// Whether the drive was collecting garbage when it answered last.
    #[inline]
    pub fn collects_garbage(&self) -> bool {
        self.collects_garbage.get()
    }

    /// From now on completions carry the level of space: the drive was told to ([`SpaceThresholds`]).
    ///
    /// [`SpaceThresholds`]: wharf_wire::space::SpaceThresholds
    pub fn expect_space_levels(&self) {
        self.has_space_levels.set(true);
    }

    /// How full the drive said it was when it answered last; green where levels are not expected.
    #[inline]
    pub fn space_level(&self) -> SpaceLevel {
        self.space_level.get()
    }

    /// From now on `reports` is told, as by CPU number `cpu`, of completions that say that the drive
    /// collects. Only the first call counts.
    pub fn report_collection(&self, reports: &Arc<CollectionReports>, cpu: usize) {
        let _ = self.reports.set((reports.clone(), cpu));
    }

    /// The first completion that belonged to no command, if there was one.
    pub fn stray(&self) -> Option<Stray> {
        self.inner.borrow().stray
    }

    /// Waits for a free slot. Commands written so far are announced first.
    #[inline]
    pub async fn reserve(&self) -> FreeSlot {
        loop {
            if let Some(slot) = self.try_reserve() {
                return slot;
            }
            self.ring();
            self.slot_freed.wait(&self.cpu).await;
        }
    }

    /// A free slot, if there is one.
    #[inline]
    pub fn try_reserve(&self) -> Option<FreeSlot> {
        let is_free = !self.inner.borrow().free.is_empty();
        is_free.then_some(FreeSlot(()))
    }

    /// Writes a command that moves the pages at `pages` (none, for one without data) to the queue,
    /// as one of `group`. The drive sees it after [`Driver::ring`]. Identifier and pointers are
    /// filled in. The pages belong to the drive until the group is quiet.
    #[inline]
    pub fn issue(&self, _slot: FreeSlot, group: &Group, command: Command, pages: &[u64]) {
        self.cpu.work(Op::DriverSubmit, || {
            let mut inner = self.inner.borrow_mut();
            let slot = inner.free.pop().expect("the slot was reserved");
            let (prp1, prp2) = match pages {
                // A create-queue command brings its own address.
                [] => (command.prp1, command.prp2),
                [one] => (*one, 0),
                [one, two] => (*one, *two),
                more => self.write_list(slot, more),
            };
            self.start_command(&mut inner, slot, group, command.with_prp(prp1, prp2));
        });
    }

    /// As [`Driver::issue`], for a command that deallocates `ranges` (1..=256).
    pub fn issue_ranges(&self, _slot: FreeSlot, group: &Group, nsid: u32, ranges: &[DsmRange]) {
        self.cpu.work(Op::DriverSubmit, || {
            let mut inner = self.inner.borrow_mut();
            let slot = inner.free.pop().expect("the slot was reserved");
            let page = usize::from(slot) * self.list_pages;
            // SAFETY: the slot's list page; no command names it, since the slot was free.
            let list = unsafe { self.lists.page_mut(page) };
            let count = write_ranges(ranges, list).expect("1 to 256 ranges fit a page");
            let command = Command::deallocate(nsid, count).with_prp(self.lists.address(page), 0);
            self.start_command(&mut inner, slot, group, command);
        });
    }

    /// Announces the commands written since the last time.
    #[inline]
    pub fn ring(&self) {
        if self.unrung.take() {
            self.inner.borrow_mut().queue.ring_doorbell(&self.cpu);
        }
    }

    /// Sends one command and waits for its end; gives dword 0 of the completion. For commands that
    /// name no memory of the host, or memory that is never used again after an error.
    ///
    /// # Errors
    /// The drive's status, or a timeout.
    pub async fn execute(&self, command: Command, pages: &[u64]) -> Result<u32, IoError> {
        let group = self.groups.open();
        let slot = self.reserve().await;
        self.issue(slot, &group, command, pages);
        self.ring();
        // Commands that anyone executes alone have a result of 32 bits.
        group.wait(&self.cpu).await.map(|result| result as u32)
    }

    fn write_list(&self, slot: u16, pages: &[u64]) -> (u64, u64) {
        let first = usize::from(slot) * self.list_pages;
        let base = self.lists.address(first);
        let write = |at: u64, value: u64| {
            let offset = (at - base) as usize;
            let page = self.lists.page_pointer(first + offset / PAGE_BYTES);
            // SAFETY: an aligned word of a list page of this slot, which was free: no command
            // names it yet.
            unsafe { page.add(offset % PAGE_BYTES).cast::<u64>().write(value) };
        };
        if self.list_pages == 1 {
            return prp_for(pages, &[base], write).expect("pages are aligned and fit the list");
        }
        let lists: Vec<u64> = (0..self.list_pages)
            .map(|i| self.lists.address(first + i))
            .collect();
        prp_for(pages, &lists, write).expect("pages are aligned and fit the lists")
    }

    #[inline]
    fn start_command(&self, inner: &mut Inner, index: u16, group: &Group, command: Command) {
        count(&mut inner.statistics, &command, self.admin);
        let slot = &mut inner.slots[usize::from(index)];
        slot.uses = slot.uses.wrapping_add(1);
        slot.command = command.with_cid(index | u16::from(slot.uses) << SLOT_BITS);
        slot.group = group.index();
        slot.retries_left = match command.io_opcode() {
            // One that fails has done a part: only who sent it knows what is left to do.
            Some(opcode) if !self.admin && opcode.has_wide_result() => 0,
            _ => self.config.retries,
        };
        slot.issued_ns = self.cpu.now();
        slot.deadline_ns = match slot.command.admin_opcode() {
            // It is answered when something happens.
            Some(AdminOpcode::AsyncEventRequest) if self.admin => u64::MAX,
            _ => slot.issued_ns.saturating_add(self.config.timeout_ns),
        };
        self.alarm.set(&self.cpu, slot.deadline_ns);
        self.groups.begin(&self.cpu, slot.group);
        self.send(inner, index);
    }

    #[inline]
    fn send(&self, inner: &mut Inner, index: u16) {
        let slot = &mut inner.slots[usize::from(index)];
        match inner.queue.submit(&self.cpu, slot.command) {
            Ok(()) => {
                slot.state = SlotState::InFlight;
                self.unrung.set(true);
            }
            // Only a drive that reports a wrong queue head brings this about: try again later.
            Err(_full) => self.send_later(slot),
        }
    }
}
