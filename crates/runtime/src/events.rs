//! The event queue: what happens next, in order of time, ties by a seeded draw.
//!
//! Problem: a simulated request takes a handful of events, most of them a few microseconds ahead.
//! A binary heap of hundreds of them spends its time on comparisons whose outcome no processor
//! can predict.
//!
//! Idea: a calendar (Brown, 1988). Time is cut into days of 128 ns; an event of one of the next
//! [`DAYS`] days goes unsorted onto the list of its day, one beyond them into a heap. Only today's
//! events are sorted, and they are few.
//!
//! 1. `today` is sorted, latest first, and holds every event of the present day and before.
//! 2. When it is empty, a bitmap names the next day with events; they become today's.
//!
//! Events of one time come in the order of their *ties*: 32 bits drawn at their making, from the
//! upper half of a 64-bit linear congruential generator (Knuth's MMIX constants). So a seed means
//! one order, on every machine and in every version.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Length of a day in nanoseconds, as a power of two: 128 ns.
const DAY_SHIFT: u32 = 7;
/// Days that have a list: 131 µs, which takes in the reads and programs of most flash.
const DAYS: usize = 1024;

/// Events that fit before the first allocation.
const CAPACITY: usize = 1024;

/// Events of today up to which a new one is put in its place by shifting others.
const SHIFTS_MAX: usize = 16;

const NIL: u32 = u32::MAX;

/// A day that no event has.
const NEVER: u64 = u64::MAX;

/// Time, tie and target in one number that compares like them.
type Key = u128;

#[inline]
fn time_of(key: Key) -> u64 {
    (key >> 64) as u64
}

#[inline]
fn day_of(key: Key) -> u64 {
    time_of(key) >> DAY_SHIFT
}

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    next: u32,
}

/// Events (a time and a 32-bit target) in order.
pub(crate) struct EventQueue {
    /// Sorted, latest first: everything of day `day` and before.
    today: Vec<Key>,
    day: u64,
    /// First node of each of the days after `day`, by day modulo `DAYS`.
    heads: Box<[u32; DAYS]>,
    /// Which of them are not empty.
    occupied: [u64; DAYS / 64],
    nodes: Vec<Node>,
    free: u32,
    /// Everything later.
    far: BinaryHeap<Reverse<Key>>,
    /// The day of the earliest of those, or [`NEVER`].
    far_day: u64,
    ties: u64,
}

impl EventQueue {
    /// No events; `seed` draws the ties.
    pub(crate) fn new(seed: u64) -> EventQueue {
        EventQueue {
            today: Vec::with_capacity(CAPACITY),
            day: 0,
            heads: Box::new([NIL; DAYS]),
            occupied: [0; DAYS / 64],
            nodes: Vec::with_capacity(CAPACITY),
            free: NIL,
            far: BinaryHeap::with_capacity(CAPACITY),
            far_day: NEVER,
            ties: seed,
        }
    }

    /// Adds an event.
    #[inline]
    pub(crate) fn push(&mut self, at_ns: u64, target: u32) {
        self.ties = self
            .ties
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let tie = self.ties >> 32 << 32;
        let key = Key::from(at_ns) << 64 | Key::from(tie | u64::from(target));
        let day = at_ns >> DAY_SHIFT;
        if day <= self.day {
            self.insert_today(key);
        } else if day - self.day < DAYS as u64 {
            self.put(day, key);
        } else {
            self.far.push(Reverse(key));
            self.far_day = self.far_day.min(day);
        }
    }

    #[inline]
    fn insert_today(&mut self, key: Key) {
        if self.today.len() > SHIFTS_MAX {
            let index = self.today.partition_point(|other| *other > key);
            return self.today.insert(index, key);
        }
        let mut index = self.today.len();
        self.today.push(key);
        while index > 0 && self.today[index - 1] < key {
            self.today[index] = self.today[index - 1];
            index -= 1;
        }
        self.today[index] = key;
    }

    #[inline]
    fn put(&mut self, day: u64, key: Key) {
        let list = day as usize % DAYS;
        let next = std::mem::replace(&mut self.heads[list], self.free);
        let node = Node { key, next };
        if self.free == NIL {
            self.heads[list] = self.nodes.len() as u32;
            self.nodes.push(node);
        } else {
            let place = &mut self.nodes[self.free as usize];
            self.free = place.next;
            *place = node;
        }
        self.occupied[list / 64] |= 1 << (list % 64);
    }

