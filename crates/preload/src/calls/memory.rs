//! Mappings of files of the drive.
//!
//! * Private ones, and shared ones that are only read, are copies: what changes in the file later does not show.
//! * Shared ones that are written are copies too, of which what was changed goes back to the file by `msync` and `munmap`,
//!   and when the process ends. They are this process's own: another one that maps the file does not see it before that.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{off_t, size_t};

use super::data::{bytes, read_at, write_at};
use crate::errno::{Errno, Outcome, set, zero};
use crate::next::hooks;
use crate::table::{self, Ref};

const PAGE: usize = 4096;

/// A mapping whose changes go back to its file.
struct Written {
    bytes: usize,
    open: Ref,
    offset: u64,
    /// What the file had, as far as is known.
    known: Vec<u8>,
}

/// By their addresses.
static WRITTEN: Mutex<BTreeMap<usize, Written>> = Mutex::new(BTreeMap::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn written() -> std::sync::MutexGuard<'static, BTreeMap<usize, Written>> {
    WRITTEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Fills memory from a file; behind its end there are zeros.
fn fill(open: &Ref, offset: u64, out: &mut [u8]) -> Outcome<()> {
    let mut done = 0;
    while done < out.len() {
        match read_at(open, offset + done as u64, &mut out[done..])? {
            0 => break,
            now => done += now,
        }
    }
    Ok(())
}

impl Written {
    /// Brings back what was changed of the mapping at `at`, as far as the file goes.
    fn bring_back(&mut self, at: usize) -> Outcome<()> {
        let file = bytes(&self.open)?;
        let end = (file.saturating_sub(self.offset) as usize).min(self.bytes);
        // SAFETY: mapped by `map`, and taken out before it is unmapped.
        let memory = unsafe { std::slice::from_raw_parts(at as *const u8, end) };
        for (now, before) in memory.chunks(PAGE).zip(0..) {
            let known = &mut self.known[before * PAGE..before * PAGE + now.len()];
            if known != now {
                let to = self.offset + (before * PAGE) as u64;
                write_at(&self.open, to, now, false)?;
                known.copy_from_slice(now);
            }
        }
        Ok(())
    }
}

/// Brings everything back, when the process ends.
extern "C" fn at_end() {
    for (at, mapping) in written().iter_mut() {
        let _ = mapping.bring_back(*at);
    }
}

fn check(open: &Ref, access: c_int, flags: c_int, offset: off_t) -> Outcome<()> {
    let page = open.page();
    if page.is_directory() {
        return Err(Errno(libc::ENODEV));
    }
    if offset < 0 || offset as usize % PAGE != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mode = page.flags() & libc::O_ACCMODE;
    let is_written = access & libc::PROT_WRITE != 0 && flags & libc::MAP_PRIVATE == 0;
    match mode == libc::O_WRONLY || is_written && mode != libc::O_RDWR {
        true => Err(Errno(libc::EACCES)),
        false => Ok(()),
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
        let failed = |errno| {
            set(errno);
            libc::MAP_FAILED
        };
        if let Err(errno) = check(&open, access, flags, offset) {
            return failed(errno);
        }
        let is_shared = flags & libc::MAP_PRIVATE == 0;
        let kept = flags & !(libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE | libc::MAP_PRIVATE | libc::MAP_SYNC);
        let flags = kept | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped = next(at, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if mapped == libc::MAP_FAILED {
            return mapped;
        }
        // SAFETY: mapped above, for nobody else yet.
        let memory = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u8>(), bytes) };
        if let Err(errno) = fill(&open, offset as u64, memory) {
            // SAFETY: mapped above.
            unsafe { libc::munmap(mapped, bytes) };
            return failed(errno);
        }
        if is_shared && open.page().flags() & libc::O_ACCMODE == libc::O_RDWR {
            if COUNT.fetch_add(1, Ordering::Relaxed) == 0 {
                // SAFETY: a function that may be called when the process ends.
                unsafe { libc::atexit(at_end) };
            }
            let mapping = Written { bytes, offset: offset as u64, known: memory.to_vec(), open };
            written().insert(mapped as usize, mapping);
        }
        // SAFETY: mapped above.
        if access != libc::PROT_READ | libc::PROT_WRITE && unsafe { libc::mprotect(mapped, bytes, access) } < 0 {
            return failed(crate::errno::last());
        }
        mapped
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
        let mut written = written();
        let from = at as usize;
        let found = written.range_mut(..from + bytes).next_back();
        let Some((begin, mapping)) = found.filter(|(begin, mapping)| *begin + mapping.bytes > from) else {
            drop(written);
            return next(at, bytes, flags);
        };
        let back = mapping.bring_back(*begin);
        zero(back.and_then(|()| match flags & libc::MS_SYNC {
            0 => Ok(()),
            _ => super::storage::make_durable(&mapping.open, true),
        }))
    }

    fn munmap(at: *mut c_void, bytes: size_t) -> c_int, next {
        if COUNT.load(Ordering::Relaxed) > 0 {
            let mut written = written();
            let from = at as usize;
            let inside: Vec<usize> = written.range(from..from.saturating_add(bytes)).map(|(begin, _)| *begin).collect();
            for begin in inside {
                if let Some(mut mapping) = written.remove(&begin) {
                    // As with the kernel's, an error is told to whoever syncs.
                    let _ = mapping.bring_back(begin);
                }
            }
        }
        next(at, bytes)
    }
}
