//! From the groups to the inodes, and from these to all that they lead to.

use crate::pages::{Pages, Run};

use super::found::Checked;
use super::media::{
    BITMAP, JOURNAL_HEADER, Media, PER_TABLE, SLOTS, STATE, SUPERBLOCK, TABLE, is_zeros, u16_at,
    u32_at, u64_at,
};

/// Most that is said of what is wrong.
const FINDINGS_MAX: usize = 100;

pub const FILE: u16 = 1;
pub const DIRECTORY: u16 = 2;
pub const SYMLINK: u16 = 3;

/// What is known of an inode.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    pub kind: u16,
    pub generation: u32,
    pub links: u32,
    /// Names that lead to it.
    pub names: u32,
    /// Subdirectories.
    pub children: u32,
    pub parent: u64,
    pub is_orphan: bool,
    /// It was found in the list of orphans.
    pub is_listed: bool,
}

/// An inode as it is on the media.
#[derive(Debug, Clone, Copy)]
pub struct Inode<'a> {
    pub number: u64,
    raw: &'a [u8],
}

impl<'a> Inode<'a> {
    pub fn kind(&self) -> u16 {
        u16_at(self.raw, 0)
    }
    pub fn front(&self) -> usize {
        u16_at(self.raw, 20).into()
    }
    pub fn back(&self) -> usize {
        u16_at(self.raw, 22).into()
    }
    pub fn size(&self) -> u64 {
        u64_at(self.raw, 24)
    }
    pub fn pages(&self) -> u64 {
        u64_at(self.raw, 32)
    }
    pub fn xattr_page(&self) -> u64 {
        u64_at(self.raw, 88)
    }
    pub fn is_orphan(&self) -> bool {
        u16_at(self.raw, 96) != 0
    }
    pub fn is_tree(&self) -> bool {
        u16_at(self.raw, 98) != 0
    }
    pub fn device(&self) -> u32 {
        u32_at(self.raw, 100)
    }
    pub fn area(&self) -> &'a [u8] {
        &self.raw[104..256]
    }
}

/// What has been seen so far.
#[derive(Debug)]
pub struct Walk<'a, P> {
    pub media: Media<'a, P>,
    pub known: Vec<Known>,
    pub checked: Checked,
    claimed: Vec<u64>,
}

