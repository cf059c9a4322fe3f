//! A channel and the transfers booked on it.

use std::collections::VecDeque;

/// A channel between dies and controller: it moves one page at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Channel {
    /// Busy intervals (start, end) in order, those of the past dropped. At most one for each
    /// operation that the planes behind the channel have begun.
    booked: VecDeque<(u64, u64)>,
}

impl Channel {
    /// Books `duration_ns` in the first gap from `from_ns` on; returns its end. Nobody will book
    /// from before `past_ns` any more.
    pub(super) fn book(&mut self, past_ns: u64, from_ns: u64, duration_ns: u64) -> u64 {
        while self.booked.front().is_some_and(|(_, end)| *end <= past_ns) {
            self.booked.pop_front();
        }
        let mut start_ns = from_ns;
        let mut index = self.booked.len();
        // Most bookings go to the end: look from there for the last interval that ends before.
        while index > 0 && self.booked[index - 1].1 > from_ns {
            index -= 1;
        }
        while index < self.booked.len() && self.booked[index].0 < start_ns + duration_ns {
            start_ns = start_ns.max(self.booked[index].1);
            index += 1;
        }
        let end_ns = start_ns + duration_ns;
        match index.checked_sub(1).map(|before| &mut self.booked[before]) {
            Some(before) if before.1 == start_ns => before.1 = end_ns,
            _ => self.booked.insert(index, (start_ns, end_ns)),
        }
        end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_too_short_is_passed_over() {
        let mut channel = Channel::default();
        assert_eq!(channel.book(0, 0, 10), 10);
        assert_eq!(channel.book(0, 15, 10), 25);
        assert_eq!(channel.book(0, 0, 10), 35);
        assert_eq!(channel.book(0, 0, 5), 15);
        assert_eq!(channel.book(0, 0, 1), 36);
        assert_eq!(channel.book(100, 0, 1), 1);
    }
}
