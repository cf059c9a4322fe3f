//! Mounting a file system on a directory.

use std::io;
use std::path::Path;

use wharf_files::FileSystem;

use crate::front::Front;
use crate::options::MountOptions;
use crate::{convert, worker};

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
    let (jobs, worker) = worker::start(open, close)?;
    let served = fuser::mount(Front::new(jobs), directory, &convert::config(options));
    // The front has gone with the mount, and so the worker ends.
    let closed = worker
        .join()
        .map_err(|_| io::Error::other("its thread panicked"))?;
    served.and(closed)
}
