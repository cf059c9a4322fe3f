//! The executor allocates nothing per event in steady state, and tasks that have ended leave nothing.
//!
//! A binary of its own, because a program has one allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;

use wharf_runtime::{Alarm, CostTable, Machine, Notifier, Notify, Op, Seed, Side, ring};

struct Counting;

thread_local! {
    // Of this thread alone: the one that runs the tests allocates when it likes.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated and not freed.
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(allocations: u64, bytes: i64) {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call is passed on to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: as above; the pointer came from `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two CPUs that pass entries back and forth, with sleeps near and far, an alarm and a notification.
fn ping_pong(machine: &mut Machine, counted: &'static AtomicU64) {
    const WARM_UP: u32 = 1_000;
    const ROUNDS: u32 = 20_000;
    let (there, back) = (Notifier::new(), Notifier::new());
    let (mut ask, mut asked) = ring::<u32>(16, &there, 0);
    let (mut answer, mut answered) = ring::<u32>(16, &back, 0);
    let a = machine.add_cpu("a", Side::Host, 1.0);
    let b = machine.add_cpu("b", Side::Drive, 1.0);
    machine.spawn(b, "server", move |cpu| async move {
        there.attach(&cpu);
        let alarm = Alarm::default();
        loop {
            there.wait(&cpu).await;
            while let Some(question) = asked.try_pop(&cpu) {
                cpu.work(Op::MapLookup, || ());
                alarm.set(&cpu, cpu.now() + 50);
                alarm.wait(&cpu).await;
                answer.push(&cpu, question).expect("one is out at a time");
            }
        }
    });
    machine.spawn_main(a, "asker", move |cpu| async move {
        back.attach(&cpu);
        let notify = std::rc::Rc::new(Notify::new());
        let (other, waiting) = (cpu.clone(), notify.clone());
        cpu.spawn("waiter", async move {
            loop {
                waiting.wait(&other).await;
                other.sleep_until(other.now() + 40_000).await;
            }
        });
        for round in 0..WARM_UP + ROUNDS {
            if round == WARM_UP {
                counted.store(ALLOCATIONS.get(), Ordering::Relaxed);
            }
            ask.push(&cpu, round).expect("one is out at a time");
            while answered.try_pop(&cpu).is_none() {
                back.wait_until(&cpu, cpu.now() + 10_000).await;
            }
            notify.notify_one(&cpu);
            cpu.sleep_until(cpu.now() + u64::from(round % 7) * 100)
                .await;
            cpu.progress();
        }
        counted.store(
            ALLOCATIONS.get() - counted.load(Ordering::Relaxed),
            Ordering::Relaxed,
        );
    });
}

#[test]
fn no_event_allocates() {
    let costs = include_str!("../../../configs/costs/default.toml");
    let costs = CostTable::parse(costs).expect("it is valid");
    static IN_VIRTUAL_TIME: AtomicU64 = AtomicU64::new(0);
    let mut machine = Machine::new(costs.clone(), false);
    ping_pong(&mut machine, &IN_VIRTUAL_TIME);
    machine.run_virtual(Seed(1)).expect("it ends");
    assert_eq!(
        IN_VIRTUAL_TIME.load(Ordering::Relaxed),
        0,
        "in virtual time"
    );
}

/// In virtual time every task that had ended kept its place and its name: a replay that starts a task for
/// each transfer took 120 bytes more with each of them, hundreds of megabytes for millions of misses.
#[test]
fn tasks_that_had_ended_were_kept_for_ever() {
    const WARM_UP: u32 = 1_000;
    const TASKS: u32 = 100_000;
    static GROWN_BYTES: AtomicI64 = AtomicI64::new(i64::MAX);
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "starter", |cpu| async move {
        let mut before_bytes = 0;
        for number in 0..WARM_UP + TASKS {
            if number == WARM_UP {
                before_bytes = LIVE_BYTES.get();
            }
            let own = cpu.clone();
            cpu.spawn("transfer", async move {
                own.sleep_until(own.now() + u64::from(number % 3) * 50)
                    .await;
            });
            cpu.sleep_until(cpu.now() + 40).await;
        }
        GROWN_BYTES.store(LIVE_BYTES.get() - before_bytes, Ordering::Relaxed);
    });
    machine.run_virtual(Seed(1)).expect("it ends");
    // A few more may be under way at the end than at the beginning.
    let grown_bytes = GROWN_BYTES.load(Ordering::Relaxed);
    assert!(
        grown_bytes < 10_000,
        "{TASKS} tasks left {grown_bytes} bytes"
    );
}

/// Every nap that was cut short left its event behind until its time came: a flusher that naps until its
/// next period, and is woken thousands of times before, had thousands of them.
#[test]
fn naps_cut_short_left_an_event_each() {
    const WARM_UP: u32 = 1_000;
    const NAPS: u32 = 100_000;
    static GROWN_BYTES: AtomicI64 = AtomicI64::new(i64::MAX);
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "waker", |cpu| async move {
        let own = cpu.clone();
        let napping = cpu.spawn("flusher", async move {
            loop {
                // Far beyond the end of the run.
                let mut sleep = own.sleep_until(own.now() + 1_000_000_000);
                let mut naps = false;
                let nap =
                    std::future::poll_fn(|context| match std::mem::replace(&mut naps, true) {
                        true => Poll::Ready(()),
                        false => Pin::new(&mut sleep).poll(context),
                    });
                nap.await;
            }
        });
        let mut before_bytes = 0;
        for number in 0..WARM_UP + NAPS {
            if number == WARM_UP {
                before_bytes = LIVE_BYTES.get();
            }
            cpu.wake(napping);
            cpu.sleep_until(cpu.now() + 40).await;
        }
        GROWN_BYTES.store(LIVE_BYTES.get() - before_bytes, Ordering::Relaxed);
    });
    machine.run_virtual(Seed(1)).expect("it ends");
    let grown_bytes = GROWN_BYTES.load(Ordering::Relaxed);
    assert!(grown_bytes < 10_000, "{NAPS} naps left {grown_bytes} bytes");
}
