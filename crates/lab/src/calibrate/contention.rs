//! What a second core costs: cache lines and locks between two threads on two processors.
//!
//! 1. `line_local`: an atomic addition to a line that this core has.
//! 2. `line_read` and `line_transfer`: the other thread writes some hundred lines; then this one
//!    goes through them in random order, each step to the line that the last one named (reads), or with
//!    one atomic addition each (writes), so that no fetch hides behind another. Only this thread's
//!    pass is timed: a partner that the system takes off its processor delays a round and does not
//!    falsify it.
//! 3. `lock_hand_over`: both threads fight for the runtime's lock. Each section ends with a look at
//!    the clock and begins with one: what lies between the end of one thread's and the begin of the
//!    other's is the hand-over, less what lies there with one thread alone.
//!
//! As checks on these, as paths: one line written by the two in turn, and both adding to one line
//! by compare-and-swap.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;
use wharf_runtime::clock::Clock;
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{CostTable, Cpu, Idle, Lock, Machine, Op, Seed, Side};

use super::costs::Costs;
use super::sample::Sampler;
use super::{CalibrateError, inline_cpu};

/// Lines of a pass: 64 KiB with their neighbours, more than the first-level cache would have to
/// keep, less than the second level.
const LINES: usize = 512;

/// Sections of each thread in a round of the fight for a lock.
const SECTIONS: u64 = 500;

/// Changes of hands without which a fight was none.
const GAPS_MIN: usize = 50;

/// Dependent steps inside a section: long enough that the other thread is waiting when it ends.
const SECTION_STEPS: u64 = 600;

/// Times everything of this module. Needs two processors.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    if processors < 2 {
        return Err(CalibrateError::OneProcessor);
    }
    local(sampler, costs);
    lines(sampler, costs);
    turns(sampler, costs);
    compare_and_swap(sampler, costs);
    lock(sampler, costs)
}

/// Runs the two functions on threads of their own, pinned to two processors.
pub(super) fn on_two_cores(
    first: impl FnOnce(&Cpu) + Send + 'static,
    second: impl FnOnce(&Cpu) + Send + 'static,
) {
    let mut machine = Machine::new(CostTable::free(), false);
    let ids = ["first", "second"].map(|name| machine.add_cpu(name, Side::Host, 1.0));
    machine.spawn_main(ids[0], "first", move |cpu| async move { first(&cpu) });
    machine.spawn_main(ids[1], "second", move |cpu| async move { second(&cpu) });
    let groups = [vec![ids[0]], vec![ids[1]]];
    machine.run_threads(&groups, Idle::default(), Arc::new(AtomicBool::new(false)));
}

fn local(sampler: Sampler, costs: &mut Costs) {
    const BATCH: u64 = 4096;
    let line = CachePadded::new(AtomicU64::new(0));
    let add = |line: &mut &CachePadded<AtomicU64>| {
        for _ in 0..BATCH {
            // Relaxed: the cost is that of the locked instruction, whatever its ordering.
            black_box(line.fetch_add(1, Ordering::Relaxed));
        }
    };
    let sample = sampler.time(BATCH, || &line, add);
    costs.set(
        Op::LineLocal,
        sample,
        "atomic addition to a line of this core",
    );
}

/// Lines that form one random cycle, and whose turn it is.
struct Chain {
    lines: Vec<CachePadded<AtomicU64>>,
    turn: CachePadded<AtomicU64>,
}

/// What no line of a chain holds.
const OVER_ALL: u64 = u64::MAX;

/// Which thread may work.
const WRITER: u64 = 0;
const TIMED: u64 = 1;
const OVER: u64 = 2;

/// An atomic addition that leaves the line's value, and that no compiler can make a load.
fn change(line: &AtomicU64) -> u64 {
    line.fetch_add(black_box(0), Ordering::Relaxed)
}

impl Chain {
    fn new() -> Chain {
        // Each line names the next: a random cycle through all, which no prefetcher follows.
        let mut order: Vec<usize> = (0..LINES).collect();
        let mut rng = Seed(5).rng();
        for i in (1..LINES).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let lines: Vec<_> = (0..LINES)
            .map(|_| CachePadded::new(AtomicU64::new(0)))
            .collect();
        for (at, line) in order.iter().enumerate() {
            let next = order[(at + 1) % LINES];
            lines[*line].store(next as u64, Ordering::Relaxed);
        }
        Chain {
            lines,
            turn: CachePadded::new(AtomicU64::new(WRITER)),
        }
    }

