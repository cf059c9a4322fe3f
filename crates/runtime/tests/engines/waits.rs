//! What waits and locks mean, in both engines.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::bell::Bell;
use wharf_runtime::{Alarm, Cpu, Lock, Notify, Op, Seed, Side, ring};

use crate::{inline, machine, virtually};

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
