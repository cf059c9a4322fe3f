//! Readers that go through a file in equal steps: a column of a table, every tenth record,
//! backwards.
//!
//! Problem: such a reader misses at every place, and never looks like one that reads
//! [in order](crate::kit::readahead).
//!
//! 1. Three equal steps between misses make a stride. Its next places are read ahead, side by side.
//! 2. One of them, half way, is marked. Who reads the marked page, or misses just behind the places
//!    that were read, has the next ones read. So other misses in between do not end a stride; they
//!    only keep one from being seen.
//!
//! Steps are whole pages: records whose distance is no multiple of a page have unequal ones, and
//! are not recognised. One page forwards is no step, for that is reading in order.

use crate::kit::readahead::Plan;

/// Equal steps, one after another, that make a stride.
const STEPS: u32 = 3;

/// Most places that are read ahead at a time.
const PLACES_MAX: u64 = 16;

/// What is known of the readers of a file. Pages are signed here: places before the file's start
/// are steps like others, until they would be read.
#[derive(Debug)]
pub struct Stride {
    /// Most pages to read ahead at a time.
    pages_max: u64,
    /// The last miss, the step to it, and how often that step was made in a row.
    last: i64,
    step: i64,
    steps: u32,
    /// What was read ahead last.
    places: Option<Places>,
}

/// Places to read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Where the reader is.
    from: i64,
    step: i64,
    /// How many places behind `from`.
    count: i64,
    /// Pages at each.
    pages: u64,
}

impl Places {
    fn place(&self, number: i64) -> i64 {
        self.from + number * self.step
    }

    /// The place whose read has more read ahead.
    fn mark(&self) -> i64 {
        self.place(self.count / 2)
    }

    /// What to read: one plan for each place within the file, or one for all if they leave no gaps.
    pub fn plans(self) -> impl Iterator<Item = Plan> {
        let have_gaps = self.step.unsigned_abs() > self.pages;
        let joined = (!have_gaps).then(|| self.joined());
        let apart = (1..=self.count).filter(move |_| have_gaps);
        let apart = apart.map(move |number| self.plan(self.place(number), self.pages as i64));
        joined
            .into_iter()
            .chain(apart)
            .filter(|plan| plan.pages > 0)
    }

    /// All places, which have no gaps between them.
    fn joined(&self) -> Plan {
        let first = self.place(1).min(self.place(self.count));
        let last = self.place(1).max(self.place(self.count));
        self.plan(first, last + self.pages as i64 - first)
    }

    /// So many pages from `first` on, without those before the start of the file.
    fn plan(&self, first: i64, pages: i64) -> Plan {
        let (start, mark) = (first.max(0), self.mark());
        let end = (first + pages).max(start);
        Plan {
            first: start as u64,
            pages: (end - start) as u64,
            mark: (start..end).contains(&mark).then_some(mark as u64),
        }
    }
}

impl Stride {
    /// Nothing known yet; at most `pages_max` are to be read at a time.
    pub fn new(pages_max: u64) -> Stride {
        Stride {
            pages_max,
            last: 0,
            step: 0,
            steps: 0,
            places: None,
        }
    }

    /// `wanted` pages are missing from `page` on, and nothing says that the reader reads in order.
    pub fn miss(&mut self, page: u64, wanted: u64) -> Option<Places> {
        let page = page as i64;
        let step = page - self.last;
        self.steps = if step == self.step { self.steps + 1 } else { 1 };
        (self.last, self.step) = (page, step);
        let is_new = self.steps >= STEPS && step != 0 && step != 1;
        let behind = |places: &Places| places.place(places.count + 1) == page;
        match self.places.filter(behind) {
            Some(places) => self.read(page, places.step, wanted),
            None if is_new => self.read(page, step, wanted),
            None => None,
        }
    }

    /// The marked `page` is read: the next places, if it is a mark of the stride.
    pub fn marked(&mut self, page: u64) -> Option<Places> {
        let marked = |places: &Places| places.mark() == page as i64;
        let places = self.places.filter(marked)?;
        self.read(places.place(places.count), places.step, places.pages)
    }

