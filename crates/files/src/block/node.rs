//! Inodes: what is known of a file besides its bytes.
//!
//! A number of a file is made of the slot of its inode among all, and of how often the slot was
//! used before: so no number is ever another's. Slot 0, used for the first time, is the root
//! directory: number 1.
//!
//! The last 152 bytes of an inode are its *area*: at the front the beginning of where its bytes
//! are, at the back its extended attributes, if they fit there. The front is, of
//!
//! * a file: up to nine runs of pages, or the root of a tree of them;
//! * a directory: the root of the tree of its entries;
//! * a symbolic link: the target, or the pages that hold it.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{INODE_BYTES, INODES_PER_TABLE};
use super::page::{self, Header};
use crate::errno::Fault;
use crate::pages::PageBytes;

/// Bytes of the area of an inode.
pub const AREA_BYTES: usize = 152;

/// The number of the root directory.
pub const ROOT: u64 = 1;

/// A page of inodes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Table {
    /// Of the page.
    pub header: Header,
    /// The inodes, by slot.
    pub inodes: [RawInode; INODES_PER_TABLE as usize],
}

/// An inode as it is on the media. One that is free has `kind` 0.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// What it is: [`Kind`], or 0 if it is free.
    pub kind: U16,
    /// 12 permission bits.
    pub mode: U16,
    /// Names of a file; 2 and the subdirectories of a directory; 0 of what has no name.
    pub links: U32,
    /// How often the slot was used before.
    pub generation: U32,
    /// The user.
    pub uid: U32,
    /// The group.
    pub gid: U32,
    /// Entries of the front of the area: runs of a file, or pages of a target. 0 if the front holds
    /// the target itself.
    pub front: U16,
    /// Bytes of extended attributes at the back of the area.
    pub back: U16,
    /// Bytes of a file or of a target; entries of a directory.
    pub size: U64,
    /// Pages for the bytes of a file.
    pub pages: U64,
    /// Time of the last read.
    pub accessed_ns: U64,
    /// Time of the last change of bytes or entries.
    pub modified_ns: U64,
    /// Time of the last change of any kind.
    pub changed_ns: U64,
    /// The directory that a directory is in.
    pub parent: U64,
    /// The one before it in the list of orphans; 0 for the first.
    pub orphan_previous: U64,
    /// The next in the list of orphans; 0 for the last.
    pub orphan_next: U64,
    /// The page of its extended attributes; 0 if there is none.
    pub xattr_page: U64,
    /// 1 if it is in the list of orphans.
    pub is_orphan: U16,
    /// 1 if its runs, or entries, are in a tree.
    pub is_tree: U16,
    /// Which device it is; 0 of what is none.
    pub device: U32,
    /// Where its bytes are, and extended attributes.
    pub area: [u8; AREA_BYTES],
}

const _: () = assert!(size_of::<RawInode>() == INODE_BYTES);

/// What an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A pipe with a name.
    Fifo = 4,
    /// A socket with a name.
    Socket = 5,
    /// A device of characters.
    CharDevice = 6,
    /// A device of blocks.
    BlockDevice = 7,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Directory,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharDevice,
        Kind::BlockDevice,
    ];

    /// Its number on the media.
    pub fn raw(self) -> u16 {
        self as u16
    }

    /// The kind of this number.
    pub fn of_raw(raw: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.raw() == raw)
    }
}

/// An inode in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of `RawInode`
pub struct Inode {
    pub number: u64,
    pub kind: Kind,
    pub mode: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub front: u16,
    pub back: u16,
    pub size: u64,
    pub device: u32,
    pub pages: u64,
    pub accessed_ns: u64,
    pub modified_ns: u64,
    pub changed_ns: u64,
    pub parent: u64,
    pub orphan_previous: u64,
    pub orphan_next: u64,
    pub xattr_page: u64,
    pub is_orphan: bool,
    pub is_tree: bool,
    pub area: [u8; AREA_BYTES],
}

/// The number of a slot that was used `generation` times before.
pub fn number_of(slot: u64, generation: u32) -> u64 {
    u64::from(generation) << 32 | (slot + 1) & 0xffff_ffff
}

/// The slot of a number, and how often it was used before. The number may be anything.
pub fn slot_of(number: u64) -> Option<(u64, u32)> {
    let slot = (number & 0xffff_ffff).checked_sub(1)?;
    Some((slot, (number >> 32) as u32))
}

/// Whether an inode of any file system can have this number.
pub fn is_number(number: u64) -> bool {
    number != u64::MAX && slot_of(number).is_some()
}

impl Inode {
    /// A new one, in use and without anything.
    pub fn new(number: u64, kind: Kind, mode: u16, now_ns: u64) -> Inode {
        Inode {
            number,
            kind,
            mode,
            links: if kind == Kind::Directory { 2 } else { 1 },
            uid: 0,
            gid: 0,
            front: 0,
            back: 0,
            size: 0,
            device: 0,
            pages: 0,
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
            parent: 0,
            orphan_previous: 0,
            orphan_next: 0,
            xattr_page: 0,
            is_orphan: false,
            is_tree: false,
            area: [0; AREA_BYTES],
        }
    }

