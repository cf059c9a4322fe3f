//! The handle a task has on the CPU it runs on: time, work, sleep, wake.

pub use parts::Parts;

mod parts;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::clock::Clock;
use crate::executor::{Executor, TaskId, TimeSource};
use crate::op::{OPS, Op, Profile, Side};

/// How far a CPU that keeps pace runs ahead of others, in nanoseconds: about the work of two
/// requests.
const PACE_NS: u64 = 1_000;

/// How `work` is accounted on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// Virtual time: the clock advances by the operation's cost.
    Charge,
    /// Real time: a plain call.
    Free,
    /// Real time with the profile on: the call is timed.
    Timed,
    /// Real time on a CPU modelled slow: the call is timed and its rest waited out.
    Slow,
}

pub(crate) struct CpuInner {
    pub(crate) index: u32,
    pub(crate) clock_ns: Cell<u64>,
    pub(crate) run: RefCell<VecDeque<TaskId>>,
    /// Numbers of tasks that have ended, for new ones: a run may start one for every transfer.
    pub(crate) free: RefCell<Vec<TaskId>>,
    pub(crate) resume_armed: Cell<bool>,
    pub(crate) running: Cell<bool>,
    pub(crate) current: Cell<TaskId>,
    /// The task that ran last, for accounts of a run that stands still.
    pub(crate) latest: Cell<TaskId>,
    name: String,
    side: Side,
    executor: Rc<Executor>,
    accounting: Accounting,
    real_clock: Option<Clock>,
    cost_ns: [u32; OPS],
    /// Where calls are timed: nanoseconds of the timed calls within the present one.
    within_ns: Cell<u64>,
    count: [Cell<u64>; OPS],
    /// Measured time, where it is measured: [`Accounting::Timed`] and [`Accounting::Slow`].
    busy_ns: [Cell<u64>; OPS],
    /// Virtual time spent spinning.
    spun_ns: Cell<u64>,
    /// Virtual time in which there was nothing to do.
    idle_ns: Cell<u64>,
}

/// A CPU. Clones are the same CPU.
#[derive(Clone)]
pub struct Cpu(Rc<CpuInner>);

impl Cpu {
    pub(crate) fn new(
        executor: &Rc<Executor>,
        index: u32,
        name: &str,
        side: Side,
        accounting: Accounting,
        cost_ns: [u32; OPS],
    ) -> Cpu {
        let real_clock = match executor.time_source() {
            TimeSource::Virtual => None,
            TimeSource::Real(clock) => Some(clock),
        };
        let cpu = Cpu(Rc::new(CpuInner {
            index,
            clock_ns: Cell::new(0),
            run: RefCell::new(VecDeque::with_capacity(64)),
            free: RefCell::new(Vec::new()),
            resume_armed: Cell::new(false),
            running: Cell::new(false),
            current: Cell::new(TaskId(u32::MAX)),
            latest: Cell::new(TaskId(u32::MAX)),
            name: name.to_string(),
            side,
            executor: executor.clone(),
            accounting,
            real_clock,
            cost_ns,
            within_ns: Cell::new(0),
            count: std::array::from_fn(|_| Cell::new(0)),
            busy_ns: std::array::from_fn(|_| Cell::new(0)),
            spun_ns: Cell::new(0),
            idle_ns: Cell::new(0),
        }));
        executor.add_cpu(cpu.clone());
        cpu
    }

    #[inline(always)]
    pub(crate) fn inner(&self) -> &CpuInner {
        &self.0
    }

    #[inline(always)]
    pub(crate) fn executor(&self) -> &Executor {
        &self.0.executor
    }

    #[inline]
    pub(crate) fn shared_executor(&self) -> &Rc<Executor> {
        &self.0.executor
    }

    /// Whether it is a CPU of `executor`.
    #[inline]
    pub(crate) fn is_of(&self, executor: &Executor) -> bool {
        std::ptr::eq(&raw const *self.0.executor, executor)
    }

