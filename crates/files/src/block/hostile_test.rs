//! Media made by somebody who knows the checksum, and disks that are full.

use wharf_runtime::{Rng, Seed};

use super::program::{LARGE, Numbers, Op, SMALL, apply, dump, random};
use super::testing::{assert_sound, made, now};
use super::{Wfs, page};
use crate::check::check;
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, Pages, RamPages};
use crate::{Allocate, By, Caller, Content, Entry, Errno, FileSystem, New, Owner, Remove, Write};
use crate::{In, Out, Rename};

const CACHE_BYTES: usize = 1 << 20;

/// A file system with some of everything.
fn with_everything(seed: u64, pages: u64, large: u64, small: u64) -> RamPages {
    let medium = made(pages);
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    let mut numbers = Numbers(vec![wfs.root()]);
    let mut rng = Seed(seed).child("everything").rng();
    for round in 0..large + small {
        let sizes = if round < large { LARGE } else { SMALL };
        let op = random(&mut rng, sizes, numbers.0.len());
        let _ = apply(&wfs, &mut numbers, &op, round);
    }
    now(wfs.settle()).unwrap();
    drop(wfs);
    medium
}

/// The pages of metadata of a medium, without what is left in the ring of the journal.
fn metadata(medium: &RamPages) -> Vec<u64> {
    let journal = now(super::recover::geometry(medium)).unwrap().journal;
    let ring = journal.first + 2..journal.end();
    let is_metadata = |number: &u64| {
        let bytes = medium.peek(*number);
        let header = page::head(&bytes);
        header.number.get() == *number && page::Kind::of_raw(header.kind.get()).is_some()
    };
    let all = (0..medium.pages()).filter(|number| !ring.contains(number));
    all.filter(is_metadata).collect()
}

/// Changes some bytes of a page and makes its checksum match.
fn forge(medium: &RamPages, number: u64, rng: &mut Rng) {
    let mut bytes = medium.peek(number);
    let generation = page::head(&bytes).generation.get();
    // Most of what is said stands at the beginning of a page.
    let span = [300, 700, PAGE_BYTES as u64][rng.below(3) as usize];
    for _ in 0..1 + rng.below(4) {
        let at = 32 + rng.below(span - 32) as usize;
        let width = [1, 2, 4, 8][rng.below(4) as usize];
        let value = match rng.below(5) {
            0 => 0,
            1 => u64::MAX,
            2 => rng.below(2000),
            3 => rng.next_u64(),
            _ => 1 << rng.below(64),
        };
        let end = (at + width).min(PAGE_BYTES);
        bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }
    page::seal(&mut bytes, generation);
    medium.poke(number, &bytes);
}

#[test]
fn forged_media_are_errors_and_never_panics() {
    let mut found_wrong = 0;
    for seed in 0..4 {
        println!("seed {seed}");
        let medium = with_everything(seed, 1500, 400, 300);
        let pages = metadata(&medium);
        let mut rng = Seed(seed).child("forge").rng();
        for round in 0..300 {
            let forged = medium.clone();
            for _ in 0..1 + rng.below(2) {
                let number = pages[rng.below(pages.len() as u64) as usize];
                forge(&forged, number, &mut rng);
            }
            if let Ok(checked) = now(check(&forged)) {
                found_wrong += usize::from(!checked.findings.is_empty());
            }
            let Ok((wfs, _)) = now(Wfs::open(&forged, CACHE_BYTES)) else {
                continue;
            };
            println!("seed {seed}, round {round}");
            let _ = use_it(&wfs, &mut rng);
        }
    }
    println!("{found_wrong} of 1200 were found to be wrong");
    // Most of most pages is not in use.
    assert!(found_wrong > 200, "the check finds what is wrong");
}

