//! Mappings of files of the drive.
//!
//! * Private ones are copies: what changes in the file later does not show.
//! * Shared ones of a file that is open to be written are had by one process at a time (`ENODEV` for others: SQLite then reads
//!   by calls). Those of a file that is open to be read alone are had by any number of processes, while no other has one of the former.
//! * Those of a file have one memory in this process, whatever their number ([`mapped`](super::mapped)), which its children share. What is
//!   read and written by calls meanwhile and what is in that memory agree.
//! * What was changed there goes back to the file by `msync`, by the last `munmap`, and when the process ends. What other
//!   processes write by calls shows, and they see what was changed there, by locks of the file: whoever gets one finds the
//!   file as it is, and whoever gives one back leaves it so. NFS keeps mappings in step by the same rule. `msync` with
//!   `MS_INVALIDATE` has it show too.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{off_t, size_t};
use rustix::mm::munmap as unmap;

use super::mapped::{Memory, PAGE, fill};
use crate::errno::{Errno, Outcome, set, zero};
use crate::find::Spot;
use crate::next::hooks;
use crate::page::FileId;
use crate::table::{self, Open, Ref};

#[derive(Default)]
pub(crate) struct All {
    files: BTreeMap<FileId, Memory>,
    /// Where which file is mapped, and how many bytes.
    places: BTreeMap<usize, (usize, FileId)>,
    /// What is before each of these in its file.
    offsets: BTreeMap<usize, usize>,
    /// Where copies of files begin.
    copies: BTreeSet<usize>,
}

static ALL: Mutex<All> = Mutex::new(All {
    files: BTreeMap::new(),
    places: BTreeMap::new(),
    offsets: BTreeMap::new(),
    copies: BTreeSet::new(),
});

/// Copies that there may be: nearly always none.
static COPIES: AtomicUsize = AtomicUsize::new(0);

/// Files that have such memory: nearly always none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> std::sync::MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Does something with the memory of a file, if it has one.
fn of_file<T>(open: &Open, f: impl FnOnce(&mut Memory) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    all().files.get_mut(&open.page().file()).map(f)
}

/// Before a file is read by a call, or a lock of it is given back: what was changed in its memory is in the file.
pub(crate) fn before_read(open: &Open) -> Outcome<()> {
    of_file(open, Memory::bring_back).unwrap_or(Ok(()))
}

/// This process has got a lock of a file: its memory has what others wrote before.
pub(crate) fn after_lock(open: &Open) -> Outcome<()> {
    of_file(open, Memory::catch_up).unwrap_or(Ok(()))
}

/// A call has written to a file: its memory has the same.
pub(crate) fn after_write(open: &Open, end: u64, data: &[u8]) {
    of_file(open, |memory| {
        memory.written(end as usize - data.len(), data)
    });
}

/// A call has changed some of a file by nothing that it was given: its memory has that.
pub(crate) fn after_change(open: &Open, from: u64, bytes: u64) -> Outcome<()> {
    of_file(open, |memory| {
        let end = from.saturating_add(bytes).min(memory.bytes as u64) as usize;
        memory.look(from as usize / PAGE..end.div_ceil(PAGE), true)
    })
    .unwrap_or(Ok(()))
}

/// A file has been given another size.
pub(crate) fn after_truncation(open: &Open, bytes: u64) {
    of_file(open, |memory| memory.cut(bytes as usize));
}

/// The same of a file that is known by its path alone.
pub(crate) fn after_truncation_of(spot: Spot, bytes: u64) {
    if COUNT.load(Ordering::Relaxed) > 0
        && let Ok(found) = super::attributes::file_of(spot)
        && let Some(memory) = all().files.get_mut(&found)
    {
        memory.cut(bytes as usize);
    }
}

/// Brings everything back, when the process ends; others may map the files then.
pub(crate) fn process_ends() {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    for memory in all().files.values_mut() {
        let _ = memory.bring_back();
        crate::locks::unmapped(&memory.open);
    }
}

