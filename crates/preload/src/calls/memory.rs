//! Mappings of files of the drive.
//!
//! * Private ones, and those of files that are open to be read alone, are copies: what changes in the file later does not show.
//! * Shared ones of a file that is open to be written are had by one process at a time (`ENODEV` for others: SQLite then reads
//!   by calls). Those of a file have one memory in this process, whatever their number, which its children share. What is read
//!   and written by calls meanwhile and what is in that memory agree.
//! * What was changed there goes back to the file by `msync`, by the last `munmap`, and when the process ends. What other
//!   processes write by calls shows, and they see what was changed there, by locks of the file: whoever gets one finds the
//!   file as it is, and whoever gives one back leaves it so. NFS keeps mappings in step by the same rule.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{off_t, size_t};
use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags, mmap as map, munmap as unmap};
use wharf_files::Seek;

use super::data::{attributes, bytes, find, read_from_drive, write_to_drive};
use crate::errno::{Errno, Outcome, set, zero};
use crate::find::Spot;
use crate::next::hooks;
use crate::page::FileId;
use crate::table::{self, Open, Ref};

const PAGE: usize = 4096;

const ZEROS: [u8; PAGE] = [0; PAGE];

/// Bytes of a file that are looked at together.
const LOOK: usize = 1 << 20;

/// The memory of a file's shared mappings.
struct Memory {
    file: OwnedFd,
    /// All of it, as this library sees it.
    view: *mut u8,
    bytes: usize,
    /// What the file has, as far as is known, of each page that has come; none for zeros, which take no memory either.
    known: BTreeMap<usize, Option<Box<[u8; PAGE]>>>,
    open: Ref,
    mappings: usize,
    /// Whether anybody may have changed it: SQLite maps files to read them alone, and would wait for comparisons at each call.
    may_change: bool,
    /// The file as it was when the pages were last looked at, as [`version`] says it; none if they were not since they came.
    seen: Option<Version>,
}

/// What changes when a file is written: its times, and its size.
type Version = (u64, u64, u64);

fn version(open: &Open) -> Outcome<Version> {
    let now = attributes(open)?;
    Ok((now.modified_ns, now.changed_ns, now.bytes))
}

// SAFETY: the view is the memory's own, used by whoever has the lock.
unsafe impl Send for Memory {}

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

