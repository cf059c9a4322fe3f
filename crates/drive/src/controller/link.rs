//! The link to the host: latency, and bandwidth in each direction.

use wharf_runtime::{Cpu, Resource};

use crate::config::LinkConfig;

/// Bytes that cross the link for a page, whatever the media keep of it.
const PAGE_BYTES: u64 = 4096;

/// The two directions of the link.
pub struct HostLink {
    latency_ns: u64,
    to_host_ns_per_page: u64,
    from_host_ns_per_page: u64,
    to_host: Resource,
    from_host: Resource,
}

fn ns_per_page(mb_s: u64) -> u64 {
    // No bandwidth stands for an unlimited one.
    (PAGE_BYTES * 1000).checked_div(mb_s).unwrap_or(0)
}

impl HostLink {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> HostLink {
        HostLink {
            latency_ns: config.latency_ns,
            to_host_ns_per_page: ns_per_page(config.to_host_mb_s),
            from_host_ns_per_page: ns_per_page(config.from_host_mb_s),
            to_host: Resource::default(),
            from_host: Resource::default(),
        }
    }

    /// When the data of a write are all here; 0 if that takes no time.
    #[inline]
    pub fn carry_from_host(&mut self, cpu: &Cpu, pages: u32) -> u64 {
        if self.from_host_ns_per_page == 0 {
            return 0;
        }
        self.from_host
            .reserve(cpu.now(), self.from_host_ns_per_page * u64::from(pages))
    }

    /// When a completion, behind the `pages` pages of data before it, is at the host. Both ways'
    /// latency is counted here. Completions keep their order: the link is a queue.
    #[inline]
    pub fn carry_to_host(&mut self, cpu: &Cpu, pages: u32) -> u64 {
        if self.latency_ns == 0 && self.to_host_ns_per_page == 0 {
            return if cpu.is_virtual() { cpu.now() } else { 0 };
        }
        let sent_ns = self
            .to_host
            .reserve(cpu.now(), self.to_host_ns_per_page * u64::from(pages));
        sent_ns + 2 * self.latency_ns
    }
}