/// Does this and that.
fn use_it<P: Pages>(wfs: &Wfs<P>, rng: &mut Rng) -> Result<(), crate::FileError> {
    let mut numbers = Numbers(vec![wfs.root()]);
    let mut at = 0;
    while at < numbers.0.len() && at < 200 {
        let mut entries = Vec::new();
        let _ = now(wfs.list(numbers.0[at], 0, 100, &mut entries));
        numbers.0.extend(entries.iter().map(|entry| entry.number));
        at += 1;
    }
    for number in &numbers.0 {
        let mut bytes = vec![0; 20_000];
        let _ = now(wfs.read(*number, 0, Out::from(&mut bytes), 0));
        let _ = now(wfs.read_link(*number));
        let _ = now(wfs.xattrs(*number));
    }
    for round in 0..60 {
        let op = random(rng, SMALL, numbers.0.len());
        if !matches!(op, Op::Write(..)) {
            let _ = apply(wfs, &mut numbers, &op, round);
        }
    }
    now(wfs.stat_fs())?;
    now(wfs.settle())
}

/// The gate of number 0 is that of those who rename directories, behind which the rename was.
#[test]
fn an_entry_that_leads_to_no_number_made_a_rename_wait_for_itself() {
    for number in [0, u64::MAX, 7 << 32] {
        let medium = made(300);
        let (caller, wfs) = (
            Caller::root(),
            now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0,
        );
        let (one, two) = (
            Entry::new(wfs.root(), b"one"),
            Entry::new(wfs.root(), b"two"),
        );
        for entry in [one, two] {
            let new = New {
                content: Content::Directory,
                ..NEW
            };
            now(wfs.create(by(&caller), entry, new)).unwrap();
        }
        now(wfs.settle()).unwrap();
        drop(wfs);
        let of_name = |bytes: &[u8]| bytes.windows(4).position(|at| at == b"\x02two");
        let mut nodes = metadata(&medium).into_iter();
        let page = nodes.find(|page| of_name(&medium.peek(*page)).is_some());
        let page = page.expect("the entry is somewhere");
        let mut bytes = medium.peek(page);
        let at = of_name(&bytes).expect("it was found there");
        bytes[at - 8..at].copy_from_slice(&u64::to_le_bytes(number));
        let generation = page::head(&bytes).generation.get();
        page::seal(&mut bytes, generation);
        medium.poke(page, &bytes);
        let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
        let renamed = now(wfs.rename(by(&caller), one, two, Rename::Replace));
        assert_eq!(renamed.unwrap_err().errno(), Errno::EIO);
        let removed = now(wfs.remove(by(&caller), two, Remove::Directory));
        assert_eq!(removed.unwrap_err().errno(), Errno::EIO);
        now(wfs.sync_all()).unwrap();
    }
}

#[test]
fn rot_never_shows_bytes_of_another_file() {
    let seed = 77;
    println!("seed {seed}");
    let medium = with_everything(seed, 600, 0, 500);
    let whole = dump(&now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0).unwrap();
    let mut rng = Seed(seed).rng();
    let pages = metadata(&medium);
    for number in &pages {
        let original = medium.peek(*number);
        let other = pages[rng.below(pages.len() as u64) as usize];
        let mut all = vec![medium.peek(other), [0; PAGE_BYTES], [0xff; PAGE_BYTES]];
        // Checksum, kind, reserved, number, file system, generation, head, and bytes anywhere.
        let anywhere = 56 + rng.below(PAGE_BYTES as u64 - 56) as usize;
        for at in [0, 4, 6, 8, 16, 24, 32, 40, 44, 48, anywhere] {
            let mut bit = original;
            bit[at] ^= 1 << rng.below(8);
            all.push(bit);
        }
        for rot in all {
            let hurt = medium.clone();
            hurt.poke(*number, &rot);
            let Ok((wfs, _)) = now(Wfs::open(&hurt, CACHE_BYTES)) else {
                continue;
            };
            match dump(&wfs) {
                Ok(found) => assert_eq!(found, whole, "page {number}"),
                Err(error) => assert_eq!(error.errno(), Errno::EIO, "page {number}: {error}"),
            }
        }
    }
}

fn by(caller: &Caller) -> By<'_> {
    By { caller, now_ns: 50 }
}

