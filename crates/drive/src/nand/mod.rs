//! Time on the flash: planes and channels, each serving one operation at a time, and what is under
//! way there.
//!
//! Only "when is it done" is here. Whoever starts an operation is told when it has ended and changes
//! the media then, so that a power cut in between loses it as flash would.
//!
//! A read occupies its plane for tR, then the channel for the transfer; the plane holds the page
//! until it is out. A program takes the channel first, then its plane for tPROG. Other planes' work
//! goes on meanwhile: a channel serves whoever is ready in the gaps between booked transfers.
//!
//! A plane that is busy keeps what comes in lines, and begins the next when it is free:
//!
//! 1. reads of the host, which know their end when they come, and which have the plane to at least
//!    `read_share` of its time while others wait too (at 0, all go in the order in which they came);
//! 2. reads of collection, which feed the other planes;
//! 3. programs and erases, in the order in which they came.
//!
//! An operation that has begun is not interrupted: a read of the host waits for one program or
//! erase, for no more of collection's reads than last as long as a program, and for the share of
//! the others.

mod channel;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wharf_runtime::Resource;

use crate::config::Timing;
use channel::Channel;

/// Most reads of collection that a plane does in one go: a program would take no longer.
const RUN_MAX: u64 = 16;

/// What a plane is to do.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Reads of so many pages, one after another.
    Reads(u32),
    /// One program of so many pages, which come over the channel before.
    Program(u32),
    Erase,
}

/// An operation in line.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    work: Work,
    issued: u32,
    what: u32,
}

/// An operation that has begun: when it ends, when it was issued, what it is.
#[derive(Debug, Clone, Copy)]
struct Begun {
    end_ns: u64,
    issued: u32,
    what: u32,
}

#[derive(Debug, Clone, Default)]
struct Plane {
    /// Busy with what has begun, reads of the host among it.
    unit: Resource,
    begun: VecDeque<Begun>,
    reads: VecDeque<Waiting>,
    others: VecDeque<Waiting>,
    /// How long all that is in line will take.
    waiting_ns: u64,
    /// What the host's reads that went first owe to those in line.
    owed_ns: u64,
    /// The heap has an entry for the plane.
    is_listed: bool,
}

impl Plane {
    fn nobody_waits(&self) -> bool {
        self.reads.is_empty() && self.others.is_empty()
    }

    fn first_in_line(&self) -> Option<&Waiting> {
        self.reads.front().or(self.others.front())
    }

    /// When there is something to do for the plane: an operation ends, or the next may begin.
    fn next_event(&self) -> Option<(u64, u32)> {
        match (self.begun.front(), self.first_in_line()) {
            (Some(begun), _) => Some((begun.end_ns, begun.issued)),
            (None, Some(next)) => Some((self.unit.free_ns(), next.issued)),
            (None, None) => None,
        }
    }
}

/// The planes and channels of one core, and the operations under way on them.
#[derive(Debug)]
pub struct Nand {
    timing: Timing,
    /// What each read of the host that goes first owes to those in line; `None`: none goes first.
    owed_for_read_ns: Option<u64>,
    planes: Vec<Plane>,
    channels: Vec<Channel>,
    /// The planes at work: time and order of issue of what comes next on each, or earlier; plane.
    next: BinaryHeap<Reverse<u128>>,
    issued: u32,
}

impl Nand {
    /// Idle flash of `planes` planes over `channels` channels.
    pub fn new(timing: &Timing, read_share: f64, planes: u32, channels: u32) -> Nand {
        // Of each nanosecond that both want, reads get the share: they owe the rest of it.
        let owed = timing.read_ns as f64 * (1.0 - read_share) / read_share;
        Nand {
            timing: timing.clone(),
            owed_for_read_ns: (read_share > 0.0).then_some(owed as u64),
            planes: vec![Plane::default(); planes as usize],
            channels: vec![Channel::default(); channels as usize],
            next: BinaryHeap::with_capacity(planes as usize),
            issued: 0,
        }
    }

    /// True if no operation takes any time: nobody needs to look at the clock.
    #[inline]
    pub fn is_instant(&self) -> bool {
        let t = &self.timing;
        t.read_ns | t.program_ns | t.erase_ns | t.channel_ns_per_page == 0
    }

