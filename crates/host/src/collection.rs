//! When drives last said that they collect garbage, for who asks whether that was during a request.
//!
//! A completion says whether its drive collects. Many CPUs take completions, and a request may depend on
//! those that another CPU takes (a manager of a cache). So each CPU has a line of its own, to which it
//! writes the time of the latest such completion; who wants to know reads them all, once a request has
//! ended that went to a drive.

use crossbeam_utils::CachePadded;
use wharf_runtime::sync::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub struct CollectionReports {
    /// By CPU: one more than the time of its latest report, 0 for none.
    latest: Box<[CachePadded<AtomicU64>]>,
}

impl CollectionReports {
    /// No reports yet, of `cpus` CPUs.
    pub fn new(cpus: u32) -> CollectionReports {
        let none = |_| CachePadded::new(AtomicU64::new(0));
        CollectionReports {
            latest: (0..cpus).map(none).collect(),
        }
    }

    /// A drive has told CPU number `cpu` that it collects.
    #[inline]
    pub fn note(&self, cpu: usize, now_ns: u64) {
        // Relaxed: a time, which says nothing of other memory.
        self.latest[cpu].store(now_ns + 1, Ordering::Relaxed);
    }

    /// Whether a drive has said so to any CPU at `began_ns` or later.
    pub fn any_since(&self, began_ns: u64) -> bool {
        let is_later = |latest: &CachePadded<AtomicU64>| {
            // Relaxed: as above.
            latest.load(Ordering::Relaxed) > began_ns
        };
        self.latest.iter().any(is_later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_of_requests_that_had_begun() {
        let reports = CollectionReports::new(2);
        assert!(!reports.any_since(0));
        reports.note(1, 0);
        assert!(reports.any_since(0));
        reports.note(0, 50);
        reports.note(1, 20);
        assert!(reports.any_since(50));
        assert!(!reports.any_since(51));
    }
}
