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
//! Ranges that are locked as *shared* do not keep each other out, only others. Who only tries does not stand in
//! line.
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
const BUCKETS_SHIFT: u32 = if cfg!(loom) { 1 } else { 10 };

/// What of a range lies in a granule; `S` names whoever is to be woken.
#[derive(Clone, Copy)]
struct Part<S> {
    first: u64,
    last: u64,
    id: u64,
    is_shared: bool,
    sleeper: S,
}

impl<S> Part<S> {
    /// What of the range from `first` to `last` lies in a granule.
    fn of(granule: u64, (first, last): (u64, u64), locker: &Locker, sleeper: S) -> Part<S> {
        Part {
            first: first.max(granule << GRANULE_SHIFT),
            last: last.min(((granule + 1) << GRANULE_SHIFT) - 1),
            id: locker.id,
            is_shared: locker.is_shared,
            sleeper,
        }
    }

    /// Whether one of the two keeps the other out.
    fn excludes(&self, other: &Part<S>) -> bool {
        let overlap = self.first <= other.last && other.first <= self.last;
        overlap && !(self.is_shared && other.is_shared)
    }
}

/// Who locks a range, and how.
#[derive(Debug, Clone, Copy)]
pub struct Locker {
    /// The client whose task it is.
    pub client: u32,
    /// Names the range among all that are locked.
    pub id: u64,
    /// Whether others may have it locked as shared too.
    pub is_shared: bool,
}

/// Parts that are held or waited for.
struct Bucket<S> {
    /// In order of arrival.
    parts: Vec<Part<S>>,
}

impl<S: Copy> Bucket<S> {
    const fn new() -> Bucket<S> {
        Bucket { parts: Vec::new() }
    }

    /// Whether nobody keeps it out who is here or waits.
    fn is_free(&self, part: &Part<S>) -> bool {
        !self.parts.iter().any(|other| other.excludes(part))
    }

    /// Stands in line; whether it is held at once.
    fn enter(&mut self, part: Part<S>) -> bool {
        let free = self.is_free(&part);
        self.parts.push(part);
        free
    }

    /// Enters if it is held at once.
    fn try_enter(&mut self, part: Part<S>) -> bool {
        let free = self.is_free(&part);
        if free {
            self.parts.push(part);
        }
        free
    }

    /// Whether one that stands in line is held.
    fn is_held(&self, part: &Part<S>) -> bool {
        let mut earlier = self
            .parts
            .iter()
            .take_while(|other| other.id != part.id || other.first != part.first);
        !earlier.any(|other| other.excludes(part))
    }

    /// Leaves; those who are to look again whether they are held.
    fn leave(&mut self, granule: u64, id: u64) -> Vec<S> {
        let own = |part: &Part<S>| part.id == id && part.first >> GRANULE_SHIFT == granule;
        let Some(at) = self.parts.iter().position(own) else {
            return Vec::new();
        };
        let part = self.parts.remove(at);
        let later = self.parts[at..]
            .iter()
            .filter(|other| other.excludes(&part));
        later.map(|other| other.sleeper).collect()
    }
}

impl Locker {
    fn part(&self, cpu: &Cpu, granule: u64, range: (u64, u64)) -> Part<Sleeper> {
        let sleeper = Sleeper {
            client: self.client,
            task: cpu.current(),
        };
        Part::of(granule, range, self, sleeper)
    }
}

/// The table of all locked ranges.
pub struct RangeLocks {
    buckets: Box<[CachePadded<Lock<Bucket<Sleeper>>>]>,
    mailboxes: Arc<Mailboxes>,
}

impl RangeLocks {
    /// No range is locked. Waiters are woken through `mailboxes`.
    pub fn new(mailboxes: Arc<Mailboxes>) -> RangeLocks {
        let bucket = |_| CachePadded::new(Lock::new(Bucket::new()));
        RangeLocks {
            buckets: (0..1u32 << BUCKETS_SHIFT).map(bucket).collect(),
            mailboxes,
        }
    }

    #[inline]
    fn bucket(&self, granule: u64) -> &Lock<Bucket<Sleeper>> {
        &self.buckets[bucket_of(granule)]
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
        let locker = Locker {
            client,
            id,
            is_shared: false,
        };
        self.lock_as(cpu, locker, first, pages).await
    }

