//! In which order things happen in virtual time, and what stands still.

use std::sync::{Arc, Mutex};

use wharf_runtime::executor::Ended;
use wharf_runtime::{Notify, Op, Seed, Side, Stall};

use crate::machine;

/// The order in which tasks of eight CPUs run that sleep until the times given.
fn order(seed: u64, times_ns: [u64; 8]) -> Vec<usize> {
    let mut machine = machine();
    let order = Arc::new(Mutex::new(Vec::new()));
    for (i, at_ns) in times_ns.into_iter().enumerate() {
        let cpu = machine.add_cpu(&format!("cpu{i}"), Side::Host, 1.0);
        let order = order.clone();
        machine.spawn_main(cpu, "sleeper", move |cpu| async move {
            cpu.sleep_until(at_ns).await;
            assert_eq!(cpu.now(), at_ns);
            order.lock().unwrap().push(i);
        });
    }
    machine.run_virtual(Seed(seed)).expect("all wake");
    Arc::into_inner(order)
        .expect("the tasks are gone")
        .into_inner()
        .unwrap()
}

#[test]
fn events_come_in_order_of_time() {
    for seed in 0..20 {
        let times = [70, 3_000_000, 10, 200_000, 1, 5_000_000_000, 131_072, 90];
        assert_eq!(order(seed, times), [4, 2, 0, 7, 6, 3, 1, 5]);
    }
}

#[test]
fn equal_times_are_ordered_by_the_seed_alone() {
    let orders: Vec<_> = (0..20).map(|seed| order(seed, [500; 8])).collect();
    let again: Vec<_> = (0..20).map(|seed| order(seed, [500; 8])).collect();
    assert_eq!(orders, again);
    let different: std::collections::BTreeSet<_> = orders.iter().collect();
    assert!(different.len() > 15, "{} orders of 20", different.len());
}

#[test]
fn a_cpu_is_not_two_places_at_once() {
    // Two tasks of one CPU are due at the same time: one waits for the other's work.
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    let spans = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let spans = spans.clone();
        machine.spawn_main(cpu, "worker", move |cpu| async move {
            cpu.sleep_until(1_000).await;
            let start = cpu.now();
            cpu.work_n(Op::MapLookup, 10, || ());
            spans.lock().unwrap().push((start, cpu.now()));
        });
    }
    machine.run_virtual(Seed(3)).expect("both wake");
    let spans = spans.lock().unwrap();
    assert!(spans[0].0 == 1_000 && spans[0].1 > 1_000, "{spans:?}");
    assert_eq!(spans[1].0, spans[0].1);
}

#[test]
fn a_deadlock_names_the_tasks_that_wait() {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "the patient one", |cpu| async move {
        cpu.sleep_until(700).await;
        Notify::new().wait(&cpu).await;
        // A notification that nobody can give: the list of waiters is gone.
        std::future::pending::<()>().await;
    });
    machine.spawn_main(cpu, "the quick one", |_| async {});
    match machine.run_virtual(Seed(0)) {
        Err(Stall::Deadlock { now_ns, tasks }) => {
            assert_eq!(now_ns, 700);
            assert!(
                tasks.contains("the patient one") && !tasks.contains("quick"),
                "{tasks}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_livelock_names_the_tasks_that_run() {
    let mut machine = machine();
    for name in ["spinner", "other spinner"] {
        let cpu = machine.add_cpu(&format!("cpu of the {name}"), Side::Drive, 1.0);
        machine.spawn_main(cpu, name, |cpu| async move {
            loop {
                cpu.sleep_until(cpu.now() + 10).await;
            }
        });
    }
    match machine.run_virtual_bounded(Seed(0), 10_000) {
        Err(Stall::Livelock { polls, tasks, .. }) => {
            assert_eq!(polls, 10_001);
            assert!(tasks.contains("spinner#0 on cpu of the spinner"), "{tasks}");
            assert!(tasks.contains("other spinner#1"), "{tasks}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_that_yields_for_ever_on_one_cpu_is_a_livelock_too() {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "yielder", |cpu| async move {
        loop {
            cpu.yield_now().await;
        }
    });
    let stall = machine.run_virtual_bounded(Seed(0), 1_000).unwrap_err();
    assert!(matches!(&stall, Stall::Livelock { tasks, .. } if tasks.contains("yielder")));
}

#[test]
fn progress_puts_the_livelock_off_and_halt_ends_the_run() {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "worker", |cpu| async move {
        for _ in 0..50_000 {
            cpu.yield_now().await;
            cpu.progress();
        }
        cpu.halt();
        std::future::pending::<()>().await;
    });
    let summary = machine
        .run_virtual_bounded(Seed(0), 100)
        .expect("there was progress");
    assert_eq!(summary.ended, Ended::Halted);
}
