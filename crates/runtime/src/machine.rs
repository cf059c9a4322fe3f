//! What is to run (CPUs and their first tasks), and the engines that run it.
//!
//! A `Machine` is filled with CPUs and tasks, then handed to one engine:
//!
//! * [`Machine::run_virtual`]: simulated time on this thread;
//! * [`Machine::run_threads`]: polling threads, each with a group of the CPUs;
//! * [`Machine::run_in_background`]: the same, beside the program's own threads;
//! * [`Machine::inline`]: this thread, which polls everything while it waits ([`Inline::block_on`]).
//!
//! A task is given as a closure that makes it, so that it can be made on the thread where it lives.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::cpu::{Accounting, Cpu};
use crate::executor::{Ended, Executor, Stall, TaskId};
use crate::op::{CostTable, Profile, Side};
use crate::rng::Seed;

/// The number of a CPU within its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuId(pub u32);

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;
type MakeTask = Box<dyn FnOnce(Cpu) -> LocalFuture + Send>;
type MakeDevice = Box<dyn FnOnce(Vec<Cpu>) + Send>;

struct TaskSpec {
    name: &'static str,
    main: bool,
    make: MakeTask,
}

/// Tasks that share what cannot leave their thread.
struct DeviceSpec {
    /// Their CPUs.
    cpus: Vec<CpuId>,
    make: MakeDevice,
}

struct CpuSpec {
    id: CpuId,
    name: String,
    side: Side,
    slowness: f64,
    tasks: Vec<TaskSpec>,
}

/// What a polling thread does when it finds nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// Empty passes before the thread yields to the operating system.
    pub spin_passes: u32,
    /// Further empty passes with a yield each, before it parks.
    pub yield_passes: u32,
    /// Longest time parked at a stretch, in microseconds; 0 never parks.
    pub park_us: u32,
}

impl Default for Idle {
    /// Spins about 20 µs, yields for a while, then parks for at most a millisecond.
    fn default() -> Self {
        Idle {
            spin_passes: 1000,
            yield_passes: 200,
            park_us: 1000,
        }
    }
}

/// CPUs and tasks that are to run.
pub struct Machine {
    costs: CostTable,
    profiling: bool,
    cpus: Vec<CpuSpec>,
    devices: Vec<DeviceSpec>,
}

/// What each CPU did, in the order the CPUs were added.
#[derive(Debug, Clone)]
pub struct RunSummary {
    /// Whether the run ended by itself or was halted.
    pub ended: Ended,
    /// Name, side and profile of each CPU.
    pub profiles: Vec<(String, Side, Profile)>,
    /// Time at which the last CPU stopped, in nanoseconds since the start.
    pub elapsed_ns: u64,
    /// How often tasks were polled: what the run cost the program that ran it.
    pub polls: u64,
}

