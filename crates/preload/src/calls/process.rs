//! Forks, programs, the working directory, users.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use libc::{gid_t, pid_t, size_t, uid_t};
use rustix::fs::MemfdFlags;

use super::attributes::of_spot;
use super::data::read_at;
use crate::errno::{Errno, Outcome, number, pointer, zero};
use crate::find::{self, Found, Spot, find, place_text, text_of, working_text};
use crate::links::{self, Resolve};
use crate::next::hooks;
use crate::page::Use;
use crate::table::{self, Ref};

fn change_directory(spot: &Spot) -> Outcome<()> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let (open, descriptor) = super::open::make(spot, flags, 0, Use::Directory)?;
    find::go_inside(open, find::high(descriptor, false)?);
    Ok(())
}

/// A text in memory that the caller gave, or that it frees.
///
/// # Safety
/// `room` is null, or there are `bytes` bytes.
unsafe fn give_text(text: &[u8], room: *mut c_char, bytes: size_t) -> Outcome<*mut c_char> {
    let needed = text.len() + 1;
    // SAFETY: the caller's promise; memory of that size.
    unsafe {
        let to = match (room.is_null(), bytes) {
            (true, 0) => libc::malloc(needed).cast(),
            (true, bytes) if bytes >= needed => libc::malloc(bytes).cast(),
            (false, 0) => return Err(Errno(libc::EINVAL)),
            (false, bytes) if bytes >= needed => room,
            _ => return Err(Errno(libc::ERANGE)),
        };
        if to.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
        to.add(text.len()).write(0);
        Ok(to)
    }
}

/// A path without links, for what a path of the drive names; of the machine's own where a link leads there.
fn resolve(spot: &Spot) -> Outcome<CString> {
    match links::resolve(spot, Resolve::All)? {
        Found::Elsewhere(path) => Ok(path),
        Found::Machine => Err(Errno(libc::ENOENT)),
        Found::Drive(found) => {
            of_spot(found.again(), false)?;
            CString::new(place_text(&found.text())).map_err(|_| Errno(libc::EINVAL))
        }
    }
}

fn is_in_place(path: &CStr) -> bool {
    // SAFETY: a text.
    let found = unsafe { find(libc::AT_FDCWD, path.as_ptr()) };
    matches!(found, Found::Drive(_))
}

/// A program of the drive, in memory of this machine: the kernel runs nothing else.
pub(crate) fn in_memory(open: &Ref) -> Outcome<OwnedFd> {
    let memory = rustix::fs::memfd_create("wharf program", MemfdFlags::CLOEXEC)?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let bytes = read_at(open, offset, &mut buffer)?;
        if bytes == 0 {
            return Ok(memory);
        }
        let mut rest = &buffer[..bytes];
        while !rest.is_empty() {
            let written = rustix::io::write(&memory, rest)?;
            rest = &rest[written..];
        }
        offset += bytes as u64;
    }
}

/// What is to be run for a file of the drive.
enum Program {
    /// A copy of it in memory.
    Memory(OwnedFd),
    /// The interpreter that its first line names, with an argument.
    Script(CString, Option<CString>),
}

fn program(spot: &Spot) -> Outcome<Program> {
    let found = of_spot(spot.again(), true)?;
    if found.is_directory() || found.mode & 0o111 == 0 {
        return Err(Errno(libc::EACCES));
    }
    let (open, _descriptor) =
        super::open::make(spot, libc::O_RDONLY | libc::O_CLOEXEC, 0, Use::File)?;
    let mut head = [0; 256];
    let bytes = read_at(&open, 0, &mut head)?;
    let Some(line) = head[..bytes].strip_prefix(b"#!") else {
        return in_memory(&open).map(Program::Memory);
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.trim_ascii();
    let (interpreter, argument) = match line.iter().position(u8::is_ascii_whitespace) {
        Some(at) => (&line[..at], Some(line[at..].trim_ascii())),
        None => (line, None),
    };
    if interpreter.is_empty() {
        return Err(Errno(libc::ENOEXEC));
    }
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno(libc::ENOEXEC));
    Ok(Program::Script(
        text(interpreter)?,
        argument.map(text).transpose()?,
    ))
}

/// Arguments, or an environment.
pub(crate) type Texts = *const *const c_char;

