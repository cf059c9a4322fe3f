//! Locks of files of an image that several processes use: threads that attach stand for them.

#![allow(clippy::disallowed_methods)] // the threads

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use wharf::files::{
    Caller, Errno, FileDrive, LockKind, LockRange, LockRequest, LockSpace, Mount, OpenFlags,
    Server, open,
};
use wharf_files::vfs::{At, Service};
use wharf_files::{By, Handle, block_on};

use crate::file_system::with_image;

/// Long enough for one who waits to be waiting.
const A_WHILE: Duration = Duration::from_millis(200);

/// A process that takes the lock of a file, when it can, and writes to it.
fn process(socket: &Path, byte: u8) -> JoinHandle<()> {
    let socket = socket.to_path_buf();
    spawn(move || {
        let mount = Mount::attach(&socket).unwrap();
        let file = mount.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
        file.lock().unwrap();
        file.append(&[byte]).unwrap();
        drop(file);
        mount.close().unwrap();
    })
}

#[test]
fn whole_files_are_locked_by_one_process_at_a_time_and_given_back_when_it_goes() {
    let place = with_image();
    let socket = place.path().join("s");
    let server = Server::open(place.path().join("drive.img"), &socket, 4).unwrap();
    let first = Mount::attach(&socket).unwrap();
    let file = first.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    let second = Mount::attach(&socket).unwrap();
    let other = second.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    assert!(file.try_lock_shared().unwrap() && other.try_lock_shared().unwrap());
    assert!(!other.try_lock().unwrap());
    // It has lost what it had, as `flock` does it.
    assert!(file.try_lock().unwrap() && !other.try_lock_shared().unwrap());
    let waiting = [process(&socket, b'x'), process(&socket, b'y')];
    std::thread::sleep(A_WHILE);
    // Those who wait are in nobody's way.
    for _ in 0..100 {
        other.append(b".").unwrap();
    }
    assert!(waiting.iter().all(|process| !process.is_finished()));
    // One who goes without a word; its end is noticed by its connection.
    std::mem::forget(file);
    drop(first);
    for process in waiting {
        process.join().unwrap();
    }
    let mut found = [0; 200];
    let length = other.read_at(0, &mut found).unwrap();
    found[100..length].sort_unstable();
    assert_eq!(found[99..length], *b".xy");
    assert!(other.try_lock().unwrap());
    other.unlock().unwrap();
    drop(other);
    second.close().unwrap();
    server.close().unwrap();
    place.ok(&["fs", "check", "drive.img"]);
}

/// A process that opens a file.
fn opened(socket: &Path) -> (FileDrive, Handle) {
    let drive = open(socket).unwrap();
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 1,
    };
    let at = At::from(&b"/file"[..]);
    let opened = block_on(Service::open(&drive, by, at, OpenFlags::CREATE, 0o644));
    let handle = opened.unwrap().handle;
    (drive, handle)
}

fn records(owner: u64, first: u64, last: u64, waits: bool) -> LockRequest {
    LockRequest {
        owner,
        space: LockSpace::Records,
        range: LockRange::new(first, last).unwrap(),
        kind: LockKind::Exclusive,
        waits,
        detects: waits,
    }
}

#[test]
fn records_are_locked_by_owners_of_several_processes_and_waits_can_be_stopped() {
    let place = with_image();
    let socket = place.path().join("s");
    let server = Server::open(place.path().join("drive.img"), &socket, 2).unwrap();
    let (one, of_one) = opened(&socket);
    let (other, of_other) = opened(&socket);
    one.lock(of_one, &records(7, 0, 9, false)).unwrap();
    other.lock(of_other, &records(7, 10, 19, false)).unwrap();
    let refused = other.lock(of_other, &records(7, 5, 30, false)).unwrap_err();
    assert_eq!(refused.errno(), Errno::EAGAIN);
    let held = other.test_lock(of_other, &records(7, 5, 30, false));
    let held = held.unwrap().expect("another process has it");
    assert_eq!((held.owner, held.is_own), (7, false));
    assert_eq!(Some(held.range), LockRange::new(0, 9));
    let own = other.test_lock(of_other, &records(8, 15, 30, false));
    assert!(own.unwrap().expect("another owner has it").is_own);
    let mut looks = 0;
    let stop = || {
        looks += 1;
        looks == 5
    };
    let stopped = other.lock_unless(of_other, &records(7, 5, 5, true), stop);
    assert_eq!(stopped.unwrap_err().errno(), Errno::EINTR);
    assert_eq!(looks, 5);
    // What was stopped is not given later.
    let range = LockRange::new(0, 9).unwrap();
    let unlocked = one.unlock(of_one, 7, LockSpace::Records, range);
    unlocked.unwrap();
    let all = records(7, 0, 9, false);
    assert_eq!(one.test_lock(of_one, &all).unwrap(), None);
    // One that goes gives all back.
    one.lock(of_one, &all).unwrap();
    drop(one);
    other.lock(of_other, &records(7, 0, 9, true)).unwrap();
    let released = other.release_locks(of_other, 7, LockSpace::Records);
    released.unwrap();
    assert_eq!(
        other
            .test_lock(of_other, &records(8, 0, u64::MAX, false))
            .unwrap(),
        None
    );
    other.end().unwrap();
    server.close().unwrap();
}

/// Where the process that is going to be killed finds the image.
const SOCKET: &str = "WHARF_TEST_LOCKS_SOCKET";

#[test]
#[ignore = "another test runs it in a process of its own, and kills that"]
fn locks_one_file_and_waits_for_another() {
    let socket = PathBuf::from(std::env::var_os(SOCKET).expect("it is told where"));
    let mount = Mount::attach(socket).unwrap();
    let own = mount.open_file("/own", OpenFlags::CREATE, 0o644).unwrap();
    own.lock().unwrap();
    let file = mount.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    file.lock().unwrap();
    panic!("it got the lock before it was killed");
}

#[test]
fn a_process_that_is_killed_while_it_waits_is_waited_for_by_nobody() {
    let place = with_image();
    let socket = place.path().join("s");
    let server = Server::open(place.path().join("drive.img"), &socket, 3).unwrap();
    let mount = Mount::attach(&socket).unwrap();
    let file = mount.open_file("/file", OpenFlags::CREATE, 0o644).unwrap();
    file.lock().unwrap();
    let own = mount.open_file("/own", OpenFlags::CREATE, 0o644).unwrap();
    let helper = "locks::locks_one_file_and_waits_for_another";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", helper, "--ignored"])
        .env(SOCKET, &socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while own.try_lock().unwrap() {
        own.unlock().unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(A_WHILE);
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had goes when its end is noticed, and so does its wait.
    own.lock().unwrap();
    file.unlock().unwrap();
    let other = mount.open_file("/file", OpenFlags::READ, 0).unwrap();
    assert!(other.try_lock().unwrap());
    drop((file, own, other));
    mount.close().unwrap();
    server.close().unwrap();
}
