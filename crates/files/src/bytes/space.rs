//! What is in use: a bit for each page, and for each slot of an inode. Nothing of it is on the
//! media; opening makes it anew.

use crate::pages::Run;

/// Words of bits that are counted together.
const GROUP_WORDS: usize = 64;

/// Some of many: a bit for each, 1 for those that are taken.
#[derive(Debug)]
pub struct Bits {
    first: u64,
    count: u64,
    words: Vec<u64>,
    /// Those that are free in each group of words: full ones are skipped.
    group_free: Vec<u32>,
    free: u64,
}

impl Bits {
    /// `count` free ones from `first` on.
    pub fn new(first: u64, count: u64) -> Bits {
        let words = count.div_ceil(64) as usize;
        let mut bits = Bits {
            first,
            count,
            words: vec![0; words],
            group_free: Vec::new(),
            free: count,
        };
        if let Some(last) = bits.words.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = u64::MAX << (count % 64);
        }
        let groups = bits.words.chunks(GROUP_WORDS);
        let free = |group: &[u64]| group.iter().map(|word| word.count_zeros()).sum();
        bits.group_free = groups.map(free).collect();
        bits
    }

    /// Those that are free.
    pub fn free(&self) -> u64 {
        self.free
    }

    fn is_taken(&self, index: u64) -> bool {
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// Takes those of a run; false, and nothing is taken, if one was taken before or is not there.
    pub fn claim(&mut self, run: Run) -> bool {
        let Some(from) = run.first.checked_sub(self.first) else {
            return false;
        };
        let to = from.saturating_add(run.pages);
        if to > self.count || (from..to).any(|index| self.is_taken(index)) {
            return false;
        }
        for index in from..to {
            self.words[(index / 64) as usize] |= 1 << (index % 64);
            self.group_free[index as usize / 64 / GROUP_WORDS] -= 1;
        }
        self.free -= run.pages;
        true
    }

    /// Gives those of a run back.
    ///
    /// # Panics
    /// If one was not taken: a mistake of this program.
    pub fn give(&mut self, run: Run) {
        let from = run.first - self.first;
        for index in from..from + run.pages {
            assert!(self.is_taken(index), "{run:?} is given back twice");
            self.words[(index / 64) as usize] &= !(1 << (index % 64));
            self.group_free[index as usize / 64 / GROUP_WORDS] += 1;
        }
        self.free += run.pages;
    }

    /// The first free one from an index on.
    fn next_free(&self, from: u64) -> Option<u64> {
        let mut word = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        while word < self.words.len() {
            let group = word / GROUP_WORDS;
            if self.group_free[group] == 0 {
                word = (group + 1) * GROUP_WORDS;
                mask = u64::MAX;
                continue;
            }
            let free = !self.words[word] & mask;
            if free != 0 {
                return Some(word as u64 * 64 + u64::from(free.trailing_zeros()));
            }
            word += 1;
            mask = u64::MAX;
        }
        None
    }

    /// Takes up to `most` that lie side by side: at `goal`, if that one is free, else the next ones
    /// behind it.
    pub fn take(&mut self, goal: u64, most: u64) -> Option<Run> {
        if self.free == 0 || most == 0 {
            return None;
        }
        let goal = goal.saturating_sub(self.first) % self.count;
        let from = self.next_free(goal).or_else(|| self.next_free(0))?;
        let mut to = from + 1;
        while to < self.count && to - from < most && !self.is_taken(to) {
            to += 1;
        }
        let run = Run::new(self.first + from, to - from);
        self.claim(run).then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wharf_runtime::Seed;

    use super::*;

    #[test]
    fn what_is_taken_is_nobody_elses_until_it_is_given_back() {
        let mut rng = Seed(9).rng();
        let (first, count) = (17, 10_000);
        let mut bits = Bits::new(first, count);
        let (mut taken, mut runs) = (BTreeSet::new(), Vec::new());
        for _ in 0..3_000 {
            if rng.chance(3, 5) {
                let goal = rng.below(2 * count);
                let Some(run) = bits.take(goal, 1 + rng.below(40)) else {
                    assert_eq!(taken.len() as u64, count);
                    continue;
                };
                assert!(run.iter().all(|page| taken.insert(page)));
                assert!(run.first >= first && run.end() <= first + count);
                assert!(!bits.claim(run));
                runs.push(run);
            } else if !runs.is_empty() {
                let run = runs.swap_remove(rng.below(runs.len() as u64) as usize);
                run.iter().for_each(|page| assert!(taken.remove(&page)));
                bits.give(run);
            }
            assert_eq!(bits.free(), count - taken.len() as u64);
        }
        while bits.take(0, 100).is_some() {}
        assert_eq!(bits.free(), 0);
        assert!(!bits.claim(Run::new(first + count, 1)) && !bits.claim(Run::new(3, 1)));
    }
}
