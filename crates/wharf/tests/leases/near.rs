//! Processes that use the drive's own cache too: what is in either is what all find.

use wharf_files::Sync;

use super::writes::World;
use super::*;

const P: u64 = PAGE as u64;

/// Bytes of a file, each page unlike the others.
fn content(pages: u64) -> Vec<u8> {
    let bytes = 0..pages * P;
    bytes.map(|at| (at % 251 + at / P) as u8).collect()
}

/// A file that nobody keeps anything of.
fn made(served: &Served, bytes: &[u8]) {
    let maker = served.process(0);
    let file = maker.open("/f");
    maker.write(file, 0, bytes);
    maker.0.end().unwrap();
}

#[test]
fn a_drive_without_a_cache_says_so() {
    let served = Served::new();
    let refused = FileDrive::attach_omni(&served.socket(), 1 << 20);
    let line = refused.err().unwrap().to_string();
    assert!(line.contains("--drive-cache"), "{line}");
    served.end();
}

#[test]
fn parts_of_pages_stay_in_the_drive_and_whole_pages_come() {
    let served = Served::with_cache(1 << 20);
    let mut expected = content(40);
    made(&served, &expected);
    let (one, other) = (served.both(1 << 20), served.process(0));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    let mut part = |page: u64, round: u8| {
        let at = (page * P) as usize + 100;
        assert!(one.read(mine, at as u64, 50) == expected[at..at + 50]);
        let new = [round; 50];
        one.write(mine, at as u64 + 25, &new);
        expected[at + 25..at + 75].copy_from_slice(&new);
        // Others find it at once, wherever it is.
        assert!(other.read(its, at as u64, 100) == expected[at..at + 100]);
        assert!(one.read(mine, at as u64, 100) == expected[at..at + 100]);
    };
    for round in 0..3 {
        for page in [31, 7, 19, 2] {
            part(page, round);
        }
    }
    let counts = one.counts();
    assert_eq!((counts.near_reads, counts.near_writes), (24, 12));
    // But for the first read of each page, all find it there.
    assert_eq!((counts.near_hits, counts.hits, counts.misses), (32, 0, 0));
    // Whole pages come here, with those that are in the drive's cache.
    let whole = one.read(mine, 0, 40 * PAGE);
    assert!(whole == expected);
    let counts = one.counts();
    assert!(counts.misses >= 1 && counts.near_reads == 24, "{counts:?}");
    assert!(one.read(mine, 19 * P + 100, 50) == expected[19 * PAGE + 100..19 * PAGE + 150]);
    assert_eq!(one.counts().near_reads, 24);
    served_ends(served, [one, other]);
}

#[test]
fn a_file_that_grows_is_kept_here_and_the_drive_gives_its_pages_up() {
    let served = Served::with_cache(1 << 20);
    let mut expected = content(8);
    made(&served, &expected);
    let (one, other) = (served.both(1 << 20), served.both(1 << 20));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    one.write(mine, 5_000, &[1; 10]);
    expected[5_000..5_010].fill(1);
    for _ in 0..20 {
        one.write(mine, expected.len() as u64, &[7; 100]);
        expected.extend_from_slice(&[7; 100]);
    }
    let counts = one.counts();
    assert!(counts.writes > 10 && counts.near_writes == 1, "{counts:?}");
    assert!(other.read(its, 4_990, 40) == expected[4_990..5_030]);
    let end = expected.len() as u64 - 60;
    assert!(other.read(its, end, 100) == expected[end as usize..]);
    assert!(one.read(mine, 0, 20 * PAGE) == expected);
    served_ends(served, [one, other]);
}

/// A file's time is that of its last write, wherever that is, and nobody sees when it goes to the media.
#[test]
#[allow(clippy::disallowed_methods)] // the clock of a drive in real time is to go on
fn times_are_those_of_the_writes_before_and_after_they_reach_the_file() {
    let served = Served::with_cache(1 << 20);
    made(&served, &content(8));
    let (one, other) = (served.both(1 << 20), served.process(0));
    let mine = one.open("/f");
    let stat = |process: &Process| {
        let path = Target::Path(At::from(&b"/f"[..]), true);
        block_on(process.0.stat(by(), path)).unwrap()
    };
    let before = stat(&other);
    std::thread::sleep(std::time::Duration::from_millis(20));
    one.write(mine, 100, b"near");
    assert_eq!(one.counts().near_writes, 1);
    let written = stat(&other);
    assert!(written.modified_ns > before.modified_ns && written.changed_ns > before.changed_ns);
    assert_eq!(stat(&one).modified_ns, written.modified_ns);
    std::thread::sleep(std::time::Duration::from_millis(20));
    block_on(one.0.sync(mine, Sync::All)).unwrap();
    assert_eq!(stat(&other).modified_ns, written.modified_ns);
    one.write(mine, 200, b"near");
    let later = stat(&other);
    assert!(later.modified_ns > written.modified_ns);
    block_on(one.0.close(mine)).unwrap();
    assert_eq!(stat(&other).modified_ns, later.modified_ns);
    served_ends(served, [one, other]);
}

