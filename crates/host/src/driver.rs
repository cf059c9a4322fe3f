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
//! The identifier holds the slot's number in its low 12 bits and how often the slot was used, modulo
//! 16, above: a second answer to a finished command is told from the first to its successor.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Alarm, Cpu, Notify, Op};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::dsm::{DsmRange, write_ranges};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::prp::{prp_for, prp_list_pages};
use wharf_wire::queue::HostQueue;
use wharf_wire::status::Status;

use crate::admin::TRANSFER_PAGES_MAX;
use crate::error::IoError;
use crate::group::{Group, Groups};

/// Bits of an identifier that hold the slot; the queue's largest depth is 4096.
const SLOT_BITS: u32 = 12;

/// How a driver treats its commands.
#[derive(Debug, Clone, Copy)]
pub struct DriverConfig {
    /// The drive's number in its volume, for messages.
    pub drive: u16,
    /// Most pages of a command, from the drive's identify data.
    pub max_transfer_pages: u32,
    /// Firmware cores of the drive, from its identify data.
    pub cores: u32,
    /// Pages of a stripe of a drive: stripes are dealt out to the cores in turn.
    pub core_stripe_pages: u32,
    /// Nanoseconds after which a command without an answer times out.
    pub timeout_ns: u64,
    /// How often a command that failed with a retryable status is sent again.
    pub retries: u8,
    /// Nanoseconds before it is sent again.
    pub retry_delay_ns: u64,
}

