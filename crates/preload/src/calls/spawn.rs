//! `posix_spawn`, whose child opens files, and changes its directory, from within the C library.
//!
//! What is to be opened of the drive is opened here, when the action is noted, and the child duplicates it. A directory to begin in is handed to the
//! child as its own working directory is: by a descriptor that it finds when it begins.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::Mutex;

use libc::{mode_t, pid_t};

use super::process::{Texts, for_child};
use crate::errno::{Errno, Outcome};
use crate::find::{self, Found, Spot, find};
use crate::next::hooks;
use crate::page::Use;
use crate::table;

unsafe extern "C" {
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int;
    fn posix_spawn_file_actions_addclose(actions: *mut c_void, descriptor: c_int) -> c_int;
}

/// What there is of actions besides what the C library knows.
#[derive(Default)]
struct Noted {
    /// What was opened for them.
    descriptors: Vec<c_int>,
    /// What cannot be opened: the child cannot be made.
    failed: Option<Errno>,
}

/// By the address of the actions, until they are destroyed.
static NOTED: Mutex<BTreeMap<usize, Noted>> = Mutex::new(BTreeMap::new());

fn noted() -> std::sync::MutexGuard<'static, BTreeMap<usize, Noted>> {
    NOTED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes a descriptor that is to be open until actions are destroyed.
fn keep(actions: *mut c_void, descriptor: c_int) {
    let mut noted = noted();
    let own = noted.entry(actions as usize).or_default();
    own.descriptors.push(descriptor);
}

/// Nothing is known of actions any more.
fn forget(actions: *mut c_void) {
    let own = noted().remove(&(actions as usize)).unwrap_or_default();
    for descriptor in own.descriptors {
        // SAFETY: opened for these actions alone.
        unsafe { super::descriptors::close(descriptor) };
    }
}

/// Notes what is to be told when a child is to be made; gives what is told now.
fn tell_later(actions: *mut c_void, outcome: Outcome<c_int>) -> c_int {
    outcome.unwrap_or_else(|errno| {
        let mut noted = noted();
        let own = noted.entry(actions as usize).or_default();
        own.failed.get_or_insert(errno);
        0
    })
}

/// The program of a child: another path, if it is one of the drive.
///
/// # Safety
/// `file` is a text.
unsafe fn program(
    actions: *const c_void,
    file: *const c_char,
    looks_in_path: bool,
) -> Outcome<Option<(CString, OwnedFd)>> {
    if let Some(errno) = noted().get(&(actions as usize)).and_then(|own| own.failed) {
        return Err(errno);
    }
    // SAFETY: the caller's promise.
    unsafe { for_child(file, looks_in_path) }
}

/// The child does not find this process's working directory, if that is on the drive: it begins in another one.
///
/// # Safety
/// The caller's actions.
unsafe fn leave(actions: *mut c_void) {
    if let Some(descriptor) = find::working_descriptor() {
        // SAFETY: the caller's actions. Without memory the child finds both directories, and takes the later one.
        unsafe { posix_spawn_file_actions_addclose(actions, descriptor) };
    }
}

/// The child begins in a directory of the drive.
///
/// # Safety
/// The caller's actions.
unsafe fn begin_in(actions: *mut c_void, spot: &Spot) -> Outcome<c_int> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let (_open, descriptor) = super::open::make(spot, flags, 0, Use::Directory)?;
    let descriptor = find::high(descriptor, true)?.into_raw_fd();
    keep(actions, descriptor);
    // SAFETY: the caller's actions. What is duplicated to itself is open in the program that follows.
    let added = unsafe { posix_spawn_file_actions_adddup2(actions, descriptor, descriptor) };
    Ok(match added {
        // SAFETY: the caller's actions; a text that stays. It has the child leave this process's own directory.
        0 => unsafe { posix_spawn_file_actions_addchdir_np(actions, find::NOWHERE.as_ptr()) },
        errno => errno,
    })
}

hooks! {
    fn posix_spawn_file_actions_addopen(actions: *mut c_void, to: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(actions, to, path, flags, mode),
            Found::Elsewhere(path) => next(actions, to, path.as_ptr(), flags, mode),
            Found::Drive(spot) => {
                let from = super::open::open(&spot, flags | libc::O_CLOEXEC, mode);
                let added = from.map(|from| {
                    keep(actions, from);
                    // SAFETY: the caller's actions.
                    unsafe { posix_spawn_file_actions_adddup2(actions, from, to) }
                });
                tell_later(actions, added)
            }
        }
    }

    fn posix_spawn_file_actions_init(actions: *mut c_void) -> c_int, next {
        // Others may have been here that nobody destroyed.
        forget(actions);
        next(actions)
    }

    fn posix_spawn_file_actions_destroy(actions: *mut c_void) -> c_int, next {
        forget(actions);
        next(actions)
    }

    fn posix_spawn_file_actions_addchdir_np(actions: *mut c_void, path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            // SAFETY: the caller's actions.
            Found::Drive(spot) => tell_later(actions, unsafe { begin_in(actions, &spot) }),
            led => {
                // SAFETY: the caller's actions.
                unsafe { leave(actions) };
                match led {
                    Found::Elsewhere(path) => next(actions, path.as_ptr()),
                    _ => next(actions, path),
                }
            }
        }
    }

    fn posix_spawn_file_actions_addfchdir_np(actions: *mut c_void, descriptor: c_int) -> c_int, next {
        let Some(open) = table::get(descriptor) else {
            // SAFETY: the caller's actions.
            unsafe { leave(actions) };
            return next(actions, descriptor);
        };
        // SAFETY: the caller's actions.
        tell_later(actions, unsafe { begin_in(actions, &Spot::of(open)) })
    }

    fn posix_spawn(child: *mut pid_t, file: *const c_char, actions: *const c_void, how: *const c_void, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { program(actions, file, false) } {
            Ok(None) => next(child, file, actions, how, arguments, environment),
            Ok(Some((path, _memory))) => next(child, path.as_ptr(), actions, how, arguments, environment),
            Err(errno) => errno.0,
        }
    }

    fn posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const c_void, how: *const c_void, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { program(actions, file, true) } {
            Ok(None) => next(child, file, actions, how, arguments, environment),
            Ok(Some((path, _memory))) => next(child, path.as_ptr(), actions, how, arguments, environment),
            Err(errno) => errno.0,
        }
    }
}