    /// The CPU's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The CPU's number in its machine; on polling threads, in its thread's part of it.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// The half of the stack it belongs to.
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// True where time is simulated. Only the runtime's own primitives and reports may ask.
    #[inline(always)]
    pub fn is_virtual(&self) -> bool {
        self.0.real_clock.is_none()
    }

    /// Nanoseconds since the run began, by this CPU's clock.
    #[inline]
    pub fn now(&self) -> u64 {
        match &self.0.real_clock {
            None => self.0.clock_ns.get(),
            Some(clock) => clock.now_ns(),
        }
    }

    /// The time that goes with what this CPU gives another one: when the other can see it. 0 in real time, where it is
    /// seen when it is there.
    #[inline]
    pub fn stamp_ns(&self) -> u64 {
        if self.is_virtual() { self.now() } else { 0 }
    }

    /// The time, where time is simulated or operations are timed. 0 elsewhere: accounts of how long things
    /// waited are kept only where they cost nothing that matters.
    #[inline]
    pub fn account_now(&self) -> u64 {
        match self.0.accounting {
            Accounting::Free => 0,
            Accounting::Charge | Accounting::Timed | Accounting::Slow => self.now(),
        }
    }

    /// Runs `f` under the name of an operation.
    #[inline(always)]
    pub fn work<R>(&self, op: Op, f: impl FnOnce() -> R) -> R {
        self.work_n(op, 1, f)
    }

    /// Runs `f`, which does `n` of the operation.
    #[inline(always)]
    pub fn work_n<R>(&self, op: Op, n: u32, f: impl FnOnce() -> R) -> R {
        match self.0.accounting {
            Accounting::Free => f(),
            Accounting::Charge => {
                self.charge(op, n);
                f()
            }
            Accounting::Timed | Accounting::Slow => self.timed(op, n, f),
        }
    }

    /// As [`Cpu::work_n`] where only `f` knows how many of the operation it did: it gives that number with its
    /// result.
    #[inline(always)]
    pub fn work_counted<R>(&self, op: Op, f: impl FnOnce() -> (u32, R)) -> R {
        match self.0.accounting {
            Accounting::Free => f().1,
            Accounting::Charge => {
                let (n, result) = f();
                self.charge(op, n);
                result
            }
            Accounting::Timed | Accounting::Slow => self.timed_counted(op, f),
        }
    }

    #[inline]
    fn charge(&self, op: Op, n: u32) {
        let n = u64::from(n);
        self.charge_ns(op, n, u64::from(self.0.cost_ns[op as usize]) * n);
    }

    #[inline]
    fn charge_ns(&self, op: Op, n: u64, cost: u64) {
        let inner = &*self.0;
        inner.clock_ns.set(inner.clock_ns.get() + cost);
        // The time follows from the count: see `profile`.
        let count = &inner.count[op as usize];
        count.set(count.get() + n);
    }

    #[cold]
    fn timed<R>(&self, op: Op, n: u32, f: impl FnOnce() -> R) -> R {
        self.timed_counted(op, || (n, f()))
    }

    fn timed_counted<R>(&self, op: Op, f: impl FnOnce() -> (u32, R)) -> R {
        self.timed_for(op, || {
            let (n, result) = f();
            let n = u64::from(n);
            (n, u64::from(self.0.cost_ns[op as usize]) * n, result)
        })
    }

    /// What `f` does under other names is accounted there, and not here too. It gives how many of the operation it did,
    /// and how long the model has that take.
    fn timed_for<R>(&self, op: Op, f: impl FnOnce() -> (u64, u64, R)) -> R {
        let before_ns = self.0.within_ns.replace(0);
        let start = self.now();
        let (n, modelled, result) = f();
        let mut end = self.now();
        let own_from = start + self.0.within_ns.get();
        if self.0.accounting == Accounting::Slow {
            while end < own_from + modelled {
                std::hint::spin_loop();
                end = self.now();
            }
        }
        self.0.within_ns.set(before_ns + (end - start));
        let (count, busy) = (&self.0.count[op as usize], &self.0.busy_ns[op as usize]);
        count.set(count.get() + n);
        busy.set(busy.get() + (end - own_from));
        result
    }

