//! A bounded single-producer single-consumer ring of fixed-size entries between two CPUs.
//!
//! Each side owns one index and keeps a copy of the other's, so that a push or pop touches the
//! other side's line only when its copy says "full" or "empty". Each entry carries the virtual time
//! at which it becomes visible (0 in real time: at once); entries are sent in order of that time.
//!
//! Where the notifier is no [wire](Kind::Wire), the entries are cache lines: in virtual time the producer stores
//! to them and the consumer fetches them. The index comes with the entry, as both are
//! fetched at the same time.
//!
//! Orderings: the producer's `Release` store of `tail` publishes the entry to the consumer's
//! `Acquire` load of it; the consumer's `Release` store of `head` gives the slot back to the
//! producer's `Acquire` load of that.

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::cpu::Cpu;
use crate::line::Line;
use crate::notifier::{Kind, Notifier};
use crate::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

struct Slot<T> {
    visible_ns: u64,
    entry: T,
}

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<Slot<T>>>]>,
    /// Next entry to pop; written by the consumer.
    head: CachePadded<AtomicU32>,
    /// Next entry to push; written by the producer.
    tail: CachePadded<AtomicU32>,
    /// The lines of the entries; none within a device.
    lines: Box<[Line]>,
}

// SAFETY: a slot is accessed by the producer alone between `head` and `tail + 1` and by the consumer
// alone between `tail` and `head + 1`; the hand-over is by the Release/Acquire pairs named above.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above; `Sender` and `Receiver` are each unique and need `&mut self`.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The line of the entry before `index`, where it is in memory.
    #[inline]
    fn line_before(&self, index: u32) -> Option<&Line> {
        let last = (self.lines.len() as u32).checked_sub(1)?;
        Some(&self.lines[(index.wrapping_sub(1) & last) as usize])
    }
}

/// The producing end of a ring.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
    notifier: Notifier,
    source: u32,
    tail: u32,
    head_seen: u32,
    last_visible_ns: u64,
}

/// The consuming end of a ring.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    notifier: Notifier,
    source: u32,
    head: u32,
    tail_seen: u32,
}

/// A ring of `capacity` entries (a power of two) whose arrivals notify `notifier` as `source`.
pub fn ring<T: Copy + Send>(
    capacity: u32,
    notifier: &Notifier,
    source: u32,
) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity.is_power_of_two(),
        "a ring's capacity is a power of two"
    );
    let slots = (0..capacity)
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let shared = Arc::new(Shared {
        slots,
        head: CachePadded::new(AtomicU32::new(0)),
        tail: CachePadded::new(AtomicU32::new(0)),
        lines: match notifier.kind() {
            Kind::Wire => Box::default(),
            Kind::Memory | Kind::Polled => (0..capacity).map(|_| Line::new()).collect(),
        },
    });
    (
        Sender {
            shared: shared.clone(),
            notifier: notifier.clone(),
            source,
            tail: 0,
            head_seen: 0,
            last_visible_ns: 0,
        },
        Receiver {
            shared,
            notifier: notifier.clone(),
            source,
            head: 0,
            tail_seen: 0,
        },
    )
}

impl<T: Copy + Send> Sender<T> {
    /// Bytes of memory that the ring takes.
    pub fn bytes(&self) -> usize {
        let Shared { slots, lines, .. } = &*self.shared;
        size_of_val(&*self.shared) + size_of_val(&**slots) + size_of_val(&**lines)
    }

    /// Puts an entry into the ring and notifies it. Gives it back if the ring is full.
    #[inline]
    pub fn push(&mut self, cpu: &Cpu, entry: T) -> Result<(), T> {
        self.push_visible_at(cpu.stamp_ns(), entry)?;
        if cpu.is_virtual()
            && let Some(line) = self.shared.line_before(self.tail)
        {
            line.store(cpu);
        }
        self.notifier.notify(cpu, self.source, self.last_visible_ns);
        Ok(())
    }

