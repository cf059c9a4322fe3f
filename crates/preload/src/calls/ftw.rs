//! `ftw` and `nftw` over a tree of the drive: the C library's ask the kernel.
//!
//! A directory is read whole before what is in it is visited, so one descriptor is enough, whatever the program allows.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};

use libc::stat as Stat;

use super::process::{chdir, fchdir, getcwd};
use super::{attributes, directories};
use crate::errno::{Errno, Outcome, last, number};
use crate::find::{Found, find};
use crate::next::hooks;

/// What the program is told that something is (`FTW_F` and so on).
const FILE: c_int = 0;
const DIRECTORY: c_int = 1;
const UNREADABLE: c_int = 2;
const UNKNOWN: c_int = 3;
const LINK: c_int = 4;
const DIRECTORY_LATER: c_int = 5;
const BROKEN_LINK: c_int = 6;

/// How it is walked (`FTW_PHYS` and so on).
const PHYSICAL: c_int = 1;
const ONE_DEVICE: c_int = 2;
const CHANGES_DIRECTORY: c_int = 4;
const DEPTH: c_int = 8;
const TELLS_ACTION: c_int = 16;
const ALL: c_int = PHYSICAL | ONE_DEVICE | CHANGES_DIRECTORY | DEPTH | TELLS_ACTION;

/// What the program may answer then (`FTW_STOP` and so on).
const STOP: c_int = 1;
const SKIP_SUBTREE: c_int = 2;
const SKIP_SIBLINGS: c_int = 3;

/// `struct FTW`.
#[repr(C)]
pub struct Level {
    base: c_int,
    level: c_int,
}

type Short = unsafe extern "C" fn(*const c_char, *const Stat, c_int) -> c_int;
type Long = unsafe extern "C" fn(*const c_char, *const Stat, c_int, *mut Level) -> c_int;

/// The program's function.
#[derive(Clone, Copy)]
enum Visit {
    Ftw(Short),
    Nftw(Long),
}

struct Walk {
    visit: Visit,
    flags: c_int,
    /// Before a relative path, if the working directory changes on the way.
    before: Vec<u8>,
    path: Vec<u8>,
    base: usize,
    level: c_int,
    device: u64,
    /// Directories that were entered, by device and number, where links are followed.
    entered: BTreeSet<(u64, u64)>,
}

fn nothing() -> Stat {
    // SAFETY: all of it may be zeros.
    unsafe { std::mem::zeroed() }
}

fn text(path: &[u8]) -> Outcome<CString> {
    CString::new(path).map_err(|_| Errno(libc::EINVAL))
}

/// The attributes of what a path names, or of the link.
pub(super) fn look(path: &CStr, follows: bool) -> Outcome<Stat> {
    let mut found = nothing();
    // SAFETY: a text, and room.
    let said = unsafe {
        match follows {
            true => attributes::stat64(path.as_ptr(), &raw mut found),
            false => attributes::lstat64(path.as_ptr(), &raw mut found),
        }
    };
    match said {
        0 => Ok(found),
        _ => Err(last()),
    }
}

fn is_kind(found: &Stat, kind: libc::mode_t) -> bool {
    found.st_mode & libc::S_IFMT == kind
}

/// The names in a directory, with their kinds (`d_type`).
pub(super) fn names(path: &CStr) -> Outcome<Vec<(Vec<u8>, u8)>> {
    let mut all = Vec::new();
    // SAFETY: a text; the directory is this function's, and an entry is there until the next one is asked for.
    unsafe {
        let directory = directories::opendir(path.as_ptr());
        if directory.is_null() {
            return Err(last());
        }
        loop {
            let entry = directories::readdir64(directory);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes();
            all.push((name.to_vec(), (*entry).d_type));
        }
        directories::closedir(directory);
    }
    Ok(all)
}

impl Walk {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// The path by which it is found now.
    fn access(&self) -> Outcome<CString> {
        match self.path.first() {
            Some(b'/') => text(&self.path),
            _ => text(&[&self.before[..], &self.path].concat()),
        }
    }

