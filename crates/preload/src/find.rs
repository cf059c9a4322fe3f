//! Where a path of a call leads: the place of the drive, the descriptor that it begins at, and the working directory.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use wharf_files::By;
use wharf_files::vfs::{At, Start};

use crate::drive::{self, Drive, setup};
use crate::errno::{Errno, Outcome};
use crate::place::{Leads, Place, has_parents};
use crate::table::{self, Ref};

/// The least number of a descriptor of this library's own.
pub(crate) const OWN_LEAST: c_int = wharf::audit::OWN_LEAST;

/// Where a path leads.
pub(crate) enum Found {
    /// To the drive.
    Drive(Spot),
    /// To the machine's own files, as the call has it.
    Machine,
    /// To the machine's own files, by another path.
    Elsewhere(CString),
}

/// A path on the drive.
pub(crate) struct Spot {
    /// Where it begins; nothing: at the root.
    from: Option<Ref>,
    path: Vec<u8>,
}

/// The directory of the drive where the process is, with the descriptor that children find it by; none if it is in one of
/// the machine's own.
struct Working {
    open: Ref,
    descriptor: c_int,
}

static WORKING: RwLock<Option<Working>> = RwLock::new(None);

/// Whether the process is in a directory of the drive.
static IS_INSIDE: AtomicBool = AtomicBool::new(false);

/// Whether the machine's working directory has the place of the drive below it: relative paths may lead there.
static IS_ABOVE: AtomicBool = AtomicBool::new(true);

impl Spot {
    /// It, for a request to the drive.
    pub(crate) fn at<'a>(&'a self, drive: &Drive, by: By<'_>) -> Outcome<At<'a>> {
        let from = match &self.from {
            None => Start::Root,
            Some(open) => Start::Handle(drive::handle(drive, by, open)?),
        };
        let path = match (self.path.is_empty(), from) {
            (true, Start::Root) => &b"/"[..],
            (true, _) => &b"."[..],
            (false, _) => &self.path[..],
        };
        Ok(At { from, path })
    }

    /// The same, for a request that changes names.
    ///
    /// A program that had something locked when its server went does not know that it has no lock any more (SQLite removes its
    /// journal, which may be another process's by now): such requests fail until it has closed what it had locked.
    ///
    /// # Errors
    /// `EIO`.
    pub(crate) fn at_to_change<'a>(&'a self, drive: &Drive, by: By<'_>) -> Outcome<At<'a>> {
        match table::has_lost_locks() {
            true => Err(Errno(libc::EIO)),
            false => self.at(drive, by),
        }
    }

    /// Its path from the root, as text.
    pub(crate) fn text(&self) -> Vec<u8> {
        match &self.from {
            Some(open) if self.path.first() != Some(&b'/') => join(open.page().path(), &self.path),
            _ => tidy(&self.path),
        }
    }

    /// A path from the root.
    pub(crate) fn at_root(path: &[u8]) -> Spot {
        Spot {
            from: None,
            path: path.to_vec(),
        }
    }

    /// What is open.
    pub(crate) fn of(open: Ref) -> Spot {
        Spot {
            from: Some(open),
            path: Vec::new(),
        }
    }

    /// The same once more.
    pub(crate) fn again(&self) -> Spot {
        Spot {
            from: self.from.clone(),
            path: self.path.clone(),
        }
    }

    fn root(path: Cow<'_, [u8]>) -> Found {
        Found::Drive(Spot {
            from: None,
            path: path.into_owned(),
        })
    }
}

/// A text of the caller's; `EFAULT` if it is null.
///
/// # Safety
/// `text` is null or a text with a zero at its end.
pub(crate) unsafe fn text_of<'a>(text: *const c_char) -> Outcome<&'a [u8]> {
    match text.is_null() {
        true => Err(Errno(libc::EFAULT)),
        // SAFETY: the caller's promise.
        false => Ok(unsafe { CStr::from_ptr(text) }.to_bytes()),
    }
}

/// Where `path` leads from a directory descriptor, or from the working directory (`AT_FDCWD`).
///
/// # Safety
/// `path` is null or a text with a zero at its end.
pub(crate) unsafe fn find(directory: c_int, path: *const c_char) -> Found {
    let Some(setup) = setup() else {
        return Found::Machine;
    };
    // SAFETY: the caller's promise.
    let Ok(path) = (unsafe { text_of(path) }) else {
        return Found::Machine;
    };
    let led = match directory {
        _ if path.first() == Some(&b'/') => found(setup.place.of(path), None),
        // It is an error, in either half.
        _ if path.is_empty() => Found::Machine,
        libc::AT_FDCWD => from_working(&setup.place, path),
        _ => match table::get(directory) {
            Some(open) => inside(&setup.place, open, path),
            None => from_machine(&setup.place, directory, path),
        },
    };
    match led {
        Found::Drive(spot) => crate::links::resolved(spot),
        led => led,
    }
}

fn found(leads: Leads<'_>, from: Option<Ref>) -> Found {
    match leads {
        Leads::Inside(path) => match from {
            None => Spot::root(path),
            Some(_) => Found::Drive(Spot {
                from,
                path: path.into_owned(),
            }),
        },
        Leads::Outside => Found::Machine,
        Leads::Out(path) => match CString::new(path) {
            Ok(path) => Found::Elsewhere(path),
            Err(_) => Found::Machine,
        },
    }
}

