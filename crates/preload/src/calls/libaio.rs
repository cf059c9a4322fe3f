//! `io_submit` and its like, of libaio or by the number of the call: requests of the drive's files are done at once.
//!
//! Nothing stands behind these: whoever has libaio may have loaded it where this library does not find it, and all that it does is to ask
//! the kernel. As there, errors are returned, negated.

use std::ffi::{c_int, c_long, c_ulong};
use std::mem::offset_of;

use libc::{iovec, timespec};

use super::data::{data, out, read_at, write_at};
use super::storage::make_durable;
use super::vectors::{read_from, write_to};
use crate::aio::context::{self, Context, Ended, IO_PGETEVENTS, Id, Until, asked};
use crate::errno::{Errno, Outcome};
use crate::next::hooks;
use crate::table::{self, Open};

/// A request as the program has it in its memory: `struct iocb`.
#[repr(C)]
pub(crate) struct Request {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    /// `RWF_` flags.
    how: c_int,
    #[cfg(target_endian = "big")]
    key: u32,
    operation: u16,
    priority: i16,
    descriptor: c_int,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: c_int,
}

const _: () = assert!(size_of::<Request>() == 64);
const _: () = assert!(offset_of!(Request, descriptor) == 20);
const _: () = assert!(offset_of!(Request, flags) == 56);

/// `IOCB_CMD_…`.
const READ: u16 = 0;
const WRITE: u16 = 1;
const SYNC: u16 = 2;
const DATA_SYNC: u16 = 3;
const READ_VECTOR: u16 = 7;
const WRITE_VECTOR: u16 = 8;

/// `IOCB_FLAG_RESFD`: the end is told by an eventfd.
const TELLS: u32 = 1;
/// `IOCB_FLAG_IOPRIO`.
const HAS_PRIORITY: u32 = 2;

/// What `how` may have; those that say how it is waited for say nothing here.
const HOW: c_int =
    libc::RWF_APPEND | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_HIPRI | libc::RWF_NOWAIT;

/// Requests that a call names.
type Requests = *const *mut Request;

/// # Safety
/// The request's buffers are there.
unsafe fn perform(open: &Open, request: &Request) -> Outcome<usize> {
    let (buffer, bytes) = (request.buffer, request.bytes as usize);
    let invalid = Errno(libc::EINVAL);
    if isize::try_from(request.bytes).is_err() {
        return Err(invalid);
    }
    let at = u64::try_from(request.offset).map_err(|_| invalid);
    let is_plain = request.offset == 0 && (buffer, bytes, request.how) == (0, 0, 0);
    // SAFETY: the caller's promise.
    unsafe {
        match request.operation {
            READ => read_at(open, at?, out(buffer as *mut _, bytes)),
            READ_VECTOR => {
                let count = c_int::try_from(bytes).map_err(|_| invalid)?;
                read_from(open, buffer as *const iovec, count, at? as i64)
            }
            WRITE => {
                let at_end = request.how & libc::RWF_APPEND != 0;
                let data = data(buffer as *const _, bytes);
                write_at(open, at?, data, at_end).map(|(_, bytes)| bytes)
            }
            WRITE_VECTOR => {
                let count = c_int::try_from(bytes).map_err(|_| invalid)?;
                write_to(open, buffer as *const iovec, count, at? as i64, request.how)
            }
            SYNC if is_plain => make_durable(open, false).map(|()| 0),
            DATA_SYNC if is_plain => make_durable(open, true).map(|()| 0),
            _ => Err(invalid),
        }
    }
}