    /// Starts a page read of the host's on `plane`; returns when the page is out of the die.
    #[inline]
    pub fn read(&mut self, now_ns: u64, plane: u32) -> u64 {
        self.begin_due(now_ns, plane);
        let unit = &mut self.planes[plane as usize];
        if unit.nobody_waits() {
            unit.owed_ns = 0;
        } else {
            self.let_others_begin(plane);
        }
        self.occupy(plane, now_ns, Work::Reads(1))
    }

    /// Those in line to whom a read of the host owes their turn begin before it.
    fn let_others_begin(&mut self, plane: u32) {
        let Some(owed_ns) = self.owed_for_read_ns else {
            while self.begin_next(plane) {}
            return;
        };
        while let Some(next) = self.planes[plane as usize].first_in_line() {
            let duration_ns = self.duration_ns(next.work);
            if self.planes[plane as usize].owed_ns < duration_ns {
                self.planes[plane as usize].owed_ns += owed_ns;
                return;
            }
            self.begin_next(plane);
        }
    }

    /// How many pages [`Nand::read_run`] takes.
    pub fn run_max(&self) -> u32 {
        let pages = self.timing.program_ns.checked_div(self.timing.read_ns);
        pages.unwrap_or(RUN_MAX).clamp(1, RUN_MAX) as u32
    }

    /// Has `plane` read `pages` pages for collection, no more than [`Nand::run_max`]; `what` ends
    /// with the last.
    pub fn read_run(&mut self, now_ns: u64, plane: u32, pages: u32, what: u32) {
        self.submit(now_ns, plane, Work::Reads(pages), what);
    }

    /// Has `plane` program a page.
    #[inline]
    pub fn program(&mut self, now_ns: u64, plane: u32, what: u32) {
        self.submit(now_ns, plane, Work::Program(1), what);
    }

    /// Has `plane` program a unit of `pages` pages.
    pub fn program_unit(&mut self, now_ns: u64, plane: u32, pages: u32, what: u32) {
        self.submit(now_ns, plane, Work::Program(pages), what);
    }

    /// Has `plane` erase a block.
    pub fn erase(&mut self, now_ns: u64, plane: u32, what: u32) {
        self.submit(now_ns, plane, Work::Erase, what);
    }

    /// How long `plane` will be busy with all it has been given.
    #[inline]
    pub fn backlog_ns(&self, now_ns: u64, plane: u32) -> u64 {
        let unit = &self.planes[plane as usize];
        unit.unit.free_ns().saturating_sub(now_ns) + unit.waiting_ns
    }

    /// When all that has begun is done, reads of the host too.
    pub fn idle_from_ns(&self) -> u64 {
        let ends = self.planes.iter().map(|plane| plane.unit.free_ns());
        ends.max().unwrap_or(0)
    }

