//! Dirty throttling: writers must not dirty pages faster than the drive takes them.
//!
//! Idea (mm/page-writeback.c of Linux, whose names are in brackets): every so many pages a writer
//! looks at the number of pages that the drive does not have (`balance_dirty_pages`).
//!
//! 1. Up to the middle between the background and the hard threshold it goes on
//!    (`dirty_freerun_ceiling`), and looks again after as many pages as the root of what is left to
//!    the hard threshold (`dirty_poll_interval`).
//! 2. Above, its *rate* is its share of the rate of write-back, times a factor that falls from 2 at
//!    that middle, over 1 halfway, to 0 at the hard threshold (`wb_position_ratio`). It pauses
//!    until the pages that it has dirtied are paid for at that rate.
//! 3. A pause is at most an eighth of the time in which all that is dirty could be written, and 200
//!    ms (`wb_max_pause`); one that would be short is saved up: pauses are to be of 10 ms, of more
//!    where there are more writers (`wb_min_pause`).
//! 4. At the hard threshold the rate is 0: the longest pause, again and again, until there is less.
//!
//! Simpler than Linux: a writer's share is the rate of write-back over the number of writers, to
//! which Linux's converges (`wb_update_dirty_ratelimit`); the tasks of a client pay together;
//! pauses are not rounded to ticks; and who has paused for 200 ms at the hard threshold goes on, so
//! that a drive that takes no writes at all is told by the lack of memory.

use std::cell::Cell;
use std::rc::Rc;

use wharf_runtime::sync::Ordering;

use crate::kernel::pages::CpuPages;
use crate::kernel::shared::Shared;
use crate::kit::write_back::WriteBack;
use wharf_runtime::waits::TimedWait;

/// Longest pause (`MAX_PAUSE`).
const PAUSE_MAX_NS: u64 = 200_000_000;

/// Shortest longest pause, where next to nothing is dirty. (Linux: a tick.)
const PAUSE_LEAST_NS: u64 = 1_000;

/// What a pause of a single writer is to be (`wb_min_pause`), and what is added for each doubling
/// of their number.
const PAUSE_AIM_NS: u64 = 10_000_000;

/// Fewest pages between two looks, where a pause can be so long (`DIRTY_POLL_THRESH`).
const POLL_PAGES: f64 = 32.0;

/// How fast a writer may dirty pages, in pages a second.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// Its share of the rate of write-back.
    share: f64,
    /// The share times the factor.
    task: f64,
    /// Writers.
    writers: u64,
}

/// How long a pause is worth taking, and after how many pages to look again.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Aim {
    pause_min_ns: u64,
    pages: u64,
}

/// What a CPU dirties, and has paid for.
pub(super) struct Throttle {
    pages: Rc<CpuPages>,
    /// Pages dirtied since the last look at the limits.
    dirtied: Cell<u64>,
    /// Pages after which to look again.
    dirty_step: Cell<u64>,
    /// Until when the pages that the CPU dirtied are paid for.
    paid_until_ns: Cell<u64>,
}

impl Throttle {
    /// Nothing is dirty yet.
    pub(super) fn new(pages: &Rc<CpuPages>) -> Throttle {
        Throttle {
            pages: pages.clone(),
            dirtied: Cell::new(0),
            dirty_step: Cell::new(1),
            paid_until_ns: Cell::new(0),
        }
    }

    /// The task has dirtied a page: sometimes looks at the thresholds.
    #[inline]
    pub(super) async fn balance_dirty(&self, write_back: &WriteBack<CpuPages>) {
        let limits = &self.pages.shared.limits;
        let dirtied = self.dirtied.get() + 1;
        self.dirtied.set(dirtied);
        // A CPU looks at the latest after `ratelimit_pages`.
        if dirtied >= self.dirty_step.get().min(limits.dirty_step) {
            self.dirtied.set(0);
            match self.pages.shared.writers_flush {
                true => {
                    self.dirty_step.set(limits.dirty_step);
                    write_back.balance().await;
                }
                false => self.throttle(dirtied).await,
            }
        }
    }

    async fn throttle(&self, dirtied: u64) {
        let (pages, shared) = (&self.pages, &self.pages.shared);
        let (tasks, cpu, limits) = (&pages.tasks, &pages.tasks.cpu, &shared.limits);
        shared.note_writer(tasks.index);
        let began_ns = cpu.now();
        let mut unpaid = dirtied;
        loop {
            if shared.is_over_background() {
                tasks.wake(&shared.common.flusher);
            }
            let (unwritten, now_ns) = (shared.unwritten(), cpu.now());
            if unwritten <= limits.free_run() {
                self.dirty_step
                    .set(poll_interval(limits.dirty_hard - unwritten));
                self.paid_until_ns.set(now_ns);
                return;
            }
            let pause_max_ns = shared.pause_max_ns();
            let rates = shared.rates(unwritten);
            let Some(pause_ns) = self.pause_ns(unpaid, rates, pause_max_ns) else {
                return;
            };
            pages.counters.waits.add(1);
            self.paid_until_ns.set(now_ns + pause_ns);
            self.pause_until(now_ns + pause_ns).await;
            let slept_ns = cpu.now() - now_ns;
            pages.counters.throttled_ns.add(slept_ns);
            let is_stuck = cpu.now() >= began_ns + PAUSE_MAX_NS;
            if rates.task > 0.0 || is_stuck {
                return;
            }
            unpaid = 0;
        }
    }

