//! Times of preset `hdd` against closed forms, and the elevator against what disks are known to gain.

use wharf_drive::config::{DiskConfig, DriveConfig};
use wharf_drive::disk::DiskGeometry;
use wharf_runtime::{Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;

use crate::support::configs::hdd;
use crate::support::rig::Rig;

fn disk(config: &DriveConfig) -> DiskConfig {
    config.disk.clone().expect("it is a disk")
}

fn is_near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() <= share
}

/// The mean over all pairs of cylinders: distance `d` of `n` cylinders has `2 (n - d) / n^2` of them.
#[test]
fn the_mean_seek_over_uniform_distances_is_the_quoted_one() {
    let geometry = DiskGeometry::new(&disk(&hdd()));
    let cylinders = geometry.cylinders();
    let n = f64::from(cylinders);
    let mean_ns: f64 = (1..cylinders)
        .map(|d| geometry.seek_ns(d) as f64 * 2.0 * (n - f64::from(d)) / (n * n))
        .sum();
    assert!(is_near(mean_ns, 8_500_000.0, 0.002), "{mean_ns}");
    assert!(
        is_near(geometry.seek_ns(1) as f64, 826_000.0, 0.02),
        "{}",
        geometry.seek_ns(1)
    );
    assert!(is_near(
        geometry.seek_ns(cylinders - 1) as f64,
        15_255_300.0,
        0.001
    ));
    // The curve is one: longer seeks take longer, also where its branches meet.
    assert!((2..cylinders).all(|d| geometry.seek_ns(d) >= geometry.seek_ns(d - 1)));
    // 320,800 tracks a surface: the shape was not fitted to it.
    assert!(is_near(n, 320_800.0, 0.07), "{cylinders} cylinders");
}

#[test]
fn the_mean_wait_for_the_turn_is_half_a_turn() {
    let geometry = DiskGeometry::new(&disk(&hdd()));
    let mut rng = Seed(3).rng();
    let waits = (0..100_000).map(|_| {
        let place = geometry.place(rng.below(400_000_000) as u32);
        let wait_ns = geometry.rotation_ns(rng.below(1 << 40), &place);
        assert!(wait_ns < geometry.turn_ns());
        wait_ns as f64
    });
    let mean_ns = waits.sum::<f64>() / 100_000.0;
    assert!(is_near(mean_ns, 4_166_667.0, 0.01), "{mean_ns}");
}

#[test]
fn every_sector_has_a_place_of_its_own_and_neighbours_lie_together() {
    let mut config = disk(&hdd());
    (config.capacity_bytes, config.zones, config.heads) = (20_000 << 12, 3, 3);
    let geometry = DiskGeometry::new(&config);
    let mut before = geometry.place(0);
    assert_eq!((before.cylinder, before.head, before.index), (0, 0, 0));
    for sector in 1..20_000 {
        let place = geometry.place(sector);
        let at = (place.cylinder, place.head, place.index);
        let next = match before.index + 1 < before.track_sectors {
            true => (before.cylinder, before.head, before.index + 1),
            false if before.head + 1 < 3 => (before.cylinder, before.head + 1, 0),
            false => (before.cylinder + 1, 0, 0),
        };
        assert_eq!(at, next, "{sector}");
        before = place;
    }
    assert!(before.cylinder < geometry.cylinders());
}

/// Sequential reads of MiBs from the beginning of each zone: as fast as its tracks pass, with a change
/// of heads after each and a step after the last of a cylinder.
#[test]
fn sequential_reads_come_at_the_rate_of_their_zone() {
    let config = hdd();
    let own = disk(&config);
    let geometry = DiskGeometry::new(&own);
    let mut rates = Vec::new();
    for (zone, start) in (0..own.zones).zip(geometry.zone_starts()).step_by(23) {
        let (pages, elapsed_ns, did) = read_on(&config, start, 64);
        let tracks = f64::from(own.heads);
        let skew = |ns: u64| {
            let slot_ns = geometry.turn_ns() as f64 / f64::from(own.track_sectors(zone));
            (ns as f64 / slot_ns).ceil() * slot_ns
        };
        let round_ns = tracks * geometry.turn_ns() as f64
            + (tracks - 1.0) * skew(own.head_switch_ns)
            + skew(geometry.seek_ns(1));
        let round_pages = tracks * f64::from(own.track_sectors(zone));
        let expected = round_pages / round_ns;
        let found = pages as f64 / elapsed_ns as f64;
        assert!(
            is_near(found, expected, 0.02),
            "zone {zone}: {found} {expected}"
        );
        assert!(did.seeks <= 1, "{}", did.seeks);
        rates.push(found * 4096.0 * 1000.0);
        println!("zone {zone}: {:.1} MB/s", found * 4.096e6);
    }
    // What the manual says of its outermost and innermost tracks.
    assert!(
        is_near(rates[0], 175.0, 0.02) && is_near(rates[1], 83.0, 0.02),
        "{rates:?}"
    );
}

