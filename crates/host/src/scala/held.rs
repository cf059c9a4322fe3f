//! What one client holds, and how it serves requests from it.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use wharf_runtime::slab::SlabError;
use wharf_runtime::{Cpu, Notify, Op};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};

use crate::design::{Counters, DesignConfig, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::late::LateCompletions;
use crate::pins::Pins;
use crate::scala::ScalaConfig;
use crate::scala::batch::{Batch, Late};
use crate::scala::frames::{Copied, Frames};
use crate::scala::index::{Found, Place, Placed, QueueIndex};
use crate::span::{Extent, Span, Spans, spans};
use crate::volume::{Layout, Volume};

/// First pause of a task that finds another client in the way, in nanoseconds; it doubles.
const PAUSE_NS_MIN: u64 = 200;

/// Longest such pause.
const PAUSE_NS_MAX: u64 = 50_000;

/// Which firmware core of which drive each page belongs to.
#[derive(Debug, Clone, Copy)]
pub struct SetMap {
    layout: Layout,
    cores: u32,
    core_stripe_pages: u32,
}

/// Where a page of the volume belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// The drive.
    pub drive: usize,
    /// The page on the drive.
    pub lba: u64,
    /// The firmware core.
    pub core: u32,
}

impl SetMap {
    /// The map for a volume whose drives are alike.
    pub fn new(volume: &Volume) -> SetMap {
        let config = volume.drivers()[0].config();
        SetMap {
            layout: *volume.layout(),
            cores: config.cores,
            core_stripe_pages: config.core_stripe_pages,
        }
    }

    /// Firmware cores of each drive.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Where a page belongs.
    #[inline]
    pub fn home(&self, page: u64) -> Home {
        let (drive, lba) = self.layout.locate(page);
        let stripe = lba / u64::from(self.core_stripe_pages);
        let core = (stripe % u64::from(self.cores)) as u32;
        Home { drive, lba, core }
    }

    /// The number of the set of slots, or of frames, that a home has.
    #[inline]
    pub fn set(&self, home: &Home) -> u32 {
        home.drive as u32 * self.cores + home.core
    }

    /// The drive of a page.
    #[inline]
    pub fn drive(&self, page: u64) -> usize {
        self.layout.locate(page).0
    }
}

/// What is done with each page of a request once it is in a frame of this client.
pub trait Use {
    /// Whether it is going to change pages.
    const WRITES: bool;

    /// Whether to wait while every slot that would do is pinned by guards.
    const WAITS_FOR_GUARDS: bool;

    /// Does it; false if another client is in the way.
    fn apply(&mut self, held: &Held, place: Place, span: &Span) -> bool;

    /// The data of a page that is to be overwritten whole.
    fn data(&self, span: &Span) -> &[u8];
}

/// Copies between the frame and the program's memory.
pub struct Copying<P>(pub P);

impl<P: Copied> Use for Copying<P> {
    const WRITES: bool = P::WRITES;
    const WAITS_FOR_GUARDS: bool = true;

    #[inline]
    fn apply(&mut self, held: &Held, place: Place, span: &Span) -> bool {
        let at = (held.map.drive(span.page), place.frame);
        let alone = held.index.is_guarded(place.slot);
        if !self.0.copy(&held.cpu, &held.frames, at, span, alone) {
            return false;
        }
        if P::WRITES {
            held.index.set_dirty(place.slot);
        }
        true
    }

    fn data(&self, span: &Span) -> &[u8] {
        self.0.data(span)
    }
}

/// How a task waits for other clients that are in its way.
pub(super) struct Turn {
    pause_ns: u64,
    /// When it gives up; `None` until it is kept waiting for a page.
    ends_ns: Option<u64>,
}

impl Turn {
    pub(super) const fn new() -> Turn {
        Turn {
            pause_ns: PAUSE_NS_MIN,
            ends_ns: None,
        }
    }
}

/// What one page of a request came to.
enum Step {
    Hit,
    /// It is in the batch now.
    Missing,
    /// The batch must be settled first.
    Settle,
    /// A command of another task of this client is fetching the page.
    Coming,
    /// A page must become ready or free first.
    WaitForChange,
    /// Another client must be done first with the page, which is ready.
    Pause(Place),
    Failed(IoError),
}

fn no_memory(error: SlabError) -> RegisterError {
    RegisterError::OutOfMemory {
        bytes: error.bytes,
        source: error.cause.into(),
    }
}

/// What one client holds. See the [module above](crate::scala).
pub struct Held {
    pub(super) cpu: Cpu,
    pub(super) volume: Rc<Volume>,
    pub(super) map: SetMap,
    pub(super) frames: Arc<Frames>,
    pub(super) index: QueueIndex,
    pub(super) pins: Pins,
    pub(super) counters: Counters,
    /// A page became ready, or a slot can be taken again.
    pub(super) changed: Notify,
    pub(super) late: LateCompletions<Late>,
    policy: WritePolicy,
    gc_aware: bool,
}

