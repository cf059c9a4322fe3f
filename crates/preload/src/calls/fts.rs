//! `fts` over trees of which one is on the drive: the C library's asks the kernel.
//!
//! The working directory stays what it is, as with `FTS_NOCHDIR`: an entry's `fts_accpath` is its path. A program has nothing of
//! a walk but its address, so those of this library are told from the C library's by a set of addresses.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_short, c_ushort, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use libc::stat as Stat;

use super::ftw::{look, names};
use crate::errno::{Errno, Outcome, pointer, set, zero};
use crate::find::{Found, find};
use crate::next::hooks;

/// Options of a walk (`FTS_COMFOLLOW` and so on).
const FOLLOWS_ROOTS: c_int = 0x01;
const LOGICAL: c_int = 0x02;
const NO_STAT: c_int = 0x08;
const SEES_DOTS: c_int = 0x20;
const ONE_DEVICE: c_int = 0x40;
const OPTIONS: c_int = 0xff;
/// An option of `fts_children`.
const NAMES_ONLY: c_int = 0x100;

/// What an entry is (`FTS_D` and so on).
const DIRECTORY: c_ushort = 1;
const CYCLE: c_ushort = 2;
const OTHER: c_ushort = 3;
const UNREADABLE: c_ushort = 4;
const DOT: c_ushort = 5;
const DIRECTORY_LATER: c_ushort = 6;
const ERROR: c_ushort = 7;
const FILE: c_ushort = 8;
const NO_STAT_WORKS: c_ushort = 10;
const NO_STAT_WANTED: c_ushort = 11;
const LINK: c_ushort = 12;
const BROKEN_LINK: c_ushort = 13;

/// What a program has set for an entry (`FTS_AGAIN` and so on).
const AGAIN: c_ushort = 1;
const FOLLOW: c_ushort = 2;
const NOTHING: c_ushort = 3;
const SKIP: c_ushort = 4;

/// `FTSENT`. The name goes on behind it.
#[repr(C)]
pub struct Entry {
    cycle: *mut Entry,
    parent: *mut Entry,
    link: *mut Entry,
    number: c_long,
    pointer: *mut c_void,
    access: *mut c_char,
    path: *mut c_char,
    errno: c_int,
    link_descriptor: c_int,
    path_bytes: c_ushort,
    name_bytes: c_ushort,
    file: libc::ino_t,
    device: libc::dev_t,
    links: libc::nlink_t,
    level: c_short,
    info: c_ushort,
    flags: c_ushort,
    instruction: c_ushort,
    stat: *mut Stat,
    name: [c_char; 1],
}

type Compare = unsafe extern "C" fn(*const *const Entry, *const *const Entry) -> c_int;

/// A walk: the program's `FTS`.
pub struct Walk {
    options: c_int,
    compare: Option<Compare>,
    /// What was given last; null before the first, and at the end.
    now: *mut Entry,
    /// What comes first, and what stands above it.
    roots: *mut Entry,
    top: *mut Entry,
    /// What was read of the directory that was given last; none if nothing was.
    children: Option<(*mut Entry, bool)>,
    is_begun: bool,
    device: u64,
}

static KNOWN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn walks() -> MutexGuard<'static, BTreeSet<usize>> {
    KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The walk behind an `FTS`, if it is one of these.
///
/// # Safety
/// The program uses it by one call at a time.
unsafe fn known<'a>(walk: *mut Walk) -> Option<&'a mut Walk> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let known = walks();
    // SAFETY: made by `begin`, and not ended: it would not be known.
    known
        .contains(&(walk as usize))
        .then(|| unsafe { &mut *walk })
}

