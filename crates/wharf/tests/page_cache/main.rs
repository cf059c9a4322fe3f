//! The page cache that programs link: beside a flat vector of bytes, under faults, through kills.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use wharf::page_cache::{
    Advice, File, OpenOptions, PageCache, PageCacheError, PageCacheOptions, Replacement,
};
use wharf::runtime::{Rng, Seed};
use wharf::storage::faulty::{Faulty, Loss, Power, Rates};
use wharf::storage::{Blocking, RamTarget};

const PAGE: usize = 4096;

/// A cache of so few pages that everything is evicted again and again.
fn small(pages: u64) -> PageCache {
    small_by(pages, Replacement::Clock)
}

fn small_by(pages: u64, replacement: Replacement) -> PageCache {
    PageCache::new(&PageCacheOptions {
        memory_bytes: pages * PAGE as u64,
        replacement,
        files_max: 4,
        threads_max: 4,
        ..PageCacheOptions::default()
    })
    .unwrap()
}

fn create(cache: &PageCache, path: &Path) -> File {
    let create = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    cache.open(path, create).unwrap()
}

fn fill(rng: &mut Rng, data: &mut [u8]) {
    data.fill_with(|| rng.next_u32() as u8);
}

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
        self.file().write_at(offset, &data).unwrap();
        let end = offset as usize + len;
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset as usize..end].copy_from_slice(&data);
    }

    fn read(&self, rng: &mut Rng, most: u64) {
        let (offset, len) = place(rng, most);
        let mut out = vec![0xee; len];
        let count = self.file().read_at(offset, &mut out).unwrap();
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
        self.file().truncate(bytes).unwrap();
        self.model.resize(bytes as usize, 0);
    }

    fn check_stored(&self) {
        let stored = std::fs::read(self.path).unwrap();
        assert_eq!(stored.len(), self.model.len(), "the length that is stored");
        assert!(stored == self.model, "the bytes that are stored");
    }

    fn check_stored_range(&self, offset: usize, len: usize) {
        let stored = std::fs::read(self.path).unwrap();
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
                self.file().sync().unwrap();
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
                self.file = Some(self.cache.open(self.path, OpenOptions::default()).unwrap());
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
        let replacement = [Replacement::Clock, Replacement::Lru][seed as usize % 2];
        let cache = small_by(20 + rng.below(60), replacement);
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

/// Threads that write and read ranges of their own, in two files, in a cache that they fill many times over.
/// Ranges end within pages, which neighbours share.
#[test]
fn threads_share_files_and_memory() {
    const RANGE: usize = 150_001;
    for seed in 0..4 {
        println!("seed {seed}");
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let cache = small(48);
        let files = [0, 1].map(|i: usize| create(&cache, &paths[i]));
        let one = |thread: u64| {
            let mut rng = Seed(seed).index(thread).rng();
            let file = &files[thread as usize % 2];
            let first = (thread / 2) * RANGE as u64;
            let mut model = vec![0; RANGE];
            fill(&mut rng, &mut model);
            file.write_at(first, &model).unwrap();
            for step in 0..300 {
                let at = rng.below(RANGE as u64) as usize;
                let len = (1 + rng.below(9_000) as usize).min(RANGE - at);
                if rng.chance(1, 2) {
                    fill(&mut rng, &mut model[at..at + len]);
                    let data = &model[at..at + len];
                    file.write_at(first + at as u64, data).unwrap();
                } else {
                    let mut out = vec![0; len];
                    file.read_exact_at(first + at as u64, &mut out).unwrap();
                    assert!(out == model[at..at + len], "thread {thread} step {step}");
                }
                if rng.chance(1, 40) {
                    file.sync().unwrap();
                }
            }
            model
        };
        let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || one(t))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        files.into_iter().for_each(|file| file.close().unwrap());
        for (i, path) in paths.iter().enumerate() {
            let expected = [&models[i][..], &models[i + 2][..]].concat();
            assert!(std::fs::read(path).unwrap() == expected, "file {i}");
        }
    }
}

