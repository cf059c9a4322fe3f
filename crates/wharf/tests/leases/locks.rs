//! Locks that a process grants itself: what others find is what they would find if each had been a command.

use std::collections::BTreeMap;

use wharf::files::{Errno, HeldLock, LockKind, LockRange, LockRequest, LockSpace};

use super::writes::Numbers;
use super::*;

use LockKind::{Exclusive, Shared};
use LockSpace::{Records, Whole};

fn request(owner: u64, (first, last): (u64, u64), kind: LockKind) -> LockRequest {
    LockRequest {
        owner,
        space: Records,
        range: LockRange::new(first, last).unwrap(),
        kind,
        waits: false,
        detects: false,
    }
}

impl Process {
    fn ask(&self, file: Handle, request: &LockRequest) -> Result<(), Errno> {
        let locked = self.0.lock(file, request);
        locked.map_err(|error| error.errno())
    }

    /// Whether process owner 0 gets a lock of a range.
    fn locks(&self, file: Handle, range: (u64, u64), kind: LockKind) -> bool {
        match self.ask(file, &request(0, range, kind)) {
            Ok(()) => true,
            Err(Errno::EAGAIN) => false,
            Err(errno) => panic!("{errno:?}"),
        }
    }

    fn unlocks(&self, file: Handle, (first, last): (u64, u64)) {
        let range = LockRange::new(first, last).unwrap();
        self.0.unlock(file, 0, Records, range).unwrap();
    }

    fn flocks(&self, file: Handle, owner: u64, kind: LockKind) -> bool {
        let request = LockRequest {
            space: Whole,
            ..request(owner, (0, u64::MAX), kind)
        };
        self.ask(file, &request).is_ok()
    }

    /// Who is in the way of process owner 0: the owner, whether it is one of this process, and the range.
    fn in_the_way(&self, file: Handle, range: (u64, u64)) -> Option<(u64, bool, (u64, u64))> {
        let found = self.0.test_lock(file, &request(0, range, Exclusive));
        let held = found.unwrap()?;
        let range = (held.range.first(), held.range.last());
        Some((held.owner, held.is_own, range))
    }
}

#[test]
fn locks_of_who_is_alone_take_no_command_and_others_find_them_all() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    for round in 0..100 {
        assert!(one.locks(mine, (10, 19), Shared));
        assert!(one.locks(mine, (5, 5), Exclusive));
        one.unlocks(mine, (5, 5));
        one.unlocks(mine, (0, u64::MAX));
        assert_eq!(one.in_the_way(mine, (0, 9)), None, "{round}");
    }
    let counts = one.counts();
    // The first is a command, with the second a lease is asked for.
    assert_eq!((counts.locks, counts.lock_leases), (499, 1), "{counts:?}");
    // What it has by then, by which owner it may be, and of which space.
    assert!(one.locks(mine, (100, 109), Exclusive) && one.locks(mine, (200, u64::MAX), Shared));
    assert_eq!(one.ask(mine, &request(7, (300, 300), Shared)), Ok(()));
    assert!(one.flocks(mine, 8, Shared));
    assert_eq!(one.counts().locks, 503);
    assert!(!other.locks(its, (109, 109), Shared));
    assert_eq!(
        other.in_the_way(its, (105, 500)),
        Some((0, false, (100, 109)))
    );
    assert!(!other.flocks(its, 1, Exclusive) && other.flocks(its, 1, Shared));
    assert!(other.locks(its, (250, 260), Shared) && !other.locks(its, (300, 300), Exclusive));
    assert!(other.locks(its, (110, 199), Exclusive));
    // From now on each is a command: another one is there.
    assert!(!one.locks(mine, (150, 150), Shared) && !one.flocks(mine, 8, Exclusive));
    one.unlocks(mine, (0, u64::MAX));
    assert!(other.locks(its, (100, 109), Exclusive));
    assert!(!other.locks(its, (300, 300), Exclusive));
    one.0.release_locks(mine, 7, Records).unwrap();
    assert!(other.locks(its, (300, 300), Exclusive));
    assert!(other.flocks(its, 1, Exclusive));
    served_ends(served, [one, other]);
}

