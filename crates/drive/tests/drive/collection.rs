//! Collection uses the whole drive: all dies work while space is short, the host's reads are served
//! in between, and a quiet drive prepares for what may come and then rests.

use wharf_drive::config::{DriveConfig, Placement, Timing};
use wharf_drive::ftl::{Overwrite, Place, Precondition};
use wharf_runtime::{Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::statistics::DriveStatistics;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny;
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

/// Commands in flight.
const DEPTH: usize = 256;

/// The flash of the ScalaCache paper in small: half its dies, of 128 blocks of 64 pages; an erase
/// costs as much for each page as there.
fn drive(cores: u32, over_provisioning: f64) -> DriveConfig {
    let mut config = tiny();
    config.geometry.channels = 8;
    config.geometry.dies_per_channel = 2;
    config.geometry.blocks_per_plane = 128;
    config.geometry.pages_per_block = 64;
    config.timing = Timing {
        read_ns: 18_000,
        program_ns: 35_000,
        erase_ns: 250_000,
        channel_ns_per_page: 0,
    };
    config.firmware.cores = cores;
    config.firmware.stripe_pages = 8;
    config.firmware.commands_max = 512;
    config.firmware.parts_max = 256;
    config.ftl.over_provisioning = over_provisioning;
    config.ftl.gc_foreground_share = 0.01;
    config.ftl.gc_background_share = 0.03;
    config.ftl.gc_background_invalid_min = 0.125;
    config.ftl.write_buffer_pages = 2048;
    config.ftl.volatile_write_cache = false;
    config
}

/// A drive in steady state.
fn aged(config: DriveConfig) -> Rig {
    let mut rig = Rig::new(config);
    rig.depth = DEPTH as u32 + 2;
    rig.precondition(&Precondition {
        fill_share: 1.0,
        overwrite: Overwrite::Share(2.0),
        seed: Seed(3),
    });
    rig
}

/// Writes `count` single pages at random with [`DEPTH`] in flight.
async fn overwrite(host: &mut Host, rng: &mut Rng, pages: u64, count: u64) {
    overwrite_at(DEPTH as u64, host, rng, pages, count).await;
}

/// As [`overwrite`], with `depth` in flight.
async fn overwrite_at(depth: u64, host: &mut Host, rng: &mut Rng, pages: u64, count: u64) {
    for index in 0..count + depth {
        if index >= depth {
            assert_eq!(code(&host.next(0).await), StatusCode::Success);
        }
        if index < count {
            let command = Command::write(1, rng.below(pages), 1);
            host.send(0, command.with_prp(host.data.address(0), 0));
        }
    }
}

/// Writes a second that the dies can take at this write amplification.
fn bound(config: &DriveConfig, write_amplification: f64) -> f64 {
    let (t, wa) = (&config.timing, write_amplification);
    let erase_ns = t.erase_ns as f64 / f64::from(config.geometry.pages_per_block);
    let ns = wa * t.program_ns as f64 + (wa - 1.0) * t.read_ns as f64 + wa * erase_ns;
    f64::from(config.geometry.planes()) * 1e9 / ns
}

/// Seeds of the requests; a rate is the mean over them.
const SEEDS: [u64; 3] = [7, 8, 9];

/// Writes a second, and what the drive did meanwhile.
fn sustained(config: DriveConfig, seed: u64) -> (f64, DriveStatistics) {
    sustained_at(DEPTH as u64, config, seed)
}

/// As [`sustained`], with `depth` writes in flight.
fn sustained_at(depth: u64, config: DriveConfig, seed: u64) -> (f64, DriveStatistics) {
    let mut rig = aged(config);
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let mut rng = Seed(seed).rng();
        overwrite_at(depth, &mut host, &mut rng, pages, 40_000).await;
        let (before, start_ns) = (host.statistics().await, host.cpu.now());
        overwrite_at(depth, &mut host, &mut rng, pages, 60_000).await;
        let elapsed_ns = host.cpu.now() - start_ns;
        let run = host.statistics().await.since(&before);
        (60_000.0 * 1e9 / elapsed_ns as f64, run)
    })
}

