//! The link to the host: latency, and bandwidth in each direction.
//!
//! What goes to the host follows the controller's completions. What comes from it is fetched by the
//! controller (data of writes) and by cores (pages of the host memory buffer that are written back or read), so
//! that direction is shared.

use wharf_runtime::Cpu;
use wharf_wire::lane::Lane;

use crate::config::LinkConfig;

/// Bytes that cross the link for a page, whatever the media keep of it.
pub const PAGE_BYTES: u64 = 4096;

/// The direction to the host.
pub struct ToHost {
    latency_ns: u64,
    lane: Lane,
}

impl ToHost {
    /// The end of a lane.
    pub fn new(config: &LinkConfig, lane: Lane) -> ToHost {
        ToHost {
            latency_ns: config.latency_ns,
            lane,
        }
    }

    /// Bytes that hosts have loaded.
    pub fn loaded_bytes(&self) -> u64 {
        self.lane.bytes()
    }

    /// When a completion, behind the `bytes` bytes of data before it, is at the host. Both ways'
    /// latency is counted here. Completions keep their order: the link is a queue.
    #[inline]
    pub fn carry(&mut self, cpu: &Cpu, bytes: u64) -> u64 {
        if self.latency_ns == 0 && self.lane.is_unlimited() {
            return cpu.stamp_ns();
        }
        self.lane.carry(cpu.now(), bytes) + 2 * self.latency_ns
    }
}

/// The direction from the host. Clones are the same link.
#[derive(Clone)]
pub struct FromHost(Lane);

impl FromHost {
    /// The end of a lane.
    pub fn new(lane: Lane) -> FromHost {
        FromHost(lane)
    }

    /// When `bytes` bytes that are asked for now are here; 0 if that takes no time.
    #[inline]
    pub fn carry(&self, cpu: &Cpu, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        self.0.count(bytes);
        match self.0.is_unlimited() {
            true => 0,
            false => self.0.carry(cpu.now(), bytes),
        }
    }

    /// Bytes that it has carried.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

/// Both directions of an idle link: to the host, and from it.
pub fn lanes(config: &LinkConfig) -> (Lane, Lane) {
    (
        Lane::new(config.to_host_mb_s),
        Lane::new(config.from_host_mb_s),
    )
}

#[cfg(test)]
mod tests {
    use wharf_runtime::{CostTable, Machine, Side};

    use super::*;

    #[test]
    fn what_controller_and_cores_fetch_follows_one_another() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Drive, 1.0);
        let limited = FromHost::new(Lane::new(4096));
        let unlimited = FromHost::new(Lane::new(0));
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
