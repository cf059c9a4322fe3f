//! Records: what logs are made of.
//!
//! A record begins with a head; its checksum covers all of it, and where it is, whose log it is in,
//! and which file system that is. What follows the head depends on its kind, and ends at a multiple
//! of 8 bytes.

use std::sync::Arc;

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{PAGE, crc32c};
use crate::attributes::{Kind, Special};
use crate::limits::{NAME_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};

/// Bytes of a value that are in the record itself, at most; longer ones have pages.
pub const INLINE_BYTES_MAX: usize = 1024;

/// The first bytes of each record.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHead {
    /// CRC32C of the rest of the record, its address, its inode's number and the file system.
    pub crc: U32,
    /// What it is: [`RecordKind`].
    pub kind: U16,
    /// Bytes of the record, head among them.
    pub bytes: U16,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// All attributes: [`RawInode`].
    Inode = 1,
    /// Where some pages of a file are: [`RawExtent`].
    Extent = 2,
    /// A new entry of a directory: [`RawName`], and the name.
    Name = 3,
    /// An entry less: [`RawNameGone`].
    NameGone = 4,
    /// An extended attribute: [`RawValue`], its name, its value.
    Xattr = 5,
    /// An extended attribute less: [`RawValue`] of no bytes, its name.
    XattrGone = 6,
    /// The target of a symbolic link: [`RawValue`], the target.
    Target = 7,
}

impl RecordKind {
    /// All of them.
    pub const ALL: [RecordKind; 7] = [
        RecordKind::Inode,
        RecordKind::Extent,
        RecordKind::Name,
        RecordKind::NameGone,
        RecordKind::Xattr,
        RecordKind::XattrGone,
        RecordKind::Target,
    ];

    /// Its number.
    pub fn raw(self) -> u16 {
        self as u16
    }
}

/// All attributes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// What it is: see [`raw_kind`].
    pub kind: U16,
    /// Permission bits.
    pub mode: U16,
    /// Names that lead to it; of a directory 1, and 0 if it was removed.
    pub links: U32,
    /// Whose it is.
    pub uid: U32,
    /// Its group.
    pub gid: U32,
    /// Which device it is.
    pub device: U32,
    /// 0.
    pub reserved: U32,
    /// Bytes of a file.
    pub size: U64,
    /// When it was last read.
    pub accessed_ns: U64,
    /// When its bytes or entries last changed.
    pub modified_ns: U64,
    /// When its attributes last changed.
    pub changed_ns: U64,
    /// The directory that a directory is in.
    pub parent: U64,
    /// The highest cookie that an entry of a directory ever had.
    pub latest_cookie: U64,
}

/// Where some pages of a file are.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtent {
    /// The first page of the file.
    pub at: U64,
    /// How many.
    pub pages: U64,
    /// The page of the media that the first of them is in; 0 if they are holes without storage.
    pub first: U64,
    /// 1 if they were written; 0 if they have storage alone, or not even that.
    pub is_written: U64,
}

/// A new entry of a directory; the name follows.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawName {
    /// Where a listing goes on behind it.
    pub cookie: U64,
    /// What it leads to.
    pub number: U64,
    /// What that is.
    pub kind: U16,
    /// Bytes of the name.
    pub name_bytes: U16,
    /// 0.
    pub reserved: U32,
}

/// An entry less.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNameGone {
    /// Its cookie.
    pub cookie: U64,
}

/// A value: its name follows, and then, at a multiple of 8 bytes, the value itself, or the numbers
/// of its pages.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawValue {
    /// Bytes of the name; 0 of a target.
    pub name_bytes: U16,
    /// 0.
    pub reserved: U16,
    /// Bytes of the value. More than 1024 are in pages.
    pub value_bytes: U32,
    /// CRC32C of the value.
    pub value_crc: U32,
    /// 0.
    pub reserved_2: U32,
}

