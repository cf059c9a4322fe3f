//! Whole pages in memory, of which those that a checked workload writes take 64 bytes.
//!
//! Problem: data of 64 or 128 GB are more than the memory of most machines, and a file system's metadata are bytes,
//! which no stamp stands for. So pages cannot be stamps alone, as below designs for blocks.
//!
//! Idea: what a checked workload writes says little. Each [`SECTOR_BYTES`] of it are one word of 8 bytes, again and
//! again, that names the write and the place in it. So a *sector* whose words are all alike is kept as that word:
//!
//! 1. A page whose eight sectors are such (zeros are, too) takes eight words: 64 bytes.
//! 2. Any other page is kept whole, until all its sectors are such again.
//! 3. A request that cuts a page at multiples of a sector changes the words of its sectors.
//!
//! No byte is lost: what is read is what was written, whoever wrote it and whatever it is. The words of
//! 64 neighbours lie together, so that what finds them takes a fraction of a byte a page.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::pages::{PAGE_BYTES, PageBytes};

/// Bytes that one word stands for: the sector of the workloads' check.
pub const SECTOR_BYTES: usize = 512;

/// Pages whose words lie together.
const CHUNK_PAGES: u64 = 64;

/// What the words of a sector are.
type Word = [u8; 8];

/// The words of a page's sectors.
type Words = [Word; PAGE_BYTES / SECTOR_BYTES];

const _: () = assert!(size_of::<Words>() == 64);

type Chunk = [Words; CHUNK_PAGES as usize];

/// Pages by number, which are zeros until they are written. A clone costs little until either is written.
/// See the [module](self).
#[derive(Debug, Clone, Default)]
pub struct StampedPages {
    chunks: FxHashMap<u64, Arc<Chunk>>,
    /// Pages that words do not stand for; those of their chunks mean nothing.
    whole: FxHashMap<u64, Arc<PageBytes>>,
}

impl StampedPages {
    /// Copies bytes of a page, from its byte `from` on.
    ///
    /// # Panics
    /// If that is more than the page.
    pub fn read(&self, page: u64, from: usize, out: &mut [u8]) {
        assert_within(from, out.len());
        if let Some(bytes) = self.whole.get(&page) {
            out.copy_from_slice(&bytes[from..from + out.len()]);
            return;
        }
        match self.words(page) {
            Some(words) => expand(words, from, out),
            None => out.fill(0),
        }
    }

    /// Writes bytes of a page, from its byte `from` on.
    ///
    /// # Panics
    /// If that is more than the page.
    pub fn write(&mut self, page: u64, from: usize, bytes: &[u8]) {
        assert_within(from, bytes.len());
        if let Some(whole) = self.whole.get_mut(&page) {
            let whole = Arc::make_mut(whole);
            whole[from..from + bytes.len()].copy_from_slice(bytes);
            if words_of(&whole[..]).is_some()
                && let Some(whole) = self.whole.remove(&page)
            {
                self.write_words(page, 0, &whole[..]);
            }
            return;
        }
        if self.write_words(page, from, bytes) {
            return;
        }
        let mut whole = [0; PAGE_BYTES];
        // If all of it is written, what it was does not matter.
        if let Some(words) = self.words(page).filter(|_| bytes.len() < PAGE_BYTES) {
            expand(words, 0, &mut whole);
        }
        whole[from..from + bytes.len()].copy_from_slice(bytes);
        if !self.write_words(page, 0, &whole) {
            self.whole.insert(page, Arc::new(whole));
        }
    }

    /// Makes a page zeros, which take no memory of their own.
    pub fn forget(&mut self, page: u64) {
        self.whole.remove(&page);
        if let Some(chunk) = self.chunks.get_mut(&(page / CHUNK_PAGES)) {
            Arc::make_mut(chunk)[(page % CHUNK_PAGES) as usize] = Words::default();
        }
    }

    /// Bytes of memory that this takes, those of its tables included, and those that it shares with a clone too.
    pub fn memory_bytes(&self) -> u64 {
        // An allocation of an `Arc` has two counts before its data; a table has a byte for each slot.
        const COUNTS: usize = 2 * size_of::<usize>();
        const SLOT: usize = size_of::<(u64, usize)>() + 1;
        let chunks = self.chunks.len() * (COUNTS + size_of::<Chunk>());
        let whole = self.whole.len() * (COUNTS + PAGE_BYTES);
        let slots = self.chunks.capacity() + self.whole.capacity();
        (chunks + whole + slots * SLOT) as u64
    }