    /// Waits for the turn; false when all is over.
    fn wait(&self, whose: u64) -> bool {
        loop {
            // Acquire: partner of the release in `give`.
            let turn = self.turn.load(Ordering::Acquire);
            if turn == whose || turn == OVER {
                return turn == whose;
            }
            spin_loop();
        }
    }

    fn give(&self, to: u64) {
        // Release: partner of the acquire in `wait`.
        self.turn.store(to, Ordering::Release);
    }

    /// Makes all lines this core's own.
    fn write_all(&self) {
        for line in &self.lines {
            change(line);
        }
    }

    /// One step for each line; nanoseconds of a step.
    fn walk(&self, step: impl Fn(&AtomicU64) -> u64) -> f64 {
        let clock = Clock::start();
        let mut at = 0;
        for _ in 0..LINES {
            at = step(&self.lines[at]) as usize;
        }
        black_box(at);
        clock.now_ns() as f64 / LINES as f64
    }
}

fn lines(sampler: Sampler, costs: &mut Costs) {
    let chain = Arc::new(Chain::new());
    let found = Arc::new(Mutex::new(None));
    let (writer, timed, result) = (chain.clone(), chain, found.clone());
    on_two_cores(
        move |_| {
            while writer.wait(WRITER) {
                writer.write_all();
                writer.give(TIMED);
            }
        },
        move |_| {
            let pass = |step: fn(&AtomicU64) -> u64| {
                sampler.collect_typical(|| {
                    timed.wait(TIMED);
                    let ns = timed.walk(step);
                    timed.give(WRITER);
                    ns
                })
            };
            let reads = pass(|line| line.load(Ordering::Relaxed));
            let writes = pass(change);
            // One that fails takes the line all the same, and says what is there.
            let swaps = pass(|line| {
                let swapped =
                    line.compare_exchange(OVER_ALL, 0, Ordering::Relaxed, Ordering::Relaxed);
                swapped.unwrap_or_else(|next| next)
            });
            timed.wait(TIMED);
            timed.give(OVER);
            *result.lock().unwrap_or_else(|p| p.into_inner()) = Some((reads, writes, swaps));
        },
    );
    let (reads, writes, swaps) = take(&found);
    costs.set(
        Op::LineRead,
        reads,
        "dependent load of a line that another core wrote",
    );
    costs.set(
        Op::LineTransfer,
        writes,
        "atomic addition to a line that another core has",
    );
    let how = "compare-and-swap of such a line, as a check on line_transfer";
    costs.path("cas_transfer", swaps, how);
}

/// What a thread left behind.
pub(super) fn take<T>(found: &Mutex<Option<T>>) -> T {
    let mut found = found.lock().unwrap_or_else(|p| p.into_inner());
    found.take().expect("the thread has ended")
}

/// Turns of a round.
const TURNS: u64 = 500;

fn turns(sampler: Sampler, costs: &mut Costs) {
    let line = Arc::new(CachePadded::new(AtomicU64::new(0)));
    let rounds = (sampler.groups * sampler.rounds) as u64;
    let found = Arc::new(Mutex::new(None));
    let (even, odd, result) = (line.clone(), line, found.clone());
    // Writes numbers of one parity, each when the other thread has written the one before.
    let play = |line: &AtomicU64, at: u64| {
        while line.load(Ordering::Relaxed) != at {
            spin_loop();
        }
        line.store(at + 1, Ordering::Relaxed);
    };
    on_two_cores(
        move |_| (0..rounds * TURNS).for_each(|turn| play(&even, 2 * turn)),
        move |_| {
            let mut turn = 0;
            let sample = sampler.collect_typical(|| {
                let clock = Clock::start();
                for _ in 0..TURNS {
                    play(&odd, 2 * turn + 1);
                    turn += 1;
                }
                clock.now_ns() as f64 / (2 * TURNS) as f64
            });
            *result.lock().unwrap_or_else(|p| p.into_inner()) = Some(sample);
        },
    );
    let how = "one line written by two cores in turn, each turn (a read and a write of it)";
    costs.path("line_turn", take(&found), how);
}

