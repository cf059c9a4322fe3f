//! What threads do to the index, in every interleaving. Ranges have two pages here.
//!
//! Relaxed atomics stand for what the locks of pages and the orders within the index are to guard: whoever sees them old has found one that
//! is missing.

use std::sync::Arc as StdArc;

use wharf_runtime::clock::Clock;
use wharf_runtime::sync::{Arc, spin};
use wharf_runtime::{CostTable, Machine, Side};

use super::*;

const FILE: u32 = 0;
const PAGES: u64 = 4;

/// The time of a thread that comes long after what is old.
const LATE_NS: u64 = 5_000;
const BETWEEN_NS: u64 = 2_000;

/// No range is of this file.
const ANOTHER: (u32, u64) = (7, 0);

/// The index, and which of a file's pages each side has.
struct Sides {
    index: OmniIndex,
    device: [AtomicBool; PAGES as usize],
    host: [AtomicBool; PAGES as usize],
}

impl Sides {
    /// Neither side has a page; there is room for so many ranges.
    fn new(ranges: u32) -> Arc<Sides> {
        let no_page = || std::array::from_fn(|_| AtomicBool::new(false));
        Arc::new(Sides {
            index: OmniIndex {
                trees: [Concurrent::default()].into(),
                nodes: (0..ranges).map(|_| Node::default()).collect(),
                free: Lock::new(Vec::new()),
                unused: AtomicU32::new(0),
                hand: AtomicU32::new(0),
                range_pages: 2,
                pages: AtomicU64::new(0),
                pages_max: PAGES,
                coming: AtomicU64::new(0),
                locks: StdArc::new(RangeLocks::new(Mailboxes::new(1))),
                locks_files: false,
                evicts: AtomicBool::new(false),
            },
            device: no_page(),
            host: no_page(),
        })
    }

    fn has(side: &[AtomicBool], page: u64) -> bool {
        side[page as usize].load(Ordering::Relaxed)
    }

    fn set(side: &[AtomicBool], page: u64, has: bool) {
        side[page as usize].store(has, Ordering::Relaxed);
    }

    fn lock(&self, cpu: &Cpu, id: u64, pages: &Range<u64>, is_shared: bool) -> RangeGuard {
        let locker = Locker {
            client: 0,
            id,
            is_shared,
        };
        loop {
            match self.index.try_lock(cpu, locker, (FILE, pages.clone())) {
                Some(guard) => return guard,
                None => spin(),
            }
        }
    }

    /// Uses a page by way of the drive's cache, which keeps it; nothing if it is here.
    fn use_near(&self, cpu: &Cpu, id: u64, page: u64) {
        let pages = page..page + 1;
        let _guard = self.lock(cpu, id, &pages, true);
        if Sides::has(&self.host, page) {
            return self.check(cpu, page);
        }
        // Others who use it too may have had it come there, and not noted it yet.
        Sides::set(&self.device, page, true);
        assert!(self.index.note(cpu, &(FILE, pages)));
        self.check(cpu, page);
    }

    /// Has a page come here, and leave the drive's cache.
    fn take(&self, cpu: &Cpu, id: u64, page: u64) {
        let pages = page..page + 1;
        let _guard = self.lock(cpu, id, &pages, false);
        self.check(cpu, page);
        Sides::set(&self.device, page, false);
        Sides::set(&self.host, page, true);
        self.index.clear(cpu, &(FILE, pages));
    }

    /// Has a range leave the drive's cache.
    fn leave(&self, cpu: &Cpu, id: u64, pages: &Range<u64>) {
        let _guard = self.lock(cpu, id, pages, false);
        for page in pages.clone() {
            self.check(cpu, page);
            Sides::set(&self.device, page, false);
        }
        self.index.remove(cpu, &(FILE, pages.clone()));
    }

    /// What holds of a page that is locked alone, or that who has it locked has just noted or found here.
    fn check(&self, cpu: &Cpu, page: u64) {
        let on_device = Sides::has(&self.device, page);
        assert!(!(on_device && Sides::has(&self.host, page)), "{page}: both");
        let known = self.index.is_on_device(cpu, FILE, page);
        assert_eq!(known, on_device, "page {page}");
    }

    /// What holds when nobody is at work.
    fn check_all(&self, cpu: &Cpu) {
        (0..PAGES).for_each(|page| self.check(cpu, page));
        let on_device = (0..PAGES).filter(|page| Sides::has(&self.device, *page));
        assert_eq!(self.index.pages(), on_device.count() as u64);
    }
}

/// A CPU of the thread that asks, whose clock stands at `at_ns`.
fn with_cpu<T>(at_ns: u64, work: impl FnOnce(&Cpu) -> T) -> T {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("thread", Side::Host, 1.0);
    let inline = machine.inline_by(Clock::standing(at_ns));
    work(inline.cpu(id))
}