/// Whether some thread, perhaps this one before a signal came, is amid something here.
pub(crate) fn is_busy() -> bool {
    ALL.try_lock().is_err()
}

/// What a fork must find in order.
pub(crate) struct Forking(std::sync::MutexGuard<'static, All>);

/// Before a fork: no other thread is amid anything.
pub(crate) fn before_fork() -> Forking {
    let mut all = all();
    // What the child allows itself is not seen here.
    all.files.values_mut().for_each(Memory::allow_changes);
    Forking(all)
}

impl Forking {
    /// In the child: it shares the memory, and the parent brings it back.
    pub(crate) fn in_child(&mut self) {
        let left = std::mem::take(&mut *self.0);
        COUNT.store(0, Ordering::Relaxed);
        COPIES.store(0, Ordering::Relaxed);
        std::mem::forget(left);
    }
}

/// Whether a mapping is private: of the kinds, two share a bit.
fn is_private(flags: c_int) -> bool {
    flags & (libc::MAP_SHARED | libc::MAP_PRIVATE) == libc::MAP_PRIVATE
}

fn check(open: &Ref, access: c_int, flags: c_int, offset: off_t) -> Outcome<()> {
    // A program that asks for persistent memory (MariaDB, for its log) syncs nothing if it gets it.
    let is_validated = flags & libc::MAP_SHARED_VALIDATE == libc::MAP_SHARED_VALIDATE;
    if is_validated && flags & libc::MAP_SYNC != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let page = open.page();
    if page.is_directory() {
        return Err(Errno(libc::ENODEV));
    }
    if offset < 0 || !(offset as usize).is_multiple_of(PAGE) {
        return Err(Errno(libc::EINVAL));
    }
    let mode = page.flags() & libc::O_ACCMODE;
    let is_written = access & libc::PROT_WRITE != 0 && !is_private(flags);
    match mode {
        libc::O_WRONLY => Err(Errno(libc::EACCES)),
        libc::O_RDONLY if is_written => Err(Errno(libc::EACCES)),
        _ => Ok(()),
    }
}

/// What is asked of `mmap`, but for a file and an address.
#[derive(Clone, Copy)]
struct Asked {
    bytes: size_t,
    access: c_int,
    flags: c_int,
    offset: off_t,
}

/// A mapping, as the C library's function makes it.
type Map<'a> = &'a dyn Fn(c_int, c_int, c_int, off_t) -> *mut c_void;

/// A copy of a file's bytes.
fn map_private(open: &Ref, asked: Asked, next: Map<'_>) -> Outcome<*mut c_void> {
    let Asked { bytes, access, .. } = asked;
    let flags = asked.flags | libc::MAP_ANONYMOUS;
    let mapped = next(libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
    if mapped == libc::MAP_FAILED {
        return Err(crate::errno::last());
    }
    super::memory::before_read(open)?;
    // SAFETY: mapped above, for nobody else yet.
    let memory = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u8>(), bytes) };
    let filled = fill(open, asked.offset as u64, memory);
    // SAFETY: mapped above.
    let is_protected = unsafe {
        access == libc::PROT_READ | libc::PROT_WRITE || libc::mprotect(mapped, bytes, access) == 0
    };
    match filled {
        Ok(()) if is_protected => {
            if all().copies.insert(mapped as usize) {
                COPIES.fetch_add(1, Ordering::Relaxed);
            }
            Ok(mapped)
        }
        Ok(()) => Err(crate::errno::last()),
        Err(errno) => {
            // SAFETY: mapped above.
            let _ = unsafe { unmap(mapped, bytes) };
            Err(errno)
        }
    }
}