    /// When the next operation ends or begins.
    #[inline]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.next.peek().map(|Reverse(key)| (key >> 64) as u64)
    }

    /// Takes the first operation that has ended by `now_ns`, and begins those that may.
    #[inline]
    pub fn end_one(&mut self, now_ns: u64) -> Option<u32> {
        loop {
            let Reverse(key) = *self.next.peek()?;
            let (at_ns, plane) = ((key >> 64) as u64, key as u32);
            if at_ns > now_ns {
                return None;
            }
            let begun = &mut self.planes[plane as usize].begun;
            let ended = match begun.front() {
                Some(first) if first.end_ns <= at_ns => begun.pop_front(),
                _ => None,
            };
            self.begin_due(at_ns, plane);
            self.list_anew(plane);
            if let Some(ended) = ended {
                return Some(ended.what);
            }
        }
    }

    /// All that is under way or in line, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.planes.iter().flat_map(|plane| {
            let waiting = plane.reads.iter().chain(&plane.others);
            let begun = plane.begun.iter().map(|begun| begun.what);
            begun.chain(waiting.map(|waiting| waiting.what))
        })
    }

    /// True if nothing is under way but reads of the host.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Forgets all that was done: the flash is idle at time 0.
    ///
    /// # Panics
    /// If operations are under way.
    pub fn reset(&mut self) {
        assert!(self.is_empty(), "operations are under way");
        self.planes.fill(Plane::default());
        self.channels.fill(Channel::default());
    }

    /// Total time all planes were busy.
    pub fn busy_ns(&self) -> u64 {
        self.planes.iter().map(|plane| plane.unit.busy_ns()).sum()
    }

    #[inline]
    fn submit(&mut self, now_ns: u64, plane: u32, work: Work, what: u32) {
        self.begin_due(now_ns, plane);
        self.issued = self.issued.wrapping_add(1);
        let issued = self.issued;
        let waiting = Waiting { work, issued, what };
        if self.planes[plane as usize].unit.free_ns() <= now_ns {
            // Nobody waits: they would have begun.
            self.begin(plane, now_ns, waiting);
        } else {
            let duration_ns = self.duration_ns(work);
            let unit = &mut self.planes[plane as usize];
            unit.waiting_ns += duration_ns;
            match work {
                Work::Reads(_) => unit.reads.push_back(waiting),
                Work::Program(_) | Work::Erase => unit.others.push_back(waiting),
            }
        }
        if !self.planes[plane as usize].is_listed {
            self.planes[plane as usize].is_listed = true;
            let key = self.key(plane).expect("the plane has an operation");
            self.next.push(key);
        }
    }

    /// Begins what may begin on `plane` by `now_ns`.
    #[inline]
    fn begin_due(&mut self, now_ns: u64, plane: u32) {
        while self.planes[plane as usize].unit.free_ns() <= now_ns && self.begin_next(plane) {}
    }

    /// Begins the first in line, when the plane is free; returns whether there was one.
    #[inline]
    fn begin_next(&mut self, plane: u32) -> bool {
        let unit = &mut self.planes[plane as usize];
        let Some(next) = unit.reads.pop_front().or_else(|| unit.others.pop_front()) else {
            return false;
        };
        let from_ns = unit.unit.free_ns();
        let duration_ns = self.duration_ns(next.work);
        let unit = &mut self.planes[plane as usize];
        unit.waiting_ns -= duration_ns;
        unit.owed_ns = unit.owed_ns.saturating_sub(duration_ns);
        self.begin(plane, from_ns, next);
        true
    }

    #[inline]
    fn begin(&mut self, plane: u32, from_ns: u64, next: Waiting) {
        let end_ns = self.occupy(plane, from_ns, next.work);
        self.planes[plane as usize].begun.push_back(Begun {
            end_ns,
            issued: next.issued,
            what: next.what,
        });
    }

    /// Occupies `plane` as soon as it is free, not before `from_ns`; returns the end.
    #[inline]
    fn occupy(&mut self, plane: u32, from_ns: u64, work: Work) -> u64 {
        let transfer_ns = self.timing.channel_ns_per_page;
        // Whoever begins later begins no earlier than what comes next anywhere.
        let past_ns = self.next_event_ns().map_or(from_ns, |at| at.min(from_ns));
        let channel = plane as usize % self.channels.len();
        let channel = &mut self.channels[channel];
        let unit = &mut self.planes[plane as usize].unit;
        match work {
            Work::Reads(pages) => {
                for _ in 0..pages {
                    let sensed_ns = unit.reserve(from_ns, self.timing.read_ns);
                    if transfer_ns != 0 {
                        unit.extend(channel.book(past_ns, sensed_ns, transfer_ns));
                    }
                }
            }
            Work::Program(pages) => {
                if transfer_ns != 0 {
                    let ready_ns = from_ns.max(unit.free_ns());
                    let transfer_ns = transfer_ns * u64::from(pages);
                    let start_ns = channel.book(past_ns, ready_ns, transfer_ns);
                    // The wait for the channel is no work of the plane's, but it does nothing else.
                    unit.reserve(from_ns, 0);
                    unit.extend(start_ns);
                }
                unit.reserve(from_ns, self.timing.program_ns);
            }
            Work::Erase => {
                unit.reserve(from_ns, self.timing.erase_ns);
            }
        }
        unit.free_ns()
    }

    #[inline]
    fn duration_ns(&self, work: Work) -> u64 {
        match work {
            Work::Reads(pages) => u64::from(pages) * self.timing.read_ns,
            Work::Program(_) => self.timing.program_ns,
            Work::Erase => self.timing.erase_ns,
        }
    }

    /// Operations that end together end in the order they were issued.
    #[inline]
    fn key(&self, plane: u32) -> Option<Reverse<u128>> {
        let (at_ns, issued) = self.planes[plane as usize].next_event()?;
        let order = u64::from(issued) << 32 | u64::from(plane);
        Some(Reverse(u128::from(at_ns) << 64 | u128::from(order)))
    }

    /// Puts the plane on top of the heap where it belongs now.
    #[inline]
    fn list_anew(&mut self, plane: u32) {
        match self.key(plane) {
            Some(key) => *self.next.peek_mut().expect("the plane is on top") = key,
            None => {
                self.planes[plane as usize].is_listed = false;
                self.next.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests;
