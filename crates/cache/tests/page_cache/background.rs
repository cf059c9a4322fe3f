//! What the page cache's own thread does beside the program's: write-back, reading ahead; and files that are cut or
//! closed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use wharf_cache::{Advice, PageCache, PageCacheOptions};
use wharf_runtime::{Rng, Seed};
use wharf_storage::{
    Blocking, Channel, Completion, Full, Io, Op, RamTarget, StorageError, Target, TargetInfo,
};

const PAGE: u64 = 4096;

fn cache(pages: u64) -> PageCache {
    PageCache::new(&PageCacheOptions {
        memory_bytes: pages * PAGE,
        dirty_share: 0.4,
        files_max: 2,
        threads_max: 2,
        ..PageCacheOptions::default()
    })
    .unwrap()
}

/// Waits until something is so that another thread brings about.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("{what}: not within 20 seconds");
}

/// Storage whose reads from byte `from` on do not end while it is held.
struct Held {
    ram: RamTarget,
    from: u64,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_held: AtomicBool,
    /// Reads that were sent and held.
    reads: AtomicU64,
}

struct HeldChannel {
    inner: Box<dyn Channel>,
    from: u64,
    gate: Arc<Gate>,
    has_read: bool,
}

impl Held {
    fn new(from: u64) -> Held {
        Held {
            ram: RamTarget::new("ram", 64 * PAGE, 512),
            from,
            gate: Arc::new(Gate::default()),
        }
    }
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
            from: self.from,
            gate: self.gate.clone(),
            has_read: false,
        }))
    }
}

impl HeldChannel {
    fn is_held(&self) -> bool {
        self.has_read && self.gate.is_held.load(SeqCst)
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
        if io.op == Op::Read && io.offset >= self.from {
            self.has_read = true;
            self.gate.reads.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's.
        unsafe { self.inner.submit(io) }
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        match self.is_held() {
            true => 0,
            false => self.inner.poll(done),
        }
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        while self.is_held() {
            std::thread::yield_now();
        }
        self.inner.wait(min, done)
    }
}

/// A reader in order gets what it asks for while what it will ask for is on its way.
#[test]
fn reading_ahead_outlives_the_call_that_began_it() {
    let target = Held::new(4 * PAGE);
    let gate = target.gate.clone();
    Blocking::new(&target.ram)
        .unwrap()
        .write(5 * PAGE, &[5; 512])
        .unwrap();
    let cache = cache(64);
    let file = cache.open_target(Arc::new(target)).unwrap();
    gate.is_held.store(true, SeqCst);
    let mut out = [1; 4096];
    // The first window is of these four.
    for page in 0..4 {
        file.read_exact_at(&mut out, page * PAGE).unwrap();
    }
    until("the next window is being read", || {
        gate.reads.load(SeqCst) > 0
    });
    gate.is_held.store(false, SeqCst);
    file.read_exact_at(&mut out, 5 * PAGE).unwrap();
    assert_eq!(out[..512], [5; 512]);
}

#[test]
fn pages_that_are_wanted_soon_come_by_themselves() {
    let target = Held::new(8 * PAGE);
    let gate = target.gate.clone();
    let cache = cache(64);
    let file = cache.open_target(Arc::new(target)).unwrap();
    file.advise(8 * PAGE, 16 * PAGE, Advice::WillNeed).unwrap();
    until("they are being read", || gate.reads.load(SeqCst) > 0);
    let mut out = [1; 512];
    for page in 8..24 {
        file.read_exact_at(&mut out, page * PAGE).unwrap();
    }
    let ahead = cache.statistics().read_ahead_hits;
    assert_eq!((ahead, gate.reads.load(SeqCst)), (16, 1));
}

#[test]
fn dirty_pages_are_written_while_the_program_does_something_else() {
    let ram = Arc::new(RamTarget::new("ram", 2_000 * PAGE, 512));
    let cache = cache(4_000);
    let file = cache.open_target(ram.clone()).unwrap();
    // Of 1,600 that may be dirty. From 800 on they are written back, some hundred at a time.
    for page in 0..1_500 {
        file.write_all_at(&[7; 4096], page * PAGE).unwrap();
    }
    until("half of what may be dirty is left", || {
        cache.statistics().dirty_pages <= 800
    });
    let stored_pages = || {
        let mut stored = vec![0; 2_000 * PAGE as usize];
        Blocking::new(&*ram).unwrap().read(0, &mut stored).unwrap();
        let pages = stored.chunks(PAGE as usize);
        pages.filter(|page| page[0] == 7).count() as u64
    };
    until("it is stored, and counted", || {
        let written = cache.statistics().write_backs;
        written >= 700 && written == stored_pages()
    });
    assert!(stored_pages() < 1_500, "no more than that");
}

/// Files that are closed while they are read ahead, and others in their place.
#[test]
fn a_file_that_is_closed_leaves_nothing_to_the_next_one() {
    let cache = cache(64);
    let mut rng = Seed(1).rng();
    for round in 1..400u64 {
        let ram = Arc::new(RamTarget::new("ram", 64 * PAGE, 512));
        let stamp = [round as u8; 64 * PAGE as usize];
        Blocking::new(&*ram).unwrap().write(0, &stamp).unwrap();
        let file = cache.open_target(ram).unwrap();
        let mut out = [0; 4096];
        for page in 0..rng.below(40) {
            file.read_exact_at(&mut out, page * PAGE).unwrap();
            assert_eq!(out, stamp[..4096], "round {round}, page {page}");
        }
    }
}

/// What was cut off does not come back, although it was being read ahead.
#[test]
fn what_is_cut_off_while_it_is_read_ahead_is_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(64);
    let file = cache.create(folder.path().join("file")).unwrap();
    let mut rng: Rng = Seed(2).rng();
    for round in 0..60 {
        file.write_all_at(&vec![9; 48 * PAGE as usize], 0).unwrap();
        file.sync_all().unwrap();
        file.advise(0, 48 * PAGE, Advice::DontNeed).unwrap();
        let mut out = [0; 4096];
        for page in 0..1 + rng.below(30) {
            file.read_exact_at(&mut out, page * PAGE).unwrap();
            assert_eq!(out, [9; 4096], "round {round}, page {page}");
        }
        let end = rng.below(30);
        file.set_len(end * PAGE).unwrap();
        file.set_len(48 * PAGE).unwrap();
        for page in 0..48 {
            file.read_exact_at(&mut out, page * PAGE).unwrap();
            let byte = if page < end { 9 } else { 0 };
            assert_eq!(out, [byte; 4096], "round {round}, page {page} of {end}");
        }
    }
}
