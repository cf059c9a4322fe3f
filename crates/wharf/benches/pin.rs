//! What a page in the cache costs a program, beside the kernel's ways to the same bytes.
//!
//!     cargo bench -p wharf --bench pin [PART OF A NAME]
//!
//! Everything runs in one process, in rounds that take turns, so that rows of one run compare. A row is
//! the median of its rounds with the lowest and the highest. The kernel's rows use a file in the
//! temporary folder, read once before, so that it is in the page cache.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use wharf::host::Scala;
use wharf::host::scala::guard::Intent;
use wharf::runtime::clock::Clock;
use wharf::runtime::{Rng, Seed};
use wharf::store::{Client, Store, StoreOptions};

const PAGE: usize = 4096;
const ROUNDS: usize = 7;

fn main() {
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let benches: [(&str, fn()); 5] = [
        ("pins", pins),
        ("reads-16MiB", || reads(16 << 20)),
        ("reads-2GiB", || reads(2 << 30)),
        ("mmap-4GiB", || against_mmap(4 << 30)),
        ("two-clients", two_clients),
    ];
    for (name, bench) in benches {
        if wanted.as_deref().is_none_or(|w| name.contains(w)) {
            println!("{name}");
            bench();
        }
    }
}

/// One row: what is timed and how.
struct Row<'a> {
    name: &'static str,
    /// Does so many operations.
    run: Box<dyn FnMut(u64) + 'a>,
}

fn row<'a>(name: &'static str, run: impl FnMut(u64) + 'a) -> Row<'a> {
    Row {
        name,
        run: Box::new(run),
    }
}

/// Times the rows in turns; prints nanoseconds per operation and gives the medians.
fn compare(operations: u64, mut rows: Vec<Row>) -> Vec<f64> {
    let mut times = vec![Vec::new(); rows.len()];
    for round in 0..=ROUNDS {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            let clock = Clock::start();
            (row.run)(operations);
            // The first round warms up.
            if round > 0 {
                times.push(clock.now_ns() as f64 / operations as f64);
            }
        }
    }
    let mut medians = Vec::new();
    for (row, mut times) in rows.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        medians.push(times[ROUNDS / 2]);
        println!(
            "  {:58} {:8.1} ns   ({:.1} to {:.1})",
            row.name,
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
    medians
}

/// A client that holds the first `bytes` bytes of its store in frames.
fn cached(bytes: u64) -> Client<Scala> {
    let options = StoreOptions::memory(bytes).expect("a size");
    let options = options.cache_bytes(bytes + bytes / 16);
    let client = Client::open_local(&options).expect("memory");
    touch(&client, bytes);
    client
}

/// Brings the first `bytes` bytes into the cache.
fn touch(client: &Client<Scala>, bytes: u64) {
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..bytes).step_by(1 << 20) {
        client.read_at(offset, &mut buffer).expect("reads");
    }
}

/// Random page numbers below `pages`, a power of two: the same sequence for every row.
fn random_page(rng: &mut Rng, pages: u64) -> u64 {
    rng.next_u64() & (pages - 1)
}

fn pins() {
    let client = cached(1 << 30);
    let uniform = (1u64 << 30) / PAGE as u64;
    let pin = |page: u64| {
        let guard = client.try_pin(page, Intent::Read).expect("a hit");
        black_box(&guard);
    };
    let mut rows = vec![row("pin and unpin, the page used just before", |n| {
        (0..n).for_each(|_| pin(black_box(7)));
    })];
    for (name, pages) in [
        ("pin and unpin, 1,024 hot pages", 1024),
        ("pin and unpin, uniform over 1 GiB", uniform),
    ] {
        rows.push(row(name, move |n| {
            let mut rng = Seed(1).rng();
            (0..n).for_each(|_| pin(random_page(&mut rng, pages)));
        }));
    }
    rows.push(row("the random numbers alone", move |n| {
        let mut rng = Seed(1).rng();
        (0..n).for_each(|_| {
            black_box(random_page(&mut rng, uniform));
        });
    }));
    compare(5_000_000, rows);
}

/// A file of `bytes` bytes in the page cache.
fn cached_file(bytes: u64) -> std::fs::File {
    let file = tempfile::tempfile().expect("a temporary file");
    let chunk = vec![1u8; 1 << 20];
    for offset in (0..bytes).step_by(1 << 20) {
        file.write_all_at(&chunk, offset)
            .expect("room for the file");
    }
    file
}

