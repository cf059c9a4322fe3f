//! Checks a file system on the media, from outside: nothing here is used by what writes it.
//!
//! It reads the media as `docs/file-format.md` describes them, and walks from the groups to the
//! inodes and from these to all that they lead to. Every page has to be in use by exactly one
//! thing, or by none if it is free; every inode has as many links as names lead to it; names are in
//! the order of their hashes and extents in that of their pages. What is in the journal has to be
//! at home: open and settle a file system before it is checked.
//!
//! Its memory is 1 bit for each page and 16 bytes for each inode.

use zerocopy::FromBytes;

use super::directory;
use super::groups::Bitmap;
use super::hash;
use super::journal::JournalHeader;
use super::layout::{Geometry, Group, INODES_PER_TABLE, SLOTS_PER_GROUP, STATE_PAGE, State};
use super::links::LinkHead;
use super::node::{self, AREA_BYTES, RawInode, Table};
use super::page::{self, Kind, Wanted};
use super::recover;
use super::tree::NodeHead;
use super::xattrs::XattrHead;
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Pages, Run};

/// Most that is said of what is wrong.
const FINDINGS_MAX: usize = 100;

/// Levels of a tree.
const LEVELS_MAX: u64 = 13;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// What is wrong: the first hundred of it.
    pub findings: Vec<String>,
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub specials: u64,
    /// Pages that are in use for files and trees.
    pub pages_used: u64,
}

/// What is known of an inode.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    kind: u16,
    generation: u32,
    links: u32,
    /// Names that lead to it.
    names: u32,
    /// Subdirectories.
    children: u32,
}

struct Checker<'a, P> {
    pages: &'a P,
    geometry: Geometry,
    claimed: Vec<u64>,
    known: Vec<Known>,
    checked: Checked,
}

/// Checks what is on the media.
///
/// # Errors
/// Of the media, if not even a superblock can be read.
pub async fn check<P: Pages>(pages: &P) -> Result<Checked, Fault> {
    let geometry = recover::geometry(pages).await?;
    let mut checker = Checker {
        pages,
        geometry,
        claimed: vec![0; geometry.pages.div_ceil(64) as usize],
        known: vec![Known::default(); (geometry.groups * SLOTS_PER_GROUP) as usize],
        checked: Checked::default(),
    };
    checker.check_fixed().await;
    for number in 0..geometry.groups {
        checker.read_group(geometry.group(number)).await;
    }
    for slot in 0..checker.known.len() as u64 {
        checker.check_inode(slot).await;
    }
    checker.check_orphans().await;
    for number in 0..geometry.groups {
        checker.compare_group(geometry.group(number)).await;
    }
    checker.compare_links();
    Ok(checker.checked)
}

