//! Random programs: few names, so that operations meet, and every kind of path.
//!
//! Most random steps fail, and few of these are of interest. So each is tried on a model: one that
//! fails there is mostly drawn again. Paths lead to what the steps before have made.

use std::rc::Rc;

use wharf_runtime::Rng;

use super::beside::{new_model, time_of};
use super::paths::Paths;
use super::program::{Bytes, Fill, Operation, SLOTS, Step, USERS, callers};
use super::subject::{Answer, Subject, Users};
use super::taste::Taste;
use crate::arguments::{Seek, SetXattr, Sync};
use crate::block_on;
use crate::flags::{OpenFlags, Rename};
use crate::model::{Model, ModelLimits};
use crate::vfs::{SessionLimits, SetTime};

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
    paths: Paths,
    taste: Taste,
    stamps: u32,
    /// Users and slots that they have opened.
    opened: Vec<(usize, usize)>,
    /// Paths, whether they are followed, and names of extended attributes there.
    named: Vec<(Bytes, bool, Bytes)>,
    /// What all steps so far have done.
    users: Users<Rc<Model>>,
    count: usize,
}

/// How often a step that fails is drawn again, at most; and one of how many that fail stays.
const TRIES: u32 = 12;
const FAILING_ONE_OF: u64 = 8;

/// Paths and slots that are remembered.
const REMEMBERED_MAX: usize = 8;

fn remember<T>(list: &mut Vec<T>, item: T) {
    if list.len() == REMEMBERED_MAX {
        list.remove(0);
    }
    list.push(item);
}

impl Steps {
    /// Steps of this taste.
    pub fn new(rng: Rng, taste: Taste) -> Steps {
        let model = Rc::new(new_model(ModelLimits::default()));
        Steps {
            paths: Paths {
                rng,
                taste,
                made: Vec::new(),
                directories: Vec::new(),
            },
            taste,
            stamps: 0,
            opened: Vec::new(),
            named: Vec::new(),
            users: Users::new(&model, &callers(), SessionLimits::default()),
            count: 0,
        }
    }

