//! Mappings of files of the drive.
//!
//! * Private ones, and those of files that are open to be read alone, are copies: what changes in the file later does not show.
//! * Shared ones that are only read, of a file that is open to be written, are refused (`ENODEV`): what other processes write
//!   would not show, and who opens a file so counts on that. SQLite then reads by calls.
//! * Shared ones that are written are had by one process at a time (`ENODEV` for others). Those of a file have one memory in this process, whatever their number, which its children share. What is read and written
//!   by calls meanwhile and what is in that memory agree. What was changed there goes back to the file by `msync`, by the last
//!   `munmap`, and when the process ends; another process that maps the file does not see it before that.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{off_t, size_t};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap as map, munmap as unmap};

use super::data::{bytes, read_from_drive, write_to_drive};
use crate::errno::{Errno, Outcome, set, zero};
use crate::next::hooks;
use crate::table::{self, Open, Ref};

const PAGE: usize = 4096;

/// The memory of a file's shared mappings.
struct Memory {
    file: OwnedFd,
    /// All of it, as this library sees it.
    view: *mut u8,
    bytes: usize,
    /// What the file has, as far as is known, of each page that has come.
    known: BTreeMap<usize, Box<[u8; PAGE]>>,
    open: Ref,
    mappings: usize,
}

// SAFETY: the view is the memory's own, used by whoever has the lock.
unsafe impl Send for Memory {}

#[derive(Default)]
pub(crate) struct All {
    /// By the numbers of files.
    files: BTreeMap<u64, Memory>,
    /// Where which file is mapped, and how many bytes.
    places: BTreeMap<usize, (usize, u64)>,
}

static ALL: Mutex<All> = Mutex::new(All {
    files: BTreeMap::new(),
    places: BTreeMap::new(),
});

/// Files that have such memory: nearly always none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> std::sync::MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Fills memory from a file; behind its end there are zeros.
fn fill(open: &Open, offset: u64, out: &mut [u8]) -> Outcome<()> {
    let mut done = 0;
    while done < out.len() {
        match read_from_drive(open, offset + done as u64, &mut out[done..])? {
            0 => break,
            now => done += now,
        }
    }
    Ok(())
}

impl Memory {
    fn new(open: Ref) -> Outcome<Memory> {
        let file = rustix::fs::memfd_create("wharf mapping", MemfdFlags::CLOEXEC)?;
        Ok(Memory {
            file: crate::find::high(file, true)?,
            view: ptr::null_mut(),
            bytes: 0,
            known: BTreeMap::new(),
            open,
            mappings: 0,
        })
    }

    /// Has the file's bytes from `offset` on in memory.
    fn bring(&mut self, offset: usize, bytes: usize) -> Outcome<()> {
        let end = (offset + bytes).next_multiple_of(PAGE);
        if end > self.bytes {
            rustix::fs::ftruncate(&self.file, end as u64)?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a mapping of its own, in the place of the smaller one, which only this library uses.
            unsafe {
                let view = map(
                    ptr::null_mut(),
                    end,
                    access,
                    MapFlags::SHARED,
                    &self.file,
                    0,
                )?;
                if !self.view.is_null() {
                    unmap(self.view.cast(), self.bytes)?;
                }
                self.view = view.cast();
            }
            self.bytes = end;
        }
        for page in offset / PAGE..end / PAGE {
            if !self.known.contains_key(&page) {
                let mut known = Box::new([0; PAGE]);
                fill(&self.open, (page * PAGE) as u64, &mut known[..])?;
                self.page(page).copy_from_slice(&known[..]);
                self.known.insert(page, known);
            }
        }
        Ok(())
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        // SAFETY: inside the view. The program may change it meanwhile, as it may any mapping: these are bytes that are copied.
        unsafe { std::slice::from_raw_parts_mut(self.view.add(page * PAGE), PAGE) }
    }