/// Pages of one byte each, written and read by all threads: whoever finds two bytes in a page has seen
/// half of a write.
#[test]
fn a_page_is_never_seen_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(24);
    let file = create(&cache, &folder.path().join("file"));
    file.truncate(40 * PAGE as u64).unwrap();
    let one = |thread: u64| {
        let mut rng = Seed(thread).rng();
        let mut page = vec![0; PAGE];
        for _ in 0..2_000 {
            let offset = rng.below(40) * PAGE as u64;
            if rng.chance(1, 3) {
                page.fill(rng.next_u32() as u8);
                file.write_at(offset, &page).unwrap();
            } else {
                file.read_exact_at(offset, &mut page).unwrap();
                assert!(page.iter().all(|byte| *byte == page[0]), "half of a write");
            }
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        (0..3).for_each(|t| drop(scope.spawn(move || one(t))));
    });
}

#[test]
fn threads_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(64);
    let file = create(&cache, &folder.path().join("file"));
    for round in 0..40u64 {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (file, offset) = (&file, (3 * round + thread) * 5_000);
                scope.spawn(move || file.write_at(offset, &[round as u8 + 1; 5_000]).unwrap());
            }
        });
    }
    let mut out = vec![0; 15_000];
    for round in 0..40 {
        file.read_exact_at(round * 15_000, &mut out).unwrap();
        assert!(out.iter().all(|byte| *byte == round as u8 + 1), "{round}");
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.writes, statistics.reads), (120, 40));
    assert!(statistics.evictions > 0 && statistics.write_backs > 0);
}

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

/// Reads a page at each of these places of storage of 10,000 pages, in a cache with room for all; gives how many were
/// found in it, and how many pages are in it in the end: those that can be read when the storage is dead.
fn hits_and_cached(places: impl IntoIterator<Item = u64>) -> (u64, u64) {
    const PAGES: u64 = 10_000;
    let (target, _, _) = faulty_of(PAGES, 3);
    let cache = small(2 * PAGES);
    let file = cache.open_target(target.clone()).unwrap();
    let mut out = [0; PAGE];
    for page in places {
        file.read_exact_at(page * PAGE as u64, &mut out).unwrap();
    }
    let hits = cache.statistics().hits;
    target.die();
    let mut is_cached = |page: &u64| file.read_at(page * PAGE as u64, &mut out).is_ok();
    (hits, (0..PAGES).filter(&mut is_cached).count() as u64)
}

