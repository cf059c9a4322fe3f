//! A firmware core: the tasks around one translation layer.
//!
//! The way of a part of a command: the *intake* task takes it off the ring and hands
//! it to an idle *worker* (`worker.rs`); the worker serves it in straight line (`read.rs`, `write.rs`, `flush.rs`)
//! and answers; `pin.rs` pins pages in the host memory buffer, `fetch.rs` brings them there, `cache.rs` is what the others do to such pages,
//! `finding.rs` what finding them costs, `guests.rs` keeps book for hosts in other processes. Three more tasks belong to the core: the *finisher* ends flash operations when their
//! time has come, the *collectors* and the *eraser* (`gc.rs`) keep blocks free, and the *checkpointer*
//! (`checkpoint.rs`) keeps recovery short.
//!
//! Workers are started once; serving a part starts no task and allocates nothing.

mod cache;
mod checkpoint;
mod fetch;
mod finding;
mod flush;
mod gc;
mod guests;
pub mod hmb;
pub mod part;
mod pin;
mod read;
mod report;
mod worker;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_runtime::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wharf_runtime::{Alarm, Cpu, Notifier, Notify, Op, Receiver, Sender};
use wharf_wire::dma::DmaSpace;
use wharf_wire::statistics::DriveStatistics;

use crate::config::FrameIndex;
use crate::ftl::{COLLECTOR, Finished, Ftl};
use crate::link::FromHost;
use crate::media::AnyMedia;
use crate::power::PowerSwitch;
use gc::{Collecting, Collector, Moved};
use hmb::Hmb;
use part::{Answer, Part, Striping};
use worker::Worker;

/// Where a core leaves what outlives it.
#[derive(Clone, Default)]
pub struct CoreStatus {
    /// The media, when the core has been powered off.
    pub media: Arc<Mutex<Option<AnyMedia>>>,
    /// The core's latest statistics, when asked for.
    pub report: Arc<Mutex<Option<DriveStatistics>>>,
    /// Whether the core takes no more writes.
    pub read_only: Arc<AtomicBool>,
    /// Frames of the host memory buffer that are held or about to be.
    pub frames_held: Arc<AtomicU32>,
    /// The core's share of the host memory buffer, for it to take.
    pub hmb: Arc<Mutex<Arc<Hmb>>>,
    /// Bytes that the core takes to keep book of those frames.
    pub book_bytes: Arc<AtomicU64>,
    /// How many cores of the drive are collecting garbage: one count for all.
    pub collecting: Arc<AtomicU32>,
}

impl CoreStatus {
    /// The core status of one more core of a drive whose cores count in `collecting` who collects.
    pub fn new(collecting: &Arc<AtomicU32>) -> CoreStatus {
        CoreStatus {
            collecting: collecting.clone(),
            ..CoreStatus::default()
        }
    }

    /// True if pages of this core's are pinned.
    pub fn holds_frames(&self) -> bool {
        self.frames_held.load(Ordering::Relaxed) > 0
    }

    /// True if a core of the drive collects garbage.
    #[inline]
    pub fn anyone_collects(&self) -> bool {
        self.collecting.load(Ordering::Relaxed) > 0
    }

    /// True if the core takes no more writes.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }
}

/// What a core is made of and connected to.
pub struct CoreParts {
    /// The core's number.
    pub index: u32,
    /// Its translation layer.
    pub ftl: Ftl,
    /// Parts from the controller.
    pub inbox: Receiver<Part>,
    /// The notifier of `inbox`.
    pub notifier: Notifier,
    /// Answers to the controller.
    pub answers: Sender<Answer>,
    /// Host memory.
    pub dma: Arc<DmaSpace>,
    /// Workers: parts served at once.
    pub workers: u32,
    /// Acknowledge writes from the buffer.
    pub volatile_write_cache: bool,
    /// What a log write costs, in nanoseconds.
    pub log_write_ns: u64,
    /// How long a command waits for a page that the host is writing, in nanoseconds.
    pub busy_wait_ns: u64,
    /// The host is quiet when no part has come for so long, in nanoseconds.
    pub quiet_ns: u64,
    /// How pages are divided among the cores.
    pub striping: Striping,
    /// The power.
    pub power: PowerSwitch,
    /// Where media and reports are left.
    pub core_status: CoreStatus,
    /// The link, for pages of the host memory buffer.
    pub from_host: FromHost,
    /// Its processor copies data: no engine does.
    pub copies: bool,
}

