//! Random operations on a file and on a vector.

use std::path::Path;

use wharf_cache::{Advice, File, PageCache, PageCacheOptions, Replacement};
use wharf_runtime::{Rng, Seed};

use crate::{PAGE, create, fill, in_file, of_pages, open};

/// A place to read or write: mostly small, mostly within `most`, aligned as often as not.
fn place(rng: &mut Rng, most: u64) -> (u64, usize) {
    let (mut offset, mut len) = (rng.below(most), 1 + rng.below(3 * PAGE as u64));
    if rng.chance(1, 2) {
        offset -= offset % PAGE as u64;
        len = len.next_multiple_of(PAGE as u64);
    }
    if rng.chance(1, 10) {
        len += rng.below(100_000);
    }
    (offset, len as usize)
}

/// A file and what it should hold.
struct Checked<'a> {
    cache: &'a PageCache,
    path: &'a Path,
    file: Option<File>,
    model: Vec<u8>,
}

impl Checked<'_> {
    fn file(&self) -> &File {
        self.file.as_ref().expect("it is open")
    }

    fn write(&mut self, rng: &mut Rng, most: u64) {
        let (offset, len) = place(rng, most);
        let mut data = vec![0; len];
        fill(rng, &mut data);
        self.file().write_all_at(&data, offset).unwrap();
        let end = offset as usize + len;
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset as usize..end].copy_from_slice(&data);
    }

    fn read(&self, rng: &mut Rng, most: u64) {
        let (offset, len) = place(rng, most);
        let mut out = vec![0xee; len];
        let count = self.file().read_at(&mut out, offset).unwrap();
        let rest = self.model.get(offset as usize..).unwrap_or_default();
        assert_eq!(count, rest.len().min(len), "at {offset}");
        assert!(out[..count] == rest[..count], "{count} bytes at {offset}");
    }

    fn pin(&self, rng: &mut Rng) {
        if self.model.is_empty() {
            return;
        }
        let guard = self.file().pin(rng.below(self.model.len() as u64)).unwrap();
        let mut out = [0xee; PAGE];
        guard.read(0, &mut out);
        let rest = &self.model[guard.offset() as usize..];
        let there = rest.len().min(PAGE);
        assert!(
            out[..there] == rest[..there],
            "pinned at {}",
            guard.offset()
        );
        assert!(out[there..].iter().all(|byte| *byte == 0), "behind the end");
    }

    fn truncate(&mut self, bytes: u64) {
        self.file().set_len(bytes).unwrap();
        self.model.resize(bytes as usize, 0);
    }

    fn check_stored(&self) {
        let stored = in_file(self.path);
        assert_eq!(stored.len(), self.model.len(), "the length that is stored");
        assert!(stored == self.model, "the bytes that are stored");
    }

    fn check_stored_range(&self, offset: usize, len: usize) {
        let stored = in_file(self.path);
        let range = offset.min(self.model.len())..(offset + len).min(self.model.len());
        assert!(
            stored[range.clone()] == self.model[range],
            "bytes that were synced"
        );
    }

    fn step(&mut self, rng: &mut Rng, most: u64) {
        match rng.below(100) {
            0..40 => self.write(rng, most),
            40..80 => self.read(rng, most),
            80..86 => self.pin(rng),
            86..89 => {
                let now = self.model.len() as u64;
                let bytes = [rng.below(most), rng.below(now + 1), now + rng.below(9_000)];
                self.truncate(bytes[rng.below(3) as usize]);
            }
            89..94 => {
                let (offset, len) = place(rng, most);
                let advice = [Advice::WillNeed, Advice::DontNeed][rng.below(2) as usize];
                self.file().advise(offset, len as u64, advice).unwrap();
            }
            94..96 => {
                self.file().sync_all().unwrap();
                self.check_stored();
            }
            96..98 => {
                let (offset, len) = place(rng, most);
                self.file().sync_range(offset, len as u64).unwrap();
                self.check_stored_range(offset as usize, len);
            }
            _ => {
                let last = self.file.take().expect("it is open");
                match rng.chance(1, 2) {
                    true => last.close().unwrap(),
                    false => drop(last),
                }
                self.check_stored();
                self.file = Some(open(self.cache, self.path).unwrap());
            }
        }
        assert_eq!(self.file().len(), self.model.len() as u64);
    }
}

/// Random operations on a file and on a vector; a cache of 20 pages, files of up to 400 KB.
#[test]
fn a_file_is_what_a_vector_of_bytes_is() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = Seed(seed).child("page cache").rng();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = PageCacheOptions {
            replacement: [Replacement::Clock, Replacement::Lru][seed as usize % 2],
            background: seed % 4 < 2,
            ..of_pages(20 + rng.below(60))
        };
        let cache = PageCache::new(&options).unwrap();
        let file = Some(create(&cache, &path));
        let mut checked = Checked {
            cache: &cache,
            path: &path,
            file,
            model: Vec::new(),
        };
        let most = 1 + rng.below(400_000);
        for _ in 0..400 {
            checked.step(&mut rng, most);
        }
    }
}
