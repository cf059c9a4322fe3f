//! What becomes of writes in each mode, and what a process finds that is not told of others' changes.

use wharf::files::{Coherence, WriteMode};
use wharf_files::{Errno, Sync};

use super::writes::{Numbers, PROCESSES, World};
use super::*;

const MODES: [WriteMode; 3] = [
    WriteMode::WriteBack,
    WriteMode::WriteThrough,
    WriteMode::WriteAround,
];

fn of_mode(writes: WriteMode) -> Keeping {
    Keeping {
        writes,
        ..Keeping::of_bytes(1 << 20)
    }
}

fn incoherent(writes: WriteMode) -> Keeping {
    Keeping {
        coherence: Coherence::None,
        ..of_mode(writes)
    }
}

/// How often the drive is asked in the meantime.
fn asked(process: &Process, work: impl FnOnce()) -> u64 {
    let before = process.0.asked();
    work();
    process.0.asked() - before
}

/// The table of `docs/run.md`.
#[test]
fn the_drive_is_asked_as_often_as_the_document_says() {
    const DOCUMENT: &str = include_str!("../../../../docs/run.md");
    let [back, through, around] = MODES.map(of_mode);
    let rows = [
        ("`write-back`", back),
        ("`write-through`", through),
        ("`write-around`", around),
        ("`--cache 0`", Keeping::of_bytes(0)),
    ];
    for (name, keeping) in rows {
        let served = Served::new();
        let process = served.keeping(keeping);
        let file = process.open("/f");
        process.write(file, 0, &[1; PAGE]);
        let line = |n: u64| n % 40 * 100;
        let writes = asked(&process, || {
            (0..100).for_each(|n| process.write(file, line(n), &[n as u8; 100]));
        });
        let reads = asked(&process, || {
            for n in 60..100 {
                assert_eq!(process.read(file, line(n), 100), [n as u8; 100]);
            }
            (0..60).for_each(|n| assert_eq!(process.read(file, line(n), 100).len(), 100));
        });
        let both = asked(&process, || {
            for n in 0..100 {
                process.write(file, line(n), &[!n as u8; 100]);
                assert_eq!(process.read(file, line(n), 100), [!n as u8; 100]);
            }
        });
        let row = format!("| {name} | {writes} | {reads} | {both} |");
        assert!(DOCUMENT.contains(&row), "{row}");
        served_ends(served, [process]);
    }
}

/// The drive has it when the call returns, whether the pages were in the cache or not.
#[test]
fn another_process_finds_what_was_written_by_each_mode() {
    for writes in MODES {
        let served = Served::new();
        let (one, other) = (served.keeping(of_mode(writes)), served.process(1 << 20));
        let (mine, its) = (one.open("/f"), other.open("/f"));
        let mut expected = vec![0; 3 * PAGE];
        one.write(mine, 0, &expected);
        for round in 1..40_usize {
            let (at, bytes) = (round * 331 % 8_000, 1 + round * 97 % 5_000);
            expected[at..at + bytes].fill(round as u8);
            if round % 3 == 0 {
                assert!(one.read(mine, 0, 3 * PAGE).len() == 3 * PAGE);
            }
            one.write(mine, at as u64, &vec![round as u8; bytes]);
            assert!(other.read(its, 0, 9 * PAGE) == expected, "{writes:?}");
            assert!(one.read(mine, 0, 9 * PAGE) == expected, "{writes:?}");
            // And the other way.
            expected[7] = !round as u8;
            other.write(its, 7, &[!round as u8]);
            assert!(one.read(mine, 0, 9 * PAGE) == expected, "{writes:?}");
        }
        let kept = one.counts().writes;
        assert_eq!(kept > 0, writes == WriteMode::WriteBack, "{kept}");
        served_ends(served, [one, other]);
    }
}

/// Of pages in the cache, those that were written stay or go.
#[test]
fn what_was_written_is_read_from_the_cache_or_from_the_drive() {
    for (writes, asks) in MODES.into_iter().zip([0, 0, 1]) {
        let served = Served::new();
        let one = served.keeping(of_mode(writes));
        let file = one.open("/f");
        let mut expected = vec![3; 8 * PAGE];
        one.write(file, 0, &expected);
        assert!(one.read(file, 0, 8 * PAGE) == expected);
        let at = 5 * PAGE - 50;
        for round in 0..5 {
            one.write(file, at as u64, &[round; 100]);
        }
        expected[at..at + 100].fill(4);
        let beside = asked(&one, || {
            assert!(one.read(file, 0, 4 * PAGE) == vec![3; 4 * PAGE]);
        });
        let there = asked(&one, || {
            assert!(one.read(file, 0, 9 * PAGE) == expected);
        });
        assert_eq!((beside, there), (0, asks), "{writes:?}");
        served_ends(served, [one]);
    }
}