/// Plain memory of `bytes` bytes, in huge pages where there are any.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)
        };
        let start = start.expect("memory").cast::<u8>();
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
        // SAFETY: as above; this touches every page.
        unsafe { start.write_bytes(1, bytes) };
        Memory { start, bytes }
    }

    fn file(file: &std::fs::File, bytes: usize) -> Memory {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let start = start.expect("a mapping").cast::<u8>();
        Memory { start, bytes }
    }

    fn word(&self, page: u64) -> u64 {
        let at = page as usize * PAGE;
        assert!(at < self.bytes);
        // SAFETY: inside the mapping, aligned; nobody writes.
        unsafe { self.start.add(at).cast::<u64>().read_volatile() }
    }

    fn copy(&self, page: u64, out: &mut [u8; PAGE]) {
        let at = page as usize * PAGE;
        assert!(at < self.bytes);
        // SAFETY: inside the mapping; nobody writes.
        unsafe {
            self.start
                .add(at)
                .copy_to_nonoverlapping(out.as_mut_ptr(), PAGE)
        };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

fn reads(bytes: u64) {
    let client = cached(bytes);
    let file = cached_file(bytes);
    let memory = Memory::new(bytes as usize);
    let pages = bytes / PAGE as u64;
    let rows = vec![
        row("copy of 4 KiB from plain memory", |n| {
            let (mut rng, mut out) = (Seed(1).rng(), [0u8; PAGE]);
            for _ in 0..n {
                memory.copy(random_page(&mut rng, pages), &mut out);
                black_box(&out);
            }
        }),
        row("read_at of 4 KiB, hit", |n| {
            let (mut rng, mut out) = (Seed(1).rng(), [0u8; PAGE]);
            for _ in 0..n {
                let offset = random_page(&mut rng, pages) * PAGE as u64;
                client.read_at(offset, &mut out).expect("reads");
                black_box(&out);
            }
        }),
        row("pread of 4 KiB, in the page cache", |n| {
            let (mut rng, mut out) = (Seed(1).rng(), [0u8; PAGE]);
            for _ in 0..n {
                let offset = random_page(&mut rng, pages) * PAGE as u64;
                file.read_exact_at(&mut out, offset).expect("reads");
                black_box(&out);
            }
        }),
    ];
    let [copy, ours, pread] = compare(1_000_000, rows)[..] else {
        unreachable!("three rows")
    };
    println!(
        "  a hit costs {:.2} times the copy; pread costs {:.2} times a hit",
        ours / copy,
        pread / ours
    );
}

fn against_mmap(bytes: u64) {
    let client = cached(bytes);
    let file = cached_file(bytes);
    let map = Memory::file(&file, bytes as usize);
    let pages = bytes / PAGE as u64;
    (0..pages).for_each(|page| {
        black_box(map.word(page));
    });
    let rows = vec![
        row("pin, read of 8 bytes, unpin", |n| {
            let mut rng = Seed(1).rng();
            for _ in 0..n {
                let guard = client.try_pin(random_page(&mut rng, pages), Intent::Read);
                black_box(guard.expect("a hit").try_get::<u64>(0));
            }
        }),
        row("read of 8 bytes through mmap", |n| {
            let mut rng = Seed(1).rng();
            (0..n).for_each(|_| {
                black_box(map.word(random_page(&mut rng, pages)));
            });
        }),
    ];
    let [ours, mmap] = compare(5_000_000, rows)[..] else {
        unreachable!("two rows")
    };
    println!("  a pin costs {:.2} times mmap's access", ours / mmap);
}

/// Reads per second of `threads` clients, each over its own half of the cached pages.
fn rate(store: &Store<Scala>, threads: u64, bytes: u64) -> f64 {
    const READS: u64 = 3_000_000;
    let start = Barrier::new(threads as usize);
    let pages = bytes / PAGE as u64;
    let one = |thread: u64| {
        let client = store.client().expect("a seat");
        let first = thread * bytes;
        let mut buffer = vec![0; 1 << 20];
        for offset in (0..bytes).step_by(1 << 20) {
            client.read_at(first + offset, &mut buffer).expect("reads");
        }
        let (mut rng, mut out) = (Seed(thread).rng(), [0u8; PAGE]);
        start.wait();
        let clock = Clock::start();
        for _ in 0..READS {
            let offset = first + random_page(&mut rng, pages) * PAGE as u64;
            client.read_at(offset, &mut out).expect("reads");
            black_box(&out);
        }
        READS as f64 * 1e9 / clock.now_ns() as f64
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..threads).map(|t| scope.spawn(move || one(t))).collect();
        let rates = threads.into_iter().map(|t| t.join().expect("no panic"));
        rates.sum()
    })
}

fn two_clients() {
    const BYTES: u64 = 256 << 20;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let rates = [1, 2].map(|clients| {
            let options = StoreOptions::memory(2 * BYTES).expect("a size");
            let options = options.cache_bytes(3 * BYTES).clients(2);
            rate(&Store::open(&options).expect("memory"), clients, BYTES)
        });
        ratios.push((rates[1] / rates[0], rates[0], rates[1]));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, one, two) = ratios[ROUNDS / 2];
    println!("  one client {one:.0} hits/s, two {two:.0} hits/s: {ratio:.2} times");
}
