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
//! 4. Real: events are timers; run queues are drained at every pass, then rung bells are served.
//!
//! In steady state nothing is allocated: tasks stay where they were made, queues keep their capacity.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::cpu::Cpu;
use crate::events::EventQueue;
use crate::rng::Seed;

/// The number of a task within its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId(pub(crate) u32);

/// Set in an event's target when it resumes a CPU rather than waking a task.
const RESUME_CPU: u32 = 1 << 31;

/// Polls without any request finishing after which a virtual run counts as stuck.
pub const IDLE_POLLS_MAX: u64 = 200_000_000;

/// A run that cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Stall {
    /// Nothing is scheduled, yet work is unfinished.
    #[error("deadlock at {now_ns} ns: nothing is scheduled and these tasks wait: {tasks}")]
    Deadlock {
        /// Virtual time of the last event.
        now_ns: u64,
        /// Names of the waiting tasks with their numbers.
        tasks: String,
    },
    /// Tasks run and run, and nothing gets done.
    #[error(
        "livelock at {now_ns} ns: {polls} polls without progress; the last tasks polled: {tasks}"
    )]
    Livelock {
        /// Virtual time of the last event.
        now_ns: u64,
        /// Polls since the last progress.
        polls: u64,
        /// Names of the tasks polled last.
        tasks: String,
    },
}

/// Why a virtual run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All main tasks are done.
    Done,
    /// A task called [`Cpu::halt`].
    Halted,
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Borrowed while it is polled; gone when it has ended.
    future: RefCell<Option<LocalFuture>>,
    cpu: Cpu,
    name: Rc<str>,
    /// On its CPU's run queue.
    queued: Cell<bool>,
    ended: Cell<bool>,
    main: bool,
}

/// One thread's tasks and CPUs.
pub struct Executor {
    tasks: RefCell<Vec<Rc<Task>>>,
    events: RefCell<EventQueue>,
    cpus: RefCell<Vec<Cpu>>,
    bells: RefCell<Vec<(Bell, TaskId)>>,
    time: TimeSource,
    /// Tasks on all run queues.
    queued: Cell<u32>,
    mains_left: Cell<u64>,
    polls_since_progress: Cell<u64>,
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
            bells: RefCell::new(Vec::new()),
            time,
            queued: Cell::new(0),
            mains_left: Cell::new(0),
            polls_since_progress: Cell::new(0),
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

    /// Puts a task on `cpu`; it is polled for the first time when the CPU next runs.
    pub(crate) fn spawn(
        &self,
        cpu: &Cpu,
        name: Rc<str>,
        main: bool,
        future: LocalFuture,
    ) -> TaskId {
        let id = TaskId(self.tasks.borrow().len() as u32);
        assert!(id.0 < RESUME_CPU, "at most 2^31 tasks");
        self.mains_left.set(self.mains_left.get() + u64::from(main));
        let task = Task {
            future: RefCell::new(Some(future)),
            cpu: cpu.clone(),
            name,
            queued: Cell::new(false),
            ended: Cell::new(false),
            main,
        };
        self.tasks.borrow_mut().push(Rc::new(task));
        self.schedule(cpu.now(), id);
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
        self.polls_since_progress.set(0);
    }

    pub(crate) fn halt(&self) {
        self.halted.set(true);
    }

    /// Wakes `task` at `at_ns` (now, if that is past).
    #[inline]
    pub(crate) fn schedule(&self, at_ns: u64, task: TaskId) {
        self.events.borrow_mut().push(at_ns, task.0);
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
        Some((id, task))
    }

    /// Polls another task of the running task's CPU within the poll of that one: a call instead of
    /// a turn on the run queue.
    #[inline]
    pub(crate) fn run_within(&self, id: TaskId) {
        let Some(task) = self.task(id) else { return };
        let caller = task.cpu.inner().current.get();
        debug_assert!(caller != id, "a task runs itself");
        self.poll(id, &task);
        task.cpu.inner().current.set(caller);
    }

    /// Has `task` polled whenever `bell` has been rung (real engine).
    pub(crate) fn watch(&self, bell: &Bell, task: TaskId) {
        if self.may_park.get() {
            bell.set_thread(std::thread::current());
        }
        self.bells.borrow_mut().push((bell.clone(), task));
    }

