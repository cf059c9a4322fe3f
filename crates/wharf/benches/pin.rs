//! What a page in the cache costs a program, beside the kernel's ways to the same bytes.
//!
//!     cargo bench -p wharf --bench pin [PART OF A NAME]
//!
//! Everything runs in one process, in rounds that take turns, so that rows of one run compare. A row is
//! the median of its rounds with the lowest and the highest. The kernel's rows use a file in the
//! temporary folder, read once before, so that it is in the page cache.

use std::cell::RefCell;
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
    let benches: [(&str, fn()); 6] = [
        ("pins", pins),
        ("reads-16MiB", || reads(16 << 20)),
        ("reads-2GiB", || reads(2 << 30)),
        ("mmap-4GiB", || against_mmap(4 << 30)),
        ("floor-4GiB", || floor(4 << 30)),
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
        self.word_at(page as usize * PAGE)
    }

    fn word_at(&self, at: usize) -> u64 {
        assert!(at + 8 <= self.bytes && at.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned; nobody writes.
        unsafe { self.start.add(at).cast::<u64>().read_volatile() }
    }

    fn set_word(&self, at: usize, word: u64) {
        assert!(at + 8 <= self.bytes && at.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned; nobody else uses it.
        unsafe { self.start.add(at).cast::<u64>().write(word) };
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

/// Where reads go: one place for all rows, as the speed of a copy depends on it.
#[repr(align(4096))]
struct Out([u8; PAGE]);

/// Copies `n` random pages.
fn copy_each(n: u64, pages: u64, out: &RefCell<Box<Out>>, read: impl Fn(u64, &mut [u8; PAGE])) {
    let (mut rng, mut out) = (Seed(1).rng(), out.borrow_mut());
    for _ in 0..n {
        read(random_page(&mut rng, pages), &mut out.0);
        black_box(&out.0);
    }
}

/// Reads a word of each of `n` random pages.
fn read_each(n: u64, pages: u64, read: impl Fn(u64) -> u64) {
    let mut rng = Seed(1).rng();
    for _ in 0..n {
        black_box(read(random_page(&mut rng, pages)));
    }
}

fn reads(bytes: u64) {
    let client = cached(bytes);
    let file = cached_file(bytes);
    let memory = Memory::new(bytes as usize);
    let pages = bytes / PAGE as u64;
    let out = RefCell::new(Box::new(Out([0; PAGE])));
    let rows = vec![
        row("copy of 4 KiB from plain memory", |n| {
            copy_each(n, pages, &out, |page, out| memory.copy(page, out));
        }),
        row("read_at of 4 KiB, hit", |n| {
            copy_each(n, pages, &out, |page, out| {
                client.read_at(page * PAGE as u64, out).expect("reads")
            });
        }),
        row("pread of 4 KiB, in the page cache", |n| {
            let read = |page, out: &mut [u8; PAGE]| file.read_exact_at(out, page * PAGE as u64);
            copy_each(n, pages, &out, |page, out| read(page, out).expect("reads"));
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
    let pin = |page| client.try_pin(page, Intent::Read).expect("a hit");
    let rows = vec![
        row("pin, read of 8 bytes in place, unpin", |n| {
            // SAFETY: the frame is the page's while the guard lives; nobody writes.
            read_each(n, pages, |page| unsafe {
                pin(page).pointer().cast::<u64>().read_volatile()
            });
        }),
        row("pin, checked read of 8 bytes, unpin", |n| {
            read_each(n, pages, |page| {
                pin(page).try_get(0).expect("nobody writes")
            });
        }),
        row("get of 8 bytes", |n| {
            read_each(n, pages, |page| {
                client.get(page * PAGE as u64).expect("reads")
            });
        }),
        row("read of 8 bytes through mmap", |n| {
            read_each(n, pages, |page| map.word(page));
        }),
    ];
    let medians = compare(5_000_000, rows);
    println!(
        "  a pin costs {:.2} times mmap's access, with a checked read {:.2} times",
        medians[0] / medians[3],
        medians[1] / medians[3]
    );
}

/// What any look-up costs, whatever code does it: one line of a table as large as the index's, and
/// then the page that the line names. And the page alone.
fn floor(bytes: u64) {
    let memory = Memory::new(bytes as usize);
    let pages = bytes / PAGE as u64;
    // Seven words of a line, as in the index: each names a page.
    let place = |page: u64| page as usize / 7 * 64 + page as usize % 7 * 8;
    let table = Memory::new(place(pages) + 64);
    (0..pages).for_each(|page| table.set_word(place(page), page));
    let rows = vec![
        row("read of 8 bytes, page known", |n| {
            read_each(n, pages, |page| memory.word(page));
        }),
        row("read of 8 bytes, page named by a line of a table", |n| {
            read_each(n, pages, |page| memory.word(table.word_at(place(page))));
        }),
    ];
    let [page, both] = compare(5_000_000, rows)[..] else {
        unreachable!("two rows")
    };
    println!("  a line on the way costs {:.1} ns", both - page);
}

/// Reads per second of `threads` clients, each over its own half of the cached pages.
fn rate(store: &Store<Scala>, threads: u64, bytes: u64) -> f64 {
    const READS: u64 = 3_000_000;
    let start = Barrier::new(threads as usize);
    let pages = bytes / PAGE as u64;
    let one = |thread: u64| {
        let client = store.client().expect("a slot");
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