/// Where a file has bytes that are not a hole, from here on.
fn next_data(open: &Open, from: u64) -> Outcome<Option<u64>> {
    match find(open, from, Seek::Data) {
        Err(Errno(libc::ENXIO)) => Ok(None),
        next => next.map(Some),
    }
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
            may_change: false,
            seen: None,
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
        self.look(offset / PAGE..end / PAGE, false)
    }

    /// Looks at the file's pages: at those that have not come, or `anew` at those that have.
    fn look(&mut self, pages: Range<usize>, anew: bool) -> Outcome<()> {
        let mut chunk = vec![0; LOOK];
        let mut page = pages.start;
        while page < pages.end {
            let data = next_data(&self.open, (page * PAGE) as u64)?;
            let data = data.map_or(pages.end, |at| (at as usize / PAGE).clamp(page, pages.end));
            (page..data).for_each(|hole| self.learn(hole, None, anew));
            let bytes = ((pages.end - data) * PAGE).min(LOOK);
            let chunk = &mut chunk[..bytes];
            chunk.fill(0);
            fill(&self.open, (data * PAGE) as u64, chunk)?;
            for (index, new) in chunk.as_chunks::<PAGE>().0.iter().enumerate() {
                let is_zero = new.iter().all(|byte| *byte == 0);
                self.learn(data + index, (!is_zero).then_some(new), anew);
            }
            page = data + bytes / PAGE;
        }
        Ok(())
    }

    /// The file has these bytes in a page, or zeros.
    fn learn(&mut self, page: usize, new: Option<&[u8; PAGE]>, anew: bool) {
        let known = self.known.get(&page);
        if known.is_some() != anew || known.is_some_and(|known| known.as_deref() == new) {
            return;
        }
        match new {
            Some(new) => self.page(page).copy_from_slice(new),
            None if anew => self.page(page).fill(0),
            None => {}
        }
        self.known.insert(page, new.map(|new| Box::new(*new)));
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        // SAFETY: inside the view. The program may change it meanwhile, as it may any mapping: these are bytes that are copied.
        unsafe { std::slice::from_raw_parts_mut(self.view.add(page * PAGE), PAGE) }
    }

    /// Brings back what was changed, as far as the file goes.
    fn bring_back(&mut self) -> Outcome<()> {
        if !self.may_change {
            return Ok(());
        }
        let end = (bytes(&self.open)? as usize).min(self.bytes);
        let mut from = 0;
        // Where nothing was ever written there is no memory.
        while let Some(data) = self
            .next(SeekFrom::Data(from as u64))?
            .filter(|at| *at < end)
        {
            let hole = self.next(SeekFrom::Hole(data as u64))?.unwrap_or(end);
            for page in data / PAGE..hole.min(end).div_ceil(PAGE) {
                self.bring_page_back(page, (end - page * PAGE).min(PAGE))?;
            }
            from = hole;
        }
        Ok(())
    }

    /// The next data, or hole, of the memory.
    fn next(&self, from: SeekFrom) -> Outcome<Option<usize>> {
        match rustix::fs::seek(&self.file, from) {
            Ok(at) => Ok(Some(at as usize)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn bring_page_back(&mut self, page: usize, end: usize) -> Outcome<()> {
        // The program may change it meanwhile.
        let mut now = [0; PAGE];
        now.copy_from_slice(self.page(page));
        let Some(known) = self.known.get_mut(&page) else {
            return Ok(());
        };
        if known.as_deref().unwrap_or(&ZEROS)[..end] != now[..end] {
            write_to_drive(&self.open, (page * PAGE) as u64, &now[..end], false)?;
            known.get_or_insert_with(|| Box::new(ZEROS))[..end].copy_from_slice(&now[..end]);
        }
        Ok(())
    }

    /// Has what others have written to the file since.
    fn catch_up(&mut self) -> Outcome<()> {
        self.bring_back()?;
        // Before the pages are read: what is written meanwhile shows the next time.
        let now = version(&self.open)?;
        if self.seen == Some(now) {
            return Ok(());
        }
        let ends = (self.known.first_key_value(), self.known.last_key_value());
        if let (Some((first, _)), Some((last, _))) = ends {
            self.look(*first..last + 1, true)?;
        }
        self.seen = Some(now);
        Ok(())
    }

    /// Bytes of the file have become these.
    fn written(&mut self, offset: usize, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (page, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let now = (PAGE - from).min(data.len() - done);
            if let Some(known) = self.known.get_mut(&page) {
                known.get_or_insert_with(|| Box::new(ZEROS))[from..from + now]
                    .copy_from_slice(&data[done..done + now]);
                self.page(page)[from..from + now].copy_from_slice(&data[done..done + now]);
            }
            done += now;
        }
    }

    /// The file ends here now.
    fn cut(&mut self, end: usize) {
        let whole = end.next_multiple_of(PAGE);
        if end < whole.min(self.bytes) {
            let (page, from) = (end / PAGE, end % PAGE);
            self.page(page)[from..].fill(0);
            if let Some(Some(known)) = self.known.get_mut(&page) {
                known[from..].fill(0);
            }
        }
        if whole < self.bytes {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let rest = (self.bytes - whole) as u64;
            // It is memory: a hole can be made in it.
            let _ = rustix::fs::fallocate(&self.file, how, whole as u64, rest);
            let rest = self.known.range_mut(whole / PAGE..);
            rest.for_each(|(_, known)| *known = None);
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
    for memory in all.files.values_mut() {
        memory.may_change = true;
    }
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
fn map_shared(
    open: &Ref,
    bytes: size_t,
    access: c_int,
    flags: c_int,
    offset: off_t,
    next: Map<'_>,
) -> Outcome<*mut c_void> {
    let mut all = all();
    let number = open.page().file();
    let memory = match all.files.entry(number) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let memory = Memory::new(open.clone())?;
            crate::locks::mapped(open)?;
            COUNT.fetch_add(1, Ordering::Relaxed);
            entry.insert(memory)
        }
    };
    memory.bring(offset as usize, bytes)?;
    let mapped = next(access, flags, memory.file.as_raw_fd(), offset);
    if mapped == libc::MAP_FAILED {
        return Err(crate::errno::last());
    }
    memory.mappings += 1;
    memory.may_change |= access & libc::PROT_WRITE != 0;
    all.places.insert(mapped as usize, (bytes, number));
    all.offsets.insert(mapped as usize, offset as usize);
    Ok(mapped)
}

impl All {
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
            memory.may_change = true;
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

    fn mprotect(at: *mut c_void, bytes: size_t, access: c_int) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) > 0 && access & libc::PROT_WRITE != 0 {
            allow_changes(at as usize, bytes);
        }
        next(at, bytes, access)
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
