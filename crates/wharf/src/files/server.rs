//! A drive with a file system that this process serves to others.

use std::path::{Path, PathBuf};

use wharf_drive::config::FileSystemKind;
use wharf_host::stor::Stor;

use super::ImageError;
use super::drive::{FileDrive, check};
use super::image::open_drive;
use crate::store::{Store, StoreError, Terms};

/// How an image is served.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// Processes at a time.
    pub processes: u32,
    /// Permission bits of the socket: who may write to it may attach. 0600 lets in processes of the same user alone, and root's.
    pub socket_mode: u32,
    /// How long claims hold, in nanoseconds, and whether anything may be changed.
    pub terms: Terms,
    /// Memory of the drive's own in which it keeps pages of files, for processes that have both caches
    /// ([`FileDrive::attach_omni`](super::FileDrive::attach_omni)); 0 is none.
    pub drive_cache_bytes: u64,
    /// Most of that for one process; 0 is all.
    pub drive_cache_process_bytes: u64,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            processes: 16,
            socket_mode: 0o600,
            terms: Terms::default(),
            drive_cache_bytes: 0,
            drive_cache_process_bytes: 0,
        }
    }
}

/// An image that this process has open, on a thread of its own, for other processes.
///
/// Each of them attaches to the socket ([`Mount::attach`](super::Mount::attach)), and sends the drive commands for
/// files by queue pairs of its own, through memory that it shares with this process. What a process has open when it
/// ends, however it ends, the drive closes.
///
/// The drive checks who each of them is, by what this process says of it (`docs/security.md`). Processes of this one's user, and root's,
/// may do what root may, as whoever may read the image file does; others what permissions let them do.
pub struct Server {
    store: Store<Stor>,
    socket: PathBuf,
}

impl Server {
    /// Opens an image, and serves it at a socket, made here, to `processes` processes at a time.
    ///
    /// # Errors
    /// If there is no file system, it is damaged, or somebody else has it open; if there can be no socket.
    pub fn open(
        image: impl AsRef<Path>,
        socket: impl Into<PathBuf>,
        processes: u32,
    ) -> Result<Server, ImageError> {
        let how = Serving {
            processes,
            ..Serving::default()
        };
        Server::open_as(image, socket, &how)
    }

    /// The same, with all that can be said of how.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_as(
        image: impl AsRef<Path>,
        socket: impl Into<PathBuf>,
        how: &Serving,
    ) -> Result<Server, ImageError> {
        let store = open_drive(image.as_ref(), |options| {
            let options = options
                .files(FileSystemKind::Any, None)
                .near(how.drive_cache_bytes, how.drive_cache_process_bytes)
                .guests(how.processes);
            Ok(Store::<Stor>::open(&options)?)
        })?;
        check(store.log().expect("it is a drive with files"))?;
        let socket = socket.into();
        store.share_on(&socket, how.socket_mode, how.terms)?;
        Ok(Server { store, socket })
    }

    /// Where others attach.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends away who is still there, closes what they have open, and makes everything durable.
    ///
    /// # Errors
    /// Of the drive.
    pub fn close(self) -> Result<(), ImageError> {
        self.store.end_sharing();
        FileDrive::over(self.store.client()?, None)?.end()?;
        match self.store.close() {
            // Who was sent away was told so by the end of its connection.
            Ok(()) | Err(StoreError::ClientsLeft) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
