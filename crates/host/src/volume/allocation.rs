//! What of a volume is allocated, and giving much of it up at once.
//!
//! 1. Every drive is asked for its part ([`Driver::allocated`]); the runs of drives are cut where stripes end, put in
//!    the order of the volume and joined.
//! 2. Ranges to give up go out by as many as a command holds, and all commands of a call are in flight together.
//!
//! Of mirrors a page is allocated if one of both drives says so: after a loss of power they may differ, and what may
//! hold data counts. Parity is nobody's page.

use wharf_runtime::Cpu;
use wharf_wire::dsm::{DsmRange, RANGES_MAX};
use wharf_wire::space::SpaceLevel;

use super::{Level, NAMESPACE, Volume};
use crate::driver::Driver;
use crate::error::IoError;
use crate::group::Group;

/// The most pages of a write zeroes command.
const ZEROES_MAX: u64 = wharf_wire::command::COMMAND_PAGES_MAX as u64;

impl Volume {
    /// The allocated pages among `pages` pages from `first` on: first page and number of pages of each run, in order.
    ///
    /// # Errors
    /// Pages out of range; the first error of a command.
    pub async fn allocated(&self, first: u64, pages: u64) -> Result<Vec<(u64, u64)>, IoError> {
        self.check(first, pages)?;
        let mut found = Vec::new();
        if pages > 0 {
            for drive in 0..self.drivers.len() {
                self.allocated_on(drive, first, first + pages, &mut found)
                    .await?;
            }
        }
        found.sort_unstable();
        Ok(joined(&found))
    }

    /// Adds the runs that a drive has of the pages from `first` to `end`.
    async fn allocated_on(
        &self,
        drive: usize,
        first: u64,
        end: u64,
        found: &mut Vec<(u64, u64)>,
    ) -> Result<(), IoError> {
        let layout = &self.layout;
        let (lba, count) = match layout.level {
            Level::Raid5 => {
                let row = |page| layout.row(layout.column(page).1);
                let rows = row(first)..row(end - 1) + 1;
                let stripe_pages = layout.stripe_pages;
                (
                    rows.start * stripe_pages,
                    (rows.end - rows.start) * stripe_pages,
                )
            }
            _ => {
                let copies = self.drivers.len() / layout.columns as usize;
                layout.range_in(drive / copies, first, end - first)
            }
        };
        if count == 0 {
            return Ok(());
        }
        let driver: &Driver = &self.drivers[drive];
        for (lba, count) in driver.allocated(NAMESPACE, lba, count).await? {
            for (page, pages) in layout.pages_at(drive, lba, count) {
                let (from, to) = (page.max(first), (page + pages).min(end));
                if from < to {
                    found.push((from, to - from));
                }
            }
        }
        Ok(())
    }

    /// Deallocates ranges (first page and number of pages), and waits: they read as zeros then, and are not
    /// allocated.
    ///
    /// # Errors
    /// Pages out of range, and then nothing is done; the first error of a command.
    pub async fn deallocate_many(&self, cpu: &Cpu, ranges: &[(u64, u64)]) -> Result<(), IoError> {
        for (first, pages) in ranges {
            self.check(*first, *pages)?;
        }
        let group = self.open_group();
        match &self.parity {
            Some(parity) => {
                for (first, pages) in ranges.iter().filter(|(_, pages)| *pages > 0) {
                    parity.forget(&group, *first, *pages);
                }
            }
            None => self.forget_many(&group, ranges).await,
        }
        self.ring();
        group.wait(cpu).await.map(drop)
    }

    /// The commands that deallocate ranges of a volume without parity.
    async fn forget_many(&self, group: &Group, ranges: &[(u64, u64)]) {
        let copies = self.drivers.len() / self.layout.columns as usize;
        let mut list = Vec::with_capacity(RANGES_MAX);
        for (drive, driver) in self.drivers.iter().enumerate() {
            for (first, pages) in ranges {
                let (mut lba, mut left) = self.layout.range_in(drive / copies, *first, *pages);
                while left > 0 {
                    let count = left.min(u64::from(u32::MAX));
                    list.push(DsmRange::new(lba, count as u32));
                    (lba, left) = (lba + count, left - count);
                    if list.len() == RANGES_MAX {
                        give_up(driver, group, &mut list).await;
                    }
                }
            }
            if !list.is_empty() {
                give_up(driver, group, &mut list).await;
            }
        }
    }

    /// Has `pages` pages from `first` on hold zeros, and waits: they stay allocated.
    ///
    /// # Errors
    /// Pages out of range; the first error of a command.
    pub async fn write_zeroes(&self, cpu: &Cpu, first: u64, pages: u64) -> Result<(), IoError> {
        self.check(first, pages)?;
        let group = self.open_group();
        match &self.parity {
            Some(_) if pages == 0 => {}
            Some(parity) => parity.zero(&group, first, pages),
            None => self.zero(&group, first, pages).await,
        }
        self.ring();
        group.wait(cpu).await.map(drop)
    }

    /// The commands that make zeros of a range of a volume without parity.
    async fn zero(&self, group: &Group, first: u64, pages: u64) {
        let copies = self.drivers.len() / self.layout.columns as usize;
        for (drive, driver) in self.drivers.iter().enumerate() {
            let (mut lba, mut left) = self.layout.range_in(drive / copies, first, pages);
            while left > 0 {
                let count = left.min(ZEROES_MAX);
                let slot = driver.reserve().await;
                let command =
                    wharf_wire::command::Command::write_zeroes(NAMESPACE, lba, count as u32);
                driver.issue(slot, group, command, &[]);
                (lba, left) = (lba + count, left - count);
            }
        }
    }

    /// Has levels of space be taken from completions: the drives have been told to carry them.
    pub fn expect_space_levels(&self) {
        self.drivers
            .iter()
            .for_each(|driver| driver.expect_space_levels());
    }

    /// How full the fullest drive said it was when it answered last; green where levels are not expected.
    #[inline]
    pub fn space_level(&self) -> SpaceLevel {
        let levels = self.drivers.iter().map(|driver| driver.space_level());
        levels.max().unwrap_or(SpaceLevel::Green)
    }
}

/// Sends the ranges that are in `list`, and empties it.
async fn give_up(driver: &Driver, group: &Group, list: &mut Vec<DsmRange>) {
    let slot = driver.reserve().await;
    driver.issue_ranges(slot, group, NAMESPACE, list);
    list.clear();
}

/// Sorted runs, those that meet or overlap made one.
fn joined(runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (first, pages) in runs {
        match all.last_mut() {
            Some(last) if last.0 + last.1 >= *first => {
                last.1 = last.1.max(first + pages - last.0);
            }
            _ => all.push((*first, *pages)),
        }
    }
    all
}
