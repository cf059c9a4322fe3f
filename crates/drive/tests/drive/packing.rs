//! Drives that compress: what they hold, what they refuse, and what their packing costs.

use wharf_codec::{Codec, Sizes, TableName};
use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_drive::ftl::Ftl;
use wharf_drive::{Drive, Overwrite, PowerSwitch, Precondition};
use wharf_runtime::Seed;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_timed};
use crate::support::host::{Host, random_words};
use crate::support::rig::Rig;

/// A small drive of units of 4 pages, thin enough to be full before it is written all over.
fn packed(mut config: DriveConfig, codec: Codec) -> DriveConfig {
    config.geometry.blocks_per_plane = 24;
    config.geometry.pages_per_block = 16;
    config.geometry.unit_pages = 4;
    config.compression.codec = codec;
    config.ftl.write_buffer_pages = 32;
    config.ftl.over_provisioning = 0.5;
    config
}

/// The same, of which half of the namespace may be filled with what does not compress.
fn thin(kind: MediaKind) -> DriveConfig {
    let mut config = packed(tiny_timed(), Codec::Lz4);
    config.media.kind = kind;
    config.ftl.capacity_share = 0.5;
    config
}

/// The value of a page that compresses to nearly nothing, or not at all.
fn value(compresses: bool, salt: u64) -> u64 {
    let is_wanted = |value: &u64| (random_words(*value) < 512) == compresses;
    let narrow = |value: &u64| !compresses || random_words(*value) < 8;
    (salt << 20..)
        .find(|value| is_wanted(value) && narrow(value))
        .expect("some")
}

async fn used(host: &mut Host) -> (u64, u64) {
    let statistics = host.statistics().await;
    (statistics.used_granules, statistics.capacity_granules)
}

#[test]
fn a_drive_takes_pages_that_do_not_compress_up_to_its_last_granule() {
    let config = thin(MediaKind::Ram);
    let mut rig = Rig::new(config);
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let (_, capacity) = used(&mut host).await;
        let fits = capacity / 64;
        assert!(fits < pages, "the drive is not thin");
        for lba in 0..fits {
            let written = host.write(lba, 1, value(false, lba + 1)).await;
            assert_eq!(written, StatusCode::Success, "page {lba} of {fits}");
        }
        assert_eq!(used(&mut host).await, (capacity, capacity));
        let refused = host.write(fits, 1, value(true, 900)).await;
        assert_eq!(refused, StatusCode::CapacityExceeded, "one granule more");
        assert_eq!(
            host.read(fits).await,
            Ok(0),
            "a refused write changed its page"
        );
        for round in 0..4 * fits {
            let lba = round * 7 % fits;
            let written = host.write(lba, 1, value(false, round + 2000)).await;
            assert_eq!(written, StatusCode::Success, "an overwrite at full");
        }
        assert_eq!(host.deallocate(&[(3, 2)]).await, StatusCode::Success);
        for lba in [fits, fits + 1] {
            let written = host.write(lba, 1, value(false, lba + 5000)).await;
            assert_eq!(written, StatusCode::Success, "space was given back");
        }
        let refused = host.write(3, 1, value(false, 7000)).await;
        assert_eq!(refused, StatusCode::CapacityExceeded);
        assert_eq!(host.flush().await, StatusCode::Success);
        assert!(
            host.statistics().await.gc_moved_pages > 0,
            "collection at full"
        );
    });
}

#[test]
fn an_overwrite_that_grows_is_refused_at_full_and_leaves_the_old_page() {
    let config = thin(MediaKind::Ram);
    let mut rig = Rig::new(config);
    rig.run(move |mut host| async move {
        let (_, capacity) = used(&mut host).await;
        let fits = capacity / 64 - 1;
        let small = value(true, 77);
        assert_eq!(host.write(fits, 1, small).await, StatusCode::Success);
        for lba in 0..fits {
            let written = host.write(lba, 1, value(false, lba + 1)).await;
            assert_eq!(written, StatusCode::Success, "page {lba}");
        }
        let (taken, _) = used(&mut host).await;
        assert!(
            capacity - taken < 64 && capacity - taken > 48,
            "{taken} of {capacity}"
        );
        let grown = host.write(fits + 1, 1, value(false, 78)).await;
        assert_eq!(grown, StatusCode::CapacityExceeded);
        // The small page frees itself, but another takes its granules first.
        assert_eq!(
            host.write(fits + 1, 1, value(true, 79)).await,
            StatusCode::Success
        );
        let grown = host.write(fits, 1, value(false, 80)).await;
        assert_eq!(
            grown,
            StatusCode::CapacityExceeded,
            "it needs more than is free"
        );
        assert_eq!(host.read(fits).await, Ok(small), "the old content stays");
        assert_eq!(
            host.write(0, 1, value(true, 81)).await,
            StatusCode::Success,
            "it shrinks"
        );
        assert_eq!(
            host.write(fits, 1, value(false, 82)).await,
            StatusCode::Success
        );
    });
}

