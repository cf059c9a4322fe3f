//! What a drive is: every parameter, with its unit. Presets in `configs/drive/` give each a value
//! and the source of that value.

use serde::{Deserialize, Serialize};

use crate::ftl::PAGES_MAX;
use crate::media::CoreGeometry;

/// A whole drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// The preset's name.
    pub name: String,
    /// Shape of the flash.
    pub geometry: Geometry,
    /// Time of the flash operations.
    pub timing: Timing,
    /// The link to the host.
    pub link: LinkConfig,
    /// The processors and their work.
    pub firmware: Firmware,
    /// The translation layer.
    pub ftl: FtlConfig,
    /// Memory that the host lends, for pages that it pins.
    pub host_memory: HostMemoryConfig,
    /// Where the bytes are kept.
    pub media: MediaConfig,
}

/// Memory that the host lends to the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostMemoryConfig {
    /// Whether the drive takes memory, pins pages in it, and tells the state of collection in
    /// completions.
    pub enabled: bool,
    /// How long a command waits at most for a page that the host is writing, in nanoseconds.
    pub busy_wait_ns: u64,
}

/// Shape of the flash: pages are 4 KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes of each die; planes work in parallel.
    pub planes_per_die: u32,
    /// Erase blocks of each plane.
    pub blocks_per_plane: u32,
    /// Pages of each block.
    pub pages_per_block: u32,
}

/// Time of the flash operations, in nanoseconds; 0 takes no time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array to page register (tR).
    pub read_ns: u64,
    /// Page register to array (tPROG).
    pub program_ns: u64,
    /// Block erase (tBERS).
    pub erase_ns: u64,
    /// One page over the channel, between die and controller.
    pub channel_ns_per_page: u64,
}

/// The link between host and drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// One way, in nanoseconds.
    pub latency_ns: u64,
    /// Drive to host, in MB/s (10^6 bytes a second); 0 is unlimited.
    pub to_host_mb_s: u64,
    /// Host to drive, in MB/s; 0 is unlimited.
    pub from_host_mb_s: u64,
}

/// What a drive is, for the costs of virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// A device: controller and cores are processors of their own, and engines move commands,
    /// completions and data; what that takes is the link's latency and bandwidth.
    Device,
    /// Software on one processor of the host's machine, as in real time: it copies data itself, and its queues
    /// are memory whose lines move between that processor and the host's others.
    Software,
}

/// The processors of the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// What the drive is. Real time does not ask: there it is software.
    pub platform: Platform,
    /// Firmware cores; they divide the channels evenly.
    pub cores: u32,
    /// How many times slower a core is than the CPU of the cost table.
    pub slowness: f64,
    /// Pages of a stripe: the unit in which addresses go round the cores.
    pub stripe_pages: u32,
    /// Commands the controller holds at once.
    pub commands_max: u32,
    /// Parts of commands a core works on at once.
    pub parts_max: u32,
    /// I/O queue pairs the drive offers.
    pub queues_max: u32,
}

/// How garbage collection chooses its victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// The block with the fewest valid pages.
    Greedy,
    /// The block with the largest `age * (1 - u) / 2u`, u being the share of valid pages
    /// (Rosenblum and Ousterhout, 1992).
    CostBenefit,
}

/// The translation layer. Shares are of the drive's flash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Share of the flash that the namespace does not show.
    pub over_provisioning: f64,
    /// Share of the namespace that may hold data at once: below 1 the drive is thinly provisioned.
    pub capacity_share: f64,
    /// Victim selection.
    pub gc_policy: GcPolicy,
    /// Share of free blocks below which host writes wait for collection.
    pub gc_foreground_share: f64,
    /// Share of free blocks below which collection runs beside host writes.
    pub gc_background_share: f64,
    /// In the background, only blocks with at least this share of invalid pages are collected.
    pub gc_background_invalid_min: f64,
    /// Pages of the write buffer in device memory; a quarter is kept for collection.
    pub write_buffer_pages: u32,
    /// Acknowledge writes from the buffer (a volatile write cache) rather than from flash.
    pub volatile_write_cache: bool,
    /// Static wear levelling moves the data of the least worn block when the erase counts of a
    /// core differ by more than this; 0 is never.
    pub wear_gap_max: u32,
    /// Erases after which a block is retired; 0 is never.
    pub endurance_cycles: u32,
    /// Pages a core programs between two checkpoints of its map; 0 takes none.
    pub checkpoint_pages: u64,
}

/// What the media are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// Whole pages in memory.
    Ram,
    /// 8 bytes a page in memory.
    Stamp,
    /// An image file.
    File,
}

/// Where the bytes are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaConfig {
    /// RAM, stamps or a file.
    pub kind: MediaKind,
    /// The image, for file media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<std::path::PathBuf>,
    /// Check the checksum of every page read (file media always do).
    pub verify: bool,
}

