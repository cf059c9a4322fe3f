//! What the file holds, so that every read can be checked: each page says which page it is, of which file, and
//! how often it has been written.
//!
//! A page is 512 words of 8 bytes, little-endian: magic number and the file's own number; the page's number; its
//! version; then a sequence that follows from these three. So a page that is old, that belongs elsewhere or that has
//! a byte changed is found.
//!
//! [`Versions`] says how often each page has been written. It lies in memory that the processes of a bench share.
//! One writer at a time has a block: its entries are marked as busy. A reader looks before and after: what it
//! reads is at least as new as before, and at most as new as what was being written after.

use std::fs::File;
use std::ops::RangeInclusive;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};
use wharf_runtime::sync::{AtomicU32, Ordering};

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 4096;

const WORDS: usize = PAGE_BYTES / 8;
/// Words before the sequence.
const HEAD: usize = 3;
/// `WbnP` in the low half of the first word.
const MAGIC: u32 = 0x506e_6257;
/// The step of the sequence: the golden ratio, which changes all bytes at once.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A page that holds something else than it may.
#[derive(Debug, thiserror::Error)]
#[error("page {page}: expected {expected}, found {found}")]
pub(super) struct Mismatch {
    page: u64,
    expected: String,
    found: String,
}

/// The pages of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamps {
    /// The file's own number: pages of another one, which was there before, are told apart.
    pub(super) file: u32,
}

impl Stamps {
    /// The file that a page says it belongs to, if it is a page of a bench at all.
    pub(super) fn recognise(page: &[u8]) -> Option<Stamps> {
        let first = word(page, 0);
        (first as u32 == MAGIC).then_some(Stamps {
            file: (first >> 32) as u32,
        })
    }

    fn head(self, page: u64, version: u32) -> [u64; HEAD] {
        let first = u64::from(MAGIC) | u64::from(self.file) << 32;
        [first, page, u64::from(version)]
    }

    /// The first word of the sequence.
    fn seed(self, page: u64, version: u32) -> u64 {
        let mixed = (page ^ u64::from(self.file) << 32).wrapping_mul(STEP) ^ u64::from(version);
        mixed.wrapping_mul(STEP) ^ mixed >> 29
    }

    /// Makes `out` version `version` of a page.
    pub(super) fn fill(self, page: u64, version: u32, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(HEAD * 8);
        for (bytes, word) in head
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip(self.head(page, version))
        {
            *bytes = word.to_le_bytes();
        }
        let mut next = self.seed(page, version);
        for bytes in rest.as_chunks_mut().0 {
            *bytes = next.to_le_bytes();
            next = next.wrapping_add(STEP);
        }
    }

    /// The version of a page that is whole and in its place.
    pub(super) fn version(self, page: u64, bytes: &[u8]) -> Result<u32, Mismatch> {
        let version = word(bytes, 2) as u32;
        self.check(page, bytes, version..=version).map(|()| version)
    }

    /// Checks a page. One that was read while it was written may hold words of several versions.
    pub(super) fn check(
        self,
        page: u64,
        bytes: &[u8],
        versions: RangeInclusive<u32>,
    ) -> Result<(), Mismatch> {
        let (least, most) = (*versions.start(), *versions.end());
        let holds = |version| self.wrong_words(page, version, bytes) == 0;
        let whole = versions.clone().any(holds);
        if whole || (least < most && self.is_mixed(page, bytes, versions)) {
            return Ok(());
        }
        Err(Mismatch {
            page,
            expected: match least == most {
                true => format!("version {least}"),
                false => format!("one of versions {least} to {most}"),
            },
            found: self.describe(page, bytes),
        })
    }

