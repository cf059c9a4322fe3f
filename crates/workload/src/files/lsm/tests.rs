use std::collections::BTreeMap;

use super::*;

const REGIONS: Regions = Regions {
    files: 2 * FILES_MIN,
    threads: 2,
    stride: 64 << 10,
    bytes: 64 << 10,
    request_bytes: 512,
};

fn new(personality: Personality) -> Lsm {
    Lsm::new(personality, REGIONS, SeededRng::child(7, "test"))
}

/// Has a thread go on until so much is planned, and tells of each run.
fn run(lsm: &mut Lsm, count: usize, mut tell: impl FnMut(&Lsm, &Run)) {
    let mut runs = Runs::new();
    let mut done = 0;
    while done < count {
        lsm.plan(1, &mut runs);
        done += runs.len();
        runs.iter().for_each(|run| tell(lsm, run));
        runs.clear();
    }
}

/// Each file has one use, levels are in order, and every key is in one of them.
fn check(lsm: &Lsm) {
    for store in &lsm.stores {
        for level in &store.levels[1..] {
            let is_apart = |pair: &[Table]| pair[0].range().1 < pair[1].range().0;
            assert!(level.windows(2).all(is_apart));
        }
        let tables = store.levels.iter().flatten();
        for table in tables.clone() {
            assert!(table.keys.is_sorted() && table.keys.len() as u64 <= lsm.table_records);
        }
        let mut files: Vec<u32> = tables.map(|table| table.file).collect();
        files.extend(&store.free);
        files.push(store.log);
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len() as u32, FILES_MIN);
        let found = |number: u32| {
            let key = key(number);
            let mut tables = Store::tables_of(&store.levels, key);
            let is_in = |table: &Table| table.keys.binary_search(&key).is_ok();
            store.memory.contains(&key) || tables.any(is_in)
        };
        assert!((0..store.keys).all(found));
    }
}

#[test]
fn every_key_is_found_and_files_are_enough_for_ever() {
    for (_, personality) in Personality::ALL {
        if personality.is_lsm() {
            let mut lsm = new(personality);
            check(&lsm);
            for _ in 0..6 {
                run(&mut lsm, 20_000, |_, _| {});
                check(&lsm);
            }
            let levels: Vec<usize> = lsm.stores[1].levels.iter().map(Vec::len).collect();
            assert!(levels[0] < LEVEL_0_TABLES && levels[1] <= 5, "{levels:?}");
            assert_eq!(levels.len(), 3);
        }
    }
}

/// What is read was written, to a file that is there; what is removed is all that it had.
#[test]
fn runs_are_of_what_is_there() {
    for (_, personality) in Personality::ALL {
        if !personality.is_lsm() {
            continue;
        }
        let mut lsm = new(personality);
        let initial = (0..).zip(lsm.initial());
        let mut there: BTreeMap<u32, u64> = initial
            .filter_map(|(file, bytes)| Some((file, bytes?)))
            .collect();
        run(&mut lsm, 50_000, |_, run| {
            let old = there.get(&run.file).copied();
            match run.kind {
                FileOpKind::Open if run.how == OpenHow::EXISTING => assert!(old.is_some()),
                FileOpKind::Open => {
                    assert_eq!(old, None, "a new file");
                    there.insert(run.file, 0);
                }
                FileOpKind::Write => {
                    assert_eq!(old, Some(run.at), "it is written in order");
                    there.insert(run.file, run.end);
                }
                FileOpKind::Read => assert!(run.at < run.end && Some(run.end) <= old),
                FileOpKind::Fsync => assert_eq!((run.at, Some(run.end)), (0, old)),
                FileOpKind::Remove => {
                    assert_eq!(there.remove(&run.file), Some(run.end));
                }
                FileOpKind::Close => assert!(old.is_some()),
                other => panic!("{other}"),
            }
        });
    }
}

/// What is read or written is open, nothing is opened or closed twice, and a large store has as many tables open as it may.
#[test]
fn no_more_files_are_open_than_leveldb_has() {
    let most = open_tables::TABLES_MAX;
    for personality in [
        Personality::LsmC,
        Personality::LsmE,
        Personality::LsmFillRandom,
    ] {
        let regions = Regions {
            files: 8 * most as u32,
            threads: 2,
            ..REGIONS
        };
        let mut lsm = Lsm::new(personality, regions, SeededRng::child(7, "test"));
        let (mut open, mut most_open) = (BTreeSet::new(), 0);
        run(&mut lsm, 60_000, |_, run| {
            match run.kind {
                FileOpKind::Open => assert!(open.insert(run.file)),
                FileOpKind::Close => assert!(open.remove(&run.file)),
                FileOpKind::Remove => assert!(!open.contains(&run.file)),
                _ => assert!(open.contains(&run.file)),
            }
            most_open = most_open.max(open.len());
        });
        // The log is none of them.
        let expected = if personality == Personality::LsmC {
            most
        } else {
            most + 1
        };
        assert!(most_open <= expected);
        if personality != Personality::LsmFillRandom {
            assert_eq!(most_open, expected, "{personality:?}");
        }
    }
}

