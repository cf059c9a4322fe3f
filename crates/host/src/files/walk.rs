//! The walk along a path: through directories and symbolic links to where its last component is, or would be.

use super::Errno;
use super::path::{Follow, Found, Last, check_path, components};
use super::tree::{Body, ROOT, Tree, WALK, WRITE};
use wharf_files::{NAME_BYTES_MAX, SYMLINKS_MAX};

impl Tree {
    /// Walks along a path, up to its last component.
    pub(super) fn walk(&self, path: &[u8], follow: Follow) -> Result<Found, Errno> {
        check_path(path)?;
        let mut todo: Vec<Box<[u8]>> = components(path);
        let (mut at, mut links, mut slash) = (ROOT, 0, path.ends_with(b"/"));
        let end = |directory, name: Box<[u8]>, last, number, slash| {
            Ok(Found {
                directory,
                name,
                last,
                number,
                slash,
            })
        };
        loop {
            let Some(name) = todo.pop() else {
                return end(at, Box::default(), Last::Root, Some(at), slash);
            };
            let directory = self.directory(at).ok_or(Errno::ENOTDIR)?;
            self.may(at, WALK)?;
            let is_last = todo.is_empty();
            if &*name == b"." || &*name == b".." {
                let is_dot = name.len() == 1;
                let number = if is_dot { at } else { directory.parent };
                if is_last {
                    let last = if is_dot { Last::Dot } else { Last::DotDot };
                    return end(at, name, last, Some(number), slash);
                }
                at = number;
                continue;
            }
            if name.len() > NAME_BYTES_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            let number = directory.by_name.get(&name).map(|(_, number)| *number);
            let target = number.and_then(|number| match &self.inode(number).body {
                Body::Symlink(target) => Some(target),
                _ => None,
            });
            let follows = match follow {
                _ if !is_last => true,
                Follow::Always => true,
                Follow::IfDirectory => slash,
                Follow::Never => false,
            };
            match (number, target) {
                (Some(_), Some(target)) if follows => {
                    links += 1;
                    if links > SYMLINKS_MAX {
                        return Err(Errno::ELOOP);
                    }
                    if target.starts_with(b"/") {
                        at = ROOT;
                    }
                    slash |= is_last && target.ends_with(b"/");
                    todo.extend(components(target));
                }
                _ if is_last => return end(at, name, Last::Name, number, slash),
                (Some(number), _) => at = number,
                (None, _) => return Err(Errno::ENOENT),
            }
        }
    }

    /// What a path names.
    pub(super) fn lookup(&self, path: &[u8], follow: bool) -> Result<u64, Errno> {
        let follow = match follow {
            true => Follow::Always,
            false => Follow::IfDirectory,
        };
        let found = self.walk(path, follow)?;
        let number = found.number.ok_or(Errno::ENOENT)?;
        if found.slash && self.directory(number).is_none() {
            return Err(Errno::ENOTDIR);
        }
        Ok(number)
    }

    /// Where something new is to be; `on_slash` if its name ends in `/` and nothing may.
    pub(super) fn vacant(&self, path: &[u8], on_slash: Option<Errno>) -> Result<Found, Errno> {
        let found = self.walk(path, Follow::Never)?;
        if found.last != Last::Name || found.number.is_some() {
            return Err(Errno::EEXIST);
        }
        match on_slash {
            Some(errno) if found.slash => Err(errno),
            _ => {
                self.may(found.directory, WRITE)?;
                Ok(found)
            }
        }
    }

    /// Whether directory `inner` is `outer`, or below it.
    pub(super) fn is_within(&self, inner: u64, outer: u64) -> bool {
        let mut at = inner;
        while at != outer {
            match self.directory(at) {
                Some(directory) if at != ROOT => at = directory.parent,
                _ => return false,
            }
        }
        true
    }
}
