//! Who reads or writes a file in order: what such a reader gets moves to the host in whole pages, ahead of it, or to the drive's cache.

use std::cell::Cell;

/// Requests that follow each other before that is an order.
const FOLLOWERS: u32 = 2;

/// Pages of the first window.
pub(super) const WINDOW_PAGES_MIN: u64 = 4;

/// Pages that are brought to a cache ahead of who goes through a file in order.
#[derive(Debug)]
struct Ahead {
    /// Pages of the next window.
    window: Cell<u64>,
    /// Up to where pages were brought ahead.
    brought: Cell<u64>,
    /// From this page on the next window is wanted.
    trigger: Cell<u64>,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead {
            window: Cell::new(WINDOW_PAGES_MIN),
            brought: Cell::new(0),
            trigger: Cell::new(u64::MAX),
        }
    }
}

impl Ahead {
    /// Nobody goes on where the last one was.
    fn end(&self) {
        self.window.set(WINDOW_PAGES_MIN);
        self.brought.set(0);
        self.trigger.set(u64::MAX);
    }

    #[inline(always)]
    fn is_due(&self, page: u64) -> bool {
        page >= self.trigger.get()
    }

    fn window(&self, page: u64, pages_max: u64) -> Option<(u64, u64)> {
        let brought = self.brought.get();
        if brought > page && !self.is_due(page) {
            return None;
        }
        let (first, pages) = (brought.max(page), self.window.get().min(pages_max));
        self.brought.set(first + pages);
        self.window.set((pages * 2).min(pages_max));
        // Who gets there has all of it still, and the next one begins.
        self.trigger.set(first);
        Some((first, pages))
    }
}

/// What an open file remembers of the requests by it that the host's cache alone did not serve.
#[derive(Debug, Default)]
pub(in crate::stor::cache) struct Stream {
    /// The page behind the last one.
    next: Cell<u64>,
    followers: Cell<u32>,
    here: Ahead,
    near: Ahead,
}

impl Stream {
    /// Whether a request that begins at a page is to be looked at though all of it is in the host's cache.
    #[inline(always)]
    pub(in crate::stor::cache) fn is_due(&self, page: u64) -> bool {
        self.here.is_due(page) || self.near.is_due(page)
    }

    /// Notes a request for pages from `first` to before `end`; true if it is one of several in order.
    pub(super) fn note(&self, first: u64, end: u64) -> bool {
        let next = self.next.replace(end);
        // Several requests may be for parts of one page, and what was brought here ahead is passed without a note.
        let reach = next.saturating_sub(1)..=next.max(self.here.brought.get());
        if !reach.contains(&first) {
            self.followers.set(0);
            self.here.end();
            self.near.end();
            return false;
        }
        self.followers.set(self.followers.get().saturating_add(1));
        self.followers.get() >= FOLLOWERS
    }

    /// The window that is to be brought to the host's cache for a request in order that begins at a page: its first page, and how many;
    /// nothing if there is enough yet. Windows grow to `pages_max` pages.
    pub(super) fn window(&self, page: u64, pages_max: u64) -> Option<(u64, u64)> {
        self.here.window(page, pages_max)
    }

    /// The same of the drive's cache, for a request that ends before a page: behind what was brought to the host's.
    pub(super) fn window_near(&self, end: u64, pages_max: u64) -> Option<(u64, u64)> {
        self.near
            .window(end.max(self.here.brought.get()), pages_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_order_are_known_by_the_third_and_windows_grow_ahead_of_them() {
        let stream = Stream::default();
        assert!(!stream.note(7, 8), "a file may be begun anywhere");
        assert!(!stream.note(8, 9));
        assert!(stream.note(9, 10));
        assert_eq!(stream.window(9, 16), Some((9, 4)));
        assert!(!stream.is_due(8) && stream.is_due(9));
        assert!(stream.note(10, 11));
        assert_eq!(stream.window(10, 16), Some((13, 8)));
        assert!(stream.note(11, 12));
        assert_eq!(stream.window(11, 16), None);
        // Page 12 was passed without a word.
        assert!(!stream.is_due(12) && stream.note(13, 14));
        assert_eq!(stream.window(13, 16), Some((21, 16)));
        assert!(stream.note(21, 22));
        assert_eq!(stream.window(21, 16), Some((37, 16)));
        assert!(!stream.note(90, 91) && !stream.is_due(1_000));
    }

    #[test]
    fn windows_of_the_drive_begin_behind_those_of_the_host() {
        let stream = Stream::default();
        (0..3).for_each(|page| assert_eq!(stream.note(page, page + 1), page > 0));
        assert_eq!(stream.window_near(3, 512), Some((3, 4)));
        assert_eq!(
            stream.window_near(3, 512),
            Some((7, 8)),
            "who is there goes on"
        );
        assert_eq!(stream.window_near(4, 512), None);
        assert!(!stream.is_due(6) && stream.is_due(7));
        assert_eq!(stream.window(2, 15), Some((2, 4)));
        assert_eq!(stream.window_near(8, 12), Some((15, 12)));
        assert!(!stream.note(90, 91) && !stream.is_due(1_000));
        assert_eq!(stream.window(91, 15), Some((91, 4)));
        assert_eq!(stream.window_near(92, 512), Some((95, 4)));
    }

    #[test]
    fn parts_of_one_page_are_in_order_and_places_at_random_are_not() {
        let stream = Stream::default();
        let noted: Vec<bool> = [5, 5, 5, 6].map(|page| stream.note(page, page + 1)).into();
        assert_eq!(noted, [false, false, true, true]);
        for page in [90, 3, 700, 41, 12] {
            assert!(!stream.note(page, page + 1));
        }
    }
}