/// A core that collected from one block after another, reading all of it from one die before it
/// wrote any of it elsewhere, left most of its dies idle: rates rose with the number of cores, and
/// reached 15 to 40 % of what the dies can do.
#[test]
fn sustained_writes_use_all_dies_and_not_only_the_cores() {
    let mut wrong = String::new();
    for over_provisioning in [0.12, 0.28] {
        for cores in [1, 2, 4, 8] {
            let config = drive(cores, over_provisioning);
            // Which requests meet decides some percent.
            let shares = SEEDS.map(|seed| {
                let (rate, run) = sustained(config.clone(), seed);
                let wa = run.write_amplification().expect("pages were written");
                rate / bound(&config, wa)
            });
            if shares.iter().sum::<f64>() / (SEEDS.len() as f64) < 0.8 {
                wrong += &format!(
                    "{cores} cores, {over_provisioning}: {shares:.3?} of what the dies can do\n"
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Each core collected from one block, and from as many as its dies can take as soon as blocks were
/// short. So while one core collected the host's writes waited there, and the dies of the other
/// idled: with blocks of 512 pages, and half of the commands, 72 % of the dies' time was used.
#[test]
fn cores_that_collect_in_turn_left_each_other_without_writes() {
    let mut config = drive(2, 0.28);
    config.geometry.dies_per_channel = 4;
    config.geometry.blocks_per_plane = 64;
    config.geometry.pages_per_block = 512;
    config.timing.erase_ns = 2_000_000;
    config.firmware.stripe_pages = 32;
    config.ftl.write_buffer_pages = 4096;
    let (rate, run) = sustained_at(127, config.clone(), 7);
    let wa = run.write_amplification().expect("pages were written");
    let share = rate / bound(&config, wa);
    assert!(share > 0.8, "{share:.3} of what the dies can do");
}

/// Preparation left the free blocks that background collection keeps, which writes without a pause use
/// up: the first writes of a run were amplified by less than all that followed.
#[test]
fn a_prepared_drive_amplifies_its_first_writes_as_its_later_ones() {
    let mut wrong = String::new();
    for over_provisioning in [0.07, 0.28] {
        let mut rig = aged(drive(4, over_provisioning));
        let pages = rig.config().namespace_pages();
        let [first, later] = rig.run(move |mut host| async move {
            let mut rng = Seed(7).rng();
            let mut amplifications = [0.0; 2];
            for (amplification, count) in amplifications.iter_mut().zip([3_000, 60_000]) {
                let before = host.statistics().await;
                overwrite(&mut host, &mut rng, pages, count).await;
                let run = host.statistics().await.since(&before);
                *amplification = run.write_amplification().expect("pages were written");
            }
            amplifications
        });
        // 0.75 and 1.15; where preparation left what background collection keeps, 0.69 and 0.69.
        if !(0.72..1.2).contains(&(first / later)) {
            wrong += &format!("{over_provisioning}: {first:.3}, then {later:.3}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Latencies of reads beside sustained writes, in order, in nanoseconds.
fn reads_beside_writes(config: DriveConfig, reads: usize) -> Vec<u64> {
    let mut rig = aged(config);
    rig.queues_per_client = 2;
    let pages = rig.config().namespace_pages();
    let counted = 500;
    let mut latencies_ns = rig.run(move |mut host| async move {
        let mut rng = Seed(9).rng();
        let mut write = |host: &mut Host| {
            let command = Command::write(1, rng.below(pages), 1);
            host.send(0, command.with_prp(host.data.address(0), 0));
        };
        (0..DEPTH).for_each(|_| write(&mut host));
        let mut latencies_ns = Vec::new();
        let mut addresses = Seed(10).rng();
        for _ in 0..counted + reads {
            let start_ns = host.cpu.now();
            let read = Command::read(1, addresses.below(pages), 1);
            host.send(1, read.with_prp(host.data.address(1), 0));
            assert_eq!(code(&host.next(1).await), StatusCode::Success);
            latencies_ns.push(host.cpu.now() - start_ns);
            let cpu = host.cpu.clone();
            while host.queues[0].poll(&cpu).is_some_and(|found| {
                assert_eq!(code(&found), StatusCode::Success);
                true
            }) {
                host.queues[0].release();
                write(&mut host);
            }
        }
        for _ in 0..DEPTH {
            assert_eq!(code(&host.next(0).await), StatusCode::Success);
        }
        latencies_ns.split_off(counted)
    });
    latencies_ns.sort_unstable();
    latencies_ns
}

/// Reads stood in line behind all that collection had sent to their die: hundreds of pages that it
/// read from there, and the programs of hundreds more.
#[test]
fn reads_are_served_between_the_pages_that_collection_moves() {
    let mut config = drive(4, 0.12);
    let t = config.timing.clone();
    let reads_ns = reads_beside_writes(config.clone(), 8_000);
    let (median_ns, p99_ns) = (reads_ns[4_000], reads_ns[7_920]);
    assert!(median_ns < 2 * t.program_ns, "median {median_ns} ns");
    // One may come when an erase has just begun, and a program may go first to get its share.
    let most_ns = t.erase_ns + t.program_ns + 2 * t.read_ns;
    assert!(p99_ns < most_ns, "p99 {p99_ns} ns, {most_ns} at most");
    // In the order of arrival they wait for all of it.
    config.ftl.read_share = 0.0;
    let in_order_ns = reads_beside_writes(config, 1_000);
    assert!(
        in_order_ns[500] > 10 * median_ns,
        "median {} ns",
        in_order_ns[500]
    );
}

/// Collection went from block to block at the same pace whether the host wrote or not: what was short
/// when the host paused was still short when it came back.
#[test]
fn a_quiet_drive_collects_on_many_dies_and_then_rests() {
    let config = drive(2, 0.2);
    let plan = config.plan().expect("it can be built");
    let erase_ns = config.timing.erase_ns;
    let mut rig = aged(config);
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        overwrite(&mut host, &mut Seed(7).rng(), pages, 40_000).await;
        let cpu = host.cpu.clone();
        let short = host.statistics().await;
        let wanted = u64::from(2 * plan.background_blocks);
        assert!(
            short.free_blocks < wanted,
            "{} blocks are free",
            short.free_blocks
        );
        // That takes 25 ms of all dies, and more than 50 ms if the blocks are collected one by one.
        cpu.sleep_until(cpu.now() + 130 * erase_ns).await;
        let rested = host.statistics().await;
        assert!(
            rested.free_blocks >= wanted,
            "{} of {wanted}",
            rested.free_blocks
        );
        let runs = rested.since(&short);
        assert!(runs.gc_runs_background > 0);
        cpu.sleep_until(cpu.now() + 400 * erase_ns).await;
        let later = host.statistics().await.since(&rested);
        assert_eq!(
            (later.gc_moved_pages, later.media_erases),
            (0, 0),
            "it rests"
        );
    });
}

/// The plane of each page, on a new drive that was written once, at random.
fn planes_of_pages(placement: Placement) -> Vec<u32> {
    let mut config = drive(2, 0.2);
    config.ftl.placement = placement;
    let plan = config.plan().expect("it can be built");
    let mut rig = Rig::new(config);
    rig.depth = DEPTH as u32 + 2;
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        overwrite(&mut host, &mut Seed(7).rng(), pages, pages / 2).await;
    });
    let (mut planes, pages_per_plane) = (Vec::new(), plan.blocks_per_plane * plan.pages_per_block);
    rig.inspect(|_, ftl| {
        for lpn in 0..plan.logical_pages {
            if let Place::Flash(ppn) = ftl.place(lpn) {
                planes
                    .push((ppn / pages_per_plane + plan.planes - lpn % plan.planes) % plan.planes);
            }
        }
    });
    planes
}

/// Models that place pages by their address, as many drives do, could not be compared with.
#[test]
fn pages_lie_where_their_address_says_if_wanted() {
    let by_address = planes_of_pages(Placement::Address);
    assert!(by_address.len() > 20_000 && by_address.iter().all(|offset| *offset == 0));
    let free = planes_of_pages(Placement::Free);
    let on_own = free.iter().filter(|offset| **offset == 0).count();
    assert!(
        on_own * 4 < free.len(),
        "{on_own} of {} lie there by chance",
        free.len()
    );
}
