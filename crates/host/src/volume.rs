//! A volume: one or more drives striped into one address space of 4 KiB pages, as one client sees
//! it through its own queue pairs.
//!
//! Stripe `s` of the volume (`stripe_pages` pages) lies on drive `s % drives`, as stripe
//! `s / drives` of that drive. So what is contiguous in the volume is contiguous on each drive,
//! and a request becomes one command per drive, or several where it exceeds the drive's
//! largest transfer.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_runtime::Cpu;
use wharf_wire::command::Command;
use wharf_wire::dsm::DsmRange;

use crate::driver::{Driver, DriverStatistics};
use crate::error::IoError;
use crate::group::{Group, Groups};

/// Pages of a stripe unless the configuration says otherwise: 64 KiB.
pub const STRIPE_PAGES: u64 = 16;

/// The namespace that a volume uses of each drive.
pub(crate) const NAMESPACE: u32 = 1;

/// Which transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the volume to memory.
    Read,
    /// From memory to the volume.
    Write,
    /// As a write, durable when it completes.
    WriteThrough,
}

/// Where the pages of a volume lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Number of drives.
    pub drives: u64,
    /// Pages of a stripe.
    pub stripe_pages: u64,
    /// Pages of each drive that the volume uses.
    pub drive_pages: u64,
}

impl Layout {
    /// The layout over drives of `namespace_pages` pages each: of every one, the whole stripes
    /// that the smallest has; of a single drive, all.
    pub fn new(namespace_pages: &[u64], stripe_pages: u64) -> Layout {
        assert!(stripe_pages > 0, "a stripe has at least a page");
        let smallest = *namespace_pages.iter().min().expect("a volume has a drive");
        let whole = smallest / stripe_pages * stripe_pages;
        Layout {
            drives: namespace_pages.len() as u64,
            stripe_pages,
            drive_pages: if namespace_pages.len() == 1 {
                smallest
            } else {
                whole
            },
        }
    }

    /// Pages of the volume.
    pub fn pages(&self) -> u64 {
        self.drives * self.drive_pages
    }

    /// The drive of a page, and the page's number there.
    #[inline]
    pub fn locate(&self, page: u64) -> (usize, u64) {
        if self.drives == 1 {
            return (0, page);
        }
        let (stripe, within) = (page / self.stripe_pages, page % self.stripe_pages);
        let lba = stripe / self.drives * self.stripe_pages + within;
        ((stripe % self.drives) as usize, lba)
    }

    /// Number of drives that `pages` pages from `first` on lie on: commands that they become, if none is too large.
    pub fn drives_of(&self, first: u64, pages: u64) -> u32 {
        let stripe = |page| page / self.stripe_pages;
        let stripes = stripe(first + pages - 1) - stripe(first) + 1;
        stripes.min(self.drives) as u32
    }

    /// Pages from `page` to the end of its stripe.
    #[inline]
    fn rest_of_stripe(&self, page: u64) -> u64 {
        if self.drives == 1 {
            return u64::MAX;
        }
        self.stripe_pages - page % self.stripe_pages
    }

    /// The first page of `drive` at or after `page`.
    #[inline]
    fn next_on(&self, drive: usize, page: u64) -> u64 {
        let stripe = page / self.stripe_pages;
        let ahead = (drive as u64 + self.drives - stripe % self.drives) % self.drives;
        if ahead == 0 {
            page
        } else {
            (stripe + ahead) * self.stripe_pages
        }
    }
}

/// See the module. One for each client; its tasks share it.
pub struct Volume {
    drivers: Vec<Rc<Driver>>,
    groups: Rc<Groups>,
    layout: Layout,
    gathered: RefCell<Vec<u64>>,
}

