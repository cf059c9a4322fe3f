//! A manager: takes messages, pins pages that are there, has others fetched, answers.
//!
//! One task takes everything that has arrived, of all clients, before it sends a command or an
//! answer: so commands and answers go out in batches. Commands are waited for by other tasks
//! (`fetch.rs`, `write_back.rs`) of the same CPU.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use wharf_runtime::notifier::SOURCES;
use wharf_runtime::{Cpu, Notifier, Notify, Op, Receiver, Sender};

use crate::buffers::Buffers;
use crate::design::Counters;
use crate::error::IoError;
use crate::late::LateCompletions;
use crate::tri::counters::ManagerAccount;
use crate::tri::message::{Answer, Message, Outbox, Outcome, Request, Wish, receive};
use crate::tri::pool::Pool;
use crate::tri::shared::{Part, Shared};
use crate::tri::table::{Frames, PageTable};
use crate::tri::under_way::{Asker, Fetch, Held, UnderWay, Want, WriteBack};
use crate::volume::Volume;

/// What a manager knows of its pages.
pub(super) struct State {
    pub(super) pool: Pool,
    pub(super) under_way: FxHashMap<u64, UnderWay>,
    /// Pages to fetch when all messages have been taken.
    pub(super) wanted: Vec<Want>,
    /// Those that got a frame; empty between two times that some are looked for.
    pub(super) fetches: Vec<Fetch>,
    /// Pages for which there was no frame.
    pub(super) starved: VecDeque<Want>,
}

/// The rings of one manager.
pub(super) struct ManagerEnds {
    /// Rings when a request comes; the source is the client, modulo [`SOURCES`].
    pub(super) notifier: Notifier,
    /// From each client.
    pub(super) requests: Vec<Receiver<Message<Request>>>,
    /// To each client.
    pub(super) answers: Vec<Sender<Message<Answer>>>,
}

/// See the module.
pub(super) struct Manager {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) volume: Rc<Volume>,
    pub(super) index: u32,
    pub(super) state: RefCell<State>,
    pub(super) counters: Counters,
    outbox: Outbox<Answer>,
    /// Runs of pages to be fetched, which no worker has taken.
    pub(super) jobs: RefCell<VecDeque<Vec<Fetch>>>,
    pub(super) job_ready: Notify,
    command_ended: Notify,
    /// Lists of jobs that are done, for new ones.
    pub(super) spare_jobs: RefCell<Vec<Vec<Fetch>>>,
    pub(super) workers: Cell<u32>,
    /// Workers without a job, also those that have not noticed yet that there is one.
    pub(super) idle_workers: Cell<u32>,
    /// Write-backs asked for and not begun.
    pub(super) write_backs: RefCell<Vec<WriteBack>>,
    pub(super) write_back_ready: Notify,
    /// A page has left, or come back.
    pub(super) settled: Notify,
    /// Copies that are written back.
    pub(super) copies: Buffers,
    /// Of these, copies that wait for a command that timed out.
    pub(super) copies_stuck: Cell<u32>,
    pub(super) late: LateCompletions<Held>,
}

impl Manager {
    /// Starts manager `index`, with its tasks on `cpu`.
    pub(super) fn start(
        cpu: &Cpu,
        shared: &Arc<Shared>,
        volume: Rc<Volume>,
        index: u32,
        ends: ManagerEnds,
        copies: Buffers,
    ) {
        let part = &shared.parts[index as usize];
        let manager = Rc::new(Manager {
            state: RefCell::new(State {
                pool: Pool::new(part.first_frame, part.frames),
                under_way: FxHashMap::default(),
                wanted: Vec::new(),
                fetches: Vec::new(),
                starved: VecDeque::new(),
            }),
            cpu: cpu.clone(),
            shared: shared.clone(),
            volume,
            index,
            counters: Counters::default(),
            outbox: Outbox::new(ends.answers),
            jobs: RefCell::default(),
            job_ready: Notify::new(),
            command_ended: Notify::new(),
            spare_jobs: RefCell::default(),
            workers: Cell::new(0),
            idle_workers: Cell::new(0),
            write_backs: RefCell::default(),
            write_back_ready: Notify::new(),
            settled: Notify::new(),
            copies,
            copies_stuck: Cell::new(0),
            late: LateCompletions::default(),
        });
        let (pumping, notifier, requests) = (manager.clone(), ends.notifier, ends.requests);
        cpu.spawn("tri manager", async move {
            pumping.pump(&notifier, requests).await
        });
        let sending = manager.clone();
        cpu.spawn("tri answers", async move {
            sending.outbox.run(&sending.cpu).await
        });
        cpu.spawn("tri follow-up", manager.clone().follow_up());
        let writing = manager.clone();
        cpu.spawn("tri write-back", async move { writing.write_back().await });
        cpu.spawn("tri late completions", async move {
            let release = |_, held| manager.release(held);
            manager.late.run(&manager.cpu, release).await;
        });
    }

