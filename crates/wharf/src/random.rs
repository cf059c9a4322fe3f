//! What nobody can guess, and nobody else has.

use std::fs::File;
use std::io::{self, Read};

/// Where the system has it.
pub(crate) const SOURCE: &str = "/dev/urandom";

/// Bytes of it.
///
/// # Errors
/// If the system has none.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open(SOURCE)?.read_exact(&mut bytes)?;
    Ok(bytes)
}
