//! How a write to a volume with parity is cut, and how each piece gets its new parity: by the fewest reads.
//!
//! 1. A range is cut into *windows*: at most [`WINDOW_PAGES`] pages of each stripe of one row. A window is what
//!    is locked and written at a time, so that memory for it is bounded.
//! 2. Page `i` of all stripes of a row have page `i` of the parity. Within a window the pages are cut into
//!    *bands* in which the same columns are written: at most three, as a range begins and ends once. Each has a
//!    [`Plan`] of its own.

use std::ops::Range;

use super::layout::Layout;

/// Pages of each stripe in a window: the 512 KiB of md's usual chunk.
pub(super) const WINDOW_PAGES: u64 = 128;

/// A way to the new parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Read what is overwritten, and parity; take the old out and the new in (read-modify-write).
    Modify,
    /// Read what is not overwritten, and add up all (reconstruct-write); a whole row reads nothing.
    Reconstruct,
}

/// Pages of the drives in which the same columns are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Band {
    /// The drives' pages.
    pub lbas: Range<u64>,
    /// The columns that are written.
    pub columns: Range<u64>,
}

impl Band {
    /// Number of the drives' pages.
    pub fn pages(&self) -> u64 {
        self.lbas.end - self.lbas.start
    }

    /// The plan with the fewer reads, of all `columns`.
    pub fn plan(&self, columns: u64) -> Plan {
        let written = self.columns.end - self.columns.start;
        match written + 1 < columns - written {
            true => Plan::Modify,
            false => Plan::Reconstruct,
        }
    }

    /// Columns that are read by a plan.
    pub fn reads(&self, plan: Plan, columns: u64) -> Vec<u64> {
        match plan {
            Plan::Modify => self.columns.clone().collect(),
            Plan::Reconstruct => (0..columns)
                .filter(|column| !self.columns.contains(column))
                .collect(),
        }
    }
}

/// A part of a write that is carried out at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    /// Its row.
    pub row: u64,
    /// Its pages of each drive, in order.
    pub bands: Vec<Band>,
}

impl Window {
    /// The drives' pages from the first that is written to the last.
    pub fn hull(&self) -> Range<u64> {
        let last = self.bands.last().expect("a window has a band");
        self.bands[0].lbas.start..last.lbas.end
    }

    /// Runs of the drives' pages whose parity changes.
    pub fn parity_runs(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for band in &self.bands {
            match runs.last_mut() {
                Some(last) if last.end == band.lbas.start => last.end = band.lbas.end,
                _ => runs.push(band.lbas.clone()),
            }
        }
        runs
    }

    /// Runs of pages that are written, each with its column.
    pub fn data_runs(&self) -> Vec<(u64, Range<u64>)> {
        let columns = |band: &Band| band.columns.clone();
        let first = self.bands.iter().map(|b| columns(b).start).min();
        let end = self.bands.iter().map(|b| columns(b).end).max();
        let mut runs: Vec<(u64, Range<u64>)> = Vec::new();
        for column in first.unwrap_or(0)..end.unwrap_or(0) {
            for band in self.bands.iter().filter(|b| b.columns.contains(&column)) {
                match runs.last_mut() {
                    Some((of, run)) if *of == column && run.end == band.lbas.start => {
                        run.end = band.lbas.end;
                    }
                    _ => runs.push((column, band.lbas.clone())),
                }
            }
        }
        runs
    }

    /// Whether all of every stripe of its row that a window can have is written.
    pub fn is_whole(&self, layout: &Layout) -> bool {
        let [band] = &self.bands[..] else {
            return false;
        };
        let begin = layout.row(band.lbas.start) * layout.stripe_pages;
        let (from, to) = (band.lbas.start - begin, band.lbas.end - begin);
        band.columns == (0..layout.columns)
            && from.is_multiple_of(WINDOW_PAGES)
            && (to == layout.stripe_pages || to - from == WINDOW_PAGES)
    }

    /// Commands that it takes: reads, and writes of data and parity.
    fn commands(&self, layout: &Layout) -> u64 {
        let reads = self.bands.iter().map(|band| {
            let plan = band.plan(layout.columns);
            band.reads(plan, layout.columns).len() as u64 + u64::from(plan == Plan::Modify)
        });
        reads.sum::<u64>() + (self.data_runs().len() + self.parity_runs().len()) as u64
    }
}

/// The windows of `pages` pages of the volume from `first` on.
pub(super) fn windows(layout: &Layout, first: u64, pages: u64) -> Vec<Window> {
    let round = layout.stripe_pages * layout.columns;
    let end = first + pages;
    let mut all = Vec::new();
    for row in first / round..=(end - 1) / round {
        let from = first.saturating_sub(row * round);
        let to = (end - row * round).min(round);
        let mut begin = 0;
        while begin < layout.stripe_pages {
            let slice = begin..(begin + WINDOW_PAGES).min(layout.stripe_pages);
            begin = slice.end;
            let bands = bands(layout, row, from..to, slice);
            if !bands.is_empty() {
                all.push(Window { row, bands });
            }
        }
    }
    all
}