/// A new entry, of which the attributes are not known.
fn make(path: &[u8], name: &[u8], parent: *mut Entry, level: c_short) -> Outcome<*mut Entry> {
    let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    let path_bytes = path.as_bytes().len() as c_ushort;
    // SAFETY: memory for an entry, the name and a zero, all of it zeros; the name is copied there.
    unsafe {
        let entry = libc::calloc(1, size_of::<Entry>() + name.len() + 1).cast::<Entry>();
        if entry.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        ptr::copy_nonoverlapping(name.as_ptr(), name_of(entry).cast(), name.len());
        (*entry).path = path.into_raw();
        (*entry).access = (*entry).path;
        (*entry).path_bytes = path_bytes;
        (*entry).name_bytes = name.len() as c_ushort;
        (*entry).parent = parent;
        (*entry).level = level;
        (*entry).instruction = NOTHING;
        (*entry).stat = Box::into_raw(Box::new(std::mem::zeroed()));
        Ok(entry)
    }
}

/// # Safety
/// An entry of this library's.
unsafe fn name_of(entry: *mut Entry) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { (&raw mut (*entry).name).cast() }
}

/// # Safety
/// It was made here, and nothing leads to it any more.
unsafe fn free(entry: *mut Entry) {
    // SAFETY: all of it was made by `make`.
    unsafe {
        drop(CString::from_raw((*entry).path));
        drop(Box::from_raw((*entry).stat));
        libc::free(entry.cast());
    }
}

/// # Safety
/// As [`free`], for each of a list.
unsafe fn free_all(mut entry: *mut Entry) {
    while !entry.is_null() {
        // SAFETY: the caller's promise.
        unsafe {
            let next = (*entry).link;
            free(entry);
            entry = next;
        }
    }
}

/// # Safety
/// An entry of this library's, which nobody else uses.
unsafe fn stat(walk: &Walk, entry: *mut Entry, follows: bool) -> c_ushort {
    // SAFETY: the caller's promise.
    unsafe {
        let path = CStr::from_ptr((*entry).path);
        let follows = follows || walk.options & LOGICAL != 0;
        let found = match look(path, follows) {
            Err(_) if follows && look(path, false).is_ok() => {
                *(*entry).stat = look(path, false).unwrap_or(std::mem::zeroed());
                return BROKEN_LINK;
            }
            found => found,
        };
        let found = match found {
            Ok(found) => found,
            Err(errno) => {
                (*entry).errno = errno.0;
                *(*entry).stat = std::mem::zeroed();
                return NO_STAT_WORKS;
            }
        };
        *(*entry).stat = found;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => FILE,
            libc::S_IFLNK => LINK,
            libc::S_IFDIR => directory(entry, &found),
            _ => OTHER,
        }
    }
}

