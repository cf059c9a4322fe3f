//! Files and handles, and what is refused.

use std::sync::Arc;

use wharf_cache::{OpenOptions, PageCache, PageCacheError, PageCacheOptions};
use wharf_storage::RamTarget;

use crate::{PAGE, create, small};

#[test]
fn one_file_by_two_paths_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("file"), folder.path().join("link"));
    let cache = small(32);
    let file = create(&cache, &path);
    std::fs::hard_link(&path, &link).unwrap();
    let other = cache.open(&link, OpenOptions::default()).unwrap();
    file.write_at(5, b"not synced").unwrap();
    drop(file);
    let mut out = [0; 10];
    other.read_exact_at(5, &mut out).unwrap();
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
    says(
        cache.open(&path, OpenOptions::default()).map(drop),
        "cannot open it",
    );
    drop(create(&cache, &path));
    let read_only = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let file = cache.open(&path, read_only).unwrap();
    says(file.write_at(0, b"x"), "open to read only");
    says(file.read_exact_at(0, &mut [0]), "has room for 0");
    says(
        cache.open(&path, OpenOptions::default()).map(drop),
        "close that one first",
    );
    let few = PageCacheOptions {
        memory_bytes: 4096,
        ..PageCacheOptions::default()
    };
    says(PageCache::new(&few).map(drop), "at least 65536");
    let fixed = cache
        .open_target(Arc::new(RamTarget::new("ram", 10_000, 512)))
        .unwrap();
    says(fixed.write_at(9_999, b"xy"), "10001 bytes do not fit");
    says(fixed.truncate(5), "do not fit");
}

/// Whoever needs a page when guards have all of them waits for a while, gets an error, and goes on when they are gone.
#[test]
fn guards_that_fill_the_memory_are_an_error_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(16);
    let file = create(&cache, &folder.path().join("data"));
    file.write_at(0, &vec![7; 40 * PAGE]).unwrap();
    file.sync().unwrap();
    let guards: Vec<_> = (0..16)
        .map(|page| file.pin(page * PAGE as u64).unwrap())
        .collect();
    let mut out = [0; PAGE];
    let refused = file.read_at(30 * PAGE as u64, &mut out);
    assert!(
        matches!(refused, Err(PageCacheError::Io { .. })),
        "{refused:?}"
    );
    assert_eq!(
        file.read_at(3 * PAGE as u64, &mut out).unwrap(),
        PAGE,
        "a page with a guard"
    );
    drop(guards);
    assert_eq!(file.read_at(30 * PAGE as u64, &mut out).unwrap(), PAGE);
    assert_eq!(out, [7; PAGE]);
}
