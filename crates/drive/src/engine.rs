//! The compression engine of a drive that has one: time on the way between link and write buffer.
//!
//! Pages of a write pass it when they have come over the link, pages of a read when flash has
//! delivered them. What collection moves stays as it is and never comes here. An engine serves one
//! share of a command at a time, whichever way it goes.

use std::cell::RefCell;
use std::rc::Rc;

use crate::config::{CompressionConfig, DriveConfig, Platform};

/// Bytes of a page, whatever the media keep of it.
const PAGE_BYTES: u64 = 4096;

/// All engines of a drive. Clones are the same.
#[derive(Clone)]
pub struct Engine {
    setup_ns: u64,
    in_ns_per_page: u64,
    out_ns_per_page: u64,
    /// When each has done all that it was given.
    free_ns: Rc<RefCell<Vec<u64>>>,
}

impl Engine {
    /// Idle engines, if the drive has any that take time.
    pub fn new(config: &DriveConfig) -> Option<Engine> {
        let CompressionConfig {
            engine_setup_ns,
            engine_in_mb_s,
            engine_out_mb_s,
            engines,
            ..
        } = config.compression;
        let ns_per_page = |mb_s: u64| (PAGE_BYTES * 1000).checked_div(mb_s).unwrap_or(0);
        let takes_time = engine_setup_ns + engine_in_mb_s + engine_out_mb_s > 0;
        let is_on = config.compression.is_on() && config.firmware.platform == Platform::Device;
        (is_on && takes_time).then(|| Engine {
            setup_ns: engine_setup_ns,
            in_ns_per_page: ns_per_page(engine_in_mb_s),
            out_ns_per_page: ns_per_page(engine_out_mb_s),
            free_ns: Rc::new(RefCell::new(vec![0; engines as usize])),
        })
    }

    /// When `pages` pages that are there at `ready_ns` are compressed.
    pub fn compress(&self, ready_ns: u64, pages: u32) -> u64 {
        self.pass(ready_ns, pages, self.in_ns_per_page)
    }

    /// When `pages` pages that are there at `ready_ns` are expanded.
    pub fn expand(&self, ready_ns: u64, pages: u32) -> u64 {
        self.pass(ready_ns, pages, self.out_ns_per_page)
    }

    fn pass(&self, ready_ns: u64, pages: u32, ns_per_page: u64) -> u64 {
        if pages == 0 {
            return ready_ns;
        }
        let mut free_ns = self.free_ns.borrow_mut();
        let first = free_ns.iter_mut().min().expect("there is an engine");
        *first = ready_ns.max(*first) + self.setup_ns + u64::from(pages) * ns_per_page;
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(engines: usize) -> Engine {
        Engine {
            setup_ns: 100,
            in_ns_per_page: 1_000,
            out_ns_per_page: 500,
            free_ns: Rc::new(RefCell::new(vec![0; engines])),
        }
    }

    #[test]
    fn an_engine_serves_one_after_another_both_ways() {
        let one = engine(1);
        assert_eq!(one.compress(50, 2), 2_150);
        assert_eq!(one.clone().expand(60, 4), 4_250);
        assert_eq!(one.expand(9_000, 0), 9_000);
        assert_eq!(one.compress(9_000, 1), 10_100);
    }

    #[test]
    fn two_engines_serve_two_at_once() {
        let two = engine(2);
        assert_eq!([0; 3].map(|at| two.compress(at, 1)), [1_100, 1_100, 2_200]);
    }
}
