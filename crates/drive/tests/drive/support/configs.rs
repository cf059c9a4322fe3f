//! Drives so small that collection, wear and ring wrap happen within 100 operations.

use wharf_codec::{Codec, TableName};
use wharf_drive::config::{DriveConfig, GcPolicy, MediaKind, Platform, Timing};
use wharf_runtime::Rng;

pub use super::tiny::tiny;

/// The tiny drive with operations that take time, so that many are under way at once.
pub fn tiny_timed() -> DriveConfig {
    let mut config = tiny();
    config.timing = Timing {
        read_ns: 300,
        program_ns: 700,
        erase_ns: 2_000,
        channel_ns_per_page: 100,
    };
    config
}

/// Two cores over two channels.
pub fn tiny_pair() -> DriveConfig {
    let mut config = tiny_timed();
    config.geometry.channels = 2;
    config.firmware.cores = 2;
    config
}

/// The tiny drive whose pages are packed into units of two, compressed by this codec.
pub fn tiny_packed(kind: MediaKind, codec: Codec) -> DriveConfig {
    let mut config = tiny_timed();
    config.media.kind = kind;
    config.geometry.pages_per_block = 8;
    config.geometry.unit_pages = 2;
    config.ftl.write_buffer_pages = 16;
    config.ftl.over_provisioning = 0.7;
    config.compression.codec = codec;
    config
}

/// Drives that pack: one for each kind of media and codec. Those in a file want a path.
pub fn all_packed() -> Vec<DriveConfig> {
    let kinds = [MediaKind::Stamp, MediaKind::Ram, MediaKind::File];
    let codecs = [Codec::None, Codec::Lz4, Codec::Zlib];
    let of_kind = |kind| codecs.map(|codec| tiny_packed(kind, codec));
    kinds.into_iter().flat_map(of_kind).collect()
}

/// The disk of preset `hdd-small`, of 48 sectors and with a buffer of 16.
pub fn tiny_disk() -> DriveConfig {
    let mut config = preset(include_str!("../../../../../configs/drive/hdd-small.toml"));
    let disk = config.disk.as_mut().expect("it is a disk");
    (disk.capacity_bytes, disk.write_buffer_bytes) = (48 << 12, 16 << 12);
    config.firmware.stripe_pages = 6;
    config
}

/// The disk of preset `hdd`.
pub fn hdd() -> DriveConfig {
    preset(include_str!("../../../../../configs/drive/hdd.toml"))
}

fn preset(text: &str) -> DriveConfig {
    toml::from_str(text).expect("a preset")
}

/// A random small disk.
pub fn random_disk(rng: &mut Rng, kind: MediaKind) -> DriveConfig {
    let mut config = tiny_disk();
    config.media.kind = kind;
    config.media.path = (kind == MediaKind::File).then(|| "unused".into());
    let disk = config.disk.as_mut().expect("it is a disk");
    disk.heads = 1 + rng.below(3) as u32;
    disk.zones = 1 + rng.below(3) as u32;
    disk.write_cache = rng.chance(1, 2);
    disk.write_buffer_bytes = (1 + rng.below(20)) << 12;
    disk.read_ahead_bytes = rng.below(20) << 12;
    disk.queue_depth = 1 + rng.below(8) as u32;
    disk.aging_share = [0.0, 0.05, 10.0][rng.below(3) as usize];
    let f = &mut config.firmware;
    f.stripe_pages = 1 + rng.below(6) as u32;
    f.commands_max = 1 + rng.below(8) as u32;
    f.parts_max = 1 + rng.below(5) as u32;
    config
}

