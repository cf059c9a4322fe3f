//! Storage of users' own below the cache: it holds what was written, grows where it may, and what fails there fails here.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock};

use object_store::ObjectStoreExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use wharf_cache::{File, PageCacheError, Storage};
use wharf_runtime::Seed;

use crate::{PAGE, fill, small};

/// Bytes in memory, and what is to go wrong.
#[derive(Default)]
struct Memory {
    bytes: RwLock<Vec<u8>>,
    is_fixed: bool,
    is_read_only: bool,
    /// Calls give an error (1) or panic (2).
    failing: AtomicU32,
    reads: AtomicU32,
}

impl Memory {
    fn of(len: usize) -> Memory {
        Memory {
            bytes: RwLock::new(vec![0; len]),
            ..Memory::default()
        }
    }

    fn may_fail(&self) -> io::Result<()> {
        match self.failing.load(Ordering::SeqCst) {
            0 => Ok(()),
            1 => Err(ErrorKind::TimedOut.into()),
            _ => panic!("a planted panic"),
        }
    }
}

impl Storage for Memory {
    fn name(&self) -> String {
        "memory of a test".into()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().unwrap().len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.may_fail()?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        // Panics if it is asked for what it has not.
        buf.copy_from_slice(&self.bytes.read().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn is_writable(&self) -> bool {
        !self.is_read_only
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.may_fail()?;
        self.bytes.write().unwrap()[offset as usize..][..buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn can_grow(&self) -> bool {
        !self.is_fixed
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.write().unwrap().resize(len as usize, 0);
        Ok(())
    }
}

fn open(memory: &Arc<Memory>) -> File {
    small(16).open_storage(memory.clone(), 3).unwrap()
}

#[test]
fn random_writes_cuts_and_reads_are_those_of_a_vector() {
    for seed in [1, 2, 3] {
        println!("seed {seed}");
        let memory = Arc::new(Memory::of(5_000));
        let file = open(&memory);
        let (mut rng, mut model) = (Seed(seed).rng(), vec![0; 5_000]);
        for _ in 0..500 {
            let (at, len) = (rng.below(40 * PAGE as u64), rng.below(3 * PAGE as u64));
            match rng.below(10) {
                0 => {
                    file.set_len(at).unwrap();
                    model.resize(at as usize, 0);
                }
                1 => file.sync_all().unwrap(),
                2..5 => {
                    let mut data = vec![0; len as usize];
                    fill(&mut rng, &mut data);
                    file.write_all_at(&data, at).unwrap();
                    let end = (at + len) as usize;
                    if len > 0 && model.len() < end {
                        model.resize(end, 0);
                    }
                    if len > 0 {
                        model[at as usize..end].copy_from_slice(&data);
                    }
                }
                _ => {
                    let mut out = vec![0; len as usize];
                    let count = file.read_at(&mut out, at).unwrap();
                    let there = model.get(at as usize..).unwrap_or_default();
                    let there = &there[..there.len().min(out.len())];
                    assert!(out[..count] == *there, "{len} bytes at {at}");
                }
            }
        }
        file.close().unwrap();
        assert!(*memory.bytes.read().unwrap() == model);
    }
}

#[test]
fn what_fails_or_panics_is_an_error_and_is_tried_again() {
    let memory = Arc::new(Memory::of(40 * PAGE));
    let file = open(&memory);
    let mut out = [0; 10];
    for (failing, kind) in [
        (1, ErrorKind::TimedOut),
        (2, io::Error::from_raw_os_error(5).kind()),
    ] {
        memory.failing.store(failing, Ordering::SeqCst);
        let refused = io::Error::from(file.read_exact_at(&mut out, 0).unwrap_err());
        assert_eq!(refused.kind(), kind);
        assert!(refused.to_string().contains("memory of a test: read"));
        memory.failing.store(0, Ordering::SeqCst);
    }
    file.read_exact_at(&mut out, 0).unwrap();
    file.write_all_at(b"kept", 5 * PAGE as u64).unwrap();
    memory.failing.store(2, Ordering::SeqCst);
    file.sync_all().unwrap_err();
    memory.failing.store(0, Ordering::SeqCst);
    file.sync_all().unwrap();
    assert_eq!(memory.bytes.read().unwrap()[5 * PAGE..][..4], *b"kept");
}

#[test]
fn storage_that_is_fixed_or_read_only_stays_so() {
    let memory = Memory {
        is_fixed: true,
        ..Memory::of(5_000)
    };
    let file = open(&Arc::new(memory));
    let beyond = file.write_all_at(b"xy", 4_999);
    assert!(
        matches!(beyond, Err(PageCacheError::NoRoom { .. })),
        "{beyond:?}"
    );
    let memory = Memory {
        is_read_only: true,
        ..Memory::of(5_000)
    };
    let refused = open(&Arc::new(memory)).write_all_at(b"x", 0);
    assert!(
        matches!(refused, Err(PageCacheError::ReadOnly { .. })),
        "{refused:?}"
    );
    let none = small(16).open_storage(Arc::new(Memory::of(1)), 0);
    assert!(matches!(none, Err(PageCacheError::Option { .. })));
}

/// Storage that says that it is longer than pages have numbers.
struct Endless(u64);

impl Storage for Endless {
    fn name(&self) -> String {
        "endless".into()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        buf.fill(7);
        Ok(())
    }
}

#[test]
fn storage_that_is_too_long_is_refused_and_all_of_the_longest_is_read() {
    let cache = small(16);
    let refused = cache.open_storage(Arc::new(Endless(u64::MAX)), 1);
    let Err(PageCacheError::NoRoom { room: most, .. }) = refused else {
        panic!("{refused:?}");
    };
    let file = cache.open_storage(Arc::new(Endless(most)), 1).unwrap();
    let mut out = [0; 3];
    file.read_exact_at(&mut out, most - 3).unwrap();
    assert_eq!(out, [7; 3]);
    assert_eq!(file.read_at(&mut out, u64::MAX).unwrap(), 0);
}

/// A run of pages that is read ahead is one call, where each page would be one.
#[test]
fn neighbours_are_one_call() {
    let memory = Arc::new(Memory::of(256 * PAGE));
    let file = small(512).open_storage(memory.clone(), 3).unwrap();
    file.read_exact_at(&mut vec![0; 256 * PAGE], 0).unwrap();
    let calls = memory.reads.load(Ordering::SeqCst);
    assert!(calls <= 64, "{calls} calls for 256 pages");
}

struct Object {
    store: LocalFileSystem,
    path: Path,
    runtime: tokio::runtime::Runtime,
}

impl Storage for Object {
    fn name(&self) -> String {
        self.path.to_string()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.runtime.block_on(self.store.head(&self.path))?.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let range = offset..offset + buf.len() as u64;
        let found = self.store.get_range(&self.path, range);
        buf.copy_from_slice(&self.runtime.block_on(found)?);
        Ok(())
    }
}

#[test]
fn ranges_of_an_object_are_what_the_store_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Seed(7).rng();
    let mut data = vec![0; 100 * PAGE + 123];
    fill(&mut rng, &mut data);
    let object = Arc::new(Object {
        store: LocalFileSystem::new_with_prefix(folder.path()).unwrap(),
        path: Path::from("folder/object"),
        runtime: tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap(),
    });
    let cache = small(16);
    let missing = cache.open_storage(object.clone(), 4).map(drop);
    let missing = io::Error::from(missing.unwrap_err());
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let put = object.store.put(&object.path, data.clone().into());
    object.runtime.block_on(put).unwrap();
    let file = cache.open_storage(object, 4).unwrap();
    assert_eq!(file.len(), data.len() as u64);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (file, data) = (&file, &data);
            scope.spawn(move || {
                let mut rng = Seed(7).index(thread).rng();
                for _ in 0..200 {
                    let at = rng.below(data.len() as u64);
                    let mut out = vec![0; rng.below(3 * PAGE as u64) as usize];
                    let count = file.read_at(&mut out, at).unwrap();
                    let there = &data[at as usize..][..count];
                    assert!(out[..count] == *there, "{count} bytes at {at}");
                    assert_eq!(count, out.len().min(data.len() - at as usize));
                }
            });
        }
    });
}