/// Owners of one process: what the drive says of the first is said of all others without it, and its lease lasts.
#[test]
fn a_lock_of_its_own_that_is_in_the_way_is_told_without_a_command() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    let lock = |first, owner| one.ask(mine, &request(owner, (first, first + 9), Exclusive));
    for round in 0..100 {
        let first = 100 * round;
        assert_eq!((lock(first, 7), lock(first + 50, 8)), (Ok(()), Ok(())));
        let found = one.in_the_way(mine, (first, first + 99));
        assert_eq!(found, Some((7, true, (first, first + 9))), "{round}");
        for owner in [7, 8] {
            one.0.release_locks(mine, owner, Records).unwrap();
        }
    }
    assert_eq!((lock(0, 7), lock(50, 8)), (Ok(()), Ok(())));
    // The first two locks and the first answer are commands; that ended the lease, and another one came.
    let counts = one.counts();
    assert!(counts.locks >= 495 && counts.lock_leases <= 2, "{counts:?}");
    // The drive, which takes the locks for the other one, says the same of them.
    let asked = request(0, (0, 99), Exclusive);
    let here = one.0.test_lock(mine, &asked).unwrap().unwrap();
    let there = other.0.test_lock(its, &asked).unwrap().unwrap();
    assert!(here.is_own && !there.is_own);
    let words = |held: HeldLock| (held.owner, held.session, held.range, held.kind);
    assert_eq!(words(here), words(there));
    served_ends(served, [one, other]);
}

/// The other one goes, and the locks that were commands are granted here again.
#[test]
fn a_lease_comes_again_and_knows_what_was_locked_by_commands() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    assert!(other.locks(its, (0, 0), Exclusive));
    for at in 1..50 {
        assert!(one.locks(mine, (2 * at, 2 * at), Exclusive));
    }
    assert_eq!(one.counts().locks, 0);
    other.unlocks(its, (0, 0));
    for _ in 0..100 {
        assert!(one.locks(mine, (1_000, 1_000), Exclusive));
    }
    let counts = one.counts();
    assert!(counts.locks > 30 && counts.lock_leases == 1, "{counts:?}");
    one.unlocks(mine, (50, 60));
    for at in 1..50 {
        let is_free = (50..=60).contains(&(2 * at));
        assert_eq!(other.locks(its, (2 * at, 2 * at), Shared), is_free, "{at}");
    }
    assert!(!other.locks(its, (1_000, 1_000), Shared));
    served_ends(served, [one, other]);
}

/// More locks than a process may grant itself of one file, and of more files than it has places for.
#[test]
fn any_number_of_locks_and_files_is_kept() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    for at in 0..200 {
        assert!(one.locks(mine, (2 * at, 2 * at), Exclusive));
    }
    for at in 0..200 {
        assert!(!other.locks(its, (2 * at, 2 * at), Shared), "{at}");
        assert!(other.locks(its, (2 * at + 1, 2 * at + 1), Shared));
    }
    let files: Vec<Handle> = (0..150).map(|n| one.open(&format!("/{n}"))).collect();
    for file in &files {
        for at in 0..5 {
            assert!(one.locks(*file, (10 * at, 10 * at), Exclusive));
        }
    }
    assert!(one.counts().lock_leases > 64, "{:?}", one.counts());
    for n in 0..150 {
        let its = other.open(&format!("/{n}"));
        for at in 0..5 {
            assert!(!other.locks(its, (10 * at, 10 * at), Shared), "{n} {at}");
            assert!(other.locks(its, (10 * at + 1, 10 * at + 1), Shared));
        }
    }
    served_ends(served, [one, other]);
}

#[test]
fn a_handle_that_may_only_read_gets_no_lock_to_write_and_takes_none_away() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    let opened = one.0.open(by(), At::from(&b"/f"[..]), OpenFlags::READ, 0);
    let reads = block_on(opened).unwrap().handle;
    for round in 0..20 {
        assert!(one.locks(reads, (0, 9), Shared));
        let refused = one.ask(reads, &request(0, (20, 29), Exclusive));
        assert_eq!(refused, Err(Errno::EBADF), "{round}");
        // By a lease that came by the other handle.
        assert!(one.locks(mine, (30, 39), Exclusive));
        assert!(one.locks(reads, (50, 59), Shared));
        assert!(!other.locks(its, (35, 35), Shared), "{round}");
        assert!(other.locks(its, (50, 59), Shared) && !other.locks(its, (9, 9), Exclusive));
        other.unlocks(its, (0, u64::MAX));
        one.unlocks(mine, (0, u64::MAX));
    }
    served_ends(served, [one, other]);
}

/// Who is gone has nothing, and who comes by the same memory has nothing of it.
#[test]
fn what_a_process_that_goes_has_granted_itself_goes_with_it() {
    let served = Served::new();
    let other = served.process(1 << 20);
    let its = other.open("/f");
    for round in 0..12 {
        let one = served.process(1 << 20);
        let mine = one.open("/f");
        for at in 0..5 {
            assert!(one.locks(mine, (10 * at, 10 * at), Exclusive));
        }
        assert!(one.counts().locks > 0);
        if round % 2 == 0 {
            assert!(!other.locks(its, (20, 20), Shared));
        }
        match round % 3 {
            0 => one.0.end().unwrap(),
            // Without a word: its connection ends.
            _ => drop(one),
        }
        let waits = LockRequest {
            waits: true,
            ..request(0, (0, u64::MAX), Exclusive)
        };
        assert_eq!(other.ask(its, &waits), Ok(()), "{round}");
        other.unlocks(its, (0, u64::MAX));
    }
    served_ends(served, [other]);
}

