//! Jobs: shares of commands come, are served, and are answered.
//!
//! 1. The controller leaves shares in the core's inbox ([`Core::arrive`]), each with the time at which it
//!    comes, and calls [`Core::serve_arrived`] at the end of its turn.
//! 2. An idle job takes a share up and calls its handler. A job that ends its share takes the next.
//! 3. Answers are left for the controller, which is told when whoever ran the core has done with it
//!    ([`Core::report_answers`]): within its turn it looks by itself, else it takes them at once if nothing else
//!    happens before in virtual time, and is notified if something does.

use std::cell::Cell;
use std::cmp::Reverse;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::commands::{Answer, Failed, Outcome, Share};
use super::state::{Core, Job, Serve, Step};

/// Among the jobs that go on at a time: a share comes.
const ARRIVAL: u32 = u32::MAX;

impl Core {
    /// Takes a share, which comes at `at_ns` by the controller's clock; not yet served.
    #[inline]
    pub fn arrive(&self, at_ns: u64, share: Share, handler: &'static dyn Serve) {
        self.inbox.borrow_mut().push_back((at_ns, share, handler));
    }

    /// Serves what has come, as far as jobs are idle.
    pub fn serve_arrived(&self) {
        let was_watched = self.is_watched.replace(true);
        self.serve_inbox();
        self.is_watched.set(was_watched);
    }

    /// As [`Core::serve_arrived`], for another core, which does not look for answers to commands.
    pub(super) fn serve_asked(&self) {
        let was_watched = self.is_watched.replace(true);
        self.serve_inbox();
        self.is_watched.set(was_watched);
        if !was_watched {
            self.notify_of_answers();
        }
    }

    fn serve_inbox(&self) {
        let mut has_turned = false;
        loop {
            let Some(at_ns) = self.inbox.borrow().front().map(|arrival| arrival.0) else {
                return;
            };
            self.operate_until(at_ns);
            let Some(job) = self.take_idle() else {
                // The next job that ends looks here.
                return;
            };
            let arrival = self.inbox.borrow_mut().pop_front();
            let Some((at_ns, share, handler)) = arrival else {
                return self.idle.borrow_mut().push(job);
            };
            self.cpu.enter(at_ns);
            if self.begins_a_turn(at_ns, &mut has_turned) {
                self.cpu.work(Op::CoreTurn, || ());
            }
            if self.take_up(job, share, handler) {
                self.serve_more(job);
            }
            if self.cpu.is_virtual() {
                self.turn_end_ns.set(self.cpu.now());
            }
        }
    }

    /// Whether the core had to be woken for a share that came at `at_ns`.
    #[inline]
    fn begins_a_turn(&self, at_ns: u64, has_turned: &mut bool) -> bool {
        match self.cpu.is_virtual() {
            true => at_ns > self.turn_end_ns.get(),
            false => !std::mem::replace(has_turned, true),
        }
    }

    #[inline]
    fn take_idle(&self) -> Option<u32> {
        self.idle.borrow_mut().pop()
    }

    /// Has a job serve a share. True if the job has done with it.
    #[inline]
    fn take_up(&self, number: u32, share: Share, handler: &'static dyn Serve) -> bool {
        let job = self.job(number);
        job.share.set(share);
        job.handler.set(Some(handler));
        job.taken_ns.set(self.cpu.account_now());
        self.latest_share_ns.set(self.flash_now());
        self.cpu.work(Op::CorePart, || ());
        let step = handler.serve(self, number);
        self.after_step(number, step)
    }

    /// What follows a call of a job's handler. True if the job has done with the share.
    #[inline]
    fn after_step(&self, number: u32, step: Step) -> bool {
        match step {
            Step::Ended(outcome) => {
                self.answer(number, outcome);
                return true;
            }
            Step::Kept => return true,
            Step::Settles => self.job(number).settles.set(true),
            Step::At(at_ns) => self.resume_at(at_ns, number),
            Step::Waits => {
                let job = self.job(number);
                job.is_handed.set(true);
                if let (Some(task), false) = (job.task.get(), job.in_task.get()) {
                    self.cpu.run_within(task);
                }
            }
        }
        false
    }

    /// As [`Core::after_step`], for a job that was called again: it takes the next share when it has ended this one.
    #[inline]
    fn go_on(&self, number: u32, step: Step) {
        if self.after_step(number, step) {
            self.serve_more(number);
        }
    }

    fn resume_at(&self, at_ns: u64, number: u32) {
        // Those of one time go on in the order in which they asked.
        let order = self.resumptions_made.get();
        self.resumptions_made.set(order.wrapping_add(1));
        let entry = Reverse((at_ns, order, number));
        self.resumptions.borrow_mut().push(entry);
        self.operations.set(&self.cpu, at_ns);
    }

    /// When the next job goes on.
    #[inline]
    pub(super) fn next_resumption_ns(&self) -> u64 {
        let resumptions = self.resumptions.borrow();
        resumptions.peek().map_or(u64::MAX, |next| next.0.0)
    }

    /// Has jobs go on whose time has come.
    pub(super) fn resume_jobs(&self) {
        while self.next_resumption_ns() <= self.cpu.now() {
            let Some(Reverse((_, _, number))) = self.resumptions.borrow_mut().pop() else {
                return;
            };
            if number == ARRIVAL {
                self.serve_arrived();
                continue;
            }
            let step = self.job(number).handler().resume(self, number);
            self.go_on(number, step);
        }
    }