    fn tell(&self, found: &Stat, what: c_int) -> Outcome<c_int> {
        let path = text(&self.path)?;
        let mut level = Level {
            base: self.base as c_int,
            level: self.level,
        };
        // SAFETY: the program's function, which is given what it says that it wants.
        Ok(unsafe {
            match self.visit {
                Visit::Nftw(visit) => visit(path.as_ptr(), found, what, &raw mut level),
                Visit::Ftw(visit) => visit(path.as_ptr(), found, plain(what)),
            }
        })
    }

    /// What is told of something that is not a directory, or none if it is one.
    fn kind(&self, found: &Stat) -> Option<c_int> {
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => None,
            libc::S_IFLNK => Some(LINK),
            _ => Some(FILE),
        }
    }

    /// Where the walk begins.
    fn root(&mut self) -> Outcome<c_int> {
        let path = self.access()?;
        let found = match look(&path, !self.has(PHYSICAL)) {
            Err(Errno(libc::ENOENT)) if !self.has(PHYSICAL) => {
                let link = look(&path, false).map_err(|_| Errno(libc::ENOENT))?;
                return self.tell(&link, BROKEN_LINK);
            }
            found => found?,
        };
        self.device = found.st_dev;
        let said = match self.kind(&found) {
            Some(kind) => self.tell(&found, kind),
            None => self.directory(&found),
        }?;
        match self.has(TELLS_ACTION) && (said == SKIP_SUBTREE || said == SKIP_SIBLINGS) {
            true => Ok(0),
            false => Ok(said),
        }
    }

    /// One of the names in a directory.
    fn entry(&mut self) -> Outcome<c_int> {
        let path = self.access()?;
        let said = match look(&path, !self.has(PHYSICAL)) {
            Err(Errno(libc::EACCES | libc::ENOENT)) => self.unknown(&path),
            Err(errno) => Err(errno),
            Ok(found) if self.has(ONE_DEVICE) && found.st_dev != self.device => Ok(0),
            Ok(found) => match self.kind(&found) {
                Some(kind) => self.tell(&found, kind),
                None => self.directory(&found),
            },
        }?;
        match self.has(TELLS_ACTION) && said == SKIP_SUBTREE {
            true => Ok(0),
            false => Ok(said),
        }
    }

    fn unknown(&self, path: &CStr) -> Outcome<c_int> {
        match look(path, false) {
            Ok(link) if is_kind(&link, libc::S_IFLNK) && !self.has(PHYSICAL) => {
                self.tell(&link, BROKEN_LINK)
            }
            _ => self.tell(&nothing(), UNKNOWN),
        }
    }

    fn directory(&mut self, found: &Stat) -> Outcome<c_int> {
        // A link may lead to where the walk was already.
        if !self.has(PHYSICAL) && !self.entered.insert((found.st_dev, found.st_ino)) {
            return Ok(0);
        }
        let path = self.access()?;
        let names = match names(&path) {
            Err(Errno(libc::EACCES)) => return self.tell(found, UNREADABLE),
            names => names?,
        };
        if !self.has(DEPTH) {
            let said = self.tell(found, DIRECTORY)?;
            if said != 0 {
                return Ok(said);
            }
        }
        self.go(&path)?;
        let said = self.entries(names)?;
        let mut said = match self.has(TELLS_ACTION) && said == SKIP_SIBLINGS {
            true => 0,
            false => said,
        };
        if said == 0 && self.has(DEPTH) {
            said = self.tell(found, DIRECTORY_LATER)?;
        }
        if said == 0 || self.has(TELLS_ACTION) && said != STOP {
            self.go_back()?;
        }
        Ok(said)
    }

    fn entries(&mut self, names: Vec<(Vec<u8>, u8)>) -> Outcome<c_int> {
        let (length, base) = (self.path.len(), self.base);
        self.level += 1;
        let mut said = 0;
        for (name, _) in names {
            if name == b"." || name == b".." {
                continue;
            }
            if self.path.last() != Some(&b'/') {
                self.path.push(b'/');
            }
            self.base = self.path.len();
            self.path.extend(name);
            said = self.entry()?;
            self.path.truncate(length);
            if said != 0 {
                break;
            }
        }
        self.level -= 1;
        self.base = base;
        Ok(said)
    }

    /// Goes to a directory whose entries are visited, if the program wants that.
    fn go(&self, path: &CStr) -> Outcome<()> {
        // SAFETY: a text.
        match self.has(CHANGES_DIRECTORY) && unsafe { chdir(path.as_ptr()) } != 0 {
            true => Err(last()),
            false => Ok(()),
        }
    }

    /// Goes to the directory where the one that was just left is.
    fn go_back(&self) -> Outcome<()> {
        if !self.has(CHANGES_DIRECTORY) {
            return Ok(());
        }
        let parent = match &self.path[..self.base] {
            b"" => self.before.clone(),
            above if above.first() == Some(&b'/') => above.to_vec(),
            above => [&self.before[..], above].concat(),
        };
        match parent.is_empty() {
            true => Ok(()),
            false => self.go(&text(&parent)?),
        }
    }
}

