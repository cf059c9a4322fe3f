//! Tasks, event queue and run queues, and the two loops that drive them.
//!
//! Problem: firmware and caches are written as straight-line tasks that wait; the same tasks must
//! run in simulated time order on one thread, and as fast as possible on polling threads.
//!
//! Idea: a task is woken by its number, never through a `Waker`, and every wait re-checks its own
//! condition when polled, so that a spurious wake is harmless and an event never needs cancelling.
//!
//! 1. An *event* is (time, tie, target): wake this task, or resume this CPU.
//! 2. Waking a task puts it on its CPU's run queue.
//! 3. Virtual: the earliest event decides which CPU runs next; a CPU whose clock is ahead of the
//!    event keeps the task queued until that clock. Ties are broken by a seeded draw.
//! 4. Real: events are timers; run queues are drained at every pass, then notified notifiers are served.
//!
//! In steady state nothing is allocated but the future of a new task: tasks that have ended leave their
//! place and their number to new ones, and queues keep their capacity.

mod real_time;
mod stall;
mod virtual_time;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::clock::Clock;
use crate::cpu::Cpu;
use crate::events::EventQueue;
use crate::notifier::Notifier;
use crate::rng::Seed;

pub use stall::{Ended, IDLE_POLLS_MAX, Stall};

/// The number of a task within its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId(pub(crate) u32);

/// Set in an event's target when it resumes a CPU rather than waking a task.
const RESUME_CPU: u32 = 1 << 31;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Borrowed while it is polled; gone when it has ended.
    future: RefCell<Option<LocalFuture>>,
    cpu: Cpu,
    name: &'static str,
    /// On its CPU's run queue.
    queued: Cell<bool>,
    ended: Cell<bool>,
    main: bool,
    /// Its number stays its own when it has ended.
    reserved: bool,
    /// The time of an event that is there for its sleeps, or [`NEVER`].
    timer_ns: Cell<u64>,
}

/// No time.
const NEVER: u64 = u64::MAX;

impl Task {
    /// An event of this task has come.
    #[inline]
    fn note_event(&self, at_ns: u64) {
        if self.timer_ns.get() <= at_ns {
            self.timer_ns.set(NEVER);
        }
    }
}

/// One thread's tasks and CPUs.
pub struct Executor {
    tasks: RefCell<Vec<Rc<Task>>>,
    events: RefCell<EventQueue>,
    cpus: RefCell<Vec<Cpu>>,
    notifiers: RefCell<Vec<(Notifier, TaskId)>>,
    time: TimeSource,
    /// Tasks on all run queues.
    queued: Cell<u32>,
    mains_left: Cell<u64>,
    polls: Cell<u64>,
    polls_at_progress: Cell<u64>,
    idle_polls_max: Cell<u64>,
    halted: Cell<bool>,
    may_park: Cell<bool>,
}

/// Which clock an executor runs under.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TimeSource {
    Virtual,
    Real(Clock),
}

impl Executor {
    /// An executor in virtual time; `seed` breaks ties.
    pub(crate) fn new_virtual(seed: Seed) -> Rc<Executor> {
        Self::new(TimeSource::Virtual, seed)
    }

    /// An executor on the real clock.
    pub(crate) fn new_real(clock: Clock) -> Rc<Executor> {
        Self::new(TimeSource::Real(clock), Seed(0))
    }

    fn new(time: TimeSource, seed: Seed) -> Rc<Executor> {
        Rc::new(Executor {
            tasks: RefCell::new(Vec::new()),
            events: RefCell::new(EventQueue::new(seed.child("ties").0)),
            cpus: RefCell::new(Vec::new()),
            notifiers: RefCell::new(Vec::new()),
            time,
            queued: Cell::new(0),
            mains_left: Cell::new(0),
            polls: Cell::new(0),
            polls_at_progress: Cell::new(0),
            idle_polls_max: Cell::new(IDLE_POLLS_MAX),
            halted: Cell::new(false),
            may_park: Cell::new(false),
        })
    }

    pub(crate) fn time_source(&self) -> TimeSource {
        self.time
    }