/// A firmware core, shared by its tasks.
pub struct Core {
    cpu: Cpu,
    index: u32,
    ftl: RefCell<Option<Ftl>>,
    inbox: RefCell<Receiver<Part>>,
    notifier: Notifier,
    answers: RefCell<Sender<Answer>>,
    dma: Arc<DmaSpace>,
    workers: Vec<Worker>,
    idle: RefCell<Vec<u32>>,
    /// A worker has become idle.
    idle_again: Notify,
    /// A program has ended: frames are free, a flush may be complete.
    programmed: Notify,
    /// A block has become free.
    space: Notify,
    /// Collection may be needed, or may go on.
    collect: Notify,
    /// A checkpoint should be taken.
    checkpoint_due: Notify,
    /// The earliest end of a flash operation.
    operations: Alarm,
    finished: RefCell<Finished>,
    /// No flash operation takes time: nobody looks at the clock.
    instant: bool,
    /// Cached pages are found by a table, and not by the map.
    has_table: bool,
    volatile_write_cache: Cell<bool>,
    log_write_ns: u64,
    busy_wait_ns: u64,
    striping: Striping,
    /// The core's frames of the host memory buffer.
    hmb: RefCell<Arc<Hmb>>,
    /// A page on its way from a frame to the write buffer.
    copy: RefCell<Vec<u8>>,
    /// A page on its way to memory that other processes can write.
    filling: RefCell<Vec<u8>>,
    /// Pins that wait for frames.
    in_line: RefCell<VecDeque<Part>>,
    line_scratch: RefCell<Vec<pin::Wanted>>,
    /// What hosts in other processes hold.
    guests: RefCell<guests::Holdings>,
    /// A page has come into its frame, or could not be read.
    filled: Notify,
    collectors: Vec<Collector>,
    collecting: Collecting,
    /// Victims whose pages are on their way to flash elsewhere.
    moved: RefCell<Vec<Moved>>,
    /// One of them may be erased.
    emptied: Notify,
    /// When a part came last, and how long after that the host counts as quiet.
    latest_part_ns: Cell<u64>,
    quiet_ns: u64,
    /// The core is among those that the drive counts as collecting.
    is_collecting: Cell<bool>,
    power: PowerSwitch,
    core_status: CoreStatus,
    from_host: FromHost,
    copies: bool,
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(mut ftl) = self.ftl.get_mut().take() {
            // With checks on, every run ends with one of the whole structure. After a power cut
            // the memory of a drive is not worth one: it went in the middle of a change.
            if cfg!(debug_assertions) && !self.power.is_cut() && !std::thread::panicking() {
                ftl.verify();
                // Pins in line have reserved nothing: only those that are served have.
                let is_at_rest = self.idle.get_mut().len() == self.workers.len();
                let reserved = ftl.cached().reserved();
                assert!(
                    !is_at_rest || reserved == 0,
                    "{reserved} frames are reserved for nobody"
                );
            }
            if !std::thread::panicking() {
                checkpoint::at_power_off(&mut ftl);
            }
            *self.core_status.media.lock().expect("no holder panics") = Some(ftl.into_media());
        }
    }
}

impl Core {
    /// Starts a core's tasks on `cpu`. Runs until the CPU is stopped.
    ///
    /// The core exists from the call on, not from the first poll: a power cut may come before that,
    /// and the core must leave its media behind.
    pub fn run(cpu: Cpu, parts: CoreParts) -> impl Future<Output = ()> {
        let collectors = parts.ftl.plan().victims_max;
        let core = Rc::new(Core {
            index: parts.index,
            instant: parts.ftl.is_instant(),
            has_table: parts.ftl.frame_index() == FrameIndex::Hash,
            ftl: RefCell::new(Some(parts.ftl)),
            inbox: RefCell::new(parts.inbox),
            notifier: parts.notifier,
            answers: RefCell::new(parts.answers),
            dma: parts.dma,
            workers: (0..parts.workers).map(|_| Worker::default()).collect(),
            idle: RefCell::new(Vec::with_capacity(parts.workers as usize)),
            idle_again: Notify::new(),
            programmed: Notify::new(),
            space: Notify::new(),
            collect: Notify::new(),
            checkpoint_due: Notify::new(),
            operations: Alarm::default(),
            finished: RefCell::new(Finished::default()),
            volatile_write_cache: Cell::new(parts.volatile_write_cache),
            log_write_ns: parts.log_write_ns,
            busy_wait_ns: parts.busy_wait_ns,
            striping: parts.striping,
            hmb: RefCell::default(),
            copy: RefCell::default(),
            filling: RefCell::default(),
            in_line: RefCell::default(),
            line_scratch: RefCell::default(),
            guests: RefCell::default(),
            filled: Notify::new(),
            collectors: (0..collectors).map(|_| Collector::default()).collect(),
            collecting: Collecting::default(),
            moved: RefCell::default(),
            emptied: Notify::new(),
            latest_part_ns: Cell::new(0),
            quiet_ns: parts.quiet_ns,
            is_collecting: Cell::new(false),
            power: parts.power,
            core_status: parts.core_status,
            from_host: parts.from_host,
            copies: parts.copies,
            cpu: cpu.clone(),
        });
        for worker in 0..parts.workers {
            cpu.spawn("worker", core.clone().work(worker));
        }
        cpu.spawn("finisher", core.clone().finish());
        for collector in 0..collectors {
            cpu.spawn("collector", core.clone().collect(collector));
        }
        cpu.spawn("eraser", core.clone().erase_victims());
        cpu.spawn("checkpointer", core.clone().checkpoints());
        core.tell_read_only();
        core.intake()
    }