#[test]
fn a_reader_that_goes_in_steps_hits_and_a_random_one_causes_no_read_ahead() {
    let (hits, cached) = hits_and_cached((0..400).map(|n| 1_000 + 13 * n));
    assert_eq!(hits, 400 - 4, "all but those that made the steps known");
    assert!((400..=432).contains(&cached), "{cached} for 400");
    let (hits, _) = hits_and_cached((0..400).map(|n| 9_000 - n));
    assert_eq!(hits, 400 - 4, "backwards");
    let mut rng = Seed(1).child("places").rng();
    let mut seen = BTreeSet::new();
    let places = (0..150).map(|_| 1 + rng.below(9_999));
    let (hits, cached) = hits_and_cached(places.filter(|page| seen.insert(*page)));
    assert_eq!((hits, cached), (0, seen.len() as u64), "random");
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

#[test]
fn a_failed_write_back_reaches_the_next_sync_of_each_handle_once() {
    let (target, ram, _) = faulty(1);
    let cache = small(64);
    let file = cache.open_target(target.clone()).unwrap();
    let other = file.clone();
    file.write_at(100, &[7; 20_000]).unwrap();
    target.die();
    assert!(file.sync().is_err(), "the storage is dead");
    target.live();
    // The page stayed dirty: this sync writes it, and has nothing new to tell.
    file.sync().unwrap();
    assert!(stored(&ram)[100..20_100].iter().all(|byte| *byte == 7));
    let text = other.sync().unwrap_err().to_string();
    assert!(text.contains("write-backs failed"), "{text}");
    other.sync().unwrap();
}

#[test]
fn a_read_that_fails_is_told_and_tried_again() {
    let (target, _, _) = faulty(2);
    let cache = small(64);
    let file = cache.open_target(target.clone()).unwrap();
    target.die();
    let mut out = [1; 100];
    let text = file.read_exact_at(0, &mut out).unwrap_err().to_string();
    assert!(text.contains("ram: read at byte 0 failed"), "{text}");
    target.live();
    file.read_exact_at(0, &mut out).unwrap();
    assert_eq!(out, [0; 100]);
}

/// Random writes and reads while one I/O in thirty fails or ends late: what the cache said it took is read
/// back, and stored in the end.
#[test]
fn errors_of_storage_lose_nothing_that_was_taken() {
    for seed in 0..20 {
        println!("seed {seed}");
        let (target, ram, _) = faulty(seed);
        target.set_rates(Rates {
            read_errors_ppm: 30_000,
            write_errors_ppm: 30_000,
            delay_polls_max: 5,
        });
        let cache = small(16);
        let file = cache.open_target(target.clone()).unwrap();
        let mut rng = Seed(seed).child("writes").rng();
        let mut model = vec![0; 40 * PAGE];
        for step in 0..400 {
            // Within a page: it is then old or new as a whole.
            let page = rng.below(40) as usize;
            let at = page * PAGE + rng.below(4_000) as usize;
            let range = at..at + 1 + rng.below(90) as usize;
            let mut data = vec![0; range.len()];
            fill(&mut rng, &mut data);
            match rng.below(3) {
                0 if file.write_at(at as u64, &data).is_ok() => {
                    model[range].copy_from_slice(&data);
                }
                0 => {}
                1 => drop(file.sync()),
                _ if file.read_exact_at(at as u64, &mut data).is_ok() => {
                    assert!(data == model[range], "step {step}");
                }
                _ => {}
            }
        }
        target.set_rates(Rates::default());
        // The first one may tell of earlier failures.
        let _ = file.sync();
        file.sync().unwrap();
        assert!(stored(&ram) == model);
    }
}

/// The power goes at some write or flush, and blocks that were not flushed are lost: what a sync acknowledged
/// is there.
#[test]
fn what_a_sync_acknowledged_survives_a_power_cut() {
    for cut in 0..60 {
        let (target, ram, power) = faulty(cut);
        let cache = small(16);
        let file = cache.open_target(target.clone()).unwrap();
        let mut rng = Seed(cut).child("writes").rng();
        power.cut_at(cut);
        // For each page the number last acknowledged, and the last one written.
        let (mut safe, mut last) = ([0u8; 40], [0u8; 40]);
        while power.is_on() {
            let page = rng.below(40) as usize;
            let next = last[page].wrapping_add(1);
            if file.write_at((page * PAGE) as u64, &[next; PAGE]).is_err() {
                break;
            }
            last[page] = next;
            if rng.chance(1, 6) && file.sync().is_ok() {
                safe = last;
            }
        }
        power.come_back();
        target.settle(Loss::All).unwrap();
        for (page, bytes) in stored(&ram).chunks(PAGE).enumerate() {
            let range = safe[page]..=last[page];
            let fits = bytes.iter().all(|byte| range.contains(byte));
            assert!(fits, "cut {cut}: page {page} is not in {range:?}");
        }
    }
}

const KILLED: &str = "WHARF_TEST_KILLED";
const RECORDS: u64 = 64;

/// The process that is killed: writes numbered records all over a file, syncs, and says how far it got.
#[test]
fn the_killed_process() {
    let Ok(path) = std::env::var(KILLED) else {
        return;
    };
    let cache = small(24);
    let file = create(&cache, Path::new(&path));
    for round in 1u64.. {
        for record in 0..RECORDS {
            file.write_at(record * 3_000, &[round as u8; 3_000])
                .unwrap();
        }
        file.sync().unwrap();
        println!("synced {round}");
    }
}

#[test]
fn what_a_sync_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..5u64 {
        let path = folder.path().join(run.to_string());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_killed_process", "--nocapture"])
            .env(KILLED, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut synced = lines.filter_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("synced ")
                .and_then(|n| n.parse::<u64>().ok())
        });
        let enough = synced.find(|round| *round > 3 * run).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = synced.last().unwrap_or(enough);
        let file = std::fs::File::open(&path).unwrap();
        let mut record = vec![0; 3_000];
        for number in 0..RECORDS {
            file.read_exact_at(&mut record, number * 3_000).unwrap();
            // Of this round, or of the next, which was under way; a record may lie in two pages.
            let ahead = |byte: &u8| byte.wrapping_sub(acknowledged as u8) <= 1;
            assert!(record.iter().all(ahead), "run {run}: record {number}");
        }
    }
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
