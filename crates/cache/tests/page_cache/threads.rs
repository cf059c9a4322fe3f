//! Threads that share files and memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use wharf_runtime::Seed;

use crate::{PAGE, create, fill, small};

/// Threads that write and read ranges of their own, in two files, in a cache that they fill many times over.
/// Ranges end within pages, which neighbours share.
#[test]
fn threads_share_files_and_memory() {
    const RANGE: usize = 150_001;
    for seed in 0..4 {
        println!("seed {seed}");
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let cache = small(48);
        let files = [0, 1].map(|i: usize| create(&cache, &paths[i]));
        let one = |thread: u64| {
            let mut rng = Seed(seed).index(thread).rng();
            let file = &files[thread as usize % 2];
            let first = (thread / 2) * RANGE as u64;
            let mut model = vec![0; RANGE];
            fill(&mut rng, &mut model);
            file.write_all_at(&model, first).unwrap();
            for step in 0..300 {
                let at = rng.below(RANGE as u64) as usize;
                let len = (1 + rng.below(9_000) as usize).min(RANGE - at);
                if rng.chance(1, 2) {
                    fill(&mut rng, &mut model[at..at + len]);
                    let data = &model[at..at + len];
                    file.write_all_at(data, first + at as u64).unwrap();
                } else {
                    let mut out = vec![0; len];
                    file.read_exact_at(&mut out, first + at as u64).unwrap();
                    assert!(out == model[at..at + len], "thread {thread} step {step}");
                }
                if rng.chance(1, 40) {
                    file.sync_all().unwrap();
                }
            }
            model
        };
        let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || one(t))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        files.into_iter().for_each(|file| file.close().unwrap());
        for (i, path) in paths.iter().enumerate() {
            let expected = [&models[i][..], &models[i + 2][..]].concat();
            assert!(std::fs::read(path).unwrap() == expected, "file {i}");
        }
    }
}

/// Pages of one byte each, written and read by all threads: whoever finds two bytes in a page has seen
/// half of a write.
#[test]
fn a_page_is_never_seen_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(24);
    let file = create(&cache, &folder.path().join("file"));
    file.set_len(40 * PAGE as u64).unwrap();
    let one = |thread: u64| {
        let mut rng = Seed(thread).rng();
        let mut page = vec![0; PAGE];
        for _ in 0..2_000 {
            let offset = rng.below(40) * PAGE as u64;
            if rng.chance(1, 3) {
                page.fill(rng.next_u32() as u8);
                file.write_all_at(&page, offset).unwrap();
            } else {
                file.read_exact_at(&mut page, offset).unwrap();
                assert!(page.iter().all(|byte| *byte == page[0]), "half of a write");
            }
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..3).for_each(|t| drop(scope.spawn(move || one(t))));
    });
}

/// Counts a thread down that ends, or fails.
struct End<'a>(&'a AtomicU32);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A read looked at the length, and then waited for who was cutting the file: a page behind the new
/// end got a frame, and was never read, so that whoever wanted it waited for ever.
#[test]
fn a_read_that_met_a_truncation_never_ended() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(24);
    let file = create(&cache, &folder.path().join("file"));
    let readers = AtomicU32::new(3);
    let one = |thread: u64| {
        let _end = End(&readers);
        let mut rng = Seed(thread).rng();
        for _ in 0..2_000 {
            let offset = rng.below(60) * PAGE as u64;
            let mut out = [1; 2 * PAGE];
            let count = file.read_at(&mut out, offset).unwrap();
            assert!(out[..count].iter().all(|byte| *byte == 0));
            if let Ok(guard) = file.pin(offset) {
                guard.read(0, &mut out[..PAGE]);
                assert_eq!(out[..PAGE], [0; PAGE]);
            }
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..3).for_each(|thread| drop(scope.spawn(move || one(thread))));
        let mut rng = Seed(9).rng();
        while readers.load(Relaxed) > 0 {
            file.set_len(rng.below(60) * PAGE as u64).unwrap();
        }
    });
}

#[test]
fn threads_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(64);
    let file = create(&cache, &folder.path().join("file"));
    for round in 0..40u64 {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (file, offset) = (&file, (3 * round + thread) * 5_000);
                scope.spawn(move || {
                    file.write_all_at(&[round as u8 + 1; 5_000], offset)
                        .unwrap()
                });
            }
        });
    }
    let mut out = vec![0; 15_000];
    for round in 0..40 {
        file.read_exact_at(&mut out, round * 15_000).unwrap();
        assert!(out.iter().all(|byte| *byte == round as u8 + 1), "{round}");
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.writes, statistics.reads), (120, 40));
    assert!(statistics.evictions > 0 && statistics.write_backs > 0);
}
