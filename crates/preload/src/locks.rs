//! Locks of files: the drive keeps them for all its users.
//!
//! The drive tells owners of a process apart by a number. A lock of `fcntl` belongs to the process, and is given back when
//! any of its descriptors of the file is closed; one of `flock`, and an "open file description" lock, belong to the
//! description, which has a number of its own in its page. Waiting is asking again, with longer and longer pauses, although
//! the drive can have a thread wait for its turn (`FileDrive::lock_unless`).

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libc::flock as Flock;
use wharf::files::{LockKind, LockRange, LockRequest, LockSpace};
use wharf_files::{By, Handle};

use crate::calls::memory;
use crate::drive::{Drive, handle, with};
use crate::errno::{Errno, Outcome, last};
use crate::page::FileId;
use crate::table::{self, Open};

/// The owner that stands for the process.
const PROCESS: u64 = 0;

/// The last byte that a file can have: a lock to the end goes so far. Behind it is the byte that stands for mappings.
const LAST: u64 = i64::MAX as u64;

/// The owner that stands for the process's mapping of a file.
const MAPPING: u64 = u64::MAX;

/// How long it is waited before it is asked again: at first, and at most.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Files of which this process may have locks.
static LOCKED: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn locked() -> std::sync::MutexGuard<'static, BTreeSet<FileId>> {
    LOCKED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn with_handle<T>(open: &Open, mut f: impl FnMut(&Drive, Handle) -> Outcome<T>) -> Outcome<T> {
    with(|drive, by: By<'_>| f(drive, handle(drive, by, open)?))
}

/// Asks for a lock, again and again if the caller waits. What this process has mapped of the file is as the file is then.
fn lock(open: &Open, request: &LockRequest, waits: bool) -> Outcome<()> {
    ask(open, request, waits)?;
    memory::after_lock(open)
}

fn ask(open: &Open, request: &LockRequest, waits: bool) -> Outcome<()> {
    let mut pause = PAUSE;
    loop {
        match with_handle(open, |drive, handle| Ok(drive.lock(handle, request)?)) {
            Err(Errno(libc::EAGAIN)) if waits => sleep(pause)?,
            asked => return asked,
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Sleeps; a signal whose handler ran ends a wait.
fn sleep(pause: Duration) -> Outcome<()> {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: pause.subsec_nanos().into(),
    };
    // SAFETY: a time that is there.
    match unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last()),
    }
}

/// The bytes that a lock of the program's is about.
fn range(open: &Open, lock: &Flock) -> Outcome<LockRange> {
    let invalid = Errno(libc::EINVAL);
    let from = match i32::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => open.page().hold().get(),
        libc::SEEK_END => crate::calls::data::bytes(open)?,
        _ => return Err(invalid),
    };
    let begin = from.checked_add_signed(lock.l_start).ok_or(invalid)?;
    let (first, last) = match lock.l_len {
        0 => (begin, LAST),
        1.. => (
            begin,
            begin
                .checked_add(lock.l_len as u64 - 1)
                .ok_or(Errno(libc::EOVERFLOW))?,
        ),
        _ => (
            begin
                .checked_sub(lock.l_len.unsigned_abs())
                .ok_or(invalid)?,
            begin.checked_sub(1).ok_or(invalid)?,
        ),
    };
    if first > i64::MAX as u64 {
        return Err(invalid);
    }
    LockRange::new(first, last).ok_or(invalid)
}

fn kind(lock: &Flock) -> Outcome<Option<LockKind>> {
    match i32::from(lock.l_type) {
        libc::F_RDLCK => Ok(Some(LockKind::Shared)),
        libc::F_WRLCK => Ok(Some(LockKind::Exclusive)),
        libc::F_UNLCK => Ok(None),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// What `fcntl` does with locks: `command` is one of its six.
///
/// # Errors
/// As `fcntl`.
pub(crate) fn record(open: &Open, command: c_int, asked: &mut Flock) -> Outcome<()> {
    let is_of_process = matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW);
    if !is_of_process && asked.l_pid != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let request = |kind| LockRequest {
        owner: if is_of_process {
            PROCESS
        } else {
            open.page().id
        },
        space: LockSpace::Records,
        range: LockRange::ALL,
        kind,
        waits: false,
        detects: false,
    };
    let range = range(open, asked)?;
    let Some(kind) = kind(asked)? else {
        if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
            return Err(Errno(libc::EINVAL));
        }
        memory::before_read(open)?;
        let owner = request(LockKind::Shared).owner;
        return with_handle(open, |drive, handle| {
            Ok(drive.unlock(handle, owner, LockSpace::Records, range)?)
        });
    };
    let request = LockRequest {
        range,
        ..request(kind)
    };
    if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
        return test(open, &request, asked);
    }
    note(open, is_of_process);
    let waits = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    lock(open, &request, waits)
}

