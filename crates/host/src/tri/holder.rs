//! What a client holds, and what it has asked for.
//!
//! A page that is held is used at once; another is pinned directly if it is there, or asked for,
//! under a ticket. An answer moves the ticket on, and wakes who waits for it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wharf_runtime::{Cpu, Notify, Op};

use crate::span::Span;
use crate::tri::copied::Copied;
use crate::tri::counters::ClientCounters;
use crate::tri::message::{Answer, Outbox, Outcome, Request, Wish};
use crate::tri::private::{Known, Private, Released};
use crate::tri::shared::Shared;
use crate::tri::tickets::{Asked, Progress, Tickets};

/// What one page of a request came to.
pub(super) enum Touched {
    /// It was in the cache, and is done.
    Hit,
    /// Its frame is on the way, because this request has asked for it, or another one.
    Ticket(u32, Part),
    /// The private cache has no place now.
    NoRoom,
}

/// A request's part in a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It opened the ticket.
    Asks,
    /// It opened the ticket, and fills the frame.
    Fills,
    /// It waits for what another one asked for.
    Joins,
}

/// A page that a request waits for.
#[derive(Clone, Copy)]
pub(super) struct OpenPage {
    /// The page, and what the request wants of it.
    pub(super) span: Span,
    /// The ticket that bears the answer.
    pub(super) ticket: u32,
    /// The request's part in it.
    pub(super) part: Part,
}

/// See the module.
pub(super) struct Holder {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    /// The client.
    pub(super) index: u32,
    pub(super) counters: ClientCounters,
    pub(super) private: RefCell<Vec<Private>>,
    pub(super) tickets: RefCell<Tickets>,
    pub(super) outbox: Outbox<Request>,
    /// For each manager: tasks that wait for a place in its private cache.
    pub(super) for_room: Box<[Notify]>,
    /// When a task last went to wait, or an answer was last looked at.
    pub(super) idle_since_ns: Cell<u64>,
    /// Lists of open pages that requests use one after the other.
    pub(super) spare: RefCell<Vec<Vec<OpenPage>>>,
}

impl Holder {
    /// Holds nothing.
    pub(super) fn new(
        cpu: &Cpu,
        shared: &Arc<Shared>,
        index: u32,
        outbox: Outbox<Request>,
    ) -> Holder {
        let private = shared.parts.iter().map(|part| Private::new(part.keeps));
        Holder {
            cpu: cpu.clone(),
            private: RefCell::new(private.collect()),
            shared: shared.clone(),
            index,
            counters: ClientCounters::default(),
            tickets: RefCell::default(),
            outbox,
            for_room: shared.parts.iter().map(|_| Notify::new()).collect(),
            idle_since_ns: Cell::new(0),
            spare: RefCell::default(),
        }
    }

    /// A place of a private cache has become free: one task can use it.
    pub(super) fn has_room(&self, manager: u32) {
        self.for_room[manager as usize].notify_one(&self.cpu);
    }

    /// A task was woken for a place, and has tried again: if one is free still, it is the next
    /// one's.
    pub(super) fn pass_room_on(&self, manager: u32) {
        if self.private.borrow()[manager as usize].has_room() {
            self.has_room(manager);
        }
    }

    /// Does one page of a request, as far as it goes without waiting.
    #[inline]
    pub(super) fn touch<P: Copied>(&self, span: &Span, payload: &mut P) -> Touched {
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

    /// From now on the CPU has nothing to do, as far as the caller knows.
    pub(super) fn note_idle(&self) {
        self.idle_since_ns.set(self.cpu.now());
    }

    pub(super) fn answer(&self, answer: &Answer) {
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
