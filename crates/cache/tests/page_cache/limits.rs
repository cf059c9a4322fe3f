//! What there is only so much of: memory, descriptors, guards, patience.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wharf_cache::{PageCache, PageCacheError, PageCacheOptions, Replacement};
use wharf_runtime::Seed;
use wharf_storage::faulty::{Faulty, Power, Rates};
use wharf_storage::{
    Channel, Completion, Full, Io, Op, RamTarget, StorageError, Target, TargetInfo,
};

use crate::{PAGE, create, of_pages, small};

const CHILD: &str = "WHARF_TEST_LIMITED";

/// Runs a test of this file in a process of its own, whose limits are its own.
fn in_a_process_of_its_own(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
}

fn limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = Some(most);
    setrlimit(resource, Rlimit { current, maximum }).unwrap();
}

#[test]
fn the_process_with_little_memory() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    limit(Resource::As, used * 4096 + (256 << 20));
    for replacement in [Replacement::Clock, Replacement::Lru] {
        for memory_bytes in [1 << 30, 1 << 36, (1 << 42) - 4096] {
            let refused = PageCache::new(&PageCacheOptions {
                memory_bytes,
                replacement,
                ..PageCacheOptions::default()
            });
            let error = refused.expect_err("there is no memory for it");
            let is_memory = matches!(
                error,
                PageCacheError::Memory(_) | PageCacheError::TooLarge { .. }
            );
            assert!(is_memory, "{error}");
        }
    }
    let cache = small(16);
    let folder = tempfile::tempdir().unwrap();
    let file = create(&cache, &folder.path().join("file"));
    file.write_all_at(&[7; 20 * PAGE], 0).unwrap();
}

/// The tables of a cache's frames were made as if memory had no end: a cache that was too large
/// ended its process.
#[test]
fn memory_that_is_not_there_ended_the_process() {
    in_a_process_of_its_own("limits::the_process_with_little_memory");
}

#[test]
fn the_process_with_a_thousand_descriptors() {
    const FILES: usize = 40;
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    limit(Resource::Nofile, 1024);
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: 64 * PAGE as u64,
        files_max: FILES as u32,
        threads_max: 33,
        ..PageCacheOptions::default()
    })
    .unwrap();
    let file = |number: usize| {
        let file = create(&cache, &folder.path().join(number.to_string()));
        file.write_all_at(&[number as u8; 16 * PAGE], 0).unwrap();
        file
    };
    let files: Vec<_> = (0..FILES).map(file).collect();
    let read = |thread: usize| {
        for (number, file) in files.iter().enumerate() {
            let mut out = [0; PAGE];
            let page = (thread + number) % 16;
            file.read_exact_at(&mut out, (page * PAGE) as u64)?;
            assert_eq!(out, [number as u8; PAGE]);
        }
        Ok::<_, PageCacheError>(())
    };
    // All threads are there at once, also those that could not read.
    let all = std::sync::Barrier::new(32);
    let one = |thread: usize| {
        let done = read(thread);
        all.wait();
        done.unwrap_or_else(|error| panic!("thread {thread}: {error}"));
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..32).for_each(|thread| drop(scope.spawn(move || one(thread))));
    });
}

#[test]
fn the_process_with_few_descriptors() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    limit(Resource::Nofile, 40);
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: 32 * PAGE as u64,
        threads_max: 64,
        ..PageCacheOptions::default()
    })
    .unwrap();
    let file = create(&cache, &folder.path().join("file"));
    let work = |thread: u64| {
        for round in 0..20 {
            let offset = thread * PAGE as u64;
            file.write_all_at(&[round; PAGE], offset)?;
            let mut out = [0; PAGE];
            file.read_exact_at(&mut out, offset)?;
            assert_eq!(out, [round; PAGE], "thread {thread}");
        }
        file.sync_all()
    };
    // All are there before the first one ends.
    let all = std::sync::Barrier::new(60);
    let one = |thread: u64| {
        let done = work(thread);
        all.wait();
        done.unwrap_or_else(|error| panic!("thread {thread}: {error}"));
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..60).for_each(|thread| drop(scope.spawn(move || one(thread))));
    });
}

/// A thread that got no ring could neither read nor write; nor could any, when it was the cache's
/// own. And sixty threads that made a file longer kept one another from it: each that asked whether
/// it may write was counted as a writer meanwhile, and who changed the size waited for a moment
/// without any.
#[test]
fn a_thread_without_a_descriptor_could_do_nothing() {
    in_a_process_of_its_own("limits::the_process_with_few_descriptors");
}

/// Every thread had a ring for each file that it used: 32 threads with 40 files were 1,280
/// descriptors.
#[test]
fn threads_times_files_were_more_descriptors_than_a_process_has() {
    in_a_process_of_its_own("limits::the_process_with_a_thousand_descriptors");
}

