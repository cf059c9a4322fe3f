//! Mounting a file system on a directory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use fuser::Session;
use rustix::mount::UnmountFlags;
use wharf_files::vfs::Service;

use crate::front::Front;
use crate::memory::{Kernel, Memory, forget_names};
use crate::options::MountOptions;
use crate::{convert, worker};

/// Unmounts what is mounted on a directory, as root or by `fusermount3`.
///
/// # Errors
/// What the system says: `EBUSY` if somebody uses it.
pub fn unmount(directory: &Path) -> io::Result<()> {
    match rustix::mount::unmount(directory, UnmountFlags::empty()) {
        Err(rustix::io::Errno::PERM) => {}
        done => return Ok(done?),
    }
    let mut helper = Command::new("fusermount3");
    let done = helper.arg("-u").arg("--").arg(directory).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&done.stderr).trim().to_string(),
        )),
    }
}

/// Mounts what `open` gives on a directory, and serves it until it is unmounted. `open` is called on
/// the thread that the file system stays on; `mounted` when the directory shows it; `close` gets it
/// back on its thread at the end.
///
/// # Errors
/// If it cannot be mounted, or `open` or `close` fails.
pub fn mount<S: Service + 'static>(
    directory: &Path,
    options: &MountOptions,
    open: impl FnOnce() -> io::Result<S> + Send + 'static,
    mounted: impl FnOnce(),
    close: impl FnOnce(S) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let kernel = Kernel::default();
    let only_root = !options.allows_other && rustix::process::geteuid().is_root();
    let told = kernel.clone();
    let memory = move |is_shared| Memory::new(only_root, is_shared, told);
    let worker = worker::start(memory, open, close)?;
    let front = Front::new(worker.jobs, worker.is_shared);
    let session = Session::new(front, directory, &convert::config(options));
    let served = session.and_then(|session| {
        // Before the first question: what the kernel does not understand is not relied upon.
        let channel = session.as_fd().try_clone_to_owned().ok();
        let understands = |channel: &OwnedFd| forget_names(channel).is_ok();
        let _ = kernel.set(channel.filter(understands));
        mounted();
        session.run()
    });
    // The front has gone with the mount, and so the worker ends.
    let closed = worker
        .thread
        .join()
        .map_err(|_| io::Error::other("its thread panicked"))?;
    served.and(closed)
}