/// Reads `commands` commands of 1 MiB one after the other; gives pages, time, and what the disk did.
fn read_on(config: &DriveConfig, first: u64, commands: u64) -> (u64, u64, DriveStatistics) {
    let mut rig = Rig::new(config.clone());
    rig.run(move |mut host| async move {
        let mut start_ns = 0;
        let mut before = host.statistics().await;
        // The first brings the head there.
        for number in 0..=commands {
            let command = Command::read(1, first + number * 256, 256);
            let command = host.aim(command, 256, 0, 0);
            assert_eq!(host.io(command).await, StatusCode::Success);
            if number == 0 {
                start_ns = host.cpu.now();
                before = host.statistics().await;
            }
        }
        let elapsed_ns = host.cpu.now() - start_ns;
        (
            commands * 256,
            elapsed_ns,
            host.statistics().await.since(&before),
        )
    })
}

/// Random reads of a sector with `depth` of them under way; gives reads a second, and what the disk did.
fn random_reads(config: &DriveConfig, depth: u64, count: u64, seed: u64) -> (f64, DriveStatistics) {
    let mut rig = Rig::new(config.clone());
    rig.depth = 64;
    let pages = config.namespace_pages();
    rig.run(move |mut host| async move {
        let mut rng = Seed(seed).child("reads").rng();
        let start_ns = host.cpu.now();
        let send = |host: &mut crate::support::host::Host, rng: &mut Rng, slot: usize| {
            let command = Command::read(1, rng.below(pages), 1);
            let command = host.aim(command, 1, slot, 0);
            host.send(0, command);
        };
        for slot in 0..depth {
            send(&mut host, &mut rng, slot as usize);
        }
        for number in depth..count + depth {
            let done = host.next(0).await;
            assert_eq!(crate::support::host::code(&done), StatusCode::Success);
            if number < count {
                send(&mut host, &mut rng, (number % 512) as usize);
            }
        }
        let elapsed_ns = host.cpu.now() - start_ns;
        (
            count as f64 * 1e9 / elapsed_ns as f64,
            host.statistics().await,
        )
    })
}

/// The mean seek between random sectors, of which outer cylinders have more.
fn mean_seek_ns(geometry: &DiskGeometry, pages: u64) -> f64 {
    let mut rng = Seed(11).rng();
    let mut cylinder = || geometry.place(rng.below(pages) as u32).cylinder;
    let seeks = (0..400_000).map(|_| geometry.seek_ns(cylinder().abs_diff(cylinder())) as f64);
    seeks.sum::<f64>() / 400_000.0
}

#[test]
fn random_reads_one_at_a_time_take_a_seek_half_a_turn_and_a_sector() {
    let mut config = hdd();
    disk_of(&mut config).read_ahead_bytes = 0;
    let geometry = DiskGeometry::new(&disk(&config));
    let (reads_s, did) = random_reads(&config, 1, 6_000, 1);
    let positioning_ns = mean_seek_ns(&geometry, config.namespace_pages()) + 4_166_667.0;
    let transfer_ns = 8_333_333.0 / 430.0;
    let link_ns = 2.0 * 20_000.0 + 7_447.0;
    let expected = 1e9 / (positioning_ns + transfer_ns + link_ns);
    println!("{reads_s:.1} reads/s, closed form {expected:.1}");
    assert!(is_near(reads_s, expected, 0.01), "{reads_s} {expected}");
    let found_ns = did.positioning_ns as f64 / did.seeks as f64;
    assert!(
        is_near(found_ns, positioning_ns, 0.01),
        "{found_ns} {positioning_ns}"
    );
    assert_eq!((did.host_read_pages, did.media_reads), (6_000, 6_000));
    assert!(did.seeks >= 5_999);
}

