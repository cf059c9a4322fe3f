//! Cores ask cores for pages.
//!
//! Problem: the page of a file may belong to any core, and what serves files runs on all of them.
//!
//! Idea: a core asks as the controller does. What is asked for has a slot, as commands have, and shares of it go
//! into the inboxes of the cores concerned ([`Core::arrive`]), which serve them by the same handlers as those of
//! commands ([`Asked`] around them). Pages go straight between media and the memory that the slot names.
//!
//! 1. A *file task* of a core calls [`Core::ask`], which takes one of the core's slots, or waits for one.
//! 2. The other core is entered at the asking one's time, and served within the call, as far as it can be.
//! 3. The last answer, at the serving core's time, wakes the asking task, which pays for each of them.
//!
//! No circle of waits: only file tasks ask, and these are not jobs. Jobs serve shares and ask nobody, so every
//! share that was asked for ends, however many tasks wait for some. Slots are a core's own: its file tasks wait for
//! each other's alone, each of which ends as its shares do.
//!
//! All cores of a drive are on one thread: these are plain calls.

use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use wharf_runtime::{Op, Ready};
use wharf_wire::command::Command;

use super::asks::{ASK_PAGES_MAX, Ask, Asks, Unserved};
use super::commands::{Outcome, Share};
use super::state::{Core, Serve, Step, Waiting};
use crate::divide::{quotient, remainder};

/// What a core asks others for.
pub struct Request<'a> {
    /// What serves it: an [`Asked`].
    pub handler: &'static dyn Serve,
    /// Pages of the drive, as (first, how many): [`ASK_PAGES_MAX`] together at most.
    pub runs: &'a [(u64, u32)],
    /// Where the pages are, or go, one after the other, in memory that the drive can name; nothing if none are
    /// transferred.
    pub addresses: &'a [u64],
    /// What the handler looks at besides.
    pub command: Command,
    /// When what is written is there, in nanoseconds.
    pub data_ready_ns: u64,
}

impl Core {
    /// Lets this core ask `cores`, all of its drive, from slots behind those of `commands` commands.
    pub fn meet(&self, cores: &[Rc<Core>], commands: u32) {
        let asks = Asks::new(commands, self.index);
        let peers = cores.iter().map(Rc::downgrade).collect();
        let is_first = self.peers.set((asks, peers)).is_ok();
        assert!(is_first, "a core meets the others once");
    }

    fn met(&self) -> &(Asks, Box<[Weak<Core>]>) {
        let met = self.peers.get();
        met.expect("a drive whose cores ask each other has them meet")
    }

    fn asks(&self) -> &Asks {
        &self.met().0
    }

    fn peer(&self, index: u32) -> Rc<Core> {
        let core = self.met().1[index as usize].upgrade();
        core.expect("cores of a drive go together")
    }

    /// Has the cores that pages belong to serve a request. For file tasks of this core alone.
    ///
    /// # Errors
    /// Of the first page that failed; all others have been served.
    pub async fn ask(&self, request: &Request<'_>) -> Result<(), Unserved> {
        let pages: u32 = request.runs.iter().map(|run| run.1).sum();
        debug_assert!(pages <= ASK_PAGES_MAX && self.is_of_pages(request, pages));
        let shares = || self.divided(request.runs);
        self.ask_shares(request, shares).await
    }

    /// Has each of some cores serve a request that concerns whole cores.
    ///
    /// # Errors
    /// Of the first core that failed.
    pub async fn ask_cores(&self, request: &Request<'_>, cores: Ready) -> Result<(), Unserved> {
        let shares = || cores.map(|core| (core, Share::default()));
        self.ask_shares(request, shares).await
    }

    fn is_of_pages(&self, request: &Request<'_>, pages: u32) -> bool {
        request.addresses.is_empty() || request.addresses.len() == pages as usize
    }

    async fn ask_shares<S: Iterator<Item = (u32, Share)>>(
        &self,
        request: &Request<'_>,
        shares: impl Fn() -> S,
    ) -> Result<(), Unserved> {
        let count = shares().count() as u32;
        if count == 0 {
            return Ok(());
        }
        let taken = self.take_ask().await;
        let (ask, slot) = (taken.ask(), taken.slot());
        ask.left.set(count);
        ask.at_ns.set(0);
        ask.failed.set(None);
        self.slots.borrow_mut().ask(
            slot,
            count,
            request.command,
            request.addresses,
            request.data_ready_ns,
        );
        let mut touched = Ready::NONE;
        for (index, share) in shares() {
            self.cpu.work(Op::CommandSplit, || ());
            self.peer(index).arrive(
                self.cpu.stamp_ns(),
                Share { slot, ..share },
                request.handler,
            );
            touched.insert(index);
        }
        for index in touched {
            self.peer(index).serve_asked();
        }
        Answered { core: self, ask }.await;
        self.cpu.work_n(Op::CommandGather, count, || ());
        match ask.failed.get() {
            None => Ok(()),
            Some(failed) => Err(failed),
        }
    }

