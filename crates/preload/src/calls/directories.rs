//! Listings: `DIR` of directories of the drive.
//!
//! A program has nothing of a `DIR` but its address, so one of this library is told from one of the C library's by a set of
//! addresses. `.` and `..` do not come from the drive: they are put before what does.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_long};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{DIR, dirent64};
use wharf_files::vfs::Service;
use wharf_files::{DirectoryEntry, block_on};

use crate::convert::entry_type;
use crate::drive::{handle, with};
use crate::errno::{Errno, Outcome, last, number, pointer, set};
use crate::find::{Found, find};
use crate::next::hooks;
use crate::table;

/// Entries that are asked for at once.
const AT_ONCE: usize = 256;

/// A directory that is being listed.
struct Listing {
    descriptor: c_int,
    /// What has come and was not given yet; the last one first.
    ready: Vec<DirectoryEntry>,
    /// Where the listing goes on behind what has come.
    cookie: u64,
    is_end: bool,
    /// How many of `.` and `..` were given.
    dots: u8,
    /// Places that the program was told, by their number.
    told: Vec<(u8, u64)>,
    /// The place behind the last entry that was given.
    place: (u8, u64),
    entry: dirent64,
}

static KNOWN: Mutex<Option<BTreeSet<usize>>> = Mutex::new(None);

/// How many there are: nearly always none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The listing behind a `DIR`, if it is one of these.
///
/// # Safety
/// The program uses it by one call at a time.
unsafe fn known<'a>(directory: *mut DIR) -> Option<&'a mut Listing> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let known = KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let is_known = known
        .as_ref()
        .is_some_and(|known| known.contains(&(directory as usize)));
    // SAFETY: made by `begin`, and not ended: it would not be known.
    is_known.then(|| unsafe { &mut *directory.cast::<Listing>() })
}

fn begin(descriptor: c_int) -> *mut DIR {
    // SAFETY: all of it may be zeros.
    let entry = unsafe { std::mem::zeroed() };
    let listing = Box::new(Listing {
        descriptor,
        ready: Vec::new(),
        cookie: 0,
        is_end: false,
        dots: 0,
        told: Vec::new(),
        place: (0, 0),
        entry,
    });
    let at = Box::into_raw(listing);
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    known.get_or_insert_default().insert(at as usize);
    COUNT.fetch_add(1, Ordering::Relaxed);
    at.cast()
}

/// # Safety
/// It is one of these, and the program does not use it any more.
unsafe fn end(directory: *mut DIR) -> c_int {
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    known.get_or_insert_default().remove(&(directory as usize));
    COUNT.fetch_sub(1, Ordering::Relaxed);
    drop(known);
    // SAFETY: made by `Box::into_raw`, and known to nobody any more.
    let listing = unsafe { Box::from_raw(directory.cast::<Listing>()) };
    // SAFETY: the program gave it to the listing.
    unsafe { super::descriptors::close(listing.descriptor) }
}

impl Listing {
    /// The next entry, or none at the end.
    fn next(&mut self) -> Outcome<Option<&mut dirent64>> {
        let open = table::get(self.descriptor).ok_or(Errno(libc::EBADF))?;
        if self.dots < 2 {
            self.dots += 1;
            let name = &b".."[..usize::from(self.dots)];
            let number = open.page().number;
            self.place = (self.dots, 0);
            return Ok(Some(self.give(name, number, libc::DT_DIR)));
        }
        if self.ready.is_empty() && !self.is_end {
            let (cookie, ready) = (self.cookie, &mut self.ready);
            self.is_end = with(|drive, by| {
                let listed = handle(drive, by, &open)?;
                Ok(block_on(drive.list(listed, cookie, AT_ONCE, ready))?)
            })?;
            if let Some(last) = ready.last() {
                self.cookie = last.cookie;
            } else {
                self.is_end = true;
            }
            ready.reverse();
        }
        let Some(entry) = self.ready.pop() else {
            return Ok(None);
        };
        self.place = (2, entry.cookie);
        Ok(Some(self.give(
            &entry.name,
            entry.number,
            entry_type(entry.kind),
        )))
    }