    /// Moves a virtual clock forward to `at_ns`, if that is later: the CPU had nothing to do until then.
    #[inline]
    pub(crate) fn idle_until(&self, at_ns: u64) {
        let now_ns = self.0.clock_ns.get();
        if at_ns > now_ns {
            self.0.clock_ns.set(at_ns);
            self.0.idle_ns.set(self.0.idle_ns.get() + (at_ns - now_ns));
        }
    }

    /// A call from another CPU of the same device, which has come here at `at_ns`: in virtual time this CPU
    /// is at that time, or where it has got to if that is later. Nothing in real time.
    #[inline]
    pub fn enter(&self, at_ns: u64) {
        if self.is_virtual() {
            self.idle_until(at_ns);
        }
    }

    /// True if nothing happens before `at_ns` on any CPU, as far as is known now: what comes at that time can
    /// be done at once. Always so in real time.
    #[inline]
    pub fn is_next(&self, at_ns: u64) -> bool {
        !self.is_virtual() || !self.executor().any_before(at_ns)
    }

    /// Nanoseconds of virtual time in which the CPU had nothing to do, so far; 0 in real time, where nobody
    /// times that.
    #[inline]
    pub fn idle_ns(&self) -> u64 {
        self.0.idle_ns.get()
    }

    /// Moves a virtual clock forward to `at_ns` without leaving the task: the CPU spins.
    #[inline]
    pub(crate) fn spin_until(&self, at_ns: u64) {
        let now_ns = self.0.clock_ns.get();
        if at_ns > now_ns {
            self.0.clock_ns.set(at_ns);
            self.0.spun_ns.set(self.0.spun_ns.get() + (at_ns - now_ns));
        }
    }

    /// Stays in the task until `at_ns`, if that is later: the CPU waits for an instruction of its own, a load from memory that is
    /// far away.
    #[inline]
    pub fn stall_until(&self, at_ns: u64) {
        if self.is_virtual() {
            self.spin_until(at_ns);
            return;
        }
        while self.now() < at_ns {
            std::hint::spin_loop();
        }
    }

    /// What this CPU did so far.
    pub fn profile(&self) -> Profile {
        let inner = &*self.0;
        let busy_ns = |op: usize| match inner.accounting {
            Accounting::Charge => inner.count[op].get() * u64::from(inner.cost_ns[op]),
            _ => inner.busy_ns[op].get(),
        };
        Profile {
            count: std::array::from_fn(|op| inner.count[op].get()),
            busy_ns: std::array::from_fn(busy_ns),
            spun_ns: inner.spun_ns.get(),
        }
    }

    /// What all CPUs did so far is in no profile any more: a run begins here. On polling threads those of this thread
    /// alone are told.
    pub fn begin_profiles(&self) {
        self.executor().each_cpu(|cpu| {
            let inner = &*cpu.0;
            let zero = |cells: &[Cell<u64>]| cells.iter().for_each(|cell| cell.set(0));
            zero(&inner.count);
            zero(&inner.busy_ns);
            inner.spun_ns.set(0);
        });
    }

