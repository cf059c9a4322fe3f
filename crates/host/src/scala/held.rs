//! What one client holds, and how it serves requests from it.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::slab::SlabError;
use wharf_runtime::{Cpu, Notify, Op};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};

use crate::design::{Counters, DesignConfig, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::pins::Pins;
use crate::reaper::Reaper;
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

/// What one page of a request came to.
enum Step {
    Hit,
    /// It is in the batch now.
    Missing,
    /// The batch must be settled first.
    Settle,
    /// A page must become ready or free first.
    WaitForChange,
    /// Another client must be done first.
    Pause,
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
    pub(super) reaper: Reaper<Late>,
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
        config: &DesignConfig,
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
            reaper: Reaper::default(),
            policy: config.write_policy,
            gc_aware: config.gc_aware,
        });
        let reaping = held.clone();
        cpu.spawn("scala reaper", async move {
            let adopt = |group, late| reaping.adopt(group, late);
            reaping.reaper.run(&reaping.cpu, adopt).await;
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
        let mut touch = Touch {
            pages: extent.pages(),
            hits: 0,
        };
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
            self.volume.flush(&self.cpu).await?;
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
        mut rest: Spans,
        user: &mut U,
    ) -> Result<u64, IoError> {
        let mut batch = Batch::new(self);
        let (mut hits, mut pause_ns) = (0, PAUSE_NS_MIN);
        let mut current = Some(span);
        while let Some(span) = current {
            match self.step(&span, user, &mut batch) {
                Step::Hit => hits += 1,
                Step::Missing => {}
                Step::Failed(error) => {
                    // What is in the batch has its slots: it must come to an end.
                    let _ = batch.settle(user).await;
                    return Err(error);
                }
                // Who waits for others must hold nothing; else two could wait for each other.
                _ if !batch.is_empty() => {
                    batch.settle(user).await?;
                    continue;
                }
                Step::Settle => unreachable!("only what is in the batch is to be settled"),
                Step::WaitForChange => {
                    self.counters.waits.add(1);
                    self.changed.wait(&self.cpu).await;
                    continue;
                }
                Step::Pause => {
                    self.counters.waits.add(1);
                    self.pause(&mut pause_ns).await;
                    continue;
                }
            }
            current = rest.next();
        }
        batch.settle(user).await?;
        Ok(hits)
    }

    /// Sleeps while another client is in the way, longer each time.
    pub(super) async fn pause(&self, pause_ns: &mut u64) {
        self.cpu.sleep_until(self.cpu.now() + *pause_ns).await;
        *pause_ns = (*pause_ns * 2).min(PAUSE_NS_MAX);
    }

    /// The first pause.
    pub(super) const fn first_pause_ns() -> u64 {
        PAUSE_NS_MIN
    }

    /// Does one page of a request, as far as it goes without a command.
    fn step<U: Use>(&self, span: &Span, user: &mut U, batch: &mut Batch<'_>) -> Step {
        let page = span.page;
        match self.index.look_up(page) {
            Found::Ready(place) if self.use_again(place, span, user) => Step::Hit,
            Found::Ready(_) => Step::Pause,
            Found::Busy => Step::WaitForChange,
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
