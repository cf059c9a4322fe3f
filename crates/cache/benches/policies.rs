//! What each replacement policy costs: hits, and a cache that is too small, whose storage is memory.
//!
//!     cargo bench -p wharf-cache --bench policies
//!
//! All policies take turns in one process, in rounds; a figure is the median of its rounds. What policies hit says `wharf mrc`; the hit ratio here is of pages
//! of which a fifth gets four fifths of the reads.

use std::hint::black_box;
use std::sync::{Arc, Barrier};

use wharf_cache::{File, PageCache, PageCacheOptions, Replacement};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};
use wharf_storage::RamTarget;

const PAGE: u64 = 4096;
const ROUNDS: usize = 7;
const READS: u64 = 200_000;

/// Pages of storage.
const PAGES: u64 = 8_192;

/// A policy, with a cache that has all pages and one that has an eighth of them.
struct Row {
    name: &'static str,
    whole: File,
    part: File,
    part_cache: PageCache,
    /// Nanoseconds a read: 8 bytes and a page of hits with one thread, a page with two, a page of the small cache with one and with two.
    read_ns: [Vec<f64>; 5],
}

fn main() {
    let mut rows: Vec<Row> = Replacement::ALL.into_iter().map(row).collect();
    for _ in 0..ROUNDS {
        for row in &mut rows {
            let (whole, part) = (&row.whole, &row.part);
            let measured = [
                read_ns(whole, 1, 8, false),
                read_ns(whole, 1, PAGE as usize, false),
                read_ns(whole, 2, PAGE as usize, false),
                read_ns(part, 1, PAGE as usize, true),
                read_ns(part, 2, PAGE as usize, true),
            ];
            for (all, ns) in row.read_ns.iter_mut().zip(measured) {
                all.push(ns);
            }
        }
    }
    println!("nanoseconds of a read, by each thread: hits, and a cache of an eighth of the pages");
    println!(
        "{:<10} {:>8} {:>8} {:>10} {:>9} {:>11} {:>8}",
        "policy", "8 B", "4 KiB", "2 threads", "an eighth", "2 threads", "hits"
    );
    for row in &mut rows {
        let [value, page, two, part, part_two] = row.read_ns.each_mut().map(|all| median(all));
        let statistics = row.part_cache.statistics();
        println!(
            "{:<10} {value:>8.1} {page:>8.1} {two:>10.1} {part:>9.0} {part_two:>11.0} {:>7.1} %",
            row.name,
            100.0 * statistics.hits as f64 / statistics.pages as f64
        );
    }
}

fn row((name, replacement): (&'static str, Replacement)) -> Row {
    let open = |pages: u64| {
        let cache = PageCache::new(&PageCacheOptions {
            memory_bytes: pages * PAGE,
            replacement,
            background: false,
            ..PageCacheOptions::default()
        });
        let cache = cache.expect("memory");
        let storage = Arc::new(RamTarget::new("ram", PAGES * PAGE, 4096));
        let file = cache.open_target(storage).expect("memory");
        (cache, file)
    };
    let (_, whole) = open(PAGES + PAGES / 8);
    let mut page = [0; PAGE as usize];
    for at in 0..PAGES {
        whole.read_exact_at(&mut page, at * PAGE).expect("memory");
    }
    let (part_cache, part) = open(PAGES / 8);
    Row {
        name,
        whole,
        part,
        part_cache,
        read_ns: Default::default(),
    }
}

/// Nanoseconds of a read of so many bytes by each of so many threads.
fn read_ns(file: &File, threads: u64, bytes: usize, is_skewed: bool) -> f64 {
    let (start, clock) = (Barrier::new(threads as usize), Clock::start());
    let each = |thread: u64| {
        let mut rng = Seed(7).child("reads").index(thread).rng();
        let mut out = [0; PAGE as usize];
        start.wait();
        let began_ns = clock.now_ns();
        for _ in 0..READS {
            let page = page(&mut rng, is_skewed);
            file.read_exact_at(&mut out[..bytes], page * PAGE)
                .expect("memory");
            black_box(&out);
        }
        (clock.now_ns() - began_ns) as f64 / READS as f64
    };
    let each = &each;
    let all: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || each(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it ends"))
            .collect()
    });
    all.iter().sum::<f64>() / all.len() as f64
}

fn page(rng: &mut Rng, is_skewed: bool) -> u64 {
    match is_skewed && rng.chance(4, 5) {
        // Those of the fifth lie all over.
        true => rng.below(PAGES / 5) * 5,
        false => rng.below(PAGES),
    }
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
