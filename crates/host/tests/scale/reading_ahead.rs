//! Readers in order, in steps, and others.

use super::*;

#[test]
fn a_file_read_in_order_is_read_ahead_in_large_requests() {
    page_cache::reads_ahead::<Scale<Whole>>(false);
}

/// What came of reads at some places.
struct ReadAt {
    pages: u64,
    /// Pages that were there: touched before, or read ahead.
    found: u64,
    /// Pages that the drive was asked for.
    fetched: u64,
}

/// Reads `pages` pages at each of these places, by a cache of so many frames.
fn read_at(frames: u64, pages: u64, places: impl IntoIterator<Item = u64>) -> ReadAt {
    let (mut rig, design) = rig::<Scale<Whole>>(stamps(1, 1_000_000), frames, false);
    let (store, places) = (rig.stores[0].clone(), Vec::from_iter(places));
    let count = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counted = count.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        for place in places {
            let touch = read(&*client, place, pages).await;
            counted[0].fetch_add(touch.pages, Relaxed);
            counted[1].fetch_add(touch.hits + touch.read_ahead_hits, Relaxed);
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    ReadAt {
        pages: count[0].load(Relaxed),
        found: count[1].load(Relaxed),
        fetched: store.seen().iter().map(|c| u64::from(c.pages())).sum(),
    }
}

#[test]
fn readers_that_go_in_steps_are_read_ahead() {
    let check = |what: &str, pages: u64, places: Vec<u64>| {
        let read = read_at(4096, pages, places);
        assert_eq!(read.pages - read.found, 4 * pages, "{what}: four misses");
        let spare = read.fetched - read.pages;
        assert!(spare <= 32, "{what}: {spare} more than were read");
    };
    for (step, pages) in [(100, 1), (7, 2), (64, 8)] {
        let places = (0..400).map(|n| 5_000 + n * step).collect();
        check(&format!("steps of {step}"), pages, places);
    }
    for (step, pages) in [(50, 1), (1, 1), (4, 4)] {
        let places = (0..400).rev().map(|n| n * step).collect();
        check(&format!("steps of -{step}"), pages, places);
    }
}

#[test]
fn steps_are_read_ahead_in_a_small_cache_too() {
    // CLOCK takes some of what was read ahead before it is used.
    let ReadAt { found, fetched, .. } = read_at(32, 1, (0..400).map(|n| 90 * n));
    assert!(found >= 320, "{found} of 400");
    assert!(fetched <= 480, "{fetched} for 400");
}

#[test]
fn other_reads_do_not_end_a_stride() {
    let mut rng = Seed(5).rng();
    let places = (0..400).flat_map(|n| {
        let other = (n > 8).then(|| 400_000 + rng.below(500_000));
        [Some(100 * n), other].into_iter().flatten()
    });
    let ReadAt { found, fetched, .. } = read_at(4096, 1, places);
    assert!(found >= 400 - 4, "{found}");
    assert!(fetched <= 791 + 32, "{fetched}");
}

#[test]
fn a_mark_that_a_stride_left_behind_opens_no_window() {
    // The second stride takes the place of the first, which has read 16 places ahead.
    let two = |later: u64| {
        let (first, second) = ((0..20).map(|n| 100 * n), (0..10).map(|n| 500_000 + 70 * n));
        let later = (20..20 + later).map(|n| 100 * n);
        // The last one misses, and so waits until the drive has seen all that was asked before.
        read_at(4096, 1, first.chain(second).chain(later).chain([900_000]))
    };
    let (without, with) = (two(0), two(16));
    assert_eq!(with.found, without.found + 16, "they were read ahead");
    assert_eq!(with.fetched, without.fetched);
}

#[test]
fn random_readers_are_read_what_they_ask_for() {
    let mut rng = Seed(4).rng();
    let random = read_at(512, 3, (0..400).map(|_| rng.below(900_000)));
    assert_eq!(random.fetched, random.pages - random.found);
    assert!(random.found <= 3, "{}", random.found);
}
