//! Shares of operations, bounds and order of the streams.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::request::{Op, Request};

fn spec(personality: Personality) -> FileSpec {
    let (files, request_bytes) = match personality.is_lsm() {
        true => (8 * 48, 4096),
        false => (24, 8192),
    };
    FileSpec {
        personality,
        requests: 60_000,
        files,
        threads: 8,
        footprint_bytes: Some(24 << 20),
        request_bytes,
        stride_bytes: None,
        job: FileJob {
            read_share: 0.6,
            writers: None,
            fsync_every: 50,
        },
        seed: 7,
    }
}

/// Requests of each kind: reads, writes, flushes, discards.
fn counts(spec: &FileSpec) -> [f64; 4] {
    let mut counts = [0.0; 4];
    for request in spec.generator().unwrap() {
        counts[request.op as usize] += 1.0;
    }
    counts
}

fn is_near(found: f64, expected: f64, off: f64) -> bool {
    (found / expected - 1.0).abs() < off
}

#[test]
fn no_read_is_of_a_page_that_is_not_there_and_files_stay_in_their_regions() {
    for (name, personality) in Personality::ALL {
        let spec = FileSpec {
            stride_bytes: Some(3 << 20),
            ..spec(personality)
        };
        let generator = spec.generator().unwrap();
        let mut there: BTreeSet<u64> = BTreeSet::new();
        for &(first, end) in generator.initial() {
            there.extend(first / PAGE_BYTES..end / PAGE_BYTES);
        }
        let (region, stride) = (spec.region_bytes(), 3 << 20);
        for request in generator {
            assert!(request.is_page_aligned() && request.bytes > 0);
            let file = request.offset / stride;
            assert!(
                file < u64::from(spec.files) && request.end() <= file * stride + region,
                "{name}: {request:?}"
            );
            match request.op {
                Op::Write => there.extend(request.pages()),
                Op::Read | Op::Flush => assert!(
                    request.pages().all(|page| there.contains(&page)),
                    "{name}: {request:?} of what is not there"
                ),
                Op::Discard => there.retain(|page| !request.pages().contains(page)),
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_streams_and_threads_make_equally_many_requests() {
    for (name, personality) in Personality::ALL {
        let spec = spec(personality);
        let stream = |seed| -> Vec<Request> {
            let spec = FileSpec {
                seed,
                ..spec.clone()
            };
            spec.generator().unwrap().collect()
        };
        let requests = stream(7);
        assert_eq!(requests.len(), 60_000);
        assert!(requests == stream(7) && requests != stream(8), "{name}");
        if personality == Personality::VideoserverScaleCache {
            continue; // Its readers have a rate of their own.
        }
        let mut of_threads = [0u64; 8];
        for request in &requests {
            of_threads[request.stream as usize] += 1;
        }
        let (least, most) = (of_threads.iter().min(), of_threads.iter().max());
        assert!(
            most.unwrap() - least.unwrap() < 200,
            "{name}: {of_threads:?}"
        );
    }
}

#[test]
fn a_thread_of_fileserver_keeps_to_its_own_files() {
    for personality in [
        Personality::Fileserver,
        Personality::Varmail,
        Personality::Ffsb,
    ] {
        let spec = spec(personality);
        let region = spec.region_bytes();
        for request in spec.generator().unwrap() {
            assert_eq!(request.offset / region % 8, u64::from(request.stream));
        }
    }
}

#[test]
fn shares_are_those_of_the_flows() {
    // A loop: a file written whole and appended to, one read whole, one deleted, of 768 KiB: 96 requests.
    let [reads, writes, flushes, discards] = counts(&spec(Personality::Fileserver));
    assert!(
        flushes == 0.0 && is_near(writes, reads, 0.15),
        "{reads} {writes}"
    );
    assert!(
        is_near(writes / 97.0, discards, 0.15),
        "{writes} {discards}"
    );

    // A loop: one file deleted, two appends and two flushes, two files read.
    let [reads, writes, flushes, discards] = counts(&spec(Personality::Varmail));
    assert!(
        is_near(flushes, 2.0 * discards, 0.15),
        "{flushes} {discards}"
    );
    // An append of 1 to 4 pages is 1 or 2 requests of 2 pages.
    assert!(
        is_near(writes, 1.5 * flushes, 0.1) && reads > writes,
        "{reads} {writes} {flushes}"
    );

    // One thread of eight writes.
    let [reads, writes, flushes, discards] = counts(&spec(Personality::Videoserver));
    assert!(flushes == 0.0 && is_near(reads, 7.0 * (writes + discards), 0.02));
    assert!(
        is_near(writes / 128.0, discards, 0.1),
        "{writes} {discards}"
    );

    // Nine reads to nine overwrites and two appends of 1.5 requests.
    let [reads, writes, flushes, _] = counts(&spec(Personality::Ffsb));
    assert!(
        flushes == 0.0 && is_near(writes, reads * 12.0 / 9.0, 0.05),
        "{reads} {writes}"
    );
}

#[test]
fn a_store_reads_and_updates_and_flushes_groups() {
    let many = |personality| FileSpec {
        footprint_bytes: Some(6 << 30),
        ..spec(personality)
    };
    let [reads, writes, flushes, _] = counts(&many(Personality::YcsbA));
    assert!(is_near(reads, writes, 0.05) && is_near(writes / 32.0, flushes, 0.1));
    let [reads, writes, flushes, _] = counts(&many(Personality::YcsbF));
    assert!(is_near(reads, 2.0 * writes, 0.05) && is_near(writes / 32.0, flushes, 0.1));
    // In little room logs are full at times, and what is needed of them is moved.
    let [reads, writes, _, discards] = counts(&spec(Personality::YcsbA));
    assert!(
        discards > 50.0 && reads > 20_000.0 && writes > 20_000.0,
        "{discards} {reads} {writes}"
    );
}

#[test]
fn regions_are_where_a_volume_has_its_files() {
    let spec = spec(Personality::Varmail).on_volume((100 << 20) + 4096);
    // 25,601 pages in 24 files.
    assert_eq!(spec.stride_bytes, Some(1067 * 4096));
    let error = |spec: FileSpec| spec.generator().unwrap_err().to_string();
    assert!(error(spec.on_volume(4 << 20)).contains("give it less"));
    assert!(
        error(FileSpec {
            threads: 25,
            ..spec.clone()
        })
        .contains("24 files for 25 threads")
    );
    assert!(
        error(FileSpec {
            request_bytes: 512,
            ..spec.clone()
        })
        .contains("512 is no multiple")
    );
    assert!(
        error(FileSpec {
            requests: 0,
            ..spec.clone()
        })
        .contains("0 requests")
    );
    assert!(
        error(FileSpec {
            footprint_bytes: Some(1 << 20),
            ..spec
        })
        .contains("16 pages")
    );
}

/// Requests of each thread of a program that ScaleCache was measured with, at its size in threads
/// and files.
fn published(personality: Personality) -> (FileSpec, Vec<Vec<Request>>) {
    let files = personality.files_default();
    let spec = FileSpec {
        personality,
        requests: 400_000,
        files,
        threads: 64,
        footprint_bytes: Some(u64::from(files) << 21),
        request_bytes: 4096,
        stride_bytes: None,
        job: FileJob::default(),
        seed: 3,
    };
    let mut threads = vec![Vec::new(); 64];
    for request in spec.generator().unwrap() {
        threads[request.stream as usize].push(request);
    }
    (spec, threads)
}

/// Whether requests are writes of 4 KiB at random places of one file.
fn writes_one_file_at_random(spec: &FileSpec, requests: &[Request]) -> bool {
    let file = requests[0].offset / spec.region_bytes();
    let own = |r: &Request| {
        r.op == Op::Write && r.bytes == 4096 && r.offset / spec.region_bytes() == file
    };
    let runs = requests
        .windows(2)
        .filter(|pair| pair[0].end() == pair[1].offset);
    requests.iter().all(own) && runs.count() * 50 < requests.len()
}

/// The standard fileserver and its like were taken for the programs of the paper, of which two
/// thirds write at random and which the flusher of a page cache cannot follow.
#[test]
fn the_programs_of_scalecache_were_those_that_filebench_ships() {
    let (spec, fileserver) = published(Personality::FileserverScaleCache);
    let second = 64 * spec.region_bytes();
    for (thread, requests) in fileserver.iter().enumerate() {
        if thread < 32 {
            assert!(writes_one_file_at_random(&spec, requests));
            assert!(requests[0].offset < second);
        } else {
            // Each file whole, in order; then one that nobody has read before, until all have been.
            let all = requests.iter().enumerate();
            for (at, request) in all {
                let within = at as u64 % 512 * 4096;
                assert!(request.op == Op::Read && request.offset >= second);
                assert_eq!(request.offset % spec.region_bytes(), within);
            }
        }
    }
    let read: BTreeSet<u64> = fileserver[32..]
        .iter()
        .flatten()
        .map(|request| request.offset / spec.region_bytes())
        .collect();
    assert_eq!(read.len(), 64);

    let (spec, varmail) = published(Personality::VarmailScaleCache);
    assert!(
        varmail[..43]
            .iter()
            .all(|own| writes_one_file_at_random(&spec, own))
    );
    let mail: Vec<Request> = varmail[43..].iter().flatten().copied().collect();
    assert!(mail.iter().all(|r| r.offset >= 64 * spec.region_bytes()));
    let share = |op| mail.iter().filter(|r| r.op == op).count() as f64 / mail.len() as f64;
    // Of a loop, one file is written whole and two are read.
    assert!((share(Op::Read) / share(Op::Write) - 2.0).abs() < 0.5);
    assert!(share(Op::Flush) > 0.0 && share(Op::Discard) > 0.0);

    let (spec, video) = published(Personality::VideoserverScaleCache);
    assert!(
        video[..43]
            .iter()
            .all(|own| writes_one_file_at_random(&spec, own))
    );
    for requests in &video[43..] {
        assert!(
            requests
                .iter()
                .all(|r| r.op == Op::Read && r.bytes == 256 << 10)
        );
        assert!(requests.len() * 1000 < video[0].len());
    }

    let (spec, ffsb) = published(Personality::FfsbScaleCache);
    let all: Vec<&Request> = ffsb.iter().flatten().collect();
    assert!(all.iter().all(|r| matches!(r.op, Op::Write | Op::Discard)));
    let writes = ffsb[0].iter().filter(|r| r.op == Op::Write);
    let starts = writes
        .filter(|r| r.offset % spec.region_bytes() == 0)
        .count();
    assert_eq!(
        starts,
        ffsb[0]
            .iter()
            .filter(|r| r.op == Op::Write)
            .count()
            .div_ceil(512)
    );
}

/// Requests of each thread when those that `runs` names ask in turn for `asked` requests in all.
fn asked(spec: &FileSpec, runs: &[u32], asked: usize) -> BTreeMap<u32, Vec<(Request, u64)>> {
    let mut generator = spec.generator().unwrap();
    let mut made: BTreeMap<u32, Vec<(Request, u64)>> = BTreeMap::new();
    for thread in runs.iter().cycle().take(asked) {
        let request = generator.request_of(*thread).unwrap();
        assert_eq!(request.0.stream, *thread);
        made.entry(*thread).or_default().push(request);
    }
    made
}

/// All threads made equally many requests, where the authors ran their programs for a time: fast writers did not make more.
#[test]
fn a_thread_that_asks_more_often_makes_more_and_equal_orders_of_asking_give_equal_requests() {
    for (name, personality) in Personality::ALL {
        let Some(seconds) = personality.run_seconds() else {
            continue;
        };
        assert!(seconds == 60 || name == "ffsb-scalecache" && seconds == 30);
        let spec = FileSpec {
            files: 16,
            ..spec(personality)
        };
        let once = asked(&spec, &[0, 0, 0, 1], 4_000);
        assert_eq!((once[&0].len(), once[&1].len()), (3_000, 1_000), "{name}");
        assert_eq!(once, asked(&spec, &[0, 0, 0, 1], 4_000), "{name}");
        // What a thread does is its own choice, however many others there are and however fast.
        let alone = asked(&spec, &[0], 3_000);
        assert_eq!(once[&0], alone[&0], "{name}");
    }
}

#[test]
fn readers_of_videos_share_a_rate_and_writers_have_none() {
    let spec = FileSpec {
        threads: 64,
        files: 64,
        footprint_bytes: Some(64 << 20),
        ..spec(Personality::VideoserverScaleCache)
    };
    // Two reads of each of 21 readers are free; then an event, of 96 a second, is good for four.
    let made = asked(&spec, &(42..64).collect::<Vec<u32>>(), 22 * 10);
    assert!(
        made[&42]
            .iter()
            .all(|(r, due_ns)| r.op == Op::Write && *due_ns == 0)
    );
    let mut due_ns: Vec<u64> = (43..64)
        .flat_map(|reader| made[&reader].iter().map(|r| r.1))
        .collect();
    due_ns.retain(|due_ns| *due_ns > 0);
    due_ns.sort_unstable();
    let expected: Vec<u64> = (1..=2 * 21)
        .map(|event| event * 1_000_000_000 / 96)
        .collect();
    assert_eq!(due_ns, expected);
    for reader in 43..64 {
        let paid: Vec<usize> = (0..10).filter(|read| made[&reader][*read].1 > 0).collect();
        assert_eq!(paid, [2, 6]);
    }
}

/// What a replay of operations knows of files, kept by the rules of file systems: none is read beyond its end, made if it is
/// there and wanted anew, or used without being open, but for those that stay open from the start.
#[test]
fn operations_are_of_files_that_are_there_and_open_and_threads_keep_to_their_folders() {
    for (name, personality) in Personality::ALL {
        let spec = spec(personality);
        let operations = spec.operations().unwrap();
        let names = operations.names().clone();
        assert_eq!(
            names.paths.iter().collect::<BTreeSet<_>>().len(),
            names.paths.len()
        );
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for &(file, existing) in &names.existing {
            if let Existing::File(bytes) = existing {
                sizes.insert(file, bytes);
            }
        }
        let mut open: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut counted = 0;
        for op in operations {
            let path = &names.paths[op.file as usize];
            if let Some(owner) = path.strip_prefix("/t") {
                assert!(
                    owner.starts_with(&format!("{:04}/", op.thread)),
                    "{name}: {op:?}"
                );
            }
            let key = (op.thread, op.file);
            let size = sizes.get(&op.file).copied();
            let end = op.offset + op.bytes;
            if op.kind.needs_open() && op.kind != FileOpKind::Close {
                assert!(size.is_some(), "{name}: {op:?}");
            }
            match op.kind {
                FileOpKind::Open => {
                    assert!(open.insert(key), "{name}: {op:?}");
                    assert!(op.how.has(OpenHow::CREATE) || size.is_some());
                    if op.how.has(OpenHow::TRUNCATE) {
                        assert_eq!(op.bytes, size.unwrap_or(0), "{name}");
                        sizes.insert(op.file, 0);
                    }
                }
                FileOpKind::Close => assert!(open.remove(&key), "{name}: {op:?}"),
                FileOpKind::Read | FileOpKind::CrcWrite | FileOpKind::Nearest => {
                    assert!(op.bytes > 0 && end <= size.unwrap(), "{name}: {op:?}")
                }
                FileOpKind::Write => {
                    sizes.insert(op.file, size.unwrap().max(end));
                }
                FileOpKind::Append => {
                    assert_eq!(op.offset, size.unwrap(), "{name}: {op:?}");
                    sizes.insert(op.file, end);
                }
                FileOpKind::Truncate => {
                    sizes.insert(op.file, op.offset);
                }
                FileOpKind::Remove => assert_eq!(sizes.remove(&op.file), Some(op.bytes), "{name}"),
                FileOpKind::Stat | FileOpKind::Fsync => assert_eq!(op.offset, 0),
                FileOpKind::Fdatasync | FileOpKind::Punch => assert!(end > op.offset),
                other => panic!("{name}: {other} is no part of a personality"),
            }
            counted += u64::from(op.bytes > 0);
        }
        assert_eq!(counted, spec.requests, "{name}");
    }
}

/// The two views are of one stream: what moves bytes does so in both, in the same order.
#[test]
fn both_views_read_and_write_the_same_bytes_of_the_same_files() {
    for (name, personality) in Personality::ALL {
        let spec = FileSpec {
            // No run goes on from one file into the next.
            stride_bytes: Some(3 << 20),
            ..spec(personality)
        };
        let operations = spec.operations().unwrap();
        let first_file = operations.first_file;
        let of_files: Vec<(u32, bool, u64, u64)> = operations
            .filter(|op| op.kind.moves_data())
            .map(|op| {
                let at = u64::from(op.file - first_file) * (3 << 20) + op.offset;
                (op.thread, op.kind.is_read(), at, op.bytes)
            })
            .collect();
        let of_blocks: Vec<(u32, bool, u64, u64)> = spec
            .generator()
            .unwrap()
            .filter(|request| request.op.moves_data())
            .map(|r| (r.stream, r.op == Op::Read, r.offset, r.bytes.into()))
            .collect();
        assert!(of_files == of_blocks, "{name}");
    }
}

#[test]
fn the_web_server_reads_ten_files_an_append_to_one_log_in_directories_of_twenty_names() {
    let personality = Personality::Webserver;
    let spec = FileSpec {
        files: personality.files_default(),
        threads: personality.threads_default(),
        request_bytes: personality.request_bytes_default(),
        footprint_bytes: None,
        ..spec(personality)
    };
    let operations = spec.operations().unwrap();
    let names = operations.names().clone();
    let mut within: BTreeMap<&str, u32> = BTreeMap::new();
    for path in &names.paths {
        *within.entry(path.rsplit_once('/').unwrap().0).or_default() += 1;
    }
    assert!(within.values().all(|names| *names <= 20), "{within:?}");
    let sizes = names.existing.iter().filter_map(|(_, there)| match there {
        Existing::File(bytes) => Some(*bytes),
        Existing::Directory => None,
    });
    let sizes: Vec<u64> = sizes.collect();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    assert!(sizes.len() == 1001 && is_near(mean, 16384.0, 0.1), "{mean}");
    let log = names
        .paths
        .iter()
        .position(|path| path.starts_with("/logfiles/f"))
        .unwrap();
    let mut counts: BTreeMap<FileOpKind, f64> = BTreeMap::new();
    for op in operations {
        *counts.entry(op.kind).or_default() += 1.0;
        let is_log = op.file as usize == log;
        let of_log = matches!(op.kind, FileOpKind::Append | FileOpKind::Truncate);
        assert_eq!(is_log, of_log, "{op:?}");
    }
    let count = |kind| counts[&kind];
    assert!(is_near(
        count(FileOpKind::Read),
        10.0 * count(FileOpKind::Append),
        0.02
    ));
    assert!(is_near(
        count(FileOpKind::Open),
        count(FileOpKind::Read),
        0.01
    ));
    assert!(is_near(
        count(FileOpKind::Close),
        count(FileOpKind::Open),
        0.01
    ));
}

#[test]
fn the_web_proxy_reads_five_files_a_new_one_in_one_directory() {
    let personality = Personality::Webproxy;
    let spec = FileSpec {
        files: 1000,
        threads: 10,
        request_bytes: personality.request_bytes_default(),
        footprint_bytes: None,
        ..spec(personality)
    };
    let operations = spec.operations().unwrap();
    let paths = &operations.names().paths;
    assert!(
        paths[1..]
            .iter()
            .all(|path| path.starts_with("/bigfileset/f"))
    );
    let mut counts: BTreeMap<FileOpKind, f64> = BTreeMap::new();
    operations.for_each(|op| *counts.entry(op.kind).or_default() += 1.0);
    let count = |kind| counts[&kind];
    assert!(is_near(
        count(FileOpKind::Read),
        5.0 * count(FileOpKind::Remove),
        0.02
    ));
    assert!(is_near(
        count(FileOpKind::Append),
        count(FileOpKind::Remove),
        0.02
    ));
    assert!(is_near(
        count(FileOpKind::Open),
        6.0 * count(FileOpKind::Remove),
        0.02
    ));
}

/// Requests of a job of four threads on one file.
fn job(personality: Personality, job: FileJob) -> Vec<Request> {
    let spec = FileSpec {
        files: 1,
        threads: 4,
        request_bytes: 1024,
        footprint_bytes: Some(4 << 20),
        job,
        ..spec(personality)
    };
    spec.generator().unwrap().collect()
}

#[test]
fn threads_of_a_job_share_a_file_and_the_first_ones_write() {
    for (writers, personality) in [
        (0, Personality::RandomFiles),
        (1, Personality::RandomFiles),
        (3, Personality::SequentialFiles),
        (4, Personality::SequentialFiles),
    ] {
        let how = FileJob {
            writers: Some(writers),
            ..FileJob::default()
        };
        let requests = job(personality, how);
        for request in &requests {
            let is_write = request.stream < writers;
            assert_eq!(request.op == Op::Write, is_write);
            assert!(request.bytes == 1024 && request.end() <= 4 << 20);
        }
        let blocks: BTreeSet<u64> = requests.iter().map(|r| r.offset / 1024).collect();
        assert!(blocks.len() > 4000, "of 4,096: {}", blocks.len());
    }
    let sequential = job(Personality::SequentialFiles, FileJob::default());
    let starts: Vec<u64> = sequential[..4].iter().map(|r| r.offset).collect();
    assert_eq!(starts, [0, 1 << 20, 2 << 20, 3 << 20]);
    assert!(
        sequential
            .iter()
            .zip(&sequential[4..])
            .all(|(before, after)| {
                before.stream == after.stream && before.end() % (4 << 20) == after.offset
            })
    );
}

#[test]
fn a_job_makes_durable_what_it_wrote_and_mistakes_are_told() {
    let how = FileJob {
        read_share: 0.5,
        writers: None,
        fsync_every: 8,
    };
    let mut since = [0; 4];
    for request in job(Personality::RandomFiles, how) {
        let since = &mut since[request.stream as usize];
        match request.op {
            Op::Write => *since += 1,
            Op::Flush => assert_eq!(std::mem::take(since), 8),
            _ => {}
        }
        assert!(*since <= 8);
    }
    let error = |spec: FileSpec| spec.generator().unwrap_err().to_string();
    let base = FileSpec {
        files: 1,
        ..spec(Personality::RandomFiles)
    };
    let with = |job| FileSpec {
        job,
        ..base.clone()
    };
    let how = FileJob::default();
    assert!(
        error(with(FileJob {
            read_share: 1.5,
            ..how
        }))
        .contains("between 0 and 1")
    );
    assert!(
        error(with(FileJob {
            writers: Some(9),
            ..how
        }))
        .contains("9 of 8 threads")
    );
    let large = FileSpec {
        request_bytes: 64 << 20,
        ..base.clone()
    };
    assert!(error(large).contains("and a request has"));
    let odd = FileSpec {
        request_bytes: 1000,
        ..base
    };
    assert!(error(odd).contains("no multiple of 512"));
}
