//! Pages of metadata that are kept in memory, within a budget: CLOCK.
//!
//! Here are only pages that the media hold too, at their own places. What is not there yet is kept
//! by the journal (`store.rs`), which limits it in its own way.

use rustc_hash::FxHashMap;

use super::page::Image;
use crate::pages::PAGE_BYTES;

/// Fewest pages that are kept, whatever the budget.
const PAGES_MIN: usize = 16;

#[derive(Debug)]
struct Place {
    page: u64,
    image: Image,
    was_used: bool,
}

/// Pages of metadata.
#[derive(Debug)]
pub struct Kept {
    places: Vec<Place>,
    index: FxHashMap<u64, usize>,
    hand: usize,
    pages_max: usize,
}

impl Kept {
    /// No pages, in a budget of bytes.
    pub fn new(bytes_max: usize) -> Kept {
        Kept {
            places: Vec::new(),
            index: FxHashMap::default(),
            hand: 0,
            pages_max: (bytes_max / PAGE_BYTES).max(PAGES_MIN),
        }
    }

    /// A page, if it is kept.
    pub fn get(&mut self, page: u64) -> Option<Image> {
        let place = &mut self.places[*self.index.get(&page)?];
        place.was_used = true;
        Some(place.image.clone())
    }

    /// Keeps a page, in place of what was kept of it before, or of one that was not used lately.
    pub fn put(&mut self, page: u64, image: Image) {
        if let Some(&at) = self.index.get(&page) {
            self.places[at].image = image;
            return;
        }
        let new = Place {
            page,
            image,
            was_used: false,
        };
        if self.places.len() < self.pages_max {
            self.index.insert(page, self.places.len());
            return self.places.push(new);
        }
        while std::mem::take(&mut self.places[self.hand].was_used) {
            self.hand = (self.hand + 1) % self.places.len();
        }
        self.index.remove(&self.places[self.hand].page);
        self.index.insert(page, self.hand);
        self.places[self.hand] = new;
        self.hand = (self.hand + 1) % self.places.len();
    }

    /// Keeps a page no longer.
    pub fn remove(&mut self, page: u64) {
        let Some(at) = self.index.remove(&page) else {
            return;
        };
        self.places.swap_remove(at);
        if let Some(moved) = self.places.get(at) {
            self.index.insert(moved.page, at);
        }
        if self.hand >= self.places.len() {
            self.hand = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::page::{Kind, fresh};
    use wharf_runtime::Seed;

    #[test]
    fn what_is_kept_is_what_was_put_last_and_never_more_than_the_budget() {
        let seed = 7;
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let mut kept = Kept::new(20 * PAGE_BYTES);
        let mut last = FxHashMap::default();
        for round in 0..20_000u64 {
            let page = rng.below(60);
            match rng.below(4) {
                0 => {
                    kept.put(page, fresh(Kind::Node, page, round));
                    last.insert(page, round);
                }
                1 if rng.chance(1, 4) => {
                    kept.remove(page);
                    last.remove(&page);
                }
                _ => {
                    if let Some(image) = kept.get(page) {
                        let header = super::super::page::head(&image);
                        assert_eq!(header.file_system.get(), last[&page]);
                    }
                }
            }
            assert!(kept.places.len() <= 20);
            assert_eq!(kept.places.len(), kept.index.len());
        }
    }
}
