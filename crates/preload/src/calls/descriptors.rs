//! Closing, duplicating, flags, locks.

use std::ffi::{c_int, c_uint, c_ulong};

use libc::flock as Lock;

use crate::errno::{Errno, Outcome, number, set, zero};
use crate::next::hooks;
use crate::table::{self, Ref};

/// Flags of an open file that can be changed.
const CHANGEABLE: c_int =
    libc::O_APPEND | libc::O_NONBLOCK | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME;

/// Enters a duplicate.
fn entered(descriptor: c_int, open: Ref) -> c_int {
    if descriptor >= 0 && !table::put(descriptor, open) {
        // SAFETY: made by the caller, and nobody else has it.
        unsafe { rustix::io::close(descriptor) };
        return number(Err(Errno(libc::EMFILE)));
    }
    descriptor
}

/// Descriptors that are this library's own, in order: programs that close all there are leave them.
fn own() -> Vec<c_int> {
    let all = [
        crate::find::working_descriptor(),
        crate::drive::connection(),
        crate::record::descriptor(),
    ];
    let mut all: Vec<c_int> = all.into_iter().flatten().collect();
    all.sort_unstable();
    all
}

fn is_own(descriptor: c_int) -> bool {
    // Relaxed enough for all but a few numbers: this library's are high.
    descriptor >= crate::find::OWN_LEAST && own().contains(&descriptor)
}

/// Closes descriptors from `first` to `last`, but this library's own.
fn close_all(first: c_uint, last: c_uint, some: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    for descriptor in table::all().filter(|fd| (first..=last).contains(&(*fd as c_uint))) {
        table::remove(descriptor);
    }
    let (mut from, mut outcome) = (first, 0);
    for own in own()
        .into_iter()
        .map(|own| own as c_uint)
        .filter(|own| (first..=last).contains(own))
    {
        if from < own {
            outcome = outcome.min(some(from, own - 1));
        }
        from = own + 1;
    }
    match from <= last {
        true => outcome.min(some(from, last)),
        false => outcome,
    }
}

/// What `lockf` does.
fn lock_from_here(open: &Ref, command: c_int, bytes: libc::off_t) -> Outcome<()> {
    // SAFETY: all of it may be zeros.
    let mut lock: Lock = unsafe { std::mem::zeroed() };
    lock.l_whence = libc::SEEK_CUR as i16;
    lock.l_len = bytes;
    lock.l_type = libc::F_WRLCK as i16;
    let command = match command {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK => libc::F_SETLK,
        libc::F_ULOCK => {
            lock.l_type = libc::F_UNLCK as i16;
            libc::F_SETLK
        }
        libc::F_TEST => libc::F_GETLK,
        _ => return Err(Errno(libc::EINVAL)),
    };
    crate::locks::record(open, command, &mut lock)?;
    match command == libc::F_GETLK && i32::from(lock.l_type) != libc::F_UNLCK {
        true => Err(Errno(libc::EACCES)),
        false => Ok(()),
    }
}

fn set_flags(open: &Ref, flags: c_int) {
    let page = open.page();
    let all = page.flags() & !CHANGEABLE | flags & CHANGEABLE;
    page.flags
        .store(all as u32, std::sync::atomic::Ordering::Relaxed);
}

hooks! {
    fn close(descriptor: c_int) -> c_int, next {
        if is_own(descriptor) {
            return number(Err(Errno(libc::EBADF)));
        }
        super::streams::before_change(descriptor);
        table::remove(descriptor);
        next(descriptor)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, next {
        match flags {
            0 => close_all(first, last, |first, last| next(first, last, 0)),
            _ => next(first, last, flags),
        }
    }

    fn closefrom(first: c_int) -> (), next {
        if own().is_empty() {
            for descriptor in table::all().filter(|fd| *fd >= first) {
                table::remove(descriptor);
            }
            return next(first);
        }
        // SAFETY: as the caller's.
        unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
    }

    fn dup(descriptor: c_int) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor),
            Some(open) => entered(next(descriptor), open),
        }
    }

    fn dup2(from: c_int, to: c_int) -> c_int, next {
        super::streams::before_change(to);
        let open = table::get(from);
        let made = next(from, to);
        match open {
            _ if made < 0 || from == to => made,
            Some(open) => entered(made, open),
            None => {
                table::remove(to);
                made
            }
        }
    }

    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int, next {
        super::streams::before_change(to);
        let open = table::get(from);
        let made = next(from, to, flags);
        match open {
            _ if made < 0 => made,
            Some(open) => entered(made, open),
            None => {
                table::remove(to);
                made
            }
        }
    }

    fn fcntl64(descriptor: c_int, command: c_int, argument: c_ulong) -> c_int, next {
        let Some(open) = table::get(descriptor) else {
            return next(descriptor, command, argument);
        };
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => entered(next(descriptor, command, argument), open),
            libc::F_GETFD | libc::F_SETFD => next(descriptor, command, argument),
            libc::F_GETFL => open.page().flags() & !(libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW),
            libc::F_SETFL => {
                set_flags(&open, argument as c_int);
                0
            }
            libc::F_GETLK | libc::F_OFD_GETLK | libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
                // SAFETY: the caller's lock.
                zero(crate::locks::record(&open, command, unsafe { &mut *(argument as *mut Lock) }))
            }
            _ => number(Err(Errno(libc::EINVAL))),
        }
    }

    fn fcntl(descriptor: c_int, command: c_int, argument: c_ulong) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor, command, argument),
            // SAFETY: as the caller's.
            true => unsafe { fcntl64(descriptor, command, argument) },
        }
    }

    fn ioctl(descriptor: c_int, request: c_ulong, argument: c_ulong) -> c_int, next {
        let Some(open) = table::get(descriptor) else {
            return next(descriptor, request, argument);
        };
        match request {
            libc::FIOCLEX | libc::FIONCLEX => {
                let flag = if request == libc::FIOCLEX { libc::FD_CLOEXEC } else { 0 };
                // SAFETY: as the caller's.
                unsafe { fcntl64(descriptor, libc::F_SETFD, flag as c_ulong) }
            }
            libc::FIONREAD => number((|| {
                let left = super::data::bytes(&open)?.saturating_sub(open.page().hold().get());
                // SAFETY: the caller's room.
                unsafe { (argument as *mut c_int).write(left.min(i32::MAX as u64) as c_int) };
                Ok(0)
            })()),
            _ => number(Err(Errno(libc::ENOTTY))),
        }
    }

    fn isatty(descriptor: c_int) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor),
            true => {
                set(Errno(libc::ENOTTY));
                0
            }
        }
    }

    fn lockf64(descriptor: c_int, command: c_int, bytes: libc::off_t) -> c_int, next {
        match table::get(descriptor) {
            None => next(descriptor, command, bytes),
            Some(open) => zero(lock_from_here(&open, command, bytes)),
        }
    }

    fn lockf(descriptor: c_int, command: c_int, bytes: libc::off_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { lockf64(descriptor, command, bytes) }
    }
}

/// Functions whose names are those of types here.
mod named {
    use super::*;

    hooks! {
        fn flock(descriptor: c_int, operation: c_int) -> c_int, next {
            match table::get(descriptor) {
                None => next(descriptor, operation),
                Some(open) => zero(crate::locks::whole(&open, operation)),
            }
        }
    }
}
