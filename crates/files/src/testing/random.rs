//! Random programs: few names, so that operations meet, and every kind of path.

use wharf_runtime::Rng;

use super::program::{Bytes, Fill, Operation, SLOTS, Step, USERS};
use crate::arguments::{Allocate, Seek, SetXattr, Sync};
use crate::flags::{OpenFlags, Rename};
use crate::vfs::SetTime;

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

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d\xff", b"e e"];

const XATTRS: [&[u8]; 8] = [
    b"user.a",
    b"user.b",
    b"trusted.a",
    b"user.",
    b"nothing.a",
    b"",
    b"user.c",
    b"trusted.b",
];

/// Makes random steps.
pub struct Steps {
    rng: Rng,
    taste: Taste,
    stamps: u32,
}

impl Steps {
    /// Steps of this taste.
    pub fn new(rng: Rng, taste: Taste) -> Steps {
        Steps {
            rng,
            taste,
            stamps: 0,
        }
    }

    /// A program of `count` steps.
    pub fn program(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> Bytes {
        if self.taste.is_odd && self.rng.chance(1, 60) {
            let bytes = self.one_of(&[255, 256]);
            return vec![b'n'; bytes];
        }
        self.one_of(&NAMES).to_vec()
    }

    /// A path: mostly one or two names.
    fn path(&mut self) -> Bytes {
        let rng = &mut self.rng;
        if self.taste.is_odd && rng.chance(1, 150) {
            return match rng.below(4) {
                0 => Vec::new(),
                1 if self.taste.is_rooted => b"/".to_vec(),
                2 => b"a/".repeat(2047),
                _ => b"./".repeat(2047 + rng.below(3) as usize),
            };
        }
        let is_absolute = self.taste.is_rooted && rng.chance(3, 4);
        let mut path = Vec::new();
        if is_absolute {
            path.push(b'/');
        }
        let depth = 1 + self.one_of(&[0, 0, 1, 1, 1, 2, 3]);
        for level in 0..depth {
            if level > 0 {
                path.push(b'/');
            }
            match self.rng.below(40) {
                0 => path.extend_from_slice(b"."),
                1 if self.taste.is_rooted => path.extend_from_slice(b".."),
                2 if !path.is_empty() || is_absolute => path.extend_from_slice(b"/"),
                _ => path.extend_from_slice(&self.name()),
            }
        }
        if self.rng.chance(1, 25) {
            path.push(b'/');
        }
        match path.is_empty() {
            true => b".".to_vec(),
            false => path,
        }
    }

    /// What a symbolic link leads to: mostly something beside it.
    fn link_target(&mut self) -> Bytes {
        match self.rng.below(20) {
            0 if self.taste.is_odd => Vec::new(),
            1 if self.taste.is_odd => vec![b'/'; 4096],
            2 if self.taste.is_odd && self.taste.is_rooted => b"/".to_vec(),
            3 if self.taste.is_odd && self.taste.is_rooted => b"..".to_vec(),
            4 => [&self.name()[..], b"/"].concat(),
            5..10 => self.path(),
            _ => self.name(),
        }
    }

    fn mode(&mut self) -> u16 {
        match self.rng.below(10) {
            0 => self.rng.below(0o10000) as u16,
            1 => self.one_of(&[0, 0o111, 0o222, 0o444]),
            2 => self.one_of(&[0o1777, 0o2777, 0o4755, 0o2755, 0o6777, 0o2745]),
            3..6 => self.one_of(&[0o700, 0o755, 0o750, 0o600, 0o644]),
            _ => 0o777,
        }
    }

    fn offset(&mut self) -> u64 {
        let bytes = self.taste.file_bytes;
        match self.rng.below(12) {
            0 if self.taste.is_sparse => {
                let far = 1 << self.one_of(&[24, 31, 32, 36, 40]);
                far - self.rng.below(9_000)
            }
            1..4 => 0,
            4..7 => self.rng.below(bytes / 4096 + 1) * 4096,
            _ => self.rng.below(bytes),
        }
    }

    fn bytes(&mut self) -> u64 {
        match self.rng.below(10) {
            0 => 0,
            1..4 => self.rng.below(600),
            4..7 => self.one_of(&[1, 4095, 4096, 4097, 8192]),
            _ => 1 + self.rng.below(self.taste.file_bytes / 3 + 1),
        }
    }

    fn slot(&mut self) -> usize {
        self.rng.below(SLOTS as u64) as usize
    }

    fn flags(&mut self) -> OpenFlags {
        let rng = &mut self.rng;
        let mut flags = match rng.below(10) {
            0..3 => OpenFlags::READ,
            3..6 => OpenFlags::UPDATE,
            _ => OpenFlags::CREATE,
        };
        if flags.write && rng.chance(1, 5) {
            flags.read = false;
        }
        flags.exclusive = flags.create && rng.chance(1, 4);
        flags.truncate = flags.write && rng.chance(1, 6);
        flags.append = flags.write && rng.chance(1, 5);
        flags.directory = !flags.create && rng.chance(1, 8);
        flags.no_follow = rng.chance(1, 8);
        flags
    }

    fn owner(&mut self, is_uid: bool) -> Option<u32> {
        let user = USERS[self.rng.below(USERS.len() as u64) as usize];
        match self.rng.below(5) {
            0 => None,
            1 if !is_uid => Some(4242),
            _ if is_uid => Some(user.0),
            _ => Some(user.1),
        }
    }

    fn time(&mut self) -> SetTime {
        let time_ns = self.rng.below(1 << 60);
        self.one_of(&[SetTime::Omit, SetTime::Now, SetTime::At(time_ns)])
    }

    /// One step.
    pub fn step(&mut self) -> Step {
        let user = self.rng.below(self.taste.users as u64) as usize;
        // Root does most: who may little makes little happen.
        let user = match self.rng.chance(1, 3) {
            true => 0,
            false => user,
        };
        let operation = match self.rng.below(100) {
            0..52 => self.of_names(),
            52..84 => self.of_bytes(),
            _ => self.of_attributes(),
        };
        Step { user, operation }
    }

    fn of_names(&mut self) -> Operation {
        let path = self.path();
        match self.rng.below(52) {
            0..9 => Operation::Mkdir {
                path,
                mode: self.mode(),
            },
            9..12 => Operation::Rmdir { path },
            12..18 => Operation::Unlink { path },
            18..28 => Operation::Rename {
                from: path,
                to: self.path(),
                how: self.one_of(&[
                    Rename::Replace,
                    Rename::Replace,
                    Rename::NoReplace,
                    Rename::Exchange,
                ]),
            },
            28..34 => Operation::Link {
                from: path,
                to: self.path(),
                follow: self.rng.chance(1, 4),
            },
            34..39 => Operation::Symlink {
                target: self.link_target(),
                path,
            },
            39..41 => Operation::ReadLink { path },
            41..46 => Operation::Stat {
                path,
                follow: self.rng.chance(1, 2),
            },
            46..50 => Operation::List { path },
            _ => Operation::Truncate {
                path,
                bytes: self.offset(),
            },
        }
    }

    fn of_bytes(&mut self) -> Operation {
        let slot = self.slot();
        match self.rng.below(40) {
            0..12 => Operation::Open {
                slot,
                path: self.path(),
                flags: self.flags(),
                mode: self.mode(),
            },
            12..15 => Operation::Close { slot },
            15..19 => Operation::Read {
                slot,
                offset: self.offset(),
                bytes: self.bytes(),
            },
            19..28 => {
                self.stamps += 1;
                let stamp = self.stamps;
                Operation::Write {
                    slot,
                    offset: self.offset(),
                    fill: Fill {
                        stamp,
                        bytes: self.bytes(),
                    },
                }
            }
            28..30 => Operation::TruncateOpen {
                slot,
                bytes: self.offset(),
            },
            30..34 => Operation::Allocate {
                slot,
                offset: self.offset(),
                bytes: self.bytes(),
                what: self.one_of(self.taste.allocates),
            },
            34..36 if self.taste.seeks => Operation::Seek {
                slot,
                offset: self.offset(),
                what: self.one_of(&[Seek::Data, Seek::Hole]),
            },
            36..39 if self.taste.syncs => match self.rng.below(6) {
                0 => Operation::SyncAll,
                1 => Operation::Sync {
                    slot,
                    what: Sync::Data,
                },
                _ => Operation::Sync {
                    slot,
                    what: Sync::All,
                },
            },
            _ => Operation::StatOpen { slot },
        }
    }

    fn of_attributes(&mut self) -> Operation {
        let path = self.path();
        let follow = self.rng.chance(1, 2);
        match self.rng.below(14) {
            0..5 => Operation::Chmod {
                path,
                mode: self.mode(),
            },
            5..8 => Operation::Chown {
                path,
                follow,
                uid: self.owner(true),
                gid: self.owner(false),
            },
            8 => Operation::SetTimes {
                path,
                follow,
                accessed: self.time(),
                modified: self.time(),
            },
            _ if !self.taste.xattrs => Operation::Stat { path, follow },
            kind => self.of_xattrs(kind, path, follow),
        }
    }

    fn of_xattrs(&mut self, kind: u64, path: Bytes, follow: bool) -> Operation {
        let first = match self.taste.is_odd {
            true => self.rng.below(XATTRS.len() as u64),
            false => self.rng.below(3),
        };
        let name = XATTRS[first as usize].to_vec();
        match kind {
            9..12 => {
                self.stamps += 1;
                let (stamp, bytes) = (self.stamps, self.rng.below(120));
                Operation::SetXattr {
                    path,
                    follow,
                    name,
                    value: Fill { stamp, bytes }.make(),
                    how: self.one_of(&[SetXattr::Put, SetXattr::Create, SetXattr::Replace]),
                }
            }
            12 => match self.rng.chance(1, 2) {
                true => Operation::RemoveXattr { path, follow, name },
                false => Operation::Xattrs { path, follow },
            },
            _ => Operation::Xattr { path, follow, name },
        }
    }
}