    /// A program of `count` steps.
    pub fn program(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn mode(&mut self) -> u16 {
        match self.paths.rng.below(10) {
            0 => self.paths.rng.below(0o10000) as u16,
            1 => self.paths.one_of(&[0, 0o111, 0o222, 0o444]),
            2 => self
                .paths
                .one_of(&[0o1777, 0o2777, 0o4755, 0o2755, 0o6777, 0o2745]),
            3..6 => self.paths.one_of(&[0o700, 0o755, 0o750, 0o600, 0o644]),
            _ => 0o777,
        }
    }

    fn offset(&mut self) -> u64 {
        let bytes = self.taste.file_bytes;
        match self.paths.rng.below(12) {
            0 if self.taste.is_sparse => {
                let far = 1 << self.paths.one_of(&[24, 31, 32, 36, 40]);
                far - self.paths.rng.below(9_000)
            }
            1..4 => 0,
            4..7 => self.paths.rng.below(bytes / 4096 + 1) * 4096,
            _ => self.paths.rng.below(bytes),
        }
    }

    fn bytes(&mut self) -> u64 {
        match self.paths.rng.below(10) {
            0 => 0,
            1..4 => self.paths.rng.below(600),
            4..7 => self.paths.one_of(&[1, 4095, 4096, 4097, 8192]),
            _ => 1 + self.paths.rng.below(self.taste.file_bytes / 3 + 1),
        }
    }

    fn flags(&mut self) -> OpenFlags {
        let rng = &mut self.paths.rng;
        let mut flags = match rng.below(10) {
            0..3 => OpenFlags::READ,
            3..6 => OpenFlags::UPDATE,
            _ => OpenFlags::CREATE,
        };
        if flags.write && rng.chance(1, 5) {
            flags.read = false;
        }
        flags.exclusive = flags.create && rng.chance(1, 4);
        flags.truncate = rng.chance(1, 6);
        flags.append = flags.write && rng.chance(1, 5);
        flags.directory = !flags.create && rng.chance(1, 8);
        flags.no_follow = rng.chance(1, 8);
        flags
    }

    fn owner(&mut self, is_uid: bool) -> Option<u32> {
        let user = USERS[self.paths.rng.below(USERS.len() as u64) as usize];
        match self.paths.rng.below(5) {
            0 => None,
            1 if !is_uid => Some(4242),
            _ if is_uid => Some(user.0),
            _ => Some(user.1),
        }
    }

    fn time(&mut self) -> SetTime {
        let time_ns = self.paths.rng.below(1 << 60);
        self.paths
            .one_of(&[SetTime::Omit, SetTime::Now, SetTime::At(time_ns)])
    }

    /// One step.
    pub fn step(&mut self) -> Step {
        self.count += 1;
        for _ in 0..TRIES {
            let step = self.draw();
            let answer = block_on(self.users.step(&step, time_of(self.count)));
            if !matches!(answer, Answer::Failed(_)) {
                self.learn(&step);
                return step;
            }
            if self.paths.rng.chance(1, FAILING_ONE_OF) {
                return step;
            }
        }
        Step::of_root(Operation::Stat {
            path: b"a".to_vec(),
            follow: false,
        })
    }

    /// Remembers what there is when a step was done.
    fn learn(&mut self, step: &Step) {
        let is_not = |gone: &Bytes| {
            let gone = gone.clone();
            move |path: &Bytes| *path != gone
        };
        match &step.operation {
            Operation::Mkdir { path, .. } => {
                remember(&mut self.paths.made, path.clone());
                remember(&mut self.paths.directories, path.clone());
            }
            Operation::Open {
                slot, path, flags, ..
            } => {
                if flags.create {
                    remember(&mut self.paths.made, path.clone());
                }
                remember(&mut self.opened, (step.user, *slot));
            }
            Operation::Close { slot } => {
                let closed = (step.user, *slot);
                self.opened.retain(|open| *open != closed);
            }
            Operation::Link { to: path, .. } | Operation::Symlink { path, .. } => {
                remember(&mut self.paths.made, path.clone());
            }
            Operation::Unlink { path } | Operation::Rmdir { path } => {
                self.paths.made.retain(is_not(path));
                self.paths.directories.retain(is_not(path));
            }
            Operation::SetXattr {
                path, follow, name, ..
            } => {
                let named = (path.clone(), *follow, name.clone());
                remember(&mut self.named, named);
            }
            Operation::Rename { from, to, .. } => {
                if self.paths.directories.contains(from) {
                    remember(&mut self.paths.directories, to.clone());
                }
                self.paths.made.retain(is_not(from));
                self.paths.directories.retain(is_not(from));
                remember(&mut self.paths.made, to.clone());
            }
            _ => {}
        }
    }

    fn draw(&mut self) -> Step {
        // Root does most: who may little makes little happen.
        let user = match self.paths.rng.chance(1, 2) {
            true => 0,
            false => self.paths.rng.below(self.taste.users as u64) as usize,
        };
        match self.paths.rng.below(100) {
            0..45 => Step {
                user,
                operation: self.of_names(),
            },
            45..55 => self.open(user),
            55..86 => self.of_bytes(user),
            _ => Step {
                user,
                operation: self.of_attributes(),
            },
        }
    }

    fn open(&mut self, user: usize) -> Step {
        let (slot, flags) = (self.paths.rng.below(SLOTS as u64) as usize, self.flags());
        let path = match flags.create {
            true => self.paths.new_path(),
            false => self.paths.path(),
        };
        let operation = Operation::Open {
            slot,
            path,
            flags,
            mode: self.mode(),
        };
        Step { user, operation }
    }

    fn of_names(&mut self) -> Operation {
        let path = self.paths.path();
        match self.paths.rng.below(52) {
            0..9 => Operation::Mkdir {
                path: self.paths.new_path(),
                mode: self.mode(),
            },
            9..12 => Operation::Rmdir { path },
            12..18 => Operation::Unlink { path },
            18..28 => self.rename(path),
            28..34 => Operation::Link {
                from: path,
                to: self.paths.new_path(),
                follow: self.paths.rng.chance(1, 4),
            },
            34..39 => Operation::Symlink {
                target: self.paths.link_target(),
                path: self.paths.new_path(),
            },
            39..41 => Operation::ReadLink { path },
            41..46 => Operation::Stat {
                path,
                follow: self.paths.rng.chance(1, 2),
            },
            46..50 => Operation::List { path },
            _ => Operation::Truncate {
                path,
                bytes: self.offset(),
            },
        }
    }

    fn rename(&mut self, from: Bytes) -> Operation {
        let to = match self.paths.rng.chance(1, 2) {
            true => self.paths.path(),
            false => self.paths.new_path(),
        };
        let how = self.paths.one_of(&[
            Rename::Replace,
            Rename::Replace,
            Rename::NoReplace,
            Rename::Exchange,
        ]);
        Operation::Rename { from, to, how }
    }

    /// An operation on what is open, mostly.
    fn of_bytes(&mut self, user: usize) -> Step {
        let count = self.opened.len() as u64;
        let (user, slot) = match count > 0 && self.paths.rng.chance(5, 6) {
            true => self.opened[self.paths.rng.below(count) as usize],
            false => (user, self.paths.rng.below(SLOTS as u64) as usize),
        };
        let operation = self.on_slot(slot);
        Step { user, operation }
    }

    fn on_slot(&mut self, slot: usize) -> Operation {
        match 12 + self.paths.rng.below(28) {
            12..14 => Operation::Close { slot },
            14..19 => Operation::Read {
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
                what: self.paths.one_of(self.taste.allocates),
            },
            34..36 if self.taste.seeks => Operation::Seek {
                slot,
                offset: self.offset(),
                what: self.paths.one_of(&[Seek::Data, Seek::Hole]),
            },
            36..39 if self.taste.syncs => match self.paths.rng.below(6) {
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
        let path = self.paths.path();
        let follow = self.paths.rng.chance(1, 2);
        match self.paths.rng.below(15) {
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
            true if self.paths.rng.chance(1, 3) => self.paths.rng.below(XATTRS.len() as u64),
            _ => self.paths.rng.below(3),
        };
        let mut at = (path, follow, XATTRS[first as usize].to_vec());
        let count = self.named.len() as u64;
        if kind >= 12 && count > 0 && self.paths.rng.chance(2, 3) {
            at = self.named[self.paths.rng.below(count) as usize].clone();
        }
        let (path, follow, name) = at;
        match kind {
            9..12 => {
                self.stamps += 1;
                let (stamp, bytes) = (self.stamps, self.paths.rng.below(120));
                Operation::SetXattr {
                    path,
                    follow,
                    name,
                    value: Fill { stamp, bytes }.make(),
                    how: self
                        .paths
                        .one_of(&[SetXattr::Put, SetXattr::Create, SetXattr::Replace]),
                }
            }
            12 => Operation::RemoveXattr { path, follow, name },
            13 => Operation::Xattrs { path, follow },
            _ => Operation::Xattr { path, follow, name },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wharf_runtime::Seed;

    use super::*;

    #[test]
    fn every_operation_is_done_now_and_then_and_fails_now_and_then() {
        let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for seed in 0..200 {
            let program = Steps::new(Seed(seed).rng(), Taste::default()).program(100);
            let model = new_model(ModelLimits::default());
            let mut users = Users::new(&&model, &callers(), SessionLimits::default());
            for (at, step) in program.iter().enumerate() {
                let answer = block_on(users.step(step, time_of(at)));
                let text = format!("{:?}", step.operation);
                let name = text.split(' ').next().unwrap_or_default().to_string();
                let (done, failed) = counts.entry(name).or_default();
                match answer {
                    Answer::Failed(_) => *failed += 1,
                    _ => *done += 1,
                }
            }
        }
        for (name, (done, failed)) in &counts {
            let fails = *failed >= 1 || name == "SyncAll";
            assert!(*done >= 20 && fails, "{name}: {done} done, {failed} not");
        }
        assert_eq!(counts.len(), 27);
    }
}