#[test]
fn a_process_that_is_killed_has_lost_nothing_in_any_mode() {
    for keeping in MODES.map(of_mode).into_iter().chain(MODES.map(incoherent)) {
        let served = Served::new();
        let (one, other) = (served.keeping(keeping), served.process(1 << 20));
        let mine = one.open("/f");
        let mut expected = Vec::new();
        for round in 0..30_u8 {
            let data = vec![round; 700 + usize::from(round)];
            let written = one.0.write(now_ns(), mine, Place::End, &data);
            assert_eq!(block_on(written).unwrap().offset, expected.len() as u64);
            expected.extend_from_slice(&data);
            if round % 4 == 0 {
                assert!(one.read(mine, 0, 100_000) == expected, "{keeping}");
            }
        }
        one.0.abandon();
        let its = other.open("/f");
        assert!(other.read(its, 0, 100_000) == expected, "{keeping}");
        served_ends(served, [other]);
    }
}

/// A full file system says so at the call, and the cache has none of what was not written.
#[test]
fn a_write_that_fails_is_told_and_leaves_nothing_in_the_cache() {
    for keeping in MODES.map(of_mode).into_iter().chain(MODES.map(incoherent)) {
        let served = Served::new();
        let one = served.keeping(keeping);
        let file = one.open("/f");
        one.write(file, 0, &[1; 100]);
        assert_eq!(one.read(file, 0, 200), [1; 100]);
        let rest = one.open("/rest");
        let fill = |bytes: usize, from: u64| {
            let mut at = from;
            let data = vec![9; bytes];
            loop {
                let place = Place::At(at);
                match block_on(one.0.write(now_ns(), rest, place, &data)) {
                    Ok(written) => at += written.bytes,
                    Err(error) => return (at, error.errno()),
                }
            }
        };
        let (at, _) = fill(1 << 20, 0);
        let (_, errno) = fill(PAGE, at);
        assert_eq!(errno, Errno::ENOSPC);
        let far = 40 * PAGE as u64;
        for _ in 0..3 {
            let written = one.0.write(now_ns(), file, Place::At(far), &[2; 3 * PAGE]);
            let errno = block_on(written).map_err(|error| error.errno());
            assert_eq!(errno.map(drop), Err(Errno::ENOSPC), "{keeping}");
            let bytes = one.bytes(file);
            assert!(bytes <= far, "{keeping}: {bytes}");
            assert_eq!(one.read(file, far, 10), b"", "{keeping}");
        }
        assert_eq!(one.read(file, 0, 100), [1; 100]);
        // With room again it is written.
        one.cut(rest, 0);
        block_on(one.0.sync_all()).unwrap();
        one.write(file, far, &[2; 3 * PAGE]);
        assert!(one.read(file, far, 4 * PAGE) == [2; 3 * PAGE], "{keeping}");
        served_ends(served, [one]);
    }
}

/// Random work of three processes, each in a mode of its own, is as one after the other.
#[test]
fn random_work_in_all_modes_is_what_one_would_have_done() {
    let [back, through, around] = MODES.map(of_mode);
    let both = |keeping| Keeping {
        is_omni: true,
        ..keeping
    };
    let mixes: [[Keeping; PROCESSES]; 4] = [
        [back, through, around],
        [around, back, through],
        [back, both(through), both(around)],
        [both(around), both(back), both(through)],
    ];
    for (keep, seed) in mixes.into_iter().zip(1..) {
        println!("seed {seed}");
        let mut world = World::keeping(Served::with_cache(256 << 10), keep, seed);
        for _ in 0..600 {
            world.step();
        }
        world.end();
    }
}

/// Without coherence a process reads what it has kept, until it hears that the file has another size.
#[test]
fn old_bytes_are_read_without_coherence_and_with_it_never() {
    for (keeping, is_old) in [
        (of_mode(WriteMode::WriteBack), false),
        (incoherent(WriteMode::WriteBack), true),
        (incoherent(WriteMode::WriteThrough), true),
        (incoherent(WriteMode::WriteAround), true),
    ] {
        let served = Served::new();
        let (one, other) = (served.keeping(keeping), served.process(1 << 20));
        let (mine, its) = (one.open("/f"), other.open("/f"));
        other.write(its, 0, &[1; 100]);
        assert_eq!(one.read(mine, 0, 200), [1; 100]);
        other.write(its, 0, &[2; 100]);
        let found = one.read(mine, 0, 200);
        assert_eq!(found, [if is_old { 1 } else { 2 }; 100], "{keeping}");
        block_on(one.0.sync(mine, Sync::All)).unwrap();
        assert_eq!(one.read(mine, 0, 200), found, "{keeping}");
        assert_eq!(one.counts().leases == 0, is_old, "{keeping}");
        // Its own are never old, and what it is told of the size it believes.
        one.write(mine, 50, &[3; 10]);
        assert_eq!(one.read(mine, 50, 10), [3; 10], "{keeping}");
        other.write(its, 100, &[4; 100]);
        let again = one.open("/f");
        assert_eq!(one.bytes(again), 200, "{keeping}");
        let all = [&[2; 50][..], &[3; 10], &[2; 40], &[4; 100]].concat();
        assert_eq!(one.read(again, 0, 300), all, "{keeping}");
        assert_eq!(other.read(its, 0, 300), all, "{keeping}");
        served_ends(served, [one, other]);
    }
}

