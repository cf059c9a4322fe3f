//! Who says which sectors leave: a policy, or an index that knows in which order they were used.

use std::sync::Arc;

use wharf_runtime::{Cpu, Lock, Op};

use super::index::LineIndex;
use super::places::Places;
use super::policy::{Policy, Victim, View};

/// See the module.
pub(super) enum Order {
    Policy {
        policy: Lock<Box<dyn Policy>>,
        /// Whether it wants to be told of every touch.
        listens: bool,
    },
    Index(Arc<LineIndex>),
}

impl Order {
    /// Sectors were used in the cache, or have come into it.
    #[inline]
    pub(super) fn touched(&self, cpu: &Cpu, first: u64, count: u32) {
        match self {
            Order::Policy { listens: false, .. } => {}
            Order::Policy { policy, .. } => policy.with(cpu, |policy| {
                cpu.work_n(Op::ListUpdate, count, || policy.touched(first, count));
            }),
            Order::Index(index) => index.touched(cpu, first, count),
        }
    }

    /// Sectors have left. The index knows that, as they left it.
    pub(super) fn forgotten(&self, cpu: &Cpu, first: u64, count: u32) {
        if let Order::Policy {
            policy,
            listens: true,
        } = self
        {
            policy.with(cpu, |policy| {
                cpu.work_n(Op::ListUpdate, count, || policy.forgotten(first, count));
            });
        }
    }

    /// What is to leave: `budget` sectors, or a few more, or all there are.
    pub(super) fn choose(
        &self,
        cpu: &Cpu,
        places: &Places,
        (limit, budget): (u64, u64),
    ) -> Vec<Victim> {
        let mut victims = Vec::new();
        match (self, places.bitmap()) {
            (Order::Index(index), _) => return index.oldest(cpu, budget),
            (Order::Policy { policy, .. }, Some(bitmap)) => {
                let view = View { cpu, bitmap, limit };
                policy.with(cpu, |policy| policy.choose(view, budget, &mut victims));
            }
            (Order::Policy { .. }, None) => unreachable!("an index is its own order"),
        }
        victims
    }

    /// Bytes that a policy takes. What an index takes is not for the order alone.
    pub(super) fn memory_bytes(&self, cpu: &Cpu) -> usize {
        match self {
            Order::Policy { policy, .. } => policy.with(cpu, |policy| policy.memory_bytes()),
            Order::Index(_) => 0,
        }
    }
}
