//! Where the pages of a volume lie on its drives.
//!
//! Pages are striped over *columns*: the drives of RAID-0, the pairs of RAID-10, all drives but one of RAID-5.
//! Stripe `s` of the volume (`stripe_pages` pages) lies in column `s % columns`, in *row* `s / columns`; row `r`
//! is the stripes at one place of all drives. (md, and the arrays of real storage, call a stripe a chunk, and a
//! row a stripe.)
//!
//! * RAID-0: column `c` is drive `c`.
//! * RAID-10: column `c` is drives `2c` and `2c + 1`, which hold the same. Reads of row `r` go to the `r % 2`-th of
//!   them.
//! * RAID-5 is left-symmetric, as md's default: in row `r` of `n` drives parity is on `n - 1 - r % n`, and column
//!   `c` on the `c + 1`-th drive after it, around the end.
//!
//! What is contiguous in the volume is contiguous on each drive, but for RAID-5, where that ends with a row.

use std::fmt;

/// How a volume is spread over drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Striped.
    #[default]
    Raid0,
    /// Striped, with rotating parity.
    Raid5,
    /// Striped over pairs of drives, of which both hold the same.
    Raid10,
}

impl Level {
    /// The fewest drives.
    pub fn drives_min(self) -> u32 {
        match self {
            Level::Raid0 => 1,
            Level::Raid5 => 3,
            Level::Raid10 => 2,
        }
    }

    /// Of `drives` drives, as many as hold different data.
    ///
    /// # Errors
    /// Too few drives, or an odd number for pairs.
    pub fn columns(self, drives: u32) -> Result<u32, LayoutError> {
        if drives < self.drives_min() || (self == Level::Raid10 && !drives.is_multiple_of(2)) {
            return Err(LayoutError {
                level: self,
                drives,
            });
        }
        Ok(match self {
            Level::Raid0 => drives,
            Level::Raid5 => drives - 1,
            Level::Raid10 => drives / 2,
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Raid0 => "raid0",
            Level::Raid5 => "raid5",
            Level::Raid10 => "raid10",
        })
    }
}

/// A number of drives that a level cannot be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a volume of layout {level} cannot be on {drives} drives: it takes {} or more{}",
    .level.drives_min(),
    if *.level == Level::Raid10 { ", an even number" } else { "" }
)]
pub struct LayoutError {
    /// The level.
    pub level: Level,
    /// The number of drives.
    pub drives: u32,
}

/// Where the pages of a volume lie. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// How it is spread.
    pub level: Level,
    /// Number of drives.
    pub drives: u64,
    /// Of these, as many as hold different data.
    pub columns: u64,
    /// Pages of a stripe.
    pub stripe_pages: u64,
    /// Pages of each drive that the volume uses.
    pub drive_pages: u64,
}

/// Pages that are neighbours in the volume and on their drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its first page in the volume.
    pub page: u64,
    /// Its number of pages.
    pub pages: u64,
}

impl Layout {
    /// The layout of a striped volume (RAID-0) over drives of `namespace_pages` pages each: of every one, the whole
    /// stripes that the smallest has; of a single drive, all.
    pub fn new(namespace_pages: &[u64], stripe_pages: u64) -> Layout {
        let layout = Layout::of(Level::Raid0, namespace_pages, stripe_pages);
        layout.expect("a volume has a drive")
    }

    /// As [`Layout::new`], of any level.
    ///
    /// # Errors
    /// Too few drives for the level, or an odd number for pairs.
    pub fn of(
        level: Level,
        namespace_pages: &[u64],
        stripe_pages: u64,
    ) -> Result<Layout, LayoutError> {
        assert!(stripe_pages > 0, "a stripe has at least a page");
        let columns = level.columns(namespace_pages.len() as u32)?;
        let smallest = *namespace_pages.iter().min().expect("levels have drives");
        let whole = smallest / stripe_pages * stripe_pages;
        Ok(Layout {
            level,
            drives: namespace_pages.len() as u64,
            columns: columns.into(),
            stripe_pages,
            drive_pages: if columns == 1 { smallest } else { whole },
        })
    }

    /// Pages of the volume.
    pub fn pages(&self) -> u64 {
        self.columns * self.drive_pages
    }

