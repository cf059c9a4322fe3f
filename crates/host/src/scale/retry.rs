//! When write-backs of a file that failed are tried again: later each time, so that storage that
//! fails is not kept busy with failing.
//!
//! Whoever writes back on nobody's order keeps to it: the service, and writers and readers who are
//! short of memory. A flush tries at once, as its caller waits for the answer.

use wharf_runtime::sync::{AtomicU64, Ordering};

/// The first wait in nanoseconds.
const WAIT_MIN_NS: u64 = 10_000_000;

/// The longest wait in nanoseconds.
const WAIT_MAX_NS: u64 = 1_000_000_000;

/// See the module. All accesses are relaxed: they are about when to try, and order nothing.
#[derive(Default)]
pub struct Retry {
    /// Not before; 0 if the last write-back was a success.
    due_ns: AtomicU64,
    /// The wait that ends then.
    wait_ns: AtomicU64,
}

impl Retry {
    /// Whether write-backs may be tried.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.due_ns.load(Ordering::Relaxed) <= now_ns
    }

    /// A write-back has failed.
    pub fn note_failure(&self, now_ns: u64) {
        // Those that were under way beside the first one to fail say nothing new.
        if self.is_due(now_ns) {
            let before_ns = self.wait_ns.load(Ordering::Relaxed);
            let wait_ns = (2 * before_ns).clamp(WAIT_MIN_NS, WAIT_MAX_NS);
            self.wait_ns.store(wait_ns, Ordering::Relaxed);
            self.due_ns.store(now_ns + wait_ns, Ordering::Relaxed);
        }
    }

    /// A write-back has not failed, or another file begins here.
    pub fn note_success(&self) {
        if self.due_ns.load(Ordering::Relaxed) != 0 {
            self.wait_ns.store(0, Ordering::Relaxed);
            self.due_ns.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_second_and_begin_anew_after_a_success() {
        let retry = Retry::default();
        assert!(retry.is_due(0));
        let mut now_ns = 5;
        for wait_ms in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            retry.note_failure(now_ns);
            retry.note_failure(now_ns + 1);
            let due_ns = now_ns + wait_ms * 1_000_000;
            assert!(!retry.is_due(due_ns - 1), "{wait_ms} ms");
            assert!(retry.is_due(due_ns), "{wait_ms} ms");
            now_ns = due_ns;
        }
        retry.note_success();
        assert!(retry.is_due(0));
        retry.note_failure(7);
        assert!(retry.is_due(7 + WAIT_MIN_NS));
    }
}