    /// Runs `f` on the translation layer. Never across a wait.
    #[inline]
    fn with_ftl<R>(&self, f: impl FnOnce(&mut Ftl) -> R) -> R {
        f(self
            .ftl
            .borrow_mut()
            .as_mut()
            .expect("a core has its flash until it is dropped"))
    }

    /// Runs `f`, which copies `pages` pages between media, buffers and host memory: work of the
    /// processor, unless the drive has an engine for it.
    #[inline]
    fn copying<R>(&self, pages: u32, f: impl FnOnce() -> R) -> R {
        match self.copies {
            true => self.cpu.work_n(Op::DriveCopy, pages, f),
            false => f(),
        }
    }

    /// The time for flash operations; 0 if they take none, so that nobody reads a clock.
    #[inline]
    fn flash_now(&self) -> u64 {
        if self.instant { 0 } else { self.cpu.now() }
    }

    /// Ends flash operations when their time has come.
    async fn finish(self: Rc<Self>) {
        loop {
            self.operations.wait(&self.cpu).await;
            self.finish_now();
        }
    }

    /// Ends every operation whose time has come, and wakes who waited for it.
    fn finish_now(&self) {
        // Taken, not borrowed: a worker that runs within may come here too.
        let mut finished = self.finished.take();
        let now_ns = self.flash_now();
        let (next_ns, checkpoint_due) = self.cpu.work_counted(Op::MapUpdate, || {
            let next = self.with_ftl(|ftl| {
                ftl.finish_due(now_ns, &mut finished);
                (ftl.next_end_ns(), ftl.checkpoint_is_due())
            });
            (finished.programs, next)
        });
        if let Some(next_ns) = next_ns {
            self.operations.set(&self.cpu, next_ns);
        }
        if self.power.is_cut() {
            self.cpu.halt();
            return;
        }
        if finished.programs > 0 {
            // From the buffer to the media, above.
            self.copying(finished.programs, || ());
        }
        if finished.programs + finished.checkpoint_pages > 0 {
            self.programmed.notify_all(&self.cpu);
        }
        for collector in finished.read.drain(..) {
            self.batch_is_read(collector);
        }
        for (owner, failed) in finished.owners.drain(..) {
            if owner & COLLECTOR != 0 {
                self.page_is_moved(owner & !COLLECTOR);
                continue;
            }
            let worker = &self.workers[owner as usize];
            worker.outstanding.set(worker.outstanding.get() - 1);
            worker.failed.set(worker.failed.get() | failed);
            if worker.outstanding.get() == 0
                && let Some(task) = worker.task()
            {
                // Where operations take no time, it may be the worker itself that is here.
                match self.instant {
                    true => self.cpu.wake(task),
                    false => self.cpu.run_within(task),
                }
            }
        }
        if std::mem::take(&mut finished.blocks_changed) {
            self.tell_read_only();
            self.tell_collecting();
            self.space.notify_all(&self.cpu);
        }
        (finished.programs, finished.checkpoint_pages) = (0, 0);
        self.finished.replace(finished);
        if checkpoint_due {
            self.checkpoint_due.notify_all(&self.cpu);
        }
        self.wake_collector();
    }

    /// Tells the controller whether the core takes writes.
    fn tell_read_only(&self) {
        let read_only = self.with_ftl(|ftl| ftl.is_read_only());
        self.core_status
            .read_only
            .store(read_only, Ordering::Relaxed);
    }

    /// Tells the controller whether the core moves pages or erases blocks.
    fn tell_collecting(&self) {
        let now = self.collecting.goes_on() || self.with_ftl(|ftl| ftl.is_erasing());
        match (self.is_collecting.replace(now), now) {
            (false, true) => self.core_status.collecting.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.core_status.collecting.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Wakes a collector if there may be something for it to do: a page was staged, or became
    /// invalid, or a block was closed, since it found nothing.
    #[inline]
    fn wake_collector(&self) {
        if !self.collect.is_empty() && self.needs_another_victim().is_some() {
            self.collect.notify_one(&self.cpu);
        }
        self.wake_eraser();
    }

    /// To be called after staging, with the time of what ends next: ends what took no time, and wakes
    /// a collector if need be.
    #[inline]
    fn after_staging(&self, end_ns: u64) {
        if self.instant {
            self.finish_now();
        } else {
            self.operations.set(&self.cpu, end_ns);
            self.wake_collector();
        }
    }
}
