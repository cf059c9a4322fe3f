//! A volume: one or more drives as one address space of 4 KiB pages, as one client sees it through its own queue
//! pairs.
//!
//! | file | idea |
//! |---|---|
//! | `layout.rs` | where pages lie: RAID-0, RAID-10, RAID-5 |
//! | `mirror.rs` | RAID-10: writes go to both drives of a pair, reads to one |
//! | `plan.rs` | RAID-5: windows and bands of a write, and what each has to read |
//! | `parity.rs` | RAID-5: the tasks that write, and what CPUs share |
//! | `command.rs` | the commands of a transfer |
//! | `allocation.rs` | which pages are allocated, and giving up many at once |
//! | `md.rs` | the driver of an array that the operating system makes |
//!
//! Who does what: designs name pages of the volume and memory, and wait for the group of a transfer
//! ([`Volume::issue`], [`Volume::ring`]). Of RAID-0, a request becomes one command per drive, or several
//! where it exceeds the drive's largest transfer; of RAID-10 one per stripe, and twice that to write. A write to
//! RAID-5 becomes tasks on the CPU that asked for it, which read, add up, and write; they count as commands of the group.
//! A group is quiet, as ever, when no drive uses the memory of the transfer any more.
//!
//! Designs whose drives pin pages send commands past the volume: they take RAID-0 alone.
//!
//! Not yet: service without a drive, and rebuilding one. The arrays of real storage (`wharf-storage`) have both.
//!
//! # What a layout makes of a request
//!
//! `host.layout` spreads a volume over drives as RAID-0, RAID-10 or RAID-5 (`host/volume/`).
//! Designs see none of it: they name pages and wait for a group.
//!
//! * RAID-0: a command a drive: a command a drive (does not know: all drives).
//! * RAID-10: from one drive of a pair; rows take turns: to both, in one group (does not know: all
//!   drives).
//! * RAID-5: as RAID-0, a command a stripe: tasks that read, add up and write (does not know: all
//!   drives).
//!
//! A write to RAID-5 is cut into *windows*, and each is a task on the CPU that asked for it, which
//! its group counts as one command. The task locks the window's pages of the row (one table of
//! range locks for all CPUs), takes memory for all it reads, reads by the plan with the fewest
//! reads (`volume/plan.rs`), adds up (`Op::XorPage`), and writes data and parity at once. Memory is
//! taken behind the lock, so whoever waits for memory waits for a task that lacks nothing. A write
//! that failed leaves its pages *in doubt*: the next write there adds up all columns anew. Pages
//! being written do not change, in any design, until the group is quiet: what goes into parity is
//! what goes to the drive.
//!
//! Absent on purpose: a journal, reads without a drive, rebuilding (`storage/array/` has them for
//! real storage), md's cache of stripes and its threads. Designs whose drives keep the cache are
//! refused on anything but RAID-0: what a drive writes back by itself reaches no parity and no
//! mirror.
//!
//! **Services** are CPUs of the host that work for all clients: the managers of `tri`, the flushers
//! of `kernel`, `kernel-dflush` and `scale`, the drives' CPUs of `falcon`. A design says how many
//! (`Design::needs`); each gets queue pairs and, in real time, a place among the clients' threads.

mod allocation;
mod command;
mod layout;
mod md;
mod mirror;
mod parity;
mod plan;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::driver::{Driver, DriverStatistics};
use crate::error::IoError;
use crate::group::{Group, Groups};
use command::{command, issue_run};
use parity::Parity;

pub(crate) use command::NAMESPACE;
pub use command::Transfer;
pub use layout::{Layout, LayoutError, Level, Stretch};
pub use md::ArrayDriver;
pub use parity::ParityLocks;

/// Pages of a stripe unless the configuration says otherwise: 64 KiB.
pub const STRIPE_PAGES: u64 = 16;

/// See the module. One for each client; its tasks share it.
pub struct Volume {
    drivers: Vec<Rc<Driver>>,
    groups: Rc<Groups>,
    layout: Layout,
    gathered: RefCell<Vec<u64>>,
    /// Of a volume with parity.
    parity: Option<Rc<Parity>>,
    /// Of a volume that the operating system makes.
    array_driver: Option<Arc<ArrayDriver>>,
}

impl Volume {
    /// A volume without parity over `drivers`, one for each drive, which share their groups.
    pub fn new(drivers: Vec<Rc<Driver>>, layout: Layout) -> Rc<Volume> {
        assert!(layout.level != Level::Raid5, "parity is shared");
        Rc::new(Volume::of(drivers, layout, None))
    }

