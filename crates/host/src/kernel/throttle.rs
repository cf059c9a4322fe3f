//! Dirty throttling: writers must not dirty pages faster than the drive takes them.
//!
//! Idea (`balance_dirty_pages` in mm/page-writeback.c of Linux): every so many pages a writer looks at
//! the number of pages that the drive does not have.
//!
//! 1. Up to the middle between the background and the hard threshold it goes on.
//! 2. Above, it pauses so that pages are dirtied at the rate at which they are written, times a factor
//!    that falls from 2 at that middle, over 1 halfway, to 0 at the hard threshold; but never for more
//!    than an eighth of the time in which all that is dirty could be written.
//! 3. Above the hard threshold it waits until pages have been written.
//!
//! Simpler than Linux: the pages of all writers are paid for on one shared clock at the measured rate of
//! write-back, where Linux has each writer's rate converge to its share; and until a rate is
//! known nobody pauses, where Linux assumes 100 MB/s.

use wharf_runtime::sync::Ordering;

use crate::kernel::local::Local;
use crate::waits::Nap;

/// Longest pause (`MAX_PAUSE`). Who has waited for so long goes on: if the drive takes no
/// writes at all, memory will say so.
const PAUSE_MAX_NS: u64 = 200_000_000;

/// Shorter pauses are not taken: they would cost more than they bring. (Linux: 10 ms, with longer
/// intervals between the looks.)
const PAUSE_MIN_NS: u64 = 10_000;

/// Shortest nap above the hard threshold.
const NAP_MIN_NS: u64 = 20_000;

/// Longest nap above the hard threshold: the pause that Linux aims at.
const NAP_MAX_NS: u64 = 10_000_000;

impl Local {
    /// The task has dirtied a page: sometimes looks at the thresholds.
    #[inline]
    pub(super) async fn balance_dirty(&self) {
        let dirtied = self.dirtied.get() + 1;
        self.dirtied.set(dirtied);
        if dirtied >= self.shared.limits.dirty_step {
            self.dirtied.set(0);
            self.balance(dirtied).await;
        }
    }

    async fn balance(&self, dirtied: u64) {
        let (shared, limits) = (&self.shared, &self.shared.limits);
        if shared.is_over_background() {
            self.wake(&shared.flusher);
        }
        let began_ns = self.cpu.now();
        while shared.unwritten() > limits.dirty_hard {
            if self.cpu.now() >= began_ns + PAUSE_MAX_NS {
                return;
            }
            self.wake(&shared.flusher);
            self.counters.waits.add(1);
            // Not woken by the end of each request: all writers would be, for a few pages.
            self.nap(self.drain_share_ns().clamp(NAP_MIN_NS, NAP_MAX_NS))
                .await;
        }
        if shared.unwritten() > limits.free_run() {
            self.pace(dirtied).await;
        }
    }

    /// An eighth of the time in which all that is dirty could be written: a longer pause would let the
    /// drive run dry before anyone goes on (`wb_max_pause`). 0 until the rate is known.
    fn drain_share_ns(&self) -> u64 {
        let bandwidth = self.shared.bandwidth.load(Ordering::Relaxed);
        let drain_ns = self.shared.unwritten() * 1_000_000_000;
        drain_ns.checked_div(bandwidth).unwrap_or(0) / 8
    }

    /// Pauses for the time that `dirtied` pages take.
    async fn pace(&self, dirtied: u64) {
        let shared = &self.shared;
        let bandwidth = shared.bandwidth.load(Ordering::Relaxed);
        if bandwidth == 0 {
            return;
        }
        let factor = position(
            shared.unwritten(),
            shared.limits.free_run(),
            shared.limits.dirty_hard,
        );
        let cost_ns = dirtied as f64 * 1e9 / (bandwidth as f64 * factor.max(0.05));
        let pause_max_ns = self.drain_share_ns().min(PAUSE_MAX_NS);
        let now_ns = self.cpu.now();
        let later = |paid_ns: u64| {
            let until_ns = paid_ns.max(now_ns) + cost_ns as u64;
            Some(until_ns.min(now_ns + pause_max_ns))
        };
        // Relaxed: a clock of its own, which orders nothing.
        let paid = &shared.paid_until_ns;
        let before = paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let due_ns = before.unwrap_or(0).min(now_ns + pause_max_ns);
        if due_ns > now_ns + PAUSE_MIN_NS {
            self.counters.waits.add(1);
            let paused = async {
                while self.cpu.now() < due_ns {
                    Nap::until(&self.cpu, due_ns).await;
                }
            };
            self.sleep(paused).await;
        }
    }
}

/// The factor of the pace: the kernel's cubic, 2 at `free_run`, 1 halfway, 0 at `hard`.
fn position(unwritten: u64, free_run: u64, hard: u64) -> f64 {
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
    }
}
