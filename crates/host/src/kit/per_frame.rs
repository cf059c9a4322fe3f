//! Memory in proportion to a cache. The system may refuse it: that is an error of whoever makes the
//! cache, and not the end of the process, as for memory of a few bytes.

use std::io::ErrorKind;

use wharf_wire::dma::RegisterError;

/// A value for each of `frames` frames.
///
/// # Errors
/// If the system has no memory for them.
pub fn per_frame<T>(frames: u32, make: impl FnMut(u32) -> T) -> Result<Vec<T>, RegisterError> {
    let mut all = Vec::new();
    all.try_reserve_exact(frames as usize)
        .map_err(|_| RegisterError::OutOfMemory {
            bytes: frames as usize * size_of::<T>(),
            source: ErrorKind::OutOfMemory.into(),
        })?;
    all.extend((0..frames).map(make));
    Ok(all)
}