    /// How long to pause for `dirtied` pages, from now on; `None` if that is too short to be worth
    /// it, and is left for the next time.
    fn pause_ns(&self, dirtied: u64, rates: Rates, pause_max_ns: u64) -> Option<u64> {
        if rates.task == 0.0 {
            return Some(pause_max_ns);
        }
        let aim = aim(rates, pause_max_ns);
        self.dirty_step.set(aim.pages);
        let (now_ns, paid_ns) = (self.pages.tasks.cpu.now(), self.paid_until_ns.get());
        let due_ns = paid_ns + (dirtied as f64 * 1e9 / rates.task) as u64;
        if due_ns < now_ns + aim.pause_min_ns {
            // Who has dirtied little for a second begins anew.
            let is_idle = due_ns + 1_000_000_000 < now_ns;
            self.paid_until_ns
                .set(if is_idle { now_ns } else { due_ns });
            return None;
        }
        Some((due_ns - now_ns).min(pause_max_ns))
    }

    async fn pause_until(&self, due_ns: u64) {
        let tasks = &self.pages.tasks;
        let paused = async {
            while tasks.cpu.now() < due_ns {
                TimedWait::until(&tasks.cpu, due_ns).await;
            }
        };
        tasks.sleep(paused).await;
    }
}

impl Shared {
    /// Longest pause: an eighth of the time in which all that is dirty could be written, so that
    /// the drive does not run dry before anyone goes on.
    fn pause_max_ns(&self) -> u64 {
        let bandwidth = self.bandwidth.load(Ordering::Relaxed).max(1);
        let drain_ns = self.unwritten() * 1_000_000_000 / bandwidth;
        (drain_ns / 8).clamp(PAUSE_LEAST_NS, PAUSE_MAX_NS)
    }

    fn rates(&self, unwritten: u64) -> Rates {
        let writers = self.writers();
        let share = self.bandwidth.load(Ordering::Relaxed).max(1) as f64 / writers as f64;
        let factor = position(unwritten, self.limits.free_run(), self.limits.dirty_hard);
        Rates {
            share,
            task: share * factor,
            writers,
        }
    }
}

/// Pages after which to look again when `left` pages are left to the hard threshold.
fn poll_interval(left: u64) -> u64 {
    1 << (left.max(1).ilog2() / 2)
}

fn aim(rates: Rates, pause_max_ns: u64) -> Aim {
    let pages_in = |ns: u64, rate: f64| rate * ns as f64 / 1e9;
    let wished_ns = PAUSE_AIM_NS * (1 + u64::from(rates.writers.ilog2()));
    let mut aim_ns = wished_ns.min(pause_max_ns / 2);
    let mut pages = pages_in(aim_ns, rates.share);
    if pages < POLL_PAGES {
        aim_ns = pause_max_ns;
        pages = pages_in(aim_ns, rates.share);
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            aim_ns = (POLL_PAGES * 1e9 / rates.share) as u64;
        }
    }
    if pages * 1e9 / rates.task > pause_max_ns as f64 {
        aim_ns = pause_max_ns;
        pages = pages_in(aim_ns, rates.task);
    }
    Aim {
        pause_min_ns: if pages >= POLL_PAGES {
            aim_ns / 2
        } else {
            aim_ns
        },
        pages: (pages as u64).max(1),
    }
}

/// The factor of the rate: the kernel's cubic, 2 at `free_run`, 1 halfway, 0 at `hard`.
fn position(unwritten: u64, free_run: u64, hard: u64) -> f64 {
    if unwritten >= hard {
        return 0.0;
    }
    let setpoint = (free_run + hard) as f64 / 2.0;
    let span = (hard as f64 - setpoint).max(0.5);
    let x = ((setpoint - unwritten as f64) / span).clamp(-1.0, 1.0);
    1.0 + x * x * x
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_pace_falls_from_twice_the_rate_to_nothing() {
        assert_eq!(position(150, 150, 250), 2.0);
        assert_eq!(position(200, 150, 250), 1.0);
        assert_eq!(position(250, 150, 250), 0.0);
        let factors: Vec<f64> = (150..=250).map(|n| position(n, 150, 250)).collect();
        assert!(factors.is_sorted_by(|a, b| a >= b));
        assert_eq!(position(260, 150, 250), 0.0);
    }

    #[test]
    fn pauses_are_long_and_so_few() {
        let rates = |share, task, writers| Rates {
            share,
            task,
            writers,
        };
        // 10 ms of 200,000 pages a second, and half as much is worth a pause.
        let alone = aim(rates(200_000.0, 200_000.0, 1), 100_000_000);
        assert_eq!((alone.pause_min_ns, alone.pages), (5_000_000, 2_000));
        // Eight writers: 40 ms each.
        let many = aim(rates(25_000.0, 25_000.0, 8), 100_000_000);
        assert_eq!((many.pause_min_ns, many.pages), (20_000_000, 1_000));
        // No more than half of the longest, but for 32 pages.
        let short = aim(rates(25_000.0, 25_000.0, 8), 4_000_000);
        assert_eq!((short.pause_min_ns, short.pages), (1_000_000, 50));
        let slow = aim(rates(1_000.0, 1_000.0, 1), 10_000_000);
        assert_eq!((slow.pause_min_ns, slow.pages), (10_000_000, 10));
        // Near the hard threshold a pause for so many pages would be too long.
        let near = aim(rates(200_000.0, 10_000.0, 1), 20_000_000);
        assert_eq!((near.pause_min_ns, near.pages), (10_000_000, 200));
    }

    #[test]
    fn looks_are_rarer_the_farther_the_threshold() {
        assert_eq!(
            [0, 1, 4, 1_024, 1_000_000].map(poll_interval),
            [1, 1, 2, 32, 512]
        );
    }
}