/// `ftw` knows less than `nftw`.
fn plain(what: c_int) -> c_int {
    match what {
        LINK => FILE,
        DIRECTORY_LATER => DIRECTORY,
        BROKEN_LINK => UNKNOWN,
        what => what,
    }
}

/// Walks; the working directory is then what it was.
fn walk(path: &CStr, visit: Visit, flags: c_int) -> Outcome<c_int> {
    if flags & !ALL != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut path = path.to_bytes().to_vec();
    while path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    let base = path.iter().rposition(|byte| *byte == b'/');
    let mut walk = Walk {
        visit,
        flags,
        before: Vec::new(),
        base: base.map_or(0, |at| at + 1),
        path,
        level: 0,
        device: 0,
        entered: BTreeSet::new(),
    };
    if !walk.has(CHANGES_DIRECTORY) {
        return walk.root();
    }
    walk.before = [&working()?[..], b"/"].concat();
    let here = here()?;
    let said = walk.go_back().and_then(|()| walk.root());
    // SAFETY: a descriptor of this function's own.
    unsafe {
        fchdir(here);
        super::descriptors::close(here);
    }
    said
}

fn working() -> Outcome<Vec<u8>> {
    // SAFETY: memory that the call makes, and that is freed once.
    unsafe {
        let text = getcwd(std::ptr::null_mut(), 0);
        if text.is_null() {
            return Err(last());
        }
        let bytes = CStr::from_ptr(text).to_bytes().to_vec();
        libc::free(text.cast());
        Ok(bytes)
    }
}

fn here() -> Outcome<c_int> {
    // SAFETY: a text.
    match unsafe {
        super::open::openat(
            libc::AT_FDCWD,
            c".".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
            0,
        )
    } {
        -1 => Err(last()),
        here => Ok(here),
    }
}

/// Walks where the path leads to the drive.
///
/// # Safety
/// The path is a text.
unsafe fn walk_drive(path: *const c_char, visit: Visit, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        match find(libc::AT_FDCWD, path) {
            Found::Machine => None,
            Found::Elsewhere(_) | Found::Drive(_) => {
                Some(number(walk(CStr::from_ptr(path), visit, flags)))
            }
        }
    }
}

hooks! {
    fn ftw(path: *const c_char, visit: Short, descriptors: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        unsafe { walk_drive(path, Visit::Ftw(visit), 0) }.unwrap_or_else(|| next(path, visit, descriptors))
    }

    fn ftw64(path: *const c_char, visit: Short, descriptors: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        unsafe { walk_drive(path, Visit::Ftw(visit), 0) }.unwrap_or_else(|| next(path, visit, descriptors))
    }

    fn nftw(path: *const c_char, visit: Long, descriptors: c_int, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        unsafe { walk_drive(path, Visit::Nftw(visit), flags) }.unwrap_or_else(|| next(path, visit, descriptors, flags))
    }

    fn nftw64(path: *const c_char, visit: Long, descriptors: c_int, flags: c_int) -> c_int, next {
        // SAFETY: the caller's path.
        unsafe { walk_drive(path, Visit::Nftw(visit), flags) }.unwrap_or_else(|| next(path, visit, descriptors, flags))
    }
}
