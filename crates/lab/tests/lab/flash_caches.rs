//! The flash caches as `wharf compare` runs them: the compressing drive before the disk, what lies there at first, and
//! what is reported.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::Role;
use wharf_host::indexless::{Indexless, IndexlessConfig, LruBatch, OpenCas, SecondChance, Store};
use wharf_lab::compare::{Request as Compare, compare};
use wharf_lab::designs::FLASH_CACHES;
use wharf_lab::input::Plan;
use wharf_lab::replay::{DeviceGroup, Engine, Prepare, RunError, Setup};
use wharf_lab::report::{html, table};
use wharf_lab::result::{DeviceAccount, Row};
use wharf_runtime::CostTable;
use wharf_workload::generate::{GeneratorSpec, Pattern};

use crate::support::{drive, generated, planned, setup, spec, try_run};

/// The small pair of presets, as the command line puts it together.
fn small_pair() -> Setup {
    let mut setup = setup(drive("tc-csd-small", &[]));
    let disk = drive("hdd-small", &[]);
    let backing = DeviceGroup::new(Role::Backing, disk, 1, &setup.host);
    setup.devices.push(backing);
    setup.show_enough(&FLASH_CACHES.iter().collect::<Vec<_>>());
    (setup.clients, setup.depth) = (2, 4);
    setup
}

fn zipf(requests: u64, read_share: f64) -> GeneratorSpec {
    GeneratorSpec {
        read_share,
        ..spec(Pattern::Zipf { theta: 0.9 }, requests, 4 << 20)
    }
}

fn gauge(row: &Row, name: &str) -> f64 {
    let gauge = row.gauge(name);
    gauge.unwrap_or_else(|| panic!("{}: no {name}", row.design))
}

fn device(row: &Row, role: Role) -> &DeviceAccount {
    let mut devices = row.devices.iter();
    let found = devices.find(|device| device.role == role.to_string());
    found.expect("a device of that role")
}

