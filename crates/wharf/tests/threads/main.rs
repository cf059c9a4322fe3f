//! Threads of a process at a drive in another process: while one waits for a command, others have theirs done.

#![allow(missing_docs)]

mod random;
#[path = "../support/served.rs"]
mod served;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use served::Served;
use wharf::files::{
    FileDrive, ImageError, LockKind, LockRange, LockRequest, LockSpace, OpenFlags, Serving, now_ns,
};
use wharf::store::Turns;
use wharf_files::vfs::{At, Service};
use wharf_files::{By, Caller, Errno, Handle, Place, block_on};

impl Served {
    fn new() -> Served {
        Served::with_cache(1 << 20)
    }

    /// By a drive that has a cache of so many bytes.
    fn with_cache(bytes: u64) -> Served {
        Served::serving(&Serving {
            processes: 4,
            drive_cache_bytes: bytes,
            ..Serving::default()
        })
    }
}

/// How a process attaches to a drive: it keeps nothing, keeps so many bytes, or uses the drive's cache too.
type Way = fn(&Path, u64) -> Attached;

type Attached = Result<FileDrive, ImageError>;

const WAYS: [Way; 3] = [
    |socket, _| FileDrive::attach(socket),
    FileDrive::attach_cached,
    FileDrive::attach_omni,
];

/// A process, whose threads have their turns.
struct Process {
    drive: FileDrive,
    turns: &'static Turns,
}

// SAFETY: the drive is used by who has the turn.
unsafe impl Sync for Process {}

impl Process {
    fn of(served: &Served, way: impl Fn(&Path, u64) -> Attached, cache_bytes: u64) -> Process {
        let drive = way(&served.socket(), cache_bytes).unwrap();
        let turns = Box::leak(Box::new(Turns::new()));
        drive.share_among_threads(turns);
        Process { drive, turns }
    }

    /// Does something in this thread's turn.
    fn with<T>(&self, f: impl FnOnce(&FileDrive) -> T) -> T {
        let _turn = self.turns.enter();
        f(&self.drive)
    }

    fn open(&self, name: &[u8]) -> Handle {
        let caller = Caller::root();
        let by = By {
            caller: &caller,
            now_ns: now_ns(),
        };
        let flags = OpenFlags {
            read: true,
            ..OpenFlags::CREATE
        };
        let opened = self.with(|drive| block_on(drive.open(by, At::from(name), flags, 0o644)));
        opened.unwrap().handle
    }

    fn lock(&self, file: Handle, owner: u64) -> Result<(), Errno> {
        let request = LockRequest {
            owner,
            space: LockSpace::Records,
            range: LockRange::ALL,
            kind: LockKind::Exclusive,
            waits: true,
            detects: false,
        };
        let locked = self.with(|drive| drive.lock(file, &request));
        locked.map_err(|error| error.errno())
    }

    fn unlock(&self, file: Handle, owner: u64) {
        let unlocked =
            self.with(|drive| drive.unlock(file, owner, LockSpace::Records, LockRange::ALL));
        unlocked.unwrap();
    }

    fn write_and_read(&self, file: Handle, number: u8) {
        let (data, mut found) = (vec![number; 10_000], vec![0; 10_000]);
        let written = self.with(|drive| block_on(drive.write(now_ns(), file, Place::At(0), &data)));
        assert_eq!(written.unwrap().bytes, 10_000);
        let read = self.with(|drive| block_on(drive.read(now_ns(), file, 0, &mut found)));
        assert_eq!((read.unwrap(), found), (10_000, data));
    }
}

/// Threads of a store write its log while others read, sync and wait for locks.
#[test]
fn what_a_thread_writes_is_kept_beside_other_ones_commands_about_other_files() {
    let served = Served::new();
    let other = Process::of(&served, WAYS[0], 0);
    let process = Process::of(&served, FileDrive::attach_cached, 1 << 20);
    let held = other.open(b"/locked");
    other.lock(held, 1).unwrap();
    let (locked, own) = (process.open(b"/locked"), process.open(b"/own"));
    let asked = || process.with(FileDrive::asked);
    let before = asked();
    std::thread::scope(|threads| {
        threads.spawn(|| process.lock(locked, 2).unwrap());
        // Until it waits in the drive, or is about to.
        while asked() == before {
            std::thread::yield_now();
        }
        let write = |file: Handle, number: u8| {
            let (place, data) = (Place::At(1000 * u64::from(number)), [number; 1000]);
            let written = process.with(|drive| block_on(drive.write(now_ns(), file, place, &data)));
            assert_eq!(written.unwrap().bytes, 1000);
        };
        // All but the first ones, and those after a lease has ended for its age.
        let commands = [own, locked].map(|file| {
            let before = asked();
            (0..200).for_each(|number| write(file, number));
            asked() - before
        });
        // A thread that waits is waited for, whatever fails here.
        other.unlock(held, 1);
        assert!(commands.iter().all(|count| *count < 40), "{commands:?}");
        for file in [b"/own" as &[u8], b"/locked"] {
            let file = other.open(file);
            for number in 0..200_u8 {
                let mut found = [0; 1000];
                let from = 1000 * u64::from(number);
                let read =
                    other.with(|drive| block_on(drive.read(now_ns(), file, from, &mut found)));
                assert_eq!((read.unwrap(), found), (1000, [number; 1000]));
            }
        }
    });
}

/// With threads that wait for each other's commands, the one that gives the lock back never has its turn.
#[test]
fn a_thread_that_waits_for_a_lock_in_the_drive_is_in_no_other_ones_way() {
    let served = Served::new();
    for way in WAYS {
        let process = Process::of(&served, way, 1 << 20);
        let (file, done) = (process.open(b"/locked"), AtomicU32::new(0));
        process.lock(file, 1).unwrap();
        std::thread::scope(|threads| {
            for owner in 2..10 {
                let (process, done) = (&process, &done);
                threads.spawn(move || {
                    process.lock(file, owner).unwrap();
                    assert_eq!(done.load(Ordering::Relaxed), 4, "it is held until then");
                    process.unlock(file, owner);
                });
            }
            let working: Vec<_> = (0..4_u8)
                .map(|number| {
                    let process = &process;
                    threads.spawn(move || {
                        let own = process.open(format!("/own{number}").as_bytes());
                        (0..50).for_each(|round| process.write_and_read(own, number ^ round));
                    })
                })
                .collect();
            for worker in working {
                worker.join().unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
            process.unlock(file, 1);
        });
        process.drive.end().unwrap();
    }
    served.end();
}

#[test]
fn all_threads_that_wait_are_told_when_the_server_goes() {
    let served = Served::new();
    let process = Process::of(&served, FileDrive::attach_omni, 1 << 20);
    let file = process.open(b"/locked");
    process.lock(file, 1).unwrap();
    std::thread::scope(|threads| {
        let waiting: Vec<_> = (2..8)
            .map(|owner| {
                let process = &process;
                threads.spawn(move || process.lock(file, owner))
            })
            .collect();
        served.end();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(Errno::EIO));
        }
    });
    process.with(|drive| assert!(drive.is_cut_off()));
    process.drive.abandon();
}