impl Default for DriverConfig {
    /// One core; 30 s, as the Linux NVMe driver has it; three retries 100 µs apart; transfers of 1 MiB.
    fn default() -> Self {
        DriverConfig {
            drive: 0,
            max_transfer_pages: 256,
            cores: 1,
            core_stripe_pages: 32,
            timeout_ns: 30_000_000_000,
            retries: 3,
            retry_delay_ns: 100_000,
        }
    }
}

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a driver did.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct DriverStatistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DriverStatistics {
            /// Adds what another driver did.
            pub fn merge(&mut self, other: &DriverStatistics) {
                $(self.$name += other.$name;)*
            }

            /// What was done since `earlier`, a reading of the same drivers.
            #[must_use]
            pub fn since(&self, earlier: &DriverStatistics) -> DriverStatistics {
                DriverStatistics { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

statistics! {
    /// Read commands issued.
    reads,
    /// Write commands issued.
    writes,
    /// Flush commands issued.
    flushes,
    /// Dataset management commands issued.
    deallocates,
    /// Commands of other kinds issued.
    others,
    /// Bytes of the read commands; a page counts 4096 bytes, also as a stamp.
    read_bytes,
    /// Bytes of the write commands.
    write_bytes,
    /// Nanoseconds from issue to completion, over the commands that succeeded.
    command_ns,
    /// Commands that ended with an error status.
    errors,
    /// Commands that timed out.
    timeouts,
    /// Times that a command was sent again.
    retries,
    /// Answers to commands that had timed out.
    late,
    /// Completions that belong to no command in flight.
    strays,
}

impl DriverStatistics {
    /// Commands issued, retries not counted.
    pub fn commands(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.deallocates + self.others
    }
}

/// A completion that belongs to no command in flight: the drive is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "drive {drive}: completion of command {cid:#06x} ({status}), which is not in flight: ignored"
)]
pub struct Stray {
    /// Which drive of the volume.
    pub drive: u16,
    /// The identifier in the completion.
    pub cid: u16,
    /// The status in the completion.
    pub status: Status,
}

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
    /// PRP lists: `list_pages` whole pages for each slot.
    lists: DmaRegion,
    list_pages: usize,
    slot_freed: Notify,
    alarm: Alarm,
    unrung: Cell<bool>,
    collects_garbage: Cell<bool>,
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
            lists: space.register_whole(count * list_pages)?,
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
            admin,
        });
        cpu.spawn("driver pump", driver.clone().pump());
        cpu.spawn("driver timer", driver.clone().timer());
        Ok(driver)
    }

    /// Pages that a driver on a queue of `depth` entries takes at most for its lists.
    pub fn list_pages_max(depth: u32) -> usize {
        (depth as usize - 1) * prp_list_pages(TRANSFER_PAGES_MAX as usize).max(1)
    }

    /// The configuration.
    pub fn config(&self) -> &DriverConfig {
        &self.config
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

    /// The first completion that belonged to no command, if there was one.
    pub fn stray(&self) -> Option<Stray> {
        self.inner.borrow().stray
    }

    /// Waits for a free slot. Commands written so far are announced first.
    #[inline]
    pub async fn reserve(&self) -> FreeSlot {
        while self.inner.borrow().free.is_empty() {
            self.ring();
            self.slot_freed.wait(&self.cpu).await;
        }
        FreeSlot(())
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
            Some(IoOpcode::Pin | IoOpcode::Unpin) if !self.admin => 0,
            _ => self.config.retries,
        };
        slot.issued_ns = self.cpu.now();
        slot.deadline_ns = slot.issued_ns.saturating_add(self.config.timeout_ns);
        self.alarm.set(&self.cpu, slot.deadline_ns);
        self.groups.begin(slot.group);
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

    #[cold]
    fn send_later(&self, slot: &mut Slot) {
        let at_ns = self.cpu.now() + self.config.retry_delay_ns;
        slot.state = SlotState::Retry(at_ns);
        self.alarm.set(&self.cpu, at_ns);
    }

    /// Takes completions off for as long as the CPU runs.
    async fn pump(self: Rc<Self>) {
        let bell = self.inner.borrow().queue.bell().clone();
        bell.attach(&self.cpu);
        loop {
            loop {
                let next = self.inner.borrow_mut().queue.poll(&self.cpu);
                let Some(completion) = next else { break };
                self.cpu
                    .work(Op::DriverComplete, || self.complete(completion));
            }
            self.inner.borrow_mut().queue.release();
            let _ = bell.wait(&self.cpu).await;
        }
    }

    #[inline]
    fn complete(&self, completion: Completion) {
        let mut inner = self.inner.borrow_mut();
        let index = completion.cid & ((1 << SLOT_BITS) - 1);
        let known = inner.slots.get_mut(usize::from(index)).filter(|slot| {
            let with_drive = matches!(slot.state, SlotState::InFlight | SlotState::TimedOut);
            with_drive && slot.command.cid == completion.cid
        });
        let Some(slot) = known else {
            return self.note_stray(&mut inner, &completion);
        };
        let status = completion.status();
        let group = slot.group;
        self.collects_garbage.set(completion.gc_state());
        if slot.state == SlotState::TimedOut {
            let outcome = match status.is_success() {
                true => Ok(completion.wide_result()),
                false => Err(self.error_of(&slot.command, status)),
            };
            inner.statistics.late += 1;
            self.free(&mut inner, index);
            return self.groups.end_late(&self.cpu, group, outcome);
        }
        if !status.is_success() {
            return self.fail(&mut inner, index, status);
        }
        let took_ns = self.cpu.now().saturating_sub(slot.issued_ns);
        inner.statistics.command_ns += took_ns;
        self.free(&mut inner, index);
        self.groups
            .end(&self.cpu, group, Ok(completion.wide_result()));
    }

    #[inline]
    fn free(&self, inner: &mut Inner, index: u16) {
        inner.slots[usize::from(index)].state = SlotState::Free;
        inner.free.push(index);
        if !self.slot_freed.is_empty() {
            self.slot_freed.notify_all(&self.cpu);
        }
    }

    #[cold]
    fn note_stray(&self, inner: &mut Inner, completion: &Completion) {
        inner.statistics.strays += 1;
        let (drive, cid, status) = (self.config.drive, completion.cid, completion.status());
        inner.stray = inner.stray.or(Some(Stray { drive, cid, status }));
    }

    #[cold]
    fn fail(&self, inner: &mut Inner, index: u16, status: Status) {
        let slot = &mut inner.slots[usize::from(index)];
        if status.is_retryable() && slot.retries_left > 0 {
            slot.retries_left -= 1;
            inner.statistics.retries += 1;
            return self.send_later(slot);
        }
        let group = slot.group;
        let error = self.error_of(&slot.command, status);
        inner.statistics.errors += 1;
        self.free(inner, index);
        self.groups.end(&self.cpu, group, Err(error));
    }

    #[cold]
    fn error_of(&self, command: &Command, status: Status) -> IoError {
        IoError::Status {
            drive: self.config.drive,
            opcode: command.opcode,
            admin: self.admin,
            lba: self.lba(command),
            status,
        }
    }

    /// Looks after timeouts and retries for as long as the CPU runs.
    async fn timer(self: Rc<Self>) {
        loop {
            self.alarm.wait(&self.cpu).await;
            let now_ns = self.cpu.now();
            let mut next_ns = u64::MAX;
            let slots = self.inner.borrow().slots.len() as u16;
            for index in 0..slots {
                next_ns = next_ns.min(self.look_after(index, now_ns));
            }
            self.ring();
            if next_ns != u64::MAX {
                self.alarm.set(&self.cpu, next_ns);
            }
        }
    }

    /// Does what is due for a slot; gives the time of the next thing.
    fn look_after(&self, index: u16, now_ns: u64) -> u64 {
        let mut inner = self.inner.borrow_mut();
        let slot = &mut inner.slots[usize::from(index)];
        match slot.state {
            SlotState::Free | SlotState::TimedOut => u64::MAX,
            SlotState::InFlight | SlotState::Retry(_) if slot.deadline_ns <= now_ns => {
                self.time_out(&mut inner, index);
                u64::MAX
            }
            SlotState::Retry(at_ns) if at_ns <= now_ns => {
                let deadline_ns = slot.deadline_ns;
                self.send(&mut inner, index);
                deadline_ns
            }
            SlotState::Retry(at_ns) => at_ns.min(slot.deadline_ns),
            SlotState::InFlight => slot.deadline_ns,
        }
    }

    #[cold]
    fn time_out(&self, inner: &mut Inner, index: u16) {
        inner.statistics.timeouts += 1;
        let slot = &mut inner.slots[usize::from(index)];
        let (group, state) = (slot.group, slot.state);
        let error = IoError::Timeout {
            drive: self.config.drive,
            opcode: slot.command.opcode,
            admin: self.admin,
            lba: self.lba(&slot.command),
        };
        if state == SlotState::InFlight {
            slot.state = SlotState::TimedOut;
            self.groups.time_out(&self.cpu, group, error);
        } else {
            // It waited to be sent again: the drive does not have it.
            self.free(inner, index);
            self.groups.end(&self.cpu, group, Err(error));
        }
    }

    fn lba(&self, command: &Command) -> u64 {
        match command.io_opcode() {
            Some(IoOpcode::Flush | IoOpcode::DatasetManagement) | None => 0,
            Some(_) if self.admin => 0,
            Some(_) => command.slba(),
        }
    }
}

#[inline]
fn count(statistics: &mut DriverStatistics, command: &Command, admin: bool) {
    let bytes = || u64::from(command.pages()) * PAGE_BYTES as u64;
    match command.io_opcode() {
        _ if admin => statistics.others += 1,
        Some(IoOpcode::Read) => {
            statistics.reads += 1;
            statistics.read_bytes += bytes();
        }
        Some(IoOpcode::Write) => {
            statistics.writes += 1;
            statistics.write_bytes += bytes();
        }
        Some(IoOpcode::Flush) => statistics.flushes += 1,
        Some(IoOpcode::DatasetManagement) => statistics.deallocates += 1,
        _ => statistics.others += 1,
    }
}
