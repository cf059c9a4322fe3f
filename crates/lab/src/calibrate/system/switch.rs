//! Two threads of one processor that wake each other and sleep, by futex.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustix::thread::{CpuSet, futex, sched_setaffinity};
use wharf_runtime::clock::Clock;

use crate::calibrate::contention::{on_two_cores, take};
use crate::calibrate::costs::Costs;
use crate::calibrate::sample::Sampler;

/// Turns of each thread in a round.
const TURNS: u32 = 200;

/// Times a turn: the other is woken, this one sleeps, the other runs.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) {
    let turn = Arc::new(AtomicU32::new(0));
    let rounds = (sampler.groups * sampler.rounds) as u32;
    let found = Arc::new(Mutex::new(None));
    let (even, odd, result) = (turn.clone(), turn, found.clone());
    on_two_cores(
        move |_| {
            share_a_processor();
            for round in 0..rounds * TURNS {
                play(&even, 2 * round);
            }
        },
        move |_| {
            share_a_processor();
            let mut at = 1;
            let sample = sampler.collect(|| {
                let clock = Clock::start();
                for _ in 0..TURNS {
                    play(&odd, at);
                    at += 2;
                }
                clock.now_ns() as f64 / f64::from(2 * TURNS)
            });
            *result.lock().unwrap_or_else(|p| p.into_inner()) = Some(sample);
        },
    );
    let how = "a turn of two threads of one processor that wake each other by futex";
    costs.path("futex_turn", take(&found), how);
}

fn share_a_processor() {
    let mut set = CpuSet::new();
    set.set(0);
    // A refusal leaves two processors: the turns are then dearer, which the table's spread shows.
    let _ = sched_setaffinity(None, &set);
}

/// Sleeps until it is turn `at`, then makes it the next one and wakes the other thread.
fn play(turn: &AtomicU32, at: u32) {
    let flags = futex::Flags::PRIVATE;
    loop {
        // Acquire: partner of the release below, in the other thread.
        let now = turn.load(Ordering::Acquire);
        if now == at {
            break;
        }
        // An error is a wake-up like any other: the turn is looked at again.
        let _ = futex::wait(turn, flags, now, None);
    }
    // Release: partner of the acquire above.
    turn.store(at + 1, Ordering::Release);
    let _ = futex::wake(turn, flags, 1);
}
