//! What is there before a run of files begins.

use super::client::{FileClient, FileError};
use super::{Errno, OpenFlags};
use crate::span::Extent;

/// What is there at the beginning: a path, and the bytes of a file, or none of a directory.
pub type Initially = (Box<[u8]>, Option<u64>);

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Makes what is to be there at the beginning, with zeros in the files, and makes it durable; the number of each.
///
/// # Errors
/// Of the client; `ENOSPC` also if it takes fewer bytes than it was given.
pub async fn make_files<F: FileClient>(
    files: &F,
    all: &[Initially],
) -> Result<Vec<u64>, FileError> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut numbers = Vec::with_capacity(all.len());
    for (path, bytes) in all {
        let Some(bytes) = *bytes else {
            files.mkdir(path, 0o755).await?;
            numbers.push(files.stat(path, false).await?.number);
            continue;
        };
        let opened = files.open(path, OpenFlags::CREATE, 0o644).await?;
        numbers.push(opened.number);
        let mut at = 0;
        while at < bytes {
            let part = (bytes - at).min(CHUNK_BYTES as u64);
            let extent = Extent::new(at, part);
            files
                .write_at(opened.handle, extent, &zeros[..part as usize])
                .await?;
            at += part;
        }
        if files.attributes(opened.handle).await?.bytes != bytes {
            return Err(Errno::ENOSPC.into());
        }
        files.close(opened.handle).await?;
    }
    files.sync_all().await?;
    Ok(numbers)
}
