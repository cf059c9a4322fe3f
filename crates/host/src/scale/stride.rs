//! Readers that go through a file in equal steps: a column of a table, every so manyth record, backwards.
//!
//! Three equal steps between misses make a stride; the next places are read ahead, side by side. One of them, half
//! way, is marked: who reads it has the places behind them read in turn. A step of one page forwards is not a stride but reading
//! in order ([`ReadAhead`](crate::readahead::ReadAhead)).

/// Equal steps, one after another, that make a stride.
const STEPS: u32 = 3;

/// Most pages that are read ahead at a time: as many as a window of a reader in order.
const PAGES_MAX: u64 = crate::readahead::WINDOW_PAGES_MAX;

/// Most places that are read ahead at a time.
const PLACES_MAX: u64 = 16;

/// What is known of a reader.
#[derive(Debug, Default)]
pub struct Stride {
    /// The place of the last miss, or the last place read ahead.
    last: u64,
    step: i64,
    /// Equal steps so far.
    steps: u32,
    /// Pages read at each place.
    pages: u64,
    /// The place whose read has more read ahead.
    mark: Option<u64>,
}

/// Places to read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Pages at each.
    pub pages: u64,
    /// The page to mark.
    pub mark: u64,
    from: u64,
    step: i64,
    count: u64,
}

impl Places {
    /// Their first pages, as far as there are any.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let places = *self;
        let place = move |at: &u64| at.checked_add_signed(places.step);
        std::iter::successors(place(&places.from), place).take(places.count as usize)
    }
}

impl Stride {
    /// `wanted` pages are missing from `page` on, and nothing says that the reader reads in order.
    pub fn miss(&mut self, page: u64, wanted: u64) -> Option<Places> {
        let step = page.wrapping_sub(self.last) as i64;
        let is_equal = step == self.step && wanted <= PAGES_MAX / 2;
        self.steps = if is_equal { self.steps + 1 } else { 1 };
        (self.last, self.step, self.pages) = (page, step, wanted);
        self.mark = None;
        let is_stride = self.steps >= STEPS && step != 0 && step != 1;
        is_stride.then(|| self.go_on())
    }

    /// The marked `page` is read: true for places of this reader.
    pub fn marked(&mut self, page: u64) -> Option<Places> {
        (self.mark == Some(page)).then(|| self.go_on())
    }

    /// The next places, and a mark half way.
    fn go_on(&mut self) -> Places {
        let count = (PAGES_MAX / self.pages.max(1)).clamp(2, PLACES_MAX);
        let from = self.last;
        let place = |number: u64| from.wrapping_add_signed(self.step.wrapping_mul(number as i64));
        self.last = place(count);
        let mark = place(count / 2);
        self.mark = Some(mark);
        Places {
            pages: self.pages,
            mark,
            from,
            step: self.step,
            count,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn three_equal_steps_make_a_stride_and_its_mark_goes_on() {
        let mut stride = Stride::default();
        assert_eq!(stride.miss(1_000, 1), None);
        assert_eq!(stride.miss(1_100, 1), None);
        assert_eq!(stride.miss(1_200, 1), None);
        let places = stride.miss(1_300, 1).expect("three steps of 100");
        let pages: Vec<u64> = places.iter().collect();
        assert_eq!(pages, (1..=16).map(|n| 1_300 + 100 * n).collect::<Vec<_>>());
        assert_eq!((places.pages, places.mark), (1, 2_100));
        assert_eq!(stride.marked(1_500), None);
        let next = stride.marked(2_100).expect("the mark");
        assert_eq!(next.iter().next(), Some(3_000), "behind those before");
        assert_eq!(next.mark, 3_700);
    }

    #[test]
    fn backwards_ends_at_the_start_of_the_file() {
        let mut stride = Stride::default();
        for page in [40, 35, 30] {
            assert_eq!(stride.miss(page, 2), None);
        }
        let places = stride.miss(25, 2).expect("three steps of -5");
        assert_eq!(places.iter().collect::<Vec<_>>(), [20, 15, 10, 5, 0]);
    }

    #[test]
    fn neither_random_nor_ordered_readers_have_a_stride() {
        let mut stride = Stride::default();
        for page in [5, 900, 17, 34, 51, 3, 4, 5, 6, 7, 7, 7, 7] {
            assert_eq!(stride.miss(page, 1), None, "{page}");
        }
        let mut large = Stride::default();
        for step in 0..10 {
            assert_eq!(
                large.miss(1_000 * step, 32),
                None,
                "requests that are windows themselves"
            );
        }
    }
}