/// The memory that all shared mappings of a file have in this process.
fn map_shared(open: &Ref, asked: Asked, next: Map<'_>) -> Outcome<*mut c_void> {
    let mut all = all();
    let number = open.page().file();
    let writes = open.page().flags() & libc::O_ACCMODE == libc::O_RDWR;
    let memory = match all.files.entry(number) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let memory = entry.insert(Memory::new(open.clone(), writes)?);
            COUNT.fetch_add(1, Ordering::Relaxed);
            memory
        }
    };
    let made = map_memory(memory, open, asked, writes, next);
    match made {
        Ok(mapped) => {
            memory.mappings += 1;
            all.places.insert(mapped as usize, (asked.bytes, number));
            all.offsets.insert(mapped as usize, asked.offset as usize);
        }
        Err(_) if memory.mappings == 0 => all.forget(number),
        Err(_) => {}
    }
    made
}

fn map_memory(
    memory: &mut Memory,
    open: &Ref,
    asked: Asked,
    writes: bool,
    next: Map<'_>,
) -> Outcome<*mut c_void> {
    if writes {
        memory.be_alone(open)?;
    }
    memory.bring(asked.offset as usize, asked.bytes)?;
    if asked.access & libc::PROT_WRITE != 0 {
        memory.allow_changes();
    }
    let descriptor = memory.descriptor(writes)?;
    match next(
        asked.access,
        asked.flags,
        descriptor.as_raw_fd(),
        asked.offset,
    ) {
        libc::MAP_FAILED => Err(crate::errno::last()),
        mapped => Ok(mapped),
    }
}

impl All {
    /// A file is mapped no more.
    fn forget(&mut self, number: FileId) {
        if let Some(memory) = self.files.remove(&number) {
            crate::locks::unmapped(&memory.open);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has `next` give a mapping another size, or another place.
    fn remap(
        &mut self,
        at: usize,
        grows: bool,
        bytes: usize,
        next: impl FnOnce() -> *mut c_void,
    ) -> Outcome<*mut c_void> {
        if grows && self.copies.contains(&at) {
            // The kernel would put zeros behind a copy.
            return Err(Errno(libc::ENOMEM));
        }
        let offset = self.offsets.get(&at).copied().unwrap_or(0);
        let number = self.places.get(&at).map(|(_, number)| *number);
        if let Some(memory) = number.and_then(|number| self.files.get_mut(&number)) {
            memory.bring(offset, bytes)?;
        }
        let mapped = next();
        if mapped == libc::MAP_FAILED {
            return Err(crate::errno::last());
        }
        if let Some((_, number)) = self.places.remove(&at) {
            self.offsets.remove(&at);
            self.places.insert(mapped as usize, (bytes, number));
            self.offsets.insert(mapped as usize, offset);
        }
        if self.copies.remove(&at) {
            self.copies.insert(mapped as usize);
        }
        Ok(mapped)
    }
}

/// The copies that begin here are there no more.
fn forget_copies(from: usize, bytes: usize) {
    let copies = &mut all().copies;
    let inside = copies.range(from..from.saturating_add(bytes));
    for begin in inside.copied().collect::<Vec<_>>() {
        copies.remove(&begin);
        COPIES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The program may change what is mapped here from now on.
fn allow_changes(from: usize, bytes: usize) {
    let All { files, places, .. } = &mut *all();
    let before_end = places.range(..from.saturating_add(bytes));
    for (_, (_, number)) in before_end.filter(|(at, (bytes, _))| **at + bytes > from) {
        if let Some(memory) = files.get_mut(number) {
            memory.allow_changes();
        }
    }
}

hooks! {
    fn mmap64(at: *mut c_void, bytes: size_t, access: c_int, flags: c_int, descriptor: c_int, offset: off_t) -> *mut c_void, next {
        if flags & libc::MAP_ANONYMOUS != 0 {
            return next(at, bytes, access, flags, descriptor, offset);
        }
        let Some(open) = table::get(descriptor) else {
            return next(at, bytes, access, flags, descriptor, offset);
        };
        let how = |access, flags, descriptor, offset| next(at, bytes, access, flags, descriptor, offset);
        let shared = libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC | libc::MAP_POPULATE;
        let asked = Asked { bytes, access, flags, offset };
        let as_copy = Asked { flags: flags & !shared | libc::MAP_PRIVATE, ..asked };
        let copy = || map_private(&open, as_copy, &how);
        let mapped = check(&open, access, flags, offset).and_then(|()| {
            if is_private(flags) {
                return copy();
            }
            let asked = Asked { flags: flags & !(libc::MAP_SYNC | libc::MAP_POPULATE), ..asked };
            match map_shared(&open, asked, &how) {
                // LevelDB maps a thousand files to read them, which do not change.
                Err(Errno(libc::EMFILE)) if open.page().flags() & libc::O_ACCMODE == libc::O_RDONLY => copy(),
                mapped => mapped,
            }
        });
        mapped.unwrap_or_else(|errno| {
            if errno == Errno(libc::ENODEV) {
                crate::audit::refused("mmap");
            }
            set(errno);
            libc::MAP_FAILED
        })
    }

    fn mmap(at: *mut c_void, bytes: size_t, access: c_int, flags: c_int, descriptor: c_int, offset: off_t) -> *mut c_void, next {
        match flags & libc::MAP_ANONYMOUS == 0 && table::has(descriptor) {
            false => next(at, bytes, access, flags, descriptor, offset),
            // SAFETY: as the caller's.
            true => unsafe { mmap64(at, bytes, access, flags, descriptor, offset) },
        }
    }

    fn mprotect(at: *mut c_void, bytes: size_t, access: c_int) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) > 0 && access & libc::PROT_WRITE != 0 {
            allow_changes(at as usize, bytes);
        }
        next(at, bytes, access)
    }

    fn pkey_mprotect(at: *mut c_void, bytes: size_t, access: c_int, key: c_int) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) > 0 && access & libc::PROT_WRITE != 0 {
            allow_changes(at as usize, bytes);
        }
        next(at, bytes, access, key)
    }

