//! From parameters to what a core is built from: every value is checked, then the drive is divided.

use super::{ConfigError, DriveConfig, DriveKind, MediaKind, Striping, TIME_NS_MAX};
use crate::ftl::{PAGES_MAX, gc_frames};
use crate::media::CoreGeometry;

/// The fewest blocks that host writes leave to collection: one victim's pages fit into one, the other
/// makes up for one that wears out meanwhile.
const RESERVE_MIN: u32 = 2;

/// The part of a drive that one core owns, in whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CorePlan {
    /// Planes.
    pub planes: u32,
    /// Channels.
    pub channels: u32,
    /// Blocks, over all planes.
    pub blocks: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Logical pages.
    pub logical_pages: u32,
    /// Logical pages that may be mapped at once.
    pub capacity_pages: u32,
    /// Host writes wait while no more blocks than this are free: they are collection's.
    pub reserve_blocks: u32,
    /// Collection does all it can while no more blocks than this are free.
    pub foreground_blocks: u32,
    /// Collection runs while fewer blocks than this are free.
    pub background_blocks: u32,
    /// Valid pages that a victim may have at most in the background.
    pub background_valid_max: u32,
    /// Blocks that are collected at once, at most.
    pub victims_max: u32,
}

impl CorePlan {
    /// The shape of the core's media.
    pub fn media_geometry(&self, page_bytes: u32) -> CoreGeometry {
        // The log holds a checkpoint of the map and the trims since, with room for both.
        let log_bytes = u64::from(self.logical_pages) * 8 + u64::from(self.blocks) * 16 + (4 << 20);
        CoreGeometry {
            blocks: self.blocks,
            pages_per_block: self.pages_per_block,
            page_bytes,
            log_bytes,
        }
    }
}

impl DriveConfig {
    /// Logical pages of the namespace.
    pub fn namespace_pages(&self) -> u64 {
        let shown = match self.as_disk() {
            Some(disk) => disk.sectors(),
            None => (self.geometry.pages() as f64 * (1.0 - self.ftl.over_provisioning)) as u64,
        };
        let step = u64::from(self.firmware.stripe_pages) * u64::from(self.firmware.cores);
        shown / step * step
    }

    /// How pages are divided among the cores.
    pub fn striping(&self) -> Striping {
        Striping {
            stripe_pages: self.firmware.stripe_pages,
            cores: self.firmware.cores,
        }
    }

    /// Bytes that the host sends or receives for a page: 4096, or 8 for stamps.
    pub fn page_bytes(&self) -> usize {
        match self.media.kind {
            MediaKind::Stamp => wharf_wire::dma::STAMP_BYTES,
            MediaKind::Ram | MediaKind::File => wharf_wire::dma::PAGE_BYTES,
        }
    }

    /// Checks every value and divides the drive among its cores.
    pub fn plan(&self) -> Result<CorePlan, ConfigError> {
        if self.kind() == DriveKind::Disk {
            return self.plan_of_disk();
        }
        self.check_ranges()?;
        let (geometry, cores) = (&self.geometry, self.firmware.cores);
        if !geometry.channels.is_multiple_of(cores) {
            return Err(ConfigError::Cores {
                cores,
                channels: geometry.channels,
            });
        }
        let planes = geometry.planes() / cores;
        let pages = geometry.pages() / u64::from(cores);
        if pages > u64::from(PAGES_MAX) {
            return Err(ConfigError::TooLarge { pages });
        }
        let blocks = planes * geometry.blocks_per_plane;
        let logical_pages = (self.namespace_pages() / u64::from(cores)) as u32;
        if logical_pages == 0 {
            return Err(ConfigError::NoNamespace {
                stripe_pages: self.firmware.stripe_pages,
            });
        }
        if self.media.kind == MediaKind::File && self.media.path.is_none() {
            return Err(ConfigError::NoPath);
        }
        let share = |share: f64| (f64::from(blocks) * share).ceil() as u32;
        let foreground_blocks = share(self.ftl.gc_foreground_share).max(RESERVE_MIN);
        let background_blocks = share(self.ftl.gc_background_share).max(foreground_blocks + 1);
        let plan = CorePlan {
            planes,
            channels: geometry.channels / cores,
            blocks,
            blocks_per_plane: geometry.blocks_per_plane,
            pages_per_block: geometry.pages_per_block,
            logical_pages,
            capacity_pages: (f64::from(logical_pages) * self.ftl.capacity_share) as u32,
            // The planes' worth of blocks above it are for host writes to open, one on each plane,
            // while collection does all it can.
            reserve_blocks: foreground_blocks.saturating_sub(planes).max(RESERVE_MIN),
            foreground_blocks,
            background_blocks,
            background_valid_max: (f64::from(geometry.pages_per_block)
                * (1.0 - self.ftl.gc_background_invalid_min))
                as u32,
            victims_max: self.victims_max(planes),
        };
        plan.media_geometry(crate::media::PAGE_BYTES).check()?;
        let reserve = foreground_blocks + 2 * planes;
        let data = u64::from(plan.capacity_pages).div_ceil(u64::from(plan.pages_per_block));
        if data + u64::from(reserve) > u64::from(blocks) {
            return Err(ConfigError::Spare {
                blocks,
                reserve,
                data,
            });
        }
        Ok(plan)
    }

    /// As [`DriveConfig::plan`], of a disk: one core, and no flash.
    fn plan_of_disk(&self) -> Result<CorePlan, ConfigError> {
        let disk = self.disk.as_ref().ok_or(ConfigError::NoDisk)?;
        self.check_firmware()?;
        disk.check()?;
        let refuse = |key, rule| Err(ConfigError::OfDisk { key, rule });
        if self.firmware.cores != 1 {
            return refuse("firmware.cores", "1");
        }
        if self.host_memory.enabled {
            return refuse("host_memory.enabled", "false");
        }
        if self.media.kind == MediaKind::File && self.media.path.is_none() {
            return Err(ConfigError::NoPath);
        }
        let sectors = self.namespace_pages() as u32;
        if sectors == 0 {
            return Err(ConfigError::NoNamespace {
                stripe_pages: self.firmware.stripe_pages,
            });
        }
        Ok(CorePlan {
            planes: 1,
            channels: 1,
            blocks: 0,
            blocks_per_plane: 0,
            pages_per_block: 1,
            logical_pages: sectors,
            capacity_pages: sectors,
            reserve_blocks: 0,
            foreground_blocks: 0,
            background_blocks: 0,
            background_valid_max: 0,
            victims_max: 0,
        })
    }

    /// Blocks that a core collects at once, so that its planes always have pages to program.
    ///
    /// A page that is moved takes tR on its victim's plane and tPROG on any; so a share of
    /// tR / (tR + tPROG) of the planes reads. Twice as many victims, because some lie on the same
    /// plane, and some wait for frames, and two more for those that begin or end. No more than the
    /// planes and one, nor than collection has frames. Where flash takes no time, one after the other
    /// will do.
    fn victims_max(&self, planes: u32) -> u32 {
        let move_ns = self.timing.read_ns + self.timing.program_ns;
        let reading = u64::from(2 * planes) * self.timing.read_ns;
        let Some(reading) = reading.checked_div(move_ns) else {
            return 1;
        };
        let frames = gc_frames(self.ftl.write_buffer_pages / self.firmware.cores);
        (reading as u32 + 2).min(planes + 1).min(frames)
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
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
    fn check_firmware(&self) -> Result<(), ConfigError> {
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
            ("host_memory.busy_wait_ns", self.host_memory.busy_wait_ns),
        ])?;
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
