//! The longest files, the largest media, and media that fail at any change.

use std::collections::BTreeSet;

use wharf_runtime::Seed;

use super::model_test::model;
use super::program::{Numbers, SMALL, apply, dump, random};
use super::testing::{MAKE, assert_sound, made, now};
use super::{Wfs, make};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, Pages, RamPages, Run};
use crate::testing::recorded::RecordedPages;
use crate::{
    Allocate, By, Caller, Content, Entry, Errno, FILE_BYTES_MAX, FileSystem, New, Owner, Remove,
    Seek, Write,
};
use crate::{In, Out};

const CACHE_BYTES: usize = 1 << 20;

const NEW: New<'static> = New {
    content: Content::File,
    mode: 0o644,
    owner: Owner { uid: 0, gid: 0 },
    is_open: false,
};

#[test]
fn a_file_can_be_as_long_as_a_file_can_be() {
    let medium = made(1000);
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 3,
    };
    let number = now(wfs.create(by, Entry::new(wfs.root(), b"long"), NEW)).unwrap();
    let number = number.number;
    let last = FILE_BYTES_MAX - 10;
    let written = now(wfs.write(by, number, Write::at(last), In::from(&[7; 100]))).unwrap();
    assert_eq!((written.offset, written.bytes), (last, 10));
    let beyond = now(wfs.write(by, number, Write::at_end(), In::from(&[7; 100])));
    assert_eq!(beyond.map_err(|e| e.errno()), Err(Errno::EFBIG));
    let mut out = [1; 30];
    assert_eq!(
        now(wfs.read(number, last - 5, Out::from(&mut out), 0)),
        Ok(15)
    );
    assert_eq!(out[..15], [[0; 5].as_slice(), &[7; 10]].concat());
    let page = last / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    assert_eq!(now(wfs.seek(number, 0, Seek::Data)), Ok(page));
    assert_eq!(now(wfs.seek(number, page, Seek::Hole)), Ok(FILE_BYTES_MAX));
    let all = (0, FILE_BYTES_MAX);
    for what in [Allocate::Extend, Allocate::Zero, Allocate::KeepSize] {
        let done = now(wfs.allocate(by, number, all.0, all.1, what));
        assert_eq!(done.map_err(|e| e.errno()), Err(Errno::ENOSPC));
    }
    let more = now(wfs.allocate(by, number, 1, FILE_BYTES_MAX, Allocate::Punch));
    assert_eq!(more.map_err(|e| e.errno()), Err(Errno::EFBIG));
    now(wfs.allocate(by, number, all.0, all.1, Allocate::Punch)).unwrap();
    // The range ends within the last page, and not behind the end.
    let stored = now(wfs.attributes(number)).unwrap().stored_bytes;
    assert_eq!(stored, PAGE_BYTES as u64);
    now(wfs.read(number, last - 5, Out::from(&mut out), 0)).unwrap();
    assert_eq!(out[..15], [0; 15]);
    now(wfs.truncate(by, number, 0)).unwrap();
    now(wfs.truncate(by, number, FILE_BYTES_MAX)).unwrap();
    let longer = now(wfs.truncate(by, number, FILE_BYTES_MAX + 1));
    assert_eq!(longer.map_err(|e| e.errno()), Err(Errno::EFBIG));
    drop(wfs);
    assert_sound(&medium, "after");
}

/// A write over more extents than one transaction takes took the rest of them for a gap: their pages were lost, and with them what it
/// did not write of the last page.
#[test]
fn a_write_over_many_extents_keeps_what_it_does_not_write() {
    const BYTES: usize = 1200 * PAGE_BYTES;
    for seed in 0..4 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let medium = made(6000);
        // With little memory a transaction takes few extents.
        let cache_bytes = [CACHE_BYTES, 8 * CACHE_BYTES][seed as usize % 2];
        let wfs = now(Wfs::open(&medium, cache_bytes)).unwrap().0;
        let caller = Caller::root();
        let by = By {
            caller: &caller,
            now_ns: 3,
        };
        let number = now(wfs.create(by, Entry::new(wfs.root(), b"many"), NEW)).unwrap();
        let number = number.number;
        let (mut expected, mut size) = (vec![0; BYTES], 0);
        for round in 0..4_u8 {
            for n in 0..=100 {
                let (at, bytes) = match n {
                    100 => {
                        let at = rng.below(BYTES as u64 / 2) as usize;
                        (at, 1 + rng.below((BYTES - at) as u64) as usize)
                    }
                    _ => {
                        let at = rng.below((BYTES - 1024) as u64) as usize;
                        (at, 1 + rng.below(1024) as usize)
                    }
                };
                let data = vec![1 + round * 50 + n; bytes];
                let done = now(wfs.write(by, number, Write::at(at as u64), In::from(&data)));
                assert_eq!(done.unwrap().bytes, bytes as u64);
                expected[at..at + bytes].copy_from_slice(&data);
                size = size.max(at + bytes);
            }
            let mut found = vec![1; BYTES];
            let count = now(wfs.read(number, 0, Out::from(&mut found), 0)).unwrap();
            assert_eq!(count as usize, size);
            let wrong = (0..size).find(|at| found[*at] != expected[*at]);
            assert_eq!(wrong, None, "round {round}");
        }
        now(wfs.sync_all()).unwrap();
        drop(wfs);
        assert_sound(&medium, "after");
    }
}