    /// As [`RangeLocks::lock`], shared or not.
    pub async fn lock_as(
        self: &Arc<Self>,
        cpu: &Cpu,
        locker: Locker,
        first: u64,
        pages: u64,
    ) -> RangeGuard {
        let mut guard = self.guard(cpu, locker, first);
        let last = first + pages - 1;
        for granule in first >> GRANULE_SHIFT..=last >> GRANULE_SHIFT {
            let part = locker.part(cpu, granule, (first, last));
            guard.end_granule = granule + 1;
            let bucket = self.bucket(granule);
            let mut held = bucket.with(cpu, |bucket| bucket.enter(part));
            while !held {
                guard.waits += 1;
                Pause::default().await;
                held = bucket.with(cpu, |bucket| bucket.is_held(&part));
            }
        }
        guard
    }

    /// As [`RangeLocks::lock_as`], if nobody has it who would keep this one out, or waits for it so: `None` else.
    pub fn try_lock_as(
        self: &Arc<Self>,
        cpu: &Cpu,
        locker: Locker,
        first: u64,
        pages: u64,
    ) -> Option<RangeGuard> {
        let mut guard = self.guard(cpu, locker, first);
        let last = first + pages - 1;
        for granule in first >> GRANULE_SHIFT..=last >> GRANULE_SHIFT {
            let part = locker.part(cpu, granule, (first, last));
            let bucket = self.bucket(granule);
            if !bucket.with(cpu, |bucket| bucket.try_enter(part)) {
                return None;
            }
            guard.end_granule = granule + 1;
        }
        Some(guard)
    }

    fn guard(self: &Arc<Self>, cpu: &Cpu, locker: Locker, first: u64) -> RangeGuard {
        RangeGuard {
            locks: self.clone(),
            cpu: cpu.clone(),
            client: locker.client,
            id: locker.id,
            first_granule: first >> GRANULE_SHIFT,
            end_granule: first >> GRANULE_SHIFT,
            waits: 0,
        }
    }

