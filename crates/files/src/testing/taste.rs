//! What random programs do, and what they leave.

use super::program::USERS;
use crate::arguments::Allocate;

/// What random programs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taste {
    /// Users that ask for something, from the first of [`USERS`] on.
    pub users: usize,
    /// Whether paths begin at the root and go through `..`, and links lead to absolute paths: else
    /// everything stays where it begins.
    pub is_rooted: bool,
    /// Whether there are extended attributes.
    pub xattrs: bool,
    /// What is done with the storage of ranges.
    pub allocates: &'static [Allocate],
    /// Whether somebody looks for holes: where they are is not the same everywhere.
    pub seeks: bool,
    /// Whether things are made durable.
    pub syncs: bool,
    /// Bytes from the beginning of a file that are written, mostly.
    pub file_bytes: u64,
    /// Whether some bytes are written far behind these.
    pub is_sparse: bool,
    /// Names that can be too long, too deep, or odd.
    pub is_odd: bool,
}

impl Default for Taste {
    fn default() -> Taste {
        Taste {
            users: USERS.len(),
            is_rooted: true,
            xattrs: true,
            allocates: &ALLOCATES,
            seeks: true,
            syncs: true,
            file_bytes: 40_000,
            is_sparse: true,
            is_odd: true,
        }
    }
}

/// All that can be done with storage.
pub const ALLOCATES: [Allocate; 6] = [
    Allocate::Extend,
    Allocate::KeepSize,
    Allocate::Punch,
    Allocate::Punch,
    Allocate::Zero,
    Allocate::ZeroKeepSize,
];
