//! Look-ups in a sorted file of records, through a page cache in the process and through plain `pread`.
//!
//!     cargo run --release -p wharf --example page_cache
//!
//! A record is a key and a value, 16 bytes; keys are the even numbers in order. Threads look up random keys by
//! binary search, on a file that both caches have in memory. Both ways must find the same.

use std::os::unix::fs::FileExt;
use std::path::Path;

use wharf_cache::{PageCache, PageCacheError, PageCacheOptions};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

const RECORD_BYTES: u64 = 16;
const RECORDS: u64 = 1 << 18;
const LOOKUPS: u64 = 10_000;
const THREADS: u64 = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The value that belongs to a key.
fn value_of(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn record(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    (word(0), word(8))
}

/// The value of `key` in a file that `read` reads, by binary search.
fn find<E>(key: u64, read: impl Fn(u64, &mut [u8]) -> Result<(), E>) -> Result<Option<u64>, E> {
    let (mut low, mut high) = (0, RECORDS);
    let mut bytes = [0; RECORD_BYTES as usize];
    while low < high {
        let middle = low + (high - low) / 2;
        read(middle * RECORD_BYTES, &mut bytes)?;
        match record(&bytes) {
            (found, value) if found == key => return Ok(Some(value)),
            (found, _) if found < key => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(None)
}

/// Looks up random keys, half of which are there; gives the time each took in nanoseconds.
fn look_up<E>(mut rng: Rng, read: impl Fn(u64, &mut [u8]) -> Result<(), E>) -> Result<f64, E> {
    let clock = Clock::start();
    for _ in 0..LOOKUPS {
        let key = rng.below(2 * RECORDS);
        let expected = key.is_multiple_of(2).then(|| value_of(key));
        assert_eq!(find(key, &read)?, expected, "key {key}");
    }
    Ok(clock.now_ns() as f64 / LOOKUPS as f64)
}

/// Writes the records through the cache.
fn build(cache: &PageCache, path: &Path) -> Result<(), PageCacheError> {
    let file = cache.create(path)?;
    for number in 0..RECORDS {
        let key = 2 * number;
        let (mut bytes, offset) = ([0; RECORD_BYTES as usize], number * RECORD_BYTES);
        bytes[..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..].copy_from_slice(&value_of(key).to_le_bytes());
        file.write_all_at(&bytes, offset)?;
    }
    file.close()
}

/// Has every thread look up keys; gives the mean time of a look-up.
fn on_threads(work: impl Fn(Rng) -> Result<f64, Failure> + Sync) -> Result<f64, Failure> {
    let work = &work;
    let times: Result<Vec<f64>, Failure> = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|t| scope.spawn(move || work(Seed(1).index(t).rng())));
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    Ok(times?.iter().sum::<f64>() / THREADS as f64)
}

fn main() -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("wharf-records-{}", std::process::id()));
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: 2 * RECORDS * RECORD_BYTES,
        ..PageCacheOptions::default()
    })?;
    let outcome = run(&cache, &path);
    std::fs::remove_file(&path)?;
    outcome
}

fn run(cache: &PageCache, path: &Path) -> Result<(), Failure> {
    build(cache, path)?;
    let file = cache.open(path)?;
    let plain = std::fs::File::open(path)?;
    let mut piece = vec![0; 64 << 10];
    for offset in (0..file.len()).step_by(piece.len()) {
        file.read_exact_at(&mut piece, offset)?;
        plain.read_exact_at(&mut piece, offset)?;
    }
    let ours = on_threads(|rng| Ok(look_up(rng, |at, out| file.read_exact_at(out, at))?))?;
    let pread = on_threads(|rng| Ok(look_up(rng, |at, out| plain.read_exact_at(out, at))?))?;
    let statistics = cache.statistics();
    println!("{LOOKUPS} look-ups by each of {THREADS} threads, all as expected");
    println!("PageCache: {ours:8.0} ns each");
    println!("pread:     {pread:8.0} ns each");
    println!(
        "of {} pages touched {} were in the cache",
        statistics.pages, statistics.hits
    );
    Ok(())
}
