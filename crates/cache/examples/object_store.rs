//! Ranges of an object in a store, through the page cache: `cargo run --release -p wharf-cache --example object_store`
//!
//! The store is a folder here (`LocalFileSystem`). Any `ObjectStore` takes its place: S3, GCS, Azure.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use wharf_cache::{PageCache, PageCacheOptions, Storage};
use wharf_runtime::Seed;

const OBJECT_BYTES: u64 = 8 << 20;
const READS: u64 = 20_000;

/// An object, as storage that is read by ranges.
struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    runtime: tokio::runtime::Runtime,
    requests: AtomicU64,
}

impl Storage for Object {
    fn name(&self) -> String {
        self.path.to_string()
    }

    fn len(&self) -> io::Result<u64> {
        let found = self.runtime.block_on(self.store.head(&self.path));
        Ok(found?.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let range = offset..offset + buf.len() as u64;
        let bytes = self
            .runtime
            .block_on(self.store.get_range(&self.path, range))?;
        // An object that was replaced by a shorter one meanwhile.
        if bytes.len() != buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.copy_from_slice(&bytes);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let data: Vec<u8> = (0..OBJECT_BYTES / 8).flat_map(u64::to_le_bytes).collect();
    let object = Arc::new(Object {
        store: Arc::new(LocalFileSystem::new_with_prefix(folder.path())?),
        path: Path::from("numbers.bin"),
        runtime: tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()?,
        requests: AtomicU64::new(0),
    });
    let put = object.store.put(&object.path, data.into());
    object.runtime.block_on(put)?;

    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: 4 << 20,
        ..PageCacheOptions::default()
    })?;
    // 16 threads ask the store: so many requests are under way at a time.
    let file = cache.open_storage(object.clone(), 16)?;
    let seed = Seed(1);
    println!("{READS} reads of 8 bytes, seed 1");
    let mut rng = seed.rng();
    for _ in 0..READS {
        // Half of the reads are of the first eighth.
        let numbers = OBJECT_BYTES / 8 / [1, 8][rng.below(2) as usize];
        let number = rng.below(numbers);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, number * 8)?;
        if u64::from_le_bytes(bytes) != number {
            return Err(format!("number {number} is not what the object has").into());
        }
    }
    let did = cache.statistics();
    println!(
        "{} of {} pages were in memory; {} requests to the store",
        did.hits,
        did.pages,
        object.requests.load(Ordering::Relaxed)
    );
    Ok(())
}