    fn give(&mut self, name: &[u8], number: u64, kind: u8) -> &mut dirent64 {
        let place = self.tell();
        let entry = &mut self.entry;
        entry.d_ino = number;
        entry.d_off = place;
        entry.d_type = kind;
        let room = entry.d_name.len() - 1;
        let name = &name[..name.len().min(room)];
        for (to, from) in entry.d_name.iter_mut().zip(name) {
            *to = *from as c_char;
        }
        entry.d_name[name.len()] = 0;
        let head = std::mem::offset_of!(dirent64, d_name);
        entry.d_reclen = (head + name.len() + 1).next_multiple_of(8) as u16;
        entry
    }

    /// A number for the place where the listing is.
    fn tell(&mut self) -> i64 {
        if self.told.last() != Some(&self.place) {
            self.told.push(self.place);
        }
        self.told.len() as i64
    }

    /// Goes to a place that was told; to the beginning for any other.
    fn go(&mut self, told: c_long) {
        let place = usize::try_from(told - 1)
            .ok()
            .and_then(|at| self.told.get(at));
        let (dots, cookie) = place.copied().unwrap_or((0, 0));
        self.dots = dots;
        self.cookie = cookie;
        self.place = (dots, cookie);
        self.ready.clear();
        self.is_end = false;
    }
}

fn open_directory(spot: &crate::find::Spot) -> Outcome<*mut DIR> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    super::open::open(spot, flags, 0).map(begin)
}

/// The next entry of one of these: null at the end, as an error is.
fn next_of(listing: &mut Listing) -> *mut dirent64 {
    let before = last();
    let next = listing
        .next()
        .map(|entry| entry.map_or(ptr::null_mut(), ptr::from_mut));
    if next == Ok(ptr::null_mut()) {
        set(before);
    }
    pointer(next)
}

/// Compares two entries, as `scandir` is given it.
type Compare = Option<unsafe extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int>;

/// Says which entries are wanted.
type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;

/// All wanted entries of a directory, each in memory of the C library's, and their array.
///
/// # Safety
/// The functions may be called, and there is room for a pointer.
unsafe fn scan(
    directory: *mut DIR,
    filter: Filter,
    compare: Compare,
    room: *mut *mut *mut dirent64,
) -> Outcome<c_int> {
    // SAFETY: one of these, and nobody else has it.
    let Some(listing) = (unsafe { known(directory) }) else {
        return Err(Errno(libc::EBADF));
    };
    let mut all: Vec<*mut dirent64> = Vec::new();
    while let Some(entry) = listing.next()? {
        // SAFETY: the program's function; an entry of the size that it says is copied to memory of that size.
        unsafe {
            if filter.is_none_or(|wants| wants(entry) != 0) {
                let bytes = usize::from(entry.d_reclen);
                let copy = libc::malloc(bytes).cast::<dirent64>();
                if copy.is_null() {
                    return Err(Errno(libc::ENOMEM));
                }
                ptr::copy_nonoverlapping(
                    ptr::from_mut(entry).cast::<u8>(),
                    copy.cast::<u8>(),
                    bytes,
                );
                all.push(copy);
            }
        }
    }
    if let Some(compare) = compare {
        all.sort_by(|a, b| {
            let (mut a, mut b) = (a.cast_const(), b.cast_const());
            // SAFETY: the program's function, given two entries.
            unsafe { compare(&raw mut a, &raw mut b) }.cmp(&0)
        });
    }
    let bytes = size_of::<*mut dirent64>() * all.len().max(1);
    // SAFETY: memory for all of them; the caller's room.
    unsafe {
        let array = libc::malloc(bytes).cast::<*mut dirent64>();
        if array.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        ptr::copy_nonoverlapping(all.as_ptr(), array, all.len());
        room.write(array);
    }
    Ok(all.len() as c_int)
}