/// Does a request, and has its event wait.
///
/// # Errors
/// What the kernel says before it begins; all else is in the event.
///
/// # Safety
/// The request and its buffers are there.
unsafe fn request(context: &Context, open: &Open, request: *mut Request) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let of = unsafe { &mut *request };
    if of.reserved != 0 || of.flags & !(TELLS | HAS_PRIORITY) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if of.how & !HOW != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let tells = of.flags & TELLS != 0;
    if tells && !is_event(of.event_descriptor)? {
        return Err(Errno(libc::EINVAL));
    }
    if !context.has_room() {
        return Err(Errno(libc::EAGAIN));
    }
    // SAFETY: the caller's promise.
    let mut outcome = unsafe { perform(open, of) };
    let is_write = matches!(of.operation, WRITE | WRITE_VECTOR);
    if is_write && of.how & (libc::RWF_SYNC | libc::RWF_DSYNC) != 0 && outcome.is_ok() {
        let durable = make_durable(open, of.how & libc::RWF_SYNC == 0);
        outcome = durable.and(outcome);
    }
    match outcome {
        // A directory has no such operation.
        Err(Errno(libc::EISDIR)) => return Err(Errno(libc::EINVAL)),
        Err(errno @ Errno(libc::EBADF | libc::EINVAL)) => return Err(errno),
        _ => {}
    }
    of.key = 0;
    context.add(Ended {
        data: of.data,
        request: request as u64,
        result: outcome.map_or_else(|errno| -i64::from(errno.0), |bytes| bytes as i64),
        result_more: 0,
    });
    if tells {
        let (one, word) = (1_u64, size_of::<u64>());
        let descriptor = of.event_descriptor as c_ulong;
        let words = [
            descriptor,
            &raw const one as c_ulong,
            word as c_ulong,
            0,
            0,
            0,
        ];
        // One that is full says so already.
        let _ = asked(libc::SYS_write, words);
    }
    Ok(())
}

/// Whether a descriptor is an eventfd.
fn is_event(descriptor: c_int) -> Outcome<bool> {
    let link = rustix::fs::readlink(crate::page::of_process(descriptor), Vec::new());
    let link = link.map_err(|_| Errno(libc::EBADF))?;
    Ok(link.as_bytes() == b"anon_inode:[eventfd]")
}

/// Hands requests to the kernel.
fn submit_behind(id: Id, requests: Requests, count: usize) -> Outcome<usize> {
    let words = [id, count as c_ulong, requests as c_ulong, 0, 0, 0];
    let Some(context) = context::get(id) else {
        return asked(libc::SYS_io_submit, words);
    };
    // Before: another thread may take an event at once.
    context.add_to_kernel(count);
    let made = asked(libc::SYS_io_submit, words);
    context.took(count - made.unwrap_or(0));
    made
}