    /// Puts an entry into the ring that becomes visible at `visible_ns` (or after the entry before
    /// it, if that is later), without ringing.
    #[inline]
    pub(crate) fn push_visible_at(&mut self, visible_ns: u64, entry: T) -> Result<(), T> {
        let capacity = self.shared.slots.len() as u32;
        if self.tail.wrapping_sub(self.head_seen) == capacity {
            // Acquire: partner of the consumer's store of `head`.
            self.head_seen = self.shared.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == capacity {
                return Err(entry);
            }
        }
        self.last_visible_ns = self.last_visible_ns.max(visible_ns);
        let slot = Slot {
            visible_ns: self.last_visible_ns,
            entry,
        };
        self.shared.slots[(self.tail & (capacity - 1)) as usize].with_mut(|p| {
            // SAFETY: the slot lies outside head..tail, so the consumer does not touch it.
            unsafe { (*p).write(slot) };
        });
        self.tail = self.tail.wrapping_add(1);
        // Release: partner of the consumer's load of `tail`.
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T: Copy + Send> Receiver<T> {
    /// Takes the oldest entry, if one is visible now.
    #[inline]
    pub fn try_pop(&mut self, cpu: &Cpu) -> Option<T> {
        let now_ns = if cpu.is_virtual() {
            cpu.now()
        } else {
            u64::MAX
        };
        let entry = self.pop_visible_by(now_ns)?;
        if cpu.is_virtual()
            && let Some(line) = self.shared.line_before(self.head)
        {
            line.read(cpu);
        }
        Some(entry)
    }

    #[inline]
    pub(crate) fn pop_visible_by(&mut self, now_ns: u64) -> Option<T> {
        if self.head == self.tail_seen {
            // Acquire: partner of the producer's store of `tail`.
            self.tail_seen = self.shared.tail.load(Ordering::Acquire);
            if self.head == self.tail_seen {
                return None;
            }
        }
        let index = (self.head & (self.shared.slots.len() as u32 - 1)) as usize;
        let slot = self.shared.slots[index].with(|p| {
            // SAFETY: the slot lies inside head..tail: written, and not touched by the producer.
            let slot = unsafe { (*p).assume_init_ref() };
            (slot.visible_ns, slot.entry)
        });
        if slot.0 > now_ns {
            self.notifier.note_pending(self.source, slot.0);
            return None;
        }
        self.head = self.head.wrapping_add(1);
        // Release: partner of the producer's load of `head`.
        self.shared.head.store(self.head, Ordering::Release);
        Some(slot.1)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn entries_arrive_once_in_order_over_the_wrap() {
        loom::model(|| {
            let notifier = Notifier::new();
            let (mut sender, mut receiver) = ring::<u64>(2, &notifier, 0);
            let producer = loom::thread::spawn(move || {
                for value in 1..=3u64 {
                    while sender.push_visible_at(0, value).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut expected = 1;
            while expected <= 3 {
                match receiver.pop_visible_by(u64::MAX) {
                    Some(value) => {
                        assert_eq!(value, expected);
                        expected += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            producer.join().unwrap();
        });
    }

    #[test]
    fn a_rung_notifier_shows_the_push_and_none_is_lost() {
        loom::model(|| {
            let notifier = Notifier::new();
            let (mut sender, mut receiver) = ring::<u64>(2, &notifier, 0);
            let ringer = notifier.clone();
            let producer = loom::thread::spawn(move || {
                for value in 1..=2u64 {
                    sender.push_visible_at(0, value).unwrap();
                    ringer.ring_real(5);
                }
            });
            let mut seen = 0;
            while seen < 2 {
                if notifier.take_ready_real().contains(5) {
                    while let Some(value) = receiver.pop_visible_by(u64::MAX) {
                        seen += 1;
                        assert_eq!(value, seen);
                    }
                } else {
                    loom::thread::yield_now();
                }
            }
            producer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_gives_the_entry_back_and_wraps() {
        let (mut sender, mut receiver) = ring::<u32>(4, &Notifier::new(), 0);
        for round in 0..10u32 {
            for i in 0..4 {
                sender.push_visible_at(0, round * 4 + i).unwrap();
            }
            assert_eq!(sender.push_visible_at(0, 99), Err(99));
            for i in 0..4 {
                assert_eq!(receiver.pop_visible_by(0), Some(round * 4 + i));
            }
            assert_eq!(receiver.pop_visible_by(0), None);
        }
    }

    #[test]
    fn an_entry_of_the_future_stays_until_its_time_and_keeps_the_order() {
        let (mut sender, mut receiver) = ring::<u32>(4, &Notifier::new(), 0);
        sender.push_visible_at(100, 1).unwrap();
        sender.push_visible_at(50, 2).unwrap();
        assert_eq!(receiver.pop_visible_by(99), None);
        assert_eq!(receiver.pop_visible_by(100), Some(1));
        assert_eq!(receiver.pop_visible_by(100), Some(2));
    }
}
