//! Between which bounds the values of a configuration are.

use super::{ConfigError, DriveConfig, TIME_NS_MAX};
use crate::media::packed::unit::UNIT_PAGES_MAX;

impl DriveConfig {
    /// Checks what drives of flash have.
    pub(super) fn check_ranges(&self) -> Result<(), ConfigError> {
        let (g, t) = (&self.geometry, &self.ftl);
        let counts = [
            ("geometry.channels", g.channels, 1, 1024, "1 to 1024"),
            (
                "geometry.dies_per_channel",
                g.dies_per_channel,
                1,
                1024,
                "1 to 1024",
            ),
            (
                "geometry.planes_per_die",
                g.planes_per_die,
                1,
                16,
                "1 to 16",
            ),
            (
                "geometry.blocks_per_plane",
                g.blocks_per_plane,
                2,
                1 << 28,
                "2 to 2^28",
            ),
            (
                "geometry.pages_per_block",
                g.pages_per_block,
                1,
                1 << 16,
                "1 to 65536",
            ),
            (
                "geometry.unit_pages",
                g.unit_pages,
                0,
                UNIT_PAGES_MAX,
                "0 to 16, and divide geometry.pages_per_block",
            ),
            (
                "compression.engines",
                self.compression.engines,
                1,
                64,
                "1 to 64",
            ),
            (
                "ftl.write_buffer_pages",
                t.write_buffer_pages,
                4,
                1 << 20,
                "4 to 1048576",
            ),
        ];
        within(&counts)?;
        self.check_firmware()?;
        let times = [
            ("timing.read_ns", self.timing.read_ns),
            ("timing.program_ns", self.timing.program_ns),
            ("timing.erase_ns", self.timing.erase_ns),
            (
                "timing.channel_ns_per_page",
                self.timing.channel_ns_per_page,
            ),
            ("compression.pack_wait_ns", self.compression.pack_wait_ns),
            (
                "compression.engine_setup_ns",
                self.compression.engine_setup_ns,
            ),
        ];
        within_time(&times)?;
        let shares = [
            (
                "ftl.over_provisioning",
                t.over_provisioning,
                0.0,
                0.95,
                "0 to 0.95",
            ),
            (
                "ftl.capacity_share",
                t.capacity_share,
                0.001,
                1.0,
                "0.001 to 1",
            ),
            (
                "ftl.metadata_reserve_share",
                t.metadata_reserve_share,
                0.0,
                0.5,
                "0 to 0.5",
            ),
            (
                "ftl.gc_foreground_share",
                t.gc_foreground_share,
                0.0,
                0.5,
                "0 to 0.5",
            ),
            (
                "ftl.gc_background_share",
                t.gc_background_share,
                0.0,
                0.5,
                "0 to 0.5",
            ),
            ("ftl.read_share", t.read_share, 0.0, 1.0, "0 to 1"),
            (
                "ftl.gc_background_invalid_min",
                t.gc_background_invalid_min,
                0.0,
                1.0,
                "0 to 1",
            ),
        ];
        within(&shares)
    }

    /// Checks what all kinds of drives have.
    pub(super) fn check_firmware(&self) -> Result<(), ConfigError> {
        // Cores, queues and the admin queue notify one notifier, which tells 128 sources apart.
        let f = &self.firmware;
        within(&[
            ("firmware.cores", f.cores, 1, 31, "1 to 31"),
            (
                "firmware.stripe_pages",
                f.stripe_pages,
                1,
                1 << 16,
                "1 to 65536",
            ),
            (
                "firmware.commands_max",
                f.commands_max,
                1,
                1 << 15,
                "1 to 32768",
            ),
            ("firmware.parts_max", f.parts_max, 1, 1 << 12, "1 to 4096"),
            ("firmware.queues_max", f.queues_max, 1, 96, "1 to 96"),
        ])?;
        within_time(&[
            ("link.latency_ns", self.link.latency_ns),
            ("link.load_ns", self.link.load_ns),
            ("host_memory.busy_wait_ns", self.host_memory.busy_wait_ns),
            ("memory.latency_ns", self.memory.latency_ns),
            ("persistent_memory.load_ns", self.persistent_memory.load_ns),
            (
                "persistent_memory.store_ns",
                self.persistent_memory.store_ns,
            ),
        ])?;
        self.check_files()?;
        let slowness = (
            "firmware.slowness",
            f.slowness,
            0.01,
            1000.0,
            "0.01 to 1000",
        );
        within(&[slowness])
    }
}

/// Refuses the first value that is not between its bounds.
fn within<T: PartialOrd + Copy + ToString>(
    values: &[(&'static str, T, T, T, &'static str)],
) -> Result<(), ConfigError> {
    let is_wrong = |(_, value, low, high, _): &&(_, T, T, T, _)| !(*low..=*high).contains(value);
    match values.iter().find(is_wrong) {
        None => Ok(()),
        Some((key, value, _, _, rule)) => Err(ConfigError::Range {
            key,
            value: value.to_string(),
            rule,
        }),
    }
}

/// Refuses the first time that is too long.
fn within_time(times: &[(&'static str, u64)]) -> Result<(), ConfigError> {
    let rule = "at most 10^10 (10 s)";
    let bounds = times
        .iter()
        .map(|(key, value)| (*key, *value, 0, TIME_NS_MAX, rule));
    bounds.into_iter().try_for_each(|one| within(&[one]))
}