    /// Takes the earliest event: its time and its target.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let key = match self.today.pop() {
            Some(key) => key,
            None => self.pop_later()?,
        };
        Some((time_of(key), key as u32))
    }

    /// Takes the earliest event, given that today has none.
    #[inline]
    fn pop_later(&mut self) -> Option<Key> {
        let day = self.next_day()?;
        let list = day as usize % DAYS;
        let at = self.heads[list];
        if at != NIL && self.nodes[at as usize].next == NIL && self.far_day > day {
            // The only one of its day, as many are.
            self.day = day;
            self.clear_list(list);
            self.nodes[at as usize].next = self.free;
            self.free = at;
            return Some(self.nodes[at as usize].key);
        }
        self.begin(day);
        self.today.pop()
    }

    #[inline]
    fn clear_list(&mut self, list: usize) {
        self.heads[list] = NIL;
        self.occupied[list / 64] &= !(1 << (list % 64));
    }

    /// True if there is an event earlier than `at_ns`.
    #[inline]
    pub(crate) fn any_before(&mut self, at_ns: u64) -> bool {
        if self.today.is_empty() {
            match self.next_day() {
                // Day by day, so that today stays short.
                Some(next) if next == at_ns >> DAY_SHIFT => self.begin(next),
                Some(next) => return next < at_ns >> DAY_SHIFT,
                None => return false,
            }
        }
        self.today.last().is_some_and(|key| time_of(*key) < at_ns)
    }

    /// The time of the earliest event.
    pub(crate) fn next_ns(&mut self) -> Option<u64> {
        if self.today.is_empty() {
            let next = self.next_day()?;
            self.begin(next);
        }
        self.today.last().map(|key| time_of(*key))
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.today.is_empty() && self.far.is_empty() && self.occupied == [0; DAYS / 64]
    }

    /// The next day that has events, given that today has none.
    #[inline]
    fn next_day(&self) -> Option<u64> {
        let day = self.next_listed_day().unwrap_or(NEVER).min(self.far_day);
        (day != NEVER).then_some(day)
    }

    #[inline]
    fn next_listed_day(&self) -> Option<u64> {
        // Once round, from the list after today's; the word of the start comes first and last.
        let start = (self.day + 1) as usize % DAYS;
        let (mut word, low) = (start / 64, start % 64);
        let mut bits = self.occupied[word] >> low << low;
        for _ in 0..=DAYS / 64 {
            if bits != 0 {
                let list = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (list.wrapping_sub(start) % DAYS) as u64;
                return Some(self.day + 1 + ahead);
            }
            word = (word + 1) % (DAYS / 64);
            bits = self.occupied[word];
        }
        None
    }

    /// Makes `day`, the next one with events, today.
    #[inline]
    fn begin(&mut self, day: u64) {
        self.day = day;
        // A day beyond the lists comes only when all of them are empty, this one too.
        let list = day as usize % DAYS;
        let mut at = self.heads[list];
        if at != NIL {
            self.clear_list(list);
            while at != NIL {
                let node = &mut self.nodes[at as usize];
                self.today.push(node.key);
                let next = std::mem::replace(&mut node.next, self.free);
                self.free = std::mem::replace(&mut at, next);
            }
        }
        while self.far_day == day
            && let Some(Reverse(key)) = self.far.pop()
        {
            self.today.push(key);
            self.far_day = self.far.peek().map_or(NEVER, |Reverse(key)| day_of(*key));
        }
        match self.today.as_mut_slice() {
            [_] => {}
            [a, b] if *a < *b => std::mem::swap(a, b),
            [_, _] => {}
            more => more.sort_unstable_by(|a, b| b.cmp(a)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    const DAY_NS: u64 = 1 << DAY_SHIFT;

    /// All events in a list, searched for the earliest: the model.
    fn check(seed: u64, spread_ns: u64) {
        let mut rng = Seed(seed).rng();
        let mut queue = EventQueue::new(seed);
        let mut model: Vec<(u64, u32)> = Vec::new();
        let mut now_ns = 0;
        for target in 0..20_000 {
            if rng.chance(51, 100) {
                // Now and then one of the past: it comes next.
                let at_ns = (now_ns + rng.below(spread_ns)).saturating_sub(spread_ns / 16);
                queue.push(at_ns, target);
                model.push((at_ns, target));
                continue;
            }
            let earliest = model.iter().map(|event| event.0).min();
            assert_eq!(queue.is_empty(), earliest.is_none());
            for probe in [0, now_ns, now_ns + spread_ns / 2, u64::MAX] {
                assert_eq!(queue.any_before(probe), earliest.is_some_and(|e| e < probe));
            }
            if rng.chance(1, 10) {
                assert_eq!(queue.next_ns(), earliest);
            }
            let popped = queue.pop();
            assert_eq!(popped.map(|event| event.0), earliest);
            if let Some(event) = popped {
                let index = model.iter().position(|other| *other == event);
                model.swap_remove(index.expect("it was pushed and not popped before"));
                now_ns = now_ns.max(event.0);
            }
        }
        while let Some(event) = queue.pop() {
            let index = model.iter().position(|other| *other == event);
            model.swap_remove(index.expect("it was pushed and not popped before"));
        }
        assert!(model.is_empty() && queue.is_empty());
    }

    #[test]
    fn events_come_in_order_of_time_whatever_their_distance() {
        let spreads = [1, 20, DAY_NS, 10 * DAY_NS, 100 * DAY_NS];
        for spread_ns in
            spreads
                .into_iter()
                .chain([DAYS as u64 * DAY_NS - 1, DAYS as u64 * DAY_NS * 2, 1 << 40])
        {
            (0..4).for_each(|seed| check(seed, spread_ns));
        }
    }

    #[test]
    fn ties_are_a_matter_of_the_seed() {
        let order = |seed| {
            let mut queue = EventQueue::new(seed);
            (0..32).for_each(|target| queue.push(5, target));
            std::iter::from_fn(|| queue.pop().map(|event| event.1)).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
