//! Futures of the standard library in tasks: where they are, and who wakes them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use wharf_runtime::executor::Ended;
use wharf_runtime::{CostTable, Cpu, Idle, Machine, OnCpu, Op, Seed, Side, here};

use crate::waits::others_run;
use crate::{inline, machine, virtually};

/// A value that is given once: what a future of the standard library waits for.
#[derive(Default)]
struct Gift<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T> Gift<T> {
    fn give(&self, value: T) {
        let mut inner = self.0.lock().unwrap();
        inner.0 = Some(value);
        if let Some(waker) = inner.1.take() {
            waker.wake();
        }
    }

    fn wait(&self) -> impl Future<Output = T> {
        poll_fn(|context| {
            let mut inner = self.0.lock().unwrap();
            match inner.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    inner.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

/// Both engines, on one CPU.
fn both<F: Future<Output = ()> + 'static>(script: impl Fn(Cpu) -> F + Send + Clone + 'static) {
    virtually(script.clone());
    inline(script);
}

#[test]
fn the_cpu_is_known_while_a_future_is_polled_and_not_otherwise() {
    both(|cpu| async move {
        assert!(here().is_none());
        let task_cpu = cpu.clone();
        let inner = async {
            assert_eq!(here().unwrap().index(), task_cpu.index());
            // What is run within has no place of its own, and leaves this one.
            let seen = Rc::new(Cell::new(false));
            let (see, other_cpu) = (seen.clone(), task_cpu.clone());
            let other = task_cpu.spawn("within", async move {
                let own = async { assert!(here().is_some()) };
                OnCpu::new(&other_cpu, own).await;
                see.set(true);
            });
            task_cpu.run_within(other);
            assert!(seen.get() && here().is_some());
            // It may wait for what is the runtime's.
            task_cpu.sleep_until(task_cpu.now() + 1_000).await;
            assert!(here().is_some());
        };
        OnCpu::new(&cpu, inner).await;
        assert!(here().is_none());
    });
}

#[test]
fn a_task_is_woken_by_another_one_of_its_cpu() {
    both(|cpu| async move {
        let gift = Rc::new(Gift::default());
        let (giver, task_cpu) = (gift.clone(), cpu.clone());
        cpu.spawn("giver", async move {
            task_cpu.sleep_until(task_cpu.now() + 2_000).await;
            giver.give(7);
        });
        assert_eq!(OnCpu::new(&cpu, gift.wait()).await, 7);
    });
}

#[test]
fn a_wake_that_comes_before_its_task_has_paused_is_not_lost() {
    both(|cpu| async move {
        let mut polls = 0;
        let wakes_itself = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            match polls < 5 {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        });
        OnCpu::new(&cpu, wakes_itself).await;
        assert_eq!(polls, 5);
    });
}

/// When a task on one CPU goes on that another one has woken at 500 ns.
fn woken_at(side: Side) -> u64 {
    let mut costs = CostTable::free();
    costs.cost_ns.insert(Op::LineTransfer.key().into(), 10.0);
    let mut machine = Machine::new(costs, false);
    let (sleeper, giver) = (
        machine.add_cpu("sleeper", side, 1.0),
        machine.add_cpu("giver", side, 1.0),
    );
    let (gift, at_ns) = (Arc::new(Gift::default()), Arc::new(AtomicU64::new(0)));
    let (given, noted) = (gift.clone(), at_ns.clone());
    machine.spawn_main(sleeper, "sleeper", move |cpu| async move {
        OnCpu::new(&cpu, gift.wait()).await;
        noted.store(cpu.now(), Ordering::Relaxed);
    });
    machine.spawn_main(giver, "giver", move |cpu| async move {
        // The line is this one's at first, as that of a notifier that has been used is the waiter's.
        cpu.sleep_until(500).await;
        given.give(());
    });
    machine.run_virtual(Seed(1)).unwrap();
    at_ns.load(Ordering::Relaxed)
}

#[test]
fn another_cpu_wakes_a_task_at_its_own_time_and_pays_as_for_a_notification() {
    assert_eq!(woken_at(Side::Drive), 500, "a wire");
    let of_host = woken_at(Side::Host);
    assert!(of_host > 500, "a line that moves: {of_host}");
}

#[test]
fn a_task_is_woken_from_another_thread() {
    const ROUNDS: u64 = 200;
    let mut machine = machine();
    let (a, b) = (
        machine.add_cpu("a", Side::Host, 1.0),
        machine.add_cpu("b", Side::Drive, 1.0),
    );
    let gifts = || Arc::new([const { Gift(Mutex::new((None, None))) }; ROUNDS as usize]);
    let (there, back): (Arc<[Gift<u64>; ROUNDS as usize]>, _) = (gifts(), gifts());
    let (asked, answers) = (there.clone(), back.clone());
    machine.spawn_main(a, "asks", move |cpu| async move {
        let asks = async {
            for round in 0..ROUNDS {
                there[round as usize].give(round);
                assert_eq!(back[round as usize].wait().await, round + 1);
            }
        };
        OnCpu::new(&cpu, asks).await;
    });
    machine.spawn_main(b, "answers", move |cpu| async move {
        let answering = async {
            for round in 0..ROUNDS as usize {
                let question: u64 = asked[round].wait().await;
                if round.is_multiple_of(20) {
                    // The other one parks meanwhile.
                    cpu.sleep_until(cpu.now() + 200_000).await;
                }
                answers[round].give(question + 1);
            }
        };
        OnCpu::new(&cpu, answering).await;
    });
    let idle = Idle {
        spin_passes: 10,
        yield_passes: 2,
        park_us: 3_000_000,
    };
    let summary = machine.run_threads(&[vec![a], vec![b]], idle, Arc::new(AtomicBool::new(false)));
    assert_eq!(summary.ended, Ended::Done);
}

/// A waker may be anywhere, and be used at any time.
#[test]
fn a_waker_outlives_its_task_and_its_machine() {
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let script = move |cpu: Cpu| {
        let keep = keep.clone();
        async move {
            let (inner, task_cpu) = (keep.clone(), cpu.clone());
            cpu.spawn("short", async move {
                let keeps = poll_fn(|context| {
                    *inner.lock().unwrap() = Some(context.waker().clone());
                    Poll::Ready(())
                });
                OnCpu::new(&task_cpu, keeps).await;
            });
            others_run(&cpu).await;
            // Its number is this one's now.
            let polls = Rc::new(Cell::new(0));
            let counted = polls.clone();
            cpu.spawn("next", async move {
                poll_fn(|_| {
                    counted.set(counted.get() + 1);
                    Poll::<()>::Pending
                })
                .await;
            });
            for _ in 0..5 {
                keep.lock().unwrap().as_ref().unwrap().wake_by_ref();
                others_run(&cpu).await;
            }
            assert_eq!(polls.get(), 1, "it was woken for another one");
        }
    };
    virtually(script.clone());
    kept.lock().unwrap().take().unwrap().wake();
    inline(script);
    kept.lock().unwrap().take().unwrap().wake();
    // One of a task that never ended.
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    let keep = kept.clone();
    machine.spawn(cpu, "waits", move |cpu| async move {
        let waits = poll_fn(|context| {
            *keep.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        });
        OnCpu::new(&cpu, waits).await
    });
    machine.spawn_main(cpu, "ends", |cpu| async move { cpu.sleep_until(10).await });
    machine.run_virtual(Seed(1)).unwrap();
    kept.lock().unwrap().take().unwrap().wake();
}
