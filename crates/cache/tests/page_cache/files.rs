//! Files and handles, and what is refused.

use std::sync::Arc;

use wharf_cache::{PageCache, PageCacheError, PageCacheOptions};
use wharf_storage::RamTarget;

use crate::{PAGE, create, open, small};

#[test]
fn one_file_by_two_paths_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("file"), folder.path().join("link"));
    let cache = small(32);
    let file = create(&cache, &path);
    std::fs::hard_link(&path, &link).unwrap();
    let other = open(&cache, &link).unwrap();
    file.write_all_at(b"not synced", 5).unwrap();
    drop(file);
    let mut out = [0; 10];
    other.read_exact_at(&mut out, 5).unwrap();
    assert_eq!(&out, b"not synced");
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let cache = small(32);
    let says = |outcome: Result<(), PageCacheError>, what: &str| {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    says(open(&cache, &path).map(drop), "cannot open it");
    drop(create(&cache, &path));
    let file = cache.open(&path).unwrap();
    says(file.write_all_at(b"x", 0), "open to read only");
    says(
        file.read_exact_at(&mut [0], 0),
        "ends at byte 0, before byte 1",
    );
    says(open(&cache, &path).map(drop), "close that one first");
    let few = PageCacheOptions {
        memory_bytes: 4096,
        ..PageCacheOptions::default()
    };
    says(PageCache::new(&few).map(drop), "at least 65536");
    let fixed = cache
        .open_target(Arc::new(RamTarget::new("ram", 10_000, 512)))
        .unwrap();
    says(fixed.write_all_at(b"xy", 9_999), "10001 bytes do not fit");
    says(fixed.set_len(5), "do not fit");
}

/// Whoever needs a page when guards have all of them waits for a while, gets an error, and goes on when they are gone.
#[test]
fn guards_that_fill_the_memory_are_an_error_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(16);
    let file = create(&cache, &folder.path().join("data"));
    file.write_all_at(&vec![7; 40 * PAGE], 0).unwrap();
    file.sync_all().unwrap();
    let guards: Vec<_> = (0..16)
        .map(|page| file.pin(page * PAGE as u64).unwrap())
        .collect();
    let mut out = [0; PAGE];
    let refused = file.read_at(&mut out, 30 * PAGE as u64);
    assert!(
        matches!(refused, Err(PageCacheError::Io { .. })),
        "{refused:?}"
    );
    assert_eq!(
        file.read_at(&mut out, 3 * PAGE as u64).unwrap(),
        PAGE,
        "a page with a guard"
    );
    drop(guards);
    assert_eq!(file.read_at(&mut out, 30 * PAGE as u64).unwrap(), PAGE);
    assert_eq!(out, [7; PAGE]);
}

/// Also while all other pages have guards, so that nothing could be brought in.
#[test]
fn a_guard_writes_what_it_reads_and_what_the_file_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let cache = small(16);
    let file = create(&cache, &path);
    file.set_len(16 * PAGE as u64).unwrap();
    let guards: Vec<_> = (0..16)
        .map(|page| file.pin(page * PAGE as u64).unwrap())
        .collect();
    for (number, guard) in guards.iter().enumerate() {
        guard.write(PAGE - 3, &[number as u8 + 1; 3]).unwrap();
        let mut out = [0; 4];
        guard.read(PAGE - 4, &mut out);
        assert_eq!((out[0], out[3]), (0, number as u8 + 1));
    }
    drop(guards);
    let reader = cache.open(&path).unwrap();
    let refused = reader.pin(0).unwrap().write(0, b"x");
    assert!(matches!(refused, Err(PageCacheError::ReadOnly { .. })));
    drop(reader);
    file.close().unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len(), 16 * PAGE);
    assert!((1..=16).all(|page| bytes[page * PAGE - 3..page * PAGE] == [page as u8; 3]));
}
