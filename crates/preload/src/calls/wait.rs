//! `poll`, `select`, `epoll`: a regular file is always ready.

use std::ffi::{c_int, c_void};

use libc::{fd_set, nfds_t, pollfd, timespec, timeval};

use crate::errno::{Errno, number};
use crate::next::hooks;
use crate::table;

/// Answers for files of the drive: how many have something. They are given as -1 to whoever asks the kernel.
fn answer(all: &mut [pollfd]) -> c_int {
    let mut ready = 0;
    for one in all.iter_mut().filter(|one| table::has(one.fd)) {
        let normal = libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM;
        one.revents = one.events & normal;
        ready += c_int::from(one.revents != 0);
    }
    ready
}

/// Has the kernel look at the others; `ask` is given whether it may wait.
///
/// # Safety
/// There are so many.
unsafe fn poll_all(
    all: *mut pollfd,
    count: nfds_t,
    ask: impl FnOnce(*mut pollfd, bool) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts_mut(all, count as usize) };
    let ready = answer(all);
    let mut others = all.to_vec();
    for one in others.iter_mut().filter(|one| table::has(one.fd)) {
        one.fd = -1;
    }
    let found = ask(others.as_mut_ptr(), ready == 0);
    if found < 0 {
        return found;
    }
    for (one, other) in all
        .iter_mut()
        .zip(&others)
        .filter(|(_, other)| other.fd >= 0)
    {
        one.revents = other.revents;
    }
    found + ready
}

fn has_any(all: *const pollfd, count: nfds_t) -> bool {
    // SAFETY: the caller of `poll` promises that there are so many.
    !all.is_null() && (0..count as usize).any(|at| table::has(unsafe { (*all.add(at)).fd }))
}

/// The descriptors of a set that are files of the drive.
unsafe fn ours(end: c_int, set: *const fd_set) -> Vec<c_int> {
    match set.is_null() {
        true => Vec::new(),
        // SAFETY: the caller's set.
        false => (0..end)
            .filter(|fd| table::has(*fd) && unsafe { libc::FD_ISSET(*fd, set) })
            .collect(),
    }
}

/// Takes files of the drive out of the sets, asks the kernel for the rest, and puts them in again.
///
/// # Safety
/// Sets or null.
unsafe fn select_all(end: c_int, sets: [*mut fd_set; 3], ask: impl FnOnce(bool) -> c_int) -> c_int {
    // SAFETY: the caller's sets.
    unsafe {
        let found = sets.map(|set| ours(end, set));
        for (set, all) in sets.iter().zip(&found) {
            all.iter().for_each(|fd| libc::FD_CLR(*fd, *set));
        }
        let ready = (found[0].len() + found[1].len()) as c_int;
        let others = ask(ready == 0);
        if others < 0 {
            return others;
        }
        for (set, all) in sets.iter().zip(&found).take(2) {
            all.iter().for_each(|fd| libc::FD_SET(*fd, *set));
        }
        others + ready
    }
}

hooks! {
    fn poll(all: *mut pollfd, count: nfds_t, wait_ms: c_int) -> c_int, next {
        match has_any(all, count) {
            false => next(all, count, wait_ms),
            // SAFETY: the caller's descriptors.
            true => unsafe { poll_all(all, count, |others, may_wait| next(others, count, if may_wait { wait_ms } else { 0 })) },
        }
    }

    fn ppoll(all: *mut pollfd, count: nfds_t, wait: *const timespec, mask: *const c_void) -> c_int, next {
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        match has_any(all, count) {
            false => next(all, count, wait, mask),
            // SAFETY: the caller's descriptors.
            true => unsafe {
                poll_all(all, count, |others, may_wait| next(others, count, if may_wait { wait } else { &raw const now }, mask))
            },
        }
    }

    fn select(end: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, wait: *mut timeval) -> c_int, next {
        let mut now = timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the caller's sets.
        unsafe {
            select_all(end, [read, write, except], |may_wait| {
                next(end, read, write, except, if may_wait { wait } else { &raw mut now })
            })
        }
    }

    fn pselect(end: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, wait: *const timespec, mask: *const c_void) -> c_int, next {
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the caller's sets.
        unsafe {
            select_all(end, [read, write, except], |may_wait| {
                next(end, read, write, except, if may_wait { wait } else { &raw const now }, mask)
            })
        }
    }

    fn epoll_ctl(set: c_int, operation: c_int, descriptor: c_int, event: *mut c_void) -> c_int, next {
        match table::has(descriptor) {
            false => next(set, operation, descriptor, event),
            // As the kernel says of a regular file.
            true => number(Err(Errno(libc::EPERM))),
        }
    }
}
