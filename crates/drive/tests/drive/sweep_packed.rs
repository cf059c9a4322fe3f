//! Sweeps of drives that pack pages: a power cut after every single media change, units among them.

use wharf_codec::{Codec, TableName};
use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_wire::pin::Access;

use crate::support::configs::{tiny_packed, tiny_pair};
use crate::support::ops::Op;
use crate::sweep::{aged, cached, forced, sweep, sweep_with_frames, trim, write};

/// Drives that pack pages into units of two: of stamps and of whole pages, with a write cache and
/// without, with one that is protected from a loss of power, and with units that wait to be filled.
fn packed() -> Vec<DriveConfig> {
    let mut waiting = tiny_packed(MediaKind::Stamp, Codec::Zlib);
    waiting.compression.pack_wait_ns = 1_500;
    let mut protected = tiny_packed(MediaKind::Ram, Codec::Lz4);
    protected.ftl.power_loss_protection = true;
    let mut raw = cached(tiny_packed(MediaKind::Stamp, Codec::None));
    raw.compression.sizes = TableName::INCOMPRESSIBLE;
    vec![
        tiny_packed(MediaKind::Ram, Codec::Lz4),
        cached(tiny_packed(MediaKind::Stamp, Codec::Zlib)),
        waiting,
        protected,
        raw,
    ]
}

#[test]
fn units_of_first_writes_and_of_pages_overwritten_in_the_buffer() {
    let workload = [
        write(1, 1),
        write(1, 3),
        forced(2, 1),
        write(0, 5),
        Op::Flush,
        trim(1, 2),
        write(2, 1),
        write(1, 1),
        Op::Flush,
        write(9, 5),
    ];
    for config in packed() {
        sweep(&config, &[], &workload, 3);
        sweep(&config, &[forced(0, 6)], &workload, 4);
    }
}

#[test]
fn units_that_are_collected_under_overwrites() {
    for config in packed() {
        let workload: Vec<Op> = (0..30)
            .map(|i| write(i * 7 % 20, 1 + i as u32 % 3))
            .collect();
        sweep(&config, &aged(&config), &workload, 3);
    }
}

#[test]
fn units_under_checkpoints_overwrites_and_deallocations() {
    for mut config in packed() {
        config.ftl.checkpoint_pages = 6;
        let ops = |i: u64| match i % 6 {
            3 => trim(i * 3 % 16, 3),
            4 => Op::Flush,
            5 => Op::WriteZeroes {
                lba: i % 13,
                pages: 2,
                fua: i.is_multiple_of(2),
                deac: i.is_multiple_of(4),
            },
            _ => write(i * 7 % 20, 2),
        };
        let workload: Vec<Op> = (0..36).map(ops).collect();
        sweep(&config, &aged(&config), &workload, 3);
    }
}

#[test]
fn units_moved_to_level_wear_and_pages_written_in_place() {
    for mut config in packed() {
        config.ftl.wear_gap_max = 1;
        let hot = |count| (0..count).map(|i| write(i % 3, 1));
        let before: Vec<Op> = aged(&config).into_iter().chain(hot(100)).collect();
        sweep(&config, &before, &hot(40).collect::<Vec<_>>(), 2);
        let pins = (0..18).map(|i| match i % 3 {
            0 => Op::Pin {
                lba: i * 5 % 16,
                mask: 0b1011,
                access: Access::Write,
                may_wait: true,
                write_ns: 500,
            },
            1 => write(i * 3 % 20, 2),
            _ => Op::Flush,
        });
        sweep_with_frames(&config, &aged(&config), &pins.collect::<Vec<_>>(), 3, 8);
    }
}

/// All that a drive with capacitors acknowledges is there after a cut at any time, though nothing is
/// flushed: the contract of the preset.
#[test]
fn capacitors_keep_what_is_in_open_units_and_in_plain_frames() {
    let plain = tiny_pair();
    let of_units = packed().swap_remove(3);
    for mut config in [plain, of_units] {
        config.ftl.power_loss_protection = true;
        let workload: Vec<Op> = (0..40)
            .map(|i| write(i * 7 % 16, 1 + i as u32 % 3))
            .collect();
        sweep(&config, &aged(&config), &workload, 2);
    }
}
