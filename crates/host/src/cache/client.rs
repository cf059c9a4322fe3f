//! What a client of a page cache does, page by page.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::Op;
use wharf_runtime::wake::Pause;

use crate::cache::copied::Copied;
use crate::cache::local::Local;
use crate::cache::pin::{Action, PINS_MAX, Pin};
use crate::cache::pins::Pins;
use crate::cache::shard::{Found, Placed};
use crate::cache::{PageCache, Section};
use crate::design::{Counters, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::span::{Extent, Span, Spans, spans};
use crate::volume::Volume;

/// What one page of a request came to.
enum Touched {
    /// It was in the cache, and is done.
    Hit,
    /// It was not, and is done.
    Done,
    /// It takes a command; says whether it was in the cache.
    Held(Pin, bool),
    /// The frames held must be settled first.
    Settle,
    /// Another request is in the way; this one will be woken.
    Wait,
    /// It fails.
    Failed(IoError),
}

/// One client of a page cache.
pub struct CacheClient {
    pub(super) local: Local,
    /// Failed write-backs that a flush of this client has reported.
    pub(super) told: ErrSeqCursor,
}

impl CacheClient {
    /// Client `index` of `cache`, with its tasks on `cpu`.
    pub fn start(
        cpu: &Cpu,
        cache: Arc<PageCache>,
        volume: Rc<Volume>,
        index: u32,
        policy: WritePolicy,
    ) -> Rc<CacheClient> {
        cache.mailboxes().serve(cpu, index);
        let client = Rc::new(CacheClient {
            told: ErrSeqCursor::new(cache.failures()),
            local: Local::new(cpu, cache, volume, index, policy),
        });
        let owner = client.clone();
        cpu.spawn("cache late completions", async move {
            let local = &owner.local;
            let release = |_, pins: Vec<Pin>| local.give_up(&pins);
            local.late.run(&local.cpu, release).await;
        });
        client
    }

    /// What it did.
    pub(crate) fn counters(&self) -> &Counters {
        &self.local.counters
    }

    /// The volume behind the cache.
    pub fn volume(&self) -> &Volume {
        &self.local.volume
    }

    /// Serves a read or a write. Hits take none of the machinery of misses.
    ///
    /// # Errors
    /// A wrong extent or payload, or the first error of a command.
    #[inline]
    pub async fn serve<P: Copied>(&self, extent: Extent, mut payload: P) -> Result<Touch, IoError> {
        let page_bytes = self.local.cache.page_bytes();
        check_request(&self.local.volume, page_bytes, extent, payload.bytes())?;
        let mut touch = Touch::no_hits(extent.pages());
        let mut rest = spans(extent, page_bytes);
        while let Some(span) = rest.next() {
            match self.touch(&span, &mut payload, &[]) {
                Touched::Hit => touch.hits += 1,
                Touched::Done => {}
                other => {
                    touch.hits += self.serve_slowly(span, other, rest, payload).await?;
                    break;
                }
            }
        }
        Ok(touch)
    }

    /// Serves what is left of a request once a page of it is not simply a hit. Gives the hits.
    async fn serve_slowly<P: Copied>(
        &self,
        span: Span,
        touched: Touched,
        mut rest: Spans,
        mut payload: P,
    ) -> Result<u64, IoError> {
        let mut pins = Pins::new(&self.local);
        let mut hits = 0;
        let mut current = Some((span, touched));
        while let Some((span, touched)) = current {
            match touched {
                Touched::Hit => hits += 1,
                Touched::Done => {}
                Touched::Held(pin, hit) => {
                    pins.push(pin);
                    hits += u64::from(hit);
                    if pins.as_slice().len() == PINS_MAX {
                        pins.settle(&mut payload).await?;
                    }
                }
                Touched::Settle => {
                    pins.redo().push(span);
                    pins.settle(&mut payload).await?;
                }
                Touched::Wait => {
                    pins.redo().push(span);
                    self.local.counters.waits.add(1);
                    Pause::default().await;
                }
                Touched::Failed(error) => return Err(error),
            }
            let mut next = pins.redo().pop().or_else(|| rest.next());
            if next.is_none() {
                pins.settle(&mut payload).await?;
                next = pins.redo().pop();
            }
            current = next.map(|span| (span, self.touch(&span, &mut payload, pins.as_slice())));
        }
        Ok(hits)
    }

    /// Does one page of a request, as far as it goes without a command. `held` are the frames that
    /// the request holds.
    #[inline]
    fn touch<P: Copied>(&self, span: &Span, payload: &mut P, held: &[Pin]) -> Touched {
        let (at, hash) = self.local.cache.shard_of(span.page);
        self.local.cache.with(&self.local.cpu, at, |shard| {
            let found = self
                .local
                .cpu
                .work(Op::CacheLookup, || shard.find(span.page, hash));
            match found {
                Found::Ready(frame) if !(P::WRITES && shard.frame(frame).is_writing()) => {
                    match shard.hears_uses() {
                        true => (self.local.cpu).work(Op::ListUpdate, || shard.touch(frame)),
                        false => shard.touch(frame),
                    }
                    if self.local.copy(shard, frame, span, payload) {
                        return Touched::Held(
                            self.pin(at, frame, None, span, Action::Through),
                            true,
                        );
                    }
                    Touched::Hit
                }
                found => self.miss(shard, at, hash, found, span, payload, held),
            }
        })
    }

    fn pin(
        &self,
        shard: u32,
        frame: u32,
        leaving: Option<u64>,
        span: &Span,
        action: Action,
    ) -> Pin {
        Pin {
            shard,
            frame,
            leaving,
            span: *span,
            action,
            failed: false,
        }
    }

    #[cold]
    #[allow(clippy::too_many_arguments)] // the tail of `touch`, apart to keep hits small
    fn miss<P: Copied>(
        &self,
        shard: &mut Section<'_>,
        at: u32,
        hash: u64,
        found: Found,
        span: &Span,
        payload: &mut P,
        held: &[Pin],
    ) -> Touched {
        let stuck = Touched::Failed(IoError::Stuck { page: span.page });
        match found {
            Found::Absent => {}
            Found::Stuck => return stuck,
            // A page that this request's own commands hold is among the reasons to settle.
            Found::Ready(frame) if shard.frame(frame).is_stuck() => return stuck,
            Found::OnTheWay | Found::Ready(_) => return self.wait(shard, Some(span.page), held),
        }
        let is_own = |frame| held.iter().any(|p| p.shard == at && p.frame == frame);
        let (placed, steps) = self
            .local
            .cpu
            .work(Op::CacheUpdate, || shard.place(span.page, hash, is_own));
        self.local.cpu.work_n(Op::ClockStep, steps, || ());
        let overwrites = P::WRITES && span.whole;
        let action = if overwrites {
            Action::Overwrite
        } else {
            Action::Fill
        };
        match placed {
            Placed::Clean(frame) => {
                self.local.counters.evictions.add(u64::from(steps > 0));
                if !overwrites {
                    return Touched::Held(self.pin(at, frame, None, span, action), false);
                }
                shard.set_ready_at_once(frame);
                if self.local.copy(shard, frame, span, payload) {
                    return Touched::Held(self.pin(at, frame, None, span, Action::Through), false);
                }
                Touched::Done
            }
            Placed::Dirty { frame, leaving } => {
                self.local.counters.evictions.add(1);
                Touched::Held(self.pin(at, frame, Some(leaving), span, action), false)
            }
            Placed::Own => Touched::Settle,
            Placed::AllHeld => self.wait(shard, None, held),
            Placed::AllStuck => stuck,
        }
    }

    /// Who waits for others must hold nothing; else two could wait for each other.
    fn wait(&self, shard: &mut Section<'_>, page: Option<u64>, held: &[Pin]) -> Touched {
        if !held.is_empty() {
            return Touched::Settle;
        }
        shard.wait_for(page, self.local.sleeper());
        Touched::Wait
    }
}