    /// The drive that a page is read from, and the page's number there.
    #[inline]
    pub fn locate(&self, page: u64) -> (usize, u64) {
        let (column, lba) = self.column(page);
        match self.level {
            Level::Raid0 => (column, lba),
            Level::Raid5 => (self.data_drive(self.row(lba), column as u64), lba),
            Level::Raid10 => (2 * column + (self.row(lba) % 2) as usize, lba),
        }
    }

    /// The drives that hold a page, or the parity of its row.
    pub fn keepers(&self, page: u64) -> impl Iterator<Item = usize> {
        let (column, lba) = self.column(page);
        let (first, second) = match self.level {
            Level::Raid0 => (column, None),
            Level::Raid5 => {
                let row = self.row(lba);
                let parity = self.parity_drive(row);
                (self.data_drive(row, column as u64), Some(parity))
            }
            Level::Raid10 => (2 * column, Some(2 * column + 1)),
        };
        std::iter::once(first).chain(second)
    }

    /// The column of a page, and the page's number on the drives there.
    #[inline]
    pub(super) fn column(&self, page: u64) -> (usize, u64) {
        if self.columns == 1 {
            return (0, page);
        }
        let (stripe, within) = (page / self.stripe_pages, page % self.stripe_pages);
        let lba = stripe / self.columns * self.stripe_pages + within;
        ((stripe % self.columns) as usize, lba)
    }

    /// The row of a drive's page.
    #[inline]
    pub(super) fn row(&self, lba: u64) -> u64 {
        lba / self.stripe_pages
    }

    /// RAID-5: the drive with the parity of a row.
    #[inline]
    pub(super) fn parity_drive(&self, row: u64) -> usize {
        (self.drives - 1 - row % self.drives) as usize
    }

    /// RAID-5: the drive with a column of a row.
    #[inline]
    pub(super) fn data_drive(&self, row: u64, column: u64) -> usize {
        (self.parity_drive(row) + 1 + column as usize) % self.drives as usize
    }

    /// Number of stripes that `pages` pages from `first` on lie in.
    pub(super) fn stripes(&self, first: u64, pages: u64) -> u64 {
        let stripe = |page| page / self.stripe_pages;
        stripe(first + pages - 1) - stripe(first) + 1
    }

    /// Pages from `page` to the end of its stripe, if neighbours of different stripes lie apart.
    #[inline]
    pub fn rest_of_stripe(&self, page: u64) -> u64 {
        if self.columns == 1 {
            return u64::MAX;
        }
        self.stripe_pages - page % self.stripe_pages
    }

    /// The first page of `column` at or after `page`.
    #[inline]
    pub(super) fn next_in(&self, column: usize, page: u64) -> u64 {
        let stripe = page / self.stripe_pages;
        let ahead = (column as u64 + self.columns - stripe % self.columns) % self.columns;
        if ahead == 0 {
            page
        } else {
            (stripe + ahead) * self.stripe_pages
        }
    }

    /// First page on its drives and number of pages that a range of the volume has in `column`.
    pub(super) fn range_in(&self, column: usize, first: u64, pages: u64) -> (u64, u64) {
        if self.columns == 1 {
            return (first, pages);
        }
        // Both ends are the first page of the column at or after an end of the range.
        let end = first + pages;
        let (from, to) = (self.next_in(column, first), self.next_in(column, end));
        let lba = |page| self.column(page).1;
        if from >= end {
            (0, 0)
        } else {
            (lba(from), lba(to) - lba(from))
        }
    }

    /// The pages of the volume (first, number) that a range of a drive's pages holds: of parity none. Cut where stripes
    /// end, if neighbours of different stripes lie apart.
    pub(super) fn pages_at(
        &self,
        drive: usize,
        lba: u64,
        pages: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        let layout = *self;
        let (end, mut lba) = (lba + pages, lba);
        std::iter::from_fn(move || {
            while lba < end {
                let from = lba;
                let to_stripe_end = match layout.columns {
                    1 => u64::MAX,
                    _ => layout.stripe_pages - from % layout.stripe_pages,
                };
                let count = to_stripe_end.min(end - from);
                lba += count;
                if let Some(page) = layout.page_at(drive, from) {
                    return Some((page, count));
                }
            }
            None
        })
    }