#[test]
fn many_groups_are_filled_and_given_back() {
    // 1.25 GiB, of which stamps of a few bytes are written.
    let medium = RamPages::new(20 * 16_384);
    now(make(&medium, MAKE)).unwrap();
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    let before = now(wfs.stat_fs()).unwrap();
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 3,
    };
    let entry = Entry::new(wfs.root(), b"large");
    let number = now(wfs.create(by, entry, NEW)).unwrap().number;
    let bytes = before.pages_free * PAGE_BYTES as u64;
    now(wfs.allocate(by, number, 0, bytes - (1 << 20), Allocate::Extend)).unwrap();
    for at in (0..bytes - (1 << 20)).step_by(100 << 20) {
        now(wfs.write(by, number, Write::at(at + 77), In::from(&[9; 5000]))).unwrap();
    }
    let mut out = [0; 5001];
    now(wfs.read(number, (500 << 20) + 76, Out::from(&mut out), 0)).unwrap();
    assert!(out[0] == 0 && out[1..].iter().all(|byte| *byte == 9));
    now(wfs.truncate(by, number, 0)).unwrap();
    now(wfs.remove(by, entry, Remove::Name)).unwrap();
    now(wfs.settle()).unwrap();
    assert_eq!(now(wfs.stat_fs()).unwrap().pages_free, before.pages_free);
    drop(wfs);
    assert_sound(&medium, "after");
}

#[test]
fn media_that_fail_at_any_change_leave_a_state_that_was_there() {
    let seed = 8;
    println!("seed {seed}");
    let base = made(400);
    for fails_from in (0..300).step_by(3) {
        let medium = RecordedPages::failing(&base, fails_from);
        let Ok((wfs, _)) = now(Wfs::open(&medium, CACHE_BYTES)) else {
            continue;
        };
        let model = model();
        let mut of_model = Numbers(vec![model.root()]);
        let mut of_wfs = Numbers(vec![wfs.root()]);
        let mut rng = Seed(seed).rng();
        let mut errors = BTreeSet::new();
        for round in 0..200 {
            let op = random(&mut rng, SMALL, of_model.0.len());
            let found = apply(&wfs, &mut of_wfs, &op, 100 + round);
            if let Err(error @ (Errno::EIO | Errno::EROFS)) = found {
                errors.insert(error);
                break;
            }
            assert_eq!(found, apply(&model, &mut of_model, &op, 100 + round));
        }
        dump(&wfs).expect("what is there can be read");
        if let Err(error) = now(wfs.sync_all()) {
            assert_eq!(error.errno(), Errno::EIO);
        }
        drop(wfs);
        assert_sound(&medium.medium(), &format!("fails from {fails_from}"));
    }
}

/// Pages of which some cannot be read.
#[derive(Debug)]
struct Unreadable<'a>(&'a RamPages, u64);

impl Pages for Unreadable<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        match runs
            .iter()
            .flat_map(|run| run.iter())
            .find(|page| *page == self.1)
        {
            Some(page) => Err(Fault::Read { page }),
            None => self.0.read(runs, buffer).await,
        }
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.0.write(runs, bytes).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.0.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.0.discard(runs).await
    }
}

#[test]
fn a_page_that_cannot_be_read_fails_what_needs_it_and_changes_nothing() {
    let seed = 4;
    println!("seed {seed}");
    let medium = made(400);
    let (mut rng, mut numbers) = (Seed(seed).rng(), Numbers(vec![1]));
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    for round in 0..200 {
        let op = random(&mut rng, SMALL, numbers.0.len());
        let _ = apply(&wfs, &mut numbers, &op, round);
    }
    now(wfs.settle()).unwrap();
    drop(wfs);
    let numbers = Numbers(numbers.0.clone());
    for page in 0..medium.pages() {
        let copy = medium.clone();
        if medium.peek(page) == [0; PAGE_BYTES] {
            continue;
        }
        let Ok((wfs, _)) = now(Wfs::open(Unreadable(&copy, page), CACHE_BYTES)) else {
            continue;
        };
        let (mut rng, mut numbers) = (Seed(page).rng(), numbers.clone());
        for round in 0..20 {
            let op = random(&mut rng, SMALL, numbers.0.len());
            let before = dump(&wfs);
            if apply(&wfs, &mut numbers, &op, 500 + round) == Err(Errno::EIO) {
                assert_eq!(dump(&wfs), before, "page {page}: {op:?}");
            }
        }
        let _ = now(wfs.sync_all());
        drop(wfs);
        assert_sound(&copy, &format!("page {page}"));
    }
}
