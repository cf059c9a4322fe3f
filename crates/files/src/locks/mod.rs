//! Locks of files: who may use which bytes, as far as those who ask agree to ask.
//!
//! Problem: programs on several hosts use one file and tell each other by locks. The drive is the only place that they
//! all speak to.
//!
//! Idea: one [`LockTable`] for all files, plain state without time and I/O. There are two spaces that do not see each
//! other, as on Linux: *record locks* of ranges of bytes (`fcntl`; the owner is a process, or an open file
//! description), and *whole-file locks* (`flock`).
//!
//! 1. A lock is granted if no other owner has one that conflicts: both in the same space of the same file, ranges that
//!    have a byte in common, one of both exclusive. It replaces what its owner had there: ranges are split, merged,
//!    turned into the other kind.
//! 2. Who may wait goes into the line of its file. Whenever a lock goes, those in line are looked at in the order in
//!    which they came, and each whose conflict is gone gets its lock. Who asks anew does not wait for those in line,
//!    as on Linux: so one who has a shared lock can have more of them.
//! 3. A wait that would never end, since others wait in turn for who asks, is refused (`EDEADLK`), if who asks wants to
//!    know. Only those that want to know are looked at, as on Linux: these are processes, which wait for one thing at a
//!    time.
//! 4. Sessions have limits of locks and of waits (`ENOLCK`). When a session ends all that it has goes.
//!
//! A whole-file lock that is turned into the other kind is given back first: if it cannot be had at once it is lost,
//! and one who waits may get it. That is what `flock` does.
//!
//! | file | idea |
//! |---|---|
//! | `range.rs` | ranges of bytes |
//! | `owned.rs` | the ranges of one owner: replacing, splitting, merging |
//! | `file.rs` | one file: its owners, its line |
//! | `table.rs` | all files; limits; deadlocks |
//! | `told.rs` | how a drive and a host tell each other of locks |

mod file;
mod owned;
mod range;
mod table;
mod told;

#[cfg(test)]
mod model_test;

pub use range::LockRange;
pub use table::{Asked, Ended, LockAsk, LockLimits, LockTable};

use crate::errno::Errno;

/// What a lock lets others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// Others may have a shared lock too.
    Shared,
    /// Nobody else may have a lock.
    Exclusive,
}

impl LockKind {
    /// Whether two owners cannot have both.
    pub fn conflicts_with(self, other: LockKind) -> bool {
        self == LockKind::Exclusive || other == LockKind::Exclusive
    }
}

/// Locks of one space do not see those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockSpace {
    /// Ranges of bytes, by `fcntl`.
    Records,
    /// All of a file, by `flock`.
    Whole,
}

impl LockSpace {
    /// Both.
    pub const ALL: [LockSpace; 2] = [LockSpace::Records, LockSpace::Whole];
}

/// Who has a lock: whom the session says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner {
    /// The session.
    pub session: u32,
    /// A number of its own choice.
    pub id: u64,
}

/// A lock that somebody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Who.
    pub owner: LockOwner,
    /// Of which bytes.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
}

/// Where a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockPlace {
    /// The file, by its number.
    pub file: u64,
    /// The space.
    pub space: LockSpace,
}

/// Why a lock was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockError {
    /// Somebody else has this one.
    Held(Lock),
    /// The wait would never end.
    Deadlock,
    /// The session has as many locks or waits as it may have.
    NoRoom,
}

impl LockError {
    /// The number for programs.
    pub fn errno(self) -> Errno {
        match self {
            LockError::Held(_) => Errno::EAGAIN,
            LockError::Deadlock => Errno::EDEADLK,
            LockError::NoRoom => Errno::ENOLCK,
        }
    }
}
