//! `posix_spawn`, whose child opens files from within the C library.
//!
//! What is to be opened of the drive is opened here, when the action is noted, and the child duplicates it.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use libc::{mode_t, pid_t};

use super::process::{Texts, for_child};
use crate::drive::complain;
use crate::find::{Found, find};
use crate::next::hooks;

unsafe extern "C" {
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int;
}

/// What was opened for actions, by their address, until they are destroyed.
static OPENED: Mutex<BTreeMap<usize, Vec<c_int>>> = Mutex::new(BTreeMap::new());

fn opened() -> std::sync::MutexGuard<'static, BTreeMap<usize, Vec<c_int>>> {
    OPENED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

hooks! {
    fn posix_spawn_file_actions_addopen(actions: *mut c_void, to: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(actions, to, path, flags, mode),
            Found::Elsewhere(path) => next(actions, to, path.as_ptr(), flags, mode),
            Found::Drive(spot) => match super::open::open(&spot, flags | libc::O_CLOEXEC, mode) {
                Ok(from) => {
                    opened().entry(actions as usize).or_default().push(from);
                    // SAFETY: the caller's actions.
                    unsafe { posix_spawn_file_actions_adddup2(actions, from, to) }
                }
                Err(errno) => errno.0,
            },
        }
    }

    fn posix_spawn_file_actions_destroy(actions: *mut c_void) -> c_int, next {
        let all = opened().remove(&(actions as usize));
        for descriptor in all.into_iter().flatten() {
            // SAFETY: opened above, for these actions alone.
            unsafe { super::descriptors::close(descriptor) };
        }
        next(actions)
    }

    fn posix_spawn_file_actions_addchdir_np(actions: *mut c_void, path: *const c_char) -> c_int, next {
        // SAFETY: the caller's path.
        match unsafe { find(libc::AT_FDCWD, path) } {
            Found::Machine => next(actions, path),
            Found::Elsewhere(path) => next(actions, path.as_ptr()),
            Found::Drive(_) => {
                crate::audit::refused("posix_spawn_file_actions_addchdir_np");
                complain("posix_spawn cannot begin in a directory of a drive: use `wharf mount`");
                libc::ENOSYS
            }
        }
    }

    fn posix_spawn(child: *mut pid_t, file: *const c_char, actions: *const c_void, how: *const c_void, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { for_child(file, false) } {
            Ok(None) => next(child, file, actions, how, arguments, environment),
            Ok(Some((path, _memory))) => next(child, path.as_ptr(), actions, how, arguments, environment),
            Err(errno) => errno.0,
        }
    }

    fn posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const c_void, how: *const c_void, arguments: Texts, environment: Texts) -> c_int, next {
        // SAFETY: the caller's texts.
        match unsafe { for_child(file, true) } {
            Ok(None) => next(child, file, actions, how, arguments, environment),
            Ok(Some((path, _memory))) => next(child, path.as_ptr(), actions, how, arguments, environment),
            Err(errno) => errno.0,
        }
    }
}