/// Space is counted by what is kept and not by a ratio: pages that compress leave the rest of the
/// flash for others, byte for byte.
#[test]
fn pages_that_compress_leave_room_for_as_many_more() {
    let config = thin(MediaKind::Ram);
    let mut rig = Rig::new(config);
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        for lba in 0..pages {
            let written = host.write(lba, 1, value(true, lba + 1)).await;
            assert_eq!(written, StatusCode::Success, "page {lba} of {pages}");
        }
        let (taken, capacity) = used(&mut host).await;
        assert!(
            taken >= pages && taken <= 3 * pages,
            "{taken} granules of {pages} pages"
        );
        assert!(taken < capacity);
        for lba in 0..pages {
            assert_eq!(host.read(lba).await, Ok(value(true, lba + 1)), "page {lba}");
        }
    });
}

#[test]
fn a_page_of_zeros_takes_no_granule_and_stays_allocated() {
    let mut rig = Rig::new(packed(tiny(), Codec::Zlib));
    rig.run(|mut host| async move {
        assert_eq!(host.write(5, 1, value(false, 1)).await, StatusCode::Success);
        assert!(used(&mut host).await.0 > 40);
        assert_eq!(host.write(5, 1, 0).await, StatusCode::Success);
        let statistics = host.statistics().await;
        assert_eq!((statistics.used_granules, statistics.mapped_pages), (0, 1));
        assert_eq!(host.read(5).await, Ok(0));
    });
}

/// Writes one page at a time with FUA, which pads, and without, which packs.
async fn padding(host: &mut Host, forced: bool) -> DriveStatistics {
    for round in 0..64 {
        let status = match forced {
            true => host.write_forced(round % 16, value(true, round)).await,
            false => host.write(round % 16, 1, value(true, round)).await,
        };
        assert_eq!(status, StatusCode::Success);
    }
    assert_eq!(host.flush().await, StatusCode::Success);
    host.statistics().await
}

#[test]
fn force_unit_access_pads_units_unless_capacitors_protect_them() {
    let run = |forced, protected| {
        let mut config = packed(tiny_timed(), Codec::Lz4);
        config.ftl.volatile_write_cache = true;
        config.ftl.power_loss_protection = protected;
        // Eight host frames a plane: a unit is not closed for want of them.
        config.ftl.write_buffer_pages = 96;
        config.media.kind = MediaKind::Ram;
        let mut rig = Rig::new(config);
        rig.run(move |mut host| async move { padding(&mut host, forced).await })
    };
    let (packs, pads, protected) = (run(false, false), run(true, false), run(true, true));
    assert!(pads.unit_programs >= 63, "{} units", pads.unit_programs);
    assert!(
        pads.padding_granules > 200 * 64,
        "{}",
        pads.padding_granules
    );
    assert!(packs.unit_programs <= 5, "{} units", packs.unit_programs);
    assert!(
        protected.unit_programs <= 4,
        "{} units",
        protected.unit_programs
    );
    assert_eq!(protected.padding_granules, 0);
}

#[test]
fn a_unit_waits_for_company_as_long_as_it_is_told() {
    let run = |pack_wait_ns| {
        let mut config = packed(tiny_timed(), Codec::Lz4);
        config.compression.pack_wait_ns = pack_wait_ns;
        let mut rig = Rig::new(config);
        rig.queues_per_client = 4;
        let statistics = rig.run(|mut host| async move {
            for round in 0..8 {
                for queue in 0..4 {
                    host.fill(queue, 100 + round * 4 + queue as u64);
                    let address = host.data.address(queue);
                    let command = wharf_wire::command::Command::write(1, queue as u64, 1);
                    host.send(queue, command.with_prp(address, 0));
                    let later = host.cpu.now() + 900;
                    let cpu = host.cpu.clone();
                    cpu.sleep_until(later).await;
                }
                for queue in 0..4 {
                    host.next(queue).await;
                }
            }
            host.statistics().await
        });
        (statistics.unit_programs, rig.elapsed_ns)
    };
    let (at_once, waiting) = (run(0), run(4_000));
    assert_eq!(at_once.0, 32, "each write is a unit of its own");
    assert!(waiting.0 <= 16, "{} units", waiting.0);
    assert!(waiting.1 > at_once.1, "but writes take longer");
}