/// A random small drive. About one in four is thinly provisioned, one in four shows more than it holds, half have a volatile write
/// cache, a third level wear, a third take checkpoints, one in eight wears out; a quarter are software, a
/// quarter have a slow link.
pub fn random(rng: &mut Rng, kind: MediaKind) -> DriveConfig {
    let mut config = if rng.chance(1, 3) {
        tiny()
    } else {
        tiny_timed()
    };
    config.media.kind = kind;
    // The case puts its own image there.
    config.media.path = (kind == MediaKind::File).then(|| "unused".into());
    let g = &mut config.geometry;
    g.channels = 1 + rng.below(2) as u32;
    g.dies_per_channel = 1 + rng.below(2) as u32;
    g.planes_per_die = if rng.chance(1, 6) { 2 } else { 1 };
    g.blocks_per_plane = 7 + rng.below(6) as u32;
    g.pages_per_block = 2 + rng.below(4) as u32;
    let f = &mut config.firmware;
    f.cores = 1 + rng.below(u64::from(g.channels)) as u32;
    f.stripe_pages = 1 + rng.below(4) as u32;
    f.commands_max = 1 + rng.below(8) as u32;
    f.parts_max = 1 + rng.below(5) as u32;
    let t = &mut config.ftl;
    t.write_buffer_pages = 4 + rng.below(9) as u32;
    t.volatile_write_cache = rng.chance(1, 2);
    t.wear_gap_max = if rng.chance(1, 3) {
        1 + rng.below(3) as u32
    } else {
        0
    };
    t.gc_background_share = if rng.chance(1, 2) { 0.45 } else { 0.0 };
    if rng.chance(1, 3) {
        t.gc_policy = GcPolicy::CostBenefit;
    }
    t.checkpoint_pages = if rng.chance(1, 3) {
        3 + rng.below(40)
    } else {
        0
    };
    t.endurance_cycles = if rng.chance(1, 8) {
        6 + rng.below(30) as u32
    } else {
        0
    };
    t.capacity_share = if rng.chance(1, 4) { 0.5 } else { 1.0 };
    t.over_provisioning = 0.05;
    t.elide_zeros = rng.chance(1, 2);
    let (shown, metadata) = (1 + rng.below(6), rng.below(4));
    let is_sparse = rng.chance(1, 4);
    if rng.chance(1, 4) {
        config.firmware.platform = Platform::Software;
    }
    if rng.chance(1, 4) {
        config.link.from_host_mb_s = 4096;
    }
    fit(&mut config);
    if is_sparse {
        let held_bytes = config.namespace_pages() * 4096;
        config.ftl.shown_bytes = held_bytes * (4 + shown) / 4;
        config.ftl.metadata_bytes = metadata * 4096;
        config.ftl.metadata_reserve_share = if metadata > 0 { 0.1 } else { 0.0 };
        fit(&mut config);
    }
    config
}

/// Has a small drive pack its pages, compressed or not, into units of 1 to 4 pages. A third have their
/// write buffer protected from a loss of power, a third wait for a while before they close a unit. Of
/// stamps the sizes are those of the model.
pub fn pack(config: &mut DriveConfig, codec: Codec, rng: &mut Rng) {
    config.compression.codec = codec;
    config.compression.sizes_seed = rng.below(1000);
    let unit_pages = match codec {
        // Only units tell a drive that packs whole pages from one that does not.
        Codec::None => 2 + rng.below(3) as u32,
        _ => 1 + rng.below(4) as u32,
    };
    config.geometry.unit_pages = unit_pages;
    config.geometry.pages_per_block = unit_pages * (4 + rng.below(3) as u32);
    let frames = 8 * unit_pages + rng.below(9) as u32;
    config.ftl.write_buffer_pages = frames * config.firmware.cores;
    config.ftl.power_loss_protection = rng.chance(1, 3);
    if rng.chance(1, 3) {
        config.compression.pack_wait_ns = 1 + rng.below(3_000);
    }
    if rng.chance(1, 3) {
        config.compression.sizes = TableName::INCOMPRESSIBLE;
    }
    if rng.chance(1, 4) {
        config.compression.engine_in_mb_s = 4096;
        config.compression.engine_setup_ns = 100;
    }
    fit(config);
}

/// Raises the over-provisioning until the drive can be built.
fn fit(config: &mut DriveConfig) {
    while config.plan().is_err() {
        config.ftl.over_provisioning += 0.02;
        assert!(
            config.ftl.over_provisioning < 0.9,
            "no over-provisioning fits: {config:?}"
        );
    }
}
