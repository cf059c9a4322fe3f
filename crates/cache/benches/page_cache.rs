//! What a read that finds its page costs: through `PageCache`, through the kernel, and as a bare copy.
//!
//!     cargo bench -p wharf --bench page_cache [MiB]
//!
//! Everything runs in one process on one file, which is in both caches, in rounds that take turns. A row is the
//! median of its rounds with the lowest and the highest.

use std::cell::RefCell;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

use wharf_cache::{File, PageCache, PageCacheOptions};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

const PAGE: usize = 4096;
const ROUNDS: usize = 9;
const READS: u64 = 500_000;

fn main() {
    // Cargo passes `--bench`.
    let sizes: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    for mib in if sizes.is_empty() {
        vec![16, 1024]
    } else {
        sizes
    } {
        println!("random 4 KiB reads, {mib} MiB");
        hits(mib << 20);
    }
}

/// Where reads go: one place for all rows, as the speed of a copy depends on it.
#[repr(align(4096))]
struct Out([u8; PAGE]);

/// A row of the table: does so many reads.
type Row<'a> = (&'static str, Box<dyn FnMut(u64) + 'a>);

fn hits(bytes: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let memory: Vec<u8> = (0..bytes).map(|i| (i / PAGE as u64) as u8).collect();
    std::fs::write(&path, &memory).expect("room for the file");
    let kernel = std::fs::File::open(&path).expect("the file");
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: bytes + bytes / 8,
        ..PageCacheOptions::default()
    })
    .expect("memory");
    let file = cache.open(&path).expect("the file");
    warm(&file, bytes);
    // After the cache: its reads are direct, and the kernel may give up the pages that it has.
    kernel
        .read_exact_at(&mut vec![0; bytes as usize], 0)
        .expect("the file");

    let map = Map::of(&kernel, bytes as usize);
    let out = RefCell::new(Box::new(Out([0; PAGE])));
    let pages = bytes / PAGE as u64;
    let each = |n: u64, read: &dyn Fn(u64, &mut [u8; PAGE])| {
        let mut out = out.borrow_mut();
        at_random(n, pages, |at| {
            read(at, &mut out.0);
            let fill = (at / PAGE as u64) as u8;
            assert!(out.0[0] == fill && out.0[PAGE - 1] == fill);
        });
    };
    let copy = |at: u64, out: &mut [u8; PAGE]| out.copy_from_slice(&memory[at as usize..][..PAGE]);
    let ours = |at: u64, out: &mut [u8; PAGE]| {
        black_box(file.read_at(out, at).expect("reads"));
    };
    let pread = |at: u64, out: &mut [u8; PAGE]| kernel.read_exact_at(out, at).expect("reads");
    let medians = compare(vec![
        ("copy from plain memory", Box::new(|n| each(n, &copy))),
        ("PageCache, read_at", Box::new(|n| each(n, &ours))),
        ("kernel, pread", Box::new(|n| each(n, &pread))),
        (
            "PageCache, read_at of 8 bytes",
            Box::new(|n| values(&file, n, pages)),
        ),
        (
            "PageCache, pin and read of a byte",
            Box::new(|n| pins(&file, n, pages, |page| page[8])),
        ),
        (
            "kernel, mmap and read of a byte",
            Box::new(|n| {
                at_random(n, pages, |at| {
                    black_box(map.byte(at + 8));
                })
            }),
        ),
        (
            "PageCache, pin and sum of 4 KiB",
            Box::new(|n| pins(&file, n, pages, sum)),
        ),
        (
            "kernel, mmap and sum of 4 KiB",
            Box::new(|n| {
                at_random(n, pages, |at| {
                    black_box(sum(map.page(at)));
                })
            }),
        ),
    ]);
    println!(
        "  a hit costs {:.2} times the copy; pread costs {:.2} times a hit; a pin costs {:.2} times mmap, {:.2} for whole pages",
        medians[1] / medians[0],
        medians[2] / medians[1],
        medians[4] / medians[5],
        medians[6] / medians[7]
    );
    let rates = [1, 2].map(|threads| rate(&file, threads, pages));
    println!(
        "  one thread {:.0} hits/s, two {:.0}: {:.2} times",
        rates[0],
        rates[1],
        rates[1] / rates[0]
    );
    let statistics = cache.statistics();
    assert!(statistics.evictions == 0, "all reads were hits");
}