    /// Starts another task on this CPU that the run does not wait for.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) -> TaskId {
        self.executor().spawn(self, name, false, Box::pin(future))
    }

    /// Starts another task on this CPU; the run ends only when it has ended.
    pub fn spawn_main(
        &self,
        name: &'static str,
        future: impl Future<Output = ()> + 'static,
    ) -> TaskId {
        self.executor().spawn(self, name, true, Box::pin(future))
    }

    /// The task that is running.
    #[inline]
    pub fn current(&self) -> TaskId {
        self.0.current.get()
    }

    /// Wakes a task of this CPU.
    #[inline]
    pub fn wake(&self, task: TaskId) {
        self.executor().wake_local(task);
    }

    /// Wakes a task of any CPU of this thread: at `at_ns` in virtual time, or when its CPU gets that far. For
    /// CPUs of one device, which reach each other by wires.
    #[inline]
    pub fn wake_at(&self, at_ns: u64, task: TaskId) {
        match self.is_virtual() {
            true => self.executor().schedule_elsewhere(at_ns, task),
            false => self.executor().wake_local(task),
        }
    }

    /// Polls another task of this CPU at once, within the running one: what [`Cpu::wake`] does, without
    /// a turn on the run queue. The caller may hold nothing that the other task takes.
    #[inline]
    pub fn run_within(&self, task: TaskId) {
        self.executor().run_within(task);
    }

    /// Says that something was achieved: resets the bound on idle polls.
    #[inline]
    pub fn progress(&self) {
        self.executor().progress();
    }

    /// Stops a virtual run after this poll, leaving every task where it is (a power cut).
    pub fn halt(&self) {
        self.executor().halt();
    }

    /// Waits until `deadline_ns`.
    #[inline]
    pub fn sleep_until(&self, deadline_ns: u64) -> Sleep<'_> {
        Sleep {
            cpu: self,
            deadline_ns,
        }
    }

    /// Lets CPUs that are more than a microsecond behind in virtual time catch up; nothing in real time.
    /// To be waited for before a task that may have run ahead touches what several CPUs share (locks,
    /// lines): it would be served before those who came earlier.
    #[inline]
    pub fn pace(&self) -> Pace<'_> {
        self.pace_within(PACE_NS)
    }

    /// As [`Cpu::pace`], for what takes much less time than that each time it is touched: in virtual time all CPUs come first
    /// whose clocks are behind at all.
    #[inline]
    pub fn pace_exactly(&self) -> Pace<'_> {
        self.pace_within(0)
    }

    #[inline]
    fn pace_within(&self, slack_ns: u64) -> Pace<'_> {
        Pace {
            cpu: self,
            slack_ns,
            yielded: false,
        }
    }

    /// Real time: true if no other task of this thread could run now, so that the running one may sleep in the
    /// system without holding anything up.
    pub fn is_alone(&self) -> bool {
        !self.executor().has_ready()
    }

    /// Real time, a thread that [may park](crate::Inline::may_park): has it sleep until another one notifies of
    /// it, or the next timer is due, unless another task could run. May return early.
    pub fn park(&self) {
        self.executor().park(None);
    }

    /// Lets the other tasks of this CPU run; in virtual time also all CPUs whose clocks are behind.
    #[inline]
    pub fn yield_now(&self) -> YieldNow<'_> {
        YieldNow {
            cpu: self,
            yielded: false,
        }
    }
}

/// See [`Cpu::sleep_until`].
pub struct Sleep<'a> {
    cpu: &'a Cpu,
    deadline_ns: u64,
}

impl Future for Sleep<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.deadline_ns == 0 || self.cpu.now() >= self.deadline_ns {
            return Poll::Ready(());
        }
        let executor = self.cpu.executor();
        executor.schedule_sleep(self.deadline_ns, self.cpu.current());
        Poll::Pending
    }
}

/// See [`Cpu::pace`].
pub struct Pace<'a> {
    cpu: &'a Cpu,
    slack_ns: u64,
    yielded: bool,
}

impl Future for Pace<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let is_level = || {
            !self
                .cpu
                .executor()
                .others_are_behind(self.cpu, self.slack_ns)
        };
        if self.yielded || !self.cpu.is_virtual() || is_level() {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.cpu.wake(self.cpu.current());
        Poll::Pending
    }
}

/// See [`Cpu::yield_now`].
pub struct YieldNow<'a> {
    cpu: &'a Cpu,
    yielded: bool,
}

impl Future for YieldNow<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.cpu.wake(self.cpu.current());
        Poll::Pending
    }
}