fn compare_and_swap(sampler: Sampler, costs: &mut Costs) {
    const BATCH: u64 = 2_000;
    let line = Arc::new(CachePadded::new(AtomicU64::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let found = Arc::new(Mutex::new(None));
    let (rival, own, result) = (line.clone(), line, found.clone());
    let (is_over, ends) = (over.clone(), over);
    let add = |line: &AtomicU64| {
        let mut seen = line.load(Ordering::Relaxed);
        while let Err(now) =
            line.compare_exchange_weak(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    };
    on_two_cores(
        move |_| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                add(&rival);
            }
        },
        move |_| {
            let sample = sampler.collect_typical(|| {
                let clock = Clock::start();
                (0..BATCH).for_each(|_| add(&own));
                clock.now_ns() as f64 / BATCH as f64
            });
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
            *result.lock().unwrap_or_else(|p| p.into_inner()) = Some(sample);
        },
    );
    let how = "a successful compare-and-swap on a line that another core changes all the time";
    costs.path("cas_contended", take(&found), how);
}

/// Work of a known length that nothing can shorten.
fn spend(steps: u64) {
    let mut x = 1u64;
    for _ in 0..steps {
        x = black_box(x.wrapping_mul(0x9e37_79b9));
    }
}

/// Who held the lock last, until when, and how long it was on its way to the next holder.
#[derive(Default)]
struct Held {
    last: u32,
    left_ns: u64,
    gaps_ns: Vec<f64>,
}

/// One section. A gap counts where the lock came from another thread, or always if there is none.
fn section(lock: &Lock<Held>, cpu: &Cpu, clock: &Clock, who: u32, alone: bool) {
    lock.with(cpu, |held| {
        let now_ns = clock.now_ns();
        if alone || held.last != who {
            held.gaps_ns
                .push(now_ns.saturating_sub(held.left_ns) as f64);
        }
        held.last = who;
        spend(SECTION_STEPS);
        held.left_ns = clock.now_ns();
    });
}

fn lock(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let alone = inline_cpu(|cpu| {
        let clock = Clock::start();
        Ok(sampler.collect(|| {
            let lock = Lock::new(Held::default());
            (0..SECTIONS).for_each(|_| section(&lock, cpu, &clock, 0, true));
            median(lock)
        }))
    })?;
    let fought = sampler.collect_typical(fight);
    if fought.ns.is_infinite() {
        return Err(CalibrateError::TooBusy);
    }
    costs.set(
        Op::LockHandOver,
        fought - alone,
        "from one thread's end of a section to the other's begin of the next, less the same with one thread",
    );
    Ok(())
}

/// The median gap; none at all (infinite) where the threads hardly ever met, because the system ran
/// something else on one of the processors.
fn median(lock: Lock<Held>) -> f64 {
    let mut gaps_ns = lock.into_inner().gaps_ns;
    if gaps_ns.len() < GAPS_MIN {
        return f64::INFINITY;
    }
    gaps_ns.sort_by(f64::total_cmp);
    gaps_ns[gaps_ns.len() / 2]
}

/// One fight of two threads; the median gap between sections of different threads.
fn fight() -> f64 {
    let lock = Arc::new(Lock::new(Held::default()));
    let ready = Arc::new(CachePadded::new(AtomicU64::new(0)));
    let clock = Clock::start();
    let fighter = |who: u32| {
        let (lock, ready) = (lock.clone(), ready.clone());
        move |cpu: &Cpu| {
            ready.fetch_add(1, Ordering::Relaxed);
            while ready.load(Ordering::Relaxed) < 2 {
                spin_loop();
            }
            for _ in 0..SECTIONS {
                section(&lock, cpu, &clock, who, false);
                // Less than a section, so that the other thread's is not over when this one comes
                // back; more than a line takes to the other, so that this one is not back first.
                spend(SECTION_STEPS / 2);
            }
        }
    };
    on_two_cores(fighter(0), fighter(1));
    median(Arc::into_inner(lock).expect("the threads have ended"))
}