/// Runs a program of the drive in the place of this one; comes back only with an error.
///
/// # Safety
/// The arguments and the environment end with null.
unsafe fn run(wanted: &Wanted, arguments: Texts, environment: Texts) -> Outcome<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        match program(&wanted.spot)? {
            Program::Memory(memory) => {
                libc::fexecve(memory.as_raw_fd(), arguments.cast(), environment.cast());
                Err(crate::errno::last())
            }
            Program::Script(interpreter, argument) => {
                let mut all = vec![interpreter.as_ptr()];
                all.extend(argument.as_ref().map(|text| text.as_ptr()));
                all.push(wanted.path.as_ptr());
                let mut at = arguments;
                while !arguments.is_null() && !(*at).is_null() {
                    at = at.add(1);
                    if !(*at).is_null() {
                        all.push(*at);
                    }
                }
                all.push(ptr::null());
                execve(interpreter.as_ptr(), all.as_ptr(), environment);
                Err(crate::errno::last())
            }
        }
    }
}

unsafe extern "C" {
    /// The environment, as the C library has it.
    static environ: Texts;
}

/// A file of the drive that is to be run.
struct Wanted {
    spot: Spot,
    /// As it was named: a script is told this.
    path: CString,
}

/// The file that `PATH` leads to for a name without a slash, if a directory of the drive has it first.
///
/// # Safety
/// `file` is a text.
unsafe fn in_path(file: *const c_char) -> Option<Wanted> {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes();
    let setup = crate::drive::setup()?;
    if name.contains(&b'/') || name.is_empty() {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    use std::os::unix::ffi::OsStrExt;
    let directories = path.as_bytes().split(|byte| *byte == b':');
    for directory in directories {
        let whole = CString::new([directory, b"/", name].concat()).ok()?;
        if !directory.starts_with(setup.place.text()) && find::working().is_none() {
            if rustix::fs::access(&whole, rustix::fs::Access::EXEC_OK).is_ok() {
                return None;
            }
            continue;
        }
        // SAFETY: a text.
        match unsafe { find(libc::AT_FDCWD, whole.as_ptr()) } {
            Found::Drive(spot)
                if of_spot(spot.again(), true).is_ok_and(|found| found.mode & 0o111 != 0) =>
            {
                return Some(Wanted { spot, path: whole });
            }
            Found::Machine if rustix::fs::access(&whole, rustix::fs::Access::EXEC_OK).is_ok() => {
                return None;
            }
            _ => {}
        }
    }
    None
}

/// A file that is to be run, if it is one of the drive.
///
/// # Safety
/// `file` is a text, or null.
unsafe fn wanted(file: *const c_char, looks_in_path: bool) -> Option<Wanted> {
    // SAFETY: the caller's promise.
    unsafe {
        crate::drive::setup()?;
        let has_slash = text_of(file).ok()?.contains(&b'/');
        match looks_in_path && !has_slash {
            true => in_path(file),
            false => match find(libc::AT_FDCWD, file) {
                Found::Drive(spot) => Some(Wanted {
                    spot,
                    path: CStr::from_ptr(file).into(),
                }),
                Found::Machine | Found::Elsewhere(_) => None,
            },
        }
    }
}

/// A path by which another process finds the program: of the machine's memory for one of the drive.
///
/// # Safety
/// `file` is a text.
pub(crate) unsafe fn for_child(
    file: *const c_char,
    looks_in_path: bool,
) -> Outcome<Option<(CString, OwnedFd)>> {
    // SAFETY: the caller's promise.
    let Some(wanted) = (unsafe { wanted(file, looks_in_path) }) else {
        return Ok(None);
    };
    match program(&wanted.spot)? {
        Program::Memory(memory) => {
            let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
            Ok(Some((
                CString::new(path).map_err(|_| Errno(libc::EINVAL))?,
                memory,
            )))
        }
        // The interpreter would have to be given other arguments.
        Program::Script(..) => Err(Errno(libc::ENOEXEC)),
    }
}

hooks! {
    fn vfork() -> pid_t, next {
        // The child would share this process's queues until it runs a program.
        // SAFETY: as the caller's.
        unsafe { libc::fork() }
    }

    fn execve(file: *const c_char, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { wanted(file, false) } {
            None => next(file, arguments, environment),
            // SAFETY: the caller's texts.
            Some(wanted) => number(unsafe { run(&wanted, arguments, environment) }),
        }
    }

    fn execv(file: *const c_char, arguments: Texts) -> c_int, next {
        // SAFETY: as the caller's.
        unsafe { execve(file, arguments, environ) }
    }

    fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { wanted(file, true) } {
            None => next(file, arguments, environment),
            // SAFETY: the caller's texts.
            Some(wanted) => number(unsafe { run(&wanted, arguments, environment) }),
        }
    }

    fn execvp(file: *const c_char, arguments: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { wanted(file, true) } {
            None => next(file, arguments),
            // SAFETY: the caller's texts.
            Some(wanted) => number(unsafe { run(&wanted, arguments, environ) }),
        }
    }

    fn chdir(path: *const c_char) -> c_int, next {
        let to = |path| {
            let went = next(path);
            if went == 0 {
                find::went_outside();
            }
            went
        };
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => to(path),
            Found::Elsewhere(path) => to(path.as_ptr()),
            Found::Drive(spot) => zero(change_directory(&spot)),
        }
    }

    fn fchdir(descriptor: c_int) -> c_int, next {
        match table::get(descriptor) {
            None => {
                let went = next(descriptor);
                if went == 0 {
                    find::went_outside();
                }
                went
            }
            Some(open) => zero(change_directory(&Spot::of(open))),
        }
    }

    fn getcwd(room: *mut c_char, bytes: size_t) -> *mut c_char, next {
        match working_text() {
            None => next(room, bytes),
            // SAFETY: the caller's room.
            Some(text) => pointer(unsafe { give_text(&text, room, bytes) }),
        }
    }

    fn get_current_dir_name() -> *mut c_char, next {
        match working_text() {
            None => next(),
            // SAFETY: no room.
            Some(text) => pointer(unsafe { give_text(&text, ptr::null_mut(), 0) }),
        }
    }

    fn realpath(path: *const c_char, room: *mut c_char) -> *mut c_char, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path, room),
            Found::Elsewhere(path) => next(path.as_ptr(), room),
            Found::Drive(spot) => match resolve(&spot) {
                // The rest of it is the machine's own.
                Ok(path) if !is_in_place(&path) => next(path.as_ptr(), room),
                resolved => pointer(resolved.and_then(|text| {
                    let bytes = if room.is_null() { 0 } else { libc::PATH_MAX as size_t };
                    // SAFETY: the caller's room.
                    unsafe { give_text(text.to_bytes(), room, bytes) }
                })),
            },
        }
    }

    fn __realpath_chk(path: *const c_char, room: *mut c_char, bytes: size_t) -> *mut c_char, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(path, room, bytes),
            // SAFETY: as the caller's.
            _ => unsafe { realpath(path, room) },
        }
    }

    fn canonicalize_file_name(path: *const c_char) -> *mut c_char, next {
        // SAFETY: as the caller's.
        unsafe { realpath(path, ptr::null_mut()) }
    }

    fn setuid(uid: uid_t) -> c_int, next {
        crate::drive::changed_user(next(uid))
    }

    fn seteuid(uid: uid_t) -> c_int, next {
        crate::drive::changed_user(next(uid))
    }

    fn setreuid(real: uid_t, effective: uid_t) -> c_int, next {
        crate::drive::changed_user(next(real, effective))
    }

    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int, next {
        crate::drive::changed_user(next(real, effective, saved))
    }

    fn setgid(gid: gid_t) -> c_int, next {
        crate::drive::changed_user(next(gid))
    }

    fn setegid(gid: gid_t) -> c_int, next {
        crate::drive::changed_user(next(gid))
    }

    fn setregid(real: gid_t, effective: gid_t) -> c_int, next {
        crate::drive::changed_user(next(real, effective))
    }

    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int, next {
        crate::drive::changed_user(next(real, effective, saved))
    }

    fn setgroups(count: size_t, groups: *const gid_t) -> c_int, next {
        crate::drive::changed_user(next(count, groups))
    }

    fn initgroups(user: *const c_char, group: gid_t) -> c_int, next {
        crate::drive::changed_user(next(user, group))
    }
}
