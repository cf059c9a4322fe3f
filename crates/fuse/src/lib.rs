//! A file system of Wharf's as a directory of this machine, by FUSE.
//!
//! The kernel asks by numbers of files and by names in directories. Each question carries who asks
//! (user, group, and the other groups of the process); a [`Session`](wharf_files::vfs::Session) of
//! that caller answers, which checks permissions: the kernel checks none, and remembers no names
//! and no attributes, so that it asks at every step of a path.
//!
//! | file | idea |
//! |---|---|
//! | `front.rs` | the kernel's questions, each a job for the worker |
//! | `worker.rs` | the one thread that has the file system, the sessions and what is open |
//! | `caller.rs` | who asks |
//! | `convert.rs` | attributes, times, errors and flags as FUSE has them |
//!
//! Not yet: locks beyond this machine's own (the kernel keeps `flock` and `fcntl` locks itself),
//! special files (`EPERM`), several threads, the kernel's cache of written pages, names and
//! attributes that are remembered.

mod caller;
mod convert;
mod front;
mod worker;

use std::io;
use std::path::Path;

use wharf_files::FileSystem;

/// How a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What the list of mounts calls its source.
    pub source: String,
    /// Whether other users than the one who mounts may use it.
    pub allows_other: bool,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
}

/// Mounts what `open` gives on a directory, and serves it until it is unmounted. `open` is called on
/// the thread that the file system stays on; `close` gets it back there at the end.
///
/// # Errors
/// If it cannot be mounted, or `open` or `close` fails.
pub fn mount<F: FileSystem + 'static>(
    directory: &Path,
    options: &MountOptions,
    open: impl FnOnce() -> io::Result<F> + Send + 'static,
    close: impl FnOnce(F) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let (front, worker) = worker::start(open, close)?;
    let served = fuser::mount(front, directory, &convert::config(options));
    // The front has gone with the mount, and so the worker ends.
    let closed = worker
        .join()
        .map_err(|_| io::Error::other("its thread panicked"))?;
    served.and(closed)
}

/// What a future gives that waits for nothing but itself: the file system is on its thread alone,
/// over storage that answers at once.
///
/// # Panics
/// If it waits for something that nobody else can do.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    const POLLS_MAX: u32 = 1_000_000;
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..POLLS_MAX {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the file system waits for ever");
}
