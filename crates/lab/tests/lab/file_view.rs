//! Operations on files through clients of files, on designs for blocks: every read and every answer checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_drive::DriveConfig;
use wharf_drive::config::{MediaKind, TokenCheck};
use wharf_host::ext4_model::{Ext4Config, Ext4Model};
use wharf_host::omni::{Caches, Omni, OmniConfig};
use wharf_host::stor::{CacheMode, Eviction, Placement, Stor, StorConfig};
use wharf_lab::compare::{Request as Compare, compare};
use wharf_lab::designs::{DESIGNS, find};
use wharf_lab::input::{FilesFrom, Input, Plan, TraceFrom};
use wharf_lab::replay::{Engine, Setup};
use wharf_lab::report;
use wharf_lab::result::{Comparison, Row};
use wharf_workload::files::{FileJob, FileOpKind, FileSpec, Personality, write_file_trace};
use wharf_workload::generate::Pattern;

use crate::support::{self, generated, planned, setup, setup_on, small, small_and_quick};

pub fn spec(personality: Personality) -> FileSpec {
    FileSpec {
        personality,
        requests: 4_000,
        files: 24,
        threads: 8,
        footprint_bytes: Some(4 << 20),
        request_bytes: 8192,
        stride_bytes: None,
        job: FileJob::default(),
        seed: 5,
    }
}

/// All that have few files, of two pages or more at a time.
pub fn usual() -> impl Iterator<Item = Personality> {
    let all = Personality::ALL
        .into_iter()
        .map(|(_, personality)| personality);
    all.filter(|personality| !personality.is_lsm())
}

pub fn of_files(spec: FileSpec, unit_bytes: u64) -> Input {
    Input::Files {
        name: spec.personality.name().into(),
        from: FilesFrom::Made {
            spec,
            parameters: BTreeMap::new(),
        },
        unit_bytes,
    }
}

fn four_clients() -> Setup {
    let mut setup = Setup {
        clients: 4,
        depth: 2,
        cache_bytes: 1 << 20,
        ..setup_on(2, small())
    };
    setup.host.files = 24;
    setup
}

pub fn run(setup: &Setup, plan: &Arc<Plan>, names: &[&str]) -> Comparison {
    let request = Compare {
        setup: setup.clone(),
        designs: names
            .iter()
            .map(|name| find(name).expect("it is listed"))
            .collect(),
        plans: vec![plan.clone()],
        cache_spec: "test".into(),
        commit: "test".into(),
        jobs: 1,
    };
    let comparison = compare(&request, &Arc::new(AtomicBool::new(false)));
    let comparison = comparison.unwrap_or_else(|error| panic!("{error}"));
    comparison.rows.iter().for_each(|row| check(row, plan));
    comparison
}

/// What holds of every complete row.
fn check(row: &Row, plan: &Plan) {
    let ops = &plan.files.as_ref().expect("operations on files").ops;
    assert!(
        row.complete && row.requests == ops.len() as u64,
        "{}",
        row.design
    );
    let by_sort = [row.reads, row.writes, row.flushes, row.discards, row.names];
    assert_eq!(by_sort.iter().sum::<u64>(), row.requests);
    assert_eq!(row.verified_reads, row.reads, "every read is checked");
    let in_its_course = row
        .timeline
        .iter()
        .filter_map(|point| point.latency_us.map(|latency| latency.mean));
    assert!(in_its_course.sum::<f64>() > 0.0, "{}", row.design);
    for operation in &row.file_operations {
        let kind = FileOpKind::by_name(operation.operation.as_bytes()).expect("its name");
        let count = ops.iter().filter(|op| op.kind == kind).count() as u64;
        assert_eq!(operation.count, count, "{kind}");
        assert_eq!(operation.failed, 0, "{kind} of {}", row.design);
        assert!(operation.per_second > 0.0 && operation.latency_us.max >= 0.0);
    }
}

const SHOWN: [&str; 5] = ["direct", "clock", "kernel", "scale", "scala"];

#[test]
fn stores_of_sorted_tables_run_as_files_and_all_reads_are_checked() {
    let stores = Personality::ALL.into_iter().filter(|(_, one)| one.is_lsm());
    for (name, personality) in stores {
        let spec = FileSpec {
            requests: 8_000,
            files: 96,
            threads: 2,
            footprint_bytes: Some(6 << 20),
            request_bytes: 4096,
            ..spec(personality)
        };
        let setup = Setup {
            clients: 2,
            depth: 1,
            cache_bytes: 1 << 20,
            ..setup_on(2, small())
        };
        let plan = planned(&of_files(spec, 4096), &setup);
        let done = run(&setup, &plan, &["kernel", "scale"]);
        assert_eq!(done.rows.len(), 2, "{name}");
    }
}