fn run_one(setup: &Setup, plan: &Arc<Plan>) -> Row {
    let row = try_run::<Indexless<SecondChance>>(setup, plan);
    row.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_flash_cache_runs_on_the_small_pair_in_both_engines() {
    let real = Engine::Real {
        client_threads: 1,
        profile: false,
    };
    for (engine, requests) in [(Engine::Virtual, 3_000), (real, 60)] {
        let setup = Setup {
            engine,
            cache_bytes: 1 << 20,
            ..small_pair()
        };
        let plan = planned(&generated(zipf(requests, 0.6)), &setup);
        let request = Compare {
            setup,
            designs: FLASH_CACHES.iter().collect(),
            plans: vec![plan],
            cache_spec: "test".into(),
            commit: "test".into(),
            jobs: 1,
        };
        let comparison = compare(&request, &Arc::new(AtomicBool::new(false)));
        let comparison = comparison.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(comparison.rows.len(), FLASH_CACHES.len());
        for row in &comparison.rows {
            assert!(row.complete, "{}", row.design);
            assert_eq!(row.verified_reads, row.reads, "{}", row.design);
            assert_eq!(gauge(row, "read_pages"), row.reads as f64);
            // A request of each slot may come in at once.
            let cached = gauge(row, "cached_sectors");
            assert!(cached <= 256.0 + 8.0, "{}: {cached}", row.design);
        }
        assert!(table::render(&comparison, 100).contains("indexless"));
        assert!(html::render(&comparison).contains("seeks"));
    }
}

/// What a workload reads lies on the disk through the store before the run begins, and in the cache it takes flash as data
/// does. Nothing of how it came there is in the row.
#[test]
fn what_is_read_first_costs_seeks_and_takes_room() {
    let setup = small_pair();
    let plan = planned(&generated(zipf(400, 1.0)), &setup);
    let row = run_one(&setup, &plan);
    let (cache, disk) = (device(&row, Role::Cache), device(&row, Role::Backing));
    let seeks = disk.read_seeks.unwrap();
    assert!(seeks > 100, "{seeks} seeks");
    assert_eq!(
        disk.seeks, disk.read_seeks,
        "nothing is written in a run of reads"
    );
    assert_eq!(disk.written_pages, 0);
    let ratio = cache.compression.as_ref().unwrap().physical_ratio.unwrap();
    assert!((1.3..3.0).contains(&ratio), "{ratio}");
    assert_eq!(gauge(&row, "disk_pages_stored"), 0.0);
    // Chunks of 32 pages are read whole.
    let chunks = gauge(&row, "disk_chunks_read");
    assert!(disk.read_pages as f64 > 8.0 * chunks, "{disk:?}");
    let empty = Setup {
        prepare: Prepare::Empty,
        ..small_pair()
    };
    let row = run_one(&empty, &plan);
    // Making the store is all that there is.
    assert!(device(&row, Role::Backing).seeks < Some(4));
}

/// The CPU that fills the disk before the run has done nothing when it begins.
#[test]
fn bringing_data_there_is_in_no_profile() {
    let setup = small_pair();
    let plan = planned(&generated(zipf(1, 1.0)), &setup);
    let one_page = run_one(&setup, &plan);
    let plan = planned(&generated(zipf(400, 1.0)), &setup);
    let many = run_one(&setup, &plan);
    let written = |row: &Row| row.drivers.iter().map(|did| did.writes).sum::<u64>();
    assert!(written(&one_page) <= 1, "the page that came into the cache");
    assert!(written(&many) <= 400, "{}", written(&many));
}

#[test]
fn a_drive_that_shows_too_little_is_refused_with_what_is_needed() {
    let mut setup = small_pair();
    setup.cache_mut().drive.ftl.shown_bytes = 20 << 20;
    let plan = planned(&generated(zipf(10, 1.0)), &setup);
    let refused = try_run::<Indexless<SecondChance>>(&setup, &plan);
    let error = refused.map(drop).unwrap_err();
    assert!(
        matches!(error, RunError::ShowTooLittle { needed_bytes, .. } if needed_bytes > 32 << 20),
        "{error}"
    );
    assert!(error.to_string().contains("drive.ftl.shown_bytes"));
}

/// A store of units has two slots for each: half of the disk can be addressed, and no request goes beyond.
#[test]
fn a_store_that_needs_room_for_itself_shows_less() {
    let mut setup = small_pair();
    let own = IndexlessConfig {
        store: Store::Fixed,
        ..IndexlessConfig::default()
    };
    setup.host.design.set::<Indexless<SecondChance>>(&own);
    let all: Vec<_> = FLASH_CACHES.iter().collect();
    let (shown, whole) = (setup.addressable_bytes(&all), setup.volume_bytes());
    assert!(shown < whole / 2 && shown > whole * 2 / 5, "{shown}");
    let plan = planned(&generated(spec(Pattern::Uniform, 500, 6 << 20)), &setup);
    let row = run_one(&setup, &plan);
    assert_eq!(row.verified_reads, row.reads);
    // Units of 8 pages are read, changed and written for each page that leaves.
    let stored = gauge(&row, "disk_pages_stored");
    assert!(stored > 2.0 * gauge(&row, "disk_pages_given"), "{stored}");
}

/// Data that does not compress is a matter of one key for each of drive and chunks.
#[test]
fn incompressible_data_is_a_row_like_any_other() {
    let mut setup = small_pair();
    setup.cache_mut().drive = {
        let mut raw = drive("tc-csd-small", &["compression.sizes=ratio=1.0"]);
        raw.ftl.shown_bytes = setup.cache().drive.ftl.shown_bytes;
        raw
    };
    let plan = planned(&generated(zipf(400, 0.5)), &setup);
    let row = run_one(&setup, &plan);
    let ratio = device(&row, Role::Cache).compression.as_ref().unwrap();
    let ratio = ratio.physical_ratio.unwrap();
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}

/// An index changes what is known of where things lie, and at what price in memory: where the CPU costs nothing, its cache
/// does what `lru` does. (After every eighth round that one writes a snapshot of its heat, and so the run has fewer rounds.)
#[test]
fn with_an_index_the_cache_does_what_lru_does_in_more_memory() {
    let mut setup = Setup {
        cache_bytes: 1 << 20,
        costs: CostTable::free(),
        ..small_pair()
    };
    let own = IndexlessConfig {
        round_share: 0.25,
        ..IndexlessConfig::default()
    };
    setup.host.design.set::<Indexless<OpenCas>>(&own);
    let plan = planned(&generated(zipf(1_000, 0.6)), &setup);
    let done = |row: Result<Row, RunError>| row.unwrap_or_else(|error| panic!("{error}"));
    let index = done(try_run::<Indexless<OpenCas>>(&setup, &plan));
    let list = done(try_run::<Indexless<LruBatch>>(&setup, &plan));
    assert_eq!(index.verified_reads, index.reads);
    assert!(index.hit_ratio.unwrap() > 0.2, "{:?}", index.hit_ratio);
    assert_eq!(index.hit_ratio, list.hit_ratio);
    assert_eq!(index.elapsed_seconds, list.elapsed_seconds);
    let seeks = |row: &Row| device(row, Role::Backing).seeks;
    assert_eq!(seeks(&index), seeks(&list));
    // 32 bytes of an entry, 4 of a bucket, for each sector that there may be.
    let bytes = gauge(&index, "index_bytes");
    assert!(
        (36.0 * 256.0..36.0 * 256.0 + 200.0).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(index.gauge("bitmap_bytes"), None);
}
