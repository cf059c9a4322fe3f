//! The trait of all file systems, and what each operation promises.
//!
//! **Numbers.** Everything has a number: a file, a directory, a symbolic link. It is never
//! another's. A directory leads from names to numbers. An operation on a number that stands for
//! nothing fails (`ESTALE`); what has no names any more stays, with its number, until it is closed
//! as often as it was opened.
//!
//! **Who may.** Nothing is checked here: not permissions, not handles, no paths. Whoever calls has
//! done so (`vfs/`), with what it saw; where that decides, it says so ([`Entry::seen`]), and gets
//! `ESTALE` if it is not so any more.
//!
//! **Order.** An operation takes effect at one instant between its call and its end, for all
//! callers alike. A read, or a write, of several pages is the exception: each page of 4096 bytes is
//! read, or written, at one instant. Two writes at [`Place::End`] never get the same place.
//!
//! **Durability.** What is done to names, attributes, sizes and extended attributes is durable in
//! the order in which the operations were completed: after a power cut the tree is what it was
//! after some number of the operations that were completed, none of them left out before it, and
//! perhaps some that were under way. [`FileSystem::sync`] makes the bytes of a file durable, its
//! attributes, and every one of these operations that was completed before it was called, so that
//! number reaches at least as far. A page whose bytes were not made durable is, after a cut, what
//! it was before, or after any of the writes to it since then, or zeros where the file had none
//! there before; never a mixture of two of them, never bytes of another file, nor
//! those that a file had before it was cut off there. [`FileSystem::is_durable`] says whether an
//! implementation has this part at all.
//!
//! **Holes.** A page of a file is *data* from the first write of any of its bytes, and a *hole*
//! until then, and again when it is cut off or punched as a whole. Storage that a page has by
//! [`FileSystem::allocate`] alone leaves it a hole. Holes read as zeros, and so does what lies
//! behind the end of the file when that moves.
//!
//! **Times.** Changes of bytes or entries set `modified_ns` and `changed_ns`; changes of
//! attributes, names and extended attributes `changed_ns` of what they are of. `accessed_ns`
//! follows the rule of `relatime`, or less.
//!
//! **Errors, in this order**, the first that holds: `EROFS` for a change where none is taken;
//! `ESTALE` for a number that stands for nothing; `ENOTDIR` for a directory that is none; `EINVAL`
//! for a name that can be none (empty, `.`, `..`, with `/` or zero in it); `ENAMETOOLONG`; then
//! those of each operation in the order in which they are listed there; `ENOSPC` behind all of
//! them. Any of them may fail with `EIO` ([`FileError::Io`]). An operation that fails changes
//! nothing that can be seen, but for writes of bytes that end with `EIO`: each page then holds its
//! old or its new bytes.

use crate::arguments::{
    Allocate, By, Entry, New, Remove, Seek, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, SetAttributes};
use crate::errno::FileError;
use crate::flags::Rename;
use crate::payload::{In, Out};