/// Bytes that are told apart.
const BYTES: usize = 12;

/// What each owner of each process has of each byte: slow, and obvious.
#[derive(Default)]
struct Model(BTreeMap<(LockSpace, usize, u64), [Option<LockKind>; BYTES]>);

impl Model {
    fn is_free(&self, who: (LockSpace, usize, u64), bytes: &[usize], kind: LockKind) -> bool {
        let others = self
            .0
            .iter()
            .filter(|(other, _)| other.0 == who.0 && **other != who);
        let mut had = others.flat_map(|(_, had)| bytes.iter().filter_map(|byte| had[*byte]));
        !had.any(|held| held == Exclusive || kind == Exclusive)
    }

    fn set(&mut self, who: (LockSpace, usize, u64), bytes: &[usize], kind: Option<LockKind>) {
        let had = self.0.entry(who).or_default();
        bytes.iter().for_each(|byte| had[*byte] = kind);
    }

    fn lock(&mut self, who: (LockSpace, usize, u64), bytes: &[usize], kind: LockKind) -> bool {
        if who.0 == Whole && self.0.get(&who) != Some(&[Some(kind); BYTES]) {
            self.0.remove(&who);
        }
        let is_free = self.is_free(who, bytes, kind);
        if is_free {
            self.set(who, bytes, Some(kind));
        }
        is_free
    }
}

/// Three processes with two owners each lock, unlock, look, go and come again; often one of them is alone for a while.
#[test]
fn locks_of_three_processes_are_those_of_a_model() {
    for seed in 1..=6 {
        println!("seed {seed}");
        let served = Served::new();
        let mut numbers = Numbers(seed);
        let new = |number| served.process([1 << 20, 1 << 20, 0][number]);
        let mut processes: Vec<Process> = (0..3).map(new).collect();
        let mut files: Vec<Handle> = processes.iter().map(|one| one.open("/f")).collect();
        let mut model = Model::default();
        let (mut active, mut here, mut leases) = (0, 0, 0);
        for step in 0..3_000 {
            if numbers.below(20) == 0 {
                // Most leave nothing to the next one.
                for (space, owner) in [(Records, 0), (Records, 1), (Whole, 0), (Whole, 1)] {
                    if numbers.below(9) > 0 {
                        let released =
                            processes[active]
                                .0
                                .release_locks(files[active], owner, space);
                        released.unwrap();
                        model.0.remove(&(space, active, owner));
                    }
                }
                active = numbers.below(3) as usize;
            }
            let owner = numbers.below(2);
            let space = [Records, Records, Whole][numbers.below(3) as usize];
            let first = numbers.below(BYTES as u64) as usize;
            let last = first + numbers.below((BYTES - first) as u64) as usize;
            let (first, last) = match space {
                Records => (first, last),
                Whole => (0, BYTES - 1),
            };
            let bytes: Vec<usize> = (first..=last).collect();
            let kind = [Shared, Exclusive][numbers.below(2) as usize];
            let who = (space, active, owner);
            let ask = LockRequest {
                space,
                ..request(owner, (first as u64, last as u64), kind)
            };
            let (process, file) = (&processes[active], files[active]);
            match numbers.below(40) {
                0..15 => {
                    let locked = process.ask(file, &ask).is_ok();
                    assert_eq!(
                        locked,
                        model.lock(who, &bytes, kind),
                        "seed {seed} step {step}"
                    );
                }
                15..30 => {
                    process.0.unlock(file, owner, space, ask.range).unwrap();
                    model.set(who, &bytes, None);
                }
                30..35 => {
                    let found = process.0.test_lock(file, &ask).unwrap();
                    let is_free = model.is_free(who, &bytes, kind);
                    assert_eq!(found.is_none(), is_free, "seed {seed} step {step}");
                }
                35..39 => {
                    process.0.release_locks(file, owner, space).unwrap();
                    model.0.remove(&who);
                }
                _ if step % 4 == 0 => {
                    let counts = process.0.cache_counts().unwrap_or_default();
                    (here, leases) = (here + counts.locks, leases + counts.lock_leases);
                    let left = std::mem::replace(&mut processes[active], new(active));
                    left.0.end().unwrap();
                    files[active] = processes[active].open("/f");
                    model.0.retain(|(_, process, _), _| *process != active);
                }
                _ => {}
            }
        }
        println!("{here} locks without a command, {leases} leases");
        assert!(here > 200 && leases > 5, "seed {seed}");
        let ended: [Process; 3] = processes.try_into().ok().unwrap();
        served_ends(served, ended);
    }
}