/// Disks of 7200 turns gain about a factor of two from NCQ at depth 32, and those of the simulations of
/// scheduling by positioning time up to 2.5 (docs/disk.md has both).
#[test]
fn the_elevator_gains_with_depth_as_disks_do() {
    let config = hdd();
    let rates: Vec<f64> = [1, 2, 4, 8, 16, 32]
        .into_iter()
        .map(|depth| random_reads(&config, depth, 4_000, 5).0)
        .collect();
    println!("reads/s at depth 1, 2, 4, 8, 16, 32: {rates:.1?}");
    assert!(
        rates.windows(2).all(|two| two[1] > two[0] * 0.99),
        "{rates:?}"
    );
    let gain = rates[5] / rates[0];
    assert!((1.8..2.8).contains(&gain), "{gain}");
    let mut in_order = config;
    disk_of(&mut in_order).queue_depth = 1;
    let served_in_order = random_reads(&in_order, 32, 2_000, 5).0;
    assert!(
        is_near(served_in_order, rates[0], 0.03),
        "{served_in_order} {rates:?}"
    );
}

/// With ageing nobody waits much longer than others.
#[test]
fn ageing_bounds_the_longest_wait() {
    let longest = |aging_share| {
        let mut config = hdd();
        disk_of(&mut config).aging_share = aging_share;
        longest_wait_ns(&config)
    };
    let (without, with) = (longest(0.0), longest(0.05));
    println!(
        "longest wait {:.0} ms without ageing, {:.0} ms with",
        without as f64 / 1e6,
        with as f64 / 1e6
    );
    assert!(with * 2 < without, "{without} {with}");
    // 32 commands of some 6 ms, and what 0.05 gives way to.
    assert!(with < 32 * 6_000_000 + 25_000_000 * 20, "{with}");
}

fn longest_wait_ns(config: &DriveConfig) -> u64 {
    let mut rig = Rig::new(config.clone());
    rig.depth = 64;
    let pages = config.namespace_pages();
    rig.run(move |mut host| async move {
        let mut rng = Seed(9).rng();
        let mut sent: Vec<(u16, u64)> = Vec::new();
        let mut longest = 0;
        for number in 0..6_000u64 {
            if number >= 32 {
                let done = host.next(0).await;
                let at = sent
                    .iter()
                    .position(|(cid, _)| *cid == done.cid)
                    .expect("sent");
                longest = longest.max(host.cpu.now() - sent.swap_remove(at).1);
            }
            let command = Command::read(1, rng.below(pages), 1);
            let command = host.aim(command, 1, (number % 512) as usize, 0);
            sent.push((host.send(0, command), host.cpu.now()));
        }
        while let Some((_, since_ns)) = sent.pop() {
            host.next(0).await;
            longest = longest.max(host.cpu.now().saturating_sub(since_ns).min(longest));
        }
        longest
    })
}

fn disk_of(config: &mut DriveConfig) -> &mut DiskConfig {
    config.disk.as_mut().expect("it is a disk")
}

/// A write cache takes what fits at the speed of the link, and the arm works it off by position.
#[test]
fn the_write_cache_acknowledges_at_once_and_sorts() {
    let rate = |write_cache: bool| {
        let mut config = hdd();
        disk_of(&mut config).write_cache = write_cache;
        let pages = config.namespace_pages();
        let mut rig = Rig::new(config);
        rig.run(move |mut host| async move {
            let mut rng = Seed(4).rng();
            for _ in 0..200 {
                assert_eq!(
                    host.write(rng.below(pages), 1, 3).await,
                    StatusCode::Success
                );
            }
            let acknowledged_ns = host.cpu.now();
            assert_eq!(host.io(Command::flush(1)).await, StatusCode::Success);
            (acknowledged_ns, host.cpu.now())
        })
    };
    let (cached, through) = (rate(true), rate(false));
    println!("200 random writes: {cached:?} ns with a cache, {through:?} without");
    assert!(cached.0 < 200 * 100_000, "{cached:?}");
    // Write through, one at a time: a seek to write, 9.5 ms less what zones take off, and half a turn.
    assert!(
        is_near(through.0 as f64 / 200.0, 13_300_000.0, 0.08),
        "{through:?}"
    );
    assert!(cached.1 * 2 < through.1, "{cached:?} {through:?}");
}