    #[inline]
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self.time, TimeSource::Virtual)
    }

    pub(crate) fn add_cpu(&self, cpu: Cpu) {
        self.cpus.borrow_mut().push(cpu);
    }

    /// Virtual time: the CPU whose task is being polled, if one is.
    pub(crate) fn running_cpu(&self) -> Option<Cpu> {
        let cpus = self.cpus.borrow();
        cpus.iter().find(|cpu| cpu.inner().running.get()).cloned()
    }

    /// Calls `each` with every CPU.
    pub(crate) fn each_cpu(&self, each: impl FnMut(&Cpu)) {
        self.cpus.borrow().iter().for_each(each);
    }

    /// Puts a task on `cpu`; it is polled for the first time when the CPU next runs.
    pub(crate) fn spawn(
        &self,
        cpu: &Cpu,
        name: &'static str,
        main: bool,
        future: LocalFuture,
    ) -> TaskId {
        self.mains_left.set(self.mains_left.get() + u64::from(main));
        let task = Task {
            future: RefCell::new(Some(future)),
            cpu: cpu.clone(),
            name,
            queued: Cell::new(false),
            ended: Cell::new(false),
            main,
            reserved: false,
            timer_ns: Cell::new(NEVER),
        };
        let id = self.number(task);
        self.schedule(cpu.now(), id);
        id
    }

    /// Gives a task a number: that of one of its CPU that has ended, or a new one.
    fn number(&self, task: Task) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let free = task.cpu.inner().free.borrow_mut().pop();
        if let Some(id) = free {
            let place = &mut tasks[id.0 as usize];
            match Rc::get_mut(place) {
                Some(ended) => *ended = task,
                None => *place = Rc::new(task),
            }
            return id;
        }
        let id = TaskId(tasks.len() as u32);
        assert!(id.0 < RESUME_CPU, "at most 2^31 tasks");
        tasks.push(Rc::new(task));
        id
    }

    /// The task of this number, unless it has been released.
    #[inline]
    fn task(&self, id: TaskId) -> Option<Rc<Task>> {
        self.tasks.borrow().get(id.0 as usize).cloned()
    }

    pub(crate) fn mains_left(&self) -> u64 {
        self.mains_left.get()
    }

    pub(crate) fn set_idle_polls_max(&self, polls: u64) {
        self.idle_polls_max.set(polls);
    }

    /// Says that this executor's thread parks when idle: ringers must check for that.
    pub(crate) fn set_may_park(&self) {
        self.may_park.set(true);
    }

    #[inline]
    pub(crate) fn progress(&self) {
        self.polls_at_progress.set(self.polls.get());
    }

    /// Polls of tasks so far.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.get()
    }

    #[inline]
    fn polls_since_progress(&self) -> u64 {
        self.polls.get() - self.polls_at_progress.get()
    }

    pub(crate) fn halt(&self) {
        self.halted.set(true);
    }

    /// Wakes `task` at `at_ns` (now, if that is past).
    #[inline]
    pub(crate) fn schedule(&self, at_ns: u64, task: TaskId) {
        self.events.borrow_mut().push(at_ns, task.0);
    }

    /// Wakes `task` at `at_ns` or before, for sleeps, which ask again when they are woken early. So one that
    /// sleeps again and again until a distant time, and is woken before, does not leave an event each time.
    #[inline]
    pub(crate) fn schedule_sleep(&self, at_ns: u64, id: TaskId) {
        let tasks = self.tasks.borrow();
        let Some(task) = tasks.get(id.0 as usize) else {
            return;
        };
        if at_ns < task.timer_ns.get() {
            task.timer_ns.set(at_ns);
            self.schedule(at_ns, id);
        }
    }

    /// Virtual time: wakes `task`, maybe of another CPU, at `at_ns` or when its CPU gets that far:
    /// one that is ahead of the others would be woken only to be put off.
    #[inline]
    pub(crate) fn schedule_elsewhere(&self, at_ns: u64, task: TaskId) {
        let busy_ns = match self.tasks.borrow().get(task.0 as usize) {
            Some(task) => task.cpu.inner().clock_ns.get(),
            None => return,
        };
        self.schedule(at_ns.max(busy_ns), task);
    }

    /// Puts `task` on its CPU's run queue at once: for wakes from a task of the same CPU.
    #[inline]
    pub(crate) fn wake_local(&self, id: TaskId) {
        let tasks = self.tasks.borrow();
        let Some(task) = tasks.get(id.0 as usize) else {
            return;
        };
        if self.enqueue(id, task) && self.is_virtual() && !task.cpu.inner().running.get() {
            self.arm_resume(&task.cpu);
        }
    }

    /// Puts a task on its CPU's run queue, unless it is there or has ended.
    #[inline]
    fn enqueue(&self, id: TaskId, task: &Task) -> bool {
        if task.ended.get() || task.queued.replace(true) {
            return false;
        }
        self.queued.set(self.queued.get() + 1);
        task.cpu.inner().run.borrow_mut().push_back(id);
        true
    }

    /// Takes the next task off a CPU's run queue.
    #[inline]
    fn dequeue(&self, cpu: &Cpu) -> Option<(TaskId, Rc<Task>)> {
        let id = cpu.inner().run.borrow_mut().pop_front()?;
        self.queued.set(self.queued.get() - 1);
        let task = self.task(id)?;
        task.queued.set(false);
        if task.ended.get() {
            self.release(id, &task);
        }
        Some((id, task))
    }

    /// Leaves the number of a task that has ended to a new one of its CPU. A wake of the old task may
    /// still come, and is a spurious one then. Only a place on a run queue is not left behind.
    fn release(&self, id: TaskId, task: &Task) {
        if !task.reserved && !task.queued.get() {
            task.cpu.inner().free.borrow_mut().push(id);
        }
    }

    /// Polls another task of the running task's CPU within the poll of that one: a call instead of
    /// a turn on the run queue.
    #[inline]
    pub(crate) fn run_within(&self, id: TaskId) {
        let Some(task) = self.task(id) else { return };
        debug_assert!(task.cpu.current() != id, "a task runs itself");
        self.poll(id, &task);
    }

    /// Has `task` polled whenever `notifier` has been notified (real engine).
    pub(crate) fn watch(&self, notifier: &Notifier, task: TaskId) {
        if self.may_park.get() {
            notifier.set_thread(std::thread::current());
        }
        self.notifiers.borrow_mut().push((notifier.clone(), task));
    }

    /// Polls one task, unless it has ended: an event may outlive its task.
    #[inline]
    fn poll(&self, id: TaskId, task: &Task) {
        let mut future = task.future.borrow_mut();
        let Some(running) = future.as_mut() else {
            return;
        };
        self.polls.set(self.polls.get() + 1);
        // Another task may be running that this one is run within.
        let caller = task.cpu.inner().current.replace(id);
        task.cpu.inner().latest.set(id);
        let mut context = Context::from_waker(Waker::noop());
        let polled = running.as_mut().poll(&mut context);
        task.cpu.inner().current.set(caller);
        if polled.is_ready() {
            task.ended.set(true);
            self.progress();
            self.mains_left
                .set(self.mains_left.get() - u64::from(task.main));
            // What the task owned goes now.
            *future = None;
            self.release(id, task);
        }
    }

    pub(crate) fn is_done(&self, task: TaskId) -> bool {
        self.tasks.borrow()[task.0 as usize].ended.get()
    }

    /// Makes a task that has nothing to do yet.
    pub(crate) fn reserve(&self, cpu: &Cpu, name: &'static str) -> TaskId {
        let task = Task {
            future: RefCell::new(None),
            cpu: cpu.clone(),
            name,
            queued: Cell::new(false),
            ended: Cell::new(true),
            main: false,
            reserved: true,
            timer_ns: Cell::new(NEVER),
        };
        self.number(task)
    }

    /// Gives a reserved task its work.
    pub(crate) fn begin(&self, id: TaskId, future: LocalFuture) {
        let task = self.task(id).expect("a reserved task stays");
        task.ended.set(false);
        *task.future.borrow_mut() = Some(future);
        self.enqueue(id, &task);
    }

    /// Drops what a reserved task was given, if it has not ended.
    pub(crate) fn abandon(&self, id: TaskId) {
        if let Some(task) = self.task(id) {
            task.ended.set(true);
            *task.future.borrow_mut() = None;
        }
    }

    /// Drops every task, and with them what they own: the end of a run, or a power cut.
    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        for cpu in self.cpus.borrow_mut().drain(..) {
            cpu.inner().free.borrow_mut().clear();
        }
        self.notifiers.borrow_mut().clear();
    }
}