impl Held {
    /// A client that holds nothing, with its tasks on `cpu`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn start(
        cpu: &Cpu,
        volume: Rc<Volume>,
        map: SetMap,
        slots: &[u32],
        frames: Arc<Frames>,
        space: &Arc<DmaSpace>,
        (config, own): (&DesignConfig, &ScalaConfig),
    ) -> Result<Rc<Held>, RegisterError> {
        let held = Rc::new(Held {
            cpu: cpu.clone(),
            pins: Pins::new(cpu, &volume, space)?,
            volume,
            map,
            frames,
            index: QueueIndex::new(slots).map_err(no_memory)?,
            counters: Counters::default(),
            changed: Notify::new(),
            late: LateCompletions::default(),
            policy: config.write_policy,
            gc_aware: own.gc_aware,
        });
        let owner = held.clone();
        cpu.spawn("scala late completions", async move {
            let adopt = |group, late| owner.adopt(group, late);
            owner.late.run(&owner.cpu, adopt).await;
        });
        Ok(held)
    }

    /// Serves a read or a write. Hits take none of the machinery of misses.
    ///
    /// # Errors
    /// A wrong extent or payload, or the first error of a command.
    #[inline]
    pub async fn serve<P: Copied>(&self, extent: Extent, payload: P) -> Result<Touch, IoError> {
        let page_bytes = self.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, payload.bytes())?;
        let mut touch = Touch::no_hits(extent.pages());
        let mut user = Copying(payload);
        let mut rest = spans(extent, page_bytes);
        while let Some(span) = rest.next() {
            if self.hit(&span, &mut user) {
                touch.hits += 1;
            } else {
                touch.hits += self.serve_slowly(span, rest, &mut user).await?;
                break;
            }
        }
        if P::WRITES && self.policy == WritePolicy::Through && touch.pages > 0 {
            // The drives know what is dirty; they keep the pages.
            self.flush().await?;
        }
        Ok(touch)
    }

    /// Serves a request within a page that this client holds; false if it is not such a request, or
    /// another client is in the way.
    #[inline(always)]
    pub(super) fn serve_now<P: Copied>(&self, extent: Extent, payload: P) -> bool {
        let is_through = P::WRITES && self.policy == WritePolicy::Through;
        let stores_bytes = self.frames.page_bytes() == PAGE_BYTES;
        // A page that is held is a page of the volume.
        let Some(span) = Span::within_page(extent) else {
            return false;
        };
        let fits = stores_bytes && !is_through && payload.bytes() as u64 == extent.bytes;
        let is_hit = fits && self.hit(&span, &mut Copying(payload));
        if is_hit {
            self.counters.touches.add(1);
            self.counters.hits.add(1);
        }
        is_hit
    }

    /// Serves a page that this client holds; false if it does not, or another client is in the way.
    #[inline]
    fn hit<U: Use>(&self, span: &Span, user: &mut U) -> bool {
        let place = self
            .cpu
            .work(Op::QueueIndexLookup, || self.index.find(span.page));
        place.is_some_and(|place| self.use_again(place, span, user))
    }

    /// Uses a page that was here before the request; false if another client is in the way.
    #[inline]
    fn use_again<U: Use>(&self, place: Place, span: &Span, user: &mut U) -> bool {
        let is_done = user.apply(self, place, span);
        if is_done {
            self.index.touch(place.slot);
        }
        is_done
    }

    /// Serves `span` and `rest` once a page is not simply a hit. Gives the hits.
    pub(super) async fn serve_slowly<U: Use>(
        &self,
        span: Span,
        rest: Spans,
        user: &mut U,
    ) -> Result<u64, IoError> {
        let mut batch = Batch::new(self);
        let mut hits = 0;
        // Pages that others are bringing or using. They are waited for when all that this request itself
        // misses is on its way: else each of them would cost it one more wait for the flash.
        let mut others: SmallVec<[Span; 4]> = SmallVec::new();
        for span in std::iter::once(span).chain(rest) {
            // Guards are kept: they are taken in order, so that two tasks do not wait for each other's.
            let later = if U::WAITS_FOR_GUARDS {
                Some(&mut others)
            } else {
                None
            };
            hits += u64::from(self.serve_page(&span, user, &mut batch, later).await?);
        }
        batch.settle(user).await?;
        for span in &others {
            hits += u64::from(self.serve_page(span, user, &mut batch, None).await?);
        }
        batch.settle(user).await?;
        Ok(hits)
    }

    /// Uses a page, or has it in the batch, or leaves it for `later`. True if it is a hit.
    async fn serve_page<U: Use>(
        &self,
        span: &Span,
        user: &mut U,
        batch: &mut Batch<'_>,
        mut later: Option<&mut SmallVec<[Span; 4]>>,
    ) -> Result<bool, IoError> {
        let mut turn = Turn::new();
        loop {
            let step = self.step(span, user, batch);
            match (step, later.as_mut()) {
                (Step::Hit, _) => return Ok(true),
                (Step::Missing, _) => return Ok(false),
                (Step::Failed(error), _) => {
                    // What is in the batch has its slots: it must come to an end.
                    let _ = batch.settle(user).await;
                    return Err(error);
                }
                (Step::Coming | Step::Pause(_), Some(later)) => {
                    later.push(*span);
                    return Ok(false);
                }
                // Who waits for others must hold nothing; else two could wait for each other.
                _ if !batch.is_empty() => batch.settle(user).await?,
                (Step::Settle, _) => unreachable!("only what is in the batch is to be settled"),
                (Step::Coming | Step::WaitForChange, _) => {
                    self.counters.waits.add(1);
                    self.changed.wait(&self.cpu).await;
                }
                (Step::Pause(place), _) => {
                    self.counters.waits.add(1);
                    self.pause(&mut turn, span.page, place.frame).await?;
                }
            }
        }
    }

    /// Sleeps while another client is in the way of a page, which is in `frame`, longer each time.
    ///
    /// # Errors
    /// If that has taken as long as a drive may take for a command. What others write to shared memory is
    /// not to be relied on.
    pub(super) async fn pause(
        &self,
        turn: &mut Turn,
        page: u64,
        frame: u32,
    ) -> Result<(), IoError> {
        let (drive, now_ns) = (self.map.drive(page), self.cpu.now());
        let timeout_ns = self.volume.drivers()[drive].config().timeout_ns;
        let ends_ns = *turn
            .ends_ns
            .get_or_insert(now_ns.saturating_add(timeout_ns));
        if now_ns >= ends_ns {
            return Err(IoError::InUse { page });
        }
        self.frames.mend(drive, frame);
        if turn.pause_ns == PAUSE_NS_MAX && self.frames.is_drives(drive, frame) {
            self.ask_drive(page).await;
        }
        self.cpu.sleep_until(now_ns + turn.pause_ns).await;
        turn.pause_ns = (turn.pause_ns * 2).min(PAUSE_NS_MAX);
        Ok(())
    }

    /// Has the drive look at the frame of a page: it knows whether a word that names it is its own, and
    /// mends it if not.
    #[cold]
    async fn ask_drive(&self, page: u64) {
        let home = self.map.home(page);
        let mut lists = self.pins.take([true].into_iter()).await;
        let group = self.volume.open_group();
        let sent = self
            .pins
            .send_read(&group, home.drive, lists.remove(0), home.lba);
        let mut sent = sent.await;
        self.volume.ring();
        // Whatever it says, the word is looked at again.
        let _ = self.pins.wait(&mut sent, &group).await;
        self.keep_until_quiet(group, sent);
    }

    /// Has the drives write back what is dirty, pinned or not.
    pub(super) async fn flush(&self) -> Result<(), IoError> {
        match self.volume.flush(&self.cpu).await {
            Err(error) if error.is_frame_busy() && self.frames.mend_all(None) => {
                self.volume.flush(&self.cpu).await
            }
            outcome => outcome,
        }
    }

    /// Does one page of a request, as far as it goes without a command.
    fn step<U: Use>(&self, span: &Span, user: &mut U, batch: &mut Batch<'_>) -> Step {
        let page = span.page;
        match self.index.look_up(page) {
            Found::Ready(place) if self.use_again(place, span, user) => Step::Hit,
            Found::Ready(place) => Step::Pause(place),
            Found::Busy => Step::Coming,
            Found::Stuck => Step::Failed(IoError::Stuck { page }),
            Found::Absent if !batch.has_room_for(page) => Step::Settle,
            Found::Absent => {
                let home = self.map.home(page);
                let set = self.map.set(&home);
                let collects = self.volume.drivers()[home.drive].collects_garbage();
                let (placed, steps) = self.cpu.work(Op::QueueIndexUpdate, || {
                    let own = |slot| batch.has(slot);
                    self.index.place(set, page, self.gc_aware && collects, own)
                });
                self.cpu.work_n(Op::ClockStep, steps, || ());
                match placed {
                    Placed::In(slot, leaving) => {
                        if let Some(leaving) = leaving {
                            self.counters.evictions.add(1);
                            self.counters.write_backs.add(u64::from(leaving.is_dirty));
                        }
                        batch.push(span, slot, home, leaving, U::WRITES);
                        Step::Missing
                    }
                    Placed::Own => Step::Settle,
                    Placed::AllBusy => Step::WaitForChange,
                    Placed::AllStuck => Step::Failed(IoError::Stuck { page }),
                    Placed::AllPinned if U::WAITS_FOR_GUARDS => Step::WaitForChange,
                    Placed::AllPinned if !batch.is_empty() => Step::Settle,
                    Placed::AllPinned => Step::Failed(IoError::NoRoom {
                        page,
                        pages: self.index.set_slots(set),
                    }),
                }
            }
        }
    }

    /// Tells the tasks that wait for a change.
    #[inline]
    pub(super) fn notify(&self) {
        if !self.changed.is_empty() {
            self.changed.notify_all(&self.cpu);
        }
    }
}