/// Runs `other` beside `main` when `prepare` is done, at a time long before; then `check`, and a look at all pages.
fn model(
    ranges: u32,
    prepare: fn(&Sides, &Cpu),
    other: fn(&Sides, &Cpu),
    main: fn(&Sides, &Cpu),
    check: fn(&Sides, &Cpu),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(move || {
        let sides = Sides::new(ranges);
        with_cpu(0, |cpu| prepare(&sides, cpu));
        let others = sides.clone();
        let thread = loom::thread::spawn(move || with_cpu(LATE_NS, |cpu| other(&others, cpu)));
        with_cpu(LATE_NS, |cpu| main(&sides, cpu));
        thread.join().unwrap();
        with_cpu(LATE_NS, |cpu| {
            check(&sides, cpu);
            sides.check_all(cpu);
        });
    });
}

#[test]
fn a_page_that_comes_here_is_in_one_cache_for_all_who_have_it_locked() {
    model(
        1,
        |sides, cpu| sides.use_near(cpu, 0, 0),
        |sides, cpu| sides.use_near(cpu, 1, 0),
        |sides, cpu| sides.take(cpu, 2, 0),
        |sides, _| assert!(Sides::has(&sides.host, 0)),
    );
}

#[test]
fn a_page_that_comes_here_takes_no_bit_of_its_neighbours_along() {
    model(
        1,
        |sides, cpu| sides.use_near(cpu, 0, 0),
        |sides, cpu| sides.use_near(cpu, 1, 1),
        |sides, cpu| sides.take(cpu, 2, 0),
        |sides, _| assert!(Sides::has(&sides.device, 1)),
    );
}

#[test]
fn one_page_that_two_note_at_once_counts_once() {
    model(
        1,
        |sides, cpu| sides.use_near(cpu, 0, 1),
        |sides, cpu| sides.use_near(cpu, 1, 0),
        |sides, cpu| sides.use_near(cpu, 2, 0),
        |sides, _| assert_eq!(sides.index.pages(), 2),
    );
}

#[test]
fn a_range_that_two_make_at_once_has_the_pages_of_both_and_one_node() {
    model(
        2,
        |_, _| {},
        |sides, cpu| sides.use_near(cpu, 1, 0),
        |sides, cpu| sides.use_near(cpu, 2, 1),
        // The node of the slower one is free, for the range beside.
        |sides, cpu| sides.use_near(cpu, 3, 3),
    );
}

#[test]
fn ranges_that_are_made_at_once_have_nodes_of_their_own() {
    model(
        2,
        |_, _| {},
        |sides, cpu| sides.use_near(cpu, 1, 0),
        |sides, cpu| sides.use_near(cpu, 2, 3),
        |sides, _| assert_eq!(sides.index.pages(), 2),
    );
}

/// The node of a range that leaves goes to another range at once: nothing of the old one is seen of it, and it can leave too.
#[test]
fn a_node_that_is_used_again_has_nothing_of_the_range_before() {
    model(
        1,
        |sides, cpu| {
            sides.use_near(cpu, 0, 0);
            sides.use_near(cpu, 0, 1);
        },
        |sides, cpu| sides.leave(cpu, 1, &(0..2)),
        |sides, cpu| {
            let part = (FILE, 2..3);
            let _guard = sides.lock(cpu, 2, &part.1, true);
            // There may be no node for it yet: then it does not stay.
            let is_noted = sides.index.note(cpu, &part);
            assert_eq!(is_noted, sides.index.is_on_device(cpu, FILE, 2));
            Sides::set(&sides.device, 2, is_noted);
        },
        |sides, cpu| {
            let is_known = sides.index.is_on_device(cpu, FILE, 2);
            let victim = sides.index.begin_evict(ANOTHER, old(u64::MAX));
            assert_eq!(victim, is_known.then_some((FILE, 2..4)));
        },
    );
}

/// Who looks for what was not used for long may find a range that has left by now, but none that is new in the place of an old one.
#[test]
fn a_range_that_has_just_come_does_not_leave_for_the_age_of_the_one_before() {
    model(
        1,
        |sides, cpu| sides.use_near(cpu, 0, 0),
        |sides, _| {
            let victim = sides.index.begin_evict(ANOTHER, old(BETWEEN_NS));
            assert!(matches!(
                victim,
                None | Some((FILE, Range { start: 0, .. }))
            ));
        },
        |sides, cpu| {
            sides.leave(cpu, 1, &(0..2));
            sides.use_near(cpu, 2, 2);
        },
        |sides, _| assert!(Sides::has(&sides.device, 2)),
    );
}

fn old(before_ns: u64) -> Old {
    Old {
        before_ns,
        empty_before_ns: before_ns,
    }
}

/// Has the range leave that is the first to go, if none is on its way out. Whoever comes next finds that it has left.
fn evict(sides: &Sides, cpu: &Cpu) {
    if let Some((_, pages)) = sides.index.begin_evict(ANOTHER, old(u64::MAX)) {
        assert_eq!(pages, 0..2);
        let was_there = Sides::has(&sides.device, 0);
        assert!(was_there, "one range leaves twice");
        // No lock of pages orders this: who lets another range leave comes after it by itself.
        Sides::set(&sides.device, 0, false);
        sides.index.remove(cpu, &(FILE, pages));
        sides.index.end_evict();
    }
}

#[test]
fn a_range_leaves_once_and_one_at_a_time() {
    model(
        1,
        |sides, cpu| sides.use_near(cpu, 0, 0),
        evict,
        evict,
        |sides, _| assert!(!Sides::has(&sides.device, 0)),
    );
}
