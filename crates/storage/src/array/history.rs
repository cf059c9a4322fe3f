//! Which members belong together: each one's superblock is a place in the history of the array, and only members that
//! stand at the same place hold the same story.
//!
//! Problem: a member may be a copy. A disk that was replaced is put back, one member is restored from a backup, the
//! mirrors of an array are used apart. Its superblock is whole and calls it active; what it holds is old. The superblock
//! that knows best cannot tell: it speaks of the member, and not of what is attached in its place now.
//!
//! Idea: a member's own event count decides.
//!
//! 1. Every change of how members stand takes two events (`Shared::settle`). The first tells the change to all members in
//!    use, the second that all have it: the first is *settled*. Data is written only after that.
//! 2. So what a cut leaves is between the newest superblock's settled event and its event. A member in between
//!    *fits*: nothing was written that it lacks. One behind the settled event was away: it is *stale*.
//! 3. Opening and closing are such changes, so that a copy of a member from before the array was opened is stale once data
//!    has been written.
//! 4. Counts of histories that have parted may be equal: two halves used apart, clones of all members. Each opening
//!    draws a random *session*, so that members fit only if event and session agree.
//! 5. An opening first ends a change that was cut short, so that never more than two sessions are about.
//!
//! What this cannot find: a copy that was made while the array was open and is put back after a crash of the same opening, as
//! no superblock is written for a write of data.

use std::sync::Arc;

use crate::array::ArrayError;
use crate::array::superblock::{MemberState, Superblock};
use crate::target::Target;

/// A target with its superblock.
pub(super) type Found = (Arc<dyn Target>, Superblock);

/// How a member's superblock stands to the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// At the same place: it holds what the array holds.
    Same,
    /// From before: it was left out, or is a copy.
    Stale,
    /// Of a history that parted from the newest one's: each has seen changes that the other has not.
    Parted,
}

/// The superblock that knows best, and how all others stand to it; an error if they are not of one array.
pub(super) fn gather(found: &[Found]) -> Result<(Superblock, Vec<Fit>), ArrayError> {
    let name = |i: usize| found[i].0.info().name.clone();
    for (i, (_, a)) in found.iter().enumerate() {
        for (j, (_, b)) in found.iter().enumerate().take(i) {
            if a.uuid != b.uuid || a.shape != b.shape {
                return Err(ArrayError::Mixed(name(j), name(i)));
            }
            if a.member == b.member {
                return Err(ArrayError::Twice {
                    first: name(j),
                    second: name(i),
                    member: a.member,
                    events: (b.event, a.event),
                });
            }
        }
    }
    let newest = found.iter().map(|(_, s)| s).max_by_key(|s| s.event);
    let newest = newest.ok_or(ArrayError::TooFew(Vec::new()))?;
    let fits = found.iter().map(|(_, s)| fit(newest, s, found)).collect();
    Ok((newest.clone(), fits))
}

fn fit(newest: &Superblock, one: &Superblock, found: &[Found]) -> Fit {
    let settled = newest.settled_event;
    let same_session = match one.event == settled {
        true => one.session == newest.settled_session,
        false => one.session == newest.session,
    };
    let out = newest.states[one.member as usize] == MemberState::Failed;
    if out && went_on_without(newest, one, found) || one.event >= settled && !same_session {
        return Fit::Parted;
    }
    match out || one.event < settled {
        true => Fit::Stale,
        false => Fit::Same,
    }
}

/// Whether `one` says that a member has failed which the newest superblock counts on. Where that member has joined since,
/// `one` may well be from before; else each of them was used without the other.
fn went_on_without(newest: &Superblock, one: &Superblock, found: &[Found]) -> bool {
    found.iter().any(|(_, other)| {
        let member = other.member as usize;
        newest.states[member] != MemberState::Failed
            && one.states[member] == MemberState::Failed
            && other.joined <= one.event
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RamTarget;
    use crate::array::layout::{Level, Shape};

    /// Member `member` of four mirrors at an event.
    fn at(member: u32, event: u64, session: u64, settled: (u64, u64)) -> Found {
        let target = RamTarget::new(&format!("m{member}"), 4096, 512);
        let superblock = Superblock {
            uuid: [1; 16],
            member,
            shape: Shape::new(Level::Raid10, 4, 4096, 2 << 20, 8, 512).expect("a shape"),
            event,
            session,
            settled_event: settled.0,
            settled_session: settled.1,
            joined: 0,
            epoch: 1,
            clean: true,
            states: vec![MemberState::Active; 4],
            rebuilt_windows: 0,
        };
        (Arc::new(target), superblock)
    }

    fn fits(found: &[Found]) -> Vec<Fit> {
        gather(found).expect("one array").1
    }

    #[test]
    fn members_between_the_settled_event_and_the_newest_fit() {
        // Cut while the first change of session 8 was told, once it had been tried twice.
        let settled = (10, 7);
        let found = [
            at(0, 12, 8, settled),
            at(1, 11, 8, settled),
            at(2, 10, 7, (9, 7)),
            at(3, 9, 7, (8, 7)),
        ];
        assert_eq!(fits(&found), [Fit::Same, Fit::Same, Fit::Same, Fit::Stale]);
    }

    #[test]
    fn equal_counts_of_another_session_have_parted() {
        let found = [
            at(0, 12, 8, (11, 8)),
            at(1, 12, 9, (11, 9)),
            at(2, 11, 9, (10, 7)),
            at(3, 10, 9, (9, 9)),
        ];
        let (_, fits) = gather(&found[..2]).expect("one array");
        assert!(fits.contains(&Fit::Parted), "whichever is taken for newest");
        let found = [found[0].clone(), found[2].clone(), found[3].clone()];
        let (_, fits) = gather(&found).expect("one array");
        assert_eq!(fits, [Fit::Same, Fit::Parted, Fit::Stale]);
    }

    #[test]
    fn halves_that_call_each_other_failed_have_parted_unless_one_joined_later() {
        let mut found = [at(0, 20, 8, (19, 8)), at(1, 14, 9, (13, 9))];
        found[0].1.states[1] = MemberState::Failed;
        assert_eq!(fits(&found), [Fit::Same, Fit::Stale]);
        found[1].1.states[0] = MemberState::Failed;
        assert_eq!(fits(&found), [Fit::Same, Fit::Parted]);
        found[0].1.joined = 15;
        assert_eq!(fits(&found), [Fit::Same, Fit::Stale]);
    }
}
