//! Who asks for something.

use crate::attributes::{GROUP_EXECUTES, Owner, SET_GID, SET_UID};

/// Who asks for something: a user, its group, and the other groups that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The user; 0 is root, who may do everything.
    pub uid: u32,
    /// Its group: that of the files that it makes.
    pub gid: u32,
    /// Other groups that it is in.
    pub groups: Vec<u32>,
}

impl Caller {
    /// Root.
    pub fn root() -> Caller {
        Caller::default()
    }

    /// A user who is in one group.
    pub fn user(uid: u32, gid: u32) -> Caller {
        Caller {
            uid,
            gid,
            groups: Vec::new(),
        }
    }

    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether it is in a group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether something is its own.
    pub fn owns(&self, owner: Owner) -> bool {
        self.uid == owner.uid
    }

    /// The mode of a regular file of group `gid` after this caller has changed its bytes: who is
    /// not root leaves no file behind that runs as somebody else (Linux,
    /// `setattr_should_drop_suidgid`).
    pub fn mode_after_write(&self, mode: u16, gid: u32) -> u16 {
        match self.is_root() {
            true => mode,
            false => self.mode_after_chown(mode, gid),
        }
    }

    /// The mode of what is no directory, of group `gid` until now, after this caller has given it
    /// another owner or group. Root, too, takes these bits away. Set-group-id of a file that its
    /// group may not execute means something else, and stays for members.
    pub fn mode_after_chown(&self, mode: u16, gid: u32) -> u16 {
        let keeps_group = mode & GROUP_EXECUTES == 0 && (self.is_in(gid) || self.is_root());
        let dropped = match keeps_group {
            true => SET_UID,
            false => SET_UID | SET_GID,
        };
        mode & !dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_root_takes_set_id_bits_from_what_it_writes() {
        let (root, member, other) = (
            Caller::root(),
            Caller {
                groups: vec![7],
                ..Caller::user(5, 5)
            },
            Caller::user(5, 5),
        );
        for (caller, mode, written, given) in [
            (&root, 0o6755, 0o6755, 0o0755),
            (&member, 0o6755, 0o0755, 0o0755),
            (&member, 0o6745, 0o2745, 0o2745),
            (&other, 0o6745, 0o0745, 0o0745),
            (&root, 0o6745, 0o6745, 0o2745),
            (&other, 0o1644, 0o1644, 0o1644),
        ] {
            assert_eq!(caller.mode_after_write(mode, 7), written, "{mode:o}");
            assert_eq!(caller.mode_after_chown(mode, 7), given, "{mode:o}");
        }
    }
}
