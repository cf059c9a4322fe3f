//! Threads that read, write, flush, evict, pin and cut pages of one cache, in orders that shuttle
//! chooses (`--cfg shuttle`). The cache is the real one over a disk that checks how it is used.
//!
//! A failure prints its schedule; `WHARF_SCHEDULE=FILE` replays the one in a file, on the test that
//! has failed.
#![cfg(shuttle)]

mod disk;

use std::cell::Cell;
use std::rc::Rc;

use disk::{Channel, Disk};
use shuttle::rand::{Rng, rngs::ThreadRng};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use shuttle::sync::{Arc, RwLock};
use wharf_host::design::{Reclaim, Replacement};
use wharf_host::dflush::Balance;
use wharf_host::errseq::ErrSeqCursor;
use wharf_host::kit::backing::{Backing, Sent};
use wharf_host::kit::concurrent::Concurrent;
use wharf_host::kit::run::Run;
use wharf_host::scale::local::Local;
use wharf_host::scale::shared::{Shape, Shared};
use wharf_host::span::{Span, spans};
use wharf_host::volume::Transfer;
use wharf_host::{DesignConfig, Extent, IoError, WritePolicy};
use wharf_runtime::{CostTable, Cpu, CpuId, Inline, Machine, Side};
use wharf_wire::dma::{DmaRegion, DmaSpace};

const THREADS: u64 = 3;
const STEPS: u32 = 7;

/// Pages of a file. File 0 is used by all, one of its pages is written by one thread; each thread
/// has a file that it writes and cuts alone.
const PAGES: u64 = 4;
const FILES: u64 = 1 + THREADS;

/// Fewer than there are pages, so that they are evicted all the time.
const FRAMES: u32 = 5;

/// A thread with its part of the cache.
struct Seat {
    inline: Inline,
    cpu: CpuId,
    local: Rc<Local<Concurrent, Channel>>,
}

impl Seat {
    fn take(shared: &std::sync::Arc<Shared<Concurrent>>, disk: &Arc<Disk>, number: u64) -> Seat {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("thread", Side::Host, 1.0);
        let inline = machine.inline();
        let channel = Rc::new(Channel(disk.clone()));
        let local = Local::start(inline.cpu(cpu), shared.clone(), channel, number as u32);
        Seat { inline, cpu, local }
    }

    /// Runs the thread's tasks until a request has ended, and with it every transfer that it began.
    fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        self.inline.block_on(self.cpu, |_| async {
            let value = request.await;
            self.local.land().await;
            value
        })
    }

    fn read(&self, file: u64, page: u64) -> u64 {
        let mut out = [0; 8];
        let found = self.local.read_now(file as u32, &span_of(page), &mut out);
        if found.is_none() {
            let extent = Extent::of_pages(page, 1);
            self.wait(self.local.read(file as u32, extent, &mut out))
                .unwrap();
        }
        u64::from_le_bytes(out)
    }

    fn write(&self, file: u64, page: u64, stamp: u64) {
        let (extent, data) = (Extent::of_pages(page, 1), stamp.to_le_bytes());
        let write = self
            .local
            .write(file as u32, extent, &data, WritePolicy::Back);
        self.wait(write).unwrap();
    }

    fn flush(&self, file: u64) {
        let told = ErrSeqCursor::new(0);
        self.wait(self.local.flush(file as u32, (0, PAGES - 1), &told))
            .unwrap();
    }
}

/// A whole page, which is a stamp.
fn span_of(page: u64) -> Span {
    spans(Extent::of_pages(page, 1), 8).next().expect("a page")
}

/// One thread, and what it knows.
struct Actor {
    seat: Seat,
    disk: Arc<Disk>,
    number: u64,
    rng: ThreadRng,
    /// The newest stamp of each page of file 0 that it has seen, or written.
    seen: [u64; PAGES as usize],
    /// Its own file.
    own: [u64; PAGES as usize],
}

impl Actor {
    fn page(&mut self) -> u64 {
        self.rng.gen_range(0..PAGES)
    }