impl<'a, P: Pages> Walk<'a, P> {
    pub fn new(media: Media<'a, P>) -> Walk<'a, P> {
        Walk {
            known: vec![Known::default(); media.slots() as usize],
            claimed: vec![0; media.total.div_ceil(64) as usize],
            checked: Checked::default(),
            media,
        }
    }

    pub fn into_checked(self) -> Checked {
        self.checked
    }

    pub fn wrong(&mut self, what: impl Into<String>) {
        if self.checked.findings.len() < FINDINGS_MAX {
            self.checked.findings.push(what.into());
        }
    }

    /// A page that should be of this kind.
    pub async fn page(&mut self, number: u64, kind: u16) -> Option<Box<[u8]>> {
        let page = self.media.page(number, kind).await;
        page.map_err(|what| self.wrong(what)).ok()
    }

    /// Somebody says that a run is its.
    pub fn claim(&mut self, run: Run, whose: u64) -> bool {
        if !self.media.is_data(run) {
            self.wrong(format!("{run:?} of {whose} lies outside of the groups"));
            return false;
        }
        for page in run.iter() {
            if self.is_claimed(page) {
                self.wrong(format!("page {page} of {whose} is in use twice"));
                return false;
            }
            self.claimed[(page / 64) as usize] |= 1 << (page % 64);
        }
        self.checked.pages_used += run.pages;
        true
    }

    pub fn is_claimed(&self, page: u64) -> bool {
        self.claimed[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// What stands at fixed places.
    pub async fn fixed(&mut self) {
        for number in [0, self.media.total - 1] {
            self.page(number, SUPERBLOCK).await;
        }
        if let Some(state) = self.page(1, STATE).await
            && !is_zeros(&state[40..])
        {
            self.wrong("the state has more than it should");
        }
        for number in 2..4 {
            let Some(header) = self.page(number, JOURNAL_HEADER).await else {
                continue;
            };
            if u64_at(&header, 24) % 2 != number % 2 || !is_zeros(&header[56..]) {
                self.wrong(format!("page {number} is no header of the journal"));
            }
        }
    }

    /// Notes all inodes.
    pub async fn note_inodes(&mut self) {
        for number in 0..self.media.groups {
            let group = self.media.group(number);
            let Some(bitmap) = self.page(group.first, BITMAP).await else {
                continue;
            };
            let is_used = |index: u64| bitmap[56 + (index / 8) as usize] >> (index % 8) & 1 == 1;
            let ready = u64::from(u32_at(&bitmap, 48)).min(group.tables);
            for nth in 0..ready {
                let Some(table) = self.page(group.first + 1 + nth, TABLE).await else {
                    continue;
                };
                if !is_zeros(&table[3872..]) {
                    self.wrong(format!("a table of group {number} has more than inodes"));
                }
                for (at, raw) in (0..PER_TABLE).zip(table[32..3872].chunks_exact(256)) {
                    let index = nth * PER_TABLE + at;
                    self.note(number * SLOTS + index, raw, is_used(index));
                }
            }
            if (ready * PER_TABLE..group.inodes()).any(is_used) {
                self.wrong(format!("inodes of group {number} are not written"));
            }
        }
    }

    fn note(&mut self, slot: u64, raw: &[u8], is_used: bool) {
        let known = Known {
            kind: u16_at(raw, 0),
            links: u32_at(raw, 4),
            generation: u32_at(raw, 8),
            parent: u64_at(raw, 64),
            is_orphan: u16_at(raw, 96) != 0,
            ..Known::default()
        };
        // A slot that has had all its numbers is in use and free.
        let is_worn = known.generation == u32::MAX;
        if is_used != (known.kind != 0) && !is_worn {
            self.wrong(format!("the bitmap says otherwise of inode slot {slot}"));
        }
        let is_empty = is_zeros(&raw[2..8]) && is_zeros(&raw[12..]);
        if known.kind == 0 && !is_empty {
            self.wrong(format!("inode slot {slot} is free and has something"));
        }
        self.known[slot as usize] = known;
    }

    /// Follows every inode.
    pub async fn follow_inodes(&mut self) {
        for number in 0..self.media.groups {
            let group = self.media.group(number);
            for nth in 0..group.tables {
                let slots =
                    number * SLOTS + nth * PER_TABLE..number * SLOTS + (nth + 1) * PER_TABLE;
                // Those of tables that are not there, or are damaged, were not noted.
                if self.known[slots.start as usize..slots.end as usize]
                    .iter()
                    .all(|known| known.kind == 0)
                {
                    continue;
                }
                let Ok(table) = self.media.page(group.first + 1 + nth, TABLE).await else {
                    continue;
                };
                for (slot, raw) in slots.zip(table[32..3872].chunks_exact(256)) {
                    let number = (slot + 1) | (u64::from(u32_at(raw, 8)) << 32);
                    self.follow(Inode { number, raw }).await;
                }
            }
        }
    }

    async fn follow(&mut self, inode: Inode<'_>) {
        let number = inode.number;
        if inode.kind() == 0 {
            return;
        }
        let (mode, flags) = (
            u16_at(inode.raw, 2),
            [96, 98].map(|at| u16_at(inode.raw, at)),
        );
        if mode > 0o7777 || inode.back() > 152 || flags.iter().any(|flag| *flag > 1) {
            self.wrong(format!("inode {number} says what cannot be"));
            return;
        }
        match inode.kind() {
            FILE => self.file(&inode).await,
            DIRECTORY => self.directory(&inode).await,
            SYMLINK => self.symlink(&inode).await,
            4..=7 => self.special(&inode),
            _ => return self.wrong(format!("inode {number} is of no kind")),
        }
        self.xattrs(&inode).await;
    }

    /// What is no file has no bytes.
    fn special(&mut self, inode: &Inode<'_>) {
        self.checked.specials += 1;
        let is_empty = (inode.size(), inode.pages(), inode.front()) == (0, 0, 0);
        let is_device = inode.kind() >= 6;
        if !is_empty || inode.is_tree() || !is_device && inode.device() != 0 {
            self.wrong(format!(
                "{} is no file and has what files have",
                inode.number
            ));
        }
    }
}
