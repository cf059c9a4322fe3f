//! How much is read where a page is missing: a few pages beside it, and more the longer a file is read in order.

/// Pages that are read together wherever one is missing, from a multiple of that number on.
const CLUSTER: u64 = 4;

/// Most pages that are read ahead of who reads in order.
const AHEAD_MAX: u64 = 128;

/// What is known of how a file is read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ahead {
    /// The page behind those that were read last.
    next: u64,
    /// Pages that were read last because of this.
    window: u64,
}

impl Ahead {
    /// Whether a page is the one behind those that were read last.
    pub(super) fn follows(&self, page: u64) -> bool {
        page == self.next && page > 0
    }

    /// How many pages are to be read from `page` on, which is missing, if those up to `end` are wanted.
    pub(super) fn pages(&mut self, page: u64, end: u64) -> u64 {
        let wanted = end - page;
        self.window = match self.follows(page) {
            true => (2 * self.window.max(wanted)).clamp(CLUSTER, AHEAD_MAX),
            false => 0,
        };
        let cluster = end.next_multiple_of(CLUSTER) - page;
        let pages = cluster.max(self.window);
        self.next = page + pages;
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_in_order_gets_more_each_time_and_others_get_a_cluster() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.pages(0, 1), 4);
        let windows: Vec<u64> = std::iter::successors(Some(4), |page| Some(page + 1))
            .scan(4, |next, _| {
                let pages = ahead.pages(*next, *next + 1);
                *next += pages;
                Some(pages)
            })
            .take(8)
            .collect();
        assert_eq!(windows, [4, 8, 16, 32, 64, 128, 128, 128]);
        assert_eq!(ahead.pages(10_001, 10_002), 3);
        assert_eq!(ahead.pages(50, 51), 2);
        assert_eq!(ahead.pages(1_000, 1_300), 300);
    }
}