impl Machine {
    /// An empty machine whose operations cost what `costs` says. `profiling` times operations in
    /// the real engine too.
    pub fn new(costs: CostTable, profiling: bool) -> Machine {
        Machine {
            costs,
            profiling,
            cpus: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// Adds a CPU that is `slowness` times slower than the one of the cost table.
    pub fn add_cpu(&mut self, name: &str, side: Side, slowness: f64) -> CpuId {
        let id = CpuId(self.cpus.len() as u32);
        self.cpus.push(CpuSpec {
            id,
            name: name.into(),
            side,
            slowness,
            tasks: Vec::new(),
        });
        id
    }

    /// Adds a device: several CPUs that always are of one thread. `make` gets them in this order, and
    /// starts their tasks by [`Cpu::spawn`].
    pub fn spawn_device(&mut self, cpus: &[CpuId], make: impl FnOnce(Vec<Cpu>) + Send + 'static) {
        self.devices.push(DeviceSpec {
            cpus: cpus.to_vec(),
            make: Box::new(make),
        });
    }

    /// Adds a task that serves for as long as the machine runs.
    pub fn spawn<F>(
        &mut self,
        cpu: CpuId,
        name: &'static str,
        make: impl FnOnce(Cpu) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        self.add_task(cpu, name, false, Box::new(|cpu| Box::pin(make(cpu))));
    }

    /// Adds a task that the run waits for.
    pub fn spawn_main<F>(
        &mut self,
        cpu: CpuId,
        name: &'static str,
        make: impl FnOnce(Cpu) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        self.add_task(cpu, name, true, Box::new(|cpu| Box::pin(make(cpu))));
    }

    fn add_task(&mut self, cpu: CpuId, name: &'static str, main: bool, make: MakeTask) {
        let task = TaskSpec { name, main, make };
        self.cpus[cpu.0 as usize].tasks.push(task);
    }

    fn start(self, executor: &Rc<Executor>, first_index: u32) -> Vec<Cpu> {
        let mut cpus = Vec::new();
        let mut ids = Vec::new();
        let mut tasks = Vec::new();
        for (i, spec) in self.cpus.into_iter().enumerate() {
            let accounting = match (executor.is_virtual(), spec.slowness > 1.0, self.profiling) {
                (true, _, _) => Accounting::Charge,
                (false, true, _) => Accounting::Slow,
                (false, false, true) => Accounting::Timed,
                (false, false, false) => Accounting::Free,
            };
            let costs = self.costs.scaled(spec.slowness);
            let index = first_index + i as u32;
            let cpu = Cpu::new(executor, index, &spec.name, spec.side, accounting, costs);
            tasks.extend(spec.tasks.into_iter().map(|task| (cpu.clone(), task)));
            cpus.push(cpu);
            ids.push(spec.id);
        }
        for device in self.devices {
            let cpu = |id: &CpuId| {
                let place = ids.iter().position(|other| other == id);
                cpus[place.expect("the CPUs of a device are of one thread")].clone()
            };
            (device.make)(device.cpus.iter().map(cpu).collect());
        }
        for (cpu, task) in tasks {
            let future = (task.make)(cpu.clone());
            executor.spawn(&cpu, task.name, task.main, future);
        }
        cpus
    }

    /// Runs in virtual time until every main task is done or a task halts the run.
    pub fn run_virtual(self, seed: Seed) -> Result<RunSummary, Stall> {
        self.run_virtual_bounded(seed, crate::executor::IDLE_POLLS_MAX)
    }

    /// As [`Machine::run_virtual`], with a bound on the polls between two signs of progress.
    pub fn run_virtual_bounded(self, seed: Seed, idle_polls_max: u64) -> Result<RunSummary, Stall> {
        let executor = Executor::new_virtual(seed);
        executor.set_idle_polls_max(idle_polls_max);
        let cpus = self.start(&executor, 0);
        let result = executor.run_virtual();
        let elapsed_ns = cpus.iter().map(|c| c.now()).max().unwrap_or(0);
        let profiles = profiles(&cpus);
        executor.clear();
        result.map(|ended| RunSummary {
            ended,
            profiles,
            elapsed_ns,
            polls: executor.polls(),
        })
    }

    /// Runs in real time on polling threads: `groups` names the CPUs of each thread. Threads are
    /// pinned to processors where the system has enough of them. `stop` ends the run early.
    pub fn run_threads(
        self,
        groups: &[Vec<CpuId>],
        idle: Idle,
        stop: Arc<AtomicBool>,
    ) -> RunSummary {
        let pin = groups.len() <= available_processors();
        let mains = self.mains();
        self.run_groups(groups, idle, &stop, mains, pin)
    }

    /// Runs in real time on threads of its own, one for each of `groups`, until it is stopped. The
    /// threads are not pinned: the program around them has its own.
    pub fn run_in_background(self, groups: Vec<Vec<CpuId>>, idle: Idle) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let stop_threads = stop.clone();
        // One more than there are: it runs on when its own main tasks are done.
        let mains = self.mains() + 1;
        let run = move || self.run_groups(&groups, idle, &stop_threads, mains, false);
        #[allow(clippy::disallowed_methods)] // this is the real engine
        let thread = std::thread::spawn(run);
        Background {
            stop,
            thread: Some(thread),
        }
    }

    fn mains(&self) -> u64 {
        let tasks = self.cpus.iter().flat_map(|c| &c.tasks);
        tasks.map(|t| u64::from(t.main)).sum()
    }

    fn run_groups(
        mut self,
        groups: &[Vec<CpuId>],
        idle: Idle,
        stop: &Arc<AtomicBool>,
        mains: u64,
        pin: bool,
    ) -> RunSummary {
        let clock = Clock::start();
        let mains_left = Arc::new(AtomicU64::new(mains));
        let mut specs: Vec<Option<CpuSpec>> = self.cpus.drain(..).map(Some).collect();
        let total = specs.len();
        let mut results: Vec<Option<(String, Side, Profile)>> = vec![None; total];
        let mut devices = self.devices;
        let mut polls = 0;
        std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for (thread, group) in groups.iter().enumerate() {
                let cpus = group
                    .iter()
                    .map(|id| specs[id.0 as usize].take().expect("a CPU is in one group"));
                let part = Machine {
                    costs: self.costs.clone(),
                    profiling: self.profiling,
                    cpus: cpus.collect(),
                    devices: devices
                        .extract_if(.., |device| group.contains(&device.cpus[0]))
                        .collect(),
                };
                let (mains_left, stop) = (mains_left.clone(), stop.clone());
                let pin = pin.then_some(thread);
                let run = move || run_thread(part, clock, idle, pin, &mains_left, &stop);
                handles.push((group, scope.spawn(run)));
            }
            for (group, handle) in handles {
                let (profiles, of_thread) = handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                polls += of_thread;
                for (id, profile) in group.iter().zip(profiles) {
                    results[id.0 as usize] = Some(profile);
                }
            }
        });
        assert!(specs.iter().all(Option::is_none), "every CPU is in a group");
        let ended = if mains_left.load(Ordering::Acquire) == 0 {
            Ended::Done
        } else {
            Ended::Halted
        };
        let profiles = results.into_iter().flatten().collect();
        RunSummary {
            ended,
            profiles,
            elapsed_ns: clock.now_ns(),
            polls,
        }
    }

    /// Starts all CPUs on the calling thread, which runs them in [`Inline::block_on`].
    pub fn inline(self) -> Inline {
        self.inline_by(Clock::start())
    }

    /// As [`Machine::inline`], by a clock that other machines go by too: their times can be
    /// compared.
    pub fn inline_by(self, clock: Clock) -> Inline {
        let executor = Executor::new_real(clock);
        let cpus = self.start(&executor, 0);
        Inline {
            executor,
            callers: cpus.iter().map(|_| Callers::default()).collect(),
            cpus,
        }
    }
}