    /// Which pages hold something, and CRC-64s of what is kept of them, in order: equal of two only if all bytes are.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn identity(&self) -> Vec<(u64, usize)> {
        let sum =
            |bytes: &[u8]| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes) as usize;
        // A page is whole only if no words stand for it: there is one way to keep what it holds.
        let whole = self
            .whole
            .iter()
            .map(|(page, bytes)| (*page, sum(&bytes[..])));
        let of_chunk = |(chunk, words): (&u64, &Arc<Chunk>)| {
            let pages = (chunk * CHUNK_PAGES..).zip(words.iter());
            let held = pages.filter(|(_, words)| **words != Words::default());
            held.filter(|(page, _)| !self.whole.contains_key(page))
                .map(|(page, words)| (page, sum(words.as_flattened())))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = whole.chain(self.chunks.iter().flat_map(of_chunk)).collect();
        all.sort_unstable();
        all
    }

    fn words(&self, page: u64) -> Option<&Words> {
        let chunk = self.chunks.get(&(page / CHUNK_PAGES))?;
        Some(&chunk[(page % CHUNK_PAGES) as usize])
    }

    /// Writes whole sectors whose words are alike; false if these are not such, and then nothing is written.
    fn write_words(&mut self, page: u64, from: usize, bytes: &[u8]) -> bool {
        if !from.is_multiple_of(SECTOR_BYTES) {
            return false;
        }
        let Some(new) = words_of(bytes) else {
            return false;
        };
        let chunk = self.chunks.entry(page / CHUNK_PAGES);
        let chunk = chunk.or_insert_with(|| Arc::new([Words::default(); CHUNK_PAGES as usize]));
        let words = &mut Arc::make_mut(chunk)[(page % CHUNK_PAGES) as usize];
        for (word, new) in words[from / SECTOR_BYTES..].iter_mut().zip(new) {
            *word = new;
        }
        true
    }
}

/// The words of whole sectors, if these say all of them: each is one word, again and again.
fn words_of(bytes: &[u8]) -> Option<impl Iterator<Item = Word>> {
    let (sectors, rest) = bytes.as_chunks::<SECTOR_BYTES>();
    let is_word = |sector: &[u8; SECTOR_BYTES]| sector[8..] == sector[..SECTOR_BYTES - 8];
    let word = |sector: &[u8; SECTOR_BYTES]| std::array::from_fn(|at| sector[at]);
    (rest.is_empty() && sectors.iter().all(is_word)).then(|| sectors.iter().map(word))
}

fn assert_within(from: usize, length: usize) {
    assert!(
        from <= PAGE_BYTES && length <= PAGE_BYTES - from,
        "{length} bytes from byte {from} on are more than a page"
    );
}