/// Who appends without coherence hears where: what lies before that is what others have written, and the file is no longer than that.
#[test]
fn an_append_without_coherence_shows_what_others_made_of_the_file() {
    for keeping in MODES.map(incoherent) {
        for written_before in [1, 5] {
            let served = Served::new();
            let (one, other) = (served.keeping(keeping), served.process(0));
            let (mine, its) = (one.open("/f"), other.open("/f"));
            let append = |process: &Process, file, byte| {
                let data = [byte; 100];
                let written = process.0.write(now_ns(), file, Place::End, &data);
                block_on(written).unwrap().offset
            };
            let mut expected = Vec::new();
            for round in 0..6 {
                for n in 1..=written_before {
                    assert_eq!(append(&one, mine, n), expected.len() as u64, "{keeping}");
                    expected.extend([n; 100]);
                }
                assert_eq!(one.read(mine, 0, 9_000), expected, "{keeping}");
                if round == 3 {
                    other.cut(its, 30);
                    expected.truncate(30);
                } else {
                    assert_eq!(append(&other, its, 9), expected.len() as u64);
                    expected.extend([9; 100]);
                }
            }
            append(&one, mine, 7);
            expected.extend([7; 100]);
            let size = one.0.bytes_kept(mine).unwrap_or(expected.len() as u64);
            assert_eq!(size, expected.len() as u64, "{keeping}");
            assert_eq!(one.read(mine, 0, 9_000), expected, "{keeping}");
            // Written behind the end that it knows, which is not the end that there is.
            append(&other, its, 8);
            expected.extend([8; 100]);
            one.write(mine, expected.len() as u64 - 30, &[6; 60]);
            expected.truncate(expected.len() - 30);
            expected.extend([6; 60]);
            assert_eq!(one.read(mine, 0, 9_000), expected, "{keeping}");
            served_ends(served, [one, other]);
        }
    }
}

/// Two processes write lines of the same pages without coherence: each finds its own, and in the end all are there. What a page had when it was
/// kept is not written back over what another process has written since.
#[test]
fn without_coherence_no_write_is_lost_to_another_process() {
    const LINE: usize = 100;
    for (keeping, seed) in MODES.map(incoherent).into_iter().zip(1..) {
        let served = Served::new();
        let both = [served.keeping(keeping), served.keeping(keeping)];
        let files = [0, 1].map(|who| both[who].open("/f"));
        let mut numbers = Numbers(seed);
        let mut lines: Vec<(usize, u8)> = Vec::new();
        for round in 0..3_000_u32 {
            // Each for a while.
            let who = (round / 40 % 2) as usize;
            let (process, file) = (&both[who], files[who]);
            let byte = numbers.below(255) as u8 + 1;
            let nth = numbers.below(lines.len() as u64 + 1) as usize;
            match lines.get_mut(nth) {
                Some((owner, now)) if *owner == who => {
                    let at = (nth * LINE) as u64;
                    if numbers.below(2) == 0 {
                        process.write(file, at, &[byte; LINE]);
                        *now = byte;
                    }
                    assert_eq!(process.read(file, at, LINE), [*now; LINE], "{keeping}");
                }
                _ if numbers.below(4) == 0 => {
                    let at = (lines.len() * LINE) as u64;
                    let data = [byte; LINE];
                    let written = process.0.write(now_ns(), file, Place::End, &data);
                    assert_eq!(block_on(written).unwrap().offset, at, "{keeping}");
                    assert_eq!(process.read(file, at, LINE), data, "{keeping}");
                    lines.push((who, byte));
                }
                _ => {}
            }
        }
        let last = served.process(1 << 20);
        let file = last.open("/f");
        let all: Vec<u8> = lines.iter().flat_map(|(_, byte)| [*byte; LINE]).collect();
        assert!(
            lines.len() > 200 && last.read(file, 0, all.len() + 1) == all,
            "{keeping}"
        );
        let [one, other] = both;
        served_ends(served, [one, other, last]);
    }
}