fn inside(place: &Place, open: Ref, path: &[u8]) -> Found {
    let leads = place.inside_from(open.page().path(), path);
    found(leads, Some(open))
}

fn from_working(place: &Place, path: &[u8]) -> Found {
    // Relaxed: a thread that changes the directory and one that goes by it are not in any order.
    if IS_INSIDE.load(Ordering::Relaxed)
        && let Some(working) = &*WORKING
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    {
        return inside(place, working.open.clone(), path);
    }
    if !IS_ABOVE.load(Ordering::Relaxed) && !has_parents(path) {
        return Found::Machine;
    }
    match rustix::process::getcwd(Vec::new()) {
        Ok(directory) => whole(place, directory.to_bytes(), path),
        Err(_) => Found::Machine,
    }
}

fn from_machine(place: &Place, directory: c_int, path: &[u8]) -> Found {
    let first = path
        .split(|byte| *byte == b'/')
        .find(|part| !part.is_empty());
    let may_lead = first.is_some_and(|first| {
        first == b".."
            || first == b"."
            || place
                .text()
                .split(|byte| *byte == b'/')
                .any(|part| part == first)
    });
    if !may_lead && !has_parents(path) {
        return Found::Machine;
    }
    match rustix::fs::readlink(format!("/proc/self/fd/{directory}"), Vec::new()) {
        Ok(directory) => whole(place, directory.to_bytes(), path),
        Err(_) => Found::Machine,
    }
}

fn whole(place: &Place, directory: &[u8], path: &[u8]) -> Found {
    let joined = [directory, b"/", path].concat();
    match place.of(&joined) {
        Leads::Inside(path) => Spot::root(path),
        // The kernel knows better where it is.
        Leads::Outside | Leads::Out(_) => Found::Machine,
    }
}

/// A path from the root: `directory` and then `path`, without what says nothing; `..` by text.
fn join(directory: &[u8], path: &[u8]) -> Vec<u8> {
    tidy(&[directory, b"/", path].concat())
}

fn tidy(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// The working directory as a text from the machine's root, if it is on the drive.
pub(crate) fn working_text() -> Option<Vec<u8>> {
    if !IS_INSIDE.load(Ordering::Relaxed) {
        return None;
    }
    let working = WORKING
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = working.as_ref()?.open.page().path().to_vec();
    Some(place_text(&path))
}

/// A path from the drive's root, as the program has it.
pub(crate) fn place_text(path: &[u8]) -> Vec<u8> {
    let place = setup().map_or(&b""[..], |setup| setup.place.text());
    match path.is_empty() {
        true => place.to_vec(),
        false => [place, b"/", path].concat(),
    }
}

/// The working directory, if it is on the drive.
pub(crate) fn working() -> Option<Ref> {
    let working = WORKING
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    working.as_ref().map(|working| working.open.clone())
}

/// Where the kernel has a process that is in a directory of the drive.
pub(crate) const NOWHERE: &CStr = c"/proc/self/fdinfo";

/// The process goes to a directory of the drive. Children find it by the descriptor.
///
/// The kernel's own idea of where the process is becomes a directory in which next to nothing is found and nothing can be made:
/// what passes by this library is not to take the machine's files for those of the drive.
pub(crate) fn go_inside(open: Ref, descriptor: OwnedFd) {
    use std::os::fd::IntoRawFd;
    // Where it is not there, the process stays where it was.
    let _ = rustix::process::chdir(NOWHERE);
    let descriptor = descriptor.into_raw_fd();
    set(Some(Working { open, descriptor }));
}

/// The process went to a directory of the machine's own.
pub(crate) fn went_outside() {
    let is_above = match (setup(), rustix::process::getcwd(Vec::new())) {
        (Some(setup), Ok(directory)) => {
            let directory = directory.to_bytes();
            directory == b"/"
                || setup
                    .place
                    .text()
                    .strip_prefix(directory)
                    .is_some_and(|rest| rest.first() == Some(&b'/'))
        }
        _ => true,
    };
    IS_ABOVE.store(is_above, Ordering::Relaxed);
    set(None);
}

fn set(new: Option<Working>) {
    IS_INSIDE.store(new.is_some(), Ordering::Relaxed);
    let mut working = WORKING
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = std::mem::replace(&mut *working, new);
    drop(working);
    if let Some(before) = before {
        // SAFETY: this library's own descriptor, which nothing has any more.
        unsafe { rustix::io::close(before.descriptor) };
    }
}

/// The directory's descriptor that children find it by, if it is on the drive.
pub(crate) fn working_descriptor() -> Option<c_int> {
    if !IS_INSIDE.load(Ordering::Relaxed) {
        return None;
    }
    let working = WORKING
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    working.as_ref().map(|working| working.descriptor)
}

/// A descriptor like `descriptor`, with a high number, where few programs look.
pub(crate) fn high(descriptor: OwnedFd, closes_on_exec: bool) -> Outcome<OwnedFd> {
    // SAFETY: it is open as long as this borrows it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor.as_raw_fd()) };
    let made = rustix::io::fcntl_dupfd_cloexec(borrowed, OWN_LEAST);
    let Ok(made) = made else {
        return Ok(descriptor);
    };
    if !closes_on_exec {
        rustix::io::fcntl_setfd(&made, rustix::io::FdFlags::empty())?;
    }
    Ok(made)
}
