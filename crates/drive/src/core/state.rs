//! What a core is, and what serves commands on it.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use wharf_runtime::sync::Ordering;
use wharf_runtime::{Alarm, Cpu, Notifier, Notify, Op, TaskId};
use wharf_wire::dma::DmaSpace;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;

use super::asks::Asks;
use super::collecting::{Collecting, Collector, Moved};
use super::commands::{Answer, Outcome, Share, Slots};
use super::hmb::Hmb;
use super::store::{CoreStatus, Store};
use super::stuck::Stuck;
use super::syncs::Syncs;
use crate::config::FrameIndex;
use crate::config::Striping;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::ftl::{Finished, Ftl, MapHint};
use crate::link::FromHost;
use crate::memory::DeviceMemory;
use crate::power::PowerSwitch;

/// What becomes of a share that a handler was called for.
#[derive(Debug)]
pub enum Step {
    /// It has ended.
    Ended(Outcome),
    /// The handler is called again ([`Serve::resume`]) at this time of the core's clock, in nanoseconds.
    At(u64),
    /// The handler is called again ([`Serve::settled`]) when every page that the job has staged is on flash.
    Settles,
    /// Its handler keeps it, and answers it another time ([`Core::answer_share`]): the job is free.
    Kept,
    /// It has to wait for something that has no time yet: [`Serve::wait`] goes on, in the job's task.
    Waits,
}

/// What [`Serve::wait`] gives.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// The part of a command's handler that cores call. What it must remember of a share from call to call is
/// in the job, or in the state that its feature has on the core ([`Core::state`]).
pub trait Serve: Sync {
    /// Begins to serve the share that `job` has.
    fn serve(&self, core: &Core, job: u32) -> Step;

    /// Goes on at the time that the call before asked for.
    fn resume(&self, _core: &Core, _job: u32) -> Step {
        unreachable!("its handler asked for a time and has nothing to do then")
    }

    /// Goes on when the pages that the job has staged are on flash.
    fn settled(&self, _core: &Core, _job: u32) -> Step {
        unreachable!("its handler has staged pages and has nothing to do then")
    }

    /// Serves the share to its end, where the call before said that it waits.
    fn wait<'a>(&'a self, _core: &'a Core, _job: u32) -> Waiting<'a> {
        unreachable!("its handler said that it waits and has nothing to wait for")
    }

    /// Whether what [`Serve::wait`] gives has been answered by then, to another core.
    fn is_asked(&self) -> bool {
        false
    }
}

/// Who takes the answers of cores: the controller.
pub trait Answers {
    /// Takes what a core has answered up to now, unless it is at work: then it looks by itself.
    fn take_from(&self, core: u32);
}

