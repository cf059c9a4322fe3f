//! The kernel of the system that tests run on judges the lock table: the same random operations by several owners give
//! the same answers, by locks of open file descriptions (`F_OFD_SETLK`, `F_OFD_GETLK`) and by `flock`.

use std::fs::File;
use std::os::fd::AsRawFd;

use wharf_files::Errno;
use wharf_files::locks::{
    Lock, LockAsk, LockError, LockKind, LockLimits, LockOwner, LockPlace, LockRange, LockSpace,
    LockTable,
};
use wharf_runtime::{Rng, Seed};

/// Owners: each has its own open file description.
const OWNERS: u64 = 3;

/// What the kernel takes for the last byte.
const KERNEL_LAST: u64 = i64::MAX as u64;

fn open(path: &std::path::Path) -> File {
    let file = File::options().read(true).write(true).open(path);
    file.expect("it is there")
}

/// An operation of the kernel: what it gave, or its error.
fn errno_of(result: i32) -> Result<(), i32> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .expect("the system says why")),
    }
}

fn flock_of(range: LockRange, kind: i32) -> libc::flock {
    // SAFETY: all zeros is a value of it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.first() as i64;
    lock.l_len = match range.last() {
        u64::MAX => 0,
        last => (last - range.first() + 1) as i64,
    };
    lock
}

fn raw(kind: LockKind) -> i32 {
    match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    }
}

fn set(file: &File, range: LockRange, kind: i32) -> Result<(), i32> {
    let lock = flock_of(range, kind);
    // SAFETY: the descriptor is open, and the kernel reads the structure during the call alone.
    errno_of(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) })
}

/// The lock in the way, as the kernel tells it: its range and kind.
fn get(file: &File, range: LockRange, kind: LockKind) -> Option<(LockRange, LockKind)> {
    let mut lock = flock_of(range, raw(kind));
    // SAFETY: as above; the kernel writes to the structure.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    assert_eq!(errno_of(asked), Ok(()));
    let kind = match i32::from(lock.l_type) {
        libc::F_UNLCK => return None,
        libc::F_RDLCK => LockKind::Shared,
        _ => LockKind::Exclusive,
    };
    let first = lock.l_start as u64;
    let last = match lock.l_len {
        0 => u64::MAX,
        bytes => first + bytes as u64 - 1,
    };
    Some((LockRange::new(first, last).expect("it has a byte"), kind))
}

fn flock(file: &File, operation: i32) -> Result<(), i32> {
    // SAFETY: the descriptor is open.
    errno_of(unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) })
}

fn owner(id: u64) -> LockOwner {
    LockOwner { session: 5, id }
}

fn place(space: LockSpace) -> LockPlace {
    LockPlace { file: 9, space }
}

fn table() -> LockTable {
    LockTable::new(LockLimits {
        locks: 1000,
        waits: 1,
        waits_in_all: 1,
    })
}

fn number(answer: Result<(), LockError>) -> Result<(), i32> {
    answer.map_err(|error| error.errno().number())
}

fn random_range(rng: &mut Rng) -> LockRange {
    let ends = [
        0,
        1,
        2,
        3,
        5,
        8,
        9,
        20,
        21,
        KERNEL_LAST - 1,
        KERNEL_LAST,
        u64::MAX,
    ];
    loop {
        let mut one = || ends[rng.below(ends.len() as u64) as usize];
        let (first, last) = (one(), one());
        // To the kernel, its last byte is the end, and so all that is behind.
        let last = if last == KERNEL_LAST { u64::MAX } else { last };
        if first <= KERNEL_LAST
            && let Some(range) = LockRange::new(first, last)
        {
            return range;
        }
    }
}

fn random_kind(rng: &mut Rng) -> LockKind {
    match rng.chance(1, 2) {
        true => LockKind::Shared,
        false => LockKind::Exclusive,
    }
}

#[test]
fn record_locks_are_those_of_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locked");
    File::create(&path).expect("it is made");
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..200 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let mut files: Vec<File> = (0..OWNERS).map(|_| open(&path)).collect();
        let mut table = table();
        for _ in 0..200 {
            let id = rng.below(OWNERS);
            let file = &files[id as usize];
            let ask = LockAsk {
                place: place(LockSpace::Records),
                owner: owner(id),
                range: random_range(&mut rng),
                kind: random_kind(&mut rng),
                detects: false,
            };
            match rng.below(20) {
                0..8 => {
                    let expected = set(file, ask.range, raw(ask.kind));
                    assert_eq!(number(table.lock(&ask)), expected, "seed {seed}: {ask:?}");
                    match expected {
                        Ok(()) => granted += 1,
                        Err(errno) => {
                            assert_eq!(errno, Errno::EAGAIN.number());
                            refused += 1;
                        }
                    }
                }
                8..14 => {
                    let expected = set(file, ask.range, libc::F_UNLCK);
                    let unlocked = table.unlock(ask.place, ask.owner, ask.range);
                    assert_eq!(number(unlocked), expected, "seed {seed}: {ask:?}");
                }
                14..19 => {
                    let found = table.test(&ask);
                    let found = found.map(|Lock { range, kind, .. }| (range, kind));
                    let expected = get(file, ask.range, ask.kind);
                    assert_eq!(found, expected, "seed {seed}: {ask:?}");
                }
                _ => {
                    // What an open file description has goes with it.
                    files[id as usize] = open(&path);
                    table.release_owner(ask.place, ask.owner);
                }
            }
        }
    }
    assert!(granted > 2_000 && refused > 2_000, "{granted}, {refused}");
}

#[test]
fn whole_file_locks_are_those_of_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locked");
    File::create(&path).expect("it is made");
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..100 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let mut files: Vec<File> = (0..OWNERS).map(|_| open(&path)).collect();
        let mut table = table();
        for _ in 0..200 {
            let id = rng.below(OWNERS);
            let file = &files[id as usize];
            let ask = LockAsk {
                place: place(LockSpace::Whole),
                owner: owner(id),
                range: LockRange::ALL,
                kind: random_kind(&mut rng),
                detects: false,
            };
            match rng.below(10) {
                0..6 => {
                    let how = match ask.kind {
                        LockKind::Shared => libc::LOCK_SH,
                        LockKind::Exclusive => libc::LOCK_EX,
                    };
                    let expected = flock(file, how);
                    assert_eq!(number(table.lock(&ask)), expected, "seed {seed}: {ask:?}");
                    match expected {
                        Ok(()) => granted += 1,
                        Err(_) => refused += 1,
                    }
                }
                6..9 => {
                    assert_eq!(flock(file, libc::LOCK_UN), Ok(()));
                    let unlocked = table.unlock(ask.place, ask.owner, ask.range);
                    assert_eq!(unlocked, Ok(()));
                }
                _ => {
                    files[id as usize] = open(&path);
                    table.release_owner(ask.place, ask.owner);
                }
            }
        }
    }
    assert!(granted > 2_000 && refused > 2_000, "{granted}, {refused}");
}
