//! How a client serves requests: pages that it holds at once, others in a batch.

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use wharf_runtime::{Cpu, Op};
use wharf_wire::dma::{DmaSpace, RegisterError};

use crate::design::{DesignConfig, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::scala::batch::Batch;
use crate::scala::config::ScalaConfig;
use crate::scala::copied::Copied;
use crate::scala::frames::Frames;
use crate::scala::held::{Copying, Held, Turn, Use};
use crate::scala::home::SetMap;
use crate::scala::index::{Found, Place, Placed};
use crate::span::{Extent, Span, Spans, spans};
use crate::volume::Volume;

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
        told: (&DesignConfig, &ScalaConfig),
    ) -> Result<Rc<Held>, RegisterError> {
        let held = Rc::new(Held::new(cpu, volume, map, slots, frames, space, told)?);
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

    /// Serves `span` and `rest` once a page is not simply a hit. Gives the hits.
    pub(super) async fn serve_slowly<U: Use>(
        &self,
        span: Span,
        rest: Spans,
        user: &mut U,
    ) -> Result<u64, IoError> {
        let mut batch = Batch::new(self);
        let mut hits = 0;
        // Pages that others are bringing or using. They are waited for when all that this request
        // itself misses is on its way: else each of them would cost it one more wait for the flash.
        let mut others: SmallVec<[Span; 4]> = SmallVec::new();
        for span in std::iter::once(span).chain(rest) {
            // Guards are kept: they are taken in order, so that two tasks do not wait for each
            // other's.
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
}
