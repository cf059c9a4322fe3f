//! The reference file system: all that a file system does, in memory, as plainly as possible.
//!
//! It is what tests hold other file systems against, and is held itself against those of the system
//! that tests run on. A clone is a snapshot. It looks for the first error that holds in the order
//! of the trait's documentation, walks through all entries where that is plainest, and shares
//! nothing with any other file system.
//!
//! | file | idea |
//! |---|---|
//! | `state.rs` | what each number stands for |
//! | `names.rs` | directories: lookup, create, link, remove, rename, list |
//! | `bytes.rs` | the bytes of a file |
//!
//! Not yet: nothing limits its size but memory, so it never says `ENOSPC`.

mod bytes;
mod names;
mod state;

use std::cell::RefCell;

use crate::arguments::{
    Allocate, By, Entry, New, Place, Remove, Seek, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, Owner, SetAttributes};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::Rename;
use crate::limits::{FILE_BYTES_MAX, PAGE_BYTES, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::payload::{In, Out};
use state::{Body, Node, ROOT, State};

/// A day, after which `relatime` notes a read in any case.
const DAY_NS: u64 = 86_400_000_000_000;

/// Pages that it says it has.
const PAGES: u64 = 1 << 40;

/// What a model can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Bytes of the longest file.
    pub file_bytes_max: u64,
    /// Names of a file, and subdirectories of a directory with 2 more.
    pub links_max: u32,
}

