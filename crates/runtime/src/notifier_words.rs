//! A notifier between two processes: words in memory that both map.
//!
//! A [`Notifier`](crate::Notifier) lives in one process: it knows its waiter's thread. Across processes
//! only two words are shared, and each side puts a notifier of its own around them
//! ([`Notifier::across`](crate::Notifier::across)):
//!
//! 1. The ringer sets its flag ([`NotifierWords::notify`]). A waiter that polls sees it, and that is all.
//! 2. A waiter that is about to sleep says so ([`NotifierWords::set_parked`]) and looks once more. A ringer
//!    that sees it asleep wakes it by a way of its own: a byte on a socket, say.
//!
//! The other process may write anything to the words at any time. What follows is a wake-up for
//! nothing, which is allowed everywhere, or one that the writer itself misses.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// See the module. All zeros is a silent notifier.
#[derive(Debug)]
#[repr(C)]
pub struct NotifierWords {
    /// Which sources have something to be seen.
    ready: AtomicU64,
    /// The waiter's thread is about to park, or parked.
    parked: AtomicU32,
}

impl Default for NotifierWords {
    fn default() -> Self {
        NotifierWords::new()
    }
}

impl NotifierWords {
    /// Byte at which it is said that the waiter sleeps: a word that it may sleep by, which is 0 while it does not.
    pub const PARKED_AT: usize = std::mem::offset_of!(NotifierWords, parked);

    /// Sources that they tell apart.
    pub const SOURCES: u32 = 64;

    /// A silent notifier.
    pub fn new() -> NotifierWords {
        NotifierWords {
            ready: AtomicU64::new(0),
            parked: AtomicU32::new(0),
        }
    }

    /// Says that `source` has something to be seen; true if the waiter must be woken.
    #[inline]
    pub fn notify(&self, source: u32) -> bool {
        // Release: partner of the swap in `take`.
        self.ready.fetch_or(1 << source, Ordering::Release);
        // Partner of the fence in `set_parked`: either the sleeper's last look at the flags sees the
        // one above, or this load sees that it parks.
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::Relaxed) != 0
    }

    /// Takes the flags.
    #[inline]
    pub fn take(&self) -> u64 {
        match self.ready.load(Ordering::Relaxed) {
            // The plain load keeps an idle poller from writing to the ringer's line.
            0 => 0,
            // AcqRel: partner of the setting in `ring`.
            _ => self.ready.swap(0, Ordering::AcqRel),
        }
    }

    /// True if a flag is set.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.ready.load(Ordering::Acquire) != 0
    }

    /// Says whether the waiter parks. It looks at the flags once more before it does.
    #[inline]
    pub fn set_parked(&self, parked: bool) {
        self.note_parked(parked);
        fence(Ordering::SeqCst);
    }

    /// The same without the fence, for a waiter that says so in the words of many.
    #[inline]
    pub(crate) fn note_parked(&self, parked: bool) {
        self.parked.store(u32::from(parked), Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn a_waiter_that_sleeps_has_seen_the_flag_or_is_woken() {
        loom::model(|| {
            let words = Arc::new(NotifierWords::new());
            let data = Arc::new(AtomicU32::new(0));
            let (ringing, pushed) = (words.clone(), data.clone());
            let ringer = loom::thread::spawn(move || {
                pushed.store(7, Ordering::Relaxed);
                ringing.notify(5)
            });
            words.set_parked(true);
            let sleeps = !words.is_rung();
            let woken = ringer.join().unwrap();
            assert!(!sleeps || woken, "asleep, and nobody wakes it");
            words.set_parked(false);
            assert_eq!(words.take(), 1 << 5);
            assert_eq!(data.load(Ordering::Relaxed), 7);
        });
    }
}
