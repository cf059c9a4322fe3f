//! Machines on real threads.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wharf_runtime::executor::Ended;
use wharf_runtime::notifier::Notifier;
use wharf_runtime::{Idle, Inline, Op, Side, ring};

use crate::{costs, machine};

#[test]
fn a_notifier_wakes_a_parked_thread() {
    const PARK_US: u32 = 3_000_000;
    let mut machine = machine();
    let (there, back) = (Notifier::new(), Notifier::new());
    let (mut ask, mut asked) = ring::<u32>(2, &there, 0);
    let (mut answer, mut answered) = ring::<u32>(2, &back, 0);
    let a = machine.add_cpu("asker", Side::Host, 1.0);
    let b = machine.add_cpu("server", Side::Drive, 1.0);
    machine.spawn(b, "server", move |cpu| async move {
        there.attach(&cpu);
        loop {
            there.wait(&cpu).await;
            while let Some(question) = asked.try_pop(&cpu) {
                answer
                    .push(&cpu, question + 1)
                    .expect("one is out at a time");
            }
        }
    });
    let got = Arc::new(AtomicU64::new(0));
    let sum = got.clone();
    machine.spawn_main(a, "asker", move |cpu| async move {
        back.attach(&cpu);
        for question in 0..50 {
            // Long enough for the server to park.
            cpu.sleep_until(cpu.now() + 200_000).await;
            let start = cpu.now();
            ask.push(&cpu, question).expect("one is out at a time");
            let found = loop {
                match answered.try_pop(&cpu) {
                    Some(found) => break found,
                    None => drop(back.wait(&cpu).await),
                }
            };
            assert_eq!(found, question + 1);
            // A server that only the limit of its park had woken would have taken that long.
            assert!(
                cpu.now() - start < u64::from(PARK_US) * 1000,
                "the notifier woke nobody"
            );
            sum.fetch_add(u64::from(found), Ordering::Relaxed);
        }
    });
    let idle = Idle {
        spin_passes: 10,
        yield_passes: 2,
        park_us: PARK_US,
    };
    let summary = machine.run_threads(&[vec![a], vec![b]], idle, Arc::new(AtomicBool::new(false)));
    assert_eq!(summary.ended, Ended::Done);
    assert_eq!(got.load(Ordering::Relaxed), (1..=50).sum());
}

#[test]
fn block_on_gives_the_value_and_runs_the_other_tasks_meanwhile() {
    let mut machine = machine();
    let (host, drive) = (
        machine.add_cpu("host", Side::Host, 1.0),
        machine.add_cpu("drive", Side::Drive, 1.0),
    );
    let (there, back) = (Notifier::new(), Notifier::new());
    let (mut ask, mut asked) = ring::<u32>(2, &there, 0);
    let (mut answer, answered) = ring::<u32>(2, &back, 0);
    machine.spawn(drive, "server", move |cpu| async move {
        there.attach(&cpu);
        loop {
            there.wait(&cpu).await;
            while let Some(question) = asked.try_pop(&cpu) {
                answer
                    .push(&cpu, question * 2)
                    .expect("one is out at a time");
            }
        }
    });
    let inline: Inline = machine.inline();
    let answered = Rc::new(RefCell::new(answered));
    ask.push(inline.cpu(host), 21).expect("there is room");
    for round in 0..3 {
        let answered = answered.clone();
        let found = inline.block_on(host, move |cpu| async move {
            loop {
                if round > 0 {
                    return round;
                }
                let found = answered.borrow_mut().try_pop(&cpu);
                match found {
                    Some(found) => return found,
                    None => cpu.yield_now().await,
                }
            }
        });
        assert_eq!(found, if round == 0 { 42 } else { round });
    }
}

