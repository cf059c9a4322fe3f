//! Arrays: many targets as one, of the same trait, with or without redundancy.
//!
//! | file | idea |
//! |---|---|
//! | `mod.rs` | an array that is open, as a target |
//! | [`assemble`] | making an array, and opening one from its members |
//! | [`describe`](mod@describe) | what members say of their array |
//! | [`layout`] | where a byte lies |
//! | [`superblock`] | what each member says of the array |
//! | `history` | whether a member is one of now, or a copy from before |
//! | `state` | what threads share: members, how they stand, locks |
//! | `channel`, `member_channels` | one thread's way: I/Os become tasks, tasks wait for members |
//! | `stripe`, `plan` | RAID-5 |
//! | `mirror`, `intent` | RAID-10, RAID-0; which mirrors may differ |
//! | `journal` | the write hole, and how it is closed |
//! | [`rebuild`], [`check`] | a new member filled while in use; whether redundancy agrees |
//! | `memory` | the caller's memory beside plain bytes |
//!
//! An I/O makes progress while its channel is polled, and a write locks its windows until it has ended. So a
//! thread does not leave writes in flight on one channel while it waits on another of the same
//! array, nor while it replaces a member, rebuilds or checks: that would wait for a lock of its own.

pub mod assemble;
mod channel;
pub mod check;
pub mod describe;
#[cfg(test)]
mod document_test;
mod history;
mod intent;
mod journal;
pub mod layout;
mod member_channels;
mod memory;
mod mirror;
mod plan;
pub mod rebuild;
mod state;
mod stripe;
pub mod superblock;

use std::sync::Arc;

use crate::blocking::Blocking;
use crate::error::StorageError;
use crate::group::PollGroup;
use crate::io::IoError;
use crate::target::{Channel, Target, TargetInfo, check_depth};

pub use assemble::{CreateOptions, create, holds_data, superblock_of};
pub use check::CheckReport;
pub use describe::{Description, Standing, describe};
pub use layout::{Level, Shape, ShapeError};
pub use rebuild::Rebuild;
pub use superblock::{MemberState, Superblock, SuperblockError};

use channel::ArrayChannel;
use state::Shared;

/// Why an array cannot be made, opened or mended.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// Such an array cannot be.
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// A target is no member that can be used.
    #[error("{name}: {error}")]
    Member {
        /// The target.
        name: String,
        /// What its superblock lacks.
        error: SuperblockError,
    },
    /// Two targets are of different arrays.
    #[error("{0} and {1} are members of different arrays")]
    Mixed(String, String),
    /// Two targets say that they are the same member.
    #[error(
        "{first} (event {}) and {second} (event {}) are both member {member}: leave out the copy",
        events.0, events.1
    )]
    Twice {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The member.
        member: u32,
        /// The event count of each.
        events: (u64, u64),
    },
    /// A member is a copy from before.
    #[error(
        "{name}: is member {member} as of event {own_event}, and the array is at event {event}: \
         what it holds is old; leave it out and rebuild the member"
    )]
    Stale {
        /// The target.
        name: String,
        /// Which member it was.
        member: u32,
        /// Its own event count.
        own_event: u64,
        /// The greatest event count of the others.
        event: u64,
    },
    /// Members were used without each other, or are of different copies of the array.
    #[error(
        "{one} (member {member}) and {others} were used apart, and each holds writes that the other lacks: \
         give only those whose data is to stay, and rebuild the rest"
    )]
    Parted {
        /// Those of one history.
        one: String,
        /// The first of them.
        member: u32,
        /// Those of the other.
        others: String,
    },
    /// The target holds less than it did.
    #[error("{name}: has {bytes} bytes, and the array needs {needed}")]
    Short {
        /// The target.
        name: String,
        /// Its size.
        bytes: u64,
        /// What the array uses.
        needed: u64,
    },
    /// Opened for reading alone.
    #[error("{0}: cannot be written, and an array writes to its members when it is opened")]
    ReadOnly(String),
    /// A member that was in use is not there.
    #[error("member {0} is missing: give it too, or go on without it and rebuild it")]
    Missing(u32),
    /// More members are out than the array can do without.
    #[error("members {0:?} are missing or stale: the array cannot do without them")]
    TooFew(Vec<u32>),
    /// Channels or other users of the array are still there.
    #[error("the array is in use: drop its channels first")]
    InUse,
    /// There is no such member.
    #[error("there is no member {0}")]
    NoMember(u32),
    /// The member is in use.
    #[error("member {0} is in use: only one that is missing, stale or failed is replaced")]
    NotFailed(u32),
    /// Another member is partly filled, and the mark of what is filled is of one member.
    #[error("member {0} is being rebuilt: let that end first")]
    Rebuilding(u32),
    /// A member is missing.
    #[error("member {0} is left out: rebuild it first")]
    Degraded(u32),
    /// RAID-0 has nothing to mend with.
    #[error("RAID-0 has no redundancy")]
    NoRedundancy,
    /// Opening a target failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An I/O on a member failed.
    #[error("{0}")]
    Io(#[from] IoError),
}

