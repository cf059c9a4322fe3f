//! File systems in drive images: a mount with a thread of its own, which has the drive and does what any thread of
//! the program asks.

use std::cell::RefCell;
use std::ffi::{CStr, OsStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use wharf::files::{self, File, ImageError, Mount, NewImage};

use crate::error::{Failure, handle, known, status};

/// What the thread of a mount has: the file system, and the open files by descriptor.
pub(crate) struct Served<'m> {
    pub(crate) mount: &'m Mount,
    files: RefCell<Vec<Option<File<'m>>>>,
}

/// Most files that are open at a time.
const FILES_MAX: usize = 1 << 20;

impl<'m> Served<'m> {
    /// Enters an open file: the least number that is free.
    pub(crate) fn enter(&self, file: File<'m>) -> io::Result<i32> {
        let mut files = self.files.borrow_mut();
        let free = files.iter().position(Option::is_none);
        let place = free.unwrap_or(files.len());
        if place >= FILES_MAX {
            return Err(number(libc::ENFILE));
        }
        match free {
            Some(place) => files[place] = Some(file),
            None => files.push(Some(file)),
        }
        Ok(place as i32)
    }

    /// Takes an open file out.
    pub(crate) fn leave(&self, descriptor: i32) -> io::Result<File<'m>> {
        let mut files = self.files.borrow_mut();
        let place = usize::try_from(descriptor)
            .ok()
            .and_then(|at| files.get_mut(at));
        place.and_then(Option::take).ok_or(number(libc::EBADF))
    }

    /// Does something with an open file.
    pub(crate) fn with<T>(
        &self,
        descriptor: i32,
        f: impl FnOnce(&File<'m>) -> io::Result<T>,
    ) -> io::Result<T> {
        let files = self.files.borrow();
        let place = usize::try_from(descriptor)
            .ok()
            .and_then(|at| files.get(at));
        f(place.and_then(Option::as_ref).ok_or(number(libc::EBADF))?)
    }
}

/// The error of a number of `errno`.
pub(crate) fn number(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

type Job = Box<dyn for<'a, 'm> FnOnce(&'a Served<'m>) + Send>;

/// A file system in a drive image. Any number of threads may use it; what they ask is done one after another.
pub struct wharf_mount {
    jobs: Sender<Job>,
    thread: JoinHandle<Result<(), ImageError>>,
}

impl wharf_mount {
    /// What the thread of the mount answers.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        what: impl for<'a, 'm> FnOnce(&'a Served<'m>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (done, answer) = mpsc::channel();
        let job: Job = Box::new(move |served| {
            let _ = done.send(what(served));
        });
        let gone = || Failure::System(number(libc::EIO));
        self.jobs.send(job).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?.map_err(Failure::System)
    }
}

#[allow(clippy::disallowed_methods)] // a thread that belongs to no engine
fn start(image: PathBuf) -> Result<wharf_mount, Failure> {
    let (jobs, to_do) = mpsc::channel::<Job>();
    let (is_open, opened) = mpsc::channel();
    let work = move || {
        let mount = match Mount::open(&image) {
            Ok(mount) => mount,
            Err(error) => {
                let _ = is_open.send(Err(error));
                return Ok(());
            }
        };
        let _ = is_open.send(Ok(()));
        let served = Served {
            mount: &mount,
            files: RefCell::default(),
        };
        to_do.into_iter().for_each(|job| job(&served));
        drop(served);
        mount.close()
    };
    let name = "wharf mount".to_string();
    let thread = std::thread::Builder::new().name(name).spawn(work);
    let thread = thread.map_err(Failure::System)?;
    let gone = || Failure::System(number(libc::EIO));
    opened.recv().map_err(|_| gone())??;
    Ok(wharf_mount { jobs, thread })
}

/// The path that a program hands in.
///
/// # Safety
/// `path` is null or ends with a zero.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a [u8], Failure> {
    if path.is_null() {
        return Err(Failure::argument("the path is NULL"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Makes a drive of `bytes` bytes in a new file, with a file system that belongs to whoever runs the program. 0, or -1:
/// EEXIST if there is a file.
///
/// `image` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_mount_make(image: *const c_char, bytes: u64) -> i32 {
    // SAFETY: the caller's promise.
    let image = unsafe { path(image) };
    status(image.and_then(|image| {
        let image = Path::new(OsStr::from_bytes(image));
        Ok(files::make(image, &NewImage::of_bytes(bytes))?)
    }))
}

/// Opens the file system of an image, with a drive and a thread of its own. NULL if it cannot: EBUSY if somebody has it.
/// The program has the rights of root in it. End it by wharf_mount_close.
///
/// `image` is NULL or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_mount_open(image: *const c_char) -> *mut wharf_mount {
    // SAFETY: the caller's promise.
    let image = unsafe { path(image) };
    handle(image.and_then(|image| start(Path::new(OsStr::from_bytes(image)).to_owned())))
}

/// Closes what is open, makes everything durable and ends the drive, also if it fails. 0, or -1.
///
/// `mount` is NULL or open, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_mount_close(mount: *mut wharf_mount) -> i32 {
    if mount.is_null() {
        return status(Err(Failure::argument("the mount is NULL")));
    }
    // SAFETY: the caller's promise.
    let wharf_mount { jobs, thread } = *unsafe { Box::from_raw(mount) };
    drop(jobs);
    let ended = thread
        .join()
        .map_err(|_| Failure::System(number(libc::EIO)));
    status(ended.and_then(|closed| Ok(closed?)))
}

/// Makes everything durable that was done before. 0, or -1.
///
/// `mount` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wharf_mount_sync(mount: *const wharf_mount) -> i32 {
    // SAFETY: the caller's promise.
    let mount = unsafe { known(mount, "the mount") };
    status(mount.and_then(|mount| mount.ask(|served| served.mount.sync_all())))
}