#[test]
fn a_slow_cpu_waits_out_the_time_it_is_modelled_to_take() {
    let mut machine = machine();
    let slowness = 500.0;
    let cpu = machine.add_cpu("slow", Side::Drive, slowness);
    let inline = machine.inline();
    let modelled_ns = u64::from(costs().scaled(slowness)[Op::MapLookup as usize]) * 100;
    assert!(modelled_ns > 0);
    let took_ns = inline.block_on(cpu, |cpu| async move {
        let start = cpu.now();
        cpu.work_n(Op::MapLookup, 100, || ());
        cpu.now() - start
    });
    assert!(
        took_ns >= modelled_ns,
        "{took_ns} ns for {modelled_ns} modelled"
    );
    let (_, _, profile) = &inline.profiles()[0];
    assert!(profile.total_ns() >= modelled_ns);
}

#[test]
fn a_panic_on_one_thread_ends_the_others() {
    let mut machine = machine();
    let (first, second) = (
        machine.add_cpu("first", Side::Host, 1.0),
        machine.add_cpu("second", Side::Host, 1.0),
    );
    machine.spawn_main(first, "fails", |_| async { panic!("on purpose") });
    machine.spawn_main(second, "waits", |cpu| async move {
        loop {
            cpu.yield_now().await;
        }
    });
    let run = std::panic::AssertUnwindSafe(|| {
        let stop = Arc::new(AtomicBool::new(false));
        machine.run_threads(&[vec![first], vec![second]], Idle::default(), stop)
    });
    let panic = std::panic::catch_unwind(run).expect_err("the panic is passed on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn a_blocked_caller_lends_what_it_owns() {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    let inline = machine.inline();
    let mut buffer = vec![0u32; 3];
    for round in 1..=100 {
        let sum: u32 = inline.block_on(cpu, |cpu| {
            let buffer = &mut buffer;
            async move {
                cpu.yield_now().await;
                buffer.iter_mut().for_each(|n| *n += round);
                buffer.iter().sum()
            }
        });
        assert_eq!(sum, 3 * buffer[0]);
    }
    assert_eq!(buffer, [5050; 3]);
}

#[test]
fn a_panic_under_block_on_leaves_the_machine_usable() {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    let inline = machine.inline();
    let held = Rc::new(());
    let caught = {
        let lent = &held;
        let block = || {
            inline.block_on(cpu, |cpu| async move {
                let _own = lent.clone();
                cpu.yield_now().await;
                panic!("on purpose");
            })
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(block))
    };
    assert!(caught.is_err());
    assert_eq!(Rc::strong_count(&held), 1, "the future is gone");
    assert_eq!(inline.block_on(cpu, |_| async { 7 }), 7);
}

#[test]
fn a_machine_in_the_background_serves_until_it_is_stopped() {
    let (notifier, back_notifier) = (Notifier::new(), Notifier::new());
    let (mut ask, mut asked) = ring(4, &notifier, 0);
    let (mut answer, mut answered) = ring(4, &back_notifier, 0);
    let mut server = machine();
    let cpu = server.add_cpu("server", Side::Drive, 1.0);
    server.spawn(cpu, "server", move |cpu| async move {
        notifier.attach(&cpu);
        loop {
            while let Some(n) = asked.try_pop(&cpu) {
                assert!(answer.push(&cpu, n * 2u32).is_ok());
            }
            let _ = notifier.wait(&cpu).await;
        }
    });
    let background = server.run_in_background(vec![vec![cpu]], Idle::default());
    let mut client = machine();
    let cpu = client.add_cpu("client", Side::Host, 1.0);
    let inline = client.inline();
    let doubled = inline.block_on(cpu, |cpu| async move {
        back_notifier.attach(&cpu);
        assert!(ask.push(&cpu, 21).is_ok());
        loop {
            if let Some(n) = answered.try_pop(&cpu) {
                return n;
            }
            let _ = back_notifier.wait(&cpu).await;
        }
    });
    assert_eq!(doubled, 42);
    assert_eq!(background.stop().profiles.len(), 1);
}