    /// The page of file 0 that this thread writes.
    fn step(&mut self) {
        let (file, shared_page) = (1 + self.number, self.number % PAGES);
        match self.rng.gen_range(0..13) {
            0..3 => {
                let stamp = self.seen[shared_page as usize] + 1;
                self.seat.write(0, shared_page, stamp);
                self.seen[shared_page as usize] = stamp;
            }
            3..5 => {
                let page = self.page();
                self.see(page, self.seat.read(0, page));
            }
            5 => {
                self.seat.flush(0);
                let newest = self.seen[shared_page as usize];
                assert_eq!(
                    self.disk.stamp(0, shared_page),
                    newest,
                    "what was flushed is on the disk"
                );
            }
            6..8 => {
                let (page, stamp) = (self.page(), self.rng.gen_range(1..1_000));
                self.seat.write(file, page, stamp);
                self.own[page as usize] = stamp;
            }
            8 => {
                let page = self.page();
                assert_eq!(self.seat.read(file, page), self.own[page as usize]);
            }
            9 => self.cut(file),
            10 => {
                let file = [0, file][self.rng.gen_range(0..2)];
                self.read_ahead(file);
            }
            11 => {
                // What is brought in just before the cut.
                self.seat.flush(file);
                self.read_ahead(file);
                self.cut(file);
                for page in 0..PAGES {
                    assert_eq!(self.seat.read(file, page), self.own[page as usize]);
                }
            }
            _ => {
                let page = self.page();
                self.pin(page);
                self.seat.local.drop_clean(0, (0, PAGES - 1));
            }
        }
    }

    /// Nobody sees an older stamp than before, and its writer sees the newest.
    fn see(&mut self, page: u64, stamp: u64) {
        let before = &mut self.seen[page as usize];
        assert!(stamp >= *before, "page {page} was {before} and is {stamp}");
        assert!(
            page != self.number % PAGES || stamp == *before,
            "its writer's page {page}"
        );
        *before = stamp;
    }

    fn pin(&mut self, page: u64) {
        let seat = &self.seat;
        let frame = match seat.local.pin_now(0, page) {
            Some(frame) => frame,
            None => seat.wait(seat.local.pin_page(0, page)).unwrap(),
        };
        let span = span_of(page);
        for _ in 0..2 {
            let mut out = [0; 8];
            assert!(
                self.seat.local.read_pinned(0, frame, &span, &mut out),
                "a pinned page stays"
            );
            self.see(page, u64::from_le_bytes(out));
        }
        self.seat.local.unpin(frame);
    }

    /// Has the pages of a file brought in that are not there.
    fn read_ahead(&self, file: u64) {
        let local = &self.seat.local;
        local.drop_clean(file as u32, (0, PAGES - 1));
        self.seat
            .wait(async { local.read_ahead(file as u32, 0, PAGES) });
    }

    /// Cuts its own file, and the disk's with it.
    fn cut(&mut self, file: u64) {
        let first = self.page();
        let disk = self.disk.clone();
        let _alone = disk.gates[file as usize].write().unwrap();
        self.seat.wait(self.seat.local.cut(file as u32, first));
        // The disk takes its time.
        (0..self.rng.gen_range(0..80)).for_each(|_| shuttle::thread::yield_now());
        for page in first..PAGES {
            self.disk.place(file as u32, page).stamp.store(0, SeqCst);
            self.own[page as usize] = 0;
        }
    }

    fn play(mut self) {
        (0..STEPS).for_each(|_| self.step());
        let file = 1 + self.number;
        self.seat.flush(file);
        for page in 0..PAGES {
            assert_eq!(self.disk.stamp(file, page), self.own[page as usize]);
        }
        self.seat.flush(0);
        self.seat.local.retire();
    }
}

/// A cache's own thread: what it does beside the others, until they have ended.
fn serve(seat: Seat, has_ended: &AtomicBool) {
    loop {
        let turn = seat.local.serve();
        let is_busy = seat.inline.block_on(seat.cpu, |_| turn);
        if !is_busy && has_ended.load(SeqCst) {
            break;
        }
        wharf_runtime::sync::spin();
    }
    seat.local.retire();
}