const NEW: New<'static> = New {
    content: Content::File,
    mode: 0o644,
    owner: Owner { uid: 0, gid: 0 },
    is_open: false,
};

/// Fills a file until there is no room, then cuts it so that `free` pages are left.
fn fill<P: Pages>(wfs: &Wfs<P>, free: u64) {
    let root = Caller::root();
    let entry = Entry::new(wfs.root(), b"ballast");
    let number = now(wfs.create(by(&root), entry, NEW)).unwrap().number;
    let data = vec![1; 64 * PAGE_BYTES];
    loop {
        match now(wfs.write(by(&root), number, Write::at_end(), In::from(&data))) {
            Ok(written) if written.bytes == data.len() as u64 => {}
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.errno(), Errno::ENOSPC);
                break;
            }
        }
    }
    now(wfs.sync_all()).unwrap();
    let mut left = now(wfs.stat_fs()).unwrap().pages_free;
    while left < free {
        let size = now(wfs.attributes(number)).unwrap().bytes;
        now(wfs.truncate(by(&root), number, size - PAGE_BYTES as u64)).unwrap();
        left = now(wfs.stat_fs()).unwrap().pages_free;
    }
    now(wfs.sync_all()).unwrap();
}

#[test]
fn a_full_disk_fails_each_operation_whole_and_gives_back_what_is_removed() {
    let mut failed = 0;
    for free in 0..12 {
        let seed = free;
        println!("seed {seed}");
        let medium = with_everything(seed, 700, 0, 250);
        let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
        fill(&wfs, free);
        let mut numbers = Numbers(vec![wfs.root()]);
        let mut entries = Vec::new();
        now(wfs.list(wfs.root(), 0, 100, &mut entries)).unwrap();
        let known = entries.iter().filter(|entry| *entry.name != *b"ballast");
        numbers.0.extend(known.map(|entry| entry.number));
        let mut rng = Seed(seed).child("full").rng();
        for round in 0..300 {
            let op = random(&mut rng, SMALL, numbers.0.len());
            let before = dump(&wfs).unwrap();
            let done = match op {
                // A write may be short: `apply` expects all of it.
                Op::Write(..) => continue,
                _ => apply(&wfs, &mut numbers, &op, 1000 + round),
            };
            if done == Err(Errno::ENOSPC) {
                failed += 1;
                assert_eq!(
                    dump(&wfs).unwrap(),
                    before,
                    "seed {seed}, round {round}: {op:?}"
                );
            }
            let never_fails = matches!(op, Op::Remove(..) | Op::Truncate(..) | Op::Close(_));
            assert!(!(never_fails && done == Err(Errno::ENOSPC)), "{op:?}");
        }
        drop(wfs);
        assert_sound(&medium, &format!("seed {seed}"));
        let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
        super::testing::remove_all(&wfs);
        now(wfs.settle()).unwrap();
        let stat = now(wfs.stat_fs()).unwrap();
        assert_eq!(stat.pages, stat.pages_free, "seed {seed}");
    }
    println!("{failed} operations found no room");
    assert!(failed > 20);
}

#[test]
fn writes_on_a_full_disk_are_short_and_then_fail() {
    for free in 0..20 {
        let medium = made(600);
        let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
        let root = Caller::root();
        let entry = Entry::new(wfs.root(), b"small");
        let number = now(wfs.create(by(&root), entry, NEW)).unwrap().number;
        fill(&wfs, free);
        let data = vec![7; 100_000];
        match now(wfs.write(by(&root), number, Write::at(10), In::from(&data))) {
            Ok(written) => assert!(written.bytes > 0 && free > 0, "{free}"),
            Err(error) => assert_eq!((error.errno(), free), (Errno::ENOSPC, 0)),
        }
        let stat = now(wfs.stat_fs()).unwrap();
        assert!(stat.pages_free == 0 || free > 24, "all {free} are used");
        let overwritten = now(wfs.read(number, 0, Out::from(&mut [0; 10]), 0));
        assert!(overwritten.is_ok());
        now(wfs.remove(by(&root), Entry::new(wfs.root(), b"ballast"), Remove::Name)).unwrap();
        // What was given back is there at once, as what waits for a commit is committed.
        let all = now(wfs.write(by(&root), number, Write::at(10), In::from(&data))).unwrap();
        assert_eq!(all.bytes, data.len() as u64);
        drop(wfs);
        assert_sound(&medium, "after");
    }
}

