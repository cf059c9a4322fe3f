//! What an array's members say of it, without opening it.

use std::sync::Arc;

use crate::array::ArrayError;
use crate::array::assemble::{newest, superblock_of};
use crate::array::superblock::{MemberState, Superblock};
use crate::target::Target;

/// How a member stands, and whether it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There, and holds what it should.
    Active,
    /// There, and partly filled.
    Rebuilding,
    /// There, but left out before: what it holds is old.
    Stale,
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
    let mut found = Vec::new();
    for target in members {
        found.push((target.clone(), superblock_of(&**target)?));
    }
    let superblock = newest(&found)?;
    let standing = |member: usize| {
        let there = found.iter().find(|(_, s)| s.member as usize == member);
        let name = there.map(|(target, _)| target.info().name.clone());
        let standing = match (superblock.states[member], name.is_some()) {
            (MemberState::Active, true) => Standing::Active,
            (MemberState::Rebuilding, true) => Standing::Rebuilding,
            (MemberState::Failed, true) => Standing::Stale,
            (MemberState::Failed, false) => Standing::Failed,
            (_, false) => Standing::Missing,
        };
        (standing, name)
    };
    let members = (0..superblock.states.len()).map(standing).collect();
    Ok(Description {
        superblock,
        members,
    })
}
