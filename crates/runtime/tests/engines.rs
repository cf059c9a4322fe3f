//! What tasks may rely on, in both engines.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wharf_runtime::bell::Bell;
use wharf_runtime::executor::Ended;
use wharf_runtime::{
    Alarm, CostTable, Cpu, Idle, Inline, Lock, Machine, Notify, Op, Seed, Side, Stall, ring,
};

/// The costs that ship.
fn costs() -> CostTable {
    CostTable::parse(include_str!("../../../configs/costs/default.toml")).expect("it is valid")
}

fn machine() -> Machine {
    Machine::new(costs(), false)
}

/// Runs `script` on one CPU in virtual time and gives the time of its end.
fn virtually<F: Future<Output = ()> + 'static>(
    script: impl FnOnce(Cpu) -> F + Send + 'static,
) -> u64 {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "script", script);
    machine.run_virtual(Seed(1)).expect("it ends").elapsed_ns
}

/// Runs `script` on one CPU inline, in real time.
fn inline<T: 'static, F: Future<Output = T> + 'static>(script: impl FnOnce(Cpu) -> F) -> T {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.inline().block_on(cpu, script)
}

// ---- virtual time: order -------------------------------------------------------------------

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

// ---- stalls --------------------------------------------------------------------------------

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

// ---- waits, in both engines ----------------------------------------------------------------

async fn sleeps(cpu: Cpu) {
    let start = cpu.now();
    cpu.sleep_until(start + 20_000).await;
    assert!(cpu.now() >= start + 20_000);
    let after = cpu.now();
    cpu.sleep_until(start).await;
    assert!(
        !cpu.is_virtual() || cpu.now() == after,
        "a time that is past is no wait"
    );
}

async fn notifies(cpu: Cpu) {
    let notify = Rc::new(Notify::new());
    let seen = Rc::new(RefCell::new(Vec::new()));
    for i in 0..3 {
        let (own, list, log) = (cpu.clone(), notify.clone(), seen.clone());
        cpu.spawn("waiter", async move {
            list.wait(&own).await;
            log.borrow_mut().push(i);
        });
        // One after the other, so that their order on the list is known.
        cpu.sleep_until(cpu.now() + 1_000).await;
    }
    notify.notify_one(&cpu);
    cpu.sleep_until(cpu.now() + 1_000).await;
    assert_eq!(
        *seen.borrow(),
        [0],
        "the one that waited longest, and no other"
    );
    notify.notify_all(&cpu);
    cpu.sleep_until(cpu.now() + 1_000).await;
    assert_eq!(*seen.borrow(), [0, 1, 2]);
    assert!(notify.is_empty());
}

async fn alarms(cpu: Cpu) {
    let alarm = Rc::new(Alarm::default());
    let rung = Rc::new(Cell::new(0));
    let start = cpu.now();
    let (waiter, times) = (alarm.clone(), rung.clone());
    let own = cpu.clone();
    cpu.spawn("alarmed", async move {
        for _ in 0..2 {
            waiter.wait(&own).await;
            assert!(own.now() >= start + 50_000, "not before the earliest time");
            times.set(times.get() + 1);
        }
    });
    // The later time is overtaken by the earlier one; both together wake once.
    alarm.set(&cpu, start + 5_000_000);
    cpu.yield_now().await;
    alarm.set(&cpu, start + 50_000);
    alarm.set(&cpu, start + 60_000);
    while rung.get() == 0 {
        cpu.sleep_until(cpu.now() + 10_000).await;
    }
    alarm.set(&cpu, cpu.now() + 10_000);
    while rung.get() == 1 {
        cpu.sleep_until(cpu.now() + 10_000).await;
    }
    assert_eq!(rung.get(), 2);
}

async fn bells(cpu: Cpu) {
    let bell = Bell::new();
    let (mut first, mut from_first) = ring::<u32>(4, &bell, 3);
    let (mut second, mut from_second) = ring::<u32>(4, &bell, 100);
    bell.attach(&cpu);
    first.push(&cpu, 7).expect("there is room");
    second.push(&cpu, 8).expect("there is room");
    let mut ready = bell.wait(&cpu).await;
    while !(ready.contains(3) && ready.contains(100)) {
        ready = ready.union(bell.wait(&cpu).await);
    }
    assert_eq!(
        (ready.next(), ready.next(), ready.next()),
        (Some(3), Some(100), None)
    );
    assert_eq!(from_first.try_pop(&cpu), Some(7));
    assert_eq!(from_second.try_pop(&cpu), Some(8));
    let start = cpu.now();
    let none = bell.wait_until(&cpu, start + 30_000).await;
    assert!(
        none.is_empty() && cpu.now() >= start + 30_000,
        "the wait ends at its deadline"
    );
}

