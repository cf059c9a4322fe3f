//! How a file system is mounted.

/// How a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What the list of mounts calls its source.
    pub source: String,
    /// Whether other users than the one who mounts may use it.
    pub allows_other: bool,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
}