    fn msync(at: *mut c_void, bytes: size_t, flags: c_int) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return next(at, bytes, flags);
        }
        let mut all = all();
        let from = at as usize;
        let found = all.places.range(..from.saturating_add(bytes.max(1))).next_back();
        let found = found.filter(|(begin, (bytes, _))| **begin + bytes > from).map(|(_, (_, number))| *number);
        let Some(memory) = found.and_then(|number| all.files.get_mut(&number)) else {
            drop(all);
            return next(at, bytes, flags);
        };
        let back = match flags & libc::MS_INVALIDATE {
            0 => memory.bring_back(),
            _ => memory.catch_up(),
        };
        zero(back.and_then(|()| match flags & libc::MS_SYNC {
            0 => Ok(()),
            _ => super::storage::make_durable(&memory.open, true),
        }))
    }

    fn mremap(at: *mut c_void, before: size_t, bytes: size_t, flags: c_int, to: *mut c_void) -> *mut c_void, next {
        if COUNT.load(Ordering::Relaxed) + COPIES.load(Ordering::Relaxed) == 0 {
            return next(at, before, bytes, flags, to);
        }
        match all().remap(at as usize, bytes > before, bytes, || next(at, before, bytes, flags, to)) {
            Ok(mapped) => mapped,
            Err(errno) => {
                set(errno);
                libc::MAP_FAILED
            }
        }
    }

    fn munmap(at: *mut c_void, bytes: size_t) -> c_int, next {
        if COPIES.load(Ordering::Relaxed) > 0 {
            forget_copies(at as usize, bytes);
        }
        if COUNT.load(Ordering::Relaxed) > 0 {
            let mut all = all();
            let from = at as usize;
            let inside = all.places.range(from..from.saturating_add(bytes));
            let inside: Vec<(usize, FileId)> = inside.map(|(begin, (_, number))| (*begin, *number)).collect();
            for (begin, number) in inside {
                all.places.remove(&begin);
                all.offsets.remove(&begin);
                let Some(memory) = all.files.get_mut(&number) else {
                    continue;
                };
                memory.mappings -= 1;
                if memory.mappings == 0 {
                    // As with the kernel's, an error is told to whoever syncs.
                    let _ = memory.bring_back();
                    all.forget(number);
                }
            }
        }
        next(at, bytes)
    }
}
