//! Eight workloads that stand for those of the paper on the flash cache without an index (Hao et al., section IV-A).
//!
//! Neither its traces nor figures of them can be shipped, so these are generators:
//!
//! * `lun0` has the share of reads and the mean sizes of the published sample of that trace, 999 requests of the first 2.4 s
//!   (SYSTOR '17): 82.7 % reads, of 43.0 KiB, and writes of 15.6 KiB. The rest is assumed.
//! * `lun2` and `lun4` are invented within what the paper says: requests are small, as those of `lun0`.
//! * `bayes`, `kmeans`, `pagerank`, `sort`, `terasort` (HiBench) are invented within what the paper says: requests are larger.
//!   They go through files in order.
//!
//! `hit_ratio` and `reuse_gib` of their rows are 0: nothing is known of them.

use super::{Profile, TableRow};

const KIB: u32 = 1024;
const GIB: u64 = 1 << 30;

/// Requests at full size: of the small ones, and of the large ones.
const SMALL: u64 = 16_000_000;
const LARGE: u64 = 2_000_000;

/// Reads of `lun0`: 42.6 KiB in the mean.
const LUN_READS: &[(u32, u64)] = &[
    (4 * KIB, 24),
    (8 * KIB, 12),
    (16 * KIB, 10),
    (32 * KIB, 18),
    (64 * KIB, 20),
    (128 * KIB, 16),
];

/// Writes of `lun0`: 15.7 KiB in the mean.
const LUN_WRITES: &[(u32, u64)] = &[
    (4 * KIB, 95),
    (8 * KIB, 36),
    (16 * KIB, 30),
    (32 * KIB, 22),
    (64 * KIB, 14),
    (128 * KIB, 3),
];

/// Requests of the others: 224 KiB in the mean.
const BATCH_SIZES: &[(u32, u64)] = &[
    (64 * KIB, 3),
    (128 * KIB, 3),
    (256 * KIB, 2),
    (512 * KIB, 2),
];

const fn lun(name: &'static str, write_share: f64, theta: f64) -> Profile {
    Profile {
        table: TableRow {
            name,
            requests: SMALL,
            mean_kib: 42.6 * (1.0 - write_share) + 15.7 * write_share,
            data_gib: 0.0,
            hit_ratio: 0.0,
            randomness: 0.6,
            reuse_gib: 0.0,
        },
        sizes: LUN_READS,
        write_sizes: LUN_WRITES,
        write_share,
        theta,
        cold_share: 0.05,
        hot_bytes: 24 * GIB,
    }
}

const fn batch(name: &'static str, write_share: f64, cold_share: f64) -> Profile {
    Profile {
        table: TableRow {
            name,
            requests: LARGE,
            mean_kib: 211.2,
            data_gib: 0.0,
            hit_ratio: 0.0,
            randomness: 0.05,
            reuse_gib: 0.0,
        },
        sizes: BATCH_SIZES,
        write_sizes: &[],
        write_share,
        theta: 0.5,
        cold_share,
        hot_bytes: 64 * GIB,
    }
}

/// The profiles, in the paper's order.
pub(super) const PROFILES: [Profile; 8] = [
    lun("lun0", 0.173, 0.9),
    lun("lun2", 0.35, 0.8),
    lun("lun4", 0.5, 0.7),
    batch("bayes", 0.3, 0.2),
    batch("kmeans", 0.15, 0.1),
    batch("pagerank", 0.4, 0.2),
    batch("sort", 0.5, 0.5),
    batch("terasort", 0.5, 0.4),
];
