//! Checks a file system on the media, from outside: nothing here is used by what writes it.
//!
//! It reads the media as `docs/file-format-wpm.md` describes them, with a parser of its own, and
//! walks from the root to all that can be reached. Every page has to be in use by at most one thing,
//! every name leads to something of its kind, every file has as many links as names lead to it, and
//! every record and every value matches its checksum. Slots that nothing leads to may be there: the
//! next opening gives them back. What the journal has marked must have been carried out: open a file
//! system before it is checked.
//!
//! Its memory is 1 bit for each page, and 24 bytes for each inode, besides the largest directory.

use std::collections::{BTreeMap, BTreeSet};

use crc_fast::{CrcAlgorithm, Digest};

use crate::errno::Fault;
use crate::lines::Lines;

/// Most that is said of what is wrong.
const FINDINGS_MAX: usize = 100;

/// Bytes of a page, of the head of a page of a log, and of the head of a record.
const PAGE: u64 = 4096;
const LOG_HEAD: usize = 32;
const RECORD_HEAD: usize = 8;

/// Kinds of inodes.
const FILE: u16 = 1;
const DIRECTORY: u16 = 2;
const SYMLINK: u16 = 3;

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
    /// Pages that are in use for logs and files.
    pub pages_used: u64,
}

/// Where everything is.
#[derive(Debug, Clone, Copy)]
struct Places {
    pages: u64,
    table: u64,
    table_pages: u64,
    file_system: u64,
}

/// What a log says.
#[derive(Debug, Default)]
struct Said {
    kind: u16,
    links: u32,
    size: u64,
    parent: u64,
    latest_cookie: u64,
    /// By cookie: number, kind, name.
    names: BTreeMap<u64, (u64, u16, Vec<u8>)>,
    /// By page of the file: the page that it is in.
    pages: BTreeMap<u64, Extent>,
    /// Pages, length and checksum of values: of extended attributes, by name, and of the target.
    xattrs: BTreeMap<Vec<u8>, Long>,
    target: Option<Long>,
}

#[derive(Debug, Clone, Copy)]
struct Extent {
    pages: u64,
    first: u64,
    is_written: bool,
}

#[derive(Debug, Clone)]
struct Long {
    bytes: u64,
    crc: u32,
    pages: Vec<u64>,
}

/// What is known of an inode that was reached.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    kind: u16,
    links: u32,
    names: u32,
}

struct Checker<'a, L> {
    lines: &'a L,
    places: Places,
    claimed: Vec<u64>,
    known: BTreeMap<u64, Known>,
    checked: Checked,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    word_at(bytes, at, 2) as u16
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    word_at(bytes, at, 4) as u32
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    word_at(bytes, at, 8)
}

