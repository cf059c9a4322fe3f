//! The executor allocates nothing per event in steady state.
//!
//! A binary of its own, because a program has one allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use wharf_runtime::{Alarm, Bell, CostTable, Machine, Notify, Op, Seed, Side, ring};

struct Counting;

thread_local! {
    // Of this thread alone: the one that runs the tests allocates when it likes.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
    let (there, back) = (Bell::new(), Bell::new());
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