#[test]
fn personalities_run_as_files_on_every_design_and_all_reads_are_checked() {
    let setup = four_clients();
    for personality in usual() {
        let plan = planned(&of_files(spec(personality), 4096), &setup);
        let all: Vec<&str> = DESIGNS.iter().map(|design| design.name).collect();
        let names = match personality {
            Personality::Varmail | Personality::Fileserver => &all[..],
            _ => &SHOWN[..],
        };
        let done = run(&setup, &plan, names);
        for row in &done.rows {
            assert_eq!(row.hit_ratio.is_none(), row.design == "direct");
        }
    }
}

#[test]
fn equal_runs_of_files_give_equal_reports() {
    let setup = four_clients();
    let plan = planned(&of_files(spec(Personality::Varmail), 4096), &setup);
    let make = || {
        let done = run(&setup, &plan, &SHOWN).without_wall_clock();
        (
            report::json::to_string(&done),
            report::html::render(&done),
            report::table::render(&done, 120),
        )
    };
    let (json, page, table) = make();
    assert!((json.clone(), page.clone(), table.clone()) == make());
    for text in [&json, &page, &table] {
        assert!(text.contains("fsync") && text.contains("append"));
    }
    let back = report::json::from_str(&json).expect("a report");
    assert_eq!(back.rows[0].file_operations.len(), 6);
}

pub fn in_memory() -> Setup {
    let mut drive = small();
    drive.media.kind = MediaKind::Ram;
    Setup {
        clients: 4,
        depth: 2,
        cache_bytes: 1 << 20,
        ..setup_on(2, drive)
    }
}

/// A drive with room for what two of them are filled with, and for metadata.
pub fn with_room(drive: &DriveConfig) -> DriveConfig {
    let mut drive = drive.clone();
    drive.geometry.blocks_per_plane *= 3;
    drive
}

/// The file system of a design that has one of its own: all clients share it, and each asks its own CPU's cache.
#[test]
fn personalities_run_on_a_file_system_of_the_host_and_all_reads_are_checked() {
    let setup = in_memory();
    for personality in usual() {
        let plan = planned(&of_files(spec(personality), 512), &setup);
        let done = run(&setup, &plan, &["kernel", "ext4-model", "ext4-scale"]);
        let [kernel, files @ ..] = &done.rows[..] else {
            panic!("rows");
        };
        assert_eq!(files.len(), 2);
        for row in files {
            assert_eq!(kernel.requests, row.requests, "{}", row.design);
            assert!(row.hit_ratio.is_some_and(|ratio| ratio > 0.0));
        }
        let one_drive = Setup {
            clients: 4,
            depth: 2,
            ..setup_on(1, with_room(&setup.cache().drive))
        };
        let done = run(&one_drive, &plan, &["stor"]);
        assert_eq!(done.rows[0].hit_ratio, None);
        for cache in [
            CacheMode::WriteBack,
            CacheMode::WriteAround,
            CacheMode::WriteThrough,
        ] {
            // Clients share files: they are threads of one process.
            let own = StorConfig {
                cache,
                threads: 4,
                cache_files: 256,
                ..StorConfig::default()
            };
            let mut setup = one_drive.clone();
            setup.host.design.set::<Stor>(&own);
            let done = run(&setup, &plan, &["stor"]);
            assert!(done.rows[0].hit_ratio.is_some());
        }
    }
    let plan = planned(&of_files(spec(Personality::Varmail), 512), &setup);
    let json = || {
        let done = run(&setup, &plan, &["ext4-model", "ext4-scale"]).without_wall_clock();
        report::json::to_string(&done)
    };
    assert_eq!(json(), json(), "equal seeds");
}

/// A file system of the host's own memory sends no commands, and there is nothing of it to hit.
#[test]
fn files_in_memory_of_the_host_send_no_commands_and_all_reads_are_checked() {
    let setup = in_memory();
    for personality in usual() {
        let plan = planned(&of_files(spec(personality), 512), &setup);
        let done = run(&setup, &plan, &["nova"]);
        let row = &done.rows[0];
        assert_eq!((row.hit_ratio, row.commands_per_io), (None, 0.0));
        assert!(row.elapsed_seconds > 0.0, "loads and stores take time");
    }
    let plan = planned(&of_files(spec(Personality::Varmail), 512), &setup);
    let json = || report::json::to_string(&run(&setup, &plan, &["nova"]).without_wall_clock());
    assert_eq!(json(), json(), "equal seeds");
}

