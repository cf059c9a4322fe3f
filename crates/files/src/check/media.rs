//! The media as the format has them: numbers in pages, pages in groups.

use std::cell::RefCell;

use crate::errno::Fault;
use crate::pages::{Pages, Run};

use super::hash::crc32c;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Kinds of pages.
pub const SUPERBLOCK: u16 = 1;
pub const STATE: u16 = 2;
pub const JOURNAL_HEADER: u16 = 3;
pub const DESCRIPTOR: u16 = 4;
pub const RECORD: u16 = 5;
pub const BITMAP: u16 = 6;
pub const TABLE: u16 = 7;
pub const NODE: u16 = 8;
pub const XATTRS: u16 = 9;
pub const LINK: u16 = 10;
/// Pages of a whole group.
pub const GROUP: u64 = 16_384;
/// Slots of inodes of a group.
pub const SLOTS: u64 = 4095;
/// Inodes of a page.
pub const PER_TABLE: u64 = 15;

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Whether all bytes are zeros.
pub fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// A group of pages.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub first: u64,
    pub pages: u64,
    pub tables: u64,
}

impl Group {
    /// The pages for files and trees.
    pub fn data(&self) -> std::ops::Range<u64> {
        self.first + 1 + self.tables..self.first + self.pages
    }

    pub fn inodes(&self) -> u64 {
        self.tables * PER_TABLE
    }
}

/// The pages of a file system.
#[derive(Debug)]
pub struct Media<'a, P> {
    pages: &'a P,
    /// How many it has.
    pub total: u64,
    pub file_system: u64,
    pub hash_key: (u64, u64),
    pub journal: Run,
    pub groups_first: u64,
    pub groups: u64,
    /// No page is of a later transaction.
    pub transaction_max: u64,
    /// Pages whose checksum was found to match: a page is looked at several times.
    matching: RefCell<Vec<u64>>,
}

/// What is wrong with a superblock, for a medium of `pages` pages.
fn superblock_fault(bytes: &[u8], pages: u64) -> Option<&'static str> {
    let total = u64_at(bytes, 48);
    if bytes[32..40] != *b"wharfwfs" {
        return Some("it is no superblock");
    }
    if u32_at(bytes, 0) != crc32c(&bytes[4..]) {
        return Some("its checksum does not match");
    }
    if u32_at(bytes, 40) != 1 || u32_at(bytes, 44) != 4096 {
        return Some("the version of the format is another");
    }
    if !(256..=1 << 34).contains(&total) || total > pages {
        return Some("no file system there has so many pages");
    }
    let journal = (total / 64).clamp(128, 8192);
    let room = total - 1 - (2 + journal);
    let groups = room / GROUP + u64::from(room % GROUP >= 64);
    let said = [56, 64, 72, 80].map(|at| u64_at(bytes, at));
    let is_right = said == [2, journal, 2 + journal, groups]
        && (u32_at(bytes, 88), u32_at(bytes, 92)) == (16_384, 256)
        && u64_at(bytes, 24) == 0
        && is_zeros(&bytes[120..]);
    (!is_right).then_some("its places are not those of the format")
}

