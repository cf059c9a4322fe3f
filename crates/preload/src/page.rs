//! An open file description, in a page of memory that all processes share which have a descriptor of it.
//!
//! The page is that of a memfd, and a descriptor of the program is one of the memfd, opened with `O_PATH`. So the kernel
//! duplicates and closes it, gives it to children and to other processes, and a call that passes by this library fails
//! with `EBADF` and touches nothing. Whoever finds such a descriptor opens it once more by `/proc/self/fd`, maps the page, and
//! knows all that there is to know.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{self, MemfdFlags, Mode, OFlags};
use rustix::io::DupFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::errno::{Errno, Outcome, last};

/// What the memfds are called: `/proc/self/fd` shows it.
const NAME: &str = wharf::audit::MEMORY_NAME;

/// The same, as a link of `/proc/self/fd` has it.
const LINK: &[u8] = b"/memfd:wharf file (deleted)";

const MAGIC: u64 = u64::from_le_bytes(*b"WHARFOFD");

/// Bytes of the page.
const BYTES: usize = 4096;

/// Bytes of the path that the page has room for.
const PATH_BYTES: usize = BYTES - 64;

/// Tries to have an offset before it is looked whether its holder is there, and each time after that.
const LOOKS: u32 = 1024;

/// What a page stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Use {
    /// An open file or directory.
    File = 1,
    /// The directory where the process is.
    Directory = 2,
}

/// A server, and the number of a file there.
pub(crate) type FileId = (u32, u64);

/// See the [module](self).
#[repr(C)]
pub(crate) struct Page {
    magic: u64,
    /// The number of the file.
    pub(crate) number: u64,
    /// A number of the description's own among all that there are.
    pub(crate) id: u64,
    /// Where the next read or write begins; of a directory, the cookie behind which a listing goes on.
    pub(crate) offset: AtomicU64,
    /// The process that works with the offset; 0 if none does.
    holder: AtomicU32,
    /// `O_ACCMODE`, `O_APPEND` and what else `F_GETFL` shows.
    pub(crate) flags: AtomicU32,
    what: u32,
    is_directory: u32,
    path_bytes: u32,
    /// 1 if the process that served the drive was gone while this was open: what was written may be lost.
    is_lost: AtomicU32,
    /// Of which server of the drive it was opened: what it had is gone with that.
    server: u32,
    reserved: u32,
    path: [u8; PATH_BYTES],
}

const _: () = assert!(size_of::<Page>() == BYTES);

/// A page that is mapped here.
pub(crate) struct Mapped(*mut Page);

// SAFETY: what changes in the page is atomic; all else is written before anybody else sees it.
unsafe impl Send for Mapped {}
// SAFETY: as before.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A new page, and a descriptor of it for the program.
    pub(crate) fn new(
        what: Use,
        (number, server): (u64, u32),
        flags: c_int,
        is_directory: bool,
        path: &[u8],
    ) -> Outcome<(Mapped, OwnedFd)> {
        let memory = fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        fs::ftruncate(&memory, BYTES as u64)?;
        let mapped = Mapped::of_memory(&memory)?;
        // SAFETY: nobody else knows it yet.
        let page = unsafe { &mut *mapped.0 };
        page.magic = MAGIC;
        page.number = number;
        page.server = server;
        page.id = new_id();
        page.flags = AtomicU32::new(flags as u32);
        page.what = what as u32;
        page.is_directory = is_directory.into();
        let bytes = path.len().min(PATH_BYTES);
        page.path_bytes = bytes as u32;
        page.path[..bytes].copy_from_slice(&path[..bytes]);
        let path = fs::open(
            of_process(memory.as_raw_fd()),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // The memory's number is the lowest that was free, which is the program's.
        let mut descriptor = memory;
        match flags & libc::O_CLOEXEC {
            0 => rustix::io::dup2(&path, &mut descriptor)?,
            _ => rustix::io::dup3(&path, &mut descriptor, DupFlags::CLOEXEC)?,
        }
        Ok((mapped, descriptor))
    }

    /// The page behind a descriptor, if it is one of these.
    pub(crate) fn of_descriptor(descriptor: c_int) -> Option<Mapped> {
        if !is_ours(descriptor) {
            return None;
        }
        let how = OFlags::RDWR | OFlags::CLOEXEC;
        let memory = fs::open(of_process(descriptor), how, Mode::empty()).ok()?;
        let bytes = fs::fstat(&memory).ok()?.st_size;
        let is_whole = usize::try_from(bytes).is_ok_and(|bytes| bytes >= BYTES);
        let mapped = is_whole.then(|| Mapped::of_memory(&memory).ok())??;
        (mapped.get().magic == MAGIC).then_some(mapped)
    }

    fn of_memory(memory: &OwnedFd) -> Outcome<Mapped> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, wherever the kernel likes.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                BYTES,
                access,
                MapFlags::SHARED,
                memory,
                0,
            )
        }?;
        Ok(Mapped(at.cast()))
    }

    pub(crate) fn get(&self) -> &Page {
        // SAFETY: it is mapped as long as this is there, and what is not atomic is not written after it was made here.
        unsafe { &*self.0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by this, and nobody borrows it any more.
        let _ = unsafe { munmap(self.0.cast(), BYTES) };
    }
}