/// A little-endian number; what is not there is zeros.
fn word_at(bytes: &[u8], at: usize, length: usize) -> u64 {
    let found = bytes.iter().skip(at).take(length).rev();
    found.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn crc(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for piece in pieces {
        digest.update(piece);
    }
    digest.finalize() as u32
}

fn damaged(page: u64, what: &'static str) -> Fault {
    Fault::Damaged { page, what }
}

/// Checks what is on the media.
///
/// # Errors
/// Of the media, if not even a superblock can be read.
pub async fn check<L: Lines>(lines: &L) -> Result<Checked, Fault> {
    let places = find(lines).await?;
    let mut checker = Checker {
        lines,
        places,
        claimed: vec![0; places.pages.div_ceil(64) as usize],
        known: BTreeMap::new(),
        checked: Checked::default(),
    };
    checker.check_copy().await;
    checker.check_journal().await;
    checker.walk().await;
    checker.compare_links();
    Ok(checker.checked)
}

/// Finds the superblock.
async fn find<L: Lines>(lines: &L) -> Result<Places, Fault> {
    let last = (lines.bytes() / PAGE).saturating_sub(1);
    match superblock(lines, 0).await {
        Ok(places) => Ok(places),
        Err(fault) => superblock(lines, last).await.map_err(|_| fault),
    }
}

async fn superblock<L: Lines>(lines: &L, page: u64) -> Result<Places, Fault> {
    let mut bytes = [0; 64];
    lines.load(page * PAGE, &mut bytes).await?;
    let is_one = bytes[8..16] == *b"wharfwpm" && u32_at(&bytes, 4) == 1;
    if !is_one || crc(&[&bytes[4..]]) != u32_at(&bytes, 0) {
        return Err(damaged(page, "it is no superblock"));
    }
    let places = Places {
        pages: u64_at(&bytes, 16),
        file_system: u64_at(&bytes, 24),
        table: u64_at(&bytes, 40),
        table_pages: u64_at(&bytes, 48),
    };
    let is_fit = places.pages <= lines.bytes() / PAGE
        && places.pages >= 16
        && u64_at(&bytes, 32) == 1
        && places.table == 2
        && places.table_pages == places.pages.div_ceil(256);
    match is_fit {
        true => Ok(places),
        false => Err(damaged(page, "its places are not those of the format")),
    }
}

impl<L: Lines> Checker<'_, L> {
    fn wrong(&mut self, what: String) {
        if self.checked.findings.len() < FINDINGS_MAX {
            self.checked.findings.push(what);
        }
    }

    async fn check_copy(&mut self) {
        for page in [0, self.places.pages - 1] {
            if let Err(fault) = superblock(self.lines, page).await {
                self.wrong(fault.to_string());
            }
        }
    }

    /// The value of a word, if it is whole.
    fn value(&mut self, at: u64, word: u64) -> Option<u64> {
        if word == 0 {
            return Some(0);
        }
        let value = word & 0xffff_ffff_ffff;
        let file_system = self.places.file_system.to_le_bytes();
        let crc = crc(&[&value.to_le_bytes(), &at.to_le_bytes(), &file_system]);
        let is_whole = value > 0 && u64::from(crc ^ crc >> 16) & 0xffff == word >> 48;
        if !is_whole {
            self.wrong(format!("the word at {at} does not match its check"));
        }
        is_whole.then_some(value)
    }

    async fn load(&mut self, at: u64, out: &mut [u8]) -> bool {
        match self.lines.load(at, out).await {
            Ok(()) => true,
            Err(fault) => {
                self.wrong(fault.to_string());
                false
            }
        }
    }

    async fn check_journal(&mut self) {
        for note in 0..32 {
            let (at, mut bytes) = (PAGE + note * 128, [0; 8]);
            if self.load(at, &mut bytes).await && bytes != [0; 8] {
                self.wrong(format!("note {note} of the journal is not carried out"));
            }
        }
    }

    /// Somebody says that pages are its.
    fn claim(&mut self, first: u64, pages: u64, whose: u64) -> bool {
        let from = self.places.table + self.places.table_pages;
        let end = first.checked_add(pages);
        if first < from || end.is_none_or(|end| end > self.places.pages - 1) {
            self.wrong(format!("{pages} pages from {first} of {whose} cannot be"));
            return false;
        }
        for page in first..first + pages {
            let (word, bit) = ((page / 64) as usize, page % 64);
            if self.claimed[word] >> bit & 1 == 1 {
                self.wrong(format!("page {page} of {whose} is in use twice"));
                return false;
            }
            self.claimed[word] |= 1 << bit;
        }
        self.checked.pages_used += pages;
        true
    }

    /// Walks from the root.
    async fn walk(&mut self) {
        let mut todo = vec![(1, DIRECTORY, 1)];
        self.known.insert(1, Known::default());
        let mut slots = BTreeSet::new();
        while let Some((number, kind, parent)) = todo.pop() {
            if !slots.insert(number & 0xf_ffff_ffff) {
                self.wrong(format!("{number} is in the slot of another"));
            }
            let Some(said) = self.log(number).await else {
                continue;
            };
            if said.kind != kind {
                self.wrong(format!("{number} is of another kind than its name says"));
            }
            if kind == DIRECTORY && said.parent != parent {
                self.wrong(format!(
                    "directory {number} is in {parent} and does not know"
                ));
            }
            self.known.entry(number).and_modify(|known| {
                (known.kind, known.links) = (said.kind, said.links);
            });
            self.check_said(number, &said).await;
            for (target, kind, _) in said.names.values() {
                let is_new = !self.known.contains_key(target);
                self.known.entry(*target).or_default().names += 1;
                match is_new {
                    true => todo.push((*target, *kind, number)),
                    false if *kind == DIRECTORY => {
                        self.wrong(format!("directory {target} has two names"));
                    }
                    false => {}
                }
            }
        }
    }

    /// Whether what a log says in the end can be.
    async fn check_said(&mut self, number: u64, said: &Said) {
        match said.kind {
            FILE => self.checked.files += 1,
            DIRECTORY => self.checked.directories += 1,
            SYMLINK => self.checked.symlinks += 1,
            _ => self.checked.specials += 1,
        }
        for (at, extent) in &said.pages {
            self.claim(extent.first, extent.pages, number);
            if extent.is_written && at + extent.pages > said.size.div_ceil(PAGE) {
                self.wrong(format!("file {number} has bytes behind its end"));
            }
        }
        if (said.kind == SYMLINK) != said.target.is_some() {
            self.wrong(format!("{number} has a target, or none, and should not"));
        }
        for long in said.xattrs.values().chain(&said.target) {
            let mut all_there = true;
            for page in &long.pages {
                all_there &= self.claim(*page, 1, number);
            }
            if all_there && !long.pages.is_empty() {
                self.check_long(number, long).await;
            }
        }
        let mut names = BTreeSet::new();
        for (cookie, (_, _, name)) in &said.names {
            let is_name = !name.is_empty()
                && name.len() <= 255
                && !matches!(&name[..], b"." | b"..")
                && !name.iter().any(|byte| matches!(byte, 0 | b'/'));
            if !is_name || !names.insert(name) || *cookie > said.latest_cookie {
                self.wrong(format!("an entry of directory {number} cannot be"));
            }
        }
    }

    async fn check_long(&mut self, number: u64, long: &Long) {
        let mut bytes = vec![0; long.bytes as usize];
        for (page, part) in long.pages.iter().zip(bytes.chunks_mut(PAGE as usize)) {
            if !self.load(page * PAGE, part).await {
                return;
            }
        }
        if crc(&[&bytes]) != long.crc {
            self.wrong(format!("a value of {number} does not match its checksum"));
        }
    }

    fn compare_links(&mut self) {
        let known = std::mem::take(&mut self.known);
        for (number, known) in known {
            let names = match known.kind {
                0 => continue,
                DIRECTORY => 1,
                _ => known.names,
            };
            if known.links != names {
                let links = known.links;
                self.wrong(format!("{number} has {links} links and {names} names"));
            }
        }
    }

    /// Reads the log of a number.
    async fn log(&mut self, number: u64) -> Option<Said> {
        let (slot, generation) = ((number & 0xf_ffff_ffff).wrapping_sub(1), number >> 36);
        if slot >= self.places.table_pages * 256 {
            self.wrong(format!("there is no inode {number}"));
            return None;
        }
        let (at, mut bytes) = (self.places.table * PAGE + slot * 16, [0; 16]);
        if !self.load(at, &mut bytes).await {
            return None;
        }
        let uses = self.value(at, u64_at(&bytes, 0))?;
        let end = self.value(at + 8, u64_at(&bytes, 8))?;
        if end == 0 || uses != generation + 1 {
            self.wrong(format!("an entry leads to {number}, which is nothing"));
            return None;
        }
        let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut end = end;
        while end > 0 {
            let page = (end - 1) / PAGE;
            if !self.claim(page, 1, number) {
                return None;
            }
            let mut bytes = vec![0; (end - page * PAGE) as usize];
            if !self.load(page * PAGE, &mut bytes).await {
                return None;
            }
            let is_its = bytes.len() >= LOG_HEAD
                && u32_at(&bytes, 4) == 0x676f_6c77
                && u64_at(&bytes, 8) == self.places.file_system
                && u64_at(&bytes, 16) == number
                && crc(&[&bytes[4..LOG_HEAD], &page.to_le_bytes()]) == u32_at(&bytes, 0);
            if !is_its {
                self.wrong(format!("page {page} is none of the log of {number}"));
                return None;
            }
            end = u64_at(&bytes, 24);
            pages.push((page, bytes));
        }
        let mut said = Said::default();
        for (page, bytes) in pages.iter().rev() {
            let mut at = LOG_HEAD;
            while at < bytes.len() {
                let length = usize::from(u16_at(bytes, at + 6));
                let address = page * PAGE + at as u64;
                let record = bytes.get(at..at + length);
                let record = record.filter(|record| {
                    let whose = [address, number, self.places.file_system];
                    let [at, number, file_system] = whose.map(u64::to_le_bytes);
                    record.len() >= RECORD_HEAD
                        && crc(&[&record[4..], &at, &number, &file_system]) == u32_at(record, 0)
                });
                let is_taken = record.is_some_and(|record| said.take(record));
                if !is_taken {
                    self.wrong(format!("the record at {address} of {number} cannot be"));
                    return None;
                }
                at += length;
            }
        }
        Some(said)
    }
}

