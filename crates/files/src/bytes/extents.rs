//! The pages of a file: where they are, in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::record::Extent;
use crate::pages::Run;

/// Extents in order, none of which overlap; holes without storage have none.
#[derive(Debug, Clone, Default)]
pub struct Extents {
    /// By their first page.
    all: BTreeMap<u64, Extent>,
    /// Pages of storage.
    pages: u64,
}

impl Extent {
    /// The page behind the last.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.pages)
    }

    /// The part of it from page `from` until before page `to`.
    pub fn within(&self, from: u64, to: u64) -> Option<Extent> {
        let (at, end) = (self.at.max(from), self.end().min(to));
        (at < end).then(|| Extent {
            at,
            pages: end - at,
            first: self.first + (at - self.at),
            is_written: self.is_written,
        })
    }

    /// Where it is.
    pub fn run(&self) -> Run {
        Run::new(self.first, self.pages)
    }

    fn goes_on_as(&self, next: &Extent) -> bool {
        self.end() == next.at
            && self.first + self.pages == next.first
            && self.is_written == next.is_written
    }
}

impl Extents {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Pages of storage.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.all.values()
    }

    /// The parts of extents from page `from` until before page `to`, in order.
    pub fn covering(&self, from: u64, to: u64) -> impl Iterator<Item = Extent> {
        let before = self.all.range(..from).next_back();
        let first = before.map_or(from, |(at, _)| *at);
        let all = self.all.range(first..to.max(first));
        all.filter_map(move |(_, extent)| extent.within(from, to))
    }

    /// Takes what there is from page `from` until before page `to`.
    fn cut(&mut self, from: u64, to: u64, mut gone: impl FnMut(Extent)) {
        if from >= to {
            return;
        }
        let before = self.all.range(..from).next_back();
        let mut at = before.map_or(from, |(at, _)| *at);
        while let Some((key, extent)) = self.all.range(at.min(to)..to).next() {
            let (key, extent) = (*key, *extent);
            at = extent.end();
            let Some(part) = extent.within(from, to) else {
                continue;
            };
            self.all.remove(&key);
            self.pages -= part.pages;
            let rest = [extent.within(0, from), extent.within(to, u64::MAX)];
            for rest in rest.into_iter().flatten() {
                self.all.insert(rest.at, rest);
            }
            gone(part);
        }
    }

    /// Replaces what there is where an extent is: those without storage leave a hole. What is not
    /// in use any more is added to `freed`.
    pub fn replace(&mut self, new: Extent, freed: &mut Vec<Run>) {
        self.cut(new.at, new.end(), |old| {
            let is_same = new.first > 0 && new.first + (old.at - new.at) == old.first;
            if !is_same {
                freed.push(old.run());
            }
        });
        if new.first == 0 || new.pages == 0 {
            return;
        }
        self.pages += new.pages;
        let mut new = new;
        if let Some((key, before)) = self.all.range(..new.at).next_back()
            && before.goes_on_as(&new)
        {
            let key = *key;
            new = Extent {
                pages: before.pages + new.pages,
                ..*before
            };
            self.all.remove(&key);
        }
        let behind = (Bound::Excluded(new.at), Bound::Unbounded);
        if let Some((key, next)) = self.all.range(behind).next()
            && new.goes_on_as(next)
        {
            let (key, pages) = (*key, next.pages);
            self.all.remove(&key);
            new.pages += pages;
        }
        self.all.insert(new.at, new);
    }
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    #[test]
    fn extents_are_what_a_table_of_pages_is() {
        let mut rng = Seed(5).rng();
        for _ in 0..200 {
            let mut table: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
            let (mut extents, mut next) = (Extents::default(), 1);
            for _ in 0..60 {
                let (at, pages) = (rng.below(40), 1 + rng.below(9));
                let first = match rng.below(3) {
                    0 => 0,
                    _ => next,
                };
                next += pages * rng.below(2);
                let is_written = first > 0 && rng.chance(1, 2);
                let new = Extent {
                    at,
                    pages,
                    first,
                    is_written,
                };
                let mut freed = Vec::new();
                extents.replace(new, &mut freed);
                let mut gone = Vec::new();
                for page in at..at + pages {
                    let old = table.remove(&page);
                    if first > 0 {
                        table.insert(page, (first + page - at, is_written));
                    }
                    let same = table.get(&page).map(|(page, _)| *page);
                    gone.extend(old.map(|old| old.0).filter(|old| Some(*old) != same));
                }
                let freed: Vec<u64> = freed.iter().flat_map(|run| run.iter()).collect();
                assert_eq!(freed, gone);
                assert_eq!(extents.pages(), table.len() as u64);
                let found = extents.covering(3, 30).flat_map(|e| {
                    let page = move |at| (at, (e.first + at - e.at, e.is_written));
                    (e.at..e.end()).map(page)
                });
                let right = table.range(3..30).map(|(at, page)| (*at, *page));
                assert!(found.eq(right));
                let all: Vec<&Extent> = extents.iter().collect();
                assert!(all.windows(2).all(|two| !two[0].goes_on_as(two[1])));
            }
        }
    }
}
