//! Names on the host: directories, links and the walk along a path. Plain state, without time and without storage.
//!
//! Whoever calls owns everything here and is no superuser: of the permission bits the owner's count. A directory is
//! listed in the order in which its entries were made: an entry's cookie is never another's.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::node::Node;
use super::path::{Follow, Found, Last, check_path};
use super::{DirectoryEntry, Errno, Kind, OpenFlags, Rename, SetAttributes};

/// The number of the root.
pub(super) const ROOT: u64 = 1;

/// Most names of a file, and subdirectories of a directory.
const LINKS_MAX: u32 = 65_000;

/// Permission to read, to write, to walk through: the owner's.
const READ: u16 = 0o400;
pub(super) const WRITE: u16 = 0o200;
pub(super) const WALK: u16 = 0o100;

/// A directory's entries.
#[derive(Default)]
pub(super) struct Directory {
    pub(super) parent: u64,
    /// Cookie and number by name.
    pub(super) by_name: BTreeMap<Box<[u8]>, (u64, u64)>,
    by_cookie: BTreeMap<u64, Box<[u8]>>,
    latest_cookie: u64,
}

/// What a number stands for.
pub(super) enum Body {
    File(Arc<Node>),
    Directory(Directory),
    Symlink(Box<[u8]>),
}

/// It, with its attributes.
pub(super) struct Inode {
    pub(super) body: Body,
    mode: u16,
    links: u32,
    /// Handles on it.
    opens: u32,
    accessed_ns: u64,
    modified_ns: u64,
    changed_ns: u64,
}

/// Attributes of an inode, but for what its node knows.
pub(super) struct Known {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) links: u32,
    pub(super) bytes: u64,
    pub(super) times_ns: [u64; 3],
    pub(super) node: Option<Arc<Node>>,
}

/// What an opening found or made.
pub(super) struct Opened {
    pub(super) number: u64,
    /// The file; nothing for a directory.
    pub(super) node: Option<Arc<Node>>,
    /// Whether it was there before.
    pub(super) existed: bool,
}

/// See the module.
pub(super) struct Tree {
    inodes: BTreeMap<u64, Inode>,
    latest: u64,
}

impl Tree {
    /// An empty root.
    pub(super) fn new() -> Tree {
        let mut tree = Tree {
            inodes: BTreeMap::new(),
            latest: ROOT,
        };
        let root = Directory {
            parent: ROOT,
            ..Directory::default()
        };
        tree.inodes
            .insert(ROOT, Inode::new(Body::Directory(root), 0o755, 0));
        tree
    }

    pub(super) fn inode(&self, number: u64) -> &Inode {
        self.inodes.get(&number).expect("entries lead to inodes")
    }

    fn inode_mut(&mut self, number: u64) -> &mut Inode {
        self.inodes
            .get_mut(&number)
            .expect("entries lead to inodes")
    }

