//! Requests of NBD as those of a design's client.

use wharf_host::design::Client;
use wharf_host::error::{DiskFault, IoError};
use wharf_host::span::Extent;
use wharf_nbd::{Answer, Buffer, Errno, Outcome};
use wharf_wire::status::StatusCode;

/// Requests are served in pieces of so many bytes, so that none takes the whole cache.
const PIECE_BYTES: usize = 256 << 10;

/// What an error is to a client of the server.
pub(super) fn errno(error: &IoError) -> Errno {
    match error {
        IoError::Status { status, .. } => match status.code() {
            Some(StatusCode::CapacityExceeded) => Errno::NoSpace,
            Some(StatusCode::NamespaceWriteProtected) => Errno::Perm,
            _ => Errno::Io,
        },
        IoError::Disk(DiskFault::Full) => Errno::NoSpace,
        IoError::System { errno, .. } => Errno::of_system(*errno),
        _ => Errno::Io,
    }
}

/// How a request ended.
pub(super) fn outcome(result: Result<(), IoError>) -> Outcome {
    result
        .map(|()| Answer::Nothing)
        .map_err(|error| errno(&error))
}

/// Fills a buffer.
pub(super) async fn read(client: &impl Client, offset: u64, mut buffer: Buffer) -> Outcome {
    let mut at = offset;
    for piece in buffer.chunks_mut(PIECE_BYTES) {
        let extent = Extent::new(at, piece.len() as u64);
        at += extent.bytes;
        let read = client.read(extent, piece).await;
        read.map_err(|error| errno(&error))?;
    }
    Ok(Answer::Buffer(buffer))
}

/// Writes.
pub(super) async fn write(client: &impl Client, offset: u64, data: &[u8]) -> Result<(), IoError> {
    let mut at = offset;
    for piece in data.chunks(PIECE_BYTES) {
        let extent = Extent::new(at, piece.len() as u64);
        at += extent.bytes;
        client.write(extent, piece).await?;
    }
    Ok(())
}

/// Writes zeros.
pub(super) async fn zero(client: &impl Client, offset: u64, len: u64) -> Result<(), IoError> {
    let zeros = vec![0; len.min(PIECE_BYTES as u64) as usize];
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let step = (end - at).min(PIECE_BYTES as u64);
        let extent = Extent::new(at, step);
        client.write(extent, &zeros[..step as usize]).await?;
        at += step;
    }
    Ok(())
}

/// Makes a change durable, if that was asked for.
pub(super) async fn settle(
    client: &impl Client,
    changed: Result<(), IoError>,
    fua: bool,
) -> Outcome {
    if changed.is_ok() && fua {
        return outcome(client.flush().await);
    }
    outcome(changed)
}
