//! Which descriptors of this process are files of the drive.
//!
//! The truth is the kernel's: a descriptor is one of a page ([`page`](crate::page)). The table is what is known of it, by the
//! number of the descriptor: every call that makes, duplicates or closes descriptors keeps it, and a call on a descriptor
//! that is not in it costs one load.
//!
//! What an entry points to is never freed, but used again: whoever has read the entry takes a reference, and looks once
//! more whether the entry is what it was. So closing may race with anything.

use std::ffi::c_int;
use std::ops::Deref;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

use crate::page::{Mapped, Page};

/// Descriptors that can be files of the drive.
pub(crate) const MOST: usize = 1 << 16;

static TABLE: [AtomicPtr<Open>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];

/// Descriptors at or beyond this one have never been in the table.
static END: AtomicUsize = AtomicUsize::new(0);

/// What was closed, to be used again.
static SPARE: Mutex<Vec<&'static Open>> = Mutex::new(Vec::new());

/// Descriptions that may have had locks when their server went, and are open still: nearly always none.
static LOST_LOCKS: AtomicUsize = AtomicUsize::new(0);

/// An open file description, as this process has it.
pub(crate) struct Open {
    /// Entries of the table, and calls under way.
    references: AtomicU32,
    page: AtomicPtr<Mapped>,
    /// The drive's handle, and in which life of this process it was given: see `drive.rs`.
    pub(crate) handle: AtomicU64,
    pub(crate) life: AtomicU64,
    /// The description may have locks.
    pub(crate) is_locked: AtomicBool,
    /// It may have had locks when its server went.
    has_lost_locks: AtomicBool,
}

/// A reference to one.
pub(crate) struct Ref(&'static Open);

impl Deref for Ref {
    type Target = Open;

    fn deref(&self) -> &Open {
        self.0
    }
}

impl Open {
    /// Its server is gone, and it may have had locks.
    pub(crate) fn lose_locks(&self) {
        if !self.has_lost_locks.swap(true, Ordering::Relaxed) {
            LOST_LOCKS.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The page.
    pub(crate) fn page(&self) -> &Page {
        // SAFETY: it is there as long as there is a reference, and only references lead here.
        unsafe { (*self.page.load(Ordering::Relaxed)).get() }
    }
}

impl Ref {
    /// Something that is open, by the drive's handle, if it has one already.
    pub(crate) fn new(page: Mapped, handle: u64, life: u64) -> Ref {
        let spare = spare().pop();
        let open = spare.unwrap_or_else(|| {
            Box::leak(Box::new(Open {
                references: AtomicU32::new(0),
                page: AtomicPtr::default(),
                handle: AtomicU64::new(0),
                life: AtomicU64::new(0),
                is_locked: AtomicBool::new(false),
                has_lost_locks: AtomicBool::new(false),
            }))
        });
        open.page
            .store(Box::into_raw(Box::new(page)), Ordering::Relaxed);
        open.handle.store(handle, Ordering::Relaxed);
        open.life.store(life, Ordering::Relaxed);
        // Release: whoever takes a reference sees what it leads to.
        open.references.store(1, Ordering::Release);
        Ref(open)
    }
}

impl Clone for Ref {
    fn clone(&self) -> Ref {
        self.0.references.fetch_add(1, Ordering::Relaxed);
        Ref(self.0)
    }
}

impl Drop for Ref {
    fn drop(&mut self) {
        // Release and the fence: all that others did with it is before its end.
        if self.0.references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            crate::locks::description_closes(self.0);
            if self.0.has_lost_locks.swap(false, Ordering::Relaxed) {
                LOST_LOCKS.fetch_sub(1, Ordering::Relaxed);
            }
            crate::drive::close(self.0);
            let page = self.0.page.swap(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: made by `Box::into_raw`, and there are no references any more.
            drop(unsafe { Box::from_raw(page) });
            spare().push(self.0);
        }
    }
}

/// Whether something is open that may have had locks when its server went.
pub(crate) fn has_lost_locks() -> bool {
    LOST_LOCKS.load(Ordering::Relaxed) > 0
}

/// The list of what was closed, locked.
pub(crate) type Spare = std::sync::MutexGuard<'static, Vec<&'static Open>>;

/// Before a fork: no other thread is amid changing the list.
pub(crate) fn before_fork() -> Spare {
    spare()
}

fn spare() -> Spare {
    SPARE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn place(descriptor: c_int) -> Option<&'static AtomicPtr<Open>> {
    TABLE.get(usize::try_from(descriptor).ok()?)
}

/// Whether a descriptor is a file of the drive.
#[inline]
pub(crate) fn has(descriptor: c_int) -> bool {
    // Ordered by the program: it has the descriptor from a call that has ended.
    place(descriptor).is_some_and(|place| !place.load(Ordering::Relaxed).is_null())
}

/// What a descriptor is, if it is a file of the drive.
#[inline]
pub(crate) fn get(descriptor: c_int) -> Option<Ref> {
    let place = place(descriptor)?;
    let open = place.load(Ordering::Acquire);
    if open.is_null() {
        None
    } else {
        take(place, open)
    }
}

fn take(place: &AtomicPtr<Open>, mut open: *mut Open) -> Option<Ref> {
    while !open.is_null() {
        // SAFETY: what was in the table is never freed.
        let found: &'static Open = unsafe { &*open };
        let references = found.references.load(Ordering::Relaxed);
        // Acquire: partner of the release in `Ref::new`. One without references is nobody's.
        let taken = references > 0
            && found
                .references
                .compare_exchange(
                    references,
                    references + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok();
        let now = place.load(Ordering::Acquire);
        match (taken, now == open) {
            (true, true) => return Some(Ref(found)),
            (true, false) => drop(Ref(found)),
            (false, _) => std::hint::spin_loop(),
        }
        open = now;
    }
    None
}

/// Enters what a descriptor is from now on; false if the table has no room for its number.
pub(crate) fn put(descriptor: c_int, open: Ref) -> bool {
    let Some(place) = place(descriptor) else {
        return false;
    };
    END.fetch_max(descriptor as usize + 1, Ordering::Relaxed);
    let before = place.swap(ptr::from_ref(open.0).cast_mut(), Ordering::AcqRel);
    // The table's own reference.
    std::mem::forget(open);
    forget(before);
    crate::calls::streams::follow(descriptor);
    true
}

/// A descriptor is no file of the drive any more; true if it was one.
pub(crate) fn remove(descriptor: c_int) -> bool {
    let Some(place) = place(descriptor) else {
        return false;
    };
    if place.load(Ordering::Relaxed).is_null() {
        return false;
    }
    let before = place.swap(ptr::null_mut(), Ordering::AcqRel);
    forget(before);
    crate::calls::streams::follow(descriptor);
    !before.is_null()
}

fn forget(before: *mut Open) {
    if !before.is_null() {
        // SAFETY: what was in the table is never freed; this is the table's reference.
        let open = Ref(unsafe { &*before });
        crate::locks::descriptor_closes(&open);
    }
}

/// All descriptors that are files of the drive.
pub(crate) fn all() -> impl Iterator<Item = c_int> {
    let end = END.load(Ordering::Relaxed).min(MOST);
    (0..end as c_int).filter(|descriptor| has(*descriptor))
}