fn profiles(cpus: &[Cpu]) -> Vec<(String, Side, Profile)> {
    cpus.iter()
        .map(|c| (c.name().to_string(), c.side(), c.profile()))
        .collect()
}

fn available_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    // A refusal (a restricted container) costs speed, not correctness.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn run_thread(
    part: Machine,
    clock: Clock,
    idle: Idle,
    pin: Option<usize>,
    mains_left: &AtomicU64,
    stop: &AtomicBool,
) -> (Vec<(String, Side, Profile)>, u64) {
    if let Some(processor) = pin {
        pin_to(processor);
    }
    let _guard = StopOnPanic(stop);
    let executor = Executor::new_real(clock);
    if idle.park_us > 0 {
        executor.set_may_park();
    }
    let cpus = part.start(&executor, 0);
    let mut own = executor.mains_left();
    let mut empty_passes = 0u32;
    loop {
        let ran = executor.pass();
        if executor.mains_left() < own {
            // Release: what the main tasks wrote is visible to whoever sees the count at 0.
            mains_left.fetch_sub(own - executor.mains_left(), Ordering::Release);
            own = executor.mains_left();
        }
        if mains_left.load(Ordering::Acquire) == 0 || stop.load(Ordering::Relaxed) {
            break;
        }
        empty_passes = if ran {
            0
        } else {
            empty_passes.saturating_add(1)
        };
        rest(&executor, idle, empty_passes);
    }
    let result = (profiles(&cpus), executor.polls());
    executor.clear();
    result
}

/// Stops the other threads when this one panics: they would wait for its tasks for ever.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn rest(executor: &Executor, idle: Idle, empty_passes: u32) {
    if empty_passes <= idle.spin_passes {
        std::hint::spin_loop();
    } else if idle.park_us == 0 || empty_passes - idle.spin_passes <= idle.yield_passes {
        std::thread::yield_now();
    } else {
        let longest = Duration::from_micros(idle.park_us.into());
        executor.park(Some(longest));
    }
}

/// A machine that runs on threads of its own. Dropping it stops them.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<RunSummary>>,
}

impl Background {
    /// Stops the threads, drops all tasks and gives the account. A thread that sleeps notices within
    /// the longest time that it parks.
    pub fn stop(mut self) -> RunSummary {
        self.join().expect("it is joined once")
    }

    fn join(&mut self) -> Option<RunSummary> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

/// Passes without anything to do after which a waiting thread lets others have its CPU: about 20 µs.
const EMPTY_PASSES_MAX: u32 = 1_000;

/// A machine that runs on the thread that owns it, while that thread waits.
pub struct Inline {
    executor: Rc<Executor>,
    cpus: Vec<Cpu>,
    /// For each CPU, the tasks that the next callers wait as.
    callers: Vec<Callers>,
}

/// Tasks of a CPU that nobody waits as now.
#[derive(Default)]
struct Callers {
    next: Cell<Option<TaskId>>,
    /// Where several have waited at a time.
    more: RefCell<Vec<TaskId>>,
}

impl Callers {
    #[inline]
    fn take(&self) -> Option<TaskId> {
        self.next.take().or_else(|| self.more.borrow_mut().pop())
    }