impl Page {
    pub(crate) fn what(&self) -> Option<Use> {
        match self.what {
            1 => Some(Use::File),
            2 => Some(Use::Directory),
            _ => None,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.is_directory != 0
    }

    /// The path by which it was opened, from the root of the drive.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..(self.path_bytes as usize).min(PATH_BYTES)]
    }

    pub(crate) fn flags(&self) -> c_int {
        // Each call goes by the flags as it finds them.
        self.flags.load(Ordering::Relaxed) as c_int
    }

    /// The process that served the drive is gone: whoever has it open is to know.
    pub(crate) fn lose(&self) {
        self.is_lost.store(1, Ordering::Relaxed);
    }

    /// Whether what was opened is lost for who uses the drive of this server. A directory has nothing to lose.
    pub(crate) fn is_lost(&self, server: u32) -> bool {
        self.is_lost.load(Ordering::Relaxed) != 0 || !self.is_directory() && self.server != server
    }

    /// Which file it is: the same number is another file of another server.
    pub(crate) fn file(&self) -> FileId {
        (self.server, self.number)
    }

    /// The server of which it was opened.
    pub(crate) fn server(&self) -> u32 {
        self.server
    }

    /// Has the offset for the caller alone until what this gives is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        // SAFETY: no argument.
        let me = unsafe { libc::getpid() } as u32;
        let mut tries = 0u32;
        loop {
            // Acquire: partner of the release in `Held::drop`.
            match self
                .holder
                .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Held(self),
                Err(holder) => {
                    tries += 1;
                    if tries.is_multiple_of(LOOKS) && is_gone(holder) {
                        // It was killed while it held it: what it did is done, or is not.
                        let _ = self.holder.compare_exchange(
                            holder,
                            0,
                            Ordering::Acquire,
                            Ordering::Relaxed,
                        );
                    }
                    match tries {
                        ..64 => std::hint::spin_loop(),
                        64..LOOKS => std::thread::yield_now(),
                        // It waits for the drive, perhaps.
                        LOOKS.. => sleep(),
                    }
                }
            }
        }
    }
}

/// The offset is the caller's.
pub(crate) struct Held<'a>(&'a Page);

impl Held<'_> {
    pub(crate) fn get(&self) -> u64 {
        self.0.offset.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, offset: u64) {
        self.0.offset.store(offset, Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: partner of the acquire in `hold`.
        self.0.holder.store(0, Ordering::Release);
    }
}

/// Whether a process has ended. Its parent may not have asked how yet: the parent itself may be one that waits here.
fn is_gone(process: u32) -> bool {
    // SAFETY: signal 0 is none.
    let is_known = unsafe { libc::kill(process as libc::pid_t, 0) == 0 };
    if !is_known {
        return last() == Errno(libc::ESRCH);
    }
    is_zombie(process).unwrap_or(false)
}

/// Whether all of a process's threads have ended, as `/proc` says.
fn is_zombie(process: u32) -> Option<bool> {
    let path = format!("/proc/{process}/stat");
    let status = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0_u8; 512];
    let bytes = rustix::io::read(&status, &mut text).ok()?;
    // The name may have any bytes, and ends with the last bracket. Behind it is the state, and 17 words on the number of threads: the first
    // one may have ended alone.
    let name_end = text[..bytes].iter().rposition(|byte| *byte == b')')?;
    let mut words = text[name_end..bytes].split(|byte| *byte == b' ').skip(1);
    let is_zombie = words.next()? == b"Z";
    Some(is_zombie && matches!(words.nth(16)?, b"0" | b"1"))
}

/// For a moment.
fn sleep() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    // SAFETY: a time that is there. A signal that ends it early does no harm.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// A number that no other description has.
fn new_id() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    u64::from(std::process::id()) << 32
        | COUNT.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX)
}

/// The name of a descriptor in `/proc`.
pub(crate) fn of_process(descriptor: c_int) -> String {
    format!("/proc/self/fd/{descriptor}")
}

/// Whether a descriptor is of one of these pages, by what the kernel says.
pub(crate) fn is_ours(descriptor: c_int) -> bool {
    fs::readlink(of_process(descriptor), Vec::new()).is_ok_and(|link| link.as_bytes() == LINK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The others waited for as long as its parent did not ask how it ended, and that was for ever where the parent was one of them.
    #[test]
    fn who_was_killed_is_gone_before_its_parent_asks_how() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        assert!(!is_gone(child.id()) && !is_gone(std::process::id()));
        // SAFETY: a signal to a child.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGKILL) };
        let looks = (0..100_000).take_while(|_| !is_gone(child.id())).count();
        assert!(looks < 100_000);
        child.wait().unwrap();
        assert!(is_gone(child.id()));
    }
}