/// A file system. See the module for what all operations have in common.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait FileSystem {
    /// Whether what is said of durability holds.
    fn is_durable(&self) -> bool;

    /// The number of the directory where all paths begin. It is its own `..`, and never goes.
    fn root(&self) -> u64;

    /// What a name in a directory leads to; `..` is the directory that this one is in, also of one
    /// that was removed.
    ///
    /// # Errors
    /// `ENOENT`.
    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError>;

    /// The attributes of a number.
    ///
    /// # Errors
    /// None but those that all have.
    async fn attributes(&self, number: u64) -> Result<Attributes, FileError>;

    /// Sets attributes in one step, and gives those that it has then. Another owner or group takes
    /// mode bits away ([`Caller::mode_after_chown`](crate::Caller::mode_after_chown)), also if it
    /// is the same one, unless `set` has a mode; not from directories.
    ///
    /// # Errors
    /// None but those that all have.
    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError>;

    /// Makes something, under a name.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` (the directory was removed), `EMLINK` (a directory in one that has as
    /// many as there can be), `EINVAL` or `ENAMETOOLONG` (a symbolic link's target).
    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError>;

    /// Gives a file or a symbolic link one more name.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` (the directory was removed), `EPERM` (a directory), `ENOENT` (it has no
    /// name any more), `EMLINK`.
    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError>;

    /// Takes a name away. What has none any more, and is not open, is gone with its storage. What
    /// is open is kept in a list on the media until then, so that a power cut does not leave it
    /// there for ever.
    ///
    /// # Errors
    /// `ENOENT`, `ESTALE` (not what was seen), `EISDIR` or `ENOTDIR`, `ENOTEMPTY`.
    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError>;

    /// Gives what is at `from` the name `to`, in one step. If both lead to the same, nothing
    /// happens.
    ///
    /// # Errors
    /// `ENOENT` (nothing at `from`), `EEXIST` (something at `to`, and [`Rename::NoReplace`]),
    /// `ENOENT` (nothing at `to`, and [`Rename::Exchange`]), `ESTALE` (not what was seen), `EINVAL`
    /// (a directory into itself, or below; of an exchange, in either direction), `ENOTEMPTY` (onto
    /// a directory that it is in), `ENOTDIR` (a directory onto something else), `EISDIR` (something
    /// else onto a directory), `ENOENT` (the directory of `to` was removed), `EMLINK`, `ENOTEMPTY`.
    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError>;

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// `EINVAL` (it is none).
    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError>;

    /// Adds up to `most` entries of a directory to `entries`, those behind `cookie` in its order,
    /// which is [`LIST_START`](crate::LIST_START) or that of an entry. An entry that is there from
    /// before the first call until after the last comes exactly once, whatever is made and removed
    /// beside it. `.` and `..` are none. True if there are no more.
    ///
    /// # Errors
    /// `ENOTDIR`.
    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError>;

    /// Opens something: it stays, also without a name, until it is closed as often. No power cut is
    /// survived by that.
    ///
    /// # Errors
    /// None but those that all have.
    async fn open(&self, number: u64) -> Result<(), FileError>;

    /// Closes something once; the last time, if it has no name, its storage is given back.
    ///
    /// # Errors
    /// `EBADF` (it is not open). After any other error it is closed all the same.
    async fn close(&self, number: u64) -> Result<(), FileError>;

    /// Reads from byte `offset` of a file on, as far as it goes; gives the number of bytes.
    /// `now_ns` is when, for `accessed_ns`. What of `out` lies behind these bytes may have been
    /// written to after an error alone.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (a symbolic link), `EFAULT` (`out` cannot be reached).
    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError>;

    /// Writes to a file: all of `data`, or as much of it as there is room for, but not nothing. A
    /// gap before it is a hole. Mode bits go as by
    /// [`Caller::mode_after_write`](crate::Caller::mode_after_write). Of no bytes at all nothing is
    /// changed.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (a symbolic link), `EFBIG` (it begins at or beyond [`Write::end_max`], or
    /// the longest that a file can be), `EFAULT` (`data` cannot be reached).
    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError>;

    /// Sets the size of a file; mode bits go as by a write, also if it is the same size.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (a symbolic link), `EFBIG` (longer than a file can be).
    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError>;

    /// Gives storage to a range of a file, or takes it; mode bits go as by a write. After an error
    /// other than `EIO` nothing is changed.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (a symbolic link; no bytes), `EFBIG` (the range ends beyond the longest
    /// that a file can be), `EOPNOTSUPP`.
    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError>;

    /// The first byte from `offset` on that is data, or a hole.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` (a symbolic link), `ENXIO` (at or beyond the end; no more data).
    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError>;

    /// Makes durable what belongs to a number, as far as it was completed before the call. Of a
    /// directory, its entries.
    ///
    /// # Errors
    /// `EIO`: and from then on either it is read-only (`EROFS`), or the next one tries again.
    async fn sync(&self, number: u64, what: Sync) -> Result<(), FileError>;

    /// Makes everything durable that was completed before the call.
    ///
    /// # Errors
    /// As [`FileSystem::sync`].
    async fn sync_all(&self) -> Result<(), FileError>;

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ERANGE` (a name that is empty or too long), `ENODATA`.
    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError>;

    /// Sets an extended attribute. Names are whole, with their `user.` or `trusted.`.
    ///
    /// # Errors
    /// `ERANGE` (a name that is empty or too long), `E2BIG` (a value that is too long), `EEXIST`,
    /// `ENODATA`, `ENOSPC`.
    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError>;

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// `ERANGE` (a name that is empty or too long), `ENODATA`.
    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError>;

    /// The names of all extended attributes, in any order.
    ///
    /// # Errors
    /// None but those that all have.
    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError>;

    /// How much there is, and how much is free.
    ///
    /// # Errors
    /// None but those that all have.
    async fn stat_fs(&self) -> Result<StatFs, FileError>;
}