impl Volume {
    /// A volume over `drivers`, one for each drive, which share their groups.
    pub fn new(drivers: Vec<Rc<Driver>>, layout: Layout) -> Rc<Volume> {
        assert!(
            drivers.len() as u64 == layout.drives,
            "a driver for each drive"
        );
        let groups = drivers[0].groups().clone();
        assert!(
            drivers.iter().all(|d| Rc::ptr_eq(d.groups(), &groups)),
            "the drivers of a client share their groups"
        );
        Rc::new(Volume {
            drivers,
            groups,
            layout,
            gathered: RefCell::default(),
        })
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

    /// Writes the commands of a transfer to the queues, without ringing. The pages belong to the
    /// drives until the group is quiet. The range must have been [checked](Volume::check).
    #[inline]
    pub async fn issue(&self, group: &Group, kind: Transfer, first: u64, addresses: &[u64]) {
        let count = addresses.len() as u64;
        if count <= self.layout.rest_of_stripe(first) {
            let (drive, mut lba) = self.layout.locate(first);
            let driver = &self.drivers[drive];
            for chunk in addresses.chunks(driver.config().max_transfer_pages as usize) {
                let slot = driver.reserve().await;
                driver.issue(slot, group, command(kind, lba, chunk.len() as u32), chunk);
                lba += chunk.len() as u64;
            }
        } else {
            for drive in 0..self.drivers.len() {
                self.issue_striped(drive, group, kind, first, addresses)
                    .await;
            }
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
        let mut page = self.layout.next_on(drive, first);
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
                page = self.layout.next_on(drive, page + run);
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
        self.check(first, pages)?;
        let group = self.open_group();
        for drive in 0..self.drivers.len() {
            let mut range = self.range_on(drive, first, pages);
            while range.1 > 0 {
                let count = range.1.min(u64::from(u32::MAX));
                let slot = self.drivers[drive].reserve().await;
                let ranges = [DsmRange::new(range.0, count as u32)];
                self.drivers[drive].issue_ranges(slot, &group, NAMESPACE, &ranges);
                range = (range.0 + count, range.1 - count);
            }
        }
        self.ring();
        group.wait(cpu).await.map(drop)
    }

    /// First page and number of pages that a range of the volume has on `drive`.
    fn range_on(&self, drive: usize, first: u64, pages: u64) -> (u64, u64) {
        if self.layout.drives == 1 {
            return (first, pages);
        }
        // Both ends are the first page of the drive at or after an end of the range.
        let end = first + pages;
        let from = self.layout.next_on(drive, first);
        let to = self.layout.next_on(drive, end);
        let lba = |page| self.layout.locate(page).1;
        if from >= end {
            (0, 0)
        } else {
            (lba(from), lba(to) - lba(from))
        }
    }
}

#[inline]
fn command(kind: Transfer, lba: u64, pages: u32) -> Command {
    match kind {
        Transfer::Read => Command::read(NAMESPACE, lba, pages),
        Transfer::Write => Command::write(NAMESPACE, lba, pages),
        Transfer::WriteThrough => Command::write(NAMESPACE, lba, pages).with_fua(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_one_place_and_stripes_are_contiguous_on_their_drive() {
        for drives in 1..=4u64 {
            for stripe_pages in [1, 3, 16] {
                let sizes = vec![100; drives as usize];
                let layout = Layout::new(&sizes, stripe_pages);
                let mut seen = std::collections::BTreeSet::new();
                for page in 0..layout.pages() {
                    let (drive, lba) = layout.locate(page);
                    assert!(lba < 100 && seen.insert((drive, lba)));
                    assert_eq!(layout.next_on(drive, page), page);
                    if drives > 1 && layout.rest_of_stripe(page) > 1 {
                        assert_eq!(layout.locate(page + 1), (drive, lba + 1));
                    }
                }
            }
        }
    }

    #[test]
    fn a_volume_takes_whole_stripes_of_the_smallest_drive() {
        assert_eq!(Layout::new(&[100, 90], 16).pages(), 160);
        assert_eq!(Layout::new(&[100], 16).pages(), 100);
    }
}
