//! Time on the flash: planes and channels, each serving one operation at a time.
//!
//! Only "when is it done" is here. Whoever starts an operation learns its end, waits for it, and
//! changes the media then, so that a power cut in between loses it as flash would.
//!
//! A read occupies its plane for tR, then the channel for the transfer; the plane holds the page
//! until it is out. A program takes the channel first, then its plane for tPROG. Other planes' work
//! goes on meanwhile: a channel serves whoever is ready in the gaps between booked transfers.

use std::collections::VecDeque;

use wharf_runtime::Resource;

use crate::config::Timing;

/// The planes and channels of one core.
#[derive(Debug)]
pub struct Nand {
    timing: Timing,
    planes: Vec<Resource>,
    channels: Vec<Channel>,
}

impl Nand {
    /// Idle flash of `planes` planes over `channels` channels.
    pub fn new(timing: &Timing, planes: u32, channels: u32) -> Nand {
        Nand {
            timing: timing.clone(),
            planes: vec![Resource::default(); planes as usize],
            channels: vec![Channel::default(); channels as usize],
        }
    }

    /// True if no operation takes any time: nobody needs to look at the clock.
    #[inline]
    pub fn is_instant(&self) -> bool {
        let t = &self.timing;
        t.read_ns | t.program_ns | t.erase_ns | t.channel_ns_per_page == 0
    }

    /// Starts a page read on `plane`; returns when the page is out of the die.
    #[inline]
    pub fn read(&mut self, now_ns: u64, plane: u32) -> u64 {
        let unit = &mut self.planes[plane as usize];
        let sensed_ns = unit.reserve(now_ns, self.timing.read_ns);
        if self.timing.channel_ns_per_page == 0 {
            return sensed_ns;
        }
        let channel = plane as usize % self.channels.len();
        let done_ns =
            self.channels[channel].book(now_ns, sensed_ns, self.timing.channel_ns_per_page);
        unit.extend(done_ns);
        done_ns
    }

    /// Starts a page program on `plane`; returns when the page is on flash.
    #[inline]
    pub fn program(&mut self, now_ns: u64, plane: u32) -> u64 {
        let unit = &mut self.planes[plane as usize];
        let mut start_ns = now_ns;
        if self.timing.channel_ns_per_page != 0 {
            let channel = plane as usize % self.channels.len();
            let ready_ns = now_ns.max(unit.free_ns());
            start_ns =
                self.channels[channel].book(now_ns, ready_ns, self.timing.channel_ns_per_page);
            unit.extend(start_ns);
        }
        unit.reserve(start_ns, self.timing.program_ns)
    }

    /// Starts a block erase on `plane`; returns when the block is erased.
    pub fn erase(&mut self, now_ns: u64, plane: u32) -> u64 {
        self.planes[plane as usize].reserve(now_ns, self.timing.erase_ns)
    }

    /// Forgets all that was done: the flash is idle at time 0.
    pub fn reset(&mut self) {
        self.planes.fill(Resource::default());
        self.channels.fill(Channel::default());
    }

    /// Total time all planes were busy.
    pub fn busy_ns(&self) -> u64 {
        self.planes.iter().map(Resource::busy_ns).sum()
    }
}

/// A channel and the transfers booked on it.
#[derive(Debug, Clone, Default)]
struct Channel {
    /// Busy intervals (start, end) in order, those of the past dropped. At most one for each
    /// operation that the planes behind the channel have queued.
    booked: VecDeque<(u64, u64)>,
}

impl Channel {
    /// Books `duration_ns` in the first gap from `from_ns` on; returns its end.
    fn book(&mut self, now_ns: u64, from_ns: u64, duration_ns: u64) -> u64 {
        while self.booked.front().is_some_and(|(_, end)| *end <= now_ns) {
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

    fn timing(channel_ns_per_page: u64) -> Timing {
        Timing {
            read_ns: 18_000,
            program_ns: 35_000,
            erase_ns: 2_000_000,
            channel_ns_per_page,
        }
    }

    #[test]
    fn one_plane_serves_in_order_and_planes_work_at_once() {
        let mut nand = Nand::new(&timing(0), 2, 1);
        assert_eq!(nand.read(0, 0), 18_000);
        assert_eq!(nand.read(0, 1), 18_000);
        assert_eq!(nand.program(0, 0), 53_000);
        assert_eq!(nand.erase(60_000, 0), 2_060_000);
        assert_eq!(nand.read(60_000, 0), 2_078_000);
    }

    #[test]
    fn transfers_share_the_channel_and_overlap_the_array_time() {
        let mut nand = Nand::new(&timing(5_000), 3, 1);
        // Two reads sense at once and leave one after the other.
        assert_eq!(nand.read(0, 0), 23_000);
        assert_eq!(nand.read(0, 1), 28_000);
        // A program's transfer fits before them.
        assert_eq!(nand.program(0, 2), 40_000);
        // The first plane holds its page until 23 us, and then senses again.
        assert_eq!(nand.read(0, 0), 23_000 + 18_000 + 5_000);
    }

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