/// How often an operation of the cost table was charged.
fn charged(row: &Row, key: &str) -> u64 {
    let operations = row.cpus.iter().flat_map(|group| &group.operations);
    let found = operations.filter(|account| account.operation == key);
    found.map(|account| account.count).sum()
}

/// The same client in the operating system: each operation enters it, and a command goes by the block layer.
#[test]
fn files_in_the_drive_behind_the_operating_system_pay_for_it() {
    let drive = with_room(&in_memory().cache().drive);
    let mut setup = Setup {
        clients: 4,
        depth: 1,
        cache_bytes: 1 << 20,
        ..setup_on(1, drive)
    };
    let plan = planned(&of_files(spec(Personality::Fileserver), 512), &setup);
    for caches in [Caches::None, Caches::Host, Caches::Both] {
        let own = OmniConfig {
            caches,
            ..OmniConfig::default()
        };
        setup.host.design.set::<Omni>(&own);
        setup.host.in_kernel = false;
        let in_program = run(&setup, &plan, &["omni"]);
        setup.host.in_kernel = true;
        let in_kernel = run(&setup, &plan, &["omni"]);
        let (program, kernel) = (&in_program.rows[0], &in_kernel.rows[0]);
        assert_eq!(charged(program, "system_call"), 0, "{caches:?}");
        assert_eq!(charged(program, "block_submit"), 0, "{caches:?}");
        let calls = charged(kernel, "system_call");
        // A file is opened and closed with some of them.
        assert!(
            (kernel.requests..=3 * kernel.requests).contains(&calls),
            "{calls}"
        );
        let sent = charged(kernel, "block_submit");
        assert!(
            sent > 0 && sent >= charged(kernel, "interrupt"),
            "{caches:?}: {sent}"
        );
    }
}

/// Each command for files has a token, which the drive compares, or whose code it computes, or which it does not look at: as it
/// is told, and at a cost.
#[test]
fn what_is_done_with_a_token_is_charged_once_for_each_command() {
    let mut reads = spec(Personality::RandomFiles);
    reads.job.writers = Some(0);
    (reads.files, reads.threads) = (1, 4);
    let mut latencies_ns = Vec::new();
    let checks = [TokenCheck::Off, TokenCheck::Cached, TokenCheck::Every];
    for (check, expected) in
        checks
            .into_iter()
            .zip([None, Some("token_compare"), Some("token_code")])
    {
        let mut drive = with_room(&in_memory().cache().drive);
        drive.firmware.token_check = check;
        let setup = setup_on(1, drive);
        let plan = planned(&of_files(reads.clone(), 512), &setup);
        let done = run(&setup, &plan, &["stor"]);
        let row = &done.rows[0];
        let operations = || row.cpus.iter().flat_map(|group| &group.operations);
        for key in ["token_compare", "token_code"] {
            let found: u64 = operations()
                .filter(|account| account.operation == key)
                .map(|account| account.count)
                .sum();
            match expected == Some(key) {
                // Files are made, opened and stat'ed too.
                true => assert!(
                    (row.requests..row.requests + 1_000).contains(&found),
                    "{found}"
                ),
                false => assert_eq!(found, 0, "{key} where it is {check:?}"),
            }
        }
        latencies_ns.push(row.latency_us.mean);
    }
    assert!(
        latencies_ns.is_sorted() && latencies_ns[0] < latencies_ns[2],
        "{latencies_ns:?}"
    );
}

/// With direct I/O no byte of a file is in the page cache, and every read is right all the same.
#[test]
fn files_that_are_open_for_direct_io_go_past_the_cache_of_the_host() {
    let mut setup = in_memory();
    setup.cache_bytes = 16 << 20;
    let mut reads = spec(Personality::RandomFiles);
    (reads.files, reads.threads) = (1, 4);
    let plan = planned(&of_files(reads, 512), &setup);
    let read = |setup: &Setup| {
        let done = run(setup, &plan, &["ext4-model"]);
        let [row] = &done.rows[..] else {
            panic!("one row");
        };
        row.pages_read_per_page.expect("pages are read")
    };
    let cached = read(&setup);
    let own = Ext4Config { direct: true };
    setup.host.design.set::<Ext4Model>(&own);
    let direct = read(&setup);
    assert!(cached < 0.5 && direct > 0.99, "{cached} and {direct}");
    for personality in usual() {
        let plan = planned(&of_files(spec(personality), 512), &setup);
        run(&setup, &plan, &["ext4-model"]);
    }
}