    /// The places behind `from`, unless their pages are so many that it would be less than two.
    fn read(&mut self, from: i64, step: i64, pages: u64) -> Option<Places> {
        let count = (self.pages_max / pages).min(PLACES_MAX) as i64;
        self.places = (count >= 2).then_some(Places {
            from,
            step,
            count,
            pages,
        });
        self.places
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PAGES_MAX: u64 = 32;

    /// A stride that three equal steps to `from` have made.
    fn begun(from: i64, step: i64, wanted: u64) -> (Stride, Places) {
        let mut stride = Stride::new(PAGES_MAX);
        for number in [-3, -2, -1] {
            let page = (from + number * step) as u64;
            assert_eq!(stride.miss(page, wanted), None);
        }
        let places = stride.miss(from as u64, wanted).expect("three equal steps");
        (stride, places)
    }

    fn firsts(places: Places) -> Vec<u64> {
        places.plans().map(|plan| plan.first).collect()
    }

    fn marks(places: Places) -> Vec<u64> {
        places.plans().filter_map(|plan| plan.mark).collect()
    }

    #[test]
    fn three_equal_steps_make_a_stride_and_its_mark_goes_on() {
        let (mut stride, places) = begun(1_300, 100, 1);
        assert_eq!(
            firsts(places),
            (14..30).map(|n| 100 * n).collect::<Vec<_>>()
        );
        assert_eq!(marks(places), [2_100]);
        assert_eq!(stride.marked(1_500), None);
        let next = stride.marked(2_100).expect("the mark");
        assert_eq!(firsts(next)[0], 3_000, "behind those before");
        assert_eq!(marks(next), [3_700]);
    }

    #[test]
    fn a_miss_just_behind_the_places_goes_on_and_others_do_not_disturb() {
        let (mut stride, _) = begun(1_300, 100, 1);
        for page in [70_000, 5, 900_000] {
            assert_eq!(stride.miss(page, 1), None);
        }
        let next = stride.marked(2_100).expect("the mark is still known");
        assert_eq!(firsts(next)[15], 4_500);
        assert_eq!(stride.miss(4_500, 1), None, "it should have been there");
        let next = stride.miss(4_600, 1).expect("the place behind");
        assert_eq!(firsts(next)[0], 4_700);
    }

    #[test]
    fn backwards_ends_at_the_start_of_the_file() {
        let (_, places) = begun(25, -5, 2);
        let plans: Vec<_> = places
            .plans()
            .map(|plan| (plan.first, plan.pages))
            .collect();
        assert_eq!(plans, [20, 15, 10, 5, 0].map(|first| (first, 2)));
        let (_, places) = begun(7, -5, 4);
        let plans: Vec<_> = places
            .plans()
            .map(|plan| (plan.first, plan.pages))
            .collect();
        assert_eq!(
            plans,
            [(2, 4), (0, 1)],
            "of the last one, what is in the file"
        );
    }

    #[test]
    fn places_without_gaps_are_read_at_once() {
        let (mut stride, places) = begun(1_000, -2, 2);
        let plan = |first, mark| Plan {
            first,
            pages: 32,
            mark: Some(mark),
        };
        assert_eq!(places.plans().collect::<Vec<_>>(), [plan(968, 984)]);
        let next = stride.marked(984).expect("the mark");
        assert_eq!(next.plans().collect::<Vec<_>>(), [plan(936, 952)]);
    }

    #[test]
    fn what_is_read_ahead_fits_in_the_memory() {
        let mut stride = Stride::new(10);
        let mut misses = (0..4).map(|n| stride.miss(50 * n, 3));
        let places = misses.find_map(|places| places).expect("a stride");
        assert_eq!(places.plans().count(), 3);
        let mut small = Stride::new(5);
        assert!((0..9).all(|n| small.miss(50 * n, 3).is_none()), "one place");
    }

    #[test]
    fn neither_random_nor_ordered_readers_have_a_stride() {
        let mut stride = Stride::new(PAGES_MAX);
        for page in [5, 900, 17, 34, 51, 3, 4, 5, 6, 7, 7, 7, 7] {
            assert_eq!(stride.miss(page, 1), None, "{page}");
        }
        let mut large = Stride::new(PAGES_MAX);
        let mut misses = (0..10).map(|n| large.miss(1_000 * n, 32));
        assert!(misses.all(|places| places.is_none()), "windows themselves");
    }
}
