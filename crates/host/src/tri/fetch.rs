//! Fetching pages: a frame for each, the page that must leave it, the read.
//!
//! 1. When a manager has taken all messages it gives every page that is wanted a frame. Pages that
//!    need no command (to be overwritten whole, in a frame that was free or clean) are answered.
//! 2. Neighbours become one *job*. With pages dealt to managers one by one that needs a single
//!    manager: with more, a request of 16 pages becomes 16 commands.
//! 3. A worker takes the job: dirty pages that leave are written, then the pages are read, and who
//!    asked for them is answered.
//!
//! While a page leaves or comes it is *under way*, and requests for it wait. A page that cannot be
//! written stays, dirty, and the one that was to come gets another frame. After a timeout the drive
//! may still use the frame: it is left to the late, and requests for its page fail. Requests for
//! other pages wait for a frame as long as one is in use that comes back by itself.

use std::rc::Rc;

use crate::error::IoError;
use crate::group::Group;
use crate::tri::manager::Manager;
use crate::tri::message::Outcome;
use crate::tri::pool::Taken;
use crate::tri::under_way::{Fetch, Held, Want};
use crate::volume::Transfer;

/// Tasks of a manager that wait for commands. More jobs wait in line.
const WORKERS_MAX: u32 = 256;

/// Most pages of a job.
const JOB_PAGES_MAX: usize = 256;

/// How often a page tries to get another frame when dirty pages cannot be written.
const ATTEMPTS_MAX: u32 = 4;

/// Lists of a worker, reused from job to job.
#[derive(Default)]
struct Scratch {
    addresses: Vec<u64>,
    groups: Vec<Option<Group>>,
    all: Vec<Fetch>,
}

impl Manager {
    /// Gives frames to the pages that are wanted, and has them fetched.
    pub(super) fn start_fetches(self: &Rc<Self>) {
        let mut fetches = std::mem::take(&mut self.state.borrow_mut().fetches);
        loop {
            let want = {
                let state = &mut *self.state.borrow_mut();
                if !state.wanted.is_empty() {
                    state.starved.extend(state.wanted.drain(..));
                }
                match state.pool.has_any() || state.pool.has_stuck() {
                    true => state.starved.pop_front(),
                    false => None,
                }
            };
            let Some(want) = want else { break };
            match self.take_frame(want) {
                Some(fetch) => self.begin(fetch, &mut fetches),
                None => break,
            }
        }
        fetches.sort_unstable_by_key(|fetch: &Fetch| fetch.want.page);
        for run in fetches.chunk_by(|a, b| a.want.page + 1 == b.want.page) {
            run.chunks(JOB_PAGES_MAX).for_each(|run| self.add_job(run));
        }
        fetches.clear();
        self.state.borrow_mut().fetches = fetches;
    }

    /// A frame for a page; without one the page is put back in line, or fails.
    fn take_frame(&self, want: Want) -> Option<Fetch> {
        let state = &mut *self.state.borrow_mut();
        let Some(taken) = state.pool.take(&self.cpu, &self.shared) else {
            state.starved.push_front(want);
            let keeps = self.part().keeps > 0;
            if !state.pool.is_hopeless(&self.cpu, &self.shared, keeps) {
                // A frame is in use, and comes back.
                return None;
            }
            // Nobody knows when a stuck frame will be free.
            let starved = std::mem::take(&mut state.starved);
            let mut fail = |page| {
                let gone = state.under_way.remove(&page);
                for asker in gone.unwrap_or_default().askers.into_all() {
                    self.fail(asker, IoError::Stuck { page });
                }
            };
            starved.iter().for_each(|want| fail(want.page));
            return None;
        };
        let askers = &state.under_way[&want.page].askers;
        let fills = askers.first().is_some_and(|asker| asker.fills);
        let (frame, leaving) = match taken {
            Taken::Free(frame) => (frame, None),
            Taken::Clean(frame, page) => {
                self.displace(frame, page);
                (frame, None)
            }
            Taken::Dirty(frame, page) => {
                state.under_way.insert(page, Default::default());
                (frame, Some(page))
            }
        };
        self.counters
            .evictions
            .add(u64::from(!matches!(taken, Taken::Free(_))));
        Some(Fetch {
            want,
            frame,
            leaving,
            fills,
        })
    }

