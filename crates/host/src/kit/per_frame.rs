//! Memory in proportion to a cache. The system may refuse it: that is an error of whoever makes the
//! cache, and not the end of the process, as for memory of a few bytes.

use std::io::ErrorKind;

use wharf_wire::dma::RegisterError;

/// A value for each of `frames` frames.
///
/// # Errors
/// If the system has no memory for them.
pub fn per_frame<T>(frames: u32, make: impl FnMut(u32) -> T) -> Result<Vec<T>, RegisterError> {
    let mut all = reserve(frames as usize)?;
    all.extend((0..frames).map(make));
    Ok(all)
}

/// Whether the system would give so many bytes.
///
/// # Errors
/// If not.
pub fn has_room(bytes: u64) -> Result<(), RegisterError> {
    reserve::<u8>(bytes as usize).map(drop)
}

fn reserve<T>(count: usize) -> Result<Vec<T>, RegisterError> {
    let mut all = Vec::new();
    let refused = |_| RegisterError::OutOfMemory {
        bytes: count * size_of::<T>(),
        source: ErrorKind::OutOfMemory.into(),
    };
    all.try_reserve_exact(count).map_err(refused)?;
    Ok(all)
}