/// Every placement of commands on the drive's cores serves the same files.
#[test]
fn the_drive_serves_files_whichever_core_has_them() {
    let plan = planned(&of_files(spec(Personality::Fileserver), 512), &in_memory());
    let mut drive = with_room(&in_memory().cache().drive);
    drive.firmware.cores = 2;
    let mut setup = Setup {
        clients: 4,
        depth: 2,
        ..setup_on(1, drive)
    };
    for placement in [
        Placement::ByInode,
        Placement::RoundRobin,
        Placement::LeastLoaded,
        Placement::ReadSpread,
    ] {
        let own = StorConfig {
            placement,
            ..StorConfig::default()
        };
        setup.host.design.set::<Stor>(&own);
        let json = || report::json::to_string(&run(&setup, &plan, &["stor"]).without_wall_clock());
        assert_eq!(json(), json(), "equal seeds, {placement:?}");
    }
}

/// Stamps are no metadata.
#[test]
fn designs_with_file_systems_say_what_they_cannot_serve() {
    let plan = planned(&of_files(spec(Personality::Varmail), 4096), &four_clients());
    let message = |setup: &Setup, plan: &Arc<Plan>| {
        let request = Compare {
            setup: setup.clone(),
            designs: vec![find("ext4-model").expect("it is listed")],
            plans: vec![plan.clone()],
            cache_spec: "test".into(),
            commit: "test".into(),
            jobs: 1,
        };
        let compared = compare(&request, &Arc::new(AtomicBool::new(false)));
        compared.expect_err("it cannot").to_string()
    };
    let stamps = message(&four_clients(), &plan);
    assert!(stamps.contains("drive.media.kind=ram"), "{stamps}");
}

/// Requests for blocks go to one file of a design that serves files alone.
#[test]
fn requests_for_blocks_go_to_one_file_of_a_file_system_and_all_reads_are_checked() {
    let of_blocks = generated(support::spec(Pattern::Uniform, 3_000, 2 << 20));
    let mut drive = with_room(&in_memory().cache().drive);
    drive.firmware.cores = 2;
    let setup = Setup {
        clients: 4,
        depth: 2,
        cache_bytes: 1 << 20,
        ..setup_on(1, drive)
    };
    let plan = planned(&of_blocks, &setup);
    for name in ["ext4-model", "ext4-scale", "nova", "stor", "omni"] {
        let request = Compare {
            setup: setup.clone(),
            designs: vec![find(name).expect("it is listed")],
            plans: vec![plan.clone()],
            cache_spec: "test".into(),
            commit: "test".into(),
            jobs: 1,
        };
        let done = compare(&request, &Arc::new(AtomicBool::new(false)));
        let done = done.unwrap_or_else(|error| panic!("{error}"));
        let row = &done.rows[0];
        assert!(row.complete && row.requests == 3_000 && row.reads > 0);
        assert_eq!(row.verified_reads, row.reads, "{name}");
    }
}

