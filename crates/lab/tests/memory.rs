//! What a replay in virtual time takes for each miss of a cache: nothing that stays.
//!
//! A binary of its own, because a program has one allocator.

#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::indexless::bitmap::Bitmap;
use wharf_host::indexless::index::LineIndex;
use wharf_host::indexless::part::SECTORS;
use wharf_host::indexless::word::Word;
use wharf_lab::config::{Sets, load_costs, load_drive, load_host};
use wharf_lab::designs::find;
use wharf_lab::input::{ClientRule, Input, Made, plan};
use wharf_lab::progress::Progress;
use wharf_lab::replay::Setup;
use wharf_runtime::{CostTable, Machine, Seed, Side};
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};

struct Counting;

thread_local! {
    /// Bytes that this thread allocated and nobody freed: virtual time is one thread.
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    /// The most there were.
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above; the pointer came from `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a run of so many requests takes at its peak, beside its requests. Footprint and cache are such
/// that all but one in sixty-four miss.
fn peak_bytes(design: &str, layout: &str, drives: u32, requests: u64) -> i64 {
    let shape = [
        "drive.geometry.channels=2",
        "drive.geometry.dies_per_channel=2",
        "drive.geometry.blocks_per_plane=32",
        "drive.geometry.pages_per_block=32",
        "drive.firmware.cores=2",
        "drive.ftl.over_provisioning=0.25",
        &format!("host.layout={layout}"),
    ]
    .map(String::from);
    let sets = Sets::parse(&shape).expect("keys and values");
    let drive = load_drive("scala", &sets).expect("a preset").0;
    let host = load_host("default", &sets).expect("a preset").0;
    let setup = Setup {
        cache_bytes: 128 << 10,
        clients: 2,
        depth: 8,
        ..Setup::new(
            drive,
            drives,
            host,
            load_costs("default").expect("a preset").0,
        )
    };
    let spec = GeneratorSpec {
        pattern: Pattern::Uniform,
        requests,
        footprint_bytes: 8 << 20,
        sizes: Sizes::fixed(4096).expect("a size"),
        read_share: 0.5,
        seed: 7,
    };
    let input = Input::Generated {
        name: "test".into(),
        parameters: BTreeMap::new(),
        spec: Box::new(Made::Pattern(spec)),
    };
    let device_bytes = setup.volume_bytes();
    let plan = plan(
        &input,
        FitMode::Wrap,
        ClientRule::RoundRobin,
        2,
        device_bytes,
    );
    let plan = Arc::new(plan.unwrap_or_else(|error| panic!("{error}")));
    let before_bytes = LIVE_BYTES.get();
    PEAK_BYTES.set(before_bytes);
    let run = find(design).expect("a design").run;
    let stop = Arc::new(AtomicBool::new(false));
    let row = run(&setup, &plan, Progress::hidden(), &stop);
    let row = row.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        row.hit_ratio.unwrap_or(0.0) < 0.1,
        "{design} hits too often"
    );
    PEAK_BYTES.get() - before_bytes
}

/// Every transfer of `kernel`, `falcon` and `scale`, and every write to RAID-5, left a task behind when it had
/// ended: 120 bytes and more for each miss, so that a trace of 10 million misses took more than a gigabyte.
///
/// It may take 10 MiB more than `direct`, which is 1.05 bytes for a miss. What a run takes at its peak is
/// compared at 20,000 and at 320,000 requests, of which nine in ten at least miss: 300,000 more of them may take
/// 300,000 bytes more. Nodes that an index has given up wait for their readers, and come to some 100,000 bytes at
/// one time or another, however long the run is.
#[test]
fn each_miss_left_a_hundred_bytes_behind() {
    const FEW: u64 = 20_000;
    const MANY: u64 = 320_000;
    let grown_bytes = |design: &str, layout, drives| {
        peak_bytes(design, layout, drives, MANY) - peak_bytes(design, layout, drives, FEW)
    };
    let direct_bytes = grown_bytes("direct", "raid0", 1);
    for (design, layout, drives) in [
        ("clock", "raid0", 1),
        ("tri", "raid0", 1),
        ("kernel", "raid0", 1),
        ("falcon", "raid0", 1),
        ("scale", "raid0", 1),
        ("scale-dflush", "raid0", 1),
        ("scala", "raid0", 1),
        ("hardware", "raid0", 1),
        ("direct", "raid5", 3),
        ("kernel", "raid5", 3),
    ] {
        let more_bytes = grown_bytes(design, layout, drives) - direct_bytes;
        let allowed_bytes = (MANY - FEW) as i64;
        assert!(
            more_bytes <= allowed_bytes,
            "{design} on {layout}: {more_bytes} bytes more for {} requests",
            MANY - FEW
        );
    }
}

/// Bytes that a bitmap takes for each sector it says is cached, of a store of so many parts of which
/// `share` is cached in runs of `run` sectors at random places; raw parts have a budget of 1/32768 of
/// what is cached.
fn bitmap_bytes_per_sector(parts: u64, share: f64, run: u64) -> f64 {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("test", Side::Host, 1.0);
    let (sender, receiver) = std::sync::mpsc::channel();
    machine.spawn_main(id, "test", move |cpu| async move {
        let part_sectors = u64::from(SECTORS);
        let cached = (parts as f64 * part_sectors as f64 * share) as usize;
        let before = LIVE_BYTES.get();
        let bitmap = Bitmap::new(parts * part_sectors, cached * 4096 / 32_768, false);
        let mut rng = Seed(11).rng();
        for part in 0..parts {
            // Part by part, so that each is unpacked once; within it anywhere.
            for _ in 0..(part_sectors as f64 * share / run as f64).round() as u64 {
                let first = part * part_sectors + rng.below(part_sectors - run + 1);
                let heat = rng.below(4) as u8;
                let change = |_| Word::clean(heat);
                bitmap
                    .change(&cpu, first, run as u32, change)
                    .expect("all is known");
            }
        }
        let bytes = (LIVE_BYTES.get() - before) as f64;
        let of_sectors = bitmap.totals().cached as f64;
        // What it says of itself is what it takes.
        let said = bitmap.memory_bytes(&cpu) as f64;
        assert!(
            (said / bytes - 1.0).abs() < 0.02,
            "{said} said, {bytes} taken"
        );
        sender.send(bytes / of_sectors).expect("somebody listens");
    });
    machine.run_virtual(Seed(1)).expect("nothing waits");
    receiver.recv().expect("the test ran")
}

/// Bytes that an index takes for each sector that it says is cached, when it has as many as it is for.
fn index_bytes_per_sector(cached: u64) -> f64 {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("test", Side::Host, 1.0);
    let (sender, receiver) = std::sync::mpsc::channel();
    machine.spawn_main(id, "test", move |cpu| async move {
        let before = LIVE_BYTES.get();
        let index = LineIndex::new(cached);
        index.begin(&cpu, 32 * cached, false);
        let mut rng = Seed(11).rng();
        while index.totals().cached < cached {
            let come = |_| Word::clean(0);
            let known = index.change(&cpu, rng.below(32 * cached), 1, come);
            known.expect("all is known");
        }
        let bytes = (LIVE_BYTES.get() - before) as f64;
        let said = index.memory_bytes(&cpu) as f64;
        assert!(
            (said / bytes - 1.0).abs() < 0.001,
            "{said} said, {bytes} taken"
        );
        sender
            .send(bytes / cached as f64)
            .expect("somebody listens");
    });
    machine.run_virtual(Seed(1)).expect("nothing waits");
    receiver.recv().expect("the test ran")
}

/// GiB for a cached TiB, of bytes for a cached sector.
fn gib_per_tib(bytes: f64) -> f64 {
    bytes * 2f64.powi(28) / 2f64.powi(30)
}

/// The index that design `opencas` has in the place of the bitmap: 36 bytes a sector, less than the 54 of Open CAS itself.
#[test]
fn an_index_takes_36_bytes_for_each_sector() {
    let index = index_bytes_per_sector(1 << 20);
    eprintln!("GiB for a cached TiB: {:.3} an index", gib_per_tib(index));
    assert!((35.9..36.2).contains(&index), "{index} bytes a sector");
}

/// An index entry of 16 bytes, as Hao et al. have it for others (section II-B), takes 4 GiB for a TiB;
/// Open CAS takes 54 bytes, 13.5 GiB.
#[test]
fn a_bitmap_takes_far_less_than_an_index() {
    let single = bitmap_bytes_per_sector(32_768, 1.0 / 32.0, 1);
    let runs = bitmap_bytes_per_sector(32_768, 1.0 / 32.0, 8);
    eprintln!(
        "GiB for a cached TiB: {:.3} single sectors, {:.3} runs of 8",
        gib_per_tib(single),
        gib_per_tib(runs)
    );
    // 3 bits of a word, 7 of a position, 24 bytes of a part: and the budget of raw parts.
    assert!(gib_per_tib(single) < 0.40, "{single} bytes a single sector");
    assert!(
        gib_per_tib(runs) < 0.15,
        "{runs} bytes a sector in runs of 8"
    );
}