/// A share that could not be served and can be now, with what serves it: of commands that a feature has wait.
pub type NextWaiter = fn(&Core) -> Option<(Share, &'static dyn Serve)>;

/// What a core is made of and connected to.
pub struct CoreParts {
    /// The core's number.
    pub index: u32,
    /// What it keeps pages in.
    pub store: Store,
    /// The drive's commands.
    pub slots: Rc<RefCell<Slots>>,
    /// Tells the controller of answers, as the source of the core's number.
    pub answered: Notifier,
    /// How many cores of the drive are collecting garbage.
    pub cores_collecting: Rc<Cell<u32>>,
    /// Host memory.
    pub dma: Arc<DmaSpace>,
    /// The drive's own, if it serves files.
    pub memory: Option<Rc<DeviceMemory>>,
    /// Shares served at once.
    pub jobs: u32,
    /// Acknowledge writes from the buffer.
    pub volatile_write_cache: bool,
    /// What a log write costs, in nanoseconds.
    pub log_write_ns: u64,
    /// How long a command waits for a page that the host is writing, in nanoseconds.
    pub busy_wait_ns: u64,
    /// The host is quiet when no share has come for so long, in nanoseconds.
    pub quiet_ns: u64,
    /// How pages are divided among the cores.
    pub striping: Striping,
    /// The power.
    pub power: PowerSwitch,
    /// Where media are left.
    pub status: CoreStatus,
    /// The link, for pages of the host memory buffer.
    pub from_host: FromHost,
    /// What compresses and expands pages, if that takes time.
    pub engine: Option<Engine>,
    /// How long a unit that somebody waits for may be filled, in nanoseconds.
    pub pack_wait_ns: u64,
    /// What its processor does to compress a page, and to expand one, if no engine does.
    pub squeezing: Option<(Op, Op)>,
    /// Its processor copies data: no engine does.
    pub copies: bool,
    /// What the drive's features keep on the core.
    pub states: Vec<Box<dyn Any>>,
    /// Where commands of features wait.
    pub waiters: Vec<NextWaiter>,
}

/// One of the shares that a core serves, and what is kept from share to share.
#[derive(Default)]
pub struct Job {
    /// What is served.
    pub share: Cell<Share>,
    pub(super) handler: Cell<Option<&'static dyn Serve>>,
    /// When it was taken up, in nanoseconds, where that is accounted.
    pub(super) taken_ns: Cell<u64>,
    /// Since when it has looked for pages on their way from slow media; 0 if it has not.
    pub looks_since_ns: Cell<u64>,
    /// What goes on where something is waited for.
    pub(super) task: Cell<Option<TaskId>>,
    /// The task is to go on with the share.
    pub(super) is_handed: Cell<bool>,
    /// The task is being polled.
    pub(super) in_task: Cell<bool>,
    /// Pages of the share whose programs have not ended.
    pub outstanding: Cell<u32>,
    /// The handler is called when there are none.
    pub(super) settles: Cell<bool>,
    /// Pages of the share were zeros and took no flash: the log has to tell of them.
    pub zeroed: Cell<bool>,
    /// One of these programs has failed.
    pub failed: Cell<bool>,
    /// Pages of the share that are done.
    pub done: Cell<u32>,
    /// What is in the way of the next.
    pub stuck: Cell<Option<Stuck>>,
    /// Why no more pages are taken.
    pub refused: Cell<Option<StatusCode>>,
    /// The physical pages that it reads; [`NONE`](crate::ftl::NONE) for one not on flash.
    pub pages: RefCell<Vec<u32>>,
}

impl Job {
    /// What serves its share.
    #[inline]
    pub(super) fn handler(&self) -> &'static dyn Serve {
        self.handler.get().expect("a job that serves has one")
    }
}