hooks! {
    fn opendir(path: *const c_char) -> *mut DIR, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path),
            Found::Elsewhere(path) => next(path.as_ptr()),
            Found::Drive(spot) => pointer(open_directory(&spot)),
        }
    }

    fn fdopendir(descriptor: c_int) -> *mut DIR, next {
        match table::get(descriptor) {
            None => next(descriptor),
            Some(open) if open.page().is_directory() => begin(descriptor),
            Some(_) => pointer(Err(Errno(libc::ENOTDIR))),
        }
    }

    fn readdir64(directory: *mut DIR) -> *mut dirent64, next {
        // SAFETY: the caller's directory.
        match unsafe { known(directory) } {
            None => next(directory),
            Some(listing) => next_of(listing),
        }
    }

    fn readdir(directory: *mut DIR) -> *mut dirent64, next {
        // SAFETY: as the caller's; both kinds of entry are the same where offsets have 64 bits.
        unsafe { readdir64(directory) }
    }

    fn readdir64_r(directory: *mut DIR, room: *mut dirent64, result: *mut *mut dirent64) -> c_int, next {
        // SAFETY: the caller's directory.
        let Some(listing) = (unsafe { known(directory) }) else {
            return next(directory, room, result);
        };
        let given = listing.next();
        // SAFETY: the caller's room.
        unsafe {
            result.write(ptr::null_mut());
            match given {
                Ok(Some(entry)) => {
                    ptr::copy_nonoverlapping(ptr::from_ref(entry).cast::<u8>(), room.cast::<u8>(), entry.d_reclen.into());
                    result.write(room);
                    0
                }
                Ok(None) => 0,
                Err(errno) => errno.0,
            }
        }
    }

    fn readdir_r(directory: *mut DIR, room: *mut dirent64, result: *mut *mut dirent64) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { readdir64_r(directory, room, result) }
    }

    fn closedir(directory: *mut DIR) -> c_int, next {
        // SAFETY: the caller's directory.
        unsafe {
            match known(directory) {
                None => next(directory),
                Some(_) => end(directory),
            }
        }
    }

    fn rewinddir(directory: *mut DIR) -> (), next {
        // SAFETY: the caller's directory.
        match unsafe { known(directory) } {
            None => next(directory),
            Some(listing) => listing.go(0),
        }
    }

    fn seekdir(directory: *mut DIR, place: c_long) -> (), next {
        // SAFETY: the caller's directory.
        match unsafe { known(directory) } {
            None => next(directory, place),
            Some(listing) => listing.go(place),
        }
    }

    fn telldir(directory: *mut DIR) -> c_long, next {
        // SAFETY: the caller's directory.
        match unsafe { known(directory) } {
            None => next(directory),
            Some(listing) => listing.tell(),
        }
    }

    fn dirfd(directory: *mut DIR) -> c_int, next {
        // SAFETY: the caller's directory.
        match unsafe { known(directory) } {
            None => next(directory),
            Some(listing) => listing.descriptor,
        }
    }

    fn scandirat64(at: c_int, path: *const c_char, room: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int, next {
        // SAFETY: the caller's path, room and functions.
        unsafe {
            match find(at, path) {
                Found::Machine => next(at, path, room, filter, compare),
                Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), room, filter, compare),
                Found::Drive(spot) => number(open_directory(&spot).and_then(|directory| {
                    let scanned = scan(directory, filter, compare, room);
                    end(directory);
                    scanned
                })),
            }
        }
    }

    fn scandirat(at: c_int, path: *const c_char, room: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { scandirat64(at, path, room, filter, compare) }
    }

    fn scandir64(path: *const c_char, room: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { scandirat64(libc::AT_FDCWD, path, room, filter, compare) }
    }

    fn scandir(path: *const c_char, room: *mut *mut *mut dirent64, filter: Filter, compare: Compare) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { scandirat64(libc::AT_FDCWD, path, room, filter, compare) }
    }
}