/// A drive of 64 MiB in stamps, with the over-provisioning of preset tc-csd.
fn middling(sizes: &str) -> DriveConfig {
    let mut config = tiny_timed();
    config.geometry.dies_per_channel = 4;
    config.geometry.blocks_per_plane = 64;
    config.geometry.pages_per_block = 64;
    config.geometry.unit_pages = 4;
    config.ftl.write_buffer_pages = 512;
    config.ftl.over_provisioning = 0.12;
    config.ftl.volatile_write_cache = true;
    config.compression.codec = Codec::Zlib;
    config.compression.sizes = sizes.parse::<TableName>().expect("a table");
    config
}

/// Fills a drive's namespace once, in order: what its pages take together, and what they take on flash.
fn filled(sizes: &str) -> (f64, f64) {
    let mut rig = Rig::new(middling(sizes));
    let (mut used, mut on_flash) = (0.0, 0.0);
    rig.precondition(&Precondition {
        fill_share: 0.5,
        overwrite: Overwrite::Share(0.0),
        seed: Seed(1),
    });
    rig.inspect(|_, ftl| {
        used += ftl.used_granules() as f64;
        let slots = ftl.plan().slots_per_block;
        let blocks = ftl.plan().blocks;
        let media = ftl.media_mut();
        let written = |block| wharf_drive::media::Media::written_slots(media, block);
        let units: u32 = (0..blocks).map(written).sum();
        assert!(units > 4 * slots);
        on_flash += f64::from(units) * 256.0;
    });
    (used, on_flash)
}

#[test]
fn units_are_filled_to_more_than_nine_tenths() {
    for (sizes, least) in [
        ("system", 0.94),
        ("ratio=2.0,spread=0.5", 0.90),
        ("incompressible", 0.999),
    ] {
        let (used, on_flash) = filled(sizes);
        let share = used / on_flash;
        println!("{sizes}: {share:.4} of the flash programmed is data");
        assert!(share >= least, "{sizes}: {share:.4}");
    }
}

/// Granules programmed for each granule that is overwritten, in steady state, of a drive of which the
/// host uses this share of the capacity; and the share of the flash that is valid.
fn steady(used_share: f64) -> (f64, f64) {
    let mut config = middling("system");
    config.geometry.blocks_per_plane = 128;
    config.geometry.pages_per_block = 256;
    config.ftl.over_provisioning = 0.07;
    // More than twice what the flash holds: pages take about half of theirs.
    config.ftl.shown_bytes = config.geometry.pages() * 4096 * 5 / 2;
    let shown = config.namespace_pages();
    let drive = Drive::new(config.clone()).expect("it can be built");
    let plan = config.plan().expect("it can be built");
    let sizes = Sizes::new(&TableName::System.load().expect("it is built in"), 1);
    let of = |name: u64| f64::from(sizes.page_bytes(name << 32).div_ceil(64));
    let mean_granules = (1..10_000).map(of).sum::<f64>() / 9_999.0;
    let pages = used_share * f64::from(plan.capacity_pages) * 64.0 / mean_granules;
    let options = Precondition {
        fill_share: pages / shown as f64,
        overwrite: Overwrite::UntilSteady,
        seed: Seed(3),
    };
    let (drive, results) = drive.precondition(&options).expect("it fits");
    let mut media = drive.into_media();
    let ftl = Ftl::open(&config, plan.clone(), media.remove(0), PowerSwitch::on());
    let ftl = ftl.expect("it was written by this drive");
    let flash = f64::from(plan.blocks) * f64::from(plan.weight_per_block);
    let amplification = results[0].write_amplification * 64.0 / mean_granules;
    (amplification, ftl.used_granules() as f64 / flash)
}

/// The curve of `docs/compression.md`. Of uniform overwrites the age model (Desnoyers, 2012) knows the
/// amplification; collection stays near it, though units that it closes early leave some flash empty.
#[test]
fn amplification_grows_with_physical_fullness_as_theory_says() {
    let mut before = 0.0;
    for percent in [40, 60, 70, 80, 85, 90, 95] {
        let (amplification, valid) = steady(f64::from(percent) / 100.0);
        // A twentieth of what is programmed is left empty, or takes directories.
        let theory = of_age_model(valid / 0.95);
        println!(
            "{percent} % used, {valid:.3} of the flash valid: {amplification:.3}, theory {theory:.3}"
        );
        assert!(amplification > before - 0.02, "it grows");
        assert!(
            amplification < 1.5 * theory,
            "{percent} %: {amplification:.3} for {theory:.3}"
        );
        before = amplification;
    }
}

/// Amplification where the oldest block is collected: `1 / (1 - v)`, with `u = (v - 1) / ln v`.
fn of_age_model(u: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let v: f64 = (low + high) / 2.0;
        match (v - 1.0) / v.ln() < u {
            true => low = v,
            false => high = v,
        }
    }
    1.0 / (1.0 - low)
}