/// The bytes that words stand for, from byte `from` of the page on.
fn expand(words: &Words, from: usize, out: &mut [u8]) {
    let (mut at, mut rest) = (from, out);
    while !rest.is_empty() {
        let bytes = rest.len().min(SECTOR_BYTES - at % SECTOR_BYTES);
        let (part, behind) = rest.split_at_mut(bytes);
        let mut word = words[at / SECTOR_BYTES];
        word.rotate_left(at % 8);
        for bytes in part.chunks_mut(8) {
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        (at, rest) = (at + bytes, behind);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wharf_runtime::{Rng, Seed};

    use super::*;

    /// What a checked workload writes to sectors: one word again and again.
    fn checked(rng: &mut Rng, sectors: usize) -> Vec<u8> {
        let words = (0..sectors).map(|_| rng.next_u64().to_le_bytes());
        words
            .flat_map(|word| word.repeat(SECTOR_BYTES / 8))
            .collect()
    }

    /// A write: the byte of the page that it begins at, and bytes of one of four kinds.
    fn some_write(rng: &mut Rng) -> (usize, Vec<u8>) {
        let first = rng.below(8) as usize;
        let sectors = 1 + rng.below(8 - first as u64) as usize;
        let from = rng.below(PAGE_BYTES as u64) as usize;
        let length = 1 + rng.below((PAGE_BYTES - from) as u64) as usize;
        match rng.below(5) {
            0 => (0, checked(rng, 8)),
            1 => (first * SECTOR_BYTES, checked(rng, sectors)),
            // A part of what a workload wrote, wherever that begins and ends.
            2 => (from, checked(rng, 8)[..length].to_vec()),
            3 => (from, vec![rng.below(3) as u8; length]),
            _ => (from, (0..length).map(|_| rng.below(256) as u8).collect()),
        }
    }

    fn page_of(pages: &StampedPages, page: u64) -> Vec<u8> {
        let mut bytes = vec![1; PAGE_BYTES];
        pages.read(page, 0, &mut bytes);
        bytes
    }

    #[test]
    fn every_byte_is_what_was_written_whatever_was() {
        for seed in 0..40 {
            let rng = &mut Seed(seed).child("stamped pages").rng();
            let mut pages = StampedPages::default();
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut clones = Vec::new();
            for _ in 0..300 {
                // Of two chunks, far from each other.
                let page = rng.below(3) + rng.below(2) * 1_000_000;
                let known = model.entry(page).or_insert_with(|| vec![0; PAGE_BYTES]);
                match rng.below(12) {
                    0 => {
                        pages.forget(page);
                        known.fill(0);
                    }
                    1 => clones.push((pages.clone(), model.clone())),
                    _ => {
                        let (from, bytes) = some_write(rng);
                        pages.write(page, from, &bytes);
                        known[from..from + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                let from = rng.below(PAGE_BYTES as u64) as usize;
                let length = rng.below((PAGE_BYTES - from) as u64 + 1) as usize;
                let mut out = vec![7; length];
                pages.read(page, from, &mut out);
                assert_eq!(out, model[&page][from..from + length], "seed {seed}");
            }
            clones.push((pages, model));
            for (pages, model) in &clones {
                for (page, bytes) in model {
                    assert_eq!(&page_of(pages, *page), bytes, "seed {seed} page {page}");
                }
                // However it came to what it holds, that is all that it is known by.
                let mut anew = StampedPages::default();
                for (page, bytes) in model.iter().rev() {
                    anew.write(*page, 0, bytes);
                }
                let identity = pages.identity();
                assert_eq!(identity, anew.identity(), "seed {seed}");
                let is_held = |(_, bytes): &(&u64, &Vec<u8>)| bytes.iter().any(|b| *b != 0);
                let held = model.iter().filter(is_held).map(|(page, _)| *page);
                assert!(
                    held.eq(identity.iter().map(|(page, _)| *page)),
                    "seed {seed}"
                );
            }
        }
    }

    #[test]
    fn what_a_checked_workload_writes_takes_little_more_than_64_bytes_a_page() {
        const PAGES: u64 = 1 << 16; // 256 MiB
        let mut pages = StampedPages::default();
        let rng = &mut Seed(1).child("stamped pages").rng();
        // Requests of 1 KiB, which cut pages, and of whole ones.
        for page in 0..PAGES {
            let data = checked(rng, 8);
            match page % 2 {
                0 => pages.write(page, 0, &data),
                _ => (0..4).for_each(|kib| {
                    let cut = kib * 1024..(kib + 1) * 1024;
                    pages.write(page, cut.start, &data[cut.clone()]);
                }),
            }
        }
        let by_page = pages.memory_bytes() as f64 / PAGES as f64;
        assert!((64.0..66.0).contains(&by_page), "{by_page} bytes a page");
    }

    #[test]
    fn a_page_is_whole_only_as_long_as_it_must_be() {
        let mut pages = StampedPages::default();
        let rng = &mut Seed(2).child("stamped pages").rng();
        pages.write(5, 0, &checked(rng, 8));
        let small = pages.memory_bytes();
        pages.write(5, 700, b"metadata");
        assert!(pages.memory_bytes() >= small + PAGE_BYTES as u64);
        pages.write(5, 512, &checked(rng, 1));
        let again = pages.memory_bytes();
        assert!(again < small + 200, "{again} bytes, and {small} before");
        pages.write(5, 1, b"metadata");
        pages.forget(5);
        assert_eq!(pages.memory_bytes(), again);
    }

    #[test]
    #[should_panic = "2 bytes from byte 4095 on are more than a page"]
    fn a_request_beyond_the_page_is_a_bug() {
        StampedPages::default().write(0, PAGE_BYTES - 1, &[1, 2]);
    }
}