#[test]
fn mixes_are_those_of_ycsb() {
    for (personality, reads, writes) in [
        (Personality::LsmA, 0.5, 0.5),
        (Personality::LsmB, 0.95, 0.05),
        (Personality::LsmC, 1.0, 0.0),
        (Personality::LsmD, 0.95, 0.05),
        (Personality::LsmE, 0.95, 0.05),
        (Personality::LsmF, 1.0, 0.5),
        (Personality::LsmReadRandom, 1.0, 0.0),
        (Personality::LsmFillRandom, 0.0, 1.0),
    ] {
        let mut lsm = new(personality);
        let (mut runs, mut read, mut written) = (Runs::new(), 0, 0);
        let operations = 20_000;
        for _ in 0..operations {
            let logged = lsm.stores[0].logged;
            lsm.plan(0, &mut runs);
            let has_read = runs.iter().take(2).any(|run| run.kind == FileOpKind::Read);
            read += u32::from(has_read);
            written += u32::from(lsm.stores[0].logged != logged);
            runs.clear();
        }
        let share = |count: u32| f64::from(count) / f64::from(operations);
        // What is in memory is not read.
        assert!(
            share(read) <= reads + 0.01 && share(read) >= reads * 0.6,
            "{personality:?}"
        );
        assert!((share(written) - writes).abs() < 0.01, "{personality:?}");
    }
}

/// Records of 4 KiB and a sector: each is a block, and few begin at one of the file system's.
#[test]
fn records_that_do_not_divide_a_block_make_one() {
    let regions = Regions {
        request_bytes: VALUE_RECORD_BYTES,
        ..REGIONS
    };
    assert_eq!(block_bytes(VALUE_RECORD_BYTES), VALUE_RECORD_BYTES);
    assert_eq!(
        [512, 1024, 1536, 4096].map(block_bytes),
        [4096, 4096, 4608, 4096]
    );
    let rng = SeededRng::child(7, "test");
    let mut lsm = Lsm::new(Personality::LsmReadRandom, regions, rng);
    let (mut reads, mut unaligned) = (0, 0);
    run(&mut lsm, 10_000, |_, run| {
        if run.kind == FileOpKind::Read {
            assert_eq!(run.end - run.at, VALUE_RECORD_BYTES);
            reads += 1;
            unaligned += u32::from(run.at % PAGE_BYTES != 0);
        }
    });
    let share = f64::from(unaligned) / f64::from(reads);
    assert!((0.8..0.95).contains(&share), "{share}");
}

/// A fill begins with nothing, writes any key as often, and has those that it wrote, in as many tables as they need.
#[test]
fn a_fill_begins_with_nothing() {
    let mut lsm = new(Personality::LsmFillRandom);
    assert!(lsm.initial().iter().all(Option::is_none));
    check(&lsm);
    let mut puts = 0;
    run(&mut lsm, 100_000, |_, run| {
        puts += u32::from(run.kind == FileOpKind::Write && run.end - run.at == 512);
    });
    check(&lsm);
    let store = &lsm.stores[1];
    let mut there: BTreeSet<u32> = store.memory.clone();
    there.extend(store.levels.iter().flatten().flat_map(|table| &table.keys));
    // Drawn so often with replacement, of n keys n (1 - e^(-puts / n)) were.
    let keys = f64::from(lsm.keys);
    let expected = keys * (1.0 - (-f64::from(puts) / keys).exp());
    let found = there.len() as f64;
    assert!(
        (found / expected - 1.0).abs() < 0.05,
        "{found} of {expected}"
    );
    assert!(
        (0..lsm.keys)
            .map(key)
            .collect::<BTreeSet<u32>>()
            .is_superset(&there)
    );
}

/// Each record that is written is written some times again, as levels are merged: about the factor of the level, and the log and level 0.
#[test]
fn what_is_written_is_merged() {
    let mut lsm = new(Personality::LsmA);
    let (mut logged, mut tables) = (0, 0);
    run(&mut lsm, 200_000, |_, run| {
        if run.kind == FileOpKind::Write {
            let is_line = run.end - run.at == 512;
            *if is_line { &mut logged } else { &mut tables } += run.end - run.at;
        }
    });
    let amplification = tables as f64 / logged as f64;
    assert!((1.0..12.0).contains(&amplification), "{amplification}");
}

/// What LevelDB itself did (plyvel 1.5.1, which has it; 2026-11-28): 65,536 records of 512 bytes in its log, write buffer and tables of 2 MiB, no
/// compression, all merged to level 2; then so many updates, drawn by Zipf's law with skew 0.99. Of its `leveldb.stats`: MiB of tables that
/// were written, and that were read to be merged.
const LEVELDB: [(u64, f64, f64); 2] = [(100_000, 85.0, 69.0), (400_000, 556.0, 544.0)];

#[test]
fn tables_are_merged_about_as_leveldb_merges_them() {
    let regions = Regions {
        files: 64,
        threads: 1,
        stride: 2 << 20,
        bytes: 2 << 20,
        request_bytes: 512,
    };
    for (updates, written_mib, read_mib) in LEVELDB {
        let rng = SeededRng::child(7, "test");
        let mut lsm = Lsm::new(Personality::LsmA, regions, rng);
        assert_eq!(lsm.keys, 65_536);
        let mut runs = Runs::new();
        let (mut logged, mut written, mut read) = (0, 0, 0);
        while logged < updates {
            lsm.plan(0, &mut runs);
            for run in runs.drain(..) {
                let bytes = run.end - run.at;
                match run.kind {
                    FileOpKind::Write if bytes == 512 => logged += 1,
                    FileOpKind::Write => written += bytes,
                    FileOpKind::Read if bytes > BLOCK => read += bytes,
                    _ => {}
                }
            }
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{updates} updates: {:.0} and {:.0} MiB",
            mib(written),
            mib(read)
        );
        for (found, theirs) in [(mib(written), written_mib), (mib(read), read_mib)] {
            let ratio = found / theirs;
            assert!(
                (0.7..1.3).contains(&ratio),
                "{updates}: {found} and {theirs} MiB"
            );
        }
    }
}