    fn release(&self, cpu: &Cpu, client: u32, granule: u64, id: u64) {
        let bucket = self.bucket(granule);
        let woken = bucket.with(cpu, |bucket| bucket.leave(granule, id));
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

/// The bucket of a granule.
#[inline]
fn bucket_of(granule: u64) -> usize {
    let hash = granule.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - BUCKETS_SHIFT)) as usize
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Mutex, Notify};

    use super::*;
    use crate::sync::UnsafeCell;

    /// Pages on both sides of the boundary of the first granule.
    const BOTH: (u64, u64) = (250, 260);

    /// A page of both ranges, in the second granule.
    const ONE: (u64, u64) = (258, 258);

    /// The table, whose sleepers are woken each by its own bell, and a page that is in all ranges.
    struct Table {
        buckets: [Mutex<Bucket<usize>>; 2],
        woken: [Notify; 3],
        page: UnsafeCell<u32>,
    }

    // SAFETY: what `page` is used for is what the test is about.
    unsafe impl Sync for Table {}

    impl Table {
        fn new() -> Table {
            Table {
                buckets: [(); 2].map(|()| Mutex::new(Bucket::new())),
                woken: [(); 3].map(|()| Notify::new()),
                page: UnsafeCell::new(0),
            }
        }

        fn granules((first, last): (u64, u64)) -> std::ops::RangeInclusive<u64> {
            first >> GRANULE_SHIFT..=last >> GRANULE_SHIFT
        }

        /// Locks a range as sleeper `name`, who looks again only when it was woken, uses the page, and unlocks.
        fn pass(&self, name: usize, (range, is_shared): ((u64, u64), bool)) {
            let locker = Locker {
                client: 0,
                id: name as u64,
                is_shared,
            };
            for granule in Self::granules(range) {
                let part = Part::of(granule, range, &locker, name);
                let bucket = &self.buckets[bucket_of(granule)];
                let mut held = bucket.lock().unwrap().enter(part);
                while !held {
                    self.woken[name].wait();
                    held = bucket.lock().unwrap().is_held(&part);
                }
            }
            // Loom finds a change beside a look, or beside another change.
            match is_shared {
                // SAFETY: only others that look have the page.
                true => self.page.with(|page| unsafe { _ = *page }),
                // SAFETY: nobody else has the page.
                false => self.page.with_mut(|page| unsafe { *page += 1 }),
            }
            for granule in Self::granules(range) {
                let bucket = &self.buckets[bucket_of(granule)];
                let woken = bucket.lock().unwrap().leave(granule, locker.id);
                for name in woken {
                    self.woken[name].notify();
                }
            }
        }
    }

    /// All get their ranges, in every order with three interruptions at most, and nothing stays behind.
    fn all_pass<const N: usize>(lockers: [((u64, u64), bool); N]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let table = loom::sync::Arc::new(Table::new());
            let others = (1..N).map(|name| {
                let table = table.clone();
                loom::thread::spawn(move || table.pass(name, lockers[name]))
            });
            let others: Vec<_> = others.collect();
            table.pass(0, lockers[0]);
            for other in others {
                other.join().unwrap();
            }
            for bucket in &table.buckets {
                assert!(bucket.lock().unwrap().parts.is_empty());
            }
            let writers = lockers.iter().filter(|(_, is_shared)| !is_shared);
            table
                .page
                // SAFETY: all others have ended.
                .with(|page| assert_eq!(unsafe { *page } as usize, writers.count()));
        });
    }

    #[test]
    fn writers_of_one_page_keep_each_other_out_and_each_is_woken() {
        all_pass([(ONE, false), (ONE, false), (ONE, false)]);
    }

    #[test]
    fn a_writer_and_readers_keep_each_other_out_and_each_is_woken() {
        all_pass([(ONE, true), (ONE, false), (ONE, true)]);
    }

    #[test]
    fn ranges_of_several_granules_are_locked_as_one() {
        all_pass([(BOTH, false), (BOTH, false)]);
        all_pass([(BOTH, true), (BOTH, false)]);
        all_pass([(BOTH, false), (ONE, false)]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::{CostTable, Machine, Seed, Side};

    fn shared(id: u64) -> Locker {
        Locker {
            client: 0,
            id,
            is_shared: true,
        }
    }

    fn alone(id: u64) -> Locker {
        Locker {
            is_shared: false,
            ..shared(id)
        }
    }

    /// Runs tasks on a CPU, each of which locks a range of pages at a time and holds it for 100 ns: who
    /// had it from when.
    fn held(lockers: Vec<(u64, Locker, u64, u64)>) -> Vec<(u64, u64)> {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        let (sender, receiver) = std::sync::mpsc::channel();
        machine.spawn_main(id, "test", move |cpu| async move {
            let mailboxes = Mailboxes::new(1);
            mailboxes.serve(&cpu, 0);
            let locks = Arc::new(RangeLocks::new(mailboxes));
            let found = Rc::new(RefCell::new(Vec::new()));
            for (at_ns, locker, first, pages) in lockers {
                let (task_cpu, locks, found) = (cpu.clone(), locks.clone(), found.clone());
                cpu.spawn("locker", async move {
                    task_cpu.sleep_until(at_ns).await;
                    let guard = locks.lock_as(&task_cpu, locker, first, pages).await;
                    found.borrow_mut().push((locker.id, task_cpu.now()));
                    task_cpu.sleep_until(task_cpu.now() + 100).await;
                    drop(guard);
                });
            }
            cpu.sleep_until(10_000).await;
            assert_eq!(locks.parts(&cpu), 0);
            sender.send(found.take()).unwrap();
        });
        machine.run_virtual(Seed(1)).unwrap();
        receiver.recv().unwrap()
    }

    #[test]
    fn shared_ranges_keep_out_others_but_not_each_other() {
        let found = held(vec![
            (0, shared(1), 250, 20),
            (10, shared(2), 260, 5),
            (20, alone(3), 255, 2),
            // Behind one that waits: nobody overtakes.
            (30, shared(4), 250, 20),
            (30, alone(5), 270, 5),
        ]);
        assert_eq!(found, [(1, 0), (2, 10), (5, 30), (3, 100), (4, 200)]);
    }

    #[test]
    fn who_tries_gets_it_at_once_or_leaves_nothing_behind() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        machine.spawn_main(id, "test", |cpu| async move {
            let locks = Arc::new(RangeLocks::new(Mailboxes::new(1)));
            let held = locks.lock_as(&cpu, shared(1), 300, 10).await;
            // The first granule of it is free, the second is not.
            assert!(locks.try_lock_as(&cpu, alone(2), 200, 101).is_none());
            assert!(locks.try_lock_as(&cpu, alone(3), 200, 100).is_some());
            let second = locks.try_lock_as(&cpu, shared(4), 200, 101);
            assert!(second.is_some());
            drop((held, second));
            assert_eq!(locks.parts(&cpu), 0);
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
