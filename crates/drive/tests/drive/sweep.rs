//! Chosen short workloads, with a power cut after every single media change.
//!
//! A workload is first played to its end, to count the media changes; then once for each number of
//! changes, each time on a new drive that was prepared alike. After the cut the flash is opened, its
//! structure checked, and every page compared with the model; then the drive is run again, written
//! all over, and compared once more: a cut must not leave it crippled.

use wharf_drive::PowerSwitch;
use wharf_drive::config::{DriveConfig, GcPolicy, MediaKind};
use wharf_runtime::Seed;
use wharf_wire::pin::Access;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::ops::Op;
use crate::support::player::{Shared, World, play};
use crate::support::rig::{Rig, compare};

/// More media changes than any workload here makes.
const NO_CUT: u64 = 1 << 40;

fn write(lba: u64, pages: u32) -> Op {
    Op::Write {
        lba,
        pages,
        fua: false,
    }
}

fn forced(lba: u64, pages: u32) -> Op {
    Op::Write {
        lba,
        pages,
        fua: true,
    }
}

fn trim(lba: u64, pages: u32) -> Op {
    Op::Deallocate(vec![(lba, pages)])
}

fn cached(mut config: DriveConfig) -> DriveConfig {
    config.ftl.volatile_write_cache = true;
    config
}

/// Plays `before` with the power on, then `workload` with a cut after each of its media changes.
pub fn sweep(config: &DriveConfig, before: &[Op], workload: &[Op], depth: usize) {
    sweep_with_frames(config, before, workload, depth, 0);
}

/// The same with `frames` frames of the host memory buffer.
fn sweep_with_frames(
    config: &DriveConfig,
    before: &[Op],
    workload: &[Op],
    depth: usize,
    frames: usize,
) {
    let changes = {
        let (mut rig, world) = prepare(config, before, depth, frames);
        let power = PowerSwitch::cut_after(NO_CUT);
        rig.run_clients(&power, vec![play(&world, workload.to_vec(), depth)]);
        power.changes()
    };
    assert!(changes > 0, "the workload changes nothing");
    for cut in 1..=changes {
        let (mut rig, world) = prepare(config, before, depth, frames);
        let power = PowerSwitch::cut_after(cut);
        rig.run_clients(&power, vec![play(&world, workload.to_vec(), depth)]);
        assert_eq!(power.changes(), cut, "two runs of one seed differ");
        compare(&mut rig, &world);
        let again = vec![
            Op::Flush,
            write(0, 8),
            forced(3, 9),
            trim(0, 2),
            Op::Flush,
            Op::Drain,
        ];
        rig.run_clients(&PowerSwitch::on(), vec![play(&world, again, depth)]);
        compare(&mut rig, &world);
    }
}

fn prepare(config: &DriveConfig, before: &[Op], depth: usize, frames: usize) -> (Rig, Shared) {
    let mut rig = Rig::new(config.clone());
    rig.seed = Seed(7);
    let world = World::new(config);
    if frames > 0 {
        world.lock().expect("no holder panics").to_lend = vec![frames];
    }
    if !before.is_empty() {
        rig.run_clients(
            &PowerSwitch::on(),
            vec![play(&world, before.to_vec(), depth)],
        );
        compare(&mut rig, &world);
    }
    (rig, world)
}

/// The namespace, written twice in an order that leaves every block half valid.
fn aged(config: &DriveConfig) -> Vec<Op> {
    let pages = config.namespace_pages();
    let fill = (0..pages)
        .step_by(4)
        .map(|lba| write(lba, 4.min(pages - lba) as u32));
    let holes = (0..pages).step_by(2).map(|lba| write(lba, 1));
    fill.chain([Op::Drain])
        .chain(holes)
        .chain([Op::Flush, Op::Drain])
        .collect()
}

#[test]
fn first_writes_to_an_empty_drive() {
    for config in [tiny(), tiny_timed(), cached(tiny_timed()), tiny_pair()] {
        sweep(
            &config,
            &[],
            &[write(0, 9), write(3, 1), Op::Flush, write(9, 5)],
            3,
        );
    }
}

#[test]
fn pages_overwritten_while_they_are_in_the_buffer() {
    let workload = [
        write(1, 1),
        write(1, 1),
        write(1, 2),
        write(0, 3),
        Op::Flush,
        write(1, 1),
    ];
    sweep(&cached(tiny_timed()), &[], &workload, 4);
    sweep(&cached(tiny_pair()), &[forced(0, 4)], &workload, 4);
}

#[test]
fn writes_deallocated_while_they_are_in_the_buffer() {
    let workload = [
        write(0, 4),
        trim(1, 2),
        write(2, 1),
        trim(0, 4),
        Op::Flush,
        write(1, 1),
    ];
    sweep(&cached(tiny_timed()), &[forced(0, 9)], &workload, 4);
}