    /// Shares of runs, a stripe each; of one core those of several that follow each other are one.
    fn divided<'a>(&'a self, runs: &'a [(u64, u32)]) -> impl Iterator<Item = (u32, Share)> + 'a {
        let striping = self.striping;
        let mut skip = 0;
        runs.iter().flat_map(move |&(first, pages)| {
            let before = skip;
            skip += pages;
            let mut done = 0;
            std::iter::from_fn(move || {
                if done == pages {
                    return None;
                }
                let page = first + u64::from(done);
                let (core, local) = striping.locate(page);
                let stripe = striping.stripe_pages;
                let count = match striping.cores {
                    1 => pages - done,
                    _ => (stripe - remainder(page, stripe) as u32).min(pages - done),
                };
                debug_assert!(
                    quotient(page, stripe) == quotient(page + u64::from(count) - 1, stripe)
                        || striping.cores == 1
                );
                let share = Share {
                    slot: 0,
                    skip: (before + done) as u16,
                    first: local,
                    count,
                };
                done += count;
                Some((core, share))
            })
        })
    }

    /// Takes one of this core's slots, or waits for one.
    async fn take_ask(&self) -> Taken<'_> {
        let asks = self.asks();
        loop {
            let free = asks.free.borrow_mut().pop();
            match free {
                Some(index) => return Taken { core: self, index },
                None => asks.freed.wait(&self.cpu).await,
            }
        }
    }

    /// Gives the answer to a job's share to the core that asked.
    fn give_back(&self, number: u32, outcome: Outcome) {
        let share = self.job(number).share.get();
        let (asker, index) = self.asks().asker_of(share.slot);
        let asker = self.peer(asker);
        let ask = asker.asks().ask(index);
        let at_ns = self.cpu.stamp_ns();
        ask.at_ns.set(ask.at_ns.get().max(at_ns));
        if let Err(failed) = outcome {
            let page = self.striping.page_of(self.index, failed.lpn);
            let failed = Unserved {
                status: failed.status,
                page,
            };
            let before = ask.failed.get().filter(|before| before.page <= page);
            ask.failed.set(Some(before.unwrap_or(failed)));
        }
        self.slots.borrow_mut().answer_asked(share.slot);
        ask.left.set(ask.left.get() - 1);
        if ask.left.get() == 0
            && let Some(task) = ask.task.take()
        {
            asker.cpu.wake_at(ask.at_ns.get(), task);
        }
    }

    /// What follows a call of a handler that was asked.
    fn after_asked(&self, number: u32, step: Step) -> Step {
        match step {
            Step::Ended(outcome) => {
                self.give_back(number, outcome);
                Step::Kept
            }
            other => other,
        }
    }
}

/// A slot that a task has.
struct Taken<'a> {
    core: &'a Core,
    index: u16,
}

impl<'a> Taken<'a> {
    fn ask(&self) -> &'a Ask {
        self.core.asks().ask(self.index)
    }

    fn slot(&self) -> u16 {
        self.core.asks().slot(self.index)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let asks = self.core.asks();
        // One whose task went before its answers came is nobody's any more: the drive goes too.
        if self.ask().left.get() == 0 {
            asks.free.borrow_mut().push(self.index);
            asks.freed.notify_one(&self.core.cpu);
        }
    }
}

/// Waits until all shares of a request have been answered, and for the time of the last.
struct Answered<'a> {
    core: &'a Core,
    ask: &'a Ask,
}

impl Future for Answered<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (cpu, ask) = (&self.core.cpu, self.ask);
        if ask.left.get() > 0 {
            ask.task.set(Some(cpu.current()));
            return Poll::Pending;
        }
        ask.task.set(None);
        // In real time the answer is there when it is given.
        Pin::new(&mut cpu.sleep_until(ask.at_ns.get())).poll(context)
    }
}

/// A handler of commands, for requests of cores.
pub struct Asked<H>(pub H);

impl<H: Serve> Serve for Asked<H> {
    fn serve(&self, core: &Core, job: u32) -> Step {
        core.after_asked(job, self.0.serve(core, job))
    }

    fn resume(&self, core: &Core, job: u32) -> Step {
        core.after_asked(job, self.0.resume(core, job))
    }

    fn settled(&self, core: &Core, job: u32) -> Step {
        core.after_asked(job, self.0.settled(core, job))
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(async move {
            let outcome = self.0.wait(core, job).await;
            core.give_back(job, outcome);
            Ok(())
        })
    }

    fn is_asked(&self) -> bool {
        true
    }
}
