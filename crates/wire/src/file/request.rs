//! The request at the beginning of the buffer of a command with names.
//!
//! A head of 256 bytes says who asks, where paths begin, and what is to be set; behind it come the
//! first path, the second, and a value, without gaps.
//!
//! The buffer is memory that whoever sent the command can still change: it is copied once, and only
//! the copy is looked at.

use crate::bits::wire_enum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{PATH_BYTES_MAX, VALUE_BYTES_MAX};

/// Most supplementary groups of a caller.
pub const GROUPS_MAX: usize = 32;

/// Bytes of the head.
pub const REQUEST_HEAD_BYTES: usize = size_of::<RequestHead>();

/// The version of the head.
const VERSION: u16 = 1;

/// Of a time: it stays what it is.
pub const TIME_STAYS: u64 = u64::MAX;

/// Of a time: it becomes that of the drive's clock.
pub const TIME_NOW: u64 = u64::MAX - 1;

/// Of a user or group: it stays what it is.
pub const STAYS_ID: u32 = u32::MAX;

/// Of permission bits: they stay what they are.
pub const STAYS_MODE: u16 = u16::MAX;

wire_enum! {
    /// Where a path begins that does not begin with `/`.
    pub enum StartKind: u8 {
        /// At the root.
        Root = 0 => "root",
        /// At an open directory: the start is its handle.
        Handle = 1 => "handle",
        /// At what has this number; the path may be empty, and is it itself then.
        Number = 2 => "number",
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RequestHead {
    /// 1.
    pub version: u16,
    /// Supplementary groups of who asks: 0 to 32.
    pub group_count: u16,
    /// The user who asks.
    pub uid: u32,
    /// The group of who asks.
    pub gid: u32,
    /// Permission bits of what is made, or to be set.
    pub mode: u16,
    /// The kind of special file to be made, a [`FileKind`](super::FileKind); else 0.
    pub special: u16,
    /// Where the first path begins.
    pub start: u64,
    /// Where the second path begins.
    pub start2: u64,
    /// What `start` is: a [`StartKind`].
    pub start_kind: u8,
    /// What `start2` is.
    pub start2_kind: u8,
    /// Bytes of the first path.
    pub path_bytes: u16,
    /// Bytes of the second path, or of the name of an extended attribute.
    pub path2_bytes: u16,
    /// [`LINKS_LEAVE`], or nothing.
    pub path_flags: u16,
    /// Bytes of the value.
    pub value_bytes: u32,
    /// Major and minor number of a device to be made.
    pub device: u32,
    /// The user to be set, or FFFFFFFFh.
    pub set_uid: u32,
    /// The group to be set, or FFFFFFFFh.
    pub set_gid: u32,
    /// The time of the last read to be set.
    pub accessed_ns: u64,
    /// The time of the last change to be set.
    pub modified_ns: u64,
    /// The size to be set.
    pub size: u64,
    /// No byte of a file at or beyond this one is written: the caller's limit.
    pub file_bytes_max: u64,
    /// Reserved.
    pub reserved_88: [u8; 40],
    /// The supplementary groups.
    pub groups: [u32; GROUPS_MAX],
}

const _: () = assert!(REQUEST_HEAD_BYTES == 256);

/// Of `path_flags`: a symbolic link to an absolute path, and `..` in the root, lead out of the file system (`EREMOTE`), and
/// not to its root.
pub const LINKS_LEAVE: u16 = 1;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups, at most [`GROUPS_MAX`].
    pub groups: &'a [u32],
}

/// Where a path begins that does not begin with `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// What it is.
    pub kind: StartKind,
    /// Handle or number.
    pub value: u64,
}

impl Start {
    /// The root.
    pub const ROOT: Start = Start {
        kind: StartKind::Root,
        value: 0,
    };
}