async fn runs_within(cpu: Cpu) {
    let log = Rc::new(RefCell::new(Vec::new()));
    let notify = Rc::new(Notify::new());
    let (inner_log, inner_notify, inner_cpu) = (log.clone(), notify.clone(), cpu.clone());
    let task = cpu.spawn("inner", async move {
        inner_notify.wait(&inner_cpu).await;
        inner_log.borrow_mut().push("inner");
    });
    while notify.is_empty() {
        cpu.sleep_until(cpu.now() + 100).await;
    }
    let own = cpu.current();
    log.borrow_mut().push("before");
    cpu.run_within(task);
    log.borrow_mut().push("after");
    assert_eq!(*log.borrow(), ["before", "inner", "after"]);
    assert!(cpu.current() == own, "the caller is the running task again");
    cpu.run_within(task);
    assert_eq!(log.borrow().len(), 3, "a task that has ended does not run");
}

#[test]
fn the_waits_mean_the_same_in_virtual_time() {
    assert_eq!(virtually(sleeps), 20_000);
    virtually(notifies);
    virtually(alarms);
    virtually(bells);
    virtually(runs_within);
}

#[test]
fn the_waits_mean_the_same_inline() {
    inline(sleeps);
    inline(notifies);
    inline(alarms);
    inline(bells);
    inline(runs_within);
}

#[test]
fn an_entry_is_seen_in_virtual_time_when_it_was_sent_and_not_before() {
    let mut machine = machine();
    let bell = Bell::new();
    let (mut sender, mut receiver) = ring::<u64>(8, &bell, 0);
    let (a, b) = (
        machine.add_cpu("a", Side::Host, 1.0),
        machine.add_cpu("b", Side::Drive, 1.0),
    );
    machine.spawn_main(a, "sender", |cpu| async move {
        for at_ns in [100, 5_000, 5_001, 900_000] {
            cpu.sleep_until(at_ns).await;
            sender.push(&cpu, cpu.now()).expect("there is room");
        }
    });
    machine.spawn_main(b, "receiver", move |cpu| async move {
        bell.attach(&cpu);
        for _ in 0..4 {
            let sent_ns = loop {
                match receiver.try_pop(&cpu) {
                    Some(sent_ns) => break sent_ns,
                    None => drop(bell.wait(&cpu).await),
                }
            };
            assert_eq!(cpu.now(), sent_ns);
        }
    });
    machine.run_virtual(Seed(9)).expect("all arrive");
}

// ---- locks ---------------------------------------------------------------------------------

#[test]
fn a_lock_serialises_in_virtual_time() {
    let mut machine = machine();
    let lock = Arc::new(Lock::new(Vec::<(u64, u64)>::new()));
    for i in 0..8 {
        let cpu = machine.add_cpu(&format!("cpu{i}"), Side::Host, 1.0);
        let lock = lock.clone();
        machine.spawn_main(cpu, "locker", move |cpu| async move {
            for _ in 0..10 {
                lock.with(&cpu, |spans| {
                    let start = cpu.now();
                    cpu.work_n(Op::MapLookup, 3, || ());
                    spans.push((start, cpu.now()));
                });
                cpu.yield_now().await;
            }
        });
    }
    machine.run_virtual(Seed(2)).expect("all get it");
    let spans = Arc::into_inner(lock)
        .expect("the tasks are gone")
        .into_inner();
    assert_eq!(spans.len(), 80);
    for pair in spans.windows(2) {
        assert!(
            pair[0].0 < pair[0].1 && pair[0].1 <= pair[1].0,
            "{pair:?} overlap"
        );
    }
}

// ---- real time -----------------------------------------------------------------------------

#[test]
fn a_bell_wakes_a_parked_thread() {
    const PARK_US: u32 = 3_000_000;
    let mut machine = machine();
    let (there, back) = (Bell::new(), Bell::new());
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
                "the bell woke nobody"
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
    let (there, back) = (Bell::new(), Bell::new());
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
    let (bell, back_bell) = (Bell::new(), Bell::new());
    let (mut ask, mut asked) = ring(4, &bell, 0);
    let (mut answer, mut answered) = ring(4, &back_bell, 0);
    let mut server = machine();
    let cpu = server.add_cpu("server", Side::Drive, 1.0);
    server.spawn(cpu, "server", move |cpu| async move {
        bell.attach(&cpu);
        loop {
            while let Some(n) = asked.try_pop(&cpu) {
                assert!(answer.push(&cpu, n * 2u32).is_ok());
            }
            let _ = bell.wait(&cpu).await;
        }
    });
    let background = server.run_in_background(vec![vec![cpu]], Idle::default());
    let mut client = machine();
    let cpu = client.add_cpu("client", Side::Host, 1.0);
    let inline = client.inline();
    let doubled = inline.block_on(cpu, |cpu| async move {
        back_bell.attach(&cpu);
        assert!(ask.push(&cpu, 21).is_ok());
        loop {
            if let Some(n) = answered.try_pop(&cpu) {
                return n;
            }
            let _ = back_bell.wait(&cpu).await;
        }
    });
    assert_eq!(doubled, 42);
    assert_eq!(background.stop().profiles.len(), 1);
}