fn test(open: &Open, request: &LockRequest, asked: &mut Flock) -> Outcome<()> {
    let found = with_handle(open, |drive, handle| Ok(drive.test_lock(handle, request)?))?;
    let Some(found) = found else {
        asked.l_type = libc::F_UNLCK as i16;
        return Ok(());
    };
    let kind = match found.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    asked.l_type = kind as i16;
    asked.l_whence = libc::SEEK_SET as i16;
    asked.l_start = found.range.first() as i64;
    asked.l_len = match found.range.last() {
        LAST.. => 0,
        last => (last - found.range.first() + 1) as i64,
    };
    // The drive does not know processes.
    asked.l_pid = -1;
    Ok(())
}

/// What `flock` does.
///
/// # Errors
/// As `flock`.
pub(crate) fn whole(open: &Open, operation: c_int) -> Outcome<()> {
    let kind = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockKind::Shared,
        libc::LOCK_EX => LockKind::Exclusive,
        libc::LOCK_UN => {
            memory::before_read(open)?;
            let owner = open.page().id;
            return with_handle(open, |drive, handle| {
                Ok(drive.unlock(handle, owner, LockSpace::Whole, LockRange::ALL)?)
            });
        }
        _ => return Err(Errno(libc::EINVAL)),
    };
    note(open, false);
    let request = LockRequest {
        owner: open.page().id,
        space: LockSpace::Whole,
        range: LockRange::ALL,
        kind,
        waits: false,
        detects: false,
    };
    lock(open, &request, operation & libc::LOCK_NB == 0)
}

fn of_mapping() -> Outcome<LockRequest> {
    Ok(LockRequest {
        owner: MAPPING,
        space: LockSpace::Records,
        range: LockRange::new(LAST + 1, LAST + 1).ok_or(Errno(libc::EINVAL))?,
        kind: LockKind::Exclusive,
        waits: false,
        detects: false,
    })
}

/// This process has shared mappings of a file until [`unmapped`]: it alone, or beside others that read them alone.
///
/// # Errors
/// `ENODEV` if another one is in the way: it would not see what this one writes, or the other way round.
pub(crate) fn mapped(open: &Open, is_alone: bool) -> Outcome<()> {
    let mut request = of_mapping()?;
    if !is_alone {
        request.kind = LockKind::Shared;
    }
    match with_handle(open, |drive, handle| Ok(drive.lock(handle, &request)?)) {
        Err(Errno(libc::EAGAIN)) => Err(Errno(libc::ENODEV)),
        locked => locked,
    }
}

/// It maps it no more.
pub(crate) fn unmapped(open: &Open) {
    // What cannot be given back goes with the process.
    let _ = of_mapping().and_then(|request| {
        with_handle(open, |drive, handle| {
            Ok(drive.unlock(handle, MAPPING, request.space, request.range)?)
        })
    });
}

/// There may be a lock from now on, of the process or of the description.
fn note(open: &Open, is_of_process: bool) {
    match is_of_process {
        true => {
            if locked().insert(open.page().file()) {
                COUNT.fetch_add(1, Ordering::Relaxed);
            }
        }
        false => open.is_locked.store(true, Ordering::Relaxed),
    }
}

/// Whether there may be a lock by it, of the process or of the description.
pub(crate) fn may_have(open: &Open) -> bool {
    open.is_locked.load(Ordering::Relaxed)
        || COUNT.load(Ordering::Relaxed) > 0 && locked().contains(&open.page().file())
}

/// A descriptor of it is being closed: the process's locks of the file go.
pub(crate) fn descriptor_closes(open: &Open) {
    if COUNT.load(Ordering::Relaxed) == 0 || !locked().remove(&open.page().file()) {
        return;
    }
    COUNT.fetch_sub(1, Ordering::Relaxed);
    // What cannot be brought or given back goes with the process.
    let _ = memory::before_read(open);
    let _ = with_handle(open, |drive, handle| {
        Ok(drive.release_locks(handle, PROCESS, LockSpace::Records)?)
    });
}

/// The process ends: its locks go before anybody hears of that. They would go with it anyway, but the drive hears of it later
/// than who waits for the process.
pub(crate) fn process_ends() {
    if COUNT.load(Ordering::Relaxed) > 0 {
        for open in table::all().filter_map(table::get) {
            descriptor_closes(&open);
        }
    }
}

/// Whether some thread, perhaps this one before a signal came, is amid something here.
pub(crate) fn is_busy() -> bool {
    LOCKED.try_lock().is_err()
}

/// Nothing of this process leads to it any more: the locks of the description go.
pub(crate) fn description_closes(open: &Open) {
    if open.is_locked.swap(false, Ordering::Relaxed) {
        let owner = open.page().id;
        let _ = with_handle(open, |drive, handle| {
            drive.release_locks(handle, owner, LockSpace::Records)?;
            Ok(drive.release_locks(handle, owner, LockSpace::Whole)?)
        });
    }
}

/// In the child of a fork: the locks are the parent's.
pub(crate) fn in_child() {
    // Another thread of the parent may have been amid it: then it stays so, and costs a command.
    if let Ok(mut locked) = LOCKED.try_lock() {
        locked.clear();
        COUNT.store(0, Ordering::Relaxed);
    }
}
