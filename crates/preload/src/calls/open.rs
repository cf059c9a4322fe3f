//! Opening.

use std::ffi::{c_char, c_int};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::mode_t;
use wharf_files::vfs::{Opened, Service};
use wharf_files::{By, Kind, OpenFlags, Special, block_on};

use crate::convert::open_flags;
use crate::drive::{Drive, complain, life, server, to_raw, with};
use crate::errno::{Errno, Outcome, number};
use crate::find::{Found, Spot, find};
use crate::next::hooks;
use crate::page::{Mapped, Use};
use crate::table::{self, Ref};

/// The bits that new files do not get; all bits set before they are known.
static UMASK: AtomicU32 = AtomicU32::new(u32::MAX);

/// The permission bits of a new file.
pub(crate) fn masked(mode: mode_t) -> u16 {
    let mut mask = UMASK.load(Ordering::Relaxed);
    if mask == u32::MAX {
        mask = process_umask();
        UMASK.store(mask, Ordering::Relaxed);
    }
    (mode & 0o7777 & !mask) as u16
}

fn process_umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

/// What is opened of the drive by a path: a reference, and the descriptor that it is put under.
pub(crate) fn open(spot: &Spot, flags: c_int, mode: mode_t) -> Outcome<c_int> {
    let (open, descriptor) = make(spot, flags, mode, Use::File).inspect_err(|errno| {
        if *errno == Errno(libc::ENXIO) {
            refuse(spot);
        }
    })?;
    if flags & libc::O_TRUNC != 0 {
        super::memory::after_truncation(&open, 0);
    }
    let descriptor = descriptor.into_raw_fd();
    match table::put(descriptor, open) {
        true => Ok(descriptor),
        false => {
            // SAFETY: made above, and nobody else has it.
            unsafe { rustix::io::close(descriptor) };
            Err(Errno(libc::EMFILE))
        }
    }
}

/// Says why a pipe or a device of the drive is not opened. (A socket is not by any file system.)
fn refuse(spot: &Spot) {
    let kind = super::attributes::of_spot(spot.again(), true).map(|found| found.kind);
    if let Ok(Kind::Special(special)) = kind
        && special != Special::Socket
    {
        crate::audit::refused("open of a pipe or a device");
        complain("pipes and devices of a drive cannot be opened: use `wharf mount`");
    }
}

/// What is opened of the drive, and a descriptor of it.
pub(crate) fn make(
    spot: &Spot,
    flags: c_int,
    mode: mode_t,
    what: Use,
) -> Outcome<(Ref, std::os::fd::OwnedFd)> {
    let how = open_flags(flags)?;
    let mode = if how.create { masked(mode) } else { 0 };
    let (opened, server, life) = with(|drive, by| {
        let opened = match table::has_lost_locks() {
            true => open_unchanged(drive, by, spot, how)?,
            false => block_on(drive.open(by, spot.at(drive, by)?, how, mode))?,
        };
        Ok((opened, server(drive), life()))
    })?;
    let found = opened.attributes;
    let is_directory = found.kind == Kind::Directory;
    let shown = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY);
    let made = Mapped::new(
        what,
        (found.number, server),
        shown,
        is_directory,
        &spot.text(),
    );
    match made {
        Ok((mapped, descriptor)) => Ok((Ref::new(mapped, to_raw(opened.handle), life), descriptor)),
        Err(errno) => {
            let _ = with(|drive, _| Ok(block_on(drive.close(opened.handle))?));
            Err(errno)
        }
    }
}

/// Opens what is there, for a program that may change no names ([`Spot::at_to_change`]): many ask for it to be made, if it is not.
fn open_unchanged(drive: &Drive, by: By<'_>, spot: &Spot, how: OpenFlags) -> Outcome<Opened> {
    if how.truncate || how.create && how.exclusive {
        spot.at_to_change(drive, by)?;
    }
    let there = OpenFlags {
        create: false,
        ..how
    };
    match block_on(drive.open(by, spot.at(drive, by)?, there, 0)) {
        Err(error) if how.create && error.errno() == wharf_files::Errno::ENOENT => {
            Err(Errno(libc::EIO))
        }
        opened => Ok(opened?),
    }
}

/// Whether `open` reads its third argument.
fn makes(flags: c_int) -> bool {
    flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE
}

hooks! {
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
        let mode = if makes(flags) { mode } else { 0 };
        // SAFETY: the caller's path.
        match unsafe { find(directory, path) } {
            Found::Machine => next(directory, path, flags, mode),
            Found::Elsewhere(path) => next(libc::AT_FDCWD, path.as_ptr(), flags, mode),
            Found::Drive(spot) => number(open(&spot, flags, mode)),
        }
    }

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
        let mode = if makes(flags) { mode } else { 0 };
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path, flags, mode),
            Found::Elsewhere(path) => next(path.as_ptr(), flags, mode),
            Found::Drive(spot) => number(open(&spot, flags, mode)),
        }
    }

    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { openat(directory, path, flags | libc::O_LARGEFILE, mode) }
    }

    fn creat(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { open64(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
    }

    fn creat64(path: *const c_char, mode: mode_t) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { open64(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
    }

    fn __open_2(path: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { open64(path, flags, 0) }
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { open64(path, flags, 0) }
    }

    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { openat(directory, path, flags, 0) }
    }

    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { openat(directory, path, flags, 0) }
    }

    fn umask(mask: mode_t) -> mode_t, next {
        UMASK.store(mask & 0o777, Ordering::Relaxed);
        next(mask)
    }
}

/// The C library's `open` by its name: this library's own code is named otherwise.
mod named {
    use super::*;

    hooks! {
        fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
            // SAFETY: as the caller's.
            unsafe { open64(path, flags, mode) }
        }
    }
}