    /// A volume with parity, whose users share `locks`, and with memory for parity in `space`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn with_parity(
        drivers: Vec<Rc<Driver>>,
        layout: Layout,
        space: &Arc<DmaSpace>,
        locks: &Arc<ParityLocks>,
    ) -> Result<Rc<Volume>, RegisterError> {
        assert!(layout.level == Level::Raid5, "a layout with parity");
        let parity = Parity::new(drivers.clone(), layout, space, locks)?;
        Ok(Rc::new(Volume::of(drivers, layout, Some(parity))))
    }

    /// A volume over `drivers`: with parity where there are `locks`, and behind the driver of an array where there is
    /// one.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn open(
        drivers: Vec<Rc<Driver>>,
        layout: Layout,
        space: &Arc<DmaSpace>,
        locks: Option<&Arc<ParityLocks>>,
        array_driver: Option<Arc<ArrayDriver>>,
    ) -> Result<Rc<Volume>, RegisterError> {
        let parity = match locks {
            Some(locks) => Some(Parity::new(drivers.clone(), layout, space, locks)?),
            None => None,
        };
        Ok(Rc::new(Volume {
            array_driver,
            ..Volume::of(drivers, layout, parity)
        }))
    }

    fn of(drivers: Vec<Rc<Driver>>, layout: Layout, parity: Option<Rc<Parity>>) -> Volume {
        assert!(
            drivers.len() as u64 == layout.drives,
            "a driver for each drive"
        );
        let groups = drivers[0].groups().clone();
        assert!(
            drivers.iter().all(|d| Rc::ptr_eq(d.groups(), &groups)),
            "the drivers of a client share their groups"
        );
        Volume {
            drivers,
            groups,
            layout,
            gathered: RefCell::default(),
            parity,
            array_driver: None,
        }
    }

    /// Pages of the volume.
    pub fn pages(&self) -> u64 {
        self.layout.pages()
    }

    /// Where its pages lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What its drivers did so far, drive by drive.
    pub fn statistics(&self) -> impl Iterator<Item = DriverStatistics> {
        self.drivers.iter().map(|d| d.statistics())
    }

    /// Its drivers, drive by drive.
    pub fn drivers(&self) -> &[Rc<Driver>] {
        &self.drivers
    }

    /// Opens a group for commands on any of the drives.
    #[inline]
    pub fn open_group(&self) -> Group {
        self.groups.open()
    }

    /// Nanoseconds in which the CPU had nothing to do but poll for the ends of commands; 0 in real time.
    pub fn polled_ns(&self) -> u64 {
        self.groups.polled_ns()
    }

    /// Refuses pages beyond the end.
    ///
    /// # Errors
    /// [`IoError::OutOfRange`].
    #[inline]
    pub fn check(&self, first: u64, pages: u64) -> Result<(), IoError> {
        match first.checked_add(pages) {
            Some(end) if end <= self.pages() => Ok(()),
            _ => Err(IoError::OutOfRange {
                first,
                pages,
                volume_pages: self.pages(),
            }),
        }
    }

    /// Reads pages from `first` on into the pages at `addresses`, and waits.
    ///
    /// # Errors
    /// Pages out of range; the first error of a command. After a timeout the drive may still
    /// write to the pages, and nobody can tell when it is done: owners of pages that are used
    /// again take [`Volume::issue`] and keep the group.
    pub async fn read(&self, cpu: &Cpu, first: u64, addresses: &[u64]) -> Result<(), IoError> {
        self.transfer(cpu, Transfer::Read, first, addresses).await
    }

    /// Writes the pages at `addresses` to pages from `first` on, and waits; with `fua`, until they
    /// are durable.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub async fn write(
        &self,
        cpu: &Cpu,
        first: u64,
        addresses: &[u64],
        fua: bool,
    ) -> Result<(), IoError> {
        let kind = if fua {
            Transfer::WriteThrough
        } else {
            Transfer::Write
        };
        self.transfer(cpu, kind, first, addresses).await
    }

    async fn transfer(
        &self,
        cpu: &Cpu,
        kind: Transfer,
        first: u64,
        addresses: &[u64],
    ) -> Result<(), IoError> {
        self.check(first, addresses.len() as u64)?;
        let group = self.open_group();
        self.issue(&group, kind, first, addresses).await;
        self.ring();
        group.wait(cpu).await.map(drop)
    }

    /// Virtual time in which all of its users were in the driver of an array, in nanoseconds.
    pub fn array_driver_ns(&self) -> u64 {
        let driver = self.array_driver.as_ref();
        driver.map_or(0, |driver| driver.spent_ns())
    }

    /// Number of commands that a transfer of `pages` pages from `first` on becomes, if none is too large.
    pub fn commands_of(&self, kind: Transfer, first: u64, pages: u64) -> u32 {
        let stripes = self.layout.stripes(first, pages);
        let commands = match (self.layout.level, kind) {
            (Level::Raid0, _) => stripes.min(self.layout.drives),
            (_, Transfer::Read) => stripes,
            (Level::Raid10, _) => 2 * stripes,
            (Level::Raid5, _) => plan::commands(&self.layout, first, pages),
        };
        commands as u32
    }

    /// Writes the commands of a transfer to the queues, without ringing. The pages belong to the
    /// drives until the group is quiet. The range must have been [checked](Volume::check).
    #[inline]
    pub async fn issue(&self, group: &Group, kind: Transfer, first: u64, addresses: &[u64]) {
        let count = addresses.len() as u64;
        if let Some(array_driver) = self.array_driver.as_ref().filter(|_| count > 0) {
            let parts = self.layout.stripes(first, count);
            array_driver.pass(self.drivers[0].cpu(), parts).await;
        }
        if self.layout.level != Level::Raid0 {
            self.issue_redundant(group, kind, first, addresses).await;
        } else if count <= self.layout.rest_of_stripe(first) {
            let (drive, lba) = self.layout.locate(first);
            issue_run(&self.drivers[drive], group, kind, lba, addresses).await;
        } else {
            for drive in 0..self.drivers.len() {
                self.issue_striped(drive, group, kind, first, addresses)
                    .await;
            }
        }
    }

    /// As [`Volume::issue`] of one page, by an ordinary function: false if that would wait for something, or takes more than one
    /// command, and then nothing was done.
    #[inline]
    pub fn issue_now(&self, group: &Group, kind: Transfer, page: u64, address: u64) -> bool {
        if self.array_driver.is_some() || self.layout.level != Level::Raid0 {
            return false;
        }
        let (drive, lba) = self.layout.locate(page);
        let driver = &self.drivers[drive];
        let Some(slot) = driver.try_reserve() else {
            return false;
        };
        driver.issue(slot, group, command(kind, lba, 1), &[address]);
        true
    }

    async fn issue_redundant(&self, group: &Group, kind: Transfer, first: u64, addresses: &[u64]) {
        match &self.parity {
            Some(parity) if kind != Transfer::Read => parity.store(group, kind, first, addresses),
            _ => self.issue_stretches(group, kind, first, addresses).await,
        }
    }

    /// The part of a transfer that lies on `drive`.
    async fn issue_striped(
        &self,
        drive: usize,
        group: &Group,
        kind: Transfer,
        first: u64,
        addresses: &[u64],
    ) {
        let driver = &self.drivers[drive];
        let end = first + addresses.len() as u64;
        let mut page = self.layout.next_in(drive, first);
        while page < end {
            let slot = driver.reserve().await;
            let mut gathered = self.gathered.borrow_mut();
            gathered.clear();
            let lba = self.layout.locate(page).1;
            let mut room = u64::from(driver.config().max_transfer_pages);
            while page < end && room > 0 {
                let run = self.layout.rest_of_stripe(page).min(end - page).min(room);
                let at = (page - first) as usize;
                gathered.extend_from_slice(&addresses[at..at + run as usize]);
                room -= run;
                page = self.layout.next_in(drive, page + run);
            }
            driver.issue(
                slot,
                group,
                command(kind, lba, gathered.len() as u32),
                &gathered,
            );
        }
    }

    /// Announces the commands written since the last time, on every drive.
    #[inline]
    pub fn ring(&self) {
        self.drivers.iter().for_each(|d| d.ring());
    }

    /// Sends a flush to every drive, and waits.
    ///
    /// # Errors
    /// The first error of a command.
    pub async fn flush(&self, cpu: &Cpu) -> Result<(), IoError> {
        let group = self.open_group();
        for driver in &self.drivers {
            let slot = driver.reserve().await;
            driver.issue(slot, &group, Command::flush(NAMESPACE), &[]);
        }
        self.ring();
        group.wait(cpu).await.map(drop)
    }

    /// Deallocates `pages` pages from `first` on, and waits: they read as zeros then.
    ///
    /// # Errors
    /// Pages out of range; the first error of a command.
    pub async fn deallocate(&self, cpu: &Cpu, first: u64, pages: u64) -> Result<(), IoError> {
        self.deallocate_many(cpu, &[(first, pages)]).await
    }
}
