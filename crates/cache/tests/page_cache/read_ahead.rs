//! What is read before it is asked for.

use std::collections::BTreeSet;

use wharf_cache::{PageCache, PageCacheOptions};
use wharf_runtime::Seed;

use crate::{PAGE, faulty_of, of_pages};

/// Reads a page at each of these places of storage of 10,000 pages, in a cache with room for all; gives how many were
/// found in it, and how many pages are in it in the end: those that can be read when the storage is dead.
fn hits_and_cached(places: impl IntoIterator<Item = u64>) -> (u64, u64) {
    const PAGES: u64 = 10_000;
    let (target, _, _) = faulty_of(PAGES, 3);
    // Without a thread beside the reader, whose pages would be there in time or not.
    let options = PageCacheOptions {
        background: false,
        ..of_pages(2 * PAGES)
    };
    let cache = PageCache::new(&options).unwrap();
    let file = cache.open_target(target.clone()).unwrap();
    let mut out = [0; PAGE];
    for page in places {
        file.read_exact_at(&mut out, page * PAGE as u64).unwrap();
    }
    let did = cache.statistics();
    let hits = did.hits + did.read_ahead_hits;
    target.die();
    let mut is_cached = |page: &u64| file.read_at(&mut out, page * PAGE as u64).is_ok();
    (hits, (0..PAGES).filter(&mut is_cached).count() as u64)
}

#[test]
fn a_reader_that_goes_in_steps_hits_and_a_random_one_causes_no_read_ahead() {
    let (hits, cached) = hits_and_cached((0..400).map(|n| 1_000 + 13 * n));
    assert_eq!(hits, 400 - 4, "all but those that made the steps known");
    assert!((400..=432).contains(&cached), "{cached} for 400");
    let (hits, _) = hits_and_cached((0..400).map(|n| 9_000 - n));
    assert_eq!(hits, 400 - 4, "backwards");
    let mut rng = Seed(1).child("places").rng();
    let mut seen = BTreeSet::new();
    let places = (0..150).map(|_| 1 + rng.below(9_999));
    let (hits, cached) = hits_and_cached(places.filter(|page| seen.insert(*page)));
    assert_eq!((hits, cached), (0, seen.len() as u64), "random");
}
