//! Locks as a drive and a host tell each other of them (`wharf_wire::file`), of both spaces of a file.

use wharf_wire::file::LockState;
use wharf_wire::file::lock_area::OwnLock;

use super::{Lock, LockKind, LockOwner, LockPlace, LockRange, LockSpace, LockTable};

impl From<LockKind> for LockState {
    fn from(kind: LockKind) -> LockState {
        match kind {
            LockKind::Shared => LockState::Shared,
            LockKind::Exclusive => LockState::Exclusive,
        }
    }
}

impl LockKind {
    /// The kind that the number of a [`LockState`] stands for; none if it stands for no lock.
    pub fn from_raw(state: u16) -> Option<LockKind> {
        match LockState::from_raw(state)? {
            LockState::Shared => Some(LockKind::Shared),
            LockState::Exclusive => Some(LockKind::Exclusive),
            LockState::Free => None,
        }
    }

    /// Whether it may be had in a space by a handle that may read, and write, so.
    pub fn may_be_had(self, space: LockSpace, (reads, writes): (bool, bool)) -> bool {
        let may = match self {
            LockKind::Shared => reads,
            LockKind::Exclusive => writes,
        };
        may || space == LockSpace::Whole
    }
}

impl Lock {
    /// What is told of it.
    pub fn told(&self, space: LockSpace) -> OwnLock {
        OwnLock {
            first: self.range.first(),
            last: self.range.last(),
            owner: self.owner.id,
            state: LockState::from(self.kind).raw(),
            whole_file: (space == LockSpace::Whole).into(),
            reserved: 0,
        }
    }

    /// What was told of a lock of a session; none if that is no lock.
    pub fn of_told(told: &OwnLock, session: u32) -> Option<(LockSpace, Lock)> {
        let (space, range) = match told.whole_file {
            0 => (LockSpace::Records, LockRange::new(told.first, told.last)?),
            _ => (LockSpace::Whole, LockRange::ALL),
        };
        let lock = Lock {
            owner: LockOwner {
                session,
                id: told.owner,
            },
            range,
            kind: LockKind::from_raw(told.state)?,
        };
        Some((space, lock))
    }
}

impl LockTable {
    /// All locks of a session in a file.
    pub fn of_file(&self, file: u64, session: u32) -> impl Iterator<Item = (LockSpace, Lock)> {
        LockSpace::ALL.into_iter().flat_map(move |space| {
            let locks = self.of_session(LockPlace { file, space }, session);
            locks.map(move |lock| (space, lock))
        })
    }

    /// Puts these in the place of all that a session has in a file, as [`LockTable::replace`] does.
    pub fn replace_of_file(&mut self, file: u64, session: u32, locks: &[(LockSpace, Lock)]) {
        for space in LockSpace::ALL {
            let own = locks.iter().filter(|(of, _)| *of == space);
            let own: Vec<Lock> = own.map(|(_, lock)| *lock).collect();
            self.replace(LockPlace { file, space }, session, &own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_lock_comes_back() {
        for kind in [LockKind::Shared, LockKind::Exclusive] {
            for (space, range) in [
                (LockSpace::Records, LockRange::new(3, 9).unwrap()),
                (LockSpace::Whole, LockRange::ALL),
            ] {
                let owner = LockOwner { session: 4, id: 7 };
                let lock = Lock { owner, range, kind };
                assert_eq!(Lock::of_told(&lock.told(space), 4), Some((space, lock)));
            }
        }
    }

    #[test]
    fn what_is_no_lock_is_none() {
        let lock = OwnLock {
            first: 3,
            last: 9,
            state: 1,
            ..OwnLock::default()
        };
        assert!(Lock::of_told(&lock, 0).is_some());
        for wrong in [
            OwnLock { last: 2, ..lock },
            OwnLock { state: 0, ..lock },
            OwnLock { state: 3, ..lock },
        ] {
            assert_eq!(Lock::of_told(&wrong, 0), None, "{wrong:?}");
        }
    }

    #[test]
    fn ranges_want_a_handle_for_their_kind_and_whole_files_any() {
        let may = |kind: LockKind, space| {
            [(false, false), (true, false), (false, true)].map(|may| kind.may_be_had(space, may))
        };
        let (records, whole) = (LockSpace::Records, LockSpace::Whole);
        assert_eq!(may(LockKind::Shared, records), [false, true, false]);
        assert_eq!(may(LockKind::Exclusive, records), [false, false, true]);
        assert_eq!(may(LockKind::Exclusive, whole), [true; 3]);
    }
}
