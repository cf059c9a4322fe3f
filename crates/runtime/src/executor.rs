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
//! In steady state nothing is allocated: futures live in their slots, queues keep their capacity.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::cpu::Cpu;
use crate::rng::{Rng, Seed};

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

struct TaskSlot {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    cpu: Cpu,
    name: Rc<str>,
    queued: bool,
    main: bool,
}

/// One thread's tasks and CPUs.
pub struct Executor {
    tasks: RefCell<Vec<TaskSlot>>,
    events: RefCell<BinaryHeap<Reverse<u128>>>,
    cpus: RefCell<Vec<Cpu>>,
    bells: RefCell<Vec<(Bell, TaskId)>>,
    ties: RefCell<Rng>,
    time: TimeSource,
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
            events: RefCell::new(BinaryHeap::with_capacity(1024)),
            cpus: RefCell::new(Vec::new()),
            bells: RefCell::new(Vec::new()),
            ties: RefCell::new(seed.child("ties").rng()),
            time,
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
        future: Pin<Box<dyn Future<Output = ()>>>,
    ) -> TaskId {
        let id = TaskId(self.tasks.borrow().len() as u32);
        assert!(id.0 < RESUME_CPU, "at most 2^31 tasks");
        self.mains_left.set(self.mains_left.get() + u64::from(main));
        let slot = TaskSlot {
            future: Some(future),
            cpu: cpu.clone(),
            name,
            queued: false,
            main,
        };
        self.tasks.borrow_mut().push(slot);
        self.schedule(cpu.now(), id);
        id
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
        self.push_event(at_ns, task.0);
    }

    #[inline]
    fn push_event(&self, at_ns: u64, target: u32) {
        let tie = match self.time {
            TimeSource::Virtual => self.ties.borrow_mut().next_u32(),
            TimeSource::Real(_) => 0,
        };
        let key = (u128::from(at_ns) << 64) | (u128::from(tie) << 32) | u128::from(target);
        self.events.borrow_mut().push(Reverse(key));
    }

    /// Puts `task` on its CPU's run queue at once: for wakes from a task of the same CPU.
    #[inline]
    pub(crate) fn wake_local(&self, task: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(slot) = tasks.get_mut(task.0 as usize).filter(|slot| !slot.queued) else {
            return;
        };
        slot.queued = true;
        slot.cpu.inner().run.borrow_mut().push_back(task);
        if self.is_virtual() && !slot.cpu.inner().running.get() {
            let cpu = slot.cpu.clone();
            drop(tasks);
            self.arm_resume(&cpu);
        }
    }

    /// Has `task` polled whenever `bell` has been rung (real engine).
    pub(crate) fn watch(&self, bell: &Bell, task: TaskId) {
        if self.may_park.get() {
            bell.set_thread(std::thread::current());
        }
        self.bells.borrow_mut().push((bell.clone(), task));
    }

    /// Polls one task.
    fn poll(&self, id: TaskId) {
        let index = id.0 as usize;
        let (future, cpu) = {
            let mut tasks = self.tasks.borrow_mut();
            // An event may outlive its task (a wait that was given up): the slot may be gone.
            let Some(slot) = tasks.get_mut(index) else {
                return;
            };
            slot.queued = false;
            (slot.future.take(), slot.cpu.clone())
        };
        let Some(mut future) = future else { return };
        self.polls_since_progress
            .set(self.polls_since_progress.get() + 1);
        cpu.inner().current.set(id);
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Pending => self.tasks.borrow_mut()[index].future = Some(future),
            Poll::Ready(()) => {
                self.progress();
                let main = self.tasks.borrow()[index].main;
                self.mains_left.set(self.mains_left.get() - u64::from(main));
            }
        }
    }

    // ---- virtual time -------------------------------------------------------------------

    /// Runs until every main task is done, a task halts the run, or nothing can go on.
    pub(crate) fn run_virtual(&self) -> Result<Ended, Stall> {
        while self.mains_left.get() > 0 {
            let Some(Reverse(event)) = self.events.borrow_mut().pop() else {
                return Err(Stall::Deadlock {
                    now_ns: self.latest_ns(),
                    tasks: self.waiting(),
                });
            };
            let (at_ns, target) = ((event >> 64) as u64, event as u32);
            if target & RESUME_CPU != 0 {
                let cpu = self.cpus.borrow()[(target & !RESUME_CPU) as usize].clone();
                cpu.inner().resume_armed.set(false);
                self.run_cpu(&cpu, at_ns);
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

    fn wake_at(&self, task: TaskId, at_ns: u64) {
        let cpu = {
            let mut tasks = self.tasks.borrow_mut();
            let slot = &mut tasks[task.0 as usize];
            if slot.queued || slot.future.is_none() {
                return;
            }
            slot.queued = true;
            slot.cpu.clone()
        };
        cpu.inner().run.borrow_mut().push_back(task);
        if cpu.inner().resume_armed.get() {
            return;
        }
        if cpu.inner().clock_ns.get() > at_ns {
            self.arm_resume(&cpu);
        } else {
            self.run_cpu(&cpu, at_ns);
        }
    }

    fn arm_resume(&self, cpu: &Cpu) {
        if !cpu.inner().resume_armed.replace(true) {
            self.push_event(cpu.inner().clock_ns.get(), cpu.inner().index | RESUME_CPU);
        }
    }

    /// Runs `cpu` until its queue is empty or another CPU's event comes first.
    fn run_cpu(&self, cpu: &Cpu, at_ns: u64) {
        let inner = cpu.inner();
        inner.clock_ns.set(inner.clock_ns.get().max(at_ns));
        inner.running.set(true);
        loop {
            let next = inner.run.borrow_mut().pop_front();
            let Some(task) = next else { break };
            self.poll(task);
            if inner.run.borrow().is_empty() || self.halted.get() {
                break;
            }
            let earliest = self
                .events
                .borrow()
                .peek()
                .map_or(u64::MAX, |e| (e.0 >> 64) as u64);
            let stuck = self.polls_since_progress.get() > self.idle_polls_max.get();
            if earliest < inner.clock_ns.get() || stuck {
                self.arm_resume(cpu);
                break;
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
            .filter(|(_, t)| t.future.is_some() && t.main);
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
            if let Some(slot) = tasks.get(id) {
                names.push(format!("{}#{id} on {}", slot.name, cpu.name()));
            }
        }
        Stall::Livelock {
            now_ns: self
                .cpus
                .borrow()
                .iter()
                .map(|c| c.now())
                .max()
                .unwrap_or(0),
            polls: self.polls_since_progress.get(),
            tasks: names.join(", "),
        }
    }

    // ---- real time ----------------------------------------------------------------------

    /// One pass over timers, run queues and rung bells; returns whether anything ran.
    pub(crate) fn pass(&self) -> bool {
        let mut ran = self.fire_timers();
        ran |= self.drain_run_queues();
        let bells = self.bells.borrow().len();
        for i in 0..bells {
            let rung = {
                let bells = self.bells.borrow();
                let (bell, task) = &bells[i];
                bell.is_rung().then_some(*task)
            };
            if let Some(task) = rung {
                self.poll(task);
                ran = true;
            }
        }
        ran | self.drain_run_queues()
    }

    fn fire_timers(&self) -> bool {
        let TimeSource::Real(clock) = self.time else {
            return false;
        };
        if self.events.borrow().is_empty() {
            return false;
        }
        let now_ns = clock.now_ns();
        let mut fired = false;
        loop {
            let due = match self.events.borrow().peek() {
                Some(Reverse(event)) if (event >> 64) as u64 <= now_ns => *event as u32,
                _ => return fired,
            };
            self.events.borrow_mut().pop();
            self.wake_local(TaskId(due));
            fired = true;
        }
    }

    fn drain_run_queues(&self) -> bool {
        let mut ran = false;
        let cpus = self.cpus.borrow().len();
        for i in 0..cpus {
            let cpu = self.cpus.borrow()[i].clone();
            // Bounded by what is queued now, so that no CPU keeps the others waiting.
            let queued = cpu.inner().run.borrow().len();
            for _ in 0..queued {
                let Some(task) = cpu.inner().run.borrow_mut().pop_front() else {
                    break;
                };
                self.poll(task);
                ran = true;
            }
        }
        ran
    }

    /// Nanoseconds until the next timer, if there is one.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        let TimeSource::Real(clock) = self.time else {
            return None;
        };
        let at = self.events.borrow().peek().map(|e| (e.0 >> 64) as u64)?;
        Some(at.saturating_sub(clock.now_ns()))
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
        self.tasks.borrow()[task.0 as usize].future.is_none()
    }

    /// Gives back the slot of the newest task, when it has ended (a program that calls
    /// `block_on` over and over must not collect slots).
    pub(crate) fn release(&self, task: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if task.0 as usize + 1 == tasks.len() && tasks[task.0 as usize].future.is_none() {
            tasks.pop();
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
