//! What a client does with a request: hits at once, the rest through tickets.
//!
//! Nobody holds one page while waiting for another: a page that is there is copied and left, and only
//! then the next is waited for. So requests of any size get along with any number of frames.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Notifier, Receiver};

use crate::design::{Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::span::{Extent, Span, Spans, spans};
use crate::tri::copied::Copied;
use crate::tri::holder::{Holder, OpenPage, Touched};
use crate::tri::message::{Answer, Message, Outbox, Request, receive};
use crate::tri::open::OpenPages;
use crate::tri::shared::Shared;
use crate::volume::Volume;
use wharf_runtime::wake::Pause;

/// The rings of one client.
pub(super) struct ClientEnds {
    /// Rings when an answer comes; the source is the manager.
    pub(super) notifier: Notifier,
    /// To each manager.
    pub(super) requests: Vec<wharf_runtime::Sender<Message<Request>>>,
    /// From each manager.
    pub(super) answers: Vec<Receiver<Message<Answer>>>,
}

/// One client.
pub(super) struct CacheClient {
    pub(super) holder: Holder,
    pub(super) volume: Rc<Volume>,
    /// Failed write-backs that a flush of this client has reported.
    pub(super) told: ErrSeqCursor,
}

impl CacheClient {
    /// Client `index`, with its tasks on `cpu`.
    pub(super) fn start(
        cpu: &Cpu,
        shared: &Arc<Shared>,
        volume: Rc<Volume>,
        index: u32,
        ends: ClientEnds,
    ) -> Rc<CacheClient> {
        let client = Rc::new(CacheClient {
            told: ErrSeqCursor::new(shared.failures()),
            holder: Holder::new(cpu, shared, index, Outbox::new(ends.requests)),
            volume,
        });
        let pumping = client.clone();
        let (notifier, answers) = (ends.notifier, ends.answers);
        cpu.spawn("tri answers", async move {
            pumping.pump(&notifier, answers).await
        });
        let sending = client.clone();
        cpu.spawn("tri requests", async move {
            let holder = &sending.holder;
            holder.outbox.run(&holder.cpu).await
        });
        client
    }

    /// Serves a read or a write. Hits take none of the machinery of misses.
    #[inline]
    pub(super) async fn serve<P: Copied>(
        &self,
        extent: Extent,
        mut payload: P,
    ) -> Result<Touch, IoError> {
        let page_bytes = self.holder.shared.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, payload.bytes())?;
        let mut touch = Touch::no_hits(extent.pages());
        let mut rest = spans(extent, page_bytes);
        while let Some(span) = rest.next() {
            match self.holder.touch(&span, &mut payload) {
                Touched::Hit => touch.hits += 1,
                other => {
                    touch.hits += self.serve_slowly(span, other, rest, payload).await?;
                    break;
                }
            }
        }
        // What hits left to be said that somebody may wait for.
        self.holder.outbox.send_urgent(&self.holder.cpu);
        if P::WRITES && self.holder.shared.policy == WritePolicy::Through {
            self.write_through(extent).await?;
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
        let mut open = OpenPages::new(&self.holder);
        let mut hits = 0;
        let mut current = Some((span, touched));
        loop {
            while let Some((span, touched)) = current.take() {
                match touched {
                    Touched::Hit => hits += 1,
                    Touched::Ticket(ticket, part) => {
                        open.pages.push(OpenPage { span, ticket, part });
                    }
                    Touched::NoRoom => {
                        open.again.push(span);
                        break;
                    }
                }
                current = open
                    .again
                    .pop()
                    .or_else(|| rest.next())
                    .map(|span| (span, self.holder.touch(&span, &mut payload)));
            }
            if open.pages.is_empty() && open.again.is_empty() {
                return Ok(hits);
            }
            self.holder.outbox.send_urgent(&self.holder.cpu);
            let mut for_room = None;
            if !open.any_answered() {
                self.holder.note_idle();
                self.holder.counters.waits.add(1);
                let manager_of = |span: &Span| self.holder.shared.partition.locate(span.page).0;
                for_room = open.again.last().map(manager_of);
                // Either ends at an answer, too.
                match for_room {
                    Some(manager) => {
                        self.holder.for_room[manager as usize]
                            .wait(&self.holder.cpu)
                            .await
                    }
                    None => Pause::default().await,
                }
            }
            let copied = open.copy_answered(&mut payload);
            let next = match copied {
                Ok(_) => open.again.pop().or_else(|| rest.next()),
                Err(_) => None,
            };
            current = next.map(|span| (span, self.holder.touch(&span, &mut payload)));
            if let Some(manager) = for_room {
                self.holder.pass_room_on(manager);
            }
            hits += copied?;
        }
    }

    /// Takes answers, for as long as the CPU runs.
    async fn pump(&self, notifier: &Notifier, mut answers: Vec<Receiver<Message<Answer>>>) {
        notifier.attach(&self.holder.cpu);
        loop {
            let ready = notifier.wait(&self.holder.cpu).await;
            if self.holder.tickets.borrow().any_asked() {
                // The CPU had nothing to do since: it polled for this answer.
                let waited_ns = self
                    .holder
                    .cpu
                    .now()
                    .saturating_sub(self.holder.idle_since_ns.get());
                self.holder.counters.manager_wait_ns.add(waited_ns);
            }
            for manager in ready {
                let answers = &mut answers[manager as usize];
                while let Some(message) = receive(&self.holder.cpu, answers) {
                    message.items().iter().for_each(|a| self.holder.answer(a));
                }
            }
            self.holder.outbox.send_urgent(&self.holder.cpu);
            self.holder.note_idle();
        }
    }
}
