//! What is done to names: the checks of each operation stand in the order of their errors.

use super::bytes::Bytes;
use super::state::{Body, Directory, Named, Node, ROOT, State};
use crate::arguments::{Content, Entry, New, Remove, Seen};
use crate::attributes::DirectoryEntry;
use crate::errno::Errno;
use crate::flags::Rename;
use crate::limits::{PATH_BYTES_MAX, check_name};

impl State {
    /// What an entry leads to.
    fn target(&self, entry: &Entry<'_>) -> Result<Option<u64>, Errno> {
        let directory = self.node(entry.directory)?.directory()?;
        check_name(entry.name)?;
        Ok(directory.entries.get(entry.name).map(|named| named.number))
    }

    pub(super) fn lookup(&self, directory: u64, name: &[u8]) -> Result<u64, Errno> {
        if name == b".." {
            let parent = self.node(directory)?.directory()?.parent;
            return match self.node(parent) {
                Ok(_) => Ok(parent),
                Err(_) => Err(Errno::ENOENT),
            };
        }
        self.target(&Entry::new(directory, name))?
            .ok_or(Errno::ENOENT)
    }

    /// Refuses a directory that was removed.
    fn check_is_there(&self, directory: u64) -> Result<(), Errno> {
        match self.node(directory)?.links {
            0 => Err(Errno::ENOENT),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, entry: &Entry<'_>, number: u64, now_ns: u64) -> Result<(), Errno> {
        let node = self.node_mut(entry.directory)?;
        node.touch(now_ns);
        let directory = node.directory_mut()?;
        directory.latest_cookie += 1;
        let cookie = directory.latest_cookie;
        let named = Named { number, cookie };
        directory.entries.insert(entry.name.to_vec(), named);
        Ok(())
    }

    fn leave(&mut self, entry: &Entry<'_>, now_ns: u64) -> Result<(), Errno> {
        let node = self.node_mut(entry.directory)?;
        node.touch(now_ns);
        node.directory_mut()?.entries.remove(entry.name);
        Ok(())
    }

    /// One name less of what an entry led to.
    fn drop_link(&mut self, number: u64, now_ns: u64) -> Result<(), Errno> {
        let node = self.node_mut(number)?;
        node.changed_ns = now_ns;
        node.links -= 1;
        if let Ok(directory) = node.directory() {
            let parent = directory.parent;
            node.links = 0;
            self.node_mut(parent)?.links -= 1;
        }
        self.forget_if_gone(number);
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        entry: &Entry<'_>,
        new: &New<'_>,
        links_max: u32,
        now_ns: u64,
    ) -> Result<u64, Errno> {
        if self.target(entry)?.is_some() {
            return Err(Errno::EEXIST);
        }
        self.check_is_there(entry.directory)?;
        let (body, mode) = match new.content {
            Content::File => (Body::File(Bytes::default()), new.mode),
            Content::Directory => {
                let parent = self.node_mut(entry.directory)?;
                if parent.links >= links_max {
                    return Err(Errno::EMLINK);
                }
                parent.links += 1;
                let directory = Directory {
                    parent: entry.directory,
                    entries: Default::default(),
                    latest_cookie: 0,
                };
                (Body::Directory(directory), new.mode)
            }
            Content::Symlink([]) => return Err(Errno::EINVAL),
            Content::Symlink(target) if target.len() > PATH_BYTES_MAX => {
                return Err(Errno::ENAMETOOLONG);
            }
            Content::Symlink(target) => (Body::Symlink(target.to_vec()), 0o777),
            Content::Special(special, device) => (Body::Special(special, device), new.mode),
        };
        let mut node = Node::new(body, mode, new.owner, now_ns);
        node.opens = u32::from(new.is_open);
        let number = self.add(node);
        self.enter(entry, number, now_ns)?;
        Ok(number)
    }

    pub(super) fn link(
        &mut self,
        number: u64,
        entry: &Entry<'_>,
        links_max: u32,
        now_ns: u64,
    ) -> Result<(), Errno> {
        let found = self.target(entry)?;
        let node = self.node(number)?;
        let (is_directory, links) = (node.is_directory(), node.links);
        if found.is_some() {
            return Err(Errno::EEXIST);
        }
        self.check_is_there(entry.directory)?;
        if is_directory {
            return Err(Errno::EPERM);
        }
        if links == 0 {
            return Err(Errno::ENOENT);
        }
        if links >= links_max {
            return Err(Errno::EMLINK);
        }
        let node = self.node_mut(number)?;
        node.links += 1;
        node.changed_ns = now_ns;
        self.enter(entry, number, now_ns)
    }

    pub(super) fn remove(
        &mut self,
        entry: &Entry<'_>,
        what: Remove,
        now_ns: u64,
    ) -> Result<(), Errno> {
        let number = self.target(entry)?.ok_or(Errno::ENOENT)?;
        check_seen(entry, Some(number))?;
        match (what, self.node(number)?.directory()) {
            (Remove::Name, Ok(_)) => return Err(Errno::EISDIR),
            (Remove::Directory, Err(_)) => return Err(Errno::ENOTDIR),
            (Remove::Directory, Ok(directory)) if !directory.entries.is_empty() => {
                return Err(Errno::ENOTEMPTY);
            }
            _ => {}
        }
        self.leave(entry, now_ns)?;
        self.drop_link(number, now_ns)
    }

    /// Whether directory `inner` is `outer`, or below it.
    fn is_within(&self, inner: u64, outer: u64) -> Result<bool, Errno> {
        let mut at = inner;
        while at != outer {
            match self.node(at) {
                Ok(node) if at != ROOT => at = node.directory()?.parent,
                // The root, or the parent of a directory that was removed, which is gone too.
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    pub(super) fn rename(
        &mut self,
        from: &Entry<'_>,
        to: &Entry<'_>,
        how: Rename,
        links_max: u32,
        now_ns: u64,
    ) -> Result<(), Errno> {
        let (source, target) = (self.target(from)?, self.target(to)?);
        let source = source.ok_or(Errno::ENOENT)?;
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (Rename::Exchange, None) => return Err(Errno::ENOENT),
            _ => {}
        }
        check_seen(from, Some(source))?;
        check_seen(to, target)?;
        let is_exchange = how == Rename::Exchange;
        if self.is_within(to.directory, source)? {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = target
            && self.is_within(from.directory, target)?
        {
            return Err(match is_exchange {
                true => Errno::EINVAL,
                false => Errno::ENOTEMPTY,
            });
        }
        if target == Some(source) {
            return Ok(());
        }
        if let Some(target) = target
            && !is_exchange
        {
            match (
                self.node(source)?.is_directory(),
                self.node(target)?.is_directory(),
            ) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            }
        }
        self.check_is_there(to.directory)?;
        self.check_links(source, target, (from, to), is_exchange, links_max)?;
        if let Some(target) = target
            && !is_exchange
        {
            if let Ok(directory) = self.node(target)?.directory()
                && !directory.entries.is_empty()
            {
                return Err(Errno::ENOTEMPTY);
            }
            self.leave(to, now_ns)?;
            self.drop_link(target, now_ns)?;
        }
        self.leave(from, now_ns)?;
        if let Some(target) = target
            && is_exchange
        {
            self.leave(to, now_ns)?;
            self.enter(from, target, now_ns)?;
            self.moved(target, to.directory, from.directory, now_ns)?;
        }
        self.enter(to, source, now_ns)?;
        self.moved(source, from.directory, to.directory, now_ns)
    }

    /// Refuses a directory more in one that has as many as there can be.
    fn check_links(
        &self,
        source: u64,
        target: Option<u64>,
        (from, to): (&Entry<'_>, &Entry<'_>),
        is_exchange: bool,
        links_max: u32,
    ) -> Result<(), Errno> {
        let source_is_directory = self.node(source)?.is_directory();
        let target_is_directory = match target {
            Some(target) => self.node(target)?.is_directory(),
            None => false,
        };
        let is_full = |directory| Ok::<bool, Errno>(self.node(directory)?.links >= links_max);
        let (moves_in, moves_out) = (
            source_is_directory && !target_is_directory,
            is_exchange && target_is_directory && !source_is_directory,
        );
        let is_other = from.directory != to.directory;
        if is_other && moves_in && is_full(to.directory)? {
            return Err(Errno::EMLINK);
        }
        if is_other && moves_out && is_full(from.directory)? {
            return Err(Errno::EMLINK);
        }
        Ok(())
    }

    /// Something is in another directory now.
    fn moved(&mut self, number: u64, from: u64, to: u64, now_ns: u64) -> Result<(), Errno> {
        let node = self.node_mut(number)?;
        node.changed_ns = now_ns;
        if let Ok(directory) = node.directory_mut() {
            directory.parent = to;
            self.node_mut(from)?.links -= 1;
            self.node_mut(to)?.links += 1;
        }
        Ok(())
    }

    pub(super) fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, Errno> {
        let directory = self.node(directory)?.directory()?;
        let mut rest: Vec<_> = directory
            .entries
            .iter()
            .filter(|(_, named)| named.cookie > cookie)
            .collect();
        rest.sort_by_key(|(_, named)| named.cookie);
        let is_end = rest.len() <= most;
        for (name, named) in rest.into_iter().take(most) {
            entries.push(DirectoryEntry {
                cookie: named.cookie,
                number: named.number,
                kind: self.attributes(named.number)?.kind,
                name: name.clone().into(),
            });
        }
        Ok(is_end)
    }
}

/// Refuses an entry that leads to something else than it did.
fn check_seen(entry: &Entry<'_>, found: Option<u64>) -> Result<(), Errno> {
    let is_same = match entry.seen {
        Seen::Any => true,
        Seen::Nothing => found.is_none(),
        Seen::Number(number) => found == Some(number),
    };
    match is_same {
        true => Ok(()),
        false => Err(Errno::ESTALE),
    }
}
