//! What clients and managers count beyond what all designs do.

use std::ops::Deref;

use crate::design::{Amount, Counter, Counters, Gauges, Statistics};

/// What a client counts.
#[derive(Default)]
pub(super) struct ClientCounters {
    shared: Counters,
    /// Nanoseconds in which the client's CPU had nothing to do but wait for managers.
    pub(super) manager_wait_ns: Counter,
    /// Pages that managers were asked for.
    pub(super) manager_asks: Counter,
    /// Nanoseconds in which these requests, and then their answers, were on their way or waited to
    /// be taken; 0 where operations are not timed, as is the next.
    pub(super) manager_queue_ns: Counter,
    /// Nanoseconds that managers had them, from taking the request to giving the answer.
    pub(super) manager_held_ns: Counter,
}

impl Deref for ClientCounters {
    type Target = Counters;

    #[inline]
    fn deref(&self) -> &Counters {
        &self.shared
    }
}

impl ClientCounters {
    /// What they report.
    pub(super) fn gauges(&self) -> Gauges {
        let count = self.manager_asks.get();
        let mean = |sum: &Counter| Amount::MeanNs {
            sum_ns: sum.get(),
            count,
        };
        Gauges::none()
            .with("manager_asks", Amount::Count(count))
            .with(
                "manager_wait",
                Amount::OfClientsNs(self.manager_wait_ns.get()),
            )
            .with("manager_queue", mean(&self.manager_queue_ns))
            .with("manager_held", mean(&self.manager_held_ns))
    }
}

/// What a manager did so far, but for its drivers: whoever runs it has those.
#[derive(Clone, Copy, Default)]
pub(super) struct ManagerAccount {
    /// What all designs count.
    pub(super) statistics: Statistics,
    /// Nanoseconds in which it had nothing to do but poll queue pairs with commands under way; 0 in
    /// real time, where nobody times empty polls.
    pub(super) polled_ns: u64,
}
