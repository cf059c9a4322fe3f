//! How long names are, and how far a walk goes: the limits of Linux.

use crate::errno::Errno;

/// Longest component of a path, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest path, in bytes; also longest target of a symbolic link.
pub const PATH_BYTES_MAX: usize = 4095;

/// Most symbolic links that are followed on one walk.
pub const SYMLINKS_MAX: u32 = 40;

/// Where a listing of a directory begins.
pub const LIST_START: u64 = 0;

/// Longest name of an extended attribute, with its `user.`, in bytes.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// Longest value of an extended attribute, in bytes. A file system may have less room (`ENOSPC`).
pub const XATTR_VALUE_BYTES_MAX: usize = 65_536;

/// Bytes of a page: the unit of holes.
pub const PAGE_BYTES: u64 = 4096;

/// Longest file of any file system: offsets are below 2^63 as in Linux.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Refuses what can be no name of an entry.
///
/// # Errors
/// `EINVAL` if it is empty, `.` or `..`, or has `/` or zero in it; `ENAMETOOLONG`.
pub fn check_name(name: &[u8]) -> Result<(), Errno> {
    let is_special = matches!(name, b"" | b"." | b"..");
    if is_special || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Errno::EINVAL);
    }
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(Errno::ENAMETOOLONG),
    }
}