#[test]
fn a_very_fragmented_file_is_cut_and_removed_in_steps() {
    let medium = made(4000);
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    let root = Caller::root();
    let before = now(wfs.stat_fs()).unwrap();
    let entry = Entry::new(wfs.root(), b"holes");
    let number = now(wfs.create(by(&root), entry, NEW)).unwrap().number;
    let page = PAGE_BYTES as u64;
    for nth in 0..1500 {
        let at = Write::at(2 * nth * page);
        now(wfs.write(by(&root), number, at, In::from(&[nth as u8; PAGE_BYTES]))).unwrap();
    }
    now(wfs.allocate(by(&root), number, 100 * page, 1000 * page, Allocate::Punch)).unwrap();
    let stored = now(wfs.attributes(number)).unwrap().stored_bytes;
    assert_eq!(stored, 1000 * page);
    now(wfs.truncate(by(&root), number, 50 * page)).unwrap();
    assert_eq!(now(wfs.attributes(number)).unwrap().stored_bytes, 25 * page);
    for nth in 0..1500 {
        let at = Write::at(2 * nth * page);
        now(wfs.write(by(&root), number, at, In::from(&[nth as u8; PAGE_BYTES]))).unwrap();
    }
    now(wfs.remove(by(&root), entry, Remove::Name)).unwrap();
    now(wfs.settle()).unwrap();
    let after = now(wfs.stat_fs()).unwrap();
    assert_eq!(after.pages_free, before.pages_free);
    drop(wfs);
    assert_sound(&medium, "after");
}

#[test]
fn what_cannot_be_read_is_an_error_of_its_page() {
    let medium = with_everything(3, 600, 0, 200);
    let geometry = now(super::recover::geometry(&medium)).unwrap();
    let wfs = now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0;
    let table = geometry.group(0).first + 1;
    medium.clear(table);
    let error = now(wfs.attributes(wfs.root())).unwrap_err();
    let what = "its checksum does not match";
    assert_eq!(error, Fault::Damaged { page: table, what }.into());
}

#[test]
fn a_damaged_superblock_or_journal_header_is_mended_at_opening() {
    let medium = with_everything(9, 600, 0, 300);
    let geometry = now(super::recover::geometry(&medium)).unwrap();
    let whole = dump(&now(Wfs::open(&medium, CACHE_BYTES)).unwrap().0).unwrap();
    let journal = geometry.journal.first;
    let mut rng = Seed(9).rng();
    for number in [0, geometry.superblock_copy(), journal, journal + 1] {
        // Each class of bytes: checksum, kind, number, file system, generation, and what follows.
        for from in [0, 4, 6, 8, 16, 24, 32, 40, 56, 100, 2000] {
            let hurt = medium.clone();
            let mut bytes = hurt.peek(number);
            bytes[from + rng.below(2) as usize] ^= 1 << rng.below(8);
            hurt.poke(number, &bytes);
            let before = now(check(&hurt)).unwrap();
            assert!(!before.findings.is_empty(), "page {number}, byte {from}");
            let (wfs, recovered) = now(Wfs::open(&hurt, CACHE_BYTES)).unwrap();
            assert_eq!(recovered.replayed.mended, 1, "page {number}, byte {from}");
            assert_eq!(dump(&wfs).unwrap(), whole, "page {number}, byte {from}");
            drop(wfs);
            assert_sound(&hurt, "it is mended");
            let (_, again) = now(Wfs::open(&hurt, CACHE_BYTES)).unwrap();
            assert_eq!(again.replayed.mended, 0);
        }
    }
}