fn warm(file: &File, bytes: u64) {
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..bytes).step_by(1 << 20) {
        file.read_exact_at(&mut buffer, offset).expect("reads");
    }
}

/// A random page below `pages`, a power of two.
fn random_page(rng: &mut Rng, pages: u64) -> u64 {
    rng.next_u64() & (pages - 1)
}

/// Calls `f` with the offsets of `n` random pages: the same for every row.
fn at_random(n: u64, pages: u64, mut f: impl FnMut(u64)) {
    let mut rng = Seed(1).rng();
    for _ in 0..n {
        f(random_page(&mut rng, pages) * PAGE as u64);
    }
}

fn values(file: &File, n: u64, pages: u64) {
    let mut out = [0; 8];
    at_random(n, pages, |at| {
        black_box(file.read_at(&mut out, at + 8).expect("reads"));
    });
}

/// Does `f` with random pages in place.
fn pins<R>(file: &File, n: u64, pages: u64, f: impl Fn(&[u8; PAGE]) -> R) {
    at_random(n, pages, |at| {
        let guard = file.pin(at).expect("a page");
        // SAFETY: nobody writes to the file.
        black_box(f(unsafe { guard.bytes() }));
    });
}

/// A file that is mapped to read.
struct Map {
    start: *const u8,
    bytes: usize,
}

impl Map {
    fn of(file: &std::fs::File, bytes: usize) -> Map {
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::SHARED,
                file,
                0,
            )
        };
        let start = start.expect("room for a mapping").cast_const().cast();
        Map { start, bytes }
    }

    fn byte(&self, at: u64) -> u8 {
        assert!((at as usize) < self.bytes);
        // SAFETY: within the mapping; nobody writes to the file or cuts it.
        unsafe { self.start.add(at as usize).read_volatile() }
    }

    fn page(&self, at: u64) -> &[u8; PAGE] {
        assert!(at as usize + PAGE <= self.bytes);
        // SAFETY: within the mapping; nobody writes to the file or cuts it.
        unsafe { &*self.start.add(at as usize).cast() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nobody has a part of it.
        let _ = unsafe { rustix::mm::munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

/// What a program does that uses whole pages in place.
fn sum(page: &[u8; PAGE]) -> u64 {
    let (words, _) = page.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// Times the rows in turns; prints nanoseconds per read and gives the medians.
fn compare(mut rows: Vec<Row>) -> Vec<f64> {
    let mut times = vec![Vec::new(); rows.len()];
    for round in 0..=ROUNDS {
        for ((_, run), times) in rows.iter_mut().zip(&mut times) {
            let clock = Clock::start();
            run(READS);
            // The first round warms up.
            if round > 0 {
                times.push(clock.now_ns() as f64 / READS as f64);
            }
        }
    }
    let mut medians = Vec::new();
    for ((name, _), mut times) in rows.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let (median, least, most) = (times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
        println!("  {name:40} {median:8.1} ns   ({least:.1} to {most:.1})");
        medians.push(median);
    }
    medians
}

/// Hits per second of threads that read all over the file: the best of some rounds.
fn rate(file: &File, threads: usize, pages: u64) -> f64 {
    let round = || -> f64 {
        let start = Barrier::new(threads);
        let one = |thread: usize| {
            let (mut rng, mut out) = (Seed(thread as u64).rng(), [0u8; PAGE]);
            file.read_exact_at(&mut out, 0).expect("reads");
            start.wait();
            let clock = Clock::start();
            for _ in 0..READS {
                let offset = random_page(&mut rng, pages) * PAGE as u64;
                black_box(file.read_at(&mut out, offset).expect("reads"));
            }
            READS as f64 * 1e9 / clock.now_ns() as f64
        };
        std::thread::scope(|scope| {
            let one = &one;
            let all: Vec<_> = (0..threads).map(|t| scope.spawn(move || one(t))).collect();
            all.into_iter().map(|t| t.join().expect("no panic")).sum()
        })
    };
    (0..ROUNDS).map(|_| round()).fold(0.0, f64::max)
}