    /// How many words differ from those of a version.
    fn wrong_words(self, page: u64, version: u32, bytes: &[u8]) -> u64 {
        let (head, rest) = bytes.split_at(HEAD * 8);
        let mut wrong = 0;
        for (bytes, word) in head.as_chunks().0.iter().zip(self.head(page, version)) {
            wrong += u64::from(u64::from_le_bytes(*bytes) != word);
        }
        let mut next = self.seed(page, version);
        for bytes in rest.as_chunks().0 {
            wrong += u64::from(u64::from_le_bytes(*bytes) != next);
            next = next.wrapping_add(STEP);
        }
        wrong
    }

    /// Whether every word is that of one of these versions.
    fn is_mixed(self, page: u64, bytes: &[u8], versions: RangeInclusive<u32>) -> bool {
        (0..WORDS).all(|index| {
            let mut words = versions.clone().map(|version| match index {
                0..HEAD => self.head(page, version)[index],
                _ => self
                    .seed(page, version)
                    .wrapping_add(STEP.wrapping_mul((index - HEAD) as u64)),
            });
            words.any(|one| one == word(bytes, index))
        })
    }

    fn describe(self, page: u64, bytes: &[u8]) -> String {
        let (number, version) = (word(bytes, 1), word(bytes, 2) as u32);
        let wrong = self.wrong_words(number, version, bytes);
        match Stamps::recognise(bytes) {
            None => "bytes that nobody wrote there".into(),
            Some(other) if other != self => "a page of another file".into(),
            Some(_) if wrong > 0 => {
                format!("version {version} with {wrong} of its {WORDS} words changed")
            }
            Some(_) if number != page => format!("page {number}, version {version}"),
            Some(_) => format!("version {version}"),
        }
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[index])
}

/// See the module. Entries: the version, doubled, and 1 while somebody writes the next one.
pub(super) struct Versions {
    entries: NonNull<AtomicU32>,
    pages: usize,
    /// Keeps the memory's name: processes open it by this descriptor.
    pub(super) file: File,
}

// SAFETY: it is shared memory of atomics.
unsafe impl Send for Versions {}
// SAFETY: as above.
unsafe impl Sync for Versions {}

impl Versions {
    /// All pages at version 0, in memory of its own.
    pub(super) fn new(pages: u64) -> std::io::Result<Versions> {
        let memory = rustix::fs::memfd_create("wharf-bench", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(memory);
        file.set_len(pages * size_of::<AtomicU32>() as u64)?;
        Versions::map(file)
    }

    /// The versions in a file of [`Versions::new`].
    pub(super) fn map(file: File) -> std::io::Result<Versions> {
        let bytes = file.metadata()?.len() as usize;
        // SAFETY: a new mapping at a place of the kernel's choice, as long as the file, which nobody shortens.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )?
        };
        Ok(Versions {
            entries: NonNull::new(start.cast()).expect("a mapping is not at 0"),
            pages: bytes / size_of::<AtomicU32>(),
            file,
        })
    }

    fn entries(&self) -> &[AtomicU32] {
        // SAFETY: the mapping lives as long as `self`, has so many entries, and is only used atomically.
        unsafe { std::slice::from_raw_parts(self.entries.as_ptr(), self.pages) }
    }

    /// The number of pages.
    pub(super) fn pages(&self) -> u64 {
        self.pages as u64
    }

    /// Says what a page holds, while nobody writes.
    pub(super) fn set(&self, page: u64, version: u32) {
        self.entries()[page as usize].store(version << 1, Ordering::Relaxed);
    }

    /// The version of every page, while nobody writes.
    pub(super) fn all(&self) -> Vec<u32> {
        let version = |entry: &AtomicU32| entry.load(Ordering::Relaxed) >> 1;
        self.entries().iter().map(version).collect()
    }

    /// Claims the `count` pages of a block for a writer; false if another one has them.
    pub(super) fn claim(&self, first: u64, count: u64) -> bool {
        let block = &self.entries()[first as usize..][..count as usize];
        // Acquire: partner of the release in `written`. The first page stands for the block.
        if block[0].fetch_or(1, Ordering::Acquire) & 1 != 0 {
            return false;
        }
        for entry in &block[1..] {
            entry.fetch_or(1, Ordering::Relaxed);
        }
        true
    }