    /// A page that a job has staged is on flash, or could not be programmed.
    pub(super) fn page_is_programmed(&self, number: u32, failed: bool) {
        let job = self.job(number);
        job.outstanding.set(job.outstanding.get() - 1);
        job.failed.set(job.failed.get() | failed);
        if job.outstanding.get() > 0 {
            return;
        }
        if job.settles.take() {
            let step = job.handler().settled(self, number);
            self.go_on(number, step);
            if !self.is_watched.get() {
                // Where operations take no time, another job has ended this one amid its own work.
                self.notify_of_answers();
            }
        } else if let Some(task) = job.task.get() {
            // Where operations take no time, it may be the task itself that is here.
            match self.instant {
                true => self.cpu.wake(task),
                false => self.cpu.run_within(task),
            }
        }
    }

    /// Gives a job that has ended its share the next one that has come, and so on.
    fn serve_more(&self, number: u32) {
        while let Some((share, handler)) = self.next_share() {
            if !self.take_up(number, share, handler) {
                return self.serve_waiters();
            }
        }
        self.idle.borrow_mut().push(number);
    }

    /// The next share to be served: one of those that waited, or one that has come.
    fn next_share(&self) -> Option<(Share, &'static dyn Serve)> {
        if let Some(ready) = self.next_waiter() {
            return Some(ready);
        }
        let mut inbox = self.inbox.borrow_mut();
        let at_ns = inbox.front()?.0;
        if self.cpu.is_virtual() && at_ns > self.cpu.now() {
            drop(inbox);
            self.resume_at(at_ns, ARRIVAL);
            return None;
        }
        inbox
            .pop_front()
            .map(|(_, share, handler)| (share, handler))
    }

    /// Has idle jobs serve what has waited and can go on. If none is idle, the next that ends its share looks.
    pub fn serve_waiters(&self) {
        while !self.idle.borrow().is_empty()
            && let Some((share, handler)) = self.next_waiter()
            && let Some(job) = self.take_idle()
        {
            if self.take_up(job, share, handler) {
                self.serve_more(job);
            }
        }
    }

    /// The life of a job's task: goes on with shares that wait.
    pub(super) async fn work(self: Rc<Self>, number: u32) {
        let job = self.job(number);
        loop {
            Handed(&job.is_handed).await;
            let outcome = job.handler().wait(&self, number).await;
            if !job.handler().is_asked() {
                self.answer(number, outcome);
            }
            job.in_task.set(true);
            let was_watched = self.is_watched.replace(true);
            self.serve_more(number);
            self.is_watched.set(was_watched);
            // What the next share waits for must be waited for before anything else happens.
            match job.is_handed.get() {
                true => self.notify_of_answers(),
                false => self.report_answers(),
            }
            job.in_task.set(false);
        }
    }

    /// Answers a job's share.
    #[inline]
    fn answer(&self, number: u32, outcome: Outcome) {
        let job = self.job(number);
        self.answer_share(job, job.share.get(), outcome);
    }

    /// Answers `share`, which `job` has served.
    pub fn answer_share(&self, job: &Job, share: Share, outcome: Outcome) {
        self.leave_answer(job.taken_ns.get(), share, outcome);
    }

    /// Answers `share`, which a task that is no job's has served since `taken_ns`.
    pub fn answer_from_task(&self, taken_ns: u64, share: Share, outcome: Outcome) {
        self.leave_answer(taken_ns, share, outcome);
        self.report_answers();
    }

    #[inline]
    fn leave_answer(&self, taken_ns: u64, share: Share, outcome: Outcome) {
        let Failed { status, lpn } = outcome.err().unwrap_or(Failed {
            status: StatusCode::Success,
            lpn: share.first,
        });
        let served_ns = self.cpu.account_now() - taken_ns;
        self.answers.borrow_mut().push_back(Answer {
            slot: share.slot,
            status,
            lpn,
            served_ns: served_ns.try_into().unwrap_or(u32::MAX),
            at_ns: self.cpu.stamp_ns(),
        });
    }

    /// When the oldest answer was given that has not been taken.
    #[inline]
    pub fn answered_ns(&self) -> Option<u64> {
        self.answers.borrow().front().map(|answer| answer.at_ns)
    }

    /// Takes the oldest answer, if it was given by `now_ns`.
    #[inline]
    pub fn take_answer(&self, now_ns: u64) -> Option<Answer> {
        let mut answers = self.answers.borrow_mut();
        answers.pop_front_if(|answer| answer.at_ns <= now_ns)
    }

    /// Has the controller look for answers later.
    fn notify_of_answers(&self) {
        if let Some(at_ns) = self.answered_ns() {
            self.answered.notify(&self.cpu, self.index, at_ns);
        }
    }

    /// Tells the controller of answers, at the end of what has run on this core.
    #[inline]
    pub(super) fn report_answers(&self) {
        let Some(at_ns) = self.answered_ns() else {
            return;
        };
        let latest_ns = self
            .answers
            .borrow()
            .back()
            .map_or(at_ns, |answer| answer.at_ns);
        if !self.cpu.is_next(latest_ns) {
            return self.notify_of_answers();
        }
        let controller = self.controller.borrow().as_ref().and_then(|c| c.upgrade());
        if let Some(controller) = controller {
            controller.take_from(self.index);
        }
    }
}

/// Waits until a job's task is to go on.
struct Handed<'a>(&'a Cell<bool>);

impl Future for Handed<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.take() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Waits until every page of a job's share is on flash.
pub struct Settled<'a>(pub &'a Job);

impl Future for Settled<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.outstanding.get() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}