    pub(super) fn directory(&self, number: u64) -> Option<&Directory> {
        match &self.inode(number).body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(super) fn may(&self, number: u64, permission: u16) -> Result<(), Errno> {
        match self.inode(number).mode & permission {
            0 => Err(Errno::EACCES),
            _ => Ok(()),
        }
    }

    /// Puts a new inode where `found` says.
    fn add(&mut self, found: Found, body: Body, mode: u16, now_ns: u64) -> u64 {
        self.latest += 1;
        let number = self.latest;
        let mut inode = Inode::new(body, mode, now_ns);
        if let Body::Directory(directory) = &mut inode.body {
            directory.parent = found.directory;
            self.inode_mut(found.directory).links += 1;
        }
        self.inodes.insert(number, inode);
        self.enter(found.directory, found.name, number, now_ns);
        number
    }

    /// Adds an entry to a directory.
    fn enter(&mut self, directory: u64, name: Box<[u8]>, number: u64, now_ns: u64) {
        let inode = self.inode_mut(directory);
        (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
        let Body::Directory(directory) = &mut inode.body else {
            unreachable!("a walk ends in a directory")
        };
        directory.latest_cookie += 1;
        let cookie = directory.latest_cookie;
        directory.by_cookie.insert(cookie, name.clone());
        let before = directory.by_name.insert(name, (cookie, number));
        debug_assert!(before.is_none(), "the name was free");
    }

    /// Takes an entry out of a directory.
    fn leave(&mut self, directory: u64, name: &[u8], now_ns: u64) {
        let inode = self.inode_mut(directory);
        (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
        let Body::Directory(directory) = &mut inode.body else {
            unreachable!("a walk ends in a directory")
        };
        let (cookie, _) = directory.by_name.remove(name).expect("the entry is there");
        directory.by_cookie.remove(&cookie);
    }

    /// One name less of an inode; gives the file whose storage nobody can reach any more.
    fn unlink(&mut self, number: u64, now_ns: u64) -> Option<Arc<Node>> {
        let inode = self.inode_mut(number);
        inode.changed_ns = now_ns;
        inode.links -= 1;
        if let Body::Directory(directory) = &inode.body {
            // Its own dot, and what it was in.
            inode.links = 0;
            let parent = directory.parent;
            self.inode_mut(parent).links -= 1;
        }
        self.bury(number)
    }

    /// Forgets an inode without names and handles.
    fn bury(&mut self, number: u64) -> Option<Arc<Node>> {
        let inode = self.inode(number);
        if inode.links > 0 || inode.opens > 0 {
            return None;
        }
        match self.inodes.remove(&number)?.body {
            Body::File(node) => Some(node),
            _ => None,
        }
    }

    /// Opens what is there, or makes a file with the node that `new` gives.
    pub(super) fn open(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
        now_ns: u64,
        new: impl FnOnce() -> Arc<Node>,
    ) -> Result<Opened, Errno> {
        if !flags.write && (!flags.read || flags.truncate) {
            return Err(Errno::EINVAL);
        }
        let follow = match flags {
            _ if flags.create && flags.exclusive => Follow::Never,
            _ if flags.no_follow => Follow::IfDirectory,
            _ => Follow::Always,
        };
        let found = self.walk(path, follow)?;
        if flags.create && found.slash {
            return Err(Errno::EISDIR);
        }
        let Some(number) = found.number else {
            if !flags.create || flags.directory {
                return Err(if flags.create {
                    Errno::EINVAL
                } else {
                    Errno::ENOENT
                });
            }
            self.may(found.directory, WRITE)?;
            let node = new();
            let number = self.add(found, Body::File(node.clone()), mode, now_ns);
            self.inode_mut(number).opens += 1;
            return Ok(Opened {
                number,
                node: Some(node),
                existed: false,
            });
        };
        if flags.create && flags.exclusive {
            return Err(Errno::EEXIST);
        }
        let inode = self.inode(number);
        let node = match &inode.body {
            Body::Symlink(_) if flags.directory => return Err(Errno::ENOTDIR),
            Body::Symlink(_) => return Err(Errno::ELOOP),
            Body::Directory(_) if flags.write || flags.create => return Err(Errno::EISDIR),
            Body::Directory(_) => None,
            Body::File(_) if flags.directory || found.slash => return Err(Errno::ENOTDIR),
            Body::File(node) => Some(node.clone()),
        };
        if flags.read {
            self.may(number, READ)?;
        }
        if flags.write {
            self.may(number, WRITE)?;
        }
        self.inode_mut(number).opens += 1;
        Ok(Opened {
            number,
            node,
            existed: true,
        })
    }

    /// One handle less on an inode; gives the file whose storage nobody can reach any more.
    pub(super) fn close(&mut self, number: u64) -> Option<Arc<Node>> {
        self.inode_mut(number).opens -= 1;
        self.bury(number)
    }

    pub(super) fn mkdir(&mut self, path: &[u8], mode: u16, now_ns: u64) -> Result<(), Errno> {
        let found = self.vacant(path, None)?;
        if self.inode(found.directory).links == LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        self.add(found, Body::Directory(Directory::default()), mode, now_ns);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, path: &[u8], now_ns: u64) -> Result<(), Errno> {
        let found = self.walk(path, Follow::Never)?;
        match found.last {
            Last::Root => return Err(Errno::EBUSY),
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
            Last::Name => {}
        }
        let number = found.number.ok_or(Errno::ENOENT)?;
        self.may(found.directory, WRITE)?;
        let directory = self.directory(number).ok_or(Errno::ENOTDIR)?;
        if !directory.by_name.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.leave(found.directory, &found.name, now_ns);
        self.unlink(number, now_ns);
        Ok(())
    }

    /// Gives the file whose storage nobody can reach any more.
    pub(super) fn remove(&mut self, path: &[u8], now_ns: u64) -> Result<Option<Arc<Node>>, Errno> {
        let found = self.walk(path, Follow::Never)?;
        if found.last != Last::Name {
            return Err(Errno::EISDIR);
        }
        let number = found.number.ok_or(Errno::ENOENT)?;
        let is_directory = self.directory(number).is_some();
        if found.slash && !is_directory {
            return Err(Errno::ENOTDIR);
        }
        if !found.slash {
            self.may(found.directory, WRITE)?;
        }
        if is_directory {
            return Err(Errno::EISDIR);
        }
        self.leave(found.directory, &found.name, now_ns);
        Ok(self.unlink(number, now_ns))
    }

    /// Gives the file that was replaced, if nobody can reach its storage any more.
    pub(super) fn rename(
        &mut self,
        from: &[u8],
        to: &[u8],
        how: Rename,
        now_ns: u64,
    ) -> Result<Option<Arc<Node>>, Errno> {
        if how == Rename::Exchange {
            return Err(Errno::EINVAL);
        }
        let old = self.walk(from, Follow::Never)?;
        let new = self.walk(to, Follow::Never)?;
        if old.last != Last::Name {
            return Err(Errno::EBUSY);
        }
        if new.last != Last::Name {
            return Err(match how {
                Rename::Replace => Errno::EBUSY,
                Rename::NoReplace | Rename::Exchange => Errno::EEXIST,
            });
        }
        let number = old.number.ok_or(Errno::ENOENT)?;
        if new.number.is_some() && how == Rename::NoReplace {
            return Err(Errno::EEXIST);
        }
        let is_directory = self.directory(number).is_some();
        if !is_directory && (old.slash || new.slash) {
            return Err(Errno::ENOTDIR);
        }
        if is_directory && self.is_within(new.directory, number) {
            return Err(Errno::EINVAL);
        }
        if new
            .number
            .is_some_and(|target| self.is_within(old.directory, target))
        {
            return Err(Errno::ENOTEMPTY);
        }
        if new.number == Some(number) {
            return Ok(None);
        }
        self.may(old.directory, WRITE)?;
        self.may(new.directory, WRITE)?;
        if let Some(target) = new.number {
            match (is_directory, self.directory(target)) {
                (true, None) => return Err(Errno::ENOTDIR),
                (false, Some(_)) => return Err(Errno::EISDIR),
                (true, Some(entries)) if !entries.by_name.is_empty() => {
                    return Err(Errno::ENOTEMPTY);
                }
                _ => {}
            }
        }
        let moves = is_directory && old.directory != new.directory;
        if moves {
            self.may(number, WRITE)?;
            let has_room = self.inode(new.directory).links < LINKS_MAX || new.number.is_some();
            if !has_room {
                return Err(Errno::EMLINK);
            }
        }
        let replaced = new.number.and_then(|target| {
            self.leave(new.directory, &new.name, now_ns);
            self.unlink(target, now_ns)
        });
        self.leave(old.directory, &old.name, now_ns);
        self.enter(new.directory, new.name, number, now_ns);
        self.inode_mut(number).changed_ns = now_ns;
        if moves {
            self.inode_mut(old.directory).links -= 1;
            self.inode_mut(new.directory).links += 1;
            if let Body::Directory(moved) = &mut self.inode_mut(number).body {
                moved.parent = new.directory;
            }
        }
        Ok(replaced)
    }

    pub(super) fn link(&mut self, from: &[u8], to: &[u8], now_ns: u64) -> Result<(), Errno> {
        let number = self.lookup(from, false)?;
        let found = self.vacant(to, Some(Errno::ENOENT))?;
        if self.directory(number).is_some() {
            return Err(Errno::EPERM);
        }
        let inode = self.inode_mut(number);
        if inode.links == LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        inode.links += 1;
        inode.changed_ns = now_ns;
        self.enter(found.directory, found.name, number, now_ns);
        Ok(())
    }

    pub(super) fn symlink(&mut self, target: &[u8], path: &[u8], now_ns: u64) -> Result<(), Errno> {
        check_path(target)?;
        let found = self.vacant(path, Some(Errno::ENOENT))?;
        self.add(found, Body::Symlink(target.into()), 0o777, now_ns);
        Ok(())
    }

    pub(super) fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        match &self.inode(self.lookup(path, false)?).body {
            Body::Symlink(target) => Ok(target.to_vec()),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn stat(&self, path: &[u8], follow: bool) -> Result<Known, Errno> {
        Ok(self.known(self.lookup(path, follow)?))
    }

    /// The attributes of an inode that is open.
    pub(super) fn known(&self, number: u64) -> Known {
        let inode = self.inode(number);
        let (kind, bytes, node) = match &inode.body {
            Body::File(node) => (Kind::File, 0, Some(node.clone())),
            Body::Directory(entries) => (Kind::Directory, entries.by_name.len() as u64, None),
            Body::Symlink(target) => (Kind::Symlink, target.len() as u64, None),
        };
        Known {
            number,
            kind,
            mode: inode.mode,
            links: inode.links,
            bytes,
            times_ns: [inode.accessed_ns, inode.modified_ns, inode.changed_ns],
            node,
        }
    }

    /// Sets the attributes that are kept here; gives the node for the others.
    pub(super) fn set_attributes(
        &mut self,
        path: &[u8],
        set: SetAttributes,
        now_ns: u64,
    ) -> Result<Option<Arc<Node>>, Errno> {
        let number = self.lookup(path, true)?;
        if set.uid.is_some() || set.gid.is_some() {
            return Err(Errno::EPERM);
        }
        let inode = self.inode_mut(number);
        inode.changed_ns = now_ns;
        inode.mode = set.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.accessed_ns = set.accessed_ns.unwrap_or(inode.accessed_ns);
        inode.modified_ns = set.modified_ns.unwrap_or(inode.modified_ns);
        Ok(self.known(number).node)
    }

    /// Adds entries of an open directory behind `cookie`; true if there are no more.
    pub(super) fn list(
        &self,
        number: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, Errno> {
        let directory = self.directory(number).ok_or(Errno::ENOTDIR)?;
        let range = (Bound::Excluded(cookie), Bound::Unbounded);
        let mut rest = directory.by_cookie.range::<u64, _>(range);
        for (cookie, name) in rest.by_ref().take(most) {
            let number = directory.by_name[name].1;
            entries.push(DirectoryEntry {
                cookie: *cookie,
                number,
                kind: self.known(number).kind,
                name: name.clone(),
            });
        }
        Ok(rest.next().is_none())
    }
}

impl Inode {
    fn new(body: Body, mode: u16, now_ns: u64) -> Inode {
        let links = match body {
            Body::Directory(_) => 2,
            _ => 1,
        };
        Inode {
            body,
            mode: mode & 0o7777,
            links,
            opens: 0,
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
        }
    }
}
