//! What waits and locks mean, in both engines.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use wharf_runtime::notifier::Notifier;
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

/// Gives the other tasks their turns. A sleep alone does not: a thread that the system held up before the sleep
/// began finds it over, and goes on at once.
pub(crate) async fn others_run(cpu: &Cpu) {
    for _ in 0..4 {
        cpu.yield_now().await;
    }
    cpu.sleep_until(cpu.now() + 1_000).await;
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
        others_run(&cpu).await;
    }
    notify.notify_one(&cpu);
    others_run(&cpu).await;
    assert_eq!(
        *seen.borrow(),
        [0],
        "the one that waited longest, and no other"
    );
    notify.notify_all(&cpu);
    others_run(&cpu).await;
    assert_eq!(*seen.borrow(), [0, 1, 2]);
    assert!(notify.is_empty());
}

/// A task is woken for something else while it waits, again and again; then two are notified.
async fn waits_through_other_wakes(cpu: Cpu) {
    let notify = Rc::new(Notify::new());
    let (permits, served) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    let waiter = |name: &'static str| {
        let (own, list) = (cpu.clone(), notify.clone());
        let (permits, served) = (permits.clone(), served.clone());
        cpu.spawn("waiter", async move {
            while permits.get() == 0 {
                list.wait(&own).await;
            }
            permits.set(permits.get() - 1);
            served.borrow_mut().push(name);
        })
    };
    let first = waiter("first");
    others_run(&cpu).await;
    for _ in 0..3 {
        cpu.wake(first);
        others_run(&cpu).await;
    }
    waiter("second");
    others_run(&cpu).await;
    for _ in 0..2 {
        permits.set(permits.get() + 1);
        notify.notify_one(&cpu);
        others_run(&cpu).await;
    }
    assert_eq!(*served.borrow(), ["first", "second"]);
    assert!(notify.is_empty());
}

/// Of two who wait the first gives up, before or after it is notified.
async fn gives_a_wait_up(cpu: Cpu) {
    for is_notified_first in [false, true] {
        let notify = Rc::new(Notify::new());
        let served = Rc::new(Cell::new(false));
        let mut given_up = Box::pin({
            let (notify, own) = (notify.clone(), cpu.clone());
            async move { notify.wait(&own).await }
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(given_up.as_mut().poll(&mut context).is_pending());
        let (own, list, is_served) = (cpu.clone(), notify.clone(), served.clone());
        cpu.spawn("waiter", async move {
            list.wait(&own).await;
            is_served.set(true);
        });
        others_run(&cpu).await;
        if is_notified_first {
            notify.notify_one(&cpu);
            drop(given_up);
        } else {
            drop(given_up);
            notify.notify_one(&cpu);
        }
        others_run(&cpu).await;
        assert!(served.get(), "notified first: {is_notified_first}");
    }
}

async fn alarms(cpu: Cpu) {
    let alarm = Rc::new(Alarm::default());
    let notified = Rc::new(Cell::new(0));
    let start = cpu.now();
    let (waiter, times) = (alarm.clone(), notified.clone());
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
    while notified.get() == 0 {
        cpu.sleep_until(cpu.now() + 10_000).await;
    }
    alarm.set(&cpu, cpu.now() + 10_000);
    while notified.get() == 1 {
        cpu.sleep_until(cpu.now() + 10_000).await;
    }
    assert_eq!(notified.get(), 2);
}

async fn notifiers(cpu: Cpu) {
    let notifier = Notifier::new();
    let (mut first, mut from_first) = ring::<u32>(4, &notifier, 3);
    let (mut second, mut from_second) = ring::<u32>(4, &notifier, 100);
    notifier.attach(&cpu);
    first.push(&cpu, 7).expect("there is room");
    second.push(&cpu, 8).expect("there is room");
    let mut ready = notifier.wait(&cpu).await;
    while !(ready.contains(3) && ready.contains(100)) {
        ready = ready.union(notifier.wait(&cpu).await);
    }
    assert_eq!(
        (ready.next(), ready.next(), ready.next()),
        (Some(3), Some(100), None)
    );
    assert_eq!(from_first.try_pop(&cpu), Some(7));
    assert_eq!(from_second.try_pop(&cpu), Some(8));
    let start = cpu.now();
    let none = notifier.wait_until(&cpu, start + 30_000).await;
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
    virtually(notifiers);
    virtually(runs_within);
}

#[test]
fn the_waits_mean_the_same_inline() {
    inline(sleeps);
    inline(notifies);
    inline(alarms);
    inline(notifiers);
    inline(runs_within);
}

/// A task that was woken for something else while it waited went to wait again and stood on the list
/// twice. The second place took a notification after the task had gone, and who came after it waited for
/// ever.
#[test]
fn a_task_woken_for_something_else_took_the_notification_of_the_next() {
    virtually(waits_through_other_wakes);
    inline(waits_through_other_wakes);
}

/// A wait that was given up stayed on the list, and took a notification with it.
#[test]
fn a_wait_that_was_given_up_took_a_notification_with_it() {
    virtually(gives_a_wait_up);
    inline(gives_a_wait_up);
}

#[test]
fn an_entry_is_seen_in_virtual_time_when_it_was_sent_and_not_before() {
    let mut machine = machine();
    let notifier = Notifier::new();
    let (mut sender, mut receiver) = ring::<u64>(8, &notifier, 0);
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
        notifier.attach(&cpu);
        for _ in 0..4 {
            let sent_ns = loop {
                match receiver.try_pop(&cpu) {
                    Some(sent_ns) => break sent_ns,
                    None => drop(notifier.wait(&cpu).await),
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
