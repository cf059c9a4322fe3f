//! How a request was served.

use std::ops::AddAssign;

/// How a request was served: 4 KiB pages that it touched, and how many were in the host's memory.
///
/// A page is a *hit* if an earlier request touched it and it has stayed since, or is on its way for that
/// request. A page that reading ahead brought is none when it is touched for the first time: however well
/// a cache guesses, it has no more hits than one that keeps everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touch {
    /// Pages touched.
    pub pages: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Of these, brought by reading ahead and touched for the first time.
    pub read_ahead_hits: u64,
}

impl Touch {
    /// Of `pages` pages that were all there.
    #[inline(always)]
    pub fn all_hits(pages: u64) -> Touch {
        Touch {
            pages,
            hits: pages,
            read_ahead_hits: 0,
        }
    }

    /// Of a page that was there; `is_first` if reading ahead had brought it and nobody has touched it before.
    #[inline(always)]
    pub(crate) fn found(is_first: bool) -> Touch {
        Touch {
            pages: 1,
            hits: u64::from(!is_first),
            read_ahead_hits: u64::from(is_first),
        }
    }

    /// Of `pages` pages of which none was there.
    #[inline(always)]
    pub fn no_hits(pages: u64) -> Touch {
        Touch {
            pages,
            ..Touch::default()
        }
    }
}

impl AddAssign for Touch {
    #[inline]
    fn add_assign(&mut self, more: Touch) {
        self.pages += more.pages;
        self.hits += more.hits;
        self.read_ahead_hits += more.read_ahead_hits;
    }
}