    pub(super) fn part(&self) -> &Part {
        &self.shared.parts[self.index as usize]
    }

    pub(super) fn frames(&self) -> &Frames {
        &self.shared.frames
    }

    fn table(&self) -> &PageTable {
        &self.part().table
    }

    fn block(&self, page: u64) -> u64 {
        self.shared.partition.locate(page).1
    }

    /// Takes requests, for as long as the CPU runs.
    async fn pump(
        self: Rc<Self>,
        notifier: &Notifier,
        mut requests: Vec<Receiver<Message<Request>>>,
    ) {
        notifier.attach(&self.cpu);
        loop {
            let ready = notifier.wait(&self.cpu).await;
            for source in ready {
                let rings = requests.iter_mut().enumerate();
                for (client, ring) in rings.skip(source as usize).step_by(SOURCES) {
                    while let Some(message) = receive(&self.cpu, ring) {
                        let taken_ns = self.cpu.account_now();
                        let items = message.items().iter();
                        items.for_each(|request| self.serve(client as u32, request, taken_ns));
                    }
                }
            }
            self.go_on();
        }
    }

    /// As [`Manager::go_on`], when all tasks whose commands have ended by now have had their turn: so
    /// their answers share messages.
    pub(super) fn go_on_soon(&self) {
        self.command_ended.notify_all(&self.cpu);
    }

    /// Goes on after commands, for as long as the CPU runs.
    async fn follow_up(self: Rc<Self>) {
        loop {
            self.command_ended.wait(&self.cpu).await;
            self.go_on();
        }
    }

    /// Does what requests, or the end of a command, have made possible, and sends the answers.
    fn go_on(self: &Rc<Self>) {
        self.start_fetches();
        self.outbox.send_urgent(&self.cpu);
        let did = ManagerAccount {
            statistics: self.counters.own(),
            polled_ns: self.volume.polled_ns(),
        };
        self.shared.account(self.index, did);
    }

    fn serve(&self, client: u32, request: &Request, taken_ns: u64) {
        let page = request.page;
        let asker = |fills| Asker {
            client,
            ticket: request.ticket,
            fills,
            taken_ns,
        };
        match request.wish {
            Wish::Pin => self.pin(page, asker(false)),
            Wish::PinWhole => self.pin(page, asker(true)),
            Wish::Unpin => self.unpin(page, false),
            Wish::DirtyUnpin => self.unpin(page, true),
            Wish::DirectPin => {
                if let Some(frame) = self.find(page) {
                    self.state.borrow_mut().pool.set_used(frame);
                }
            }
            Wish::Filled => self.reconsider(page),
            Wish::Abandoned => {
                let frame = self.find(page).expect("a page to be filled has a frame");
                self.discard(page, frame);
                self.reconsider(page);
            }
            Wish::WriteBack => self.order_write_back(asker(false), Some(page)),
            Wish::WriteBackAll => self.order_write_back(asker(false), None),
        }
    }