/// A cache with a disk below it.
fn cache(
    replacement: Replacement,
    has_service: bool,
) -> (std::sync::Arc<Shared<Concurrent>>, Arc<Disk>) {
    let config = DesignConfig {
        clients: THREADS as u32,
        dirty_background_share: 0.2,
        dirty_hard_share: 0.4,
        ..DesignConfig::default()
    };
    let shape = Shape {
        frames: FRAMES,
        files: FILES as u32,
        balance: match has_service {
            true => Balance::FlushUnlessBusy,
            false => Balance::Flush,
        },
        replacement,
        reclaim: Reclaim::Eager,
        has_flusher: has_service,
        has_read_ahead_thread: has_service,
        window_pages: 2,
        share_pages: 4,
    };
    let space = DmaSpace::new(8);
    let shared = std::sync::Arc::new(Shared::new(&config, &shape, &space).unwrap());
    (0..FILES as u32).for_each(|file| shared.use_file(file));
    (shared, Arc::new(Disk::new()))
}

fn play(replacement: Replacement, has_service: bool) {
    let (shared, disk) = cache(replacement, has_service);
    let has_ended = Arc::new(AtomicBool::new(false));
    let service = has_service.then(|| {
        let (shared, disk, has_ended) = (shared.clone(), disk.clone(), has_ended.clone());
        shuttle::thread::spawn(move || serve(Seat::take(&shared, &disk, THREADS), &has_ended))
    });
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (shared, disk) = (shared.clone(), disk.clone());
            shuttle::thread::spawn(move || {
                let actor = Actor {
                    seat: Seat::take(&shared, &disk, number),
                    disk,
                    number,
                    rng: shuttle::rand::thread_rng(),
                    seen: [0; PAGES as usize],
                    own: [0; PAGES as usize],
                };
                actor.play();
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    has_ended.store(true, SeqCst);
    if let Some(service) = service {
        service.join().unwrap();
    }
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("check", Side::Host, 1.0);
    let dirty = shared.verify(machine.inline().cpu(cpu));
    assert_eq!(dirty, 0, "everything was flushed");
}

/// One thread lets a page go again and again; another one writes it, and reads it where it
/// remembers it to be.
fn play_hints() {
    let (shared, disk) = cache(Replacement::Clock, false);
    let evictor = {
        let (shared, disk) = (shared.clone(), disk.clone());
        shuttle::thread::spawn(move || {
            let seat = Seat::take(&shared, &disk, 0);
            for _ in 0..4 {
                seat.local.drop_clean(0, (0, 0));
            }
            seat.local.retire();
        })
    };
    let seat = Seat::take(&shared, &disk, 1);
    for stamp in 1..4 {
        // The second one, if not the first, remembers.
        assert_eq!([seat.read(0, 0), seat.read(0, 0)], [stamp - 1; 2]);
        seat.write(0, 0, stamp);
        assert_eq!(seat.read(0, 0), stamp, "its writer's page");
        seat.flush(0);
    }
    seat.local.retire();
    evictor.join().unwrap();
}

/// Plays the schedule that is given, if one is; false if none is.
fn replays(scene: impl Fn() + Send + Sync + 'static) -> bool {
    let given = std::env::var_os("WHARF_SCHEDULE");
    let is_given = given.is_some();
    if let Some(file) = given {
        shuttle::replay_from_file(scene, file);
    }
    is_given
}

fn in_random_orders(replacement: Replacement, has_service: bool, plays: usize) {
    let scene = move || play(replacement, has_service);
    if !replays(scene) {
        shuttle::check_random(scene, plays);
    }
}

/// In orders that differ in few places from those in which one thread goes on for as long as it
/// can.
fn in_orders_with_few_changes(scene: fn(), plays: usize) {
    if !replays(scene) {
        shuttle::check_pct(scene, plays, 3);
    }
}

#[test]
fn by_clock_in_random_orders() {
    in_random_orders(Replacement::Clock, false, 12_000);
}

#[test]
fn by_clock_in_orders_with_few_changes() {
    in_orders_with_few_changes(|| play(Replacement::Clock, false), 12_000);
}

#[test]
fn by_two_lists_in_random_orders() {
    in_random_orders(Replacement::TwoLists, false, 6_000);
}

#[test]
fn by_policies_in_random_orders() {
    // One that counts uses, and one that is told of them.
    for replacement in [Replacement::S3Fifo, Replacement::Arc] {
        in_random_orders(replacement, false, 3_000);
    }
}

#[test]
fn beside_a_service_in_random_orders() {
    in_random_orders(Replacement::Clock, true, 6_000);
}

#[test]
fn what_is_remembered_of_a_page_that_has_left_is_not_believed() {
    in_orders_with_few_changes(play_hints, 10_000);
}
