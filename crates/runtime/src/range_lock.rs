//! Locks on ranges of pages, shared by all clients.
//!
//! Problem: a write that covers a page in part reads the page, changes it and writes it back; no
//! other write of the page, by any client, may come in between. Pages are many and conflicts rare.
//!
//! Idea: the address space is cut into *granules*; a hash of the granule picks a bucket, and each
//! bucket lists the parts of ranges that are held or waited for there, in order of arrival. A part
//! is held once no earlier part of its bucket overlaps it.
//!
//! 1. A range is locked granule by granule, in ascending order, each waited for before the next.
//! 2. Releasing takes the parts out and wakes who waited for them.
//!
//! Free of deadlock: a range waits in the highest granule where it has a part, for an earlier part
//! there, whose owner waits in that granule or a higher one. Around a cycle of waiting ranges the
//! granules would never fall, so all would be the same one, and each part in it would be later
//! than the next: impossible. Free of starvation: nobody overtakes an earlier part.

use std::sync::Arc;

use crate::{Cpu, Lock};
use crossbeam_utils::CachePadded;

use crate::wake::{Mailboxes, Pause, Sleeper};

/// Pages of a granule, as a power of two: 1 MiB.
const GRANULE_SHIFT: u32 = 8;

/// Number of buckets, as a power of two.
const BUCKETS_SHIFT: u32 = 10;

#[derive(Clone, Copy)]
struct Part {
    first: u64,
    last: u64,
    id: u64,
    sleeper: Sleeper,
}

impl Part {
    fn overlaps(&self, other: &Part) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

#[derive(Default)]
struct Bucket {
    /// In order of arrival.
    parts: Vec<Part>,
}

/// The table of all locked ranges.
pub struct RangeLocks {
    buckets: Box<[CachePadded<Lock<Bucket>>]>,
    mailboxes: Arc<Mailboxes>,
}

impl RangeLocks {
    /// No range is locked. Waiters are woken through `mailboxes`.
    pub fn new(mailboxes: Arc<Mailboxes>) -> RangeLocks {
        let bucket = |_| CachePadded::new(Lock::new(Bucket::default()));
        RangeLocks {
            buckets: (0..1u32 << BUCKETS_SHIFT).map(bucket).collect(),
            mailboxes,
        }
    }

    #[inline]
    fn bucket(&self, granule: u64) -> &Lock<Bucket> {
        let hash = granule.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.buckets[(hash >> (64 - BUCKETS_SHIFT)) as usize]
    }

    /// Locks `pages` pages (at least one) from `first` on, for a task of `client`. `id` names the
    /// range among all that are locked.
    pub async fn lock(
        self: &Arc<Self>,
        cpu: &Cpu,
        client: u32,
        id: u64,
        first: u64,
        pages: u64,
    ) -> RangeGuard {
        let mut guard = RangeGuard {
            locks: self.clone(),
            cpu: cpu.clone(),
            client,
            id,
            first_granule: first >> GRANULE_SHIFT,
            end_granule: first >> GRANULE_SHIFT,
            waits: 0,
        };
        let last = first + pages - 1;
        let task = cpu.current();
        for granule in first >> GRANULE_SHIFT..=last >> GRANULE_SHIFT {
            let part = Part {
                first: first.max(granule << GRANULE_SHIFT),
                last: last.min(((granule + 1) << GRANULE_SHIFT) - 1),
                id,
                sleeper: Sleeper { client, task },
            };
            guard.end_granule = granule + 1;
            let bucket = self.bucket(granule);
            let mut held = bucket.with(cpu, |bucket| {
                let free = !bucket.parts.iter().any(|p| p.overlaps(&part));
                bucket.parts.push(part);
                free
            });
            while !held {
                guard.waits += 1;
                Pause::default().await;
                held = bucket.with(cpu, |bucket| is_held(&bucket.parts, &part));
            }
        }
        guard
    }

    fn release(&self, cpu: &Cpu, client: u32, granule: u64, id: u64) {
        let bucket = self.bucket(granule);
        let woken = bucket.with(cpu, |bucket| {
            let own = |p: &Part| p.id == id && p.first >> GRANULE_SHIFT == granule;
            let Some(at) = bucket.parts.iter().position(own) else {
                return Vec::new();
            };
            let part = bucket.parts.remove(at);
            let later = bucket.parts[at..].iter().filter(|p| p.overlaps(&part));
            later.map(|p| p.sleeper).collect()
        });
        for sleeper in woken {
            self.mailboxes.wake(cpu, client, sleeper);
        }
    }

    /// Ranges held or waited for, counted once for each granule.
    pub fn parts(&self, cpu: &Cpu) -> usize {
        self.buckets
            .iter()
            .map(|b| b.with(cpu, |b| b.parts.len()))
            .sum()
    }
}

fn is_held(parts: &[Part], part: &Part) -> bool {
    let earlier = parts
        .iter()
        .take_while(|p| p.id != part.id || p.first != part.first);
    !earlier.into_iter().any(|p| p.overlaps(part))
}

/// A locked range; dropping it unlocks. (Dropped while it is being locked, it gives up.)
pub struct RangeGuard {
    locks: Arc<RangeLocks>,
    cpu: Cpu,
    client: u32,
    id: u64,
    first_granule: u64,
    end_granule: u64,
    /// How often it had to wait.
    pub waits: u64,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        for granule in self.first_granule..self.end_granule {
            self.locks.release(&self.cpu, self.client, granule, self.id);
        }
    }
}
