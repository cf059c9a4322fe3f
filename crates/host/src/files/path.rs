//! Paths: their components, and where a walk along one ends.

use super::Errno;
use wharf_files::PATH_BYTES_MAX;

/// What the last component of a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Name,
    Root,
    Dot,
    DotDot,
}

/// Where a walk ended.
pub(super) struct Found {
    pub(super) directory: u64,
    pub(super) name: Box<[u8]>,
    pub(super) last: Last,
    pub(super) number: Option<u64>,
    /// Whether the path ended in `/`.
    pub(super) slash: bool,
}

/// How a walk treats a symbolic link at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// It is followed.
    Always,
    /// It is followed where the path ends in `/`.
    IfDirectory,
    /// It is what is meant.
    Never,
}

/// Refuses what is no path.
pub(super) fn check_path(path: &[u8]) -> Result<(), Errno> {
    match path {
        [] => Err(Errno::ENOENT),
        _ if path.len() > PATH_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        _ if path.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// The components of a path, the last one first.
pub(super) fn components(path: &[u8]) -> Vec<Box<[u8]>> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts
        .filter(|part| !part.is_empty())
        .map(Box::from)
        .collect()
}
