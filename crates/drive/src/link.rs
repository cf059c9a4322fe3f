//! The link to the host: latency, and bandwidth in each direction.
//!
//! What goes to the host follows the controller's completions. What comes from it is fetched by the
//! controller (data of writes) and by cores (pages of the host memory buffer that are written back or read), so
//! that direction is shared.

use wharf_runtime::sync::{Arc, AtomicU64, Ordering};
use wharf_runtime::{Cpu, Resource};

use crate::config::LinkConfig;

/// Bytes that cross the link for a page, whatever the media keep of it.
pub const PAGE_BYTES: u64 = 4096;

/// How long bytes take. Whole pages are the rule, and take no division.
#[derive(Clone, Copy)]
struct Pace {
    mb_s: u64,
    ns_per_page: u64,
}

impl Pace {
    fn new(mb_s: u64) -> Pace {
        // No bandwidth stands for an unlimited one.
        let ns_per_page = (PAGE_BYTES * 1000).checked_div(mb_s).unwrap_or(0);
        Pace { mb_s, ns_per_page }
    }

    #[inline]
    fn is_unlimited(self) -> bool {
        self.ns_per_page == 0
    }

    #[inline]
    fn ns(self, bytes: u64) -> u64 {
        let pages_ns = self.ns_per_page * (bytes / PAGE_BYTES);
        match bytes % PAGE_BYTES {
            0 => pages_ns,
            rest => pages_ns + (rest * 1000).checked_div(self.mb_s).unwrap_or(0),
        }
    }
}

/// The direction to the host.
pub struct ToHost {
    latency_ns: u64,
    pace: Pace,
    busy: Resource,
}

impl ToHost {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> ToHost {
        ToHost {
            latency_ns: config.latency_ns,
            pace: Pace::new(config.to_host_mb_s),
            busy: Resource::default(),
        }
    }

    /// When a completion, behind the `bytes` bytes of data before it, is at the host. Both ways'
    /// latency is counted here. Completions keep their order: the link is a queue.
    #[inline]
    pub fn carry(&mut self, cpu: &Cpu, bytes: u64) -> u64 {
        if self.latency_ns == 0 && self.pace.is_unlimited() {
            return cpu.stamp_ns();
        }
        let sent_ns = self.busy.reserve(cpu.now(), self.pace.ns(bytes));
        sent_ns + 2 * self.latency_ns
    }
}

/// The direction from the host. Clones are the same link.
#[derive(Clone)]
pub struct FromHost {
    pace: Pace,
    carried: Arc<Carried>,
}

/// What the link carried from the host.
#[derive(Default)]
struct Carried {
    bytes: AtomicU64,
    /// When it has carried all that was asked for.
    free_ns: AtomicU64,
}

impl FromHost {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> FromHost {
        FromHost {
            pace: Pace::new(config.from_host_mb_s),
            carried: Arc::default(),
        }
    }

    /// When `bytes` bytes that are asked for now are here; 0 if that takes no time.
    #[inline]
    pub fn carry(&self, cpu: &Cpu, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        // Relaxed: a sum.
        self.carried.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.pace.is_unlimited() {
            return 0;
        }
        let duration_ns = self.pace.ns(bytes);
        let end_ns = |free_ns: u64| free_ns.max(cpu.now()) + duration_ns;
        // Relaxed: a clock of its own, which orders nothing.
        let (order, next) = (Ordering::Relaxed, |free_ns| Some(end_ns(free_ns)));
        let before = self.carried.free_ns.fetch_update(order, order, next);
        end_ns(before.expect("it is always changed"))
    }

    /// Bytes that it has carried.
    pub fn bytes(&self) -> u64 {
        self.carried.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use wharf_runtime::{CostTable, Machine, Side};

    use super::*;

    #[test]
    fn what_controller_and_cores_fetch_follows_one_another() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Drive, 1.0);
        let mut config = LinkConfig {
            latency_ns: 0,
            to_host_mb_s: 0,
            from_host_mb_s: 4096,
        };
        let (limited, unlimited) = (FromHost::new(&config), {
            config.from_host_mb_s = 0;
            FromHost::new(&config)
        });
        machine.spawn_main(id, "fetcher", move |cpu| async move {
            let other = limited.clone();
            assert_eq!(
                [
                    limited.carry(&cpu, 2 * PAGE_BYTES),
                    other.carry(&cpu, PAGE_BYTES),
                    limited.carry(&cpu, 0)
                ],
                [2_000, 3_000, 0]
            );
            cpu.sleep_until(10_000).await;
            assert_eq!(limited.carry(&cpu, PAGE_BYTES), 11_000);
            // Bytes take their share of a page's time.
            assert_eq!(limited.carry(&cpu, 1_024), 11_250);
            assert_eq!(limited.carry(&cpu, PAGE_BYTES + 2_048), 12_750);
            assert_eq!(limited.bytes(), 5 * PAGE_BYTES + 3_072);
            assert_eq!(unlimited.carry(&cpu, PAGE_BYTES), 0);
            assert_eq!(unlimited.bytes(), PAGE_BYTES);
        });
        machine.run_virtual(wharf_runtime::Seed(1)).unwrap();
    }
}