impl Said {
    /// Takes a record in; false if it cannot be.
    fn take(&mut self, record: &[u8]) -> bool {
        let body = &record[RECORD_HEAD..];
        match u16_at(record, 4) {
            1 => {
                if self.kind != 0 && self.kind != u16_at(body, 0) {
                    return false;
                }
                self.kind = u16_at(body, 0);
                self.links = u32_at(body, 4);
                self.size = u64_at(body, 24);
                self.parent = u64_at(body, 56);
                self.latest_cookie = u64_at(body, 64);
                (1..=7).contains(&self.kind) && u16_at(body, 2) <= 0o7777
            }
            2 if self.kind == FILE => self.take_extent(body),
            3 if self.kind == DIRECTORY => {
                let bytes = usize::from(u16_at(body, 18));
                let Some(name) = body.get(24..24 + bytes) else {
                    return false;
                };
                let entry = (u64_at(body, 8), u16_at(body, 16), name.to_vec());
                self.names.insert(u64_at(body, 0), entry).is_none()
            }
            4 if self.kind == DIRECTORY => self.names.remove(&u64_at(body, 0)).is_some(),
            kind @ 5..=7 if self.kind != 0 => self.take_value(kind, body),
            _ => false,
        }
    }

    fn take_extent(&mut self, body: &[u8]) -> bool {
        let (at, pages, first) = (u64_at(body, 0), u64_at(body, 8), u64_at(body, 16));
        let Some(end) = at.checked_add(pages) else {
            return false;
        };
        // Old extents that it covers go, and those that it cuts keep their ends.
        let before = self.pages.range(..at).next_back().map(|(at, _)| *at);
        let covered = self.pages.range(at..end).map(|(at, _)| *at);
        let touched: Vec<u64> = before.into_iter().chain(covered).collect();
        for start in touched {
            let Some(old) = self.pages.remove(&start) else {
                continue;
            };
            let old_end = start + old.pages;
            let mut keep = |from: u64, to: u64| {
                if from < to {
                    let part = Extent {
                        pages: to - from,
                        first: old.first + (from - start),
                        ..old
                    };
                    self.pages.insert(from, part);
                }
            };
            keep(start, old_end.min(at));
            keep(end.max(start), old_end);
        }
        if first > 0 {
            let is_written = u64_at(body, 24) == 1;
            let extent = Extent {
                pages,
                first,
                is_written,
            };
            self.pages.insert(at, extent);
        }
        first.checked_add(pages).is_some() && pages > 0
    }

    fn take_value(&mut self, kind: u16, body: &[u8]) -> bool {
        let name_bytes = usize::from(u16_at(body, 0));
        let Some(name) = body.get(16..16 + name_bytes) else {
            return false;
        };
        let bytes = u32_at(body, 4) as usize;
        let from = 16 + name_bytes.next_multiple_of(8);
        let mut long = Long {
            bytes: bytes as u64,
            crc: u32_at(body, 8),
            pages: Vec::new(),
        };
        if bytes > 1024 {
            let count = bytes.div_ceil(PAGE as usize);
            let words = body.get(from..from + count * 8);
            let Some(words) = words.filter(|_| bytes <= 65_536) else {
                return false;
            };
            long.pages = words.chunks(8).map(|word| u64_at(word, 0)).collect();
        } else {
            match body.get(from..from + bytes) {
                Some(value) if crc(&[value]) == long.crc => {}
                _ => return false,
            }
        }
        match kind {
            5 => {
                self.xattrs.insert(name.to_vec(), long);
                true
            }
            6 => self.xattrs.remove(name).is_some(),
            _ => self.kind == SYMLINK && self.target.replace(long).is_none(),
        }
    }
}