/// # Safety
/// As [`stat`].
unsafe fn directory(entry: *mut Entry, found: &Stat) -> c_ushort {
    // SAFETY: the caller's promise.
    unsafe {
        (*entry).device = found.st_dev;
        (*entry).file = found.st_ino;
        (*entry).links = found.st_nlink;
        if is_dot(CStr::from_ptr(name_of(entry)).to_bytes()) {
            return DOT;
        }
        let mut above = (*entry).parent;
        while (*above).level >= 0 {
            if (*above).file == found.st_ino && (*above).device == found.st_dev {
                (*entry).cycle = above;
                return CYCLE;
            }
            above = (*above).parent;
        }
        DIRECTORY
    }
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl Walk {
    /// A list of entries, in the program's order.
    ///
    /// # Safety
    /// Entries of this library's; the program's function may be called.
    unsafe fn list(&self, mut all: Vec<*mut Entry>) -> *mut Entry {
        if let Some(compare) = self.compare {
            all.sort_by(|a, b| {
                let (a, b) = (a.cast_const(), b.cast_const());
                // SAFETY: the program's function, given two entries.
                unsafe { compare(&raw const a, &raw const b) }.cmp(&0)
            });
        }
        let mut next = ptr::null_mut();
        for entry in all.into_iter().rev() {
            // SAFETY: the caller's promise.
            unsafe { (*entry).link = next };
            next = entry;
        }
        next
    }

    /// What is in the directory that was given last: null if nothing is, or if it cannot be read.
    ///
    /// # Safety
    /// There is one.
    unsafe fn read(&mut self, names_only: bool) -> *mut Entry {
        // SAFETY: the caller's promise.
        unsafe {
            let above = self.now;
            let path = CStr::from_ptr((*above).path);
            let found = match names(path) {
                Ok(found) => found,
                Err(errno) => {
                    (*above).info = UNREADABLE;
                    (*above).errno = errno.0;
                    set(errno);
                    return ptr::null_mut();
                }
            };
            let mut all = Vec::new();
            for (name, kind) in found {
                if is_dot(&name) && self.options & SEES_DOTS == 0 {
                    continue;
                }
                let slash = if path.to_bytes().ends_with(b"/") {
                    &b""[..]
                } else {
                    b"/"
                };
                let whole = [path.to_bytes(), slash, &name].concat();
                let Ok(entry) = make(&whole, &name, above, (*above).level + 1) else {
                    continue;
                };
                (*entry).info = self.info(entry, kind, names_only);
                all.push(entry);
            }
            self.list(all)
        }
    }

    /// # Safety
    /// An entry of this library's.
    unsafe fn info(&self, entry: *mut Entry, kind: u8, names_only: bool) -> c_ushort {
        let may_be_directory = kind == libc::DT_DIR || kind == libc::DT_UNKNOWN;
        let needs_none = self.options & (NO_STAT | LOGICAL) == NO_STAT && !may_be_directory;
        match names_only || needs_none {
            true => NO_STAT_WANTED,
            // SAFETY: the caller's promise.
            false => unsafe { stat(self, entry, false) },
        }
    }

    /// Goes on to an entry.
    ///
    /// # Safety
    /// It is of this walk.
    unsafe fn give(&mut self, entry: *mut Entry) -> *mut Entry {
        // SAFETY: the caller's promise.
        unsafe {
            if (*entry).instruction == FOLLOW {
                (*entry).info = stat(self, entry, true);
                (*entry).instruction = NOTHING;
            }
            if (*entry).level == 0 {
                self.device = (*entry).device;
                shorten(entry);
            }
        }
        self.now = entry;
        entry
    }

    /// The next entry.
    ///
    /// # Safety
    /// The program uses none that is gone.
    unsafe fn next(&mut self) -> *mut Entry {
        // SAFETY: the caller's promise; `now` is null or an entry.
        unsafe {
            if !self.is_begun {
                self.is_begun = true;
                let first = std::mem::replace(&mut self.roots, ptr::null_mut());
                return match first.is_null() {
                    true => first,
                    false => self.behind_skipped(first),
                };
            }
            let entry = self.now;
            if entry.is_null() {
                return entry;
            }
            let instruction = std::mem::replace(&mut (*entry).instruction, NOTHING);
            let is_link = matches!((*entry).info, LINK | BROKEN_LINK);
            if instruction == AGAIN || instruction == FOLLOW && is_link {
                (*entry).info = stat(self, entry, instruction == FOLLOW);
                return entry;
            }
            match (*entry).info {
                DIRECTORY => self.enter(entry, instruction == SKIP),
                _ => self.leave(entry),
            }
        }
    }

    /// Goes into a directory that was given.
    ///
    /// # Safety
    /// As [`Walk::next`].
    unsafe fn enter(&mut self, entry: *mut Entry, is_skipped: bool) -> *mut Entry {
        // SAFETY: the caller's promise.
        unsafe {
            let read = self.children.take();
            let is_other = self.options & ONE_DEVICE != 0 && (*entry).device != self.device;
            if is_skipped || is_other {
                free_all(read.map_or(ptr::null_mut(), |(children, _)| children));
                (*entry).info = DIRECTORY_LATER;
                return entry;
            }
            let children = match read {
                Some((children, false)) => children,
                read => {
                    free_all(read.map_or(ptr::null_mut(), |(children, _)| children));
                    self.read(false)
                }
            };
            if children.is_null() {
                if (*entry).info == DIRECTORY {
                    (*entry).info = DIRECTORY_LATER;
                }
                return entry;
            }
            self.behind_skipped(children)
        }
    }

    /// The first of a list that the program has not said is to be skipped.
    ///
    /// # Safety
    /// It is a list of this walk.
    unsafe fn behind_skipped(&mut self, entry: *mut Entry) -> *mut Entry {
        // SAFETY: the caller's promise.
        unsafe {
            match (*entry).instruction {
                SKIP => self.leave(entry),
                _ => self.give(entry),
            }
        }
    }

    /// Goes on behind an entry: to the next one beside it, or back to the directory.
    ///
    /// # Safety
    /// As [`Walk::next`].
    unsafe fn leave(&mut self, mut entry: *mut Entry) -> *mut Entry {
        // SAFETY: the caller's promise.
        unsafe {
            loop {
                let (next, parent) = ((*entry).link, (*entry).parent);
                free(entry);
                if next.is_null() {
                    return self.go_back(parent);
                }
                if (*next).instruction != SKIP {
                    return self.give(next);
                }
                entry = next;
            }
        }
    }

    /// All of a directory was given; what is above the first entries stands for the walk.
    ///
    /// # Safety
    /// It is an entry of this walk.
    unsafe fn go_back(&mut self, directory: *mut Entry) -> *mut Entry {
        self.now = directory;
        // SAFETY: the caller's promise.
        unsafe {
            match (*directory).errno {
                _ if (*directory).level < 0 => {
                    set(Errno(0));
                    self.now = ptr::null_mut();
                }
                0 => (*directory).info = DIRECTORY_LATER,
                _ => (*directory).info = ERROR,
            }
        }
        self.now
    }

    /// What is in the directory that was given last, or all that the walk begins with.
    ///
    /// # Safety
    /// As [`Walk::next`].
    unsafe fn children(&mut self, options: c_int) -> Outcome<*mut Entry> {
        if options != 0 && options != NAMES_ONLY {
            return Err(Errno(libc::EINVAL));
        }
        set(Errno(0));
        if !self.is_begun {
            return Ok(self.roots);
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.now.is_null() || (*self.now).info != DIRECTORY {
                return Ok(ptr::null_mut());
            }
            if let Some((before, _)) = self.children.take() {
                free_all(before);
            }
            let read = self.read(options == NAMES_ONLY);
            if !read.is_null() {
                self.children = Some((read, options == NAMES_ONLY));
            }
            Ok(read)
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        // SAFETY: all entries that are left are of this walk: those beside what was given last, and those above.
        unsafe {
            free_all(self.roots);
            free_all(self.children.take().map_or(ptr::null_mut(), |(all, _)| all));
            let mut at = self.now;
            while !at.is_null() && at != self.top {
                let parent = (*at).parent;
                free_all(at);
                at = parent;
            }
            free(self.top);
        }
    }
}

/// The name of what a walk begins with is the last part of its path, once it is given.
///
/// # Safety
/// An entry of this library's.
unsafe fn shorten(entry: *mut Entry) {
    // SAFETY: the caller's promise; what is moved is part of the name, with its zero.
    unsafe {
        let name = CStr::from_ptr(name_of(entry)).to_bytes_with_nul();
        let slash = name.iter().rposition(|byte| *byte == b'/');
        if let Some(at) = slash.filter(|at| *at > 0 || name.len() > 2) {
            let bytes = name.len() - at - 1;
            ptr::copy(name.as_ptr().add(at + 1), name_of(entry).cast(), bytes);
            (*entry).name_bytes = bytes as c_ushort - 1;
        }
    }
}

/// Paths, and a null at their end.
type Paths = *const *const c_char;

/// Begins a walk, if any of the paths leads to the drive.
///
/// # Safety
/// The paths are texts.
unsafe fn begin(
    paths: Paths,
    options: c_int,
    compare: Option<Compare>,
) -> Outcome<Option<*mut Walk>> {
    // SAFETY: the caller's promise.
    let all: Vec<&CStr> = unsafe {
        let all = (0..)
            .map(|at| *paths.add(at))
            .take_while(|path| !path.is_null());
        all.map(|path| CStr::from_ptr(path)).collect()
    };
    // SAFETY: texts.
    let leads =
        |path: &&CStr| unsafe { !matches!(find(libc::AT_FDCWD, path.as_ptr()), Found::Machine) };
    if !all.iter().any(leads) {
        return Ok(None);
    }
    if options & !OPTIONS != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if all.iter().any(|path| path.is_empty()) {
        return Err(Errno(libc::ENOENT));
    }
    let mut walk = Box::new(Walk {
        options,
        compare,
        now: ptr::null_mut(),
        roots: ptr::null_mut(),
        top: make(b"", b"", ptr::null_mut(), -1)?,
        children: None,
        is_begun: false,
        device: 0,
    });
    let mut roots = Vec::new();
    for path in all {
        let root = make(path.to_bytes(), path.to_bytes(), walk.top, 0)?;
        // SAFETY: made above.
        unsafe {
            let info = stat(&walk, root, options & FOLLOWS_ROOTS != 0);
            (*root).info = if info == DOT { DIRECTORY } else { info };
        }
        roots.push(root);
    }
    // SAFETY: made above.
    walk.roots = unsafe { walk.list(roots) };
    let at = Box::into_raw(walk);
    let mut known = walks();
    known.insert(at as usize);
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(Some(at))
}

/// # Safety
/// It is one of these, and the program does not use it any more.
unsafe fn end(walk: *mut Walk) {
    let mut known = walks();
    known.remove(&(walk as usize));
    COUNT.fetch_sub(1, Ordering::Relaxed);
    drop(known);
    // SAFETY: made by `Box::into_raw`, and known to nobody any more.
    drop(unsafe { Box::from_raw(walk) });
}

fn instruct(entry: &mut Entry, instruction: c_int) -> Outcome<()> {
    match instruction {
        0..=4 => {
            entry.instruction = instruction as c_ushort;
            Ok(())
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

hooks! {
    fn fts_open(paths: Paths, options: c_int, compare: Option<Compare>) -> *mut Walk, next {
        // SAFETY: the caller's paths.
        match unsafe { begin(paths, options, compare) } {
            Ok(None) => next(paths, options, compare),
            begun => pointer(begun.map(|walk| walk.unwrap_or(ptr::null_mut()))),
        }
    }

    fn fts_read(walk: *mut Walk) -> *mut Entry, next {
        // SAFETY: the caller's walk.
        unsafe {
            match known(walk) {
                None => next(walk),
                Some(walk) => walk.next(),
            }
        }
    }

    fn fts_children(walk: *mut Walk, options: c_int) -> *mut Entry, next {
        // SAFETY: the caller's walk.
        unsafe {
            match known(walk) {
                None => next(walk, options),
                Some(walk) => pointer(walk.children(options)),
            }
        }
    }

    fn fts_set(walk: *mut Walk, entry: *mut Entry, instruction: c_int) -> c_int, next {
        // SAFETY: the caller's walk and entry.
        unsafe {
            match known(walk) {
                None => next(walk, entry, instruction),
                // It gives 1 for an error, unlike others.
                Some(_) => zero(instruct(&mut *entry, instruction)).abs(),
            }
        }
    }

    fn fts_close(walk: *mut Walk) -> c_int, next {
        // SAFETY: the caller's walk.
        unsafe {
            match known(walk) {
                None => next(walk),
                Some(_) => {
                    end(walk);
                    0
                }
            }
        }
    }

    fn fts64_open(paths: Paths, options: c_int, compare: Option<Compare>) -> *mut Walk, next {
        // SAFETY: as the caller's.
        unsafe { fts_open(paths, options, compare) }
    }

    fn fts64_read(walk: *mut Walk) -> *mut Entry, next {
        // SAFETY: as the caller's.
        unsafe { fts_read(walk) }
    }

    fn fts64_children(walk: *mut Walk, options: c_int) -> *mut Entry, next {
        // SAFETY: as the caller's.
        unsafe { fts_children(walk, options) }
    }

    fn fts64_set(walk: *mut Walk, entry: *mut Entry, instruction: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fts_set(walk, entry, instruction) }
    }

    fn fts64_close(walk: *mut Walk) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { fts_close(walk) }
    }
}
