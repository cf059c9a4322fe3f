//! What a client of a page cache does, page by page.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Op};

use crate::cache::pins::{Action, PINS_MAX, Pin, Pins, Scratch};
use crate::cache::shard::{Found, Placed};
use crate::cache::{PageCache, Section};
use crate::design::{Counters, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::late::LateCompletions;
use crate::payload::{From, Into, Payload};
use crate::span::{Extent, Span, Spans, spans};
use crate::volume::Volume;
use crate::wake::{Pause, Sleeper};

/// How a payload meets a frame.
pub trait Copied: Payload {
    /// Copies a span from or to a frame that is ready (and, for a write, named by no command).
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32);
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32) {
        let data = &section.data(frame)[span.in_page()];
        self.0[span.in_payload()].copy_from_slice(data);
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32) {
        let data = &mut section.data_mut(frame)[span.in_page()];
        data.copy_from_slice(&self.0[span.in_payload()]);
    }
}

/// The payload of a flush, which has no spans of its own.
pub(super) struct Nothing;

impl Payload for Nothing {
    const WRITES: bool = false;

    fn bytes(&self) -> usize {
        0
    }
}

impl Copied for Nothing {
    fn copy(&mut self, _: &Span, _: &mut Section<'_>, _: u32) {
        unreachable!("a flush only writes")
    }
}

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
    pub(super) cpu: Cpu,
    pub(super) cache: Arc<PageCache>,
    pub(super) volume: Rc<Volume>,
    pub(super) index: u32,
    pub(super) policy: WritePolicy,
    pub(crate) counters: Counters,
    pub(super) spare: RefCell<Vec<Scratch>>,
    woken: RefCell<Vec<Sleeper>>,
    pub(super) late: LateCompletions<Vec<Pin>>,
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
            cpu: cpu.clone(),
            told: ErrSeqCursor::new(cache.failures()),
            cache,
            volume,
            index,
            policy,
            counters: Counters::default(),
            spare: RefCell::default(),
            woken: RefCell::default(),
            late: LateCompletions::default(),
        });
        let owner = client.clone();
        cpu.spawn("cache late completions", async move {
            let release = |_, pins: Vec<Pin>| owner.give_up(&pins);
            owner.late.run(&owner.cpu, release).await;
        });
        client
    }

    /// The volume behind the cache.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Serves a read or a write. Hits take none of the machinery of misses.
    ///
    /// # Errors
    /// A wrong extent or payload, or the first error of a command.
    #[inline]
    pub async fn serve<P: Copied>(&self, extent: Extent, mut payload: P) -> Result<Touch, IoError> {
        let page_bytes = self.cache.page_bytes();
        check_request(&self.volume, page_bytes, extent, payload.bytes())?;
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
        let mut pins = Pins::new(self);
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
                    self.counters.waits.add(1);
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
        let (at, hash) = self.cache.shard_of(span.page);
        self.cache.with(&self.cpu, at, |shard| {
            let found = self
                .cpu
                .work(Op::CacheLookup, || shard.find(span.page, hash));
            match found {
                Found::Ready(frame) if !(P::WRITES && shard.frame(frame).is_writing()) => {
                    shard.touch(frame);
                    if self.copy(shard, frame, span, payload) {
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

    /// Copies a span; says whether the frame is being written through now.
    #[inline]
    pub(super) fn copy<P: Copied>(
        &self,
        shard: &mut Section<'_>,
        frame: u32,
        span: &Span,
        payload: &mut P,
    ) -> bool {
        self.cpu
            .work(Op::CopyPage, || payload.copy(span, shard, frame));
        if P::WRITES && self.policy == WritePolicy::Through {
            shard.begin_writing(frame);
            return true;
        }
        if P::WRITES {
            shard.set_dirty(frame);
        }
        false
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
            .cpu
            .work(Op::CacheUpdate, || shard.place(span.page, hash, is_own));
        self.cpu.work_n(Op::ClockStep, steps, || ());
        let overwrites = P::WRITES && span.whole;
        let action = if overwrites {
            Action::Overwrite
        } else {
            Action::Fill
        };
        match placed {
            Placed::Clean(frame) => {
                self.counters.evictions.add(u64::from(steps > 0));
                if !overwrites {
                    return Touched::Held(self.pin(at, frame, None, span, action), false);
                }
                shard.set_ready_at_once(frame);
                if self.copy(shard, frame, span, payload) {
                    return Touched::Held(self.pin(at, frame, None, span, Action::Through), false);
                }
                Touched::Done
            }
            Placed::Dirty { frame, leaving } => {
                self.counters.evictions.add(1);
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
        shard.wait_for(page, self.sleeper());
        Touched::Wait
    }

    pub(super) fn sleeper(&self) -> Sleeper {
        Sleeper {
            client: self.index,
            task: self.cpu.current(),
        }
    }

    /// Runs `f` on a shard with its lock held, then wakes whom it names.
    pub(super) fn with_woken<R>(
        &self,
        shard: u32,
        f: impl FnOnce(&mut Section<'_>, &mut Vec<Sleeper>) -> R,
    ) -> R {
        let mut woken = self.woken.borrow_mut();
        let result = self
            .cache
            .with(&self.cpu, shard, |section| f(section, &mut woken));
        for sleeper in woken.drain(..) {
            self.cache.mailboxes().wake(&self.cpu, self.index, sleeper);
        }
        result
    }
}
