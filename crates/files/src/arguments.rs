//! What the operations of a file system are given, and what they answer.

use crate::attributes::{Owner, Special};
use crate::caller::Caller;

/// Who makes a change, and when.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// Who: what it may do was checked before; it says which mode bits a change takes away.
    pub caller: &'a Caller,
    /// When, in nanoseconds: the times that the change sets.
    pub now_ns: u64,
}

/// What a caller saw under a name before it asked to change it.
///
/// Whether somebody may remove or replace something depends on what that is. A file system takes an
/// operation back (`ESTALE`) if it is not the same any more, and the caller looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seen {
    /// It did not look: anything will do.
    #[default]
    Any,
    /// There was nothing.
    Nothing,
    /// What has this number.
    Number(u64),
}

/// A name in a directory, which need not lead to anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The number of the directory.
    pub directory: u64,
    /// The name: 1 to 255 bytes, without `/` and zero, neither `.` nor `..`.
    pub name: &'a [u8],
    /// What was seen there.
    pub seen: Seen,
}

impl<'a> Entry<'a> {
    /// A name where nobody looked.
    pub fn new(directory: u64, name: &'a [u8]) -> Entry<'a> {
        Entry {
            directory,
            name,
            seen: Seen::Any,
        }
    }
}

/// What is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A file without bytes.
    File,
    /// A directory without entries.
    Directory,
    /// A symbolic link to this, 1 to [`PATH_BYTES_MAX`](crate::PATH_BYTES_MAX) bytes.
    Symlink(&'a [u8]),
    /// What is no file, and which device it is (0 of what is none).
    Special(Special, u32),
}

/// What is to be made, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct New<'a> {
    /// What it is.
    pub content: Content<'a>,
    /// Its permission bits, 12 of them.
    pub mode: u16,
    /// Whose it is.
    pub owner: Owner,
    /// Whether it is opened in the same step, as by [`FileSystem::open`](crate::FileSystem::open).
    pub is_open: bool,
}

/// What a removal takes away: anything else is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remove {
    /// What is no directory (`EISDIR`).
    Name,
    /// An empty directory (`ENOTDIR`, `ENOTEMPTY`).
    Directory,
}

/// Where a write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At this byte of the file.
    At(u64),
    /// At its end, wherever that is when the write takes effect.
    End,
}

/// Where a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Where it begins.
    pub place: Place,
    /// No byte at or beyond this offset is written: the caller's limit (`RLIMIT_FSIZE`), or
    /// `u64::MAX`.
    pub end_max: u64,
}

impl Write {
    /// At a byte, without a limit.
    pub fn at(offset: u64) -> Write {
        Write {
            place: Place::At(offset),
            end_max: u64::MAX,
        }
    }

    /// At the end, without a limit.
    pub fn at_end() -> Write {
        Write {
            place: Place::End,
            end_max: u64::MAX,
        }
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Where its first byte is.
    pub offset: u64,
    /// How many bytes were written, from the first on.
    pub bytes: u64,
}

/// What is done with the storage of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// All of it gets storage; the file is as long as before, or up to the end of the range.
    Extend,
    /// All of it gets storage; the file is as long as before, whatever lies behind its end.
    KeepSize,
    /// Its storage is given back and it reads as zeros; the file is as long as before
    /// (`FALLOC_FL_PUNCH_HOLE`). A range that ends behind the end of the file reaches to the end of
    /// its page.
    Punch,
    /// It reads as zeros and has storage; the file is as long as before, or up to the end of the
    /// range (`FALLOC_FL_ZERO_RANGE`).
    Zero,
    /// The same; the file is as long as before.
    ZeroKeepSize,
}

/// What is looked for from a byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The first byte of a page that was written.
    Data,
    /// The first byte of a hole; the end of the file is one.
    Hole,
}

/// What is made durable of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Its bytes, its attributes, and every operation on names that was completed before (`fsync`).
    All,
    /// Its bytes and what reading them needs (`fdatasync`).
    Data,
}

/// What setting an extended attribute does with the one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// It replaces it, if it is there.
    Put,
    /// It fails if it is there (`EEXIST`).
    Create,
    /// It fails if it is not there (`ENODATA`).
    Replace,
}

/// How much a file system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFs {
    /// Pages of [`PAGE_BYTES`](crate::PAGE_BYTES) for files.
    pub pages: u64,
    /// Those that are free.
    pub pages_free: u64,
    /// Files, directories and links that there can be; 0 if nothing but room limits them.
    pub files: u64,
    /// Those that can still be made.
    pub files_free: u64,
    /// Bytes of the longest file.
    pub file_bytes_max: u64,
    /// Names of a file, and subdirectories of a directory, that there can be at most.
    pub links_max: u32,
    /// Which file system it is, among all.
    pub id: u64,
}