/// The attributes of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    pub kind: Kind,
    pub mode: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub device: u32,
    pub size: u64,
    pub accessed_ns: u64,
    pub modified_ns: u64,
    pub changed_ns: u64,
    pub parent: u64,
    pub latest_cookie: u64,
}

/// Where pages of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub at: u64,
    pub pages: u64,
    /// 0: nowhere.
    pub first: u64,
    pub is_written: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub cookie: u64,
    pub number: u64,
    pub kind: Kind,
    pub name: Arc<[u8]>,
}

/// Bytes that belong to an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub bytes: u32,
    pub crc: u32,
    pub place: Place,
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Here(Arc<[u8]>),
    Pages(Arc<[u64]>),
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Inode(Inode),
    Extent(Extent),
    Name(Name),
    NameGone(u64),
    Xattr(Arc<[u8]>, Value),
    XattrGone(Arc<[u8]>),
    Target(Value),
}

/// The number of a kind on the media.
pub fn raw_kind(kind: Kind) -> u16 {
    match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::Symlink => 3,
        Kind::Special(Special::Fifo) => 4,
        Kind::Special(Special::Socket) => 5,
        Kind::Special(Special::CharDevice) => 6,
        Kind::Special(Special::BlockDevice) => 7,
    }
}

/// The kind of a number.
pub fn kind_of(raw: u16) -> Option<Kind> {
    let specials = Special::ALL.map(Kind::Special);
    let all = [Kind::File, Kind::Directory, Kind::Symlink];
    let mut all = all.into_iter().chain(specials);
    all.find(|kind| raw_kind(*kind) == raw)
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

impl Inode {
    fn to_raw(self) -> RawInode {
        RawInode {
            kind: raw_kind(self.kind).into(),
            mode: self.mode.into(),
            links: self.links.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            device: self.device.into(),
            reserved: 0.into(),
            size: self.size.into(),
            accessed_ns: self.accessed_ns.into(),
            modified_ns: self.modified_ns.into(),
            changed_ns: self.changed_ns.into(),
            parent: self.parent.into(),
            latest_cookie: self.latest_cookie.into(),
        }
    }

    fn of_raw(raw: &RawInode) -> Option<Inode> {
        Some(Inode {
            kind: kind_of(raw.kind.get())?,
            mode: raw.mode.get(),
            links: raw.links.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            device: raw.device.get(),
            size: raw.size.get(),
            accessed_ns: raw.accessed_ns.get(),
            modified_ns: raw.modified_ns.get(),
            changed_ns: raw.changed_ns.get(),
            parent: raw.parent.get(),
            latest_cookie: raw.latest_cookie.get(),
        })
    }
}

impl Value {
    /// A short one.
    pub fn here(value: &[u8]) -> Value {
        Value {
            bytes: value.len() as u32,
            crc: crc32c(&[value]),
            place: Place::Here(value.into()),
        }
    }

    /// A long one, in these pages.
    pub fn in_pages(value: &[u8], pages: &[u64]) -> Value {
        Value {
            place: Place::Pages(pages.into()),
            ..Value::here(value)
        }
    }

    /// The pages that it has.
    pub fn pages(&self) -> &[u64] {
        match &self.place {
            Place::Here(_) => &[],
            Place::Pages(pages) => pages,
        }
    }

    fn encode(&self, name: &[u8], out: &mut Vec<u8>) {
        let raw = RawValue {
            name_bytes: (name.len() as u16).into(),
            reserved: 0.into(),
            value_bytes: self.bytes.into(),
            value_crc: self.crc.into(),
            reserved_2: 0.into(),
        };
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(name);
        pad(out);
        match &self.place {
            Place::Here(bytes) => out.extend_from_slice(bytes),
            Place::Pages(pages) => {
                let words = pages.iter().flat_map(|page| page.to_le_bytes());
                out.extend(words);
            }
        }
    }

    /// The name, and the value.
    fn decode(body: &[u8]) -> Option<(&[u8], Value)> {
        let (raw, rest) = RawValue::read_from_prefix(body).ok()?;
        let name_bytes = usize::from(raw.name_bytes.get());
        let name = rest.get(..name_bytes)?;
        let rest = rest.get(name_bytes.next_multiple_of(8)..)?;
        let bytes = raw.value_bytes.get();
        let place = match bytes as usize {
            0..=INLINE_BYTES_MAX => Place::Here(rest.get(..bytes as usize)?.into()),
            _ if bytes as usize <= XATTR_VALUE_BYTES_MAX => {
                let pages = (bytes as usize).div_ceil(PAGE as usize);
                let words = rest.as_chunks::<8>().0.get(..pages)?;
                Place::Pages(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
            }
            _ => return None,
        };
        let crc = raw.value_crc.get();
        Some((name, Value { bytes, crc, place }))
    }
}

impl Record {
    fn kind(&self) -> RecordKind {
        match self {
            Record::Inode(_) => RecordKind::Inode,
            Record::Extent(_) => RecordKind::Extent,
            Record::Name(_) => RecordKind::Name,
            Record::NameGone(_) => RecordKind::NameGone,
            Record::Xattr(..) => RecordKind::Xattr,
            Record::XattrGone(_) => RecordKind::XattrGone,
            Record::Target(_) => RecordKind::Target,
        }
    }

    /// The bytes of a record, which are to be sealed for their place.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; size_of::<RecordHead>()];
        match self {
            Record::Inode(inode) => out.extend_from_slice(inode.to_raw().as_bytes()),
            Record::Extent(extent) => {
                let raw = RawExtent {
                    at: extent.at.into(),
                    pages: extent.pages.into(),
                    first: extent.first.into(),
                    is_written: u64::from(extent.is_written).into(),
                };
                out.extend_from_slice(raw.as_bytes());
            }
            Record::Name(name) => {
                let raw = RawName {
                    cookie: name.cookie.into(),
                    number: name.number.into(),
                    kind: raw_kind(name.kind).into(),
                    name_bytes: (name.name.len() as u16).into(),
                    reserved: 0.into(),
                };
                out.extend_from_slice(raw.as_bytes());
                out.extend_from_slice(&name.name);
            }
            Record::NameGone(cookie) => out.extend_from_slice(&cookie.to_le_bytes()),
            Record::Xattr(name, value) => value.encode(name, &mut out),
            Record::XattrGone(name) => Value::here(&[]).encode(name, &mut out),
            Record::Target(value) => value.encode(&[], &mut out),
        }
        pad(&mut out);
        let head = RecordHead {
            crc: 0.into(),
            kind: self.kind().raw().into(),
            bytes: (out.len() as u16).into(),
        };
        out[..size_of::<RecordHead>()].copy_from_slice(head.as_bytes());
        out
    }

    /// What the bytes of a whole record say, if they can be one.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let (head, body) = RecordHead::read_from_prefix(bytes).ok()?;
        let kind = RecordKind::ALL.into_iter();
        let kind = kind
            .into_iter()
            .find(|kind| kind.raw() == head.kind.get())?;
        Some(match kind {
            RecordKind::Inode => {
                let (raw, _) = RawInode::read_from_prefix(body).ok()?;
                Record::Inode(Inode::of_raw(&raw)?)
            }
            RecordKind::Extent => {
                let (raw, _) = RawExtent::read_from_prefix(body).ok()?;
                Record::Extent(Extent {
                    at: raw.at.get(),
                    pages: raw.pages.get(),
                    first: raw.first.get(),
                    is_written: raw.is_written.get() == 1,
                })
            }
            RecordKind::Name => {
                let (raw, rest) = RawName::read_from_prefix(body).ok()?;
                let bytes = usize::from(raw.name_bytes.get());
                if !(1..=NAME_BYTES_MAX).contains(&bytes) {
                    return None;
                }
                Record::Name(Name {
                    cookie: raw.cookie.get(),
                    number: raw.number.get(),
                    kind: kind_of(raw.kind.get())?,
                    name: rest.get(..bytes)?.into(),
                })
            }
            RecordKind::NameGone => {
                let (raw, _) = RawNameGone::read_from_prefix(body).ok()?;
                Record::NameGone(raw.cookie.get())
            }
            RecordKind::Xattr | RecordKind::XattrGone => {
                let (name, value) = Value::decode(body)?;
                if !(1..=XATTR_NAME_BYTES_MAX).contains(&name.len()) {
                    return None;
                }
                match kind {
                    RecordKind::Xattr => Record::Xattr(name.into(), value),
                    _ => Record::XattrGone(name.into()),
                }
            }
            RecordKind::Target => Record::Target(Value::decode(body)?.1),
        })
    }
}

