//! Asynchronous reads and writes: what is of the drive goes to the queue of this library, all else to the C library.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::timespec;

use crate::aio::block::{Block, Event};
use crate::aio::queue::{self, Request, What};
use crate::aio::tell::{self, List};
use crate::errno::{Errno, Outcome, number, zero};
use crate::next::{Next, hooks};
use crate::table::{self, Ref};

/// How long the C library is waited for before it is looked whether one of this library's requests has ended, where a program
/// waits for either.
const LOOK_NS: i64 = 1_000_000;

const NS: i64 = 1_000_000_000;

/// Blocks that a call names, some of which may be null.
type Blocks = *const *mut Block;

/// What stands behind `aio_suspend`.
unsafe fn suspend_behind(blocks: Blocks, count: c_int, time: *const timespec) -> c_int {
    static NEXT: Next = Next::new(c"aio_suspend");
    // SAFETY: the C library's function has this type; the arguments are the caller's.
    unsafe {
        let function: unsafe extern "C" fn(Blocks, c_int, *const timespec) -> c_int =
            std::mem::transmute(NEXT.get());
        function(blocks, count, time)
    }
}

/// What stands behind `lio_listio`.
unsafe fn list_behind(mode: c_int, blocks: Blocks, count: c_int, event: *mut Event) -> c_int {
    static NEXT: Next = Next::new(c"lio_listio");
    // SAFETY: the C library's function has this type; the arguments are the caller's.
    unsafe {
        let function: unsafe extern "C" fn(c_int, Blocks, c_int, *mut Event) -> c_int =
            std::mem::transmute(NEXT.get());
        function(mode, blocks, count, event)
    }
}

/// The blocks that a call names.
///
/// # Safety
/// So many pointers are there, and what they point to if they are not null, as long as `'a` is.
unsafe fn named<'a>(
    blocks: Blocks,
    count: c_int,
) -> impl Iterator<Item = NonNull<Block>> + Clone + 'a {
    let count = if blocks.is_null() { 0 } else { count.max(0) };
    (0..count as usize).filter_map(move |at| {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { *blocks.add(at) })
    })
}

/// # Safety
/// The block is the request's until it has ended.
unsafe fn add(
    block: NonNull<Block>,
    open: Ref,
    what: What,
    list: Option<Arc<List>>,
) -> Outcome<()> {
    // SAFETY: the caller's promise.
    queue::add(unsafe { Request::new(block, open, what, list) }?)
}

/// A block, and its file of the drive if it has one.
///
/// # Safety
/// The block is null or there.
unsafe fn of_drive(block: *mut Block) -> Option<(NonNull<Block>, Ref)> {
    let block = NonNull::new(block)?;
    // SAFETY: the caller's promise.
    let open = table::get(unsafe { block.as_ref() }.descriptor)?;
    Some((block, open))
}

/// Waits until one of the requests has ended; `until_ns` is when the time is over.
///
/// # Safety
/// The blocks are there.
unsafe fn wait_for_one(
    blocks: impl Iterator<Item = NonNull<Block>> + Clone,
    until_ns: Option<i64>,
) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let blocks = blocks.map(|block| unsafe { &*block.as_ptr() });
    loop {
        let seen = tell::count();
        if blocks.clone().any(|block| !block.is_under_way()) {
            return Ok(());
        }
        let left = until_ns.map(|until| until.saturating_sub(tell::now_ns()));
        if left.is_some_and(|left| left <= 0) {
            return Err(Errno(libc::EAGAIN));
        }
        let others = blocks.clone().filter(|block| !block.is_ours());
        if others.clone().next().is_none() {
            tell::wait(seen, left.map(time).as_ref())?;
            continue;
        }
        let others: Vec<*mut Block> = others
            .map(|block| std::ptr::from_ref(block).cast_mut())
            .collect();
        let time = time(left.unwrap_or(LOOK_NS).min(LOOK_NS));
        // SAFETY: blocks that are there, and a time.
        let waited =
            unsafe { suspend_behind(others.as_ptr(), others.len() as c_int, &raw const time) };
        match waited {
            0 => return Ok(()),
            _ => match crate::errno::last() {
                Errno(libc::EAGAIN) => {}
                errno => return Err(errno),
            },
        }
    }
}

fn time(ns: i64) -> timespec {
    timespec {
        tv_sec: ns / NS,
        tv_nsec: ns % NS,
    }
}

