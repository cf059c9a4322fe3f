//! What the drive answers in the buffer of a command for files.

use crate::bits::wire_enum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire_enum! {
    /// What a name leads to.
    pub enum FileKind: u16 {
        /// A regular file.
        File = 1 => "file",
        /// A directory.
        Directory = 2 => "directory",
        /// A symbolic link.
        Symlink = 3 => "symbolic link",
        /// A pipe with a name.
        Fifo = 4 => "pipe",
        /// A socket with a name.
        Socket = 5 => "socket",
        /// A device of characters.
        CharDevice = 6 => "device of characters",
        /// A device of blocks.
        BlockDevice = 7 => "device of blocks",
    }
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileAttributes {
    /// Which file it is: no other has had this number.
    pub number: u64,
    /// Bytes up to its end.
    pub bytes: u64,
    /// Bytes of storage that it takes.
    pub stored_bytes: u64,
    /// When it was read, in nanoseconds since 1970.
    pub accessed_ns: u64,
    /// When its bytes or entries changed.
    pub modified_ns: u64,
    /// When its attributes changed.
    pub changed_ns: u64,
    /// A [`FileKind`].
    pub kind: u16,
    /// Permission bits.
    pub mode: u16,
    /// Names.
    pub links: u32,
    /// The user whose it is.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Major and minor number of a device, as Linux has them in 32 bits.
    pub device: u32,
    /// Reserved.
    pub reserved: [u8; 60],
}

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenAnswer {
    /// Its attributes, after it was opened.
    pub attributes: FileAttributes,
    /// The handle, as [`FileHandle::raw`](super::FileHandle::raw) has it.
    pub handle: u64,
    /// 1 if it was made.
    pub is_new: u32,
    /// Reserved.
    pub reserved: u32,
}

/// How much a file system holds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FileSystemStatus {
    /// Pages for files.
    pub pages: u64,
    /// Those that are free.
    pub pages_free: u64,
    /// Files that there can be; 0 if only room limits them.
    pub files: u64,
    /// Those that can still be made.
    pub files_free: u64,
    /// Bytes of the longest file.
    pub file_bytes_max: u64,
    /// Which file system it is.
    pub id: u64,
    /// Names of a file that there can be.
    pub links_max: u32,
    /// Reserved.
    pub reserved: u32,
}

/// The beginning of a listing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DirectoryHead {
    /// Entries that follow.
    pub entries: u32,
    /// 1 if there are no more behind them.
    pub is_end: u32,
    /// Bytes of the listing, this head among them. What the buffer holds behind them is not changed.
    pub bytes: u32,
    /// Reserved.
    pub reserved: u32,
}

/// An entry of a listing; its name follows, with zeros up to a multiple of 8 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DirectoryRow {
    /// Where a listing goes on behind it.
    pub cookie: u64,
    /// The number of what it leads to.
    pub number: u64,
    /// A [`FileKind`].
    pub kind: u16,
    /// Bytes of its name.
    pub name_bytes: u16,
    /// Reserved.
    pub reserved: u32,
}

const HEAD_BYTES: usize = size_of::<DirectoryHead>();
const ROW_BYTES: usize = size_of::<DirectoryRow>();

/// Makes a listing within a number of bytes.
#[derive(Debug)]
pub struct ListWriter {
    bytes: Vec<u8>,
    bytes_max: usize,
    entries: u32,
}

impl ListWriter {
    /// A listing without entries; `None` if not even its head fits `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Option<ListWriter> {
        (bytes_max >= HEAD_BYTES).then(|| ListWriter {
            bytes: vec![0; HEAD_BYTES],
            bytes_max,
            entries: 0,
        })
    }

    /// Adds an entry; false if it does not fit.
    pub fn push(&mut self, cookie: u64, number: u64, kind: FileKind, name: &[u8]) -> bool {
        let bytes = ROW_BYTES + name.len().next_multiple_of(8);
        if self.bytes.len() + bytes > self.bytes_max {
            return false;
        }
        let end = self.bytes.len() + bytes;
        let row = DirectoryRow {
            cookie,
            number,
            kind: kind.raw(),
            name_bytes: name.len() as u16,
            reserved: 0,
        };
        self.bytes.extend_from_slice(row.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        self.entries += 1;
        true
    }

    /// Entries so far.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The listing; `is_end` if there are no more entries behind it.
    pub fn finish(mut self, is_end: bool) -> Vec<u8> {
        let head = DirectoryHead {
            entries: self.entries,
            is_end: is_end.into(),
            bytes: self.bytes.len() as u32,
            reserved: 0,
        };
        self.bytes[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        self.bytes
    }
}

/// The entries of a listing, each with its name, as far as they are whole; and whether they are all.
pub fn entries(listing: &[u8]) -> (impl Iterator<Item = (DirectoryRow, &[u8])>, bool) {
    let head =
        DirectoryHead::read_from_prefix(listing).map_or_else(|_| Default::default(), |h| h.0);
    let mut rest = listing.get(HEAD_BYTES..).unwrap_or_default();
    let rows = std::iter::from_fn(move || {
        let (row, behind) = DirectoryRow::read_from_prefix(rest).ok()?;
        let name = behind.get(..usize::from(row.name_bytes))?;
        rest = behind
            .get(name.len().next_multiple_of(8)..)
            .unwrap_or_default();
        Some((row, name))
    });
    (rows.take(head.entries as usize), head.is_end != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_comes_back_and_fits_its_buffer() {
        let mut list = ListWriter::new(120).unwrap();
        assert!(list.push(7, 70, FileKind::File, b"a"));
        assert!(list.push(8, 80, FileKind::Directory, b"eight888"));
        assert!(!list.push(9, 90, FileKind::File, &[b'x'; 17]));
        assert!(list.push(9, 90, FileKind::Symlink, b"x"));
        let bytes = list.finish(true);
        assert_eq!(bytes.len(), 16 + 32 + 32 + 32);
        let (rows, is_end) = entries(&bytes);
        let rows: Vec<_> = rows
            .map(|(row, name)| (row.cookie, row.kind, name))
            .collect();
        let expected: [(u64, u16, &[u8]); 3] = [(7, 1, b"a"), (8, 2, b"eight888"), (9, 3, b"x")];
        assert_eq!((rows.as_slice(), is_end), (expected.as_slice(), true));
        assert!(ListWriter::new(15).is_none());
    }

    #[test]
    fn a_listing_that_is_cut_gives_what_is_whole() {
        let mut list = ListWriter::new(4096).unwrap();
        for number in 0..10 {
            assert!(list.push(number, number, FileKind::File, b"some name"));
        }
        let bytes = list.finish(false);
        for end in 0..bytes.len() {
            let (rows, _) = entries(&bytes[..end]);
            assert!(rows.count() <= end.saturating_sub(16) / 33);
        }
        let mut wrong = bytes;
        wrong[16 + 18..16 + 20].fill(0xff);
        assert_eq!(entries(&wrong).0.count(), 0);
    }
}