/// The bands of a range of pages of a row, within a slice of its stripes.
fn bands(layout: &Layout, row: u64, range: Range<u64>, slice: Range<u64>) -> Vec<Band> {
    let stripe = layout.stripe_pages;
    let last = range.end - 1;
    // Where in their columns the range begins and ends.
    let (begins, ends) = (range.start % stripe, last % stripe + 1);
    let (first_column, last_column) = (range.start / stripe, last / stripe);
    let mut cuts = vec![slice.start, slice.end];
    cuts.extend([begins, ends].into_iter().filter(|cut| slice.contains(cut)));
    cuts.sort_unstable();
    cuts.dedup();
    let band = |pair: &[u64]| {
        let from = first_column + u64::from(pair[0] < begins);
        let to = last_column + u64::from(pair[0] < ends);
        let base = row * stripe;
        (from < to).then(|| Band {
            lbas: base + pair[0]..base + pair[1],
            columns: from..to,
        })
    };
    cuts.windows(2).filter_map(band).collect()
}

/// Commands that a write of `pages` pages from `first` on becomes, if none is too large.
pub(super) fn commands(layout: &Layout, first: u64, pages: u64) -> u64 {
    let windows = windows(layout, first, pages);
    windows.iter().map(|window| window.commands(layout)).sum()
}

/// The most pages that are read for a window, with those of its parity.
pub(super) fn scratch_pages_max(layout: &Layout) -> u64 {
    let of = |written| {
        let band = Band {
            lbas: 0..1,
            columns: 0..written,
        };
        let plan = band.plan(layout.columns);
        1 + band.reads(plan, layout.columns).len() as u64
    };
    let most = (1..=layout.columns).map(of).max().unwrap_or(1);
    // A band that has to be added up anew whatever is written reads all but one column.
    most.max(layout.columns) * layout.stripe_pages.min(WINDOW_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Level;
    use std::collections::BTreeSet;
    use wharf_runtime::Seed;

    fn layout(drives: usize, stripe_pages: u64) -> Layout {
        Layout::of(Level::Raid5, &vec![4096; drives], stripe_pages).unwrap()
    }

    #[test]
    fn the_fewest_reads_win() {
        let plan = |columns, written| {
            let band = Band {
                lbas: 0..1,
                columns: 0..written,
            };
            band.plan(columns)
        };
        assert_eq!(plan(7, 1), Plan::Modify); // 2 reads against 6
        assert_eq!(plan(7, 3), Plan::Reconstruct); // 4 against 4, of which none is parity
        assert_eq!(plan(7, 7), Plan::Reconstruct); // 8 against none
        assert_eq!(plan(2, 1), Plan::Reconstruct); // 2 against 1
    }

    #[test]
    fn bands_cover_what_is_written_and_no_more() {
        let mut rng = Seed(5).child("bands").rng();
        for _ in 0..2_000 {
            let layout = layout(3 + rng.below(6) as usize, 1 + rng.below(300));
            let first = rng.below(layout.pages() - 1);
            let pages = 1 + rng.below((layout.pages() - first).min(4_000));
            let mut written = BTreeSet::new();
            for window in windows(&layout, first, pages) {
                let hull = window.hull();
                assert!(hull.end - hull.start <= WINDOW_PAGES && window.bands.len() <= 3);
                assert_eq!(layout.row(hull.start), window.row);
                assert_eq!(layout.row(hull.end - 1), window.row);
                let runs = window.data_runs();
                for (column, lbas) in runs {
                    lbas.for_each(|lba| assert!(written.insert((column as usize, lba))));
                }
                let parity: u64 = window.parity_runs().iter().map(|r| r.end - r.start).sum();
                assert_eq!(parity, window.bands.iter().map(Band::pages).sum::<u64>());
                let columns = layout.columns;
                let needed = window
                    .bands
                    .iter()
                    .map(|b| (1 + b.reads(b.plan(columns), columns).len() as u64) * b.pages());
                assert!(needed.sum::<u64>() <= scratch_pages_max(&layout));
            }
            let wanted: BTreeSet<_> = (first..first + pages).map(|p| layout.column(p)).collect();
            assert_eq!(written, wanted);
        }
    }

    #[test]
    fn whole_rows_read_nothing_and_one_page_takes_four_commands() {
        let layout = layout(8, 16);
        assert_eq!(commands(&layout, 16 * 7, 16 * 7), 8);
        assert_eq!(commands(&layout, 5, 1), 4);
        assert!(windows(&layout, 16 * 7, 16 * 7)[0].is_whole(&layout));
        assert!(!windows(&layout, 16 * 7, 16 * 7 - 1)[0].is_whole(&layout));
        // Over the end of a stripe, with two pages of either: two bands.
        assert_eq!(windows(&layout, 14, 4)[0].bands.len(), 2);
    }
}