/// With real bytes units are sectors, and sizes need not be whole pages.
#[test]
fn files_of_real_bytes_are_checked_by_sectors_in_either_time() {
    let mut drive = small_and_quick();
    drive.media.kind = MediaKind::Ram;
    let text = b"# wharf file trace 1\n\
        dir /d\n\
        file /d/old 10000\n\
        - 0 open /d/new ct\n\
        - 0 write /d/new 512 1000\n\
        - 0 append /d/new 700\n\
        - 0 read /d/new 0 4096\n\
        - 0 truncate /d/new 1000\n\
        - 0 write /d/new 9000 100\n\
        - 0 readwhole /d/new\n\
        - 1 read /d/old 0 512\n\
        - 1 stat /d/old\n\
        - 1 stat /d/none\n\
        - 1 open /d/none -\n\
        - 1 append /d/none 512\n\
        - 1 list /d\n\
        - 0 rename /d/new /d/newer\n\
        - 0 punch /d/newer 0 9000\n\
        - 0 link /d/newer /d/newest\n\
        - 0 mkdir /e\n\
        - 0 mkdir /e\n\
        - 0 rmdir /e\n\
        - 0 symlink /s /d\n\
        - 0 stat /s/old\n\
        - 0 remove /d/newest\n\
        - 0 fdatasync /d/newer\n\
        - 0 close /d/newer\n";
    let from = TraceFrom::Memory {
        name: "every-operation".into(),
        bytes: text.to_vec().into(),
    };
    let input = Input::Files {
        name: "every-operation".into(),
        from: from.operations(None).unwrap().expect("a trace of files"),
        unit_bytes: 512,
    };
    let setup = Setup {
        clients: 2,
        ..setup(drive)
    };
    let real = Setup {
        engine: Engine::Real {
            client_threads: 1,
            profile: false,
        },
        ..setup.clone()
    };
    let plan = planned(&input, &setup);
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("whole units of 512"))
    );
    for setup in [&setup, &real] {
        for name in ["direct", "clock"] {
            let row = (find(name).expect("it is listed").run)(
                setup,
                &plan,
                wharf_lab::progress::Progress::hidden(),
                &Arc::new(AtomicBool::new(false)),
            );
            let row = row.unwrap_or_else(|error| panic!("{error}"));
            assert!(row.complete);
            let failed = |name: &str| {
                let mut all = row.file_operations.iter();
                all.find(|operation| operation.operation == name)
                    .map(|found| found.failed)
            };
            assert_eq!(failed("append"), Some(1), "of a file that is not there");
            assert_eq!(
                (failed("mkdir"), failed("open"), failed("read")),
                (Some(1), Some(1), Some(0))
            );
            // After the rename the thread has /d/new open, and /d/newer not yet.
            assert_eq!((failed("close"), failed("punch")), (Some(0), Some(0)));
        }
    }
}

/// In real time threads of a process meet in its cache as they happen to; every read is checked all the same.
#[test]
fn threads_that_share_the_cache_of_a_process_read_what_was_written_in_real_time() {
    let mut setup = Setup {
        clients: 4,
        depth: 2,
        cache_bytes: 1 << 20,
        engine: Engine::Real {
            client_threads: 2,
            profile: false,
        },
        ..setup_on(1, with_room(&in_memory().cache().drive))
    };
    for cache in [
        CacheMode::WriteBack,
        CacheMode::WriteThrough,
        CacheMode::Near,
    ] {
        let own = StorConfig {
            cache,
            threads: 4,
            ..StorConfig::default()
        };
        setup.host.design.set::<Stor>(&own);
        let mut one_file = spec(Personality::RandomFiles);
        (one_file.files, one_file.threads) = (1, 4);
        one_file.job.writers = Some(2);
        if cache.is_near() {
            one_file.request_bytes = 1_024;
        }
        for spec in [one_file, spec(Personality::Fileserver)] {
            let plan = planned(&of_files(spec, 512), &setup);
            let done = run(&setup, &plan, &["stor"]);
            assert!(done.rows[0].hit_ratio.is_some_and(|ratio| ratio > 0.0));
        }
    }
}

/// A trace that was written from a personality gives the same operations.
#[test]
fn a_personality_and_its_trace_are_replayed_alike() {
    let setup = four_clients();
    let made = planned(&of_files(spec(Personality::Fileserver), 4096), &setup);
    let files = made.files.as_ref().expect("operations on files");
    let mut text = Vec::new();
    write_file_trace(&files.names, files.ops.iter().copied(), &mut text).unwrap();
    let from = TraceFrom::Memory {
        name: "fileserver".into(),
        bytes: text.into(),
    };
    let input = Input::Files {
        name: "fileserver".into(),
        from: from.operations(None).unwrap().expect("a trace of files"),
        unit_bytes: 4096,
    };
    let read = planned(&input, &setup);
    let rows = [made, read].map(|plan| run(&setup, &plan, &["clock"]).without_wall_clock().rows);
    assert_eq!(rows[0], rows[1]);
}