/// Guards were counted in 22 bits, and four million of one page as none: it left under them.
#[test]
fn a_page_with_four_million_guards_had_none() {
    let ram = Arc::new(RamTarget::new("ram", 200 * PAGE as u64, 512));
    let cache = small(16);
    let file = cache.open_target(ram).unwrap();
    file.write_all_at(&[7; PAGE], 0).unwrap();
    let first = file.pin(0).unwrap();
    let refused = (0..5_000_000).find_map(|_| match file.pin(0) {
        Ok(guard) => {
            std::mem::forget(guard);
            None
        }
        Err(error) => Some(error.to_string()),
    });
    let text = refused.expect("so many guards are not counted");
    assert!(text.contains("two million guards"), "{text}");
    // Others go, this one stays.
    for page in 1..200 {
        file.read_exact_at(&mut [0; PAGE], page * PAGE as u64)
            .unwrap();
    }
    let mut out = [0; PAGE];
    first.read(0, &mut out);
    assert_eq!(out, [7; PAGE]);
}

/// The place of a file whose guard was forgotten was waited for without an end.
#[test]
fn closing_a_file_with_a_forgotten_guard_never_ended() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(16);
    let path = folder.path().join("file");
    let file = create(&cache, &path);
    file.write_all_at(&[7; 3 * PAGE], 0).unwrap();
    std::mem::forget(file.pin(PAGE as u64).unwrap());
    let text = file.close().unwrap_err().to_string();
    assert!(
        text.contains("page 1 has a guard that was never dropped"),
        "{text}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), [7; 3 * PAGE]);
    // All else goes on, in three places of four.
    for round in 0..10 {
        let file = create(&cache, &path);
        let mut out = [0; 3 * PAGE];
        file.read_exact_at(&mut out, 0).unwrap();
        assert_eq!(out[PAGE..], [7; 2 * PAGE], "round {round}");
        file.write_all_at(&[round; PAGE], 0).unwrap();
        file.close().unwrap();
    }
}

/// Storage whose writes do not end while it is held.
struct Held {
    ram: RamTarget,
    is_held: Arc<AtomicBool>,
}

struct HeldChannel {
    inner: Box<dyn Channel>,
    is_held: Arc<AtomicBool>,
    has_write: bool,
}

impl Target for Held {
    fn info(&self) -> &TargetInfo {
        self.ram.info()
    }

    fn size_bytes(&self) -> u64 {
        self.ram.size_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(HeldChannel {
            inner: self.ram.channel(depth)?,
            is_held: self.is_held.clone(),
            has_write: false,
        }))
    }
}

impl Channel for HeldChannel {
    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        self.has_write |= io.op == Op::Write;
        // SAFETY: the caller's.
        unsafe { self.inner.submit(io) }
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        match self.has_write && self.is_held.load(SeqCst) {
            true => 0,
            false => self.inner.poll(done),
        }
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        while self.has_write && self.is_held.load(SeqCst) {
            std::thread::yield_now();
        }
        self.inner.wait(min, done)
    }
}

/// The last handle of a file wrote its dirty pages back while it had the table of files locked: on
/// slow storage all other files could be neither opened nor closed for seconds.
#[test]
fn closing_a_slow_file_held_up_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(64);
    let is_held = Arc::new(AtomicBool::new(true));
    let slow = cache
        .open_target(Arc::new(Held {
            ram: RamTarget::new("ram", 64 * PAGE as u64, 512),
            is_held: is_held.clone(),
        }))
        .unwrap();
    slow.write_all_at(&[7; PAGE], 0).unwrap();
    let (tell, told) = channel();
    let (cache, path) = (&cache, folder.path().join("file"));
    std::thread::scope(|scope| {
        let closing = scope.spawn(move || drop(slow));
        scope.spawn(move || {
            // The other thread is at it soon, whichever comes first.
            for _ in 0..200 {
                let file = create(cache, &path);
                file.write_all_at(b"x", 0).unwrap();
                drop(file.clone());
                std::thread::park_timeout(Duration::from_micros(100));
            }
            tell.send(()).unwrap();
        });
        let others = told.recv_timeout(Duration::from_secs(30));
        let is_closing = !closing.is_finished();
        is_held.store(false, SeqCst);
        others.expect("others go on meanwhile");
        assert!(is_closing, "it was being closed all the time");
    });
}

/// Writers above the limit of dirty pages tried storage that failed again and again, 16 times for
/// each page, and woke the cache's own thread out of its pause with each.
#[test]
fn storage_that_failed_was_tried_without_a_pause() {
    for background in [false, true] {
        let ram = Arc::new(RamTarget::new("ram", 40 * PAGE as u64, 512));
        let power = Power::new();
        let faulty = Arc::new(Faulty::new(ram, power.clone(), Seed(3)));
        faulty.set_rates(Rates {
            write_errors_ppm: 1_000_000,
            ..Rates::default()
        });
        let cache = PageCache::new(&PageCacheOptions {
            background,
            ..of_pages(64)
        })
        .unwrap();
        let file = cache.open_target(faulty.clone()).unwrap();
        // Twelve may be dirty.
        for round in 0..80 {
            let page = round % 20;
            file.write_all_at(&[7; PAGE], page * PAGE as u64).unwrap();
        }
        // One or two runs of pages at a time; the pauses grow to a second. It was more than a
        // thousand.
        assert!(
            power.events() < 240,
            "{} writes, background {background}",
            power.events()
        );
        faulty.set_rates(Rates::default());
        let _ = file.sync_all();
        file.sync_all().unwrap();
    }
}
