//! The page cache that programs link: beside a flat vector of bytes, under faults, through kills.

mod background;
mod crashes;
mod errors;
// Executors of others are not what ThreadSanitizer is to watch.
#[cfg(not(tsan))]
mod features;
mod files;
mod hostile;
mod like_std;
mod limits;
mod model;
mod own_storage;
mod read_ahead;
mod threads;

use std::path::Path;
use std::sync::Arc;

use wharf_cache::{File, OpenOptions, PageCache, PageCacheError, PageCacheOptions};
use wharf_runtime::{Rng, Seed};
use wharf_storage::faulty::{Faulty, Power};
use wharf_storage::{Blocking, FileOptions, RamTarget};

const PAGE: usize = 4096;

/// A cache of so few pages that everything is evicted again and again.
fn small(pages: u64) -> PageCache {
    PageCache::new(&of_pages(pages)).unwrap()
}

fn of_pages(pages: u64) -> PageCacheOptions {
    PageCacheOptions {
        memory_bytes: pages * PAGE as u64,
        files_max: 4,
        threads_max: 4,
        ..PageCacheOptions::default()
    }
}

/// Opens a file that is there, to read and to write.
fn open(cache: &PageCache, path: impl AsRef<Path>) -> Result<File, PageCacheError> {
    OpenOptions::new().read(true).write(true).open(cache, path)
}

fn create(cache: &PageCache, path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(cache, path).unwrap()
}

/// What a file holds, read around the kernel's page cache: a buffered read of a file that is being written
/// around it can make the file's next `fsync` fail.
fn in_file(path: &Path) -> Vec<u8> {
    let how = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    let target = wharf_storage::open(path, &how).unwrap();
    let len = target.size_bytes() as usize;
    let mut bytes = vec![0; len.next_multiple_of(PAGE)];
    if len > 0 {
        Blocking::new(&*target)
            .unwrap()
            .read(0, &mut bytes)
            .unwrap();
    }
    bytes.truncate(len);
    bytes
}

fn fill(rng: &mut Rng, data: &mut [u8]) {
    data.fill_with(|| rng.next_u32() as u8);
}

/// Storage of 40 pages that fails as it is told.
fn faulty(seed: u64) -> (Arc<Faulty>, Arc<RamTarget>, Arc<Power>) {
    faulty_of(40, seed)
}

fn faulty_of(pages: u64, seed: u64) -> (Arc<Faulty>, Arc<RamTarget>, Arc<Power>) {
    let ram = Arc::new(RamTarget::new("ram", pages * PAGE as u64, 512));
    let power = Power::new();
    let faulty = Arc::new(Faulty::new(ram.clone(), power.clone(), Seed(seed)));
    (faulty, ram, power)
}

fn stored(ram: &RamTarget) -> Vec<u8> {
    let mut bytes = vec![0; 40 * PAGE];
    Blocking::new(ram).unwrap().read(0, &mut bytes).unwrap();
    bytes
}