/// A set-user-id program that is written to is none any more, also where the write goes near.
#[test]
fn a_write_takes_set_id_bits_away_at_once() {
    let served = Served::with_cache(1 << 20);
    made(&served, &content(2));
    let one = served.both(1 << 20);
    let mine = one.open("/f");
    one.write(mine, 10, b"x");
    block_on(one.0.chmod(by(), Target::Handle(mine), 0o6755)).unwrap();
    let stranger = Caller {
        uid: 77,
        gid: 77,
        groups: Vec::new(),
    };
    let as_stranger = By {
        caller: &stranger,
        now_ns: now_ns(),
    };
    block_on(one.0.chmod(by(), Target::Handle(mine), 0o6777)).unwrap();
    let flags = OpenFlags {
        write: true,
        ..OpenFlags::READ
    };
    let opened = one.0.open(as_stranger, At::from(&b"/f"[..]), flags, 0);
    let its = block_on(opened).unwrap().handle;
    one.write(its, 20, b"y");
    let found = block_on(one.0.stat(by(), Target::Handle(mine))).unwrap();
    assert_eq!(found.mode & 0o6000, 0, "{:o}", found.mode);
    served_ends(served, [one]);
}

/// More than both caches have room for: what leaves the drive's is in the file, and what stays is found.
#[test]
fn what_was_not_used_for_long_leaves_the_drives_cache() {
    const PAGES: u64 = 4_000;
    let served = Served::with_cache(1 << 20);
    let mut expected = content(PAGES);
    made(&served, &expected);
    let (one, other) = (served.both(1), served.process(0));
    let mine = one.open("/f");
    let mut page = 1;
    let mut next = move || {
        page = page * 1_103 % 3_989;
        page
    };
    for round in 0..6_000_u32 {
        let at = (next() * P) as usize + 8 * (round as usize % 400);
        assert!(one.read(mine, at as u64, 9) == expected[at..at + 9]);
        if round % 2 == 0 {
            let new = round.to_le_bytes();
            one.write(mine, at as u64 + 2, &new);
            expected[at + 2..at + 6].copy_from_slice(&new);
        }
    }
    let counts = one.counts();
    println!("{counts:?}");
    assert!(
        counts.near_reads > 500 && counts.near_writes > 500,
        "{counts:?}"
    );
    let its = other.open("/f");
    assert!(other.read(its, 0, expected.len() + 1) == expected);
    served_ends(served, [one, other]);
}

#[test]
fn what_a_process_that_is_gone_had_written_near_is_there() {
    let served = Served::with_cache(1 << 20);
    let mut expected = content(30);
    made(&served, &expected);
    let other = served.both(1 << 20);
    let its = other.open("/f");
    for round in 0..20_u8 {
        let one = served.both(1 << 20);
        let mine = one.open("/f");
        for page in [3, 11, 27] {
            let at = page * PAGE + usize::from(round);
            one.write(mine, at as u64, &[round, 200]);
            expected[at..at + 2].copy_from_slice(&[round, 200]);
        }
        assert_eq!(one.counts().near_writes, 3);
        one.0.abandon();
        if round % 3 == 0 {
            let at = 11 * P;
            assert!(other.read(its, at, 99) == expected[at as usize..at as usize + 99]);
        }
    }
    assert!(other.read(its, 0, expected.len() + 1) == expected);
    served_ends(served, [other]);
}

#[test]
fn a_process_has_its_share_of_the_drives_cache_and_no_more() {
    let served = Served::serving(&Serving {
        drive_cache_bytes: 64 * P,
        drive_cache_process_bytes: 16 * P,
        ..Serving::default()
    });
    let expected = content(100);
    made(&served, &expected);
    let (one, other) = (served.both(1 << 20), served.both(1 << 20));
    for (process, first) in [(&one, 0), (&other, 50)] {
        let file = process.open("/f");
        for page in first..first + 40 {
            let at = page * PAGE + 5;
            assert!(process.read(file, at as u64, 9) == expected[at..at + 9]);
        }
        // From the first one on that finds no room, pages come here, where there is some.
        let counts = process.counts();
        assert_eq!(counts.near_reads, 17, "{counts:?}");
    }
    served_ends(served, [one, other]);
}

/// Random work, as with one cache: two processes have both caches, and one has its own alone.
#[test]
fn random_work_by_way_of_both_caches_is_what_one_would_have_done() {
    for (seed, cache_bytes) in [(1, 12 * P), (2, 64 * P), (3, 1 << 20), (4, 30 * P)] {
        println!("seed {seed}");
        let served = Served::serving(&Serving {
            processes: 8,
            drive_cache_bytes: cache_bytes,
            drive_cache_process_bytes: cache_bytes / 2,
            ..Serving::default()
        });
        let mut world = World::of(served, seed);
        for _ in 0..1_500 {
            world.step();
        }
        assert!(world.near > 20, "{}", world.near);
        world.end();
    }
}
