//! Tests of all media kinds: against a model, under kills and crashes, with bad images.

mod crash;
mod format_doc;
mod images;
mod kill;
mod model;
mod rot;

use std::path::PathBuf;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

/// Two blocks' worth of pages in four blocks: everything happens within a few operations.
const BLOCKS: u32 = 4;
const PAGES_PER_BLOCK: u32 = 4;

fn geometry(page_bytes: u32) -> CoreGeometry {
    CoreGeometry {
        blocks: BLOCKS,
        pages_per_block: PAGES_PER_BLOCK,
        page_bytes,
        unit_pages: 0,
        log_bytes: 1024,
    }
}

fn image_geometry(page_bytes: u32) -> ImageGeometry {
    ImageGeometry {
        cores: 2,
        core: geometry(page_bytes),
    }
}

/// Options under which tests run fast: no waiting for the disk.
const UNORDERED: FileOptions = FileOptions {
    overwrite: false,
    ordered: false,
};

/// A page whose bytes all follow from `tag`.
fn page(page_bytes: u32, tag: u64) -> Vec<u8> {
    let word = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.into_iter().cycle().take(page_bytes as usize).collect()
}

/// A directory for a test's images, in memory where that is to be had: every creation of an image
/// waits for its disk, and sweeps make thousands.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| disk_directory())
}

/// A directory for images on a file system of the usual kind.
fn disk_directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

/// What a media object should hold, in the plainest way.
#[derive(Clone, PartialEq, Eq, Default)]
struct Model {
    /// `None` is a page that is not erased and cannot be read.
    pages: std::collections::BTreeMap<u32, Option<(Oob, Vec<u8>)>>,
    erase_counts: [u32; BLOCKS as usize],
    log: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Model {
    /// A line for each page and record: data are told by their first bytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "erase counts {:?}", self.erase_counts)?;
        for (ppn, page) in &self.pages {
            match page {
                Some((oob, data)) => writeln!(f, "page {ppn}: {oob:?} {:x?}", &data[..8])?,
                None => writeln!(f, "page {ppn}: unreadable")?,
            }
        }
        self.log.iter().try_for_each(|record| {
            writeln!(
                f,
                "record of {}: {:x?}",
                record.len(),
                &record[..record.len().min(8)]
            )
        })
    }
}

impl Model {
    fn written_pages(&self, block: u32) -> u32 {
        let first = block * PAGES_PER_BLOCK;
        let last = self.pages.range(first..first + PAGES_PER_BLOCK).next_back();
        last.map_or(0, |(ppn, _)| ppn - first + 1)
    }

    fn program(&mut self, ppn: u32, oob: Oob, data: &[u8]) {
        assert!(self.pages.insert(ppn, Some((oob, data.to_vec()))).is_none());
    }

    fn erase(&mut self, block: u32) {
        self.erase_counts[block as usize] += 1;
        self.pages.retain(|ppn, _| ppn / PAGES_PER_BLOCK != block);
    }

    /// Reads all of `media` by every way there is.
    fn of(media: &impl Media) -> Self {
        let mut model = Self {
            log: media.log_read().unwrap(),
            ..Self::default()
        };
        for ppn in 0..media.geometry().pages() {
            let mut data = vec![0; media.page_bytes()];
            let found = media.read(ppn, &mut data);
            match found {
                Ok(oob) => drop(model.pages.insert(ppn, Some((oob, data)))),
                Err(MediaError::Rot { ppn: named }) if named == ppn => {
                    model.pages.insert(ppn, None);
                }
                Err(MediaError::Erased { ppn: named }) => assert_eq!(named, ppn),
                Err(other) => panic!("{other}"),
            }
        }
        for block in 0..BLOCKS {
            model.erase_counts[block as usize] = media.erase_count(block);
            assert_eq!(
                media.written_pages(block),
                model.written_pages(block),
                "block {block}"
            );
        }
        let log_len: u64 = model
            .log
            .iter()
            .map(|record| log_record_bytes(record.len()))
            .sum();
        assert_eq!(media.log_len(), log_len);
        model
    }

    /// Compares `media` with this, and its out-of-band calls with its reads.
    fn assert_is(&self, media: &impl Media) {
        assert_eq!(&Self::of(media), self);
        for ppn in 0..media.geometry().pages() {
            let oob = self
                .pages
                .get(&ppn)
                .and_then(|page| page.as_ref())
                .map(|(oob, _)| *oob);
            assert_eq!(media.oob(ppn), oob, "page {ppn}");
            assert_eq!(media.lpn(ppn), oob.map(|oob| oob.lpn), "page {ppn}");
        }
    }
}

fn image_path(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("drive.wharf")
}