impl<'a, P: Pages> Media<'a, P> {
    /// What a superblock or its copy says.
    pub async fn open(pages: &'a P) -> Result<Media<'a, P>, Fault> {
        let mut first = None;
        for number in [0, pages.pages().saturating_sub(1)] {
            let mut bytes = [0; PAGE];
            let read = pages.read(&[Run::one(number)], &mut bytes).await;
            let fault = match read {
                Err(fault) => fault,
                Ok(()) => match superblock_fault(&bytes, pages.pages()) {
                    None if u64_at(&bytes, 8) == number => return Ok(Media::of(pages, &bytes)),
                    None => Fault::Damaged {
                        page: number,
                        what: "it belongs to another place",
                    },
                    Some(what) => Fault::Damaged { page: number, what },
                },
            };
            first.get_or_insert(fault);
        }
        Err(first.expect("two were tried"))
    }

    fn of(pages: &'a P, bytes: &[u8]) -> Media<'a, P> {
        Media {
            pages,
            total: u64_at(bytes, 48),
            file_system: u64_at(bytes, 16),
            hash_key: (u64_at(bytes, 96), u64_at(bytes, 104)),
            journal: Run::new(u64_at(bytes, 56), u64_at(bytes, 64)),
            groups_first: u64_at(bytes, 72),
            groups: u64_at(bytes, 80),
            transaction_max: u64::MAX,
            matching: RefCell::new(vec![0; u64_at(bytes, 48).div_ceil(64) as usize]),
        }
    }

    /// Slots of inodes that there are.
    pub fn slots(&self) -> u64 {
        let last = self.groups - 1;
        last * SLOTS + self.group(last).inodes()
    }

    fn matches(&self, bytes: &[u8], number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let was_found = self.matching.borrow()[word] & bit != 0;
        let matches = was_found || u32_at(bytes, 0) == crc32c(&bytes[4..]);
        self.matching.borrow_mut()[word] |= u64::from(matches) << (number % 64);
        matches
    }

    pub fn group(&self, number: u64) -> Group {
        let first = self.groups_first + number * GROUP;
        let pages = (self.total - 1 - first).min(GROUP);
        let tables = (pages / 60).max(1);
        Group {
            first,
            pages,
            tables,
        }
    }

    /// Whether all pages of a run are for files and trees, of one group.
    pub fn is_data(&self, run: Run) -> bool {
        let number = run.first.wrapping_sub(self.groups_first) / GROUP;
        if run.first < self.groups_first || number >= self.groups || run.pages == 0 {
            return false;
        }
        let data = self.group(number).data();
        run.first >= data.start && run.end() <= data.end
    }

    /// The slot of a number, and how often that was used before.
    pub fn slot(&self, number: u64) -> Option<(u64, u32)> {
        let slot = (number & 0xffff_ffff).checked_sub(1)?;
        let group = slot / SLOTS;
        let is_there = group < self.groups && slot % SLOTS < self.group(group).inodes();
        is_there.then_some((slot, (number >> 32) as u32))
    }

    /// A page without any question.
    pub async fn raw(&self, number: u64, bytes: &mut [u8]) -> Result<(), String> {
        if number >= self.total {
            return Err(format!("page {number} is not there"));
        }
        let read = self.pages.read(&[Run::one(number)], bytes).await;
        read.map_err(|fault| fault.to_string())
    }

    /// A page, if it is whole, of this kind, and belongs where it is.
    pub async fn page(&self, number: u64, kind: u16) -> Result<Box<[u8]>, String> {
        let mut bytes: Box<[u8]> = vec![0; PAGE].into();
        self.raw(number, &mut bytes).await?;
        match self.fault(&bytes, number, kind) {
            None => Ok(bytes),
            Some(what) => Err(format!("page {number} is damaged: {what}")),
        }
    }

    /// What is wrong with a page that should be of this kind.
    pub fn fault(&self, bytes: &[u8], number: u64, kind: u16) -> Option<&'static str> {
        let is_of_journal = matches!(kind, JOURNAL_HEADER | DESCRIPTOR | RECORD);
        if !self.matches(bytes, number) {
            Some("its checksum does not match")
        } else if u64_at(bytes, 16) != self.file_system {
            Some("it belongs to another file system")
        } else if u64_at(bytes, 8) != number {
            Some("it belongs to another place")
        } else if u16_at(bytes, 4) != kind {
            Some("it is of another kind")
        } else if u16_at(bytes, 6) != 0 {
            Some("what is reserved is in use")
        } else if !is_of_journal && u64_at(bytes, 24) > self.transaction_max {
            Some("it is newer than the newest transaction")
        } else {
            None
        }
    }
}