/// Where a record is, for its checksum.
#[derive(Debug, Clone, Copy)]
pub struct Whose {
    /// The inode's number.
    pub number: u64,
    /// The file system.
    pub file_system: u64,
}

impl Whose {
    fn crc(&self, at: u64, bytes: &[u8]) -> u32 {
        let (at, number) = (at.to_le_bytes(), self.number.to_le_bytes());
        let file_system = self.file_system.to_le_bytes();
        crc32c(&[&bytes[4..], &at, &number, &file_system])
    }

    /// Makes the checksum of a record for its address.
    pub fn seal(&self, at: u64, bytes: &mut [u8]) {
        let crc = self.crc(at, bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The bytes of the record at the beginning of `rest`, which is at an address; nothing if there
    /// is no whole one.
    pub fn open<'a>(&self, at: u64, rest: &'a [u8]) -> Option<&'a [u8]> {
        let (head, _) = RecordHead::read_from_prefix(rest).ok()?;
        let bytes = rest.get(..usize::from(head.bytes.get()))?;
        let is_one = bytes.len() >= size_of::<RecordHead>() && bytes.len().is_multiple_of(8);
        (is_one && self.crc(at, bytes) == head.crc.get()).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_say_what_they_were_made_of_at_their_place_alone() {
        let inode = Inode {
            kind: Kind::Special(Special::Socket),
            mode: 0o4755,
            links: 3,
            uid: 4,
            gid: 5,
            device: 6,
            size: 7,
            accessed_ns: 8,
            modified_ns: 9,
            changed_ns: 10,
            parent: 11,
            latest_cookie: 12,
        };
        let name = Name {
            cookie: 1,
            number: 2,
            kind: Kind::Symlink,
            name: Arc::from(&b"a name"[..]),
        };
        let extent = Extent {
            at: 1,
            pages: 2,
            first: 3,
            is_written: true,
        };
        let long = Value::in_pages(&[7; 10_000], &[9, 8, 7]);
        for record in [
            Record::Inode(inode),
            Record::Extent(extent),
            Record::Name(name),
            Record::NameGone(77),
            Record::Xattr(Arc::from(&b"user.a"[..]), Value::here(b"value")),
            Record::Xattr(Arc::from(&b"user.b"[..]), long.clone()),
            Record::XattrGone(Arc::from(&b"user.c"[..])),
            Record::Target(Value::here(&[1; 1024])),
            Record::Target(long),
        ] {
            let whose = Whose {
                number: 5,
                file_system: 6,
            };
            let mut bytes = record.encode();
            whose.seal(800, &mut bytes);
            bytes.push(9);
            let found = whose.open(800, &bytes).unwrap();
            assert_eq!(Record::decode(found), Some(record));
            assert_eq!(whose.open(808, &bytes), None);
            let other = Whose { number: 6, ..whose };
            assert_eq!(other.open(800, &bytes), None);
            for at in 0..bytes.len() - 1 {
                bytes[at] ^= 4;
                assert_eq!(whose.open(800, &bytes), None, "byte {at}");
                bytes[at] ^= 4;
            }
        }
    }
}
