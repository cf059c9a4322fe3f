//! What an array's members say of it, without opening it.

use std::sync::Arc;

use crate::array::ArrayError;
use crate::array::assemble::read_all;
use crate::array::history::{Fit, gather};
use crate::array::superblock::{MemberState, Superblock};
use crate::target::Target;

/// How a member stands, and whether it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There, and holds what it should.
    Active,
    /// There, and partly filled.
    Rebuilding,
    /// There, but left out before, or a copy from before: what it holds is old.
    Stale,
    /// There, but used without the others, which went on without it.
    Parted,
    /// Not there, and known to be left out.
    Failed,
    /// Not there, though it was in use until now.
    Missing,
}

/// An array as its members describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What the member that knows best says.
    pub superblock: Superblock,
    /// Each member's standing, and its target's name if it is there.
    pub members: Vec<(Standing, Option<String>)>,
}

/// Reads the superblocks of `members`. Changes nothing.
pub fn describe(members: &[Arc<dyn Target>]) -> Result<Description, ArrayError> {
    let found = read_all(members)?;
    let (superblock, fits) = gather(&found)?;
    let standing = |member: usize| {
        let state = superblock.states[member];
        let there = found.iter().position(|(_, s)| s.member as usize == member);
        let Some(index) = there else {
            let standing = match state {
                MemberState::Failed => Standing::Failed,
                _ => Standing::Missing,
            };
            return (standing, None);
        };
        let standing = match (fits[index], state) {
            (Fit::Stale, _) => Standing::Stale,
            (Fit::Parted, _) => Standing::Parted,
            (Fit::Same, MemberState::Rebuilding) => Standing::Rebuilding,
            (Fit::Same, _) => Standing::Active,
        };
        (standing, Some(found[index].0.info().name.clone()))
    };
    let members = (0..superblock.states.len()).map(standing).collect();
    Ok(Description {
        superblock,
        members,
    })
}