    /// The inode `number` from page `page`; `None` if that is free, or stands for another number by
    /// now.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn of_raw(raw: &RawInode, number: u64, page: u64) -> Result<Option<Inode>, Fault> {
        let generation = (number >> 32) as u32;
        if raw.kind.get() == 0 || raw.generation.get() != generation {
            return Ok(None);
        }
        let damaged = |what| page::damaged(page, what);
        let kind = Kind::of_raw(raw.kind.get()).ok_or(damaged("an inode is of no kind"))?;
        let inode = Inode {
            number,
            kind,
            mode: raw.mode.get(),
            links: raw.links.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            front: raw.front.get(),
            back: raw.back.get(),
            size: raw.size.get(),
            device: raw.device.get(),
            pages: raw.pages.get(),
            accessed_ns: raw.accessed_ns.get(),
            modified_ns: raw.modified_ns.get(),
            changed_ns: raw.changed_ns.get(),
            parent: raw.parent.get(),
            orphan_previous: raw.orphan_previous.get(),
            orphan_next: raw.orphan_next.get(),
            xattr_page: raw.xattr_page.get(),
            is_orphan: raw.is_orphan.get() == 1,
            is_tree: raw.is_tree.get() == 1,
            area: raw.area,
        };
        let is_sound = inode.mode <= 0o7777
            && inode.size <= i64::MAX as u64
            && inode.front_bytes() + usize::from(inode.back) <= AREA_BYTES
            && raw.is_orphan.get() <= 1
            && raw.is_tree.get() <= 1;
        match is_sound {
            true => Ok(Some(inode)),
            false => Err(damaged("an inode says what cannot be")),
        }
    }

    /// As it is on the media.
    pub fn to_raw(&self) -> RawInode {
        RawInode {
            kind: self.kind.raw().into(),
            mode: self.mode.into(),
            links: self.links.into(),
            generation: ((self.number >> 32) as u32).into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            front: self.front.into(),
            back: self.back.into(),
            size: self.size.into(),
            pages: self.pages.into(),
            accessed_ns: self.accessed_ns.into(),
            modified_ns: self.modified_ns.into(),
            changed_ns: self.changed_ns.into(),
            parent: self.parent.into(),
            orphan_previous: self.orphan_previous.into(),
            orphan_next: self.orphan_next.into(),
            xattr_page: self.xattr_page.into(),
            is_orphan: u16::from(self.is_orphan).into(),
            is_tree: u16::from(self.is_tree).into(),
            device: self.device.into(),
            area: self.area,
        }
    }

    /// Bytes of the front of the area that are in use.
    pub fn front_bytes(&self) -> usize {
        let entries = usize::from(self.front);
        match self.kind {
            _ if self.is_tree => TREE_ROOT_BYTES,
            Kind::File => entries.saturating_mul(RUN_BYTES),
            Kind::Directory | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => 0,
            Kind::Symlink if entries > 0 => entries.saturating_mul(8),
            Kind::Symlink => usize::try_from(self.size).unwrap_or(usize::MAX / 2),
        }
    }

    /// Bytes of the area that the front may take.
    pub fn front_room(&self) -> usize {
        AREA_BYTES - usize::from(self.back)
    }

    /// Extended attributes at the back of the area.
    pub fn back_bytes(&self) -> &[u8] {
        &self.area[AREA_BYTES - usize::from(self.back)..]
    }

    /// The root of its tree: a page and its level; `None` if there is none.
    pub fn tree_root(&self) -> Option<(u64, u16)> {
        let word = |at: usize| U64::ref_from_bytes(&self.area[at..at + 8]).map_or(0, |w| w.get());
        self.is_tree.then(|| (word(0), word(8) as u16))
    }

    /// Sets the root of its tree, or says that there is none.
    pub fn set_tree_root(&mut self, root: Option<(u64, u16)>) {
        let (page, level) = root.unwrap_or_default();
        self.area[..8].copy_from_slice(&page.to_le_bytes());
        self.area[8..16].copy_from_slice(&u64::from(level).to_le_bytes());
        self.is_tree = root.is_some();
        self.front = 0;
    }
}

/// Bytes of a run in the area.
pub const RUN_BYTES: usize = 16;

/// Bytes of the root of a tree in the area.
pub const TREE_ROOT_BYTES: usize = 16;

/// The inode at `index` of a page of inodes.
pub fn raw_at(bytes: &PageBytes, index: usize) -> &RawInode {
    &page::of::<Table>(bytes).inodes[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_a_slot_and_a_time() {
        assert_eq!(number_of(0, 0), ROOT);
        for (slot, generation) in [(0, 0), (5, 1), (0xffff_fffe, u32::MAX)] {
            let number = number_of(slot, generation);
            assert_eq!(slot_of(number), Some((slot, generation)));
        }
        assert_eq!(slot_of(0), None);
        assert_eq!(slot_of(7 << 32), None);
    }

    #[test]
    fn an_inode_comes_back_as_it_was() {
        let mut inode = Inode::new(number_of(3, 9), Kind::File, 0o644, 77);
        (inode.size, inode.front, inode.back) = (1 << 40, 2, 100);
        inode.area[3] = 4;
        let raw = inode.to_raw();
        assert_eq!(
            Inode::of_raw(&raw, inode.number, 5),
            Ok(Some(inode.clone()))
        );
        assert_eq!(Inode::of_raw(&raw, number_of(3, 8), 5), Ok(None));
        let mut bad = inode.to_raw();
        bad.front = 9.into();
        assert!(Inode::of_raw(&bad, inode.number, 5).is_err(), "it overlaps");
        bad.front = u16::MAX.into();
        assert!(Inode::of_raw(&bad, inode.number, 5).is_err());
    }
}