/// Makes requests, one after the other; gives how many were made.
///
/// # Errors
/// Of the first one.
///
/// # Safety
/// As the caller of `io_submit` promises.
unsafe fn submit(id: Id, count: c_long, requests: Requests) -> Outcome<usize> {
    let all = usize::try_from(count).unwrap_or(0);
    let named = |at: usize| {
        // SAFETY: the caller's promise. Null is the kernel's to refuse.
        let request = unsafe { *requests.add(at) };
        // SAFETY: as before.
        let descriptor = (!request.is_null()).then(|| unsafe { (*request).descriptor });
        (request, descriptor.and_then(table::get))
    };
    let has_some = !requests.is_null() && (0..all).any(|at| named(at).1.is_some());
    if !has_some {
        let words = [id, count as c_ulong, requests as c_ulong, 0, 0, 0];
        return match all {
            0 => asked(libc::SYS_io_submit, words),
            _ => submit_behind(id, requests, all),
        };
    }
    let context = context::get_or_make(id)?;
    let mut made = 0;
    while made < all {
        let step = match named(made) {
            // SAFETY: the caller's promise.
            (of, Some(open)) => unsafe { request(&context, &open, of) }.map(|()| 1),
            (_, None) => {
                let run = (made..all).take_while(|at| named(*at).1.is_none()).count();
                // SAFETY: they are there.
                submit_behind(id, unsafe { requests.add(made) }, run).and_then(|done| {
                    match done == run {
                        true => Ok(run),
                        // The rest is not made.
                        false => {
                            made += done;
                            Err(Errno(libc::EAGAIN))
                        }
                    }
                })
            }
        };
        match step {
            Ok(count) => made += count,
            Err(errno) if made == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(made)
}

/// # Safety
/// As the caller of `io_getevents` promises; what the mask points to is there, or it is 0.
unsafe fn events(
    (id, least, most): (Id, c_long, c_long),
    room: *mut Ended,
    time: *const timespec,
    mask: c_ulong,
) -> Outcome<usize> {
    let context = (0..=most).contains(&least).then(|| context::get(id));
    let Some(context) = context.flatten() else {
        let words = [id, least as _, most as _, room as _, time as _, mask];
        return match mask {
            0 => asked(libc::SYS_io_getevents, words),
            _ => asked(IO_PGETEVENTS, words),
        };
    };
    // SAFETY: the caller's promise.
    unsafe {
        let until = Until::new(time.as_ref());
        context.take(least as usize, (room, most as usize), until, mask)
    }
}

/// A call by its number, if it is one of these.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn known(
    call: c_long,
    [a, b, c, d, e, f]: [c_ulong; 6],
) -> Option<Outcome<usize>> {
    // SAFETY: the caller's promise.
    Some(unsafe {
        match call {
            libc::SYS_io_setup => setup(a as c_int, b as *mut Id),
            libc::SYS_io_destroy => destroy(a),
            libc::SYS_io_submit => submit(a, b as c_long, c as Requests),
            libc::SYS_io_getevents => events((a, b as _, c as _), d as _, e as _, 0),
            IO_PGETEVENTS => events((a, b as _, c as _), d as _, e as _, f),
            _ => return None,
        }
    })
}

/// # Safety
/// As the caller of `io_setup` promises.
unsafe fn setup(most: c_int, id: *mut Id) -> Outcome<usize> {
    let made = asked(
        libc::SYS_io_setup,
        [most as c_ulong, id as c_ulong, 0, 0, 0, 0],
    )?;
    if crate::drive::setup().is_some() {
        // SAFETY: the kernel has written it.
        context::made(unsafe { *id }, most as usize);
    }
    Ok(made)
}

fn destroy(id: Id) -> Outcome<usize> {
    // First: the number may be another context's at once.
    context::destroyed(id);
    asked(libc::SYS_io_destroy, [id, 0, 0, 0, 0, 0])
}

/// What functions of libaio return.
fn returned(outcome: Outcome<usize>) -> c_int {
    outcome.map_or_else(|errno| -errno.0, |count| count as c_int)
}

/// The kernel's sixth argument of `io_pgetevents`.
#[repr(C)]
struct Mask {
    set: *const libc::sigset_t,
    bytes: usize,
}

hooks! {
    fn io_setup(most: c_int, id: *mut Id) -> c_int, next {
        // SAFETY: as the caller's.
        returned(unsafe { setup(most, id) })
    }

    fn io_destroy(id: Id) -> c_int, next {
        returned(destroy(id))
    }

    fn io_submit(id: Id, count: c_long, requests: Requests) -> c_int, next {
        // SAFETY: as the caller's.
        returned(unsafe { submit(id, count, requests) })
    }

    fn io_getevents(id: Id, least: c_long, most: c_long, room: *mut Ended, time: *const timespec) -> c_int, next {
        // SAFETY: as the caller's.
        returned(unsafe { events((id, least, most), room, time, 0) })
    }

    fn io_pgetevents(id: Id, least: c_long, most: c_long, room: *mut Ended, time: *const timespec, set: *const libc::sigset_t) -> c_int, next {
        // The kernel has 64 signals.
        let mask = Mask { set, bytes: 8 };
        // SAFETY: as the caller's.
        returned(unsafe { events((id, least, most), room, time, &raw const mask as c_ulong) })
    }

    fn io_cancel(id: Id, request: *mut Request, ended: *mut Ended) -> c_int, next {
        // The drive's are done when they are made: the kernel knows none of them.
        returned(asked(libc::SYS_io_cancel, [id, request as c_ulong, ended as c_ulong, 0, 0, 0]))
    }
}
