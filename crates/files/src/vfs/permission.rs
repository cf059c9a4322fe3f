//! Who may do what, by mode bits, owner and group: the rules of Linux without access control lists.

use wharf_runtime::Op;

use crate::attributes::{Attributes, GROUP_EXECUTES, Kind, Owner, SET_GID, SET_UID, STICKY};
use crate::caller::Caller;
use crate::cost::work;
use crate::errno::Errno;

/// What somebody wants to do with a file or directory: a set of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access(u16);

impl Access {
    /// Nothing: whether it is there.
    pub const NONE: Access = Access(0);
    /// Read it, or list it.
    pub const READ: Access = Access(4);
    /// Write it, or make and remove entries.
    pub const WRITE: Access = Access(2);
    /// Execute it, or look names up in it.
    pub const EXECUTE: Access = Access(1);
    /// Make and remove entries.
    pub const CHANGE_ENTRIES: Access = Access(3);

    /// The sum of 4 to read, 2 to write, 1 to execute or look up.
    pub fn bits(self) -> u8 {
        self.0 as u8
    }

    /// Both.
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Refuses what the mode bits do not give to a caller: of the three classes the first that fits
/// counts. Root may do everything, but execute only what somebody may.
///
/// # Errors
/// `EACCES`.
pub fn check(caller: &Caller, of: &Attributes, access: Access) -> Result<(), Errno> {
    work(Op::PermissionCheck, || allows(caller, of, access))
}

fn allows(caller: &Caller, of: &Attributes, access: Access) -> Result<(), Errno> {
    let class = match () {
        () if caller.owns(of.owner) => of.mode >> 6,
        () if caller.is_in(of.owner.gid) => of.mode >> 3,
        () => of.mode,
    };
    let missing = access.0 & !(class & 7);
    let is_executable = of.is_directory() || of.mode & 0o111 != 0;
    let overrides = caller.is_root() && (access.0 & 1 == 0 || is_executable);
    match missing == 0 || overrides {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Refuses what only the owner, or root, may do.
///
/// # Errors
/// `EPERM`.
pub(super) fn check_owns(caller: &Caller, of: &Attributes) -> Result<(), Errno> {
    match caller.owns(of.owner) || caller.is_root() {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}

/// Refuses a new entry in a directory.
pub(super) fn check_create(caller: &Caller, directory: &Attributes) -> Result<(), Errno> {
    check(caller, directory, Access::CHANGE_ENTRIES)
}

/// Refuses to take `victim` out of a directory, as a directory or as something else.
pub(super) fn check_remove(
    caller: &Caller,
    directory: &Attributes,
    victim: &Attributes,
    as_directory: bool,
) -> Result<(), Errno> {
    check(caller, directory, Access::CHANGE_ENTRIES)?;
    let is_sticky = directory.mode & STICKY != 0;
    if is_sticky && !caller.owns(directory.owner) {
        check_owns(caller, victim)?;
    }
    match (as_directory, victim.is_directory()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Refuses another name to who is not its owner, unless it is a plain file that he may read and
/// write.
pub(super) fn check_link(caller: &Caller, of: &Attributes) -> Result<(), Errno> {
    let runs_in_group = of.mode & SET_GID != 0 && of.mode & GROUP_EXECUTES != 0;
    let is_plain = of.kind == Kind::File && of.mode & SET_UID == 0 && !runs_in_group;
    let may = || check(caller, of, Access::READ.and(Access::WRITE)).is_ok();
    match is_plain && may() {
        true => Ok(()),
        false => check_owns(caller, of),
    }
}

/// Whose something new in a directory is, and with which mode bits.
pub(super) fn of_new(
    caller: &Caller,
    directory: &Attributes,
    kind: Kind,
    mode: u16,
) -> (Owner, u16) {
    let hands_group_down = directory.mode & SET_GID != 0;
    let gid = match hands_group_down {
        true => directory.owner.gid,
        false => caller.gid,
    };
    let uid = caller.uid;
    let mode = match kind {
        Kind::Symlink => 0o777,
        Kind::Directory if hands_group_down => mode & (0o777 | STICKY) | SET_GID,
        Kind::Directory => mode & (0o777 | STICKY),
        // Nobody makes what runs in a group that he is not in.
        Kind::File | Kind::Special(_) if hands_group_down && mode & GROUP_EXECUTES != 0 => {
            mode & !without_group(caller, gid)
        }
        Kind::File | Kind::Special(_) => mode,
    };
    (Owner { uid, gid }, mode)
}

/// The mode bits that a caller may not give to what is of a group.
pub(super) fn without_group(caller: &Caller, gid: u32) -> u16 {
    match caller.is_in(gid) || caller.is_root() {
        true => 0,
        false => SET_GID,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, mode: u16, uid: u32, gid: u32) -> Attributes {
        Attributes {
            number: 2,
            kind,
            mode,
            owner: Owner { uid, gid },
            links: 1,
            bytes: 0,
            device: 0,
            stored_bytes: 0,
            accessed_ns: 0,
            modified_ns: 0,
            changed_ns: 0,
        }
    }

    #[test]
    fn the_first_class_that_fits_counts_also_if_it_gives_less() {
        let all = Access(7);
        let file = of(Kind::File, 0o067, 5, 6);
        for (caller, access, answer) in [
            (Caller::user(5, 6), Access::READ, Err(Errno::EACCES)),
            (Caller::user(9, 6), Access(6), Ok(())),
            (Caller::user(9, 6), all, Err(Errno::EACCES)),
            (Caller::user(9, 9), all, Ok(())),
            (Caller::root(), all, Ok(())),
            (Caller::user(5, 6), Access::NONE, Ok(())),
        ] {
            assert_eq!(
                check(&caller, &file, access),
                answer,
                "{caller:?} {access:?}"
            );
        }
        let plain = of(Kind::File, 0o600, 5, 6);
        let directory = of(Kind::Directory, 0, 5, 6);
        assert_eq!(check(&Caller::root(), &plain, all), Err(Errno::EACCES));
        assert_eq!(check(&Caller::root(), &directory, all), Ok(()));
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let directory = of(Kind::Directory, 0o1777, 5, 5);
        let file = of(Kind::File, 0o666, 6, 6);
        for (uid, answer) in [
            (5, Ok(())),
            (6, Ok(())),
            (7, Err(Errno::EPERM)),
            (0, Ok(())),
        ] {
            let caller = Caller::user(uid, uid);
            assert_eq!(check_remove(&caller, &directory, &file, false), answer);
        }
    }

    #[test]
    fn a_set_group_id_directory_hands_its_group_down() {
        let directory = of(Kind::Directory, 0o2777, 5, 7);
        let caller = Caller::user(6, 6);
        for (kind, mode, new) in [
            (Kind::File, 0o2777, 0o777),
            (Kind::File, 0o2767, 0o2767),
            (Kind::Directory, 0o7700, 0o3700),
            (Kind::Symlink, 0, 0o777),
        ] {
            let owner = Owner { uid: 6, gid: 7 };
            assert_eq!(of_new(&caller, &directory, kind, mode), (owner, new));
        }
    }
}