    /// Brings back what was changed, as far as the file goes.
    fn bring_back(&mut self) -> Outcome<()> {
        let file = bytes(&self.open)? as usize;
        let pages: Vec<usize> = self
            .known
            .keys()
            .copied()
            .take_while(|page| page * PAGE < file)
            .collect();
        for page in pages {
            let end = (file - page * PAGE).min(PAGE);
            let now: Vec<u8> = self.page(page)[..end].to_vec();
            if let Some(known) = self.known.get_mut(&page)
                && known[..end] != now[..]
            {
                write_to_drive(&self.open, (page * PAGE) as u64, &now, false)?;
                known[..end].copy_from_slice(&now);
            }
        }
        Ok(())
    }

    /// Bytes of the file have become these.
    fn written(&mut self, offset: usize, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (page, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let now = (PAGE - from).min(data.len() - done);
            if let Some(known) = self.known.get_mut(&page) {
                known[from..from + now].copy_from_slice(&data[done..done + now]);
                self.page(page)[from..from + now].copy_from_slice(&data[done..done + now]);
            }
            done += now;
        }
    }

    /// The file ends here now.
    fn cut(&mut self, end: usize) {
        let pages: Vec<usize> = self
            .known
            .range(end / PAGE..)
            .map(|(page, _)| *page)
            .collect();
        for page in pages {
            let from = end.saturating_sub(page * PAGE).min(PAGE);
            self.page(page)[from..].fill(0);
            if let Some(known) = self.known.get_mut(&page) {
                known[from..].fill(0);
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.view.is_null() {
            // SAFETY: mapped by this.
            let _ = unsafe { unmap(self.view.cast(), self.bytes) };
        }
    }
}

/// Before a file is read by a call: what was changed in its memory is in the file.
pub(crate) fn before_read(open: &Open) -> Outcome<()> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    match all().files.get_mut(&open.page().number) {
        Some(memory) => memory.bring_back(),
        None => Ok(()),
    }
}

/// A call has written to a file: its memory has the same.
pub(crate) fn after_write(open: &Open, end: u64, data: &[u8]) {
    if COUNT.load(Ordering::Relaxed) > 0
        && let Some(memory) = all().files.get_mut(&open.page().number)
    {
        memory.written(end as usize - data.len(), data);
    }
}

/// A file has been given another size.
pub(crate) fn after_truncation(open: &Open, bytes: u64) {
    if COUNT.load(Ordering::Relaxed) > 0
        && let Some(memory) = all().files.get_mut(&open.page().number)
    {
        memory.cut(bytes as usize);
    }
}

/// Brings everything back, when the process ends.
extern "C" fn at_end() {
    for memory in all().files.values_mut() {
        let _ = memory.bring_back();
    }
}

/// What a fork must find in order.
pub(crate) struct Forking(std::sync::MutexGuard<'static, All>);

/// Before a fork: no other thread is amid anything.
pub(crate) fn before_fork() -> Forking {
    Forking(all())
}

impl Forking {
    /// In the child: it shares the memory, and the parent brings it back.
    pub(crate) fn in_child(&mut self) {
        let left = std::mem::take(&mut *self.0);
        COUNT.store(0, Ordering::Relaxed);
        std::mem::forget(left);
    }
}

/// Whether this process has the file mapped to write it: then all that it maps of it is one memory.
fn is_mapped(open: &Ref) -> bool {
    COUNT.load(Ordering::Relaxed) > 0 && all().files.contains_key(&open.page().number)
}

/// Whether a mapping is private: of the kinds, two share a bit.
fn is_private(flags: c_int) -> bool {
    flags & (libc::MAP_SHARED | libc::MAP_PRIVATE) == libc::MAP_PRIVATE
}

fn check(open: &Ref, access: c_int, flags: c_int, offset: off_t) -> Outcome<()> {
    let page = open.page();
    if page.is_directory() {
        return Err(Errno(libc::ENODEV));
    }
    if offset < 0 || !(offset as usize).is_multiple_of(PAGE) {
        return Err(Errno(libc::EINVAL));
    }
    let mode = page.flags() & libc::O_ACCMODE;
    let is_written = access & libc::PROT_WRITE != 0 && !is_private(flags);
    let is_private = is_private(flags);
    match mode {
        libc::O_WRONLY => Err(Errno(libc::EACCES)),
        libc::O_RDONLY if is_written => Err(Errno(libc::EACCES)),
        libc::O_RDWR if !is_private && access & libc::PROT_WRITE == 0 && !is_mapped(open) => {
            Err(Errno(libc::ENODEV))
        }
        _ => Ok(()),
    }
}

/// A mapping, as the C library's function makes it.
type Map<'a> = &'a dyn Fn(c_int, c_int, c_int, off_t) -> *mut c_void;

/// A copy of a file's bytes.
fn map_private(
    open: &Ref,
    bytes: size_t,
    access: c_int,
    flags: c_int,
    offset: off_t,
    next: Map<'_>,
) -> Outcome<*mut c_void> {
    let flags = flags | libc::MAP_ANONYMOUS;
    let mapped = next(libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
    if mapped == libc::MAP_FAILED {
        return Err(crate::errno::last());
    }
    super::memory::before_read(open)?;
    // SAFETY: mapped above, for nobody else yet.
    let memory = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u8>(), bytes) };
    let filled = fill(open, offset as u64, memory);
    // SAFETY: mapped above.
    let is_protected = unsafe {
        access == libc::PROT_READ | libc::PROT_WRITE || libc::mprotect(mapped, bytes, access) == 0
    };
    match filled {
        Ok(()) if is_protected => Ok(mapped),
        Ok(()) => Err(crate::errno::last()),
        Err(errno) => {
            // SAFETY: mapped above.
            let _ = unsafe { unmap(mapped, bytes) };
            Err(errno)
        }
    }
}

/// The memory that all shared mappings of a file have in this process.
fn map_shared(
    open: &Ref,
    bytes: size_t,
    access: c_int,
    flags: c_int,
    offset: off_t,
    next: Map<'_>,
) -> Outcome<*mut c_void> {
    let mut all = all();
    let number = open.page().number;
    let memory = match all.files.entry(number) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let memory = Memory::new(open.clone())?;
            crate::locks::mapped(open)?;
            if COUNT.fetch_add(1, Ordering::Relaxed) == 0 {
                // SAFETY: a function that may be called when the process ends.
                unsafe { libc::atexit(at_end) };
            }
            entry.insert(memory)
        }
    };
    memory.bring(offset as usize, bytes)?;
    let mapped = next(access, flags, memory.file.as_raw_fd(), offset);
    if mapped == libc::MAP_FAILED {
        return Err(crate::errno::last());
    }
    memory.mappings += 1;
    all.places.insert(mapped as usize, (bytes, number));
    Ok(mapped)
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
        let mapped = check(&open, access, flags, offset).and_then(|()| match is_private(flags) {
            false if open.page().flags() & libc::O_ACCMODE == libc::O_RDWR => map_shared(&open, bytes, access, flags & !(libc::MAP_SYNC | libc::MAP_POPULATE), offset, &how),
            _ => {
                let shared = libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC | libc::MAP_POPULATE;
                map_private(&open, bytes, access, flags & !shared | libc::MAP_PRIVATE, offset, &how)
            }
        });
        mapped.unwrap_or_else(|errno| {
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
        let back = memory.bring_back();
        zero(back.and_then(|()| match flags & libc::MS_SYNC {
            0 => Ok(()),
            _ => super::storage::make_durable(&memory.open, true),
        }))
    }

    fn munmap(at: *mut c_void, bytes: size_t) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) > 0 {
            let mut all = all();
            let from = at as usize;
            let inside = all.places.range(from..from.saturating_add(bytes));
            let inside: Vec<(usize, u64)> = inside.map(|(begin, (_, number))| (*begin, *number)).collect();
            for (begin, number) in inside {
                all.places.remove(&begin);
                let Some(memory) = all.files.get_mut(&number) else {
                    continue;
                };
                memory.mappings -= 1;
                if memory.mappings == 0 {
                    // As with the kernel's, an error is told to whoever syncs.
                    let _ = memory.bring_back();
                    crate::locks::unmapped(&memory.open);
                    COUNT.fetch_sub(1, Ordering::Relaxed);
                    let ended = all.files.remove(&number);
                    drop(ended);
                }
            }
        }
        next(at, bytes)
    }
}
