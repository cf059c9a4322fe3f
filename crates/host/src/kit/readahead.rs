//! What to read before it is asked for.
//!
//! Problem: a program that reads a file in order should not wait for each piece.
//!
//! Idea (mm/readahead.c of Linux): per reader a *window*, the run of pages that was read ahead
//! last.
//!
//! 1. A miss at the start, or next to the page read last, opens a window: larger than the request.
//! 2. One page of the window is marked. Who reads the marked page, or misses just behind the
//!    window, moves the window on and makes it larger, up to a limit, [`WINDOW_PAGES`] unless said
//!    otherwise.
//! 3. Any other miss reads what was asked for and no more, unless so many pages before it are
//!    cached that it looks like one of several readers in order.

/// Pages of the largest window: 128 KiB, Linux's default (`read_ahead_kb`).
pub const WINDOW_PAGES: u64 = 32;

/// Pages to read, and which of them to mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// First page.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// The page whose read moves the window on.
    pub mark: Option<u64>,
}

/// What is remembered of one reader.
#[derive(Debug)]
pub struct ReadAhead {
    /// Pages of the largest window.
    pages_max: u64,
    start: u64,
    pages: u64,
    /// Pages at the window's end that were not asked for when it was read.
    ahead: u64,
    /// The page read last.
    last: Option<u64>,
}

impl ReadAhead {
    /// Nothing has been read yet; windows grow to `pages_max` pages. If that is none, what is asked for is read, and no more.
    pub fn new(pages_max: u64) -> ReadAhead {
        ReadAhead {
            pages_max,
            start: 0,
            pages: 0,
            ahead: 0,
            last: None,
        }
    }

    /// The reader has read `page`; true if it was another page before.
    #[inline]
    pub fn note(&mut self, page: u64) -> bool {
        self.last.replace(page) != Some(page)
    }

    /// `page` is missing, and with those behind it `wanted` pages are asked for. `cached_before`
    /// counts the cached pages right before it, up to a number.
    pub fn miss(&mut self, page: u64, wanted: u64, cached_before: impl FnOnce(u64) -> u64) -> Plan {
        let most = self.pages_max;
        if most == 0 {
            return Plan {
                first: page,
                pages: wanted,
                mark: None,
            };
        }
        if page != 0 && self.is_next(page) {
            return self.advance();
        }
        let follows = self.last.is_some_and(|last| page.wrapping_sub(last) <= 1);
        if page == 0 || follows || wanted > most {
            return self.open(page, wanted);
        }
        let history = cached_before(most);
        if history > wanted {
            // The pages of an earlier reader, or of this one before it was disturbed.
            let size = if history >= page {
                history * 2
            } else {
                history
            };
            self.start = page;
            self.pages = (size + wanted).min(most);
            self.ahead = 1;
            return self.plan();
        }
        Plan {
            first: page,
            pages: wanted,
            mark: None,
        }
    }

    /// The marked `page` is read.
    pub fn marked(&mut self, page: u64) -> Plan {
        if !self.is_next(page) {
            // Another reader's mark: go on from there.
            (self.start, self.pages) = (page, self.pages.max(1));
            self.pages = self.next_size(self.pages);
            self.ahead = self.pages;
            return self.plan();
        }
        self.advance()
    }

    fn is_next(&self, page: u64) -> bool {
        let end = self.start + self.pages;
        self.pages > 0 && (page == end || (self.ahead > 0 && page == end - self.ahead))
    }

    fn open(&mut self, page: u64, wanted: u64) -> Plan {
        let most = self.pages_max;
        self.start = page;
        self.pages = self.first_size(wanted);
        self.ahead = if self.pages > wanted {
            self.pages - wanted
        } else {
            self.pages
        };
        if self.ahead == self.pages && wanted <= most {
            // The request fills the window: the next one comes along.
            let more = self.next_size(self.pages);
            self.ahead = more.min(most.saturating_sub(self.pages)).max(1);
            self.pages = (self.pages + more).min(most.max(self.pages));
        }
        self.plan()
    }

    fn advance(&mut self) -> Plan {
        self.start += self.pages;
        self.pages = self.next_size(self.pages);
        self.ahead = self.pages;
        self.plan()
    }

    fn plan(&self) -> Plan {
        Plan {
            first: self.start,
            pages: self.pages,
            mark: (self.ahead > 0).then(|| self.start + self.pages - self.ahead),
        }
    }

    /// Pages of a first window: four times or twice the request, rounded to a power of two.
    fn first_size(&self, wanted: u64) -> u64 {
        let (size, most) = (wanted.next_power_of_two(), self.pages_max);
        match size {
            size if size <= most / 32 => size * 4,
            size if size <= most / 4 => size * 2,
            _ => most.max(wanted),
        }
    }

    /// Pages of the window behind one of `pages`.
    fn next_size(&self, pages: u64) -> u64 {
        let most = self.pages_max;
        match pages {
            pages if pages < most / 16 => pages * 4,
            pages if pages <= most / 2 => pages * 2,
            _ => most,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Reads pages in order, one at a time, with all that is read ahead cached; gives the plans.
    fn in_order(pages: u64) -> Vec<Plan> {
        let (mut ahead, mut plans, mut mark, mut end) =
            (ReadAhead::new(WINDOW_PAGES), vec![], None, 0);
        for page in 0..pages {
            let plan = if page >= end {
                Some(ahead.miss(page, 1, |_| 0))
            } else {
                (mark == Some(page)).then(|| ahead.marked(page))
            };
            if let Some(plan) = plan {
                assert!(
                    plan.first <= end && plan.first + plan.pages > end,
                    "{plan:?} at {page}"
                );
                (mark, end) = (plan.mark, plan.first + plan.pages);
                plans.push(plan);
            }
            ahead.note(page);
        }
        plans
    }

    #[test]
    fn reading_in_order_misses_once_and_the_window_grows_to_its_limit() {
        let plans = in_order(500);
        let sizes: Vec<u64> = plans.iter().map(|plan| plan.pages).collect();
        assert_eq!(sizes[..5], [4, 8, 16, 32, 32]);
        assert!(
            plans
                .windows(2)
                .all(|w| w[0].first + w[0].pages == w[1].first)
        );
        assert!(plans.len() < 20);
    }

    #[test]
    fn a_random_reader_reads_what_it_asks_for() {
        let mut ahead = ReadAhead::new(WINDOW_PAGES);
        for page in [900, 17, 5_000, 400] {
            let plan = ahead.miss(page, 3, |_| 0);
            assert_eq!((plan.first, plan.pages, plan.mark), (page, 3, None));
            ahead.note(page + 2);
        }
    }

    #[test]
    fn large_requests_are_read_whole() {
        let mut ahead = ReadAhead::new(WINDOW_PAGES);
        let plan = ahead.miss(1_000, 200, |_| 0);
        assert!(plan.first == 1_000 && plan.pages >= 200);
    }

    #[test]
    fn cached_pages_before_a_miss_count_as_a_reader_in_order() {
        let mut ahead = ReadAhead::new(WINDOW_PAGES);
        let plan = ahead.miss(1_000, 1, |most| most.min(8));
        assert_eq!((plan.first, plan.pages), (1_000, 9));
        assert!(plan.mark.is_some());
    }
}