/// Where the drive has a cache, bytes cross the link and not pages; both caches are full then, and neither has more than its share.
/// What is done before the run, as making the file, counts for nothing.
#[test]
fn bytes_and_not_pages_cross_the_link_where_the_drive_has_a_cache() {
    const CACHE_BYTES: f64 = 1_048_576.0;
    let mut setup = Setup {
        clients: 4,
        depth: 1,
        cache_bytes: CACHE_BYTES as u64,
        ..setup_on(1, with_room(&in_memory().cache().drive))
    };
    let mut reads = spec(Personality::RandomFiles);
    (reads.files, reads.threads, reads.requests) = (1, 4, 6_000);
    (reads.request_bytes, reads.footprint_bytes) = (1_024, Some(4 << 20));
    reads.job.writers = Some(0);
    let plan = planned(&of_files(reads, 512), &setup);
    let mut row = |caches| {
        let own = OmniConfig {
            caches,
            ..OmniConfig::default()
        };
        setup.host.design.set::<Omni>(&own);
        let done = run(&setup, &plan, &["omni"]);
        done.rows.into_iter().next().expect("one row")
    };
    let [both, host, none] = [Caches::Both, Caches::Host, Caches::None].map(&mut row);
    let link = |row: &Row| row.link_bytes_per_byte.expect("bytes were asked for");
    // A command of 64 bytes, a completion of 16, and some to open the file.
    assert!((1.078..1.09).contains(&link(&none)), "{}", link(&none));
    let missed = 1.0 - both.no_command_hit_ratio.expect("there is a cache");
    // Pages that come to the host's cache come whole, once.
    let filled = 0.8 * CACHE_BYTES * (4_176.0 / 4_096.0) / (6_000.0 * 1_024.0);
    assert!(
        link(&both) < 1.09 * missed + filled && link(&both) < 1.12,
        "{} of {missed}, {filled} to fill",
        link(&both)
    );
    let missed = 1.0 - host.no_command_hit_ratio.expect("there is a cache");
    assert!(link(&host) > 4.0 * missed && link(&host) > 2.5 * link(&both));
    let near_bytes = both.gauge("near_bytes").expect("the drive has a cache");
    let share = near_bytes / (0.2 * CACHE_BYTES);
    assert!((0.95..=1.0).contains(&share), "{near_bytes}");
    assert!(both.hit_ratio > both.no_command_hit_ratio, "some are near");
}

/// Who reads files in order by less than a page at a time has bytes alone cross the link, where the drive fills its own cache ahead; pages that
/// were used leave it, and the next ones find room.
#[test]
fn bytes_alone_cross_the_link_where_the_drive_reads_ahead() {
    const REQUESTS: f64 = 12_000.0;
    let mut setup = Setup {
        clients: 4,
        depth: 1,
        cache_bytes: 4 << 20,
        ..setup_on(1, with_room(&in_memory().cache().drive))
    };
    let mut reads = spec(Personality::SequentialFiles);
    (reads.files, reads.threads, reads.requests) = (4, 4, REQUESTS as u64);
    (reads.request_bytes, reads.footprint_bytes) = (1_024, Some(16 << 20));
    reads.job.writers = Some(0);
    let plan = planned(&of_files(reads, 512), &setup);
    let mut row = |eviction, prefetch_pages| {
        let own = OmniConfig {
            device_share: 0.5,
            eviction,
            prefetch_pages,
            ..OmniConfig::default()
        };
        setup.host.design.set::<Omni>(&own);
        let done = run(&setup, &plan, &["omni"]);
        done.rows.into_iter().next().expect("one row")
    };
    let clock = row(Eviction::Clock, 0);
    let [off, on] = [0, 512].map(|pages| row(Eviction::TwoStep, pages));
    let link = |row: &Row| row.link_bytes_per_byte.expect("bytes were asked for");
    println!(
        "bytes over the link for each: {}, {} in two steps, {} with it",
        link(&clock),
        link(&off),
        link(&on)
    );
    assert!(clock.gauge("evicted_oldest").is_none());
    assert!(
        link(&off) < 1.05 * link(&clock),
        "none leaves that was not used"
    );
    // A command of 64 bytes and a completion of 16; one command more for each window, and for what leaves. Where there is no room
    // for the next window, whole pages come, at 80 bytes for several.
    assert!((1.05..1.09).contains(&link(&on)), "{}", link(&on));
    let prefetched = on.gauge("near_prefetched").expect("it is on");
    assert!(
        prefetched * 4_096.0 > 0.8 * REQUESTS * 1_024.0,
        "{prefetched}"
    );
    assert!(off.gauge("near_prefetched").is_none());
    let left = on.gauge("near_evicted_oldest").expect("it is on");
    assert!(left > 0.5 * prefetched, "{left} of {prefetched}");
    assert!(off.gauge("evicted_oldest").expect("it is on") > 0.0);
    // Pages near are hits, but for the first ones of each file.
    assert!(
        on.hit_ratio.is_some_and(|ratio| ratio > 0.8),
        "{:?}",
        on.hit_ratio
    );
}
