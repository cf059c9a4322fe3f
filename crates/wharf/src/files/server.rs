//! A drive with a file system that this process serves to others.

use std::path::{Path, PathBuf};

use wharf_drive::config::FileSystemKind;
use wharf_host::stor::Stor;

use super::ImageError;
use super::drive::{FileDrive, check};
use super::image::open_drive;
use crate::store::{Store, StoreError};

/// An image that this process has open, on a thread of its own, for other processes of the same user.
///
/// Each of them attaches to the socket ([`Mount::attach`](super::Mount::attach)), and sends the drive commands for
/// files by queue pairs of its own, through memory that it shares with this process. What a process has open when it
/// ends, however it ends, the drive closes.
///
/// Who attaches is trusted with all that is in the image, as whoever may read the image file is.
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
        let store = open_drive(image.as_ref(), |options| {
            let options = options.files(FileSystemKind::Any, None).guests(processes);
            Ok(Store::<Stor>::open(&options)?)
        })?;
        check(store.log().expect("it is a drive with files"))?;
        let socket = socket.into();
        store.share(&socket)?;
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
        FileDrive::over(self.store.client()?)?.end()?;
        match self.store.close() {
            // Who was sent away was told so by the end of its connection.
            Ok(()) | Err(StoreError::ClientsLeft) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
