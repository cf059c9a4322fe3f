//! What a client does with a request: hits at once, the rest through tickets.
//!
//! Nobody holds one page while waiting for another: a page that is there is copied and left, and only
//! then the next is waited for. So requests of any size get along with any number of frames.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Notifier, Notify, Op, Receiver};

use crate::design::{Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::payload::{From, Into, Payload};
use crate::span::{Extent, Span, Spans, spans};
use crate::tri::Shared;
use crate::tri::counters::ClientCounters;
use crate::tri::message::{Answer, Message, Outbox, Outcome, Request, Wish, receive};
use crate::tri::open::{OpenPage, OpenPages, Part};
use crate::tri::private::{Known, Private, Released};
use crate::tri::table::Frames;
use crate::tri::tickets::{Asked, Progress, Tickets};
use crate::volume::Volume;
use crate::wake::Pause;

/// How a payload meets a frame.
pub(super) trait Copied: Payload {
    /// Copies a span from or to a frame that the client has pinned.
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span);
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span) {
        cpu.work(Op::CopyPage, || frames.copy_out(cpu, frame, span, self.0));
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span) {
        cpu.work(Op::CopyPage, || frames.copy_in(cpu, frame, span, self.0));
    }
}

/// What one page of a request came to.
enum Touched {
    /// It was in the cache, and is done.
    Hit,
    /// Its frame is on the way, because this request has asked for it, or another one.
    Ticket(u32, Part),
    /// The private cache has no place now.
    NoRoom,
}

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
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) volume: Rc<Volume>,
    pub(super) index: u32,
    pub(super) counters: ClientCounters,
    pub(super) private: RefCell<Vec<Private>>,
    pub(super) tickets: RefCell<Tickets>,
    pub(super) outbox: Outbox<Request>,
    /// For each manager: tasks that wait for a place in its private cache.
    for_room: Box<[Notify]>,
    /// When a task last went to wait, or an answer was last looked at.
    idle_since_ns: Cell<u64>,
    /// Lists of open pages that requests use one after the other.
    pub(super) spare: RefCell<Vec<Vec<OpenPage>>>,
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
        let private = shared.parts.iter().map(|part| Private::new(part.keeps));
        let client = Rc::new(CacheClient {
            cpu: cpu.clone(),
            told: ErrSeqCursor::new(shared.failures()),
            private: RefCell::new(private.collect()),
            shared: shared.clone(),
            volume,
            index,
            counters: ClientCounters::default(),
            tickets: RefCell::default(),
            outbox: Outbox::new(ends.requests),
            for_room: shared.parts.iter().map(|_| Notify::new()).collect(),
            idle_since_ns: Cell::new(0),
            spare: RefCell::default(),
        });
        let pumping = client.clone();
        let (notifier, answers) = (ends.notifier, ends.answers);
        cpu.spawn("tri answers", async move {
            pumping.pump(&notifier, answers).await
        });
        let sending = client.clone();
        cpu.spawn("tri requests", async move {
            sending.outbox.run(&sending.cpu).await
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
        let page_bytes = self.shared.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, payload.bytes())?;
        let mut touch = Touch::no_hits(extent.pages());
        let mut rest = spans(extent, page_bytes);
        while let Some(span) = rest.next() {
            match self.touch(&span, &mut payload) {
                Touched::Hit => touch.hits += 1,
                other => {
                    touch.hits += self.serve_slowly(span, other, rest, payload).await?;
                    break;
                }
            }
        }
        // What hits left to be said that somebody may wait for.
        self.outbox.send_urgent(&self.cpu);
        if P::WRITES && self.shared.policy == WritePolicy::Through {
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
        let mut open = OpenPages::new(self);
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
                    .map(|span| (span, self.touch(&span, &mut payload)));
            }
            if open.pages.is_empty() && open.again.is_empty() {
                return Ok(hits);
            }
            self.outbox.send_urgent(&self.cpu);
            let mut for_room = None;
            if !open.any_answered() {
                self.note_idle();
                self.counters.waits.add(1);
                let manager_of = |span: &Span| self.shared.partition.locate(span.page).0;
                for_room = open.again.last().map(manager_of);
                // Either ends at an answer, too.
                match for_room {
                    Some(manager) => self.for_room[manager as usize].wait(&self.cpu).await,
                    None => Pause::default().await,
                }
            }
            let copied = open.copy_answered(&mut payload);
            let next = match copied {
                Ok(_) => open.again.pop().or_else(|| rest.next()),
                Err(_) => None,
            };
            current = next.map(|span| (span, self.touch(&span, &mut payload)));
            if let Some(manager) = for_room {
                self.pass_room_on(manager);
            }
            hits += copied?;
        }
    }

    /// A place of a private cache has become free: one task can use it.
    fn has_room(&self, manager: u32) {
        self.for_room[manager as usize].notify_one(&self.cpu);
    }

    /// A task was woken for a place, and has tried again: if one is free still, it is the next one's.
    fn pass_room_on(&self, manager: u32) {
        if self.private.borrow()[manager as usize].has_room() {
            self.has_room(manager);
        }
    }

    /// Does one page of a request, as far as it goes without waiting.
    #[inline]
    fn touch<P: Copied>(&self, span: &Span, payload: &mut P) -> Touched {
        let (manager, block) = self.shared.partition.locate(span.page);
        let private = &mut self.private.borrow_mut()[manager as usize];
        let known = self.cpu.work(Op::PrivateLookup, || private.find(block));
        match known {
            Known::Held(place, frame) => {
                payload.copy(&self.cpu, &self.shared.frames, frame, span);
                if P::WRITES {
                    private.set_wrote(place);
                }
                Touched::Hit
            }
            Known::Awaited(ticket) => {
                self.tickets.borrow_mut().join(ticket, self.cpu.current());
                Touched::Ticket(ticket, Part::Joins)
            }
            Known::No => self.miss(private, manager, block, span, payload),
        }
    }

    /// A page that the client does not hold: pinned directly, or asked for.
    #[cold]
    fn miss<P: Copied>(
        &self,
        private: &mut Private,
        manager: u32,
        block: u64,
        span: &Span,
        payload: &mut P,
    ) -> Touched {
        let cpu = &self.cpu;
        let Some((place, gone, steps)) = cpu.work(Op::PrivateUpdate, || private.make_room()) else {
            return Touched::NoRoom;
        };
        cpu.work_n(Op::ClockStep, steps, || ());
        if let Some(gone) = gone {
            self.unpin(manager, gone);
        }
        if let Some(frame) = self.pin_directly(manager, block, span.page) {
            private.hold(place, block, frame);
            payload.copy(cpu, &self.shared.frames, frame, span);
            if P::WRITES {
                private.set_wrote(place);
            }
            if let Some(gone) = private.pass_by(place) {
                self.unpin(manager, gone);
            }
            return Touched::Hit;
        }
        let asked = Asked {
            manager,
            pin: Some((block, place)),
        };
        let fills = P::WRITES && span.whole && !self.shared.reads_before_overwrite;
        let (wish, part) = match fills {
            true => (Wish::PinWhole, Part::Fills),
            false => (Wish::Pin, Part::Asks),
        };
        let ticket = self.ask(asked, wish, span.page);
        private.await_frame(place, block, ticket);
        Touched::Ticket(ticket, part)
    }

    /// Pins a page of the cache that is open, without its manager.
    fn pin_directly(&self, manager: u32, block: u64, page: u64) -> Option<u32> {
        let (cpu, frames) = (&self.cpu, &self.shared.frames);
        let table = &self.shared.parts[manager as usize].table;
        let is_page = |frame| frames.word_to_read(cpu, frame).state().holds(page);
        let frame = cpu.work(Op::ManagerLookup, || table.find(cpu, block, is_page))?;
        let pins_before = frames.word_to_write(cpu, frame).try_pin(page)?;
        if pins_before == 0 {
            self.post(manager, Wish::DirectPin, page, false);
        }
        Some(frame)
    }

    fn post(&self, manager: u32, wish: Wish, page: u64, is_urgent: bool) {
        let request = Request {
            page,
            ticket: 0,
            wish,
        };
        self.outbox.post(&self.cpu, manager, request, is_urgent);
    }

    /// Lets a page go.
    fn unpin(&self, manager: u32, gone: Released) {
        let wish = match gone.wrote {
            true => Wish::DirtyUnpin,
            false => Wish::Unpin,
        };
        let page = self.shared.partition.page(manager, gone.block);
        let lingers = self.shared.parts[manager as usize].unpins_linger;
        self.post(manager, wish, page, !lingers);
    }

    /// Asks a manager, under a new ticket of the running task.
    pub(super) fn ask(&self, asked: Asked, wish: Wish, page: u64) -> u32 {
        let (task, now_ns) = (self.cpu.current(), self.cpu.account_now());
        let ticket = self.tickets.borrow_mut().open(asked, task, now_ns);
        let request = Request { page, ticket, wish };
        self.outbox.post(&self.cpu, asked.manager, request, true);
        ticket
    }

    /// Takes answers, for as long as the CPU runs.
    async fn pump(&self, notifier: &Notifier, mut answers: Vec<Receiver<Message<Answer>>>) {
        notifier.attach(&self.cpu);
        loop {
            let ready = notifier.wait(&self.cpu).await;
            if self.tickets.borrow().any_asked() {
                // The CPU had nothing to do since: it polled for this answer.
                let waited_ns = self.cpu.now().saturating_sub(self.idle_since_ns.get());
                self.counters.manager_wait_ns.add(waited_ns);
            }
            for manager in ready {
                let answers = &mut answers[manager as usize];
                while let Some(message) = receive(&self.cpu, answers) {
                    message.items().iter().for_each(|a| self.answer(a));
                }
            }
            self.outbox.send_urgent(&self.cpu);
            self.note_idle();
        }
    }

    /// From now on the CPU has nothing to do, as far as the caller knows.
    pub(super) fn note_idle(&self) {
        self.idle_since_ns.set(self.cpu.now());
    }

    fn answer(&self, answer: &Answer) {
        let (number, frame) = (answer.ticket, answer.frame);
        let progress = match answer.outcome {
            Outcome::Hit => Progress::Here { frame, hit: true },
            Outcome::Read => Progress::Here { frame, hit: false },
            Outcome::Fill => Progress::ToFill { frame },
            Outcome::Written => Progress::Written,
            Outcome::Failed => Progress::Failed(self.shared.take_error(self.index, number)),
        };
        let mut tickets = self.tickets.borrow_mut();
        tickets.set(number, progress);
        let ticket = tickets.get(number);
        let (asked, asked_ns) = (ticket.asked, ticket.asked_ns);
        drop(tickets);
        if asked.pin.is_some() {
            let (all_ns, held_ns) = (self.cpu.account_now() - asked_ns, u64::from(answer.held_ns));
            self.counters.manager_asks.add(1);
            self.counters.manager_held_ns.add(held_ns);
            self.counters
                .manager_queue_ns
                .add(all_ns.saturating_sub(held_ns));
        }
        if let Some((_, place)) = asked.pin {
            let private = &mut self.private.borrow_mut()[asked.manager as usize];
            self.cpu.work(Op::PrivateUpdate, || match progress {
                Progress::Here { frame, .. } => private.set_held(place, frame),
                Progress::Failed(_) => private.forget(place),
                _ => {}
            });
        }
        if let (Progress::Failed(_), Some(_)) = (progress, asked.pin) {
            self.has_room(asked.manager);
        }
        self.wake_users(number);
        if self.tickets.borrow().get(number).nobody_fills {
            self.abandon_if_to_fill(number);
        }
        if self.tickets.borrow().is_deserted(number) {
            self.close(number);
        }
    }

    fn wake_users(&self, number: u32) {
        let tickets = self.tickets.borrow();
        tickets.waiters(number).for_each(|task| self.cpu.wake(task));
    }

    /// A task is done with a page, or gives up; `fills` if it was to fill it.
    pub(super) fn leave(&self, number: u32, fills: bool) {
        let is_last = self.tickets.borrow_mut().leave(number, fills);
        if fills {
            self.abandon_if_to_fill(number);
        }
        if is_last && self.tickets.borrow().get(number).progress != Progress::Asked {
            self.close(number);
        }
    }

    /// Nobody will fill a frame that waits for it.
    fn abandon_if_to_fill(&self, number: u32) {
        let Progress::ToFill { .. } = self.tickets.borrow().get(number).progress else {
            return;
        };
        let asked = self.tickets.borrow().get(number).asked;
        let (block, place) = asked.pin.expect("a frame is filled for a pin");
        self.private.borrow_mut()[asked.manager as usize].forget(place);
        self.tickets.borrow_mut().set(number, Progress::Abandoned);
        let page = self.shared.partition.page(asked.manager, block);
        self.post(asked.manager, Wish::Abandoned, page, true);
        self.outbox.send_urgent(&self.cpu);
        self.wake_users(number);
        self.has_room(asked.manager);
    }

    fn close(&self, number: u32) {
        let (asked, progress) = {
            let tickets = self.tickets.borrow();
            (tickets.get(number).asked, tickets.get(number).progress)
        };
        self.tickets.borrow_mut().close(number);
        if let (Some((_, place)), Progress::Here { .. }) = (asked.pin, progress) {
            let gone = self.private.borrow_mut()[asked.manager as usize].close(place);
            if let Some(gone) = gone {
                self.unpin(asked.manager, gone);
            }
            self.has_room(asked.manager);
        }
    }

    /// The task that was to fill a frame has done so: opens it.
    pub(super) fn filled(&self, number: u32, frame: u32) {
        let asked = self.tickets.borrow().get(number).asked;
        let (block, place) = asked.pin.expect("a frame is filled for a pin");
        // From here on other clients may pin it, and a flush of any client sees what was written.
        self.shared.frames.word_to_write(&self.cpu, frame).open(1);
        self.private.borrow_mut()[asked.manager as usize].set_held(place, frame);
        let here = Progress::Here { frame, hit: false };
        self.tickets.borrow_mut().set(number, here);
        let page = self.shared.partition.page(asked.manager, block);
        self.post(asked.manager, Wish::Filled, page, true);
        self.wake_users(number);
    }

    /// Bytes that the private caches take.
    pub(super) fn bookkeeping_bytes(&self) -> usize {
        self.private.borrow().iter().map(Private::bytes).sum()
    }

    /// Tickets that are open: none at rest.
    pub(super) fn open_tickets(&self) -> usize {
        self.tickets.borrow().open_count()
    }
}