/// A request, to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Where the first path begins, and the path.
    pub path: (Start, &'a [u8]),
    /// The same of the second path; the name of an extended attribute, from the root.
    pub path2: (Start, &'a [u8]),
    /// A value.
    pub value: &'a [u8],
}

/// Why a request cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There are fewer bytes than it says.
    #[error("a request of {needed} bytes is in a buffer of {found}")]
    Short {
        /// What it says.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// A field has a value without a meaning.
    #[error("field `{0}` of a request has no such value")]
    Field(&'static str),
    /// A path is longer than any can be.
    #[error("a path of {0} bytes is longer than any can be")]
    PathTooLong(usize),
    /// A value is longer than any can be.
    #[error("a value of {0} bytes is longer than any can be")]
    ValueTooLong(usize),
}

impl RequestHead {
    /// A head that sets nothing.
    ///
    /// # Panics
    /// If the caller has more groups than a head has room for.
    pub fn of(caller: Caller<'_>) -> RequestHead {
        let mut groups = [0; GROUPS_MAX];
        groups[..caller.groups.len()].copy_from_slice(caller.groups);
        RequestHead {
            version: VERSION,
            group_count: caller.groups.len() as u16,
            uid: caller.uid,
            gid: caller.gid,
            mode: STAYS_MODE,
            special: 0,
            start: 0,
            start2: 0,
            start_kind: 0,
            start2_kind: 0,
            path_bytes: 0,
            path2_bytes: 0,
            path_flags: 0,
            value_bytes: 0,
            device: 0,
            set_uid: STAYS_ID,
            set_gid: STAYS_ID,
            accessed_ns: TIME_STAYS,
            modified_ns: TIME_STAYS,
            size: 0,
            file_bytes_max: u64::MAX,
            reserved_88: [0; 40],
            groups,
        }
    }

    /// The bytes of a request with this head and these names.
    ///
    /// # Errors
    /// If a path or the value is too long to be said.
    pub fn with_names(mut self, names: &Names<'_>) -> Result<Vec<u8>, RequestError> {
        let bytes = |path: &[u8]| {
            u16::try_from(path.len()).map_err(|_| RequestError::PathTooLong(path.len()))
        };
        let ((start, path), (start2, path2)) = (names.path, names.path2);
        (self.start, self.start_kind) = (start.value, start.kind.raw());
        (self.start2, self.start2_kind) = (start2.value, start2.kind.raw());
        (self.path_bytes, self.path2_bytes) = (bytes(path)?, bytes(path2)?);
        let value = u32::try_from(names.value.len());
        self.value_bytes = value.map_err(|_| RequestError::ValueTooLong(names.value.len()))?;
        Ok([self.as_bytes(), path, path2, names.value].concat())
    }
}

/// A request, as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its head: the lengths in it are right.
    pub head: &'a RequestHead,
    /// Where the first path begins.
    pub start: Start,
    /// The first path.
    pub path: &'a [u8],
    /// Where the second path begins.
    pub start2: Start,
    /// The second path, or the name of an extended attribute.
    pub path2: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Request<'a> {
    /// Understands a buffer, which nobody else can change. It must begin at a multiple of 8.
    ///
    /// # Errors
    /// If it is no request.
    pub fn parse(buffer: &'a [u8]) -> Result<Request<'a>, RequestError> {
        let short = |needed| RequestError::Short {
            needed,
            found: buffer.len(),
        };
        let (head, rest) =
            RequestHead::ref_from_prefix(buffer).map_err(|_| short(REQUEST_HEAD_BYTES))?;
        if head.version != VERSION {
            return Err(RequestError::Field("version"));
        }
        if head.path_flags & !LINKS_LEAVE != 0 {
            return Err(RequestError::Field("path_flags"));
        }
        if usize::from(head.group_count) > GROUPS_MAX {
            return Err(RequestError::Field("group_count"));
        }
        let (path_bytes, path2_bytes) = (head.path_bytes.into(), head.path2_bytes.into());
        if let Some(long) = [path_bytes, path2_bytes]
            .iter()
            .find(|b| **b > PATH_BYTES_MAX)
        {
            return Err(RequestError::PathTooLong(*long));
        }
        let value_bytes = head.value_bytes as usize;
        if value_bytes > VALUE_BYTES_MAX {
            return Err(RequestError::ValueTooLong(value_bytes));
        }
        let needed = path_bytes + path2_bytes + value_bytes;
        if rest.len() < needed {
            return Err(short(REQUEST_HEAD_BYTES + needed));
        }
        let start = |kind, value, field| {
            let kind = StartKind::from_raw(kind).ok_or(RequestError::Field(field))?;
            Ok(Start { kind, value })
        };
        let (path, rest) = rest.split_at(path_bytes);
        let (path2, rest) = rest.split_at(path2_bytes);
        Ok(Request {
            head,
            start: start(head.start_kind, head.start, "start_kind")?,
            path,
            start2: start(head.start2_kind, head.start2, "start2_kind")?,
            path2,
            value: &rest[..value_bytes],
        })
    }

    /// Who asks.
    pub fn caller(&self) -> Caller<'a> {
        Caller {
            uid: self.head.uid,
            gid: self.head.gid,
            groups: &self.head.groups[..usize::from(self.head.group_count)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer that begins at a multiple of 8, as those of drives do.
    fn aligned(bytes: &[u8]) -> Vec<u64> {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        words
    }

    fn request() -> Vec<u8> {
        let caller = Caller {
            uid: 7,
            gid: 8,
            groups: &[9, 10],
        };
        let start = Start {
            kind: StartKind::Number,
            value: 77,
        };
        let names = Names {
            path: (start, b"a/b"),
            path2: (Start::ROOT, b"c"),
            value: b"value",
        };
        RequestHead::of(caller).with_names(&names).unwrap()
    }

    #[test]
    fn what_a_request_says_comes_back() {
        let bytes = request();
        let words = aligned(&bytes);
        let found = Request::parse(&words.as_bytes()[..bytes.len()]).unwrap();
        assert_eq!(
            found.caller(),
            Caller {
                uid: 7,
                gid: 8,
                groups: &[9, 10]
            }
        );
        assert_eq!((found.path, found.path2), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(
            (found.start.kind, found.start.value),
            (StartKind::Number, 77)
        );
        assert_eq!((found.start2, found.value), (Start::ROOT, &b"value"[..]));
        assert_eq!(found.head.file_bytes_max, u64::MAX);
    }

    #[test]
    fn a_request_that_is_cut_is_refused() {
        let bytes = request();
        let words = aligned(&bytes);
        for end in 0..bytes.len() {
            let error = Request::parse(&words.as_bytes()[..end]).unwrap_err();
            assert!(matches!(error, RequestError::Short { found, .. } if found == end));
        }
    }

    #[test]
    fn values_without_a_meaning_are_refused() {
        let bytes = request();
        let cases: [(usize, &[u8], RequestError); 6] = [
            (0, &[2, 0], RequestError::Field("version")),
            (2, &[33, 0], RequestError::Field("group_count")),
            (32, &[3], RequestError::Field("start_kind")),
            (33, &[3], RequestError::Field("start2_kind")),
            (34, &[0, 16], RequestError::PathTooLong(4096)),
            (40, &[1, 0, 1, 0], RequestError::ValueTooLong(65_537)),
        ];
        for (at, change, expected) in cases {
            let mut bytes = bytes.clone();
            bytes[at..at + change.len()].copy_from_slice(change);
            let words = aligned(&bytes);
            let found = Request::parse(&words.as_bytes()[..bytes.len()]);
            assert_eq!(found.unwrap_err(), expected);
        }
    }
}