/// A configuration that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value out of its range.
    #[error("drive: {key} = {value} must be {rule}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Cores that cannot share nothing.
    #[error(
        "drive: {cores} cores cannot divide {channels} channels evenly: set firmware.cores to a divisor"
    )]
    Cores {
        /// Cores asked for.
        cores: u32,
        /// Channels there are.
        channels: u32,
    },
    /// Not enough spare flash to collect garbage.
    #[error(
        "drive: a core of {blocks} blocks needs {reserve} of them for open blocks and collection, and {data} for data: \
         raise ftl.over_provisioning or geometry.blocks_per_plane"
    )]
    Spare {
        /// Blocks of a core.
        blocks: u32,
        /// Blocks in reserve.
        reserve: u32,
        /// Blocks for data.
        data: u64,
    },
    /// More pages than a 4-byte map entry can name.
    #[error(
        "drive: {pages} pages of flash for each core are more than the {PAGES_MAX} it can name: use more cores"
    )]
    TooLarge {
        /// Pages of a core.
        pages: u64,
    },
    /// Nothing is left to show.
    #[error(
        "drive: no stripe of {stripe_pages} pages on each core is left for the namespace: \
         lower firmware.stripe_pages or ftl.over_provisioning"
    )]
    NoNamespace {
        /// Pages of a stripe.
        stripe_pages: u32,
    },
    /// File media without a file.
    #[error("drive: media.kind is 'file' but media.path names no image")]
    NoPath,
    /// A flash shape that no media has.
    #[error("drive: {0}")]
    Geometry(#[from] crate::media::GeometryError),
}

/// The longest time that an operation may take, in nanoseconds.
const TIME_NS_MAX: u64 = 10_000_000_000;

impl Geometry {
    /// Pages of the whole drive.
    pub fn pages(&self) -> u64 {
        u64::from(self.planes())
            * u64::from(self.blocks_per_plane)
            * u64::from(self.pages_per_block)
    }

    /// Planes of the whole drive.
    pub fn planes(&self) -> u32 {
        self.channels * self.dies_per_channel * self.planes_per_die
    }
}

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
    /// Host writes wait while no more blocks than this are free.
    pub foreground_blocks: u32,
    /// Collection runs while fewer blocks than this are free.
    pub background_blocks: u32,
    /// Valid pages that a victim may have at most in the background.
    pub background_valid_max: u32,
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
        let shown = self.geometry.pages() as f64 * (1.0 - self.ftl.over_provisioning);
        let step = u64::from(self.firmware.stripe_pages) * u64::from(self.firmware.cores);
        (shown as u64) / step * step
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
        let foreground_blocks = share(self.ftl.gc_foreground_share).max(2);
        let plan = CorePlan {
            planes,
            channels: geometry.channels / cores,
            blocks,
            blocks_per_plane: geometry.blocks_per_plane,
            pages_per_block: geometry.pages_per_block,
            logical_pages,
            capacity_pages: (f64::from(logical_pages) * self.ftl.capacity_share) as u32,
            foreground_blocks,
            background_blocks: share(self.ftl.gc_background_share).max(foreground_blocks + 1),
            background_valid_max: (f64::from(geometry.pages_per_block)
                * (1.0 - self.ftl.gc_background_invalid_min))
                as u32,
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

    fn check_ranges(&self) -> Result<(), ConfigError> {
        // Cores, queues and the admin queue ring one bell, which tells 128 sources apart.
        let (g, f, t) = (&self.geometry, &self.firmware, &self.ftl);
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
            (
                "ftl.write_buffer_pages",
                t.write_buffer_pages,
                4,
                1 << 20,
                "4 to 1048576",
            ),
        ];
        for (key, value, low, high, rule) in counts {
            if !(low..=high).contains(&value) {
                return Err(ConfigError::Range {
                    key,
                    value: value.to_string(),
                    rule,
                });
            }
        }
        let times = [
            ("timing.read_ns", self.timing.read_ns),
            ("timing.program_ns", self.timing.program_ns),
            ("timing.erase_ns", self.timing.erase_ns),
            (
                "timing.channel_ns_per_page",
                self.timing.channel_ns_per_page,
            ),
            ("link.latency_ns", self.link.latency_ns),
            ("host_memory.busy_wait_ns", self.host_memory.busy_wait_ns),
        ];
        for (key, value) in times {
            if value > TIME_NS_MAX {
                return Err(ConfigError::Range {
                    key,
                    value: value.to_string(),
                    rule: "at most 10^10 (10 s)",
                });
            }
        }
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
            (
                "ftl.gc_background_invalid_min",
                t.gc_background_invalid_min,
                0.0,
                1.0,
                "0 to 1",
            ),
            (
                "firmware.slowness",
                f.slowness,
                0.01,
                1000.0,
                "0.01 to 1000",
            ),
        ];
        for (key, value, low, high, rule) in shares {
            if !(low..=high).contains(&value) {
                return Err(ConfigError::Range {
                    key,
                    value: value.to_string(),
                    rule,
                });
            }
        }
        Ok(())
    }
}