#[test]
fn deallocation_then_flush() {
    let workload = [
        trim(0, 4),
        Op::Drain,
        Op::Flush,
        Op::Drain,
        trim(2, 6),
        write(3, 1),
        Op::Flush,
    ];
    for config in [tiny(), cached(tiny_timed()), cached(tiny_pair())] {
        sweep(
            &config,
            &[write(0, 9), write(0, 9), Op::Flush],
            &workload,
            2,
        );
    }
}

#[test]
fn zeroes_with_force_unit_access_over_buffered_writes() {
    let zeroes = Op::WriteZeroes {
        lba: 1,
        pages: 3,
        fua: true,
    };
    let workload = [
        write(0, 5),
        zeroes.clone(),
        write(2, 1),
        Op::Drain,
        zeroes,
        write(0, 1),
    ];
    sweep(&cached(tiny_timed()), &[forced(0, 6)], &workload, 3);
}

#[test]
fn forced_reads_of_buffered_writes() {
    let read = Op::Read {
        lba: 0,
        pages: 4,
        fua: true,
    };
    let workload = [
        write(0, 2),
        Op::Drain,
        read.clone(),
        trim(0, 1),
        Op::Drain,
        read,
        write(0, 1),
    ];
    sweep(&cached(tiny_timed()), &[forced(0, 4)], &workload, 2);
}

#[test]
fn collection_under_overwrites() {
    for policy in [GcPolicy::Greedy, GcPolicy::CostBenefit] {
        for mut config in [tiny(), cached(tiny_timed()), cached(tiny_pair())] {
            config.ftl.gc_policy = policy;
            let workload: Vec<Op> = (0..24)
                .map(|i| write(i * 7 % 20, 1 + i as u32 % 3))
                .collect();
            sweep(&config, &aged(&config), &workload, 3);
        }
    }
}

#[test]
fn deallocations_whose_newest_copies_are_collected() {
    let config = cached(tiny());
    let mut workload = vec![trim(0, 8), Op::Drain];
    workload.extend((0..16).map(|i| write(10 + i % 10, 1)));
    sweep(&config, &aged(&config), &workload, 2);
}

#[test]
fn checkpoints_under_overwrites_and_deallocations() {
    for mut config in [tiny(), cached(tiny_timed()), cached(tiny_pair())] {
        config.ftl.checkpoint_pages = 6;
        let ops = |i: u64| match i % 5 {
            3 => trim(i * 3 % 16, 3),
            4 => Op::Flush,
            _ => write(i * 7 % 20, 2),
        };
        sweep(
            &config,
            &aged(&config),
            &(0..30).map(ops).collect::<Vec<_>>(),
            3,
        );
    }
}

#[test]
fn wear_levelling_moves_cold_blocks() {
    let mut config = tiny();
    config.ftl.wear_gap_max = 1;
    let hot = |count| (0..count).map(|i| write(i % 3, 1));
    let before: Vec<Op> = aged(&config).into_iter().chain(hot(100)).collect();
    sweep(&config, &before, &hot(60).collect::<Vec<_>>(), 2);
}

#[test]
fn turning_the_write_cache_off_and_on() {
    let off = Op::SetWriteCache(false);
    let workload = [
        write(0, 3),
        Op::Drain,
        off,
        trim(0, 1),
        write(1, 1),
        Op::SetWriteCache(true),
        write(2, 2),
    ];
    sweep(&cached(tiny_timed()), &[forced(0, 5)], &workload, 3);
}

#[test]
fn format_with_and_without_erasing() {
    for erase in [false, true] {
        let config = cached(tiny_timed());
        let workload = [
            write(0, 3),
            Op::Format { erase },
            write(1, 1),
            Op::Flush,
            write(0, 1),
        ];
        sweep(&config, &aged(&config), &workload, 3);
    }
}

#[test]
fn whole_pages_are_never_torn() {
    let mut config = cached(tiny_timed());
    config.media.kind = MediaKind::Ram;
    let workload: Vec<Op> = (0..16).map(|i| write(i * 5 % 18, 2)).collect();
    sweep(&config, &aged(&config), &workload, 3);
}

/// Dirty pages are in frames at every cut: written in place, evicted, flushed while pinned, written
/// by commands, deallocated, and moved by collection meanwhile.
#[test]
fn pages_written_in_place() {
    let pin = |lba, mask, access| Op::Pin {
        lba,
        mask,
        access,
        may_wait: true,
        write_ns: 500,
    };
    let workload: Vec<Op> = (0..30)
        .map(|i| match i % 6 {
            0 | 3 => pin(i * 5 % 16, 0b1011, Access::Write),
            1 => pin(i * 7 % 20, 1, Access::Overwrite),
            2 => write(i * 3 % 20, 2),
            4 if i % 4 == 0 => trim(i % 12, 3),
            4 => pin(i % 12, 0b11, Access::Read),
            _ => Op::Flush,
        })
        .collect();
    for mut config in [tiny(), tiny_timed(), cached(tiny_pair())] {
        sweep_with_frames(&config, &aged(&config), &workload, 3, 8);
        config.ftl.checkpoint_pages = 6;
        sweep_with_frames(&config, &aged(&config), &workload, 2, 8);
    }
}