    /// Does what takes no command; the rest is for a worker.
    fn begin(&self, fetch: Fetch, fetches: &mut Vec<Fetch>) {
        if fetch.leaving.is_some() {
            return fetches.push(fetch);
        }
        self.assign(fetch.frame, fetch.want.page);
        match fetch.fills {
            true => self.hand_over(fetch),
            false => fetches.push(fetch),
        }
    }

    /// Gives a frame to the client that will fill it. The page stays under way until it has.
    fn hand_over(&self, fetch: Fetch) {
        let state = &mut *self.state.borrow_mut();
        state.pool.set_unchanged(&self.shared, fetch.frame);
        let under_way = state.under_way.get_mut(&fetch.want.page);
        let first = under_way.and_then(|under_way| under_way.askers.take_first());
        let first = first.expect("who asked first still waits");
        self.answer(first, fetch.frame, Outcome::Fill);
    }

    /// Leaves a job to the workers that have none, or to a new one if there are more jobs than these.
    fn add_job(self: &Rc<Self>, run: &[Fetch]) {
        let mut job = self.spare_jobs.borrow_mut().pop().unwrap_or_default();
        job.extend_from_slice(run);
        let jobs = {
            let mut jobs = self.jobs.borrow_mut();
            jobs.push_back(job);
            jobs.len() as u32
        };
        if jobs > self.idle_workers.get() && self.workers.get() < WORKERS_MAX {
            self.workers.set(self.workers.get() + 1);
            self.idle_workers.set(self.idle_workers.get() + 1);
            let manager = self.clone();
            self.cpu
                .spawn("tri worker", async move { manager.work().await });
        } else {
            self.job_ready.notify_one(&self.cpu);
        }
    }

    /// Does one job after the other, for as long as the CPU runs.
    async fn work(self: Rc<Self>) {
        let mut scratch = Scratch::default();
        loop {
            let job = self.jobs.borrow_mut().pop_front();
            let Some(mut job) = job else {
                self.job_ready.wait(&self.cpu).await;
                continue;
            };
            self.idle_workers.set(self.idle_workers.get() - 1);
            if job.iter().any(|fetch| fetch.leaving.is_some()) {
                self.write_leaving(&mut job, &mut scratch).await;
                self.go_on_soon();
            }
            for run in job.chunk_by(|a, b| a.want.page + 1 == b.want.page) {
                self.read(run, &mut scratch.addresses).await;
            }
            job.clear();
            self.spare_jobs.borrow_mut().push(job);
            self.idle_workers.set(self.idle_workers.get() + 1);
            self.go_on_soon();
        }
    }

    /// Writes the dirty pages that leave. Only pages that still need a read remain in the job.
    async fn write_leaving(&self, job: &mut Vec<Fetch>, scratch: &mut Scratch) {
        for fetch in job.iter() {
            let Some(page) = fetch.leaving else {
                scratch.groups.push(None);
                continue;
            };
            let group = self.volume.open_group();
            let addresses = [self.frames().address(fetch.frame)];
            self.volume
                .issue(&group, Transfer::Write, page, &addresses)
                .await;
            scratch.groups.push(Some(group));
        }
        self.volume.ring();
        std::mem::swap(job, &mut scratch.all);
        for (fetch, group) in scratch.all.drain(..).zip(scratch.groups.drain(..)) {
            let (Some(group), Some(page)) = (group, fetch.leaving) else {
                job.push(fetch);
                continue;
            };
            match group.wait(&self.cpu).await {
                Ok(_) => self.has_left(fetch, page, job),
                Err(error) => self.has_not_left(fetch, page, group, error),
            }
            self.settled.notify_all(&self.cpu);
        }
    }

    /// A dirty page is on the drive: its frame goes to the one that comes.
    fn has_left(&self, fetch: Fetch, page: u64, job: &mut Vec<Fetch>) {
        self.counters.write_backs.add(1);
        self.displace(fetch.frame, page);
        self.assign(fetch.frame, fetch.want.page);
        self.reconsider(page);
        match fetch.fills {
            true => self.hand_over(fetch),
            false => job.push(fetch),
        }
    }