    #[inline]
    fn put(&self, task: TaskId) {
        if let Some(other) = self.next.replace(Some(task)) {
            self.more.borrow_mut().push(other);
        }
    }
}

impl Inline {
    /// The handle of one CPU.
    pub fn cpu(&self, id: CpuId) -> &Cpu {
        &self.cpus[id.0 as usize]
    }

    /// Says, before the first task, that this thread may sleep when there is nothing to do: other threads look for that
    /// when they ring.
    pub fn may_park(&self) {
        self.executor.set_may_park();
    }

    /// Runs `make`'s future on `cpu` and everything else with it, until the future is done. The
    /// future may borrow from the caller. One that has nothing to wait for costs no more than a call.
    pub fn block_on<T, F: Future<Output = T>>(&self, cpu: CpuId, make: impl FnOnce(Cpu) -> F) -> T {
        let done = self.block_on_by(cpu, make, |task| {
            self.run_until(task);
            true
        });
        done.expect("it has run until it is done")
    }

    /// The same, where the caller says how it waits: `wait` is called until the task that it is given [is
    /// done](Inline::is_done), and has everything [run](Inline::pass). If it gives false the future is dropped, and there is no result.
    ///
    /// Between two passes other threads may use this machine, one at a time: then they run this caller's future too, so that all of them
    /// keep what it refers to where it is.
    pub fn block_on_by<T, F: Future<Output = T>>(
        &self,
        cpu: CpuId,
        make: impl FnOnce(Cpu) -> F,
        wait: impl FnMut(TaskId) -> bool,
    ) -> Option<T> {
        let caller = self.caller(cpu);
        let cpu = self.cpu(cpu);
        let mut future = pin!(make(cpu.clone()));
        // What it registers with while it is polled here is the caller's task.
        cpu.inner().current.set(caller.task);
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => self.wait_for(&caller, future, wait),
        }
    }

    /// Waits by `wait` until `future`, which was polled as `caller`, is done.
    #[cold]
    fn wait_for<T, F: Future<Output = T>>(
        &self,
        caller: &Caller,
        future: Pin<&mut F>,
        mut wait: impl FnMut(TaskId) -> bool,
    ) -> Option<T> {
        let mut result = None;
        let slot = &mut result;
        let run: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(async move { *slot = Some(future.await) });
        // SAFETY: `caller` drops the future before `block_on` returns or unwinds, and the executor has
        // dropped it when it has ended, so it never outlives what it borrows. Only its lifetime is
        // changed.
        let run: LocalFuture = unsafe { std::mem::transmute(run) };
        self.executor.begin(caller.task, run);
        while !self.executor.is_done(caller.task) {
            if !wait(caller.task) {
                // Nobody polls it any more, and the result is nobody's.
                self.executor.abandon(caller.task);
                return None;
            }
        }
        Some(result.expect("the task has ended"))
    }

    /// Whether what a caller waits for is done.
    pub fn is_done(&self, task: TaskId) -> bool {
        self.executor.is_done(task)
    }

    /// Nanoseconds until something is to be done by the clock, if that is so.
    pub fn next_timer_ns(&self) -> Option<u64> {
        self.executor.next_timer_ns()
    }

    /// A task for a caller to wait as.
    fn caller(&self, cpu: CpuId) -> Caller<'_> {
        let free = &self.callers[cpu.0 as usize];
        let reserve = || self.executor.reserve(self.cpu(cpu), "block_on");
        Caller {
            executor: &self.executor,
            // None is free the first time, and where callers wait at the same time.
            task: free.take().unwrap_or_else(reserve),
            free,
        }
    }

    fn run_until(&self, task: TaskId) {
        let mut empty_passes = 0;
        while !self.executor.is_done(task) {
            match self.executor.pass() {
                true => empty_passes = 0,
                false => empty_passes += 1,
            }
            // Who does what is waited for may need this CPU.
            if empty_passes > EMPTY_PASSES_MAX {
                std::thread::yield_now();
            }
            // Others must get their turn to do what is waited for.
            #[cfg(shuttle)]
            crate::sync::spin();
        }
    }

    /// Lets everything that is ready run once; returns whether anything did.
    pub fn pass(&self) -> bool {
        self.executor.pass()
    }

    /// What each CPU did so far.
    pub fn profiles(&self) -> Vec<(String, Side, Profile)> {
        profiles(&self.cpus)
    }
}

/// The task that a caller of `block_on` waits as. Its future goes with it, by a return or by a
/// panic.
struct Caller<'a> {
    executor: &'a Executor,
    task: TaskId,
    free: &'a Callers,
}

impl Drop for Caller<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.executor.is_done(self.task) {
            self.executor.abandon(self.task);
        }
        self.free.put(self.task);
    }
}

impl Drop for Inline {
    fn drop(&mut self) {
        self.executor.clear();
    }
}