    /// The frame that holds a page, busy or open.
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let (cpu, frames) = (&self.cpu, self.frames());
        let is_page = |frame| frames.word_to_read(cpu, frame).state().holds(page);
        let block = self.block(page);
        cpu.work(Op::ManagerLookup, || self.table().find(cpu, block, is_page))
    }

    /// Pins a page for a client, at once or when it is there.
    fn pin(&self, page: u64, asker: Asker) {
        let state = &mut *self.state.borrow_mut();
        if let Some(under_way) = state.under_way.get_mut(&page) {
            match under_way.is_stuck {
                true => self.fail(asker, IoError::Stuck { page }),
                false => under_way.askers.push(asker),
            }
            return;
        }
        if let Some(frame) = self.find(page) {
            self.frames().word_to_write(&self.cpu, frame).pin();
            state.pool.set_used(frame);
            return self.answer(asker, frame, Outcome::Hit);
        }
        let mut under_way = UnderWay::default();
        under_way.askers.push(asker);
        state.under_way.insert(page, under_way);
        state.wanted.push(Want { page, attempts: 0 });
    }

    fn unpin(&self, page: u64, wrote: bool) {
        let frame = self.find(page).expect("a pinned page is in the cache");
        let pool = &mut self.state.borrow_mut().pool;
        // A flush may have written it back meanwhile.
        let is_dirty = wrote && pool.has_changed(&self.shared, frame);
        let pins = self
            .frames()
            .word_to_write(&self.cpu, frame)
            .unpin(is_dirty);
        pool.set_used(frame);
        if pins == 0 {
            pool.offer(frame);
        }
    }

    pub(super) fn answer(&self, asker: Asker, frame: u32, outcome: Outcome) {
        let held_ns = self.cpu.account_now() - asker.taken_ns;
        let answer = Answer {
            ticket: asker.ticket,
            frame,
            held_ns: held_ns.try_into().unwrap_or(u32::MAX),
            outcome,
        };
        self.outbox.post(&self.cpu, asker.client, answer, true);
    }

    #[cold]
    pub(super) fn fail(&self, asker: Asker, error: IoError) {
        self.shared.put_error(asker.client, asker.ticket, error);
        self.answer(asker, 0, Outcome::Failed);
    }

    /// Gives a busy frame to a page: in the page table from here on.
    pub(super) fn assign(&self, frame: u32, page: u64) {
        self.frames().word_to_write(&self.cpu, frame).assign(page);
        let block = self.block(page);
        self.cpu.work(Op::ManagerUpdate, || {
            self.table().insert(&self.cpu, block, frame);
        });
    }

    /// Takes the page of a busy frame out of the page table.
    pub(super) fn displace(&self, frame: u32, page: u64) {
        let block_of = |frame| {
            let state = self.frames().word_to_read(&self.cpu, frame).state();
            self.block(state.page().expect("a frame of the table has a page"))
        };
        let block = self.block(page);
        self.cpu.work(Op::ManagerUpdate, || {
            self.table().remove(&self.cpu, block, frame, block_of);
        });
    }

    /// Drops a page that is not there: its frame is empty.
    pub(super) fn discard(&self, page: u64, frame: u32) {
        self.displace(frame, page);
        self.frames().word_to_write(&self.cpu, frame).clear();
        self.state.borrow_mut().pool.give_back(frame);
    }

    /// A page has come, left or come back: serves everyone who has asked for it meanwhile.
    pub(super) fn reconsider(&self, page: u64) {
        let gone = self.state.borrow_mut().under_way.remove(&page);
        for asker in gone.unwrap_or_default().askers.into_all() {
            self.pin(page, asker);
        }
    }

    /// A page does not come: everyone who has asked hears of it.
    pub(super) fn fail_all(&self, page: u64, error: IoError) {
        let gone = self.state.borrow_mut().under_way.remove(&page);
        for asker in gone.unwrap_or_default().askers.into_all() {
            self.fail(asker, error);
        }
    }

    /// The drive does not answer for a page: who asks for it fails until it does.
    pub(super) fn set_stuck(&self, frame: u32, page: u64) {
        let state = &mut *self.state.borrow_mut();
        state.pool.set_stuck(frame, true);
        let under_way = state.under_way.entry(page).or_default();
        under_way.is_stuck = true;
        for asker in std::mem::take(&mut under_way.askers).into_all() {
            self.fail(asker, IoError::Stuck { page });
        }
    }
}