    /// Polls one task, unless it has ended: an event may outlive its task.
    #[inline]
    fn poll(&self, id: TaskId, task: &Task) {
        let mut future = task.future.borrow_mut();
        let Some(running) = future.as_mut() else {
            return;
        };
        self.polls_since_progress
            .set(self.polls_since_progress.get() + 1);
        task.cpu.inner().current.set(id);
        let mut context = Context::from_waker(Waker::noop());
        if running.as_mut().poll(&mut context).is_ready() {
            task.ended.set(true);
            self.progress();
            self.mains_left
                .set(self.mains_left.get() - u64::from(task.main));
            // What the task owned goes now.
            *future = None;
        }
    }

    /// True if something happens more than `slack_ns` before `cpu`'s clock.
    #[inline]
    pub(crate) fn others_are_behind(&self, cpu: &Cpu, slack_ns: u64) -> bool {
        let before_ns = cpu.inner().clock_ns.get().saturating_sub(slack_ns);
        self.events.borrow_mut().any_before(before_ns)
    }

    // ---- virtual time -------------------------------------------------------------------

    /// Runs until every main task is done, a task halts the run, or nothing can go on.
    pub(crate) fn run_virtual(&self) -> Result<Ended, Stall> {
        while self.mains_left.get() > 0 {
            let event = self.events.borrow_mut().pop();
            let Some((at_ns, target)) = event else {
                return Err(Stall::Deadlock {
                    now_ns: self.latest_ns(),
                    tasks: self.waiting(),
                });
            };
            if target & RESUME_CPU != 0 {
                let cpu = self.cpus.borrow()[(target & !RESUME_CPU) as usize].clone();
                cpu.inner().resume_armed.set(false);
                self.run_cpu(&cpu, at_ns, None);
            } else {
                self.wake_at(TaskId(target), at_ns);
            }
            if self.halted.get() {
                return Ok(Ended::Halted);
            }
            if self.polls_since_progress.get() > self.idle_polls_max.get() {
                return Err(self.livelock());
            }
        }
        Ok(Ended::Done)
    }

    #[inline]
    fn wake_at(&self, id: TaskId, at_ns: u64) {
        let Some(task) = self.task(id).filter(|task| !task.ended.get()) else {
            return;
        };
        let inner = task.cpu.inner();
        if inner.resume_armed.get() {
            self.enqueue(id, &task);
        } else if inner.clock_ns.get() > at_ns {
            self.enqueue(id, &task);
            self.arm_resume(&task.cpu);
        } else {
            // An armed CPU has a queue and one that is not has none: this task is the first.
            self.run_cpu(&task.cpu, at_ns, Some((id, &task)));
        }
    }

    #[inline]
    fn arm_resume(&self, cpu: &Cpu) {
        if !cpu.inner().resume_armed.replace(true) {
            let at_ns = cpu.inner().clock_ns.get();
            self.events
                .borrow_mut()
                .push(at_ns, cpu.inner().index | RESUME_CPU);
        }
    }

    /// Runs `cpu`, first the task given, until its queue is empty or another CPU's event comes
    /// before its clock.
    #[inline]
    fn run_cpu(&self, cpu: &Cpu, at_ns: u64, first: Option<(TaskId, &Task)>) {
        let inner = cpu.inner();
        inner.clock_ns.set(inner.clock_ns.get().max(at_ns));
        inner.running.set(true);
        if let Some((id, task)) = first {
            self.poll(id, task);
        } else if let Some((id, task)) = self.dequeue(cpu) {
            self.poll(id, &task);
        }
        while !inner.run.borrow().is_empty() && !self.halted.get() {
            let stuck = self.polls_since_progress.get() > self.idle_polls_max.get();
            if stuck || self.events.borrow_mut().any_before(inner.clock_ns.get()) {
                self.arm_resume(cpu);
                break;
            }
            if let Some((id, task)) = self.dequeue(cpu) {
                self.poll(id, &task);
            }
        }
        inner.running.set(false);
    }

    fn latest_ns(&self) -> u64 {
        self.cpus
            .borrow()
            .iter()
            .map(|c| c.now())
            .max()
            .unwrap_or(0)
    }