    /// The version that a claimed page gets.
    pub(super) fn next(&self, page: u64) -> u32 {
        (self.entries()[page as usize].load(Ordering::Relaxed) >> 1) + 1
    }

    /// Ends a claim: the next versions are there. The first page last, which others look at.
    pub(super) fn written(&self, first: u64, count: u64) {
        for page in (first..first + count).rev() {
            // Busy, so one more is the next version, not busy. Release: the write has ended before.
            self.entries()[page as usize].fetch_add(1, Ordering::Release);
        }
    }

    /// The least version that a read that begins now may find.
    pub(super) fn least(&self, page: u64) -> u32 {
        self.entries()[page as usize].load(Ordering::Acquire) >> 1
    }

    /// The greatest version that a read that has ended may have found.
    pub(super) fn most(&self, page: u64) -> u32 {
        self.entries()[page as usize]
            .load(Ordering::Acquire)
            .div_ceil(2)
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        let bytes = self.pages * size_of::<AtomicU32>();
        // SAFETY: the mapping of `map`, which nobody uses any more. It cannot fail for a whole mapping.
        let _ = unsafe { rustix::mm::munmap(self.entries.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: Stamps = Stamps { file: 7 };

    fn page(number: u64, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        STAMPS.fill(number, version, &mut bytes);
        bytes
    }

    fn said(bytes: &[u8], versions: RangeInclusive<u32>) -> String {
        let error = STAMPS.check(5, bytes, versions).expect_err("a mismatch");
        error.to_string()
    }

    #[test]
    fn a_page_in_its_place_is_right_and_its_version_is_read() {
        assert_eq!(STAMPS.version(5, &page(5, 3)).expect("whole"), 3);
        STAMPS.check(5, &page(5, 4), 3..=4).expect("one of them");
    }

    #[test]
    fn every_changed_byte_is_found() {
        for at in 0..PAGE_BYTES {
            let mut bytes = page(5, 3);
            bytes[at] ^= 0x10;
            assert!(STAMPS.check(5, &bytes, 3..=3).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(
            said(&page(5, 2), 3..=3),
            "page 5: expected version 3, found version 2"
        );
        let elsewhere = said(&page(6, 3), 3..=4);
        assert!(elsewhere.ends_with("one of versions 3 to 4, found page 6, version 3"));
        let mut changed = page(5, 3);
        changed[4000] ^= 1;
        assert!(said(&changed, 3..=3).contains("1 of its 512 words changed"));
        assert!(said(&[0; PAGE_BYTES], 0..=0).contains("bytes that nobody wrote there"));
        let mut other = page(5, 3);
        Stamps { file: 8 }.fill(5, 3, &mut other);
        assert!(said(&other, 3..=3).contains("a page of another file"));
    }

    #[test]
    fn a_page_read_while_it_was_written_may_be_of_two_versions_and_no_third() {
        let mut mixed = page(5, 3);
        mixed[2048..].copy_from_slice(&page(5, 4)[2048..]);
        STAMPS.check(5, &mixed, 3..=4).expect("both were there");
        assert!(STAMPS.check(5, &mixed, 4..=5).is_err());
    }

    #[test]
    fn a_block_has_one_writer_and_readers_know_what_they_may_find() {
        let versions = Versions::new(8).expect("memory");
        assert!(versions.claim(4, 2));
        assert!(!versions.claim(4, 2));
        assert_eq!((versions.least(5), versions.most(5)), (0, 1));
        assert_eq!(versions.next(5), 1);
        versions.written(4, 2);
        assert_eq!((versions.least(5), versions.most(5)), (1, 1));
        assert_eq!(versions.all(), [0, 0, 0, 0, 1, 1, 0, 0]);
        let shared = Versions::map(versions.file.try_clone().expect("a descriptor"));
        assert_eq!(shared.expect("the same memory").least(4), 1);
    }
}
