//! What one client holds, and how a page that it holds is used.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::slab::SlabError;
use wharf_runtime::{Cpu, Notify, Op};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};

use crate::design::{Counters, DesignConfig, WritePolicy};
use crate::error::IoError;
use crate::group::Group;
use crate::late::LateCompletions;
use crate::pins::{Pins, Sent};
use crate::scala::config::ScalaConfig;
use crate::scala::copied::Copied;
use crate::scala::entry::Late;
use crate::scala::frames::Frames;
use crate::scala::home::SetMap;
use crate::scala::index::{Place, QueueIndex};
use crate::span::{Extent, Span};
use crate::volume::Volume;

/// First pause of a task that finds another client in the way, in nanoseconds; it doubles.
const PAUSE_NS_MIN: u64 = 200;

/// Longest such pause.
const PAUSE_NS_MAX: u64 = 50_000;

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
    pub(super) policy: WritePolicy,
    pub(super) gc_aware: bool,
}

impl Held {
    /// A client that holds nothing.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(
        cpu: &Cpu,
        volume: Rc<Volume>,
        map: SetMap,
        slots: &[u32],
        frames: Arc<Frames>,
        space: &Arc<DmaSpace>,
        (config, own): (&DesignConfig, &ScalaConfig),
    ) -> Result<Held, RegisterError> {
        Ok(Held {
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
        })
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
    pub(super) fn hit<U: Use>(&self, span: &Span, user: &mut U) -> bool {
        let place = self
            .cpu
            .work(Op::QueueIndexLookup, || self.index.find(span.page));
        place.is_some_and(|place| self.use_again(place, span, user))
    }

    /// Uses a page that was here before the request; false if another client is in the way.
    #[inline]
    pub(super) fn use_again<U: Use>(&self, place: Place, span: &Span, user: &mut U) -> bool {
        let is_done = user.apply(self, place, span);
        if is_done {
            self.index.touch(place.slot);
        }
        is_done
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

    /// Tells the tasks that wait for a change.
    #[inline]
    pub(super) fn notify(&self) {
        if !self.changed.is_empty() {
            self.changed.notify_all(&self.cpu);
        }
    }

    /// Gives the list of a command without pins back, as soon as the drive has answered.
    pub(super) fn keep_until_quiet(&self, group: Group, sent: Sent) {
        if group.is_quiet() {
            return self.pins.give_back(sent);
        }
        let late = Late(sent, Vec::new());
        self.late.adopt(&self.cpu, group, late);
    }
}