/// A share that has not been taken up: when it comes, what it is, what serves it.
pub(super) type Arrival = (u64, Share, &'static dyn Serve);

/// A firmware core, shared by its tasks and the controller.
pub struct Core {
    /// The CPU that it is.
    pub cpu: Cpu,
    /// Its number.
    pub index: u32,
    /// Until the core is powered off; none in a disk.
    pub(super) ftl: RefCell<Option<Ftl>>,
    /// Of a disk.
    pub(super) disk: Option<Box<Disk>>,
    /// Where its map is.
    map: MapHint,
    /// The drive's commands.
    pub slots: Rc<RefCell<Slots>>,
    pub(super) inbox: RefCell<VecDeque<Arrival>>,
    /// When its tasks and the controller's calls left it last, by its clock.
    pub(super) turn_end_ns: Cell<u64>,
    /// Answers that the controller has not taken.
    pub(super) answers: RefCell<VecDeque<Answer>>,
    pub(super) answered: Notifier,
    /// Whoever runs the core now looks for answers when it has done.
    pub(super) is_watched: Cell<bool>,
    pub(super) controller: RefCell<Option<Weak<dyn Answers>>>,
    pub(super) cores_collecting: Rc<Cell<u32>>,
    pub(super) dma: Arc<DmaSpace>,
    pub(super) memory: Option<Rc<DeviceMemory>>,
    pub(super) jobs: Vec<Job>,
    pub(super) idle: RefCell<Vec<u32>>,
    /// Jobs that are to go on at a time.
    pub(super) resumptions: RefCell<BinaryHeap<Reverse<(u64, u32, u32)>>>,
    pub(super) resumptions_made: Cell<u32>,
    /// A program has ended: frames are free, a flush may be complete.
    pub(super) programmed: Notify,
    pub(super) syncs: Syncs,
    /// A block has become free.
    pub(super) space: Notify,
    /// Collection may be needed, or may go on.
    pub(super) collect: Notify,
    /// A checkpoint should be taken.
    pub(super) checkpoint_due: Notify,
    /// The earliest end of a flash operation, or of a job's wait.
    pub(super) operations: Alarm,
    /// No flash operation ends before, by the core's clock.
    pub(super) operation_end_ns: Cell<u64>,
    pub(super) finished: RefCell<Finished>,
    /// No flash operation takes time: nobody looks at the clock.
    pub(super) instant: bool,
    /// Cached pages are found by a table, and not by the map.
    pub(super) has_table: bool,
    /// Pages that the host writes with zeros take no flash.
    pub elides_zeros: bool,
    /// Writes are acknowledged from the buffer.
    pub volatile_write_cache: Cell<bool>,
    pub(super) log_write_ns: u64,
    pub(super) busy_wait_ns: u64,
    /// How pages are divided among the cores.
    pub striping: Striping,
    /// The core's frames of the host memory buffer.
    pub(super) hmb: RefCell<Arc<Hmb>>,
    /// A page on its way from a frame to the write buffer.
    pub(super) copy: RefCell<Vec<u8>>,
    /// A page on its way to memory that other processes can write.
    pub(super) filling: RefCell<Vec<u8>>,
    /// A page has come into its frame, or could not be read.
    pub filled: Notify,
    pub(super) collectors: Vec<Collector>,
    pub(super) collecting: Collecting,
    /// Victims whose pages are on their way to flash elsewhere.
    pub(super) moved: RefCell<Vec<Moved>>,
    /// One of them may be erased.
    pub(super) emptied: Notify,
    /// When a share came last, and how long after that the host counts as quiet.
    pub(super) latest_share_ns: Cell<u64>,
    pub(super) quiet_ns: u64,
    /// The core is among those that are counted as collecting.
    pub(super) is_collecting: Cell<bool>,
    /// It takes no more writes.
    pub(super) read_only: Cell<bool>,
    /// Frames of the host memory buffer that are held or about to be.
    pub frames_held: Cell<u32>,
    /// The latest statistics, when asked for.
    pub(super) report: Cell<Option<DriveStatistics>>,
    pub(super) power: PowerSwitch,
    pub(super) status: CoreStatus,
    /// The link, for pages of the host memory buffer.
    pub from_host: FromHost,
    /// What compresses and expands pages, if that takes time.
    pub(super) engine: Option<Engine>,
    /// Pages are packed into units.
    pub(super) packs: bool,
    pub(super) pack_wait_ns: u64,
    /// What is staged is durable.
    pub(super) is_protected: bool,
    /// What its processor does to compress a page, and to expand one, if no engine does.
    pub(super) squeezing: Option<(Op, Op)>,
    /// Pages that were compressed and expanded, as far as that is accounted.
    pub(super) squeezed: Cell<(u64, u64)>,
    /// Its processor copies data: no engine does.
    pub copies: bool,
    /// What it asks, and all cores of its drive, if this one may ask them.
    pub(super) peers: OnceCell<(Asks, Box<[Weak<Core>]>)>,
    states: Vec<Box<dyn Any>>,
    waiters: Vec<NextWaiter>,
}

impl Core {
    /// A core on `cpu`. The core exists before its tasks first run: a power cut may come before that, and the
    /// core must leave its media behind.
    pub fn new(cpu: Cpu, parts: CoreParts) -> Core {
        let (ftl, disk) = match parts.store {
            Store::Flash(ftl) => (Some(*ftl), None),
            Store::Disk(disk) => (None, Some(disk)),
        };
        let of_flash = ftl.as_ref();
        let collectors = of_flash.map_or(0, |ftl| ftl.plan().victims_max);
        Core {
            index: parts.index,
            instant: of_flash.is_some_and(Ftl::is_instant),
            has_table: of_flash.is_some_and(|ftl| ftl.frame_index() == FrameIndex::Hash),
            packs: of_flash.is_some_and(Ftl::packs),
            is_protected: of_flash.is_some_and(Ftl::is_protected),
            elides_zeros: of_flash.is_some_and(Ftl::elides_zeros),
            read_only: Cell::new(of_flash.is_some_and(Ftl::is_read_only)),
            map: of_flash.map_or_else(|| MapHint::new(&[]), Ftl::map_hint),
            ftl: RefCell::new(ftl),
            disk,
            slots: parts.slots,
            inbox: RefCell::default(),
            turn_end_ns: Cell::new(0),
            answers: RefCell::default(),
            answered: parts.answered,
            is_watched: Cell::new(false),
            controller: RefCell::default(),
            cores_collecting: parts.cores_collecting,
            dma: parts.dma,
            memory: parts.memory,
            jobs: (0..parts.jobs).map(|_| Job::default()).collect(),
            idle: RefCell::new((0..parts.jobs).rev().collect()),
            resumptions: RefCell::default(),
            resumptions_made: Cell::new(0),
            programmed: Notify::new(),
            syncs: Syncs::new(),
            space: Notify::new(),
            collect: Notify::new(),
            checkpoint_due: Notify::new(),
            operations: Alarm::default(),
            operation_end_ns: Cell::new(u64::MAX),
            finished: RefCell::new(Finished::default()),
            volatile_write_cache: Cell::new(parts.volatile_write_cache),
            log_write_ns: parts.log_write_ns,
            busy_wait_ns: parts.busy_wait_ns,
            striping: parts.striping,
            hmb: RefCell::default(),
            copy: RefCell::default(),
            filling: RefCell::default(),
            filled: Notify::new(),
            collectors: (0..collectors).map(|_| Collector::default()).collect(),
            collecting: Collecting::default(),
            moved: RefCell::default(),
            emptied: Notify::new(),
            latest_share_ns: Cell::new(0),
            quiet_ns: parts.quiet_ns,
            is_collecting: Cell::new(false),
            frames_held: Cell::new(0),
            report: Cell::new(None),
            power: parts.power,
            status: parts.status,
            from_host: parts.from_host,
            engine: parts.engine,
            pack_wait_ns: parts.pack_wait_ns,
            squeezing: parts.squeezing,
            squeezed: Cell::default(),
            copies: parts.copies,
            peers: OnceCell::new(),
            states: parts.states,
            waiters: parts.waiters,
            cpu,
        }
    }

    /// Has answers go to `controller`.
    pub fn connect(&self, controller: Weak<dyn Answers>) {
        *self.controller.borrow_mut() = Some(controller);
    }

    /// The job of this number.
    #[inline]
    pub fn job(&self, job: u32) -> &Job {
        &self.jobs[job as usize]
    }

    /// What the handler of a job's command noted when it began it.
    pub fn note(&self, job: u32) -> u64 {
        let slot = self.job(job).share.get().slot;
        self.slots.borrow().get(slot).note
    }

    /// Whether the command of a share forces unit access.
    #[inline]
    pub fn is_forced(&self, share: &Share) -> bool {
        self.slots.borrow().get(share.slot).command.fua()
    }

    /// What a feature keeps on this core.
    ///
    /// # Panics
    /// If no feature of the drive keeps such a thing.
    #[inline]
    pub fn state<T: Any>(&self) -> &T {
        let mut states = self.states.iter();
        let state = states.find_map(|state| state.downcast_ref());
        state.expect("the drive has the feature whose command it serves")
    }

    /// Brings near what looking a page up is going to read.
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.map.prefetch(lpn);
    }

    /// Runs `f` on the translation layer. Never across a wait.
    #[inline]
    pub fn with_ftl<R>(&self, f: impl FnOnce(&mut Ftl) -> R) -> R {
        f(self
            .ftl
            .borrow_mut()
            .as_mut()
            .expect("a core has its flash until it is dropped"))
    }

    /// As [`Core::with_ftl`], if the core has flash: nothing of a disk.
    pub fn with_flash<R>(&self, f: impl FnOnce(&mut Ftl) -> R) -> Option<R> {
        self.ftl.borrow_mut().as_mut().map(f)
    }

    /// Runs `f`, which copies `pages` pages between media, buffers and host memory: work of the
    /// processor, unless the drive has an engine for it.
    #[inline]
    pub fn copying<R>(&self, pages: u32, f: impl FnOnce() -> R) -> R {
        match self.copies {
            true => self.cpu.work_n(Op::DriveCopy, pages, f),
            false => f(),
        }
    }

    /// The time for flash operations; 0 if they take none, so that nobody reads a clock.
    #[inline]
    pub fn flash_now(&self) -> u64 {
        if self.instant { 0 } else { self.cpu.now() }
    }

    /// True if the core takes no more writes.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only.get()
    }

    /// Host memory.
    pub fn dma(&self) -> &DmaSpace {
        &self.dma
    }

    /// The drive's own memory, if it serves files.
    pub fn memory(&self) -> Option<&Rc<DeviceMemory>> {
        self.memory.as_ref()
    }

    /// The core's frames of the host memory buffer.
    pub fn hmb(&self) -> Arc<Hmb> {
        self.hmb.borrow().clone()
    }

    /// Its latest statistics.
    pub fn latest_report(&self) -> Option<DriveStatistics> {
        self.report.get()
    }

    /// A share that waited and can go on.
    #[inline]
    pub(super) fn next_waiter(&self) -> Option<(Share, &'static dyn Serve)> {
        self.waiters.iter().find_map(|next| next(self))
    }

    /// True if no job has a share.
    pub(super) fn is_at_rest(&self) -> bool {
        self.idle.borrow().len() == self.jobs.len()
    }

    /// Notes what the core takes to keep book of frames.
    pub(super) fn note_book(&self, bytes: usize) {
        // Relaxed: a figure for reports.
        self.status
            .book_bytes
            .store(bytes as u64, Ordering::Relaxed);
    }

    /// Notes whether the core takes writes.
    pub(super) fn note_read_only(&self) {
        self.read_only.set(self.with_ftl(|ftl| ftl.is_read_only()));
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(disk) = &self.disk {
            *self.status.platters.lock().expect("no holder panics") = disk.platters.take();
        }
        if let Some(mut ftl) = self.ftl.get_mut().take() {
            // With checks on, every run ends with one of the whole structure. After a power cut
            // the memory of a drive is not worth one: it went in the middle of a change.
            if cfg!(debug_assertions) && !self.power.is_cut() && !std::thread::panicking() {
                ftl.verify();
                // Pins in line have reserved nothing: only those that are served have.
                let reserved = ftl.cached().reserved();
                assert!(
                    !self.is_at_rest() || reserved == 0,
                    "{reserved} frames are reserved for nobody"
                );
            }
            if !std::thread::panicking() && ftl.is_protected() {
                ftl.finish_all();
                if self.power.is_cut() {
                    ftl.save_staged();
                }
            }
            // What a drive does on the charge of its capacitors: what is still under way is lost as in a power
            // cut, but the next power-on has little to look at. A failure leaves the old log in place.
            if !std::thread::panicking() && ftl.checkpoint_is_worthwhile() {
                let _ = ftl.write_checkpoint();
            }
            *self.status.media.lock().expect("no holder panics") = Some(ftl.into_media());
        }
    }
}
