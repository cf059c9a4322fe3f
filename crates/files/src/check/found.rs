//! What a check says.

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// What is wrong: the first hundred of it.
    pub findings: Vec<String>,
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub specials: u64,
    /// Pages that are in use for files and trees.
    pub pages_used: u64,
}