/// Requests that are made together, some of which are of the drive.
///
/// # Safety
/// As the caller of `lio_listio` promises.
unsafe fn list(waits: bool, blocks: Blocks, count: c_int, event: Event) -> Outcome<()> {
    let list = (!waits).then(|| List::new(event));
    let mut made = Vec::new();
    let mut others = Vec::new();
    let mut outcome = Ok(());
    // SAFETY: the caller's promise.
    for block in unsafe { named(blocks, count) } {
        // SAFETY: the caller's promise.
        let operation = unsafe { block.as_ref() }.operation;
        if operation == libc::LIO_NOP {
            continue;
        }
        // SAFETY: the caller's promise.
        let Some((block, open)) = (unsafe { of_drive(block.as_ptr()) }) else {
            others.push(block.as_ptr());
            continue;
        };
        let what = match operation {
            libc::LIO_READ => What::Read,
            libc::LIO_WRITE => What::Write,
            _ => What::Unknown,
        };
        if let Some(list) = &list {
            list.one_more();
        }
        // SAFETY: the caller's promise.
        match unsafe { add(block, open, what, list.clone()) } {
            Ok(()) => made.push(block),
            Err(errno) => {
                outcome = Err(errno);
                if let Some(list) = &list {
                    list.one_has_ended();
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { ask_behind(others.clone(), list.as_ref()) };
    if let Some(list) = list {
        list.one_has_ended();
        return outcome.and(asked);
    }
    // A request of the C library's that could not be made has not begun, so it is not waited for.
    made.extend(others.into_iter().filter_map(NonNull::new));
    // SAFETY: the caller's promise.
    unsafe { wait_for_all(&made) }?;
    match outcome.and(asked) {
        Ok(()) => Ok(()),
        Err(errno) if made.is_empty() => Err(errno),
        Err(_) => Err(Errno(libc::EIO)),
    }
}

/// Has the C library do the requests that are none of the drive.
///
/// # Safety
/// As the caller of `lio_listio` promises.
unsafe fn ask_behind(others: Vec<*mut Block>, list: Option<&Arc<List>>) -> Outcome<()> {
    let count = others.len() as c_int;
    match list {
        _ if others.is_empty() => Ok(()),
        // SAFETY: the caller's promise.
        Some(list) => unsafe { Behind::begin(others, list) },
        None => {
            let nobody = std::ptr::null_mut();
            // SAFETY: the caller's promise.
            match unsafe { list_behind(libc::LIO_NOWAIT, others.as_ptr(), count, nobody) } {
                0 => Ok(()),
                _ => Err(crate::errno::last()),
            }
        }
    }
}

/// The C library's part of a list whose end is told. A thread of this library's waits for it: one by which the C library would
/// tell of it takes all signals for a while, also those that the program has blocked.
struct Behind {
    blocks: Vec<*mut Block>,
    list: Arc<List>,
    has_returned: AtomicBool,
}

// SAFETY: the blocks are passed on to the C library alone.
unsafe impl Send for Behind {}
// SAFETY: as before.
unsafe impl Sync for Behind {}

impl Behind {
    /// Begins, and comes back when the C library has all requests.
    ///
    /// # Safety
    /// As the caller of `lio_listio` promises.
    unsafe fn begin(blocks: Vec<*mut Block>, list: &Arc<List>) -> Outcome<()> {
        // SAFETY: the caller's promise.
        let seen = || blocks.iter().map(|block| unsafe { &**block });
        seen().for_each(Block::hand_over);
        let behind = Arc::new(Behind {
            blocks: blocks.clone(),
            list: list.clone(),
            has_returned: AtomicBool::new(false),
        });
        list.one_more();
        let given = Arc::into_raw(behind.clone());
        if let Err(errno) = tell::start(Behind::wait, given.cast_mut().cast(), std::ptr::null()) {
            // SAFETY: nobody else has it.
            drop(unsafe { Arc::from_raw(given) });
            list.one_has_ended();
            seen().for_each(|block| block.end(Err(errno)));
            return Err(errno);
        }
        while !behind.has_returned.load(Ordering::Acquire) && seen().any(Block::is_handed_over) {
            std::thread::yield_now();
        }
        match seen().any(Block::was_refused) {
            true => Err(Errno(libc::EINVAL)),
            false => Ok(()),
        }
    }

    /// The thread.
    extern "C" fn wait(given: *mut c_void) -> *mut c_void {
        // SAFETY: made by `begin`, for this thread.
        let behind = unsafe { Arc::from_raw(given.cast_const().cast::<Behind>()) };
        let (blocks, count) = (behind.blocks.as_ptr(), behind.blocks.len() as c_int);
        // SAFETY: the C library looks at the blocks while their requests are under way.
        unsafe { list_behind(libc::LIO_WAIT, blocks, count, std::ptr::null_mut()) };
        behind.has_returned.store(true, Ordering::Release);
        behind.list.one_has_ended();
        std::ptr::null_mut()
    }
}

/// Waits for all; an error if one failed.
///
/// # Safety
/// The blocks are there.
unsafe fn wait_for_all(blocks: &[NonNull<Block>]) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let error = |block: &NonNull<Block>| unsafe { block.as_ref() }.error();
    let under_way = |block: &NonNull<Block>| error(block) == libc::EINPROGRESS;
    loop {
        let left: Vec<_> = blocks.iter().copied().filter(under_way).collect();
        if left.is_empty() {
            break;
        }
        // SAFETY: the caller's promise.
        unsafe { wait_for_one(left.into_iter(), None) }?;
    }
    match blocks.iter().any(|block| error(block) != 0) {
        true => Err(Errno(libc::EIO)),
        false => Ok(()),
    }
}

hooks! {
    fn aio_read64(block: *mut Block) -> c_int, next {
        // SAFETY: the caller's block.
        match unsafe { of_drive(block) } {
            None => next(block),
            // SAFETY: as the caller's.
            Some((block, open)) => zero(unsafe { add(block, open, What::Read, None) }),
        }
    }

    fn aio_read(block: *mut Block) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { aio_read64(block) }
    }

    fn aio_write64(block: *mut Block) -> c_int, next {
        // SAFETY: the caller's block.
        match unsafe { of_drive(block) } {
            None => next(block),
            // SAFETY: as the caller's.
            Some((block, open)) => zero(unsafe { add(block, open, What::Write, None) }),
        }
    }

    fn aio_write(block: *mut Block) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { aio_write64(block) }
    }

    fn aio_fsync64(how: c_int, block: *mut Block) -> c_int, next {
        // SAFETY: the caller's block.
        let Some((block, open)) = (unsafe { of_drive(block) }) else {
            return next(how, block);
        };
        let data_only = match how {
            libc::O_DSYNC => true,
            libc::O_SYNC => false,
            _ => return number(Err(Errno(libc::EINVAL))),
        };
        // SAFETY: as the caller's.
        zero(unsafe { add(block, open, What::Sync { data_only }, None) })
    }

    fn aio_fsync(how: c_int, block: *mut Block) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { aio_fsync64(how, block) }
    }

    fn aio_suspend64(blocks: Blocks, count: c_int, time: *const timespec) -> c_int, next {
        // SAFETY: the caller's blocks.
        let (all, time_left) = unsafe { (named(blocks, count), time.as_ref()) };
        // SAFETY: the caller's blocks.
        if !all.clone().any(|block| unsafe { block.as_ref() }.is_ours()) {
            return next(blocks, count, time);
        }
        let until = time_left.map(|time| {
            tell::now_ns().saturating_add(time.tv_sec.saturating_mul(NS)).saturating_add(time.tv_nsec)
        });
        // SAFETY: the caller's blocks.
        zero(unsafe { wait_for_one(all, until) })
    }

    fn aio_suspend(blocks: Blocks, count: c_int, time: *const timespec) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { aio_suspend64(blocks, count, time) }
    }

    fn aio_cancel64(descriptor: c_int, block: *mut Block) -> c_int, next {
        match table::has(descriptor) {
            false => next(descriptor, block),
            // SAFETY: the caller's block.
            true => number(unsafe { queue::cancel(descriptor, NonNull::new(block)) }.map(|came| came as c_int)),
        }
    }

    fn aio_cancel(descriptor: c_int, block: *mut Block) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { aio_cancel64(descriptor, block) }
    }

    fn lio_listio64(mode: c_int, blocks: Blocks, count: c_int, event: *mut Event) -> c_int, next {
        // SAFETY: the caller's blocks.
        let mut all = unsafe { named(blocks, count) };
        // SAFETY: the caller's blocks.
        let has_some = all.any(|block| table::has(unsafe { block.as_ref() }.descriptor));
        if !has_some || !matches!(mode, libc::LIO_WAIT | libc::LIO_NOWAIT) {
            return next(mode, blocks, count, event);
        }
        // SAFETY: the caller's event and blocks.
        zero(unsafe {
            let event = event.as_ref().copied().unwrap_or(Event::NONE);
            list(mode == libc::LIO_WAIT, blocks, count, event)
        })
    }

    fn lio_listio(mode: c_int, blocks: Blocks, count: c_int, event: *mut Event) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { lio_listio64(mode, blocks, count, event) }
    }
}
