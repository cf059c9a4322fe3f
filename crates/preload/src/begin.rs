//! What a process finds when it begins: descriptors of files of the drive that it was given, and where it is.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::page::{Mapped, Use, is_ours, of_process};
use crate::table::{self, Ref};
use crate::{aio, drive, find};

/// Called by the dynamic linker, before the program's `main`.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    if drive::setup().is_none() {
        return;
    }
    find::went_outside();
    // SAFETY: functions that need nothing.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    adopt_all();
}

/// Enters all descriptors that this process was given, those of one memory as one.
fn adopt_all() {
    let Ok(listing) = rustix::fs::open(
        "/proc/self/fd",
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) else {
        return;
    };
    let mut buffer = Vec::with_capacity(4096);
    let mut listed = rustix::fs::RawDir::new(listing, buffer.spare_capacity_mut());
    let mut descriptors = Vec::new();
    while let Some(Ok(entry)) = listed.next() {
        let name = entry.file_name().to_str().ok();
        descriptors.extend(name.and_then(|name| name.parse::<c_int>().ok()));
    }
    drop(listed);
    let mut known = BTreeMap::new();
    for descriptor in descriptors {
        if is_ours(descriptor) {
            enter(descriptor, &mut known);
        }
    }
}

/// Enters a descriptor that came from elsewhere, if it is a file of the drive.
pub(crate) fn adopt(descriptor: c_int) {
    if is_ours(descriptor) {
        let mut known = BTreeMap::new();
        // Another descriptor of the same may be here.
        for other in table::all() {
            if let (Some(open), Some(memory)) = (table::get(other), memory_of(other)) {
                known.insert(memory, open);
            }
        }
        enter(descriptor, &mut known);
    }
}

/// Which memory a descriptor is of.
fn memory_of(descriptor: c_int) -> Option<u64> {
    // By its name: `wharf run --audit` counts what uses the descriptor itself.
    Some(rustix::fs::stat(of_process(descriptor)).ok()?.st_ino)
}

fn enter(descriptor: c_int, known: &mut BTreeMap<u64, Ref>) {
    let Some(memory) = memory_of(descriptor) else {
        return;
    };
    if let Some(open) = known.get(&memory) {
        table::put(descriptor, open.clone());
        return;
    }
    let Some(mapped) = Mapped::of_descriptor(descriptor) else {
        return;
    };
    let what = mapped.get().what();
    let open = Ref::new(mapped, 0, 0);
    match what {
        Some(Use::File) => {
            known.insert(memory, open.clone());
            table::put(descriptor, open);
        }
        Some(Use::Directory) => {
            // SAFETY: given to this library by the one of the process before.
            find::go_inside(open, unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        None => {}
    }
}

/// Held by the thread that forks, from before until after.
static FORKING: Slot = Slot(std::cell::UnsafeCell::new(None));

struct Slot(std::cell::UnsafeCell<Option<Forking>>);

/// What a fork must find in order.
type Forking = (aio::queue::Forking, aio::context::Forking, drive::Forking);

// SAFETY: whoever has the client's lock alone looks at it.
unsafe impl Sync for Slot {}

extern "C" fn before_fork() {
    let forking = (
        aio::queue::before_fork(),
        aio::context::before_fork(),
        drive::before_fork(),
    );
    // SAFETY: this thread has the lock now.
    unsafe { *FORKING.0.get() = Some(forking) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread has the lock.
    let forking = unsafe { (*FORKING.0.get()).take() };
    drop(forking);
}

extern "C" fn in_child() {
    // SAFETY: there is one thread.
    let forking = unsafe { (*FORKING.0.get()).take() };
    if let Some((requests, contexts, forking)) = forking {
        requests.in_child();
        contexts.in_child();
        drive::in_child(forking);
    }
}