impl Default for ModelLimits {
    fn default() -> ModelLimits {
        ModelLimits {
            file_bytes_max: FILE_BYTES_MAX,
            links_max: 65_000,
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Model {
    state: RefCell<State>,
    limits: ModelLimits,
}

impl Model {
    /// An empty root with these permission bits.
    pub fn new(limits: ModelLimits, mode: u16, owner: Owner, now_ns: u64) -> Model {
        Model {
            state: RefCell::new(State::new(mode, owner, now_ns)),
            limits,
        }
    }

    /// What is left after a power cut right now, if everything is durable: nothing is open.
    pub fn close_all(&self) {
        self.state.borrow_mut().close_all();
    }

    fn look<R>(&self, f: impl FnOnce(&State) -> Result<R, Errno>) -> Result<R, FileError> {
        Ok(f(&self.state.borrow())?)
    }

    fn change<R>(&self, f: impl FnOnce(&mut State) -> Result<R, Errno>) -> Result<R, FileError> {
        Ok(f(&mut self.state.borrow_mut())?)
    }

    /// Changes the bytes of a file.
    fn change_bytes(
        &self,
        by: By<'_>,
        number: u64,
        f: impl FnOnce(&mut bytes::Bytes) -> Result<(), Errno>,
    ) -> Result<(), FileError> {
        self.change(|state| {
            let node = state.node_mut(number)?;
            f(node.bytes_mut()?)?;
            node.mode = by.caller.mode_after_write(node.mode, node.owner.gid);
            node.touch(by.now_ns);
            Ok(())
        })
    }
}

fn check_xattr_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=XATTR_NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}

impl FileSystem for Model {
    fn is_durable(&self) -> bool {
        false
    }

    fn root(&self) -> u64 {
        ROOT
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        self.look(|state| state.attributes(state.lookup(directory, name)?))
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        self.look(|state| state.attributes(number))
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        self.change(|state| {
            let node = state.node_mut(number)?;
            let gives = set.uid.is_some() || set.gid.is_some();
            if let Some(mode) = set.mode {
                node.mode = mode & crate::attributes::MODE_BITS;
            } else if gives && !node.is_directory() {
                node.mode = by.caller.mode_after_chown(node.mode, node.owner.gid);
            }
            node.owner.uid = set.uid.unwrap_or(node.owner.uid);
            node.owner.gid = set.gid.unwrap_or(node.owner.gid);
            node.accessed_ns = set.accessed_ns.unwrap_or(node.accessed_ns);
            node.modified_ns = set.modified_ns.unwrap_or(node.modified_ns);
            node.changed_ns = by.now_ns;
            state.attributes(number)
        })
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        self.change(|state| {
            let number = state.create(&entry, &new, self.limits.links_max, by.now_ns)?;
            state.attributes(number)
        })
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        self.change(|state| {
            state.link(number, &entry, self.limits.links_max, by.now_ns)?;
            state.attributes(number)
        })
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        self.change(|state| state.remove(&entry, what, by.now_ns))
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        let links_max = self.limits.links_max;
        self.change(|state| state.rename(&from, &to, how, links_max, by.now_ns))
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        self.look(|state| match &state.node(number)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        })
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        self.look(|state| state.list(directory, cookie, most, entries))
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        self.change(|state| {
            state.node_mut(number)?.opens += 1;
            Ok(())
        })
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        self.change(|state| {
            let node = state.node_mut(number)?;
            node.opens = node.opens.checked_sub(1).ok_or(Errno::EBADF)?;
            state.forget_if_gone(number);
            Ok(())
        })
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError> {
        let out = out.memory()?;
        self.change(|state| {
            let node = state.node_mut(number)?;
            let bytes = node.bytes()?.read(offset, out);
            let latest_ns = node.modified_ns.max(node.changed_ns);
            if node.accessed_ns <= latest_ns || now_ns.saturating_sub(node.accessed_ns) >= DAY_NS {
                node.accessed_ns = now_ns;
            }
            Ok(bytes)
        })
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        let data = data.memory()?;
        let size = self.look(|state| Ok(state.node(number)?.bytes()?.size))?;
        let offset = match write.place {
            Place::At(offset) => offset,
            Place::End => size,
        };
        if data.is_empty() {
            return Ok(Written { offset, bytes: 0 });
        }
        let room = write
            .end_max
            .min(self.limits.file_bytes_max)
            .saturating_sub(offset);
        if room == 0 {
            return Err(Errno::EFBIG.into());
        }
        let bytes = room.min(data.len() as u64);
        self.change_bytes(by, number, |file| {
            file.write(offset, &data[..bytes as usize]);
            Ok(())
        })?;
        Ok(Written { offset, bytes })
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        self.change_bytes(by, number, |file| {
            if bytes > self.limits.file_bytes_max {
                return Err(Errno::EFBIG);
            }
            file.truncate(bytes);
            Ok(())
        })
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.change_bytes(by, number, |file| {
            if bytes == 0 {
                return Err(Errno::EINVAL);
            }
            match offset.checked_add(bytes) {
                Some(end) if end <= self.limits.file_bytes_max => {
                    file.allocate(offset, bytes, what);
                    Ok(())
                }
                _ => Err(Errno::EFBIG),
            }
        })
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.look(|state| state.node(number)?.bytes()?.seek(offset, what))
    }

    async fn sync(&self, number: u64, _what: Sync) -> Result<(), FileError> {
        self.look(|state| state.node(number).map(|_| ()))
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        Ok(())
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.look(|state| {
            let node = state.node(number)?;
            check_xattr_name(name)?;
            node.xattrs.get(name).cloned().ok_or(Errno::ENODATA)
        })
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        self.change(|state| {
            let node = state.node_mut(number)?;
            check_xattr_name(name)?;
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(Errno::E2BIG);
            }
            match (how, node.xattrs.contains_key(name)) {
                (SetXattr::Create, true) => return Err(Errno::EEXIST),
                (SetXattr::Replace, false) => return Err(Errno::ENODATA),
                _ => {}
            }
            node.xattrs.insert(name.to_vec(), value.to_vec());
            node.changed_ns = by.now_ns;
            Ok(())
        })
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        self.change(|state| {
            let node = state.node_mut(number)?;
            check_xattr_name(name)?;
            node.xattrs.remove(name).ok_or(Errno::ENODATA)?;
            node.changed_ns = by.now_ns;
            Ok(())
        })
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        self.look(|state| {
            let names = state.node(number)?.xattrs.keys();
            Ok(names.map(|name| name.as_slice().into()).collect())
        })
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.look(|state| {
            let stored: u64 = state.nodes().map(Node::stored_bytes).sum();
            Ok(StatFs {
                pages: PAGES,
                pages_free: PAGES.saturating_sub(stored / PAGE_BYTES),
                files: 0,
                files_free: 0,
                file_bytes_max: self.limits.file_bytes_max,
                links_max: self.limits.links_max,
                id: 0,
            })
        })
    }
}