    fn waiting(&self) -> String {
        let tasks = self.tasks.borrow();
        let waiting = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| !task.ended.get() && task.main);
        let names: Vec<String> = waiting
            .take(16)
            .map(|(i, t)| format!("{}#{i}", t.name))
            .collect();
        names.join(", ")
    }

    fn livelock(&self) -> Stall {
        let tasks = self.tasks.borrow();
        let mut names: Vec<String> = Vec::new();
        for cpu in self.cpus.borrow().iter() {
            let id = cpu.inner().current.get().0 as usize;
            if let Some(task) = tasks.get(id) {
                names.push(format!("{}#{id} on {}", task.name, cpu.name()));
            }
        }
        Stall::Livelock {
            now_ns: self.latest_ns(),
            polls: self.polls_since_progress.get(),
            tasks: names.join(", "),
        }
    }

    // ---- real time ----------------------------------------------------------------------

    /// One pass over timers, run queues and rung bells; returns whether anything ran.
    pub(crate) fn pass(&self) -> bool {
        let mut ran = self.fire_timers();
        ran |= self.drain_run_queues();
        let mut next = 0;
        while let Some(id) = self.next_rung(&mut next) {
            if let Some(task) = self.task(id) {
                self.poll(id, &task);
                ran = true;
            }
        }
        ran | self.drain_run_queues()
    }

    /// The task of the first rung bell from `next` on, which is left after that one.
    #[inline]
    fn next_rung(&self, next: &mut usize) -> Option<TaskId> {
        let bells = self.bells.borrow();
        let (ahead, (_, task)) = bells
            .get(*next..)?
            .iter()
            .enumerate()
            .find(|(_, (bell, _))| bell.is_rung())?;
        *next += ahead + 1;
        Some(*task)
    }

    #[inline]
    fn fire_timers(&self) -> bool {
        let TimeSource::Real(clock) = self.time else {
            return false;
        };
        if self.events.borrow().is_empty() {
            return false;
        }
        let after_ns = clock.now_ns() + 1;
        let mut fired = false;
        loop {
            let mut events = self.events.borrow_mut();
            if !events.any_before(after_ns) {
                return fired;
            }
            let due = events.pop();
            drop(events);
            if let Some((_, task)) = due {
                self.wake_local(TaskId(task));
                fired = true;
            }
        }
    }

    #[inline]
    fn drain_run_queues(&self) -> bool {
        if self.queued.get() == 0 {
            return false;
        }
        let cpus = self.cpus.borrow().len();
        for i in 0..cpus {
            let cpu = self.cpus.borrow()[i].clone();
            // Bounded by what is queued now, so that no CPU keeps the others waiting.
            let queued = cpu.inner().run.borrow().len();
            for _ in 0..queued {
                if let Some((id, task)) = self.dequeue(&cpu) {
                    self.poll(id, &task);
                }
            }
        }
        true
    }

    /// Nanoseconds until the next timer, if there is one.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        let TimeSource::Real(clock) = self.time else {
            return None;
        };
        let at_ns = self.events.borrow_mut().next_ns()?;
        Some(at_ns.saturating_sub(clock.now_ns()))
    }

    /// Tells every bell of this executor that its thread parks (or is awake again).
    pub(crate) fn set_parked(&self, parked: bool) {
        for (bell, _) in self.bells.borrow().iter() {
            bell.set_parked(parked);
        }
    }

    pub(crate) fn any_rung(&self) -> bool {
        self.bells.borrow().iter().any(|(bell, _)| bell.is_rung())
    }

    pub(crate) fn is_done(&self, task: TaskId) -> bool {
        self.tasks.borrow()[task.0 as usize].ended.get()
    }

    /// Makes a task that has nothing to do yet.
    pub(crate) fn reserve(&self, cpu: &Cpu, name: Rc<str>) -> TaskId {
        let id = TaskId(self.tasks.borrow().len() as u32);
        assert!(id.0 < RESUME_CPU, "at most 2^31 tasks");
        let task = Task {
            future: RefCell::new(None),
            cpu: cpu.clone(),
            name,
            queued: Cell::new(false),
            ended: Cell::new(true),
            main: false,
        };
        self.tasks.borrow_mut().push(Rc::new(task));
        id
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
        self.cpus.borrow_mut().clear();
        self.bells.borrow_mut().clear();
    }
}