impl<P: Pages> Checker<'_, P> {
    fn wrong(&mut self, what: String) {
        if self.checked.findings.len() < FINDINGS_MAX {
            self.checked.findings.push(what);
        }
    }

    /// A page, if it is whole and what it should be.
    async fn page(&mut self, number: u64, kind: Kind) -> Option<Box<PageBytes>> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let wanted = Wanted {
            kind,
            number,
            file_system: self.geometry.file_system,
            generation_max: u64::MAX,
        };
        let read = match number < self.geometry.pages {
            true => self.pages.read(&[Run::one(number)], &mut bytes[..]).await,
            false => Err(page::damaged(number, "there is no such page")),
        };
        match read.and_then(|()| page::check(&bytes, wanted)) {
            Ok(()) => Some(bytes),
            Err(fault) => {
                self.wrong(fault.to_string());
                None
            }
        }
    }

    async fn check_fixed(&mut self) {
        for number in [0, self.geometry.superblock_copy()] {
            self.page(number, Kind::Superblock).await;
        }
        let mut ends = Vec::new();
        for number in self.geometry.journal.first..self.geometry.journal.first + 2 {
            if let Some(bytes) = self.page(number, Kind::JournalHeader).await {
                ends.push(page::of::<JournalHeader>(&bytes).header.generation.get());
            }
        }
        if let [first, second] = ends[..]
            && first.abs_diff(second) != 1
        {
            self.wrong("the journal's headers were not written in turn".into());
        }
    }

    /// Notes the inodes of a group.
    async fn read_group(&mut self, group: Group) {
        let Some(bytes) = self.page(group.first, Kind::Bitmap).await else {
            return;
        };
        let bitmap: &Bitmap = page::of(&bytes);
        let ready = u64::from(bitmap.tables_ready.get()).min(group.tables);
        for nth in 0..ready {
            let Some(bytes) = self.page(group.first + 1 + nth, Kind::Table).await else {
                continue;
            };
            for (at, raw) in page::of::<Table>(&bytes).inodes.iter().enumerate() {
                let index = nth * INODES_PER_TABLE + at as u64;
                let is_used = bitmap.inodes[(index / 8) as usize] >> (index % 8) & 1 == 1;
                // A slot that has had all its numbers is in use and free.
                let is_worn = raw.generation.get() == u32::MAX;
                let slot = group.number * SLOTS_PER_GROUP + index;
                if is_used != (raw.kind.get() != 0) && !is_worn {
                    self.wrong(format!("the bitmap says otherwise of inode slot {slot}"));
                }
                let known = &mut self.known[slot as usize];
                known.kind = raw.kind.get();
                known.generation = raw.generation.get();
                known.links = raw.links.get();
            }
        }
        let group_inodes = (ready * INODES_PER_TABLE..group.inodes())
            .filter(|index| bitmap.inodes[(index / 8) as usize] >> (index % 8) & 1 == 1)
            .count();
        if group_inodes > 0 {
            self.wrong(format!(
                "inodes of tables of group {} that are not written",
                group.number
            ));
        }
    }

    /// Somebody says that a run is its.
    fn claim(&mut self, run: Run, whose: u64) -> bool {
        if self.geometry.group_of(run).is_none() {
            self.wrong(format!("{run:?} of {whose} lies outside of the groups"));
            return false;
        }
        for page in run.iter() {
            let (word, bit) = ((page / 64) as usize, page % 64);
            if self.claimed[word] >> bit & 1 == 1 {
                self.wrong(format!("page {page} of {whose} is in use twice"));
                return false;
            }
            self.claimed[word] |= 1 << bit;
        }
        self.checked.pages_used += run.pages;
        true
    }

    async fn raw(&mut self, slot: u64) -> Option<RawInode> {
        let (number, at) = self.geometry.inode_place(slot)?;
        let bytes = self.page(number, Kind::Table).await?;
        Some(*node::raw_at(&bytes, at))
    }

    async fn check_inode(&mut self, slot: u64) {
        let kind = self.known[slot as usize].kind;
        if kind == 0 {
            return;
        }
        let Some(raw) = self.raw(slot).await else {
            return;
        };
        let number = node::number_of(slot, raw.generation.get());
        if usize::from(raw.back.get()) > AREA_BYTES || raw.mode.get() > 0o7777 {
            self.wrong(format!("inode {number} says what cannot be"));
        }
        match kind {
            1 => self.check_file(&raw, number).await,
            2 => self.check_directory(&raw, number).await,
            3 => self.check_symlink(&raw, number).await,
            4..=7 => self.check_special(&raw, number),
            _ => self.wrong(format!("inode {number} is of no kind")),
        }
        if raw.xattr_page.get() != 0 && self.claim(Run::one(raw.xattr_page.get()), number) {
            let bytes = self.page(raw.xattr_page.get(), Kind::Xattrs).await;
            let owner = bytes.map(|bytes| page::of::<XattrHead>(&bytes).owner.get());
            if owner.is_some_and(|owner| owner != number) {
                self.wrong(format!("extended attributes of {number} are another's"));
            }
        }
    }

    /// What is no file has no bytes.
    fn check_special(&mut self, raw: &RawInode, number: u64) {
        self.checked.specials += 1;
        let is_device = raw.kind.get() >= 6;
        let is_empty = raw.size.get() == 0 && raw.pages.get() == 0 && raw.is_tree.get() == 0;
        if !is_empty || !is_device && raw.device.get() != 0 {
            self.wrong(format!("{number} is no file and has what files have"));
        }
    }

    /// All records of a tree, in order; its nodes are claimed.
    async fn records(&mut self, raw: &RawInode, number: u64) -> Vec<(u64, Vec<u8>)> {
        let word = |at: usize| u64::read_from_prefix(&raw.area[at..]).map_or(0, |(word, _)| word);
        let mut records: Vec<(u64, Vec<u8>)> = Vec::new();
        if raw.is_tree.get() == 0 || word(8) > LEVELS_MAX {
            return records;
        }
        // Nodes to be visited, the next one last: page, level, first key, key behind the last.
        let mut todo = vec![(word(0), word(8), 0, u64::MAX)];
        while let Some((at, level, from, to)) = todo.pop() {
            if !self.claim(Run::one(at), number) {
                continue;
            }
            let Some(bytes) = self.page(at, Kind::Node).await else {
                continue;
            };
            let head: &NodeHead = page::of(&bytes);
            if head.owner.get() != number || u64::from(head.level.get()) != level {
                self.wrong(format!("node {at} of {number} is not of its tree"));
                continue;
            }
            let Some(found) = records_of(&bytes, usize::from(head.records.get())) else {
                self.wrong(format!("node {at} of {number} has records outside of it"));
                continue;
            };
            let is_ordered = found.windows(2).all(|two| two[0].0 < two[1].0);
            let is_within =
                |key: u64, nth: usize| (key >= from || level > 0 && nth == 0) && key <= to;
            let all_within = found.iter().enumerate().all(|(nth, r)| is_within(r.0, nth));
            if found.is_empty() || !is_ordered || !all_within {
                self.wrong(format!("node {at} of {number} is not in order"));
            }
            if level == 0 {
                records.extend(found);
                continue;
            }
            for nth in (0..found.len()).rev() {
                let child = u64::read_from_bytes(&found[nth].1[..]).unwrap_or(0);
                let first = if nth == 0 { from } else { found[nth].0 };
                let last = found
                    .get(nth + 1)
                    .map_or(to, |next| next.0.saturating_sub(1));
                todo.push((child, level - 1, first, last));
            }
        }
        records
    }

    async fn check_file(&mut self, raw: &RawInode, number: u64) {
        self.checked.files += 1;
        let words: Vec<(u64, u64)> = match raw.is_tree.get() {
            0 => {
                let words = raw.area.as_chunks::<16>().0.iter();
                let words = words.take(raw.front.get().into());
                let two = |w: &[u8; 16]| u128::from_le_bytes(*w);
                words
                    .map(|w| (two(w) as u64, (two(w) >> 64) as u64))
                    .collect()
            }
            _ => {
                let records = self.records(raw, number).await;
                let word = |value: &[u8]| u64::read_from_bytes(value).unwrap_or(0);
                records
                    .iter()
                    .map(|(at, value)| (*at, word(value)))
                    .collect()
            }
        };
        let (mut end, mut pages) = (0, 0);
        for (at, word) in words {
            let (first, is_written, count) = (word >> 16, word >> 15 & 1 == 1, word & 0x7fff);
            if at < end {
                self.wrong(format!("extents of {number} overlap or are not in order"));
            }
            self.claim(Run::new(first, count), number);
            end = at.saturating_add(count);
            pages += count;
            let is_behind = end > raw.size.get().div_ceil(PAGE_BYTES as u64);
            if is_written && is_behind && raw.is_orphan.get() == 0 {
                self.wrong(format!("file {number} has bytes behind its end"));
            }
        }
        if pages != raw.pages.get() {
            self.wrong(format!(
                "file {number} has {pages} pages and says otherwise"
            ));
        }
    }

    async fn check_directory(&mut self, raw: &RawInode, number: u64) {
        self.checked.directories += 1;
        let records = self.records(raw, number).await;
        if records.len() as u64 != raw.size.get() {
            self.wrong(format!("directory {number} has {} entries", records.len()));
        }
        for (key, value) in &records {
            let Some((target, kind, name)) = directory::parts(value) else {
                self.wrong(format!("an entry of directory {number} is none"));
                continue;
            };
            let first = hash::hash(self.geometry.hash_key, name) >> 9 << 8;
            if key.wrapping_sub(first).wrapping_sub(1) >= 255 {
                self.wrong(format!("an entry of directory {number} is at another hash"));
            }
            let slot = node::slot_of(target);
            let known = slot.and_then(|(slot, generation)| {
                let known = self.known.get_mut(slot as usize)?;
                (known.generation == generation && known.kind == kind).then_some(known)
            });
            let Some(known) = known else {
                self.wrong(format!("an entry of directory {number} leads to nothing"));
                continue;
            };
            known.names += 1;
            if kind == 2 {
                self.check_parent(target, number).await;
            }
        }
    }

    /// A subdirectory has to know where it is.
    async fn check_parent(&mut self, child: u64, parent: u64) {
        let (Some((slot, _)), Some((own, _))) = (node::slot_of(child), node::slot_of(parent))
        else {
            return;
        };
        if let Some(known) = self.known.get_mut(own as usize) {
            known.children += 1;
        }
        let raw = self.raw(slot).await;
        if raw.is_some_and(|raw| raw.parent.get() != parent) {
            self.wrong(format!(
                "directory {child} is in {parent} and does not know"
            ));
        }
    }

    async fn check_symlink(&mut self, raw: &RawInode, number: u64) {
        self.checked.symlinks += 1;
        let words = raw.area.as_chunks::<8>().0.iter();
        let mut bytes = 0;
        for word in words.take(raw.front.get().into()) {
            let at = u64::from_le_bytes(*word);
            self.claim(Run::one(at), number);
            if let Some(page) = self.page(at, Kind::Link).await {
                let head: &LinkHead = page::of(&page);
                bytes += u64::from(head.bytes.get());
                if head.owner.get() != number {
                    self.wrong(format!("the target of {number} is another's"));
                }
            }
        }
        if raw.front.get() > 0 && bytes != raw.size.get() {
            self.wrong(format!("the target of {number} has another length"));
        }
    }

    async fn check_orphans(&mut self) {
        let Some(bytes) = self.page(STATE_PAGE, Kind::State).await else {
            return;
        };
        let mut at = page::of::<State>(&bytes).orphan_first.get();
        let mut previous = 0;
        for _ in 0..=self.known.len() {
            let Some((slot, _)) = node::slot_of(at) else {
                return;
            };
            let Some(raw) = self.raw(slot).await else {
                return self.wrong("the list of orphans leads nowhere".into());
            };
            if raw.is_orphan.get() != 1 || raw.orphan_previous.get() != previous {
                return self.wrong(format!("{at} is wrong in the list of orphans"));
            }
            // Counted as a name: it may have none.
            let known = &mut self.known[slot as usize];
            if known.links == 0 && known.names == 0 {
                known.kind = 0;
            }
            (previous, at) = (at, raw.orphan_next.get());
        }
        self.wrong("the list of orphans has no end".into());
    }

    /// The bitmap of a group has to say what was claimed.
    async fn compare_group(&mut self, group: Group) {
        let Some(bytes) = self.page(group.first, Kind::Bitmap).await else {
            return;
        };
        let bitmap: &Bitmap = page::of(&bytes);
        let (mut free, mut wrong) = (0, 0);
        for index in 0..super::layout::GROUP_PAGES {
            let page = group.first + index;
            let is_used = bitmap.pages[(index / 8) as usize] >> (index % 8) & 1 == 1;
            let is_own = index < group.data_from() || index >= group.pages;
            let is_claimed = !is_own && self.claimed[(page / 64) as usize] >> (page % 64) & 1 == 1;
            free += u32::from(!is_used);
            wrong += u32::from(is_used != (is_own || is_claimed));
        }
        let inodes = bitmap
            .inodes
            .iter()
            .map(|byte| byte.count_zeros())
            .sum::<u32>();
        if wrong > 0 {
            self.wrong(format!("{wrong} bits of group {} are wrong", group.number));
        }
        if free != bitmap.pages_free.get() || inodes != bitmap.inodes_free.get() {
            self.wrong(format!("group {} counts wrong what is free", group.number));
        }
    }

    fn compare_links(&mut self) {
        for slot in 0..self.known.len() {
            let known = self.known[slot];
            let names = if slot == 0 { 1 } else { known.names };
            let expected = match known.kind {
                0 => continue,
                2 if names == 1 => known.children + 2,
                2 => u32::MAX,
                _ => known.names,
            };
            if expected != known.links || names == 0 {
                let number = node::number_of(slot as u64, known.generation);
                self.wrong(format!(
                    "{number} has {} links and {names} names",
                    known.links
                ));
            }
        }
    }
}

/// The records of a node, if all of them lie in it.
fn records_of(bytes: &PageBytes, count: usize) -> Option<Vec<(u64, Vec<u8>)>> {
    let heads = size_of::<NodeHead>();
    let record = |nth: usize| {
        let slot = PAGE_BYTES.checked_sub(2 * (nth + 1))?;
        let at = usize::from(u16::from_le_bytes([
            *bytes.get(slot)?,
            *bytes.get(slot + 1)?,
        ]));
        let (key, rest) = u64::read_from_prefix(bytes.get(at.max(heads)..)?).ok()?;
        let length = usize::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]));
        let value = rest.get(2..2 + length)?;
        (at >= heads).then(|| (key, value.to_vec()))
    };
    (0..count).map(record).collect()
}