/// An array that is open.
pub struct Array {
    shared: Arc<Shared>,
    stale: Vec<u32>,
}

impl Array {
    /// What it is like.
    pub fn shape(&self) -> Shape {
        self.shared.shape
    }

    /// Its name.
    pub fn uuid(&self) -> [u8; 16] {
        self.shared.uuid
    }

    /// How each member stands.
    pub fn states(&self) -> Vec<MemberState> {
        let members = 0..self.shared.shape.members;
        members.map(|m| self.shared.state(m)).collect()
    }

    /// Members that were given but had been left out before: what they hold is old.
    pub fn stale(&self) -> &[u32] {
        &self.stale
    }

    /// Whether `target` can be a member of an array of this shape; an error that says why not.
    pub fn check_target(target: &dyn Target, shape: &Shape) -> Result<(), ArrayError> {
        assemble::check_target(target, shape)
    }

    /// Puts `target` in the place of a member that is out, to be filled by [`Array::rebuild`]. What it
    /// holds is lost.
    pub fn replace(&self, member: u32, target: Arc<dyn Target>) -> Result<(), ArrayError> {
        let shape = self.shared.shape;
        if member >= shape.members {
            return Err(ArrayError::NoMember(member));
        }
        if shape.level == Level::Raid0 {
            return Err(ArrayError::NoRedundancy);
        }
        if self.shared.state(member) != MemberState::Failed {
            return Err(ArrayError::NotFailed(member));
        }
        let rebuilding = |m: &u32| self.shared.state(*m) == MemberState::Rebuilding;
        if let Some(other) = (0..shape.members).find(rebuilding) {
            return Err(ArrayError::Rebuilding(other));
        }
        assemble::check_target(&*target, &shape)?;
        assemble::wipe(&mut Blocking::new(&*target)?, &shape)?;
        Ok(self.shared.replace(member, target)?)
    }

    /// The rebuilding of the member that was replaced, from where it stopped; none if all are filled.
    pub fn rebuild(&self) -> Result<Option<Rebuild>, ArrayError> {
        Rebuild::new(&self.shared)
    }

    /// Compares what is stored twice, or adds up parity, window by window, while the array is in use; with
    /// `repair` makes it agree. `progress` hears of windows done and in all.
    pub fn check(
        &self,
        repair: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, ArrayError> {
        check::run(&self.shared, repair, progress)
    }

    /// Makes everything durable and marks the array clean, so that opening it has nothing to mend.
    pub fn close(self) -> Result<(), ArrayError> {
        if Arc::strong_count(&self.shared) > 1 || self.shared.journal.is_in_use() {
            return Err(ArrayError::InUse);
        }
        assemble::close(&self.shared)
    }
}

impl Target for Array {
    fn info(&self) -> &TargetInfo {
        &self.shared.info
    }

    fn size_bytes(&self) -> u64 {
        self.shared.shape.size_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let shared = self.shared.clone();
        Ok(Box::new(ArrayChannel::new(shared, depth, None)))
    }

    /// Its members' I/Os are waited for with the group's, and keep no member open. Tasks that wait for
    /// other threads do not end such a wait: who waits looks again after a while.
    fn channel_in(&self, group: &PollGroup, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        check_depth(depth)?;
        let (shared, group) = (self.shared.clone(), Some(group.clone()));
        Ok(Box::new(ArrayChannel::new(shared, depth, group)))
    }
}
