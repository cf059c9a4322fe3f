//! Reading and writing of several buffers in one call.

use std::ffi::c_int;

use libc::{iovec, off_t, ssize_t};

use super::data::{data, out, read_at, read_next, write_at, write_next};
use crate::errno::{Errno, Outcome, number};
use crate::next::hooks;
use crate::table::{self, Open};

/// The buffers of a call; those without bytes say nothing.
///
/// # Safety
/// There are so many.
unsafe fn all<'a>(buffers: *const iovec, count: c_int) -> Outcome<Vec<&'a iovec>> {
    if !(0..=1024).contains(&count) {
        return Err(Errno(libc::EINVAL));
    }
    if count == 0 || buffers.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts(buffers, count as usize) };
    Ok(all.iter().filter(|one| one.iov_len > 0).collect())
}

/// Reads into all: by one request, which is copied apart if there is more than one buffer.
///
/// # Safety
/// The buffers are there.
unsafe fn read_all(
    buffers: *const iovec,
    count: c_int,
    read: impl FnOnce(&mut [u8]) -> Outcome<usize>,
) -> Outcome<usize> {
    // SAFETY: the caller's promise.
    let all = unsafe { all(buffers, count) }?;
    if let [one] = all[..] {
        // SAFETY: the caller's promise.
        return read(unsafe { out(one.iov_base, one.iov_len) });
    }
    let mut together = vec![0; all.iter().map(|one| one.iov_len).sum()];
    let bytes = read(&mut together)?;
    let mut rest = &together[..bytes];
    for one in all {
        let now = rest.len().min(one.iov_len);
        // SAFETY: the caller's promise.
        unsafe { out(one.iov_base, now) }.copy_from_slice(&rest[..now]);
        rest = &rest[now..];
    }
    Ok(bytes)
}

/// Writes from all, by one request.
///
/// # Safety
/// The buffers are there.
unsafe fn write_all(
    buffers: *const iovec,
    count: c_int,
    write: impl FnOnce(&[u8]) -> Outcome<usize>,
) -> Outcome<usize> {
    // SAFETY: the caller's promise.
    let all = unsafe { all(buffers, count) }?;
    if let [one] = all[..] {
        // SAFETY: the caller's promise.
        return write(unsafe { data(one.iov_base.cast_const(), one.iov_len) });
    }
    // SAFETY: the caller's promise.
    let parts = all
        .iter()
        .map(|one| unsafe { data(one.iov_base.cast_const(), one.iov_len) });
    write(&parts.collect::<Vec<&[u8]>>().concat())
}

/// Reads from byte `at` on, or from the shared offset if that is -1.
///
/// # Safety
/// The buffers are there.
pub(crate) unsafe fn read_from(
    open: &Open,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
) -> Outcome<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        read_all(buffers, count, |out| match at {
            -1 => read_next(open, out),
            _ => read_at(
                open,
                u64::try_from(at).map_err(|_| Errno(libc::EINVAL))?,
                out,
            ),
        })
    }
}

/// Writes at byte `at`, or at the shared offset if that is -1.
///
/// # Safety
/// The buffers are there.
pub(crate) unsafe fn write_to(
    open: &Open,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> Outcome<usize> {
    let at_end = flags & libc::RWF_APPEND != 0;
    // SAFETY: the caller's promise.
    unsafe {
        write_all(buffers, count, |data| match at {
            -1 => write_next(open, data),
            _ => {
                let at = u64::try_from(at).map_err(|_| Errno(libc::EINVAL))?;
                write_at(open, at, data, at_end).map(|(_, bytes)| bytes)
            }
        })
    }
}

fn positive(at: off_t) -> Outcome<off_t> {
    match at {
        0.. => Ok(at),
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn counted(outcome: Outcome<usize>) -> ssize_t {
    number(outcome.map(|bytes| bytes as ssize_t))
}

hooks! {
    fn readv(descriptor: c_int, buffers: *const iovec, count: c_int) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count),
            // SAFETY: the caller's buffers.
            Some(open) => counted(unsafe { read_from(&open, buffers, count, -1) }),
        }
    }

    fn writev(descriptor: c_int, buffers: *const iovec, count: c_int) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count),
            // SAFETY: the caller's buffers.
            Some(open) => counted(unsafe { write_to(&open, buffers, count, -1, 0) }),
        }
    }

    fn preadv64(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count, at),
            // SAFETY: the caller's buffers.
            Some(open) => counted(positive(at).and_then(|at| unsafe { read_from(&open, buffers, count, at) })),
        }
    }

    fn pwritev64(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count, at),
            // SAFETY: the caller's buffers.
            Some(open) => counted(positive(at).and_then(|at| unsafe { write_to(&open, buffers, count, at, 0) })),
        }
    }

    fn preadv(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { preadv64(descriptor, buffers, count, at) }
    }

    fn pwritev(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { pwritev64(descriptor, buffers, count, at) }
    }

    fn preadv64v2(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count, at, flags),
            // SAFETY: the caller's buffers.
            Some(open) => counted(unsafe { read_from(&open, buffers, count, at) }),
        }
    }

    fn pwritev64v2(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, next {
        match table::get(descriptor) {
            None => next(descriptor, buffers, count, at, flags),
            Some(open) => counted((|| {
                // SAFETY: the caller's buffers.
                let bytes = unsafe { write_to(&open, buffers, count, at, flags) }?;
                if flags & (libc::RWF_SYNC | libc::RWF_DSYNC) != 0 {
                    super::storage::make_durable(&open, flags & libc::RWF_SYNC == 0)?;
                }
                Ok(bytes)
            })()),
        }
    }

    fn preadv2(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { preadv64v2(descriptor, buffers, count, at, flags) }
    }

    fn pwritev2(descriptor: c_int, buffers: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, next {
        // SAFETY: as the caller's.
        unsafe { pwritev64v2(descriptor, buffers, count, at, flags) }
    }

    fn recvmsg(descriptor: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t, next {
        let received = next(descriptor, message, flags);
        if received >= 0 && crate::drive::setup().is_some() {
            // SAFETY: the kernel has filled it in.
            unsafe { adopt_received(message) };
        }
        received
    }
}

/// Enters descriptors that came with a message.
///
/// # Safety
/// A message that `recvmsg` has filled in.
unsafe fn adopt_received(message: *const libc::msghdr) {
    // SAFETY: the C library's way along the message's parts, each as long as it says.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while !part.is_null() {
            if (*part).cmsg_level == libc::SOL_SOCKET && (*part).cmsg_type == libc::SCM_RIGHTS {
                let descriptors = libc::CMSG_DATA(part).cast::<c_int>();
                let head = libc::CMSG_LEN(0) as usize;
                let bytes = (*part).cmsg_len.saturating_sub(head);
                for index in 0..bytes / size_of::<c_int>() {
                    crate::begin::adopt(descriptors.add(index).read_unaligned());
                }
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
}