    #[cold]
    fn has_not_left(&self, fetch: Fetch, page: u64, group: Group, error: IoError) {
        self.shared.note_failures(1);
        if !group.is_quiet() {
            self.set_stuck(fetch.frame, page);
            let held = Held::Leaving(fetch.frame, page);
            self.late.adopt(&self.cpu, group, held);
            return self.fail_all(fetch.want.page, error);
        }
        self.stays(fetch.frame, page);
        let attempts = fetch.want.attempts + 1;
        match attempts < ATTEMPTS_MAX {
            true => self.state.borrow_mut().wanted.push(Want {
                attempts,
                ..fetch.want
            }),
            false => self.fail_all(fetch.want.page, error),
        }
    }

    /// A dirty page that was to leave stays.
    fn stays(&self, frame: u32, page: u64) {
        self.frames().word_to_write(&self.cpu, frame).open(0);
        {
            let pool = &mut self.state.borrow_mut().pool;
            pool.set_used(frame);
            pool.offer(frame);
        }
        self.reconsider(page);
    }

    /// Reads a run of pages, and answers everyone who asked for them.
    async fn read(&self, run: &[Fetch], addresses: &mut Vec<u64>) {
        addresses.clear();
        addresses.extend(run.iter().map(|fetch| self.frames().address(fetch.frame)));
        let group = self.volume.open_group();
        let first = run[0].want.page;
        self.volume
            .issue(&group, Transfer::Read, first, addresses)
            .await;
        self.volume.ring();
        match group.wait(&self.cpu).await {
            Ok(_) => run.iter().for_each(|fetch| self.has_come(fetch)),
            Err(error) => self.has_not_come(run, group, error),
        }
    }

    fn has_come(&self, fetch: &Fetch) {
        let (page, frame) = (fetch.want.page, fetch.frame);
        let gone = {
            let state = &mut *self.state.borrow_mut();
            state.pool.set_unchanged(&self.shared, frame);
            state.under_way.remove(&page)
        };
        let askers = gone.unwrap_or_default().askers;
        let word = self.frames().word_to_write(&self.cpu, frame);
        word.open(askers.count());
        // The others found it on its way.
        let outcomes = std::iter::once(Outcome::Read).chain(std::iter::repeat(Outcome::Hit));
        for (asker, outcome) in askers.into_all().zip(outcomes) {
            self.answer(asker, frame, outcome);
        }
    }

    #[cold]
    fn has_not_come(&self, run: &[Fetch], group: Group, error: IoError) {
        let pages = run.iter().map(|fetch| (fetch.frame, fetch.want.page));
        if group.is_quiet() {
            for (frame, page) in pages {
                self.discard(page, frame);
                self.fail_all(page, error);
            }
            return;
        }
        for fetch in run {
            self.fail_all(fetch.want.page, error);
            self.set_stuck(fetch.frame, fetch.want.page);
        }
        let held = Held::Coming(pages.collect());
        self.late.adopt(&self.cpu, group, held);
    }

    /// The drive has answered a command that had timed out.
    pub(super) fn release(&self, held: Held) {
        match held {
            Held::Leaving(frame, page) => {
                self.state.borrow_mut().pool.set_stuck(frame, false);
                self.stays(frame, page);
            }
            Held::Coming(pages) => {
                for (frame, page) in pages {
                    self.state.borrow_mut().pool.set_stuck(frame, false);
                    self.discard(page, frame);
                    self.reconsider(page);
                }
            }
            Held::Copies(frames, mut copies) => {
                self.copies_stuck
                    .set(self.copies_stuck.get() - copies.len() as u32);
                self.copies.give_back(&self.cpu, &mut copies);
                for frame in frames {
                    self.state.borrow_mut().pool.set_stuck(frame, false);
                    self.written(frame, None);
                }
            }
        }
        self.settled.notify_all(&self.cpu);
        self.go_on_soon();
    }
}