    /// The page of the volume that a drive's page holds, if it holds one.
    fn page_at(&self, drive: usize, lba: u64) -> Option<u64> {
        if self.columns == 1 {
            return Some(lba);
        }
        let row = self.row(lba);
        let column = match self.level {
            Level::Raid0 => drive as u64,
            Level::Raid10 => drive as u64 / 2,
            Level::Raid5 => {
                let after = drive as u64 + self.drives - self.parity_drive(row) as u64;
                (after % self.drives).checked_sub(1)?
            }
        };
        let stripe = row * self.columns + column;
        Some(stripe * self.stripe_pages + lba % self.stripe_pages)
    }

    /// A range of the volume, cut where stripes end.
    pub fn stretches(&self, first: u64, pages: u64) -> impl Iterator<Item = Stretch> {
        let (stripe_pages, end, mut page) = (self.stripe_pages, first + pages, first);
        std::iter::from_fn(move || {
            let count = (stripe_pages - page % stripe_pages).min(end - page);
            let stretch = Stretch { page, pages: count };
            page += count;
            (count > 0).then_some(stretch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const LEVELS: [Level; 3] = [Level::Raid0, Level::Raid5, Level::Raid10];

    #[test]
    fn every_page_has_one_place_and_stripes_are_contiguous_on_their_drive() {
        for (level, drives) in LEVELS
            .into_iter()
            .flat_map(|l| (1..=8).map(move |d| (l, d)))
        {
            for stripe_pages in [1, 3, 16] {
                let Ok(layout) = Layout::of(level, &vec![100; drives], stripe_pages) else {
                    continue;
                };
                let mut seen = BTreeSet::new();
                for page in 0..layout.pages() {
                    let (drive, lba) = layout.locate(page);
                    assert!(lba < 100 && seen.insert((drive, lba)));
                    assert!(layout.keepers(page).any(|keeper| keeper == drive));
                    assert_eq!(layout.page_at(drive, lba), Some(page));
                    assert_eq!(layout.next_in(layout.column(page).0, page), page);
                    if layout.columns > 1 && layout.rest_of_stripe(page) > 1 {
                        assert_eq!(layout.locate(page + 1), (drive, lba + 1));
                    }
                }
            }
        }
    }

    #[test]
    fn what_two_drives_keep_is_apart_and_so_are_the_data_of_a_row_and_its_parity() {
        let layout = Layout::of(Level::Raid5, &[64; 5], 4).unwrap();
        let mut rows: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for page in 0..layout.pages() {
            let (drive, lba) = layout.locate(page);
            rows.entry(layout.row(lba)).or_default().insert(drive);
            assert_ne!(drive, layout.parity_drive(layout.row(lba)));
        }
        assert!(rows.values().all(|drives| drives.len() == 4));
        let parities: BTreeSet<usize> = (0..5).map(|row| layout.parity_drive(row)).collect();
        assert_eq!(parities.len(), 5, "parity goes around");
        let pairs = Layout::of(Level::Raid10, &[64; 4], 4).unwrap();
        let reads: BTreeSet<usize> = (0..pairs.pages())
            .map(|page| pairs.locate(page).0)
            .collect();
        assert_eq!(reads.len(), 4, "reads go to all drives");
    }

    #[test]
    fn a_volume_takes_whole_stripes_of_the_smallest_drive() {
        assert_eq!(Layout::new(&[100, 90], 16).pages(), 160);
        assert_eq!(Layout::new(&[100], 16).pages(), 100);
        let of = |level, sizes: &[u64]| Layout::of(level, sizes, 16).unwrap().pages();
        assert_eq!(of(Level::Raid5, &[100, 90, 100]), 160);
        assert_eq!(of(Level::Raid10, &[100, 90, 100, 100]), 160);
    }

    #[test]
    fn too_few_or_odd_drives_are_refused_in_words() {
        let refusal = |level, drives| Layout::of(level, &vec![100; drives], 16).unwrap_err();
        assert_eq!(
            refusal(Level::Raid5, 2).to_string(),
            "a volume of layout raid5 cannot be on 2 drives: it takes 3 or more"
        );
        assert_eq!(
            refusal(Level::Raid10, 3).to_string(),
            "a volume of layout raid10 cannot be on 3 drives: it takes 2 or more, an even number"
        );
        assert_eq!(refusal(Level::Raid0, 0).drives, 0);
    }
}
