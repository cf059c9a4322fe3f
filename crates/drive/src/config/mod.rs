//! What a drive is: every parameter, with its unit. Presets in `configs/drive/` give each a value
//! and the source of that value. `plan.rs` checks the values and divides the drive among its cores.

mod compression;
mod disk;
mod files;
mod plan;
mod ranges;
mod striping;

use serde::{Deserialize, Serialize};

use crate::ftl::PAGES_MAX;

pub use compression::CompressionConfig;
pub use disk::{DiskConfig, DriveKind};
pub use files::{
    FileSystemKind, MemoryConfig, NewFiles, PersistentMemoryConfig, TRANSFER_PAGES_MAX, TokenCheck,
};
pub use plan::CorePlan;
pub use striping::Striping;

/// The longest time that an operation may take, in nanoseconds.
const TIME_NS_MAX: u64 = 10_000_000_000;

/// A whole drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// The preset's name.
    pub name: String,
    /// Flash, if it does not say, or a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DriveKind>,
    /// Which file system its cores serve, of the partition that says it has it; none if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemKind>,
    /// Shape of the flash; of no meaning in a disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub geometry: Geometry,
    /// Time of the flash operations; of no meaning in a disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timing: Timing,
    /// The link to the host.
    pub link: LinkConfig,
    /// The processors and their work.
    pub firmware: Firmware,
    /// The translation layer; of no meaning in a disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ftl: FtlConfig,
    /// What a disk is; of no meaning in flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskConfig>,
    /// Memory that the host lends, for pages that it pins.
    pub host_memory: HostMemoryConfig,
    /// Compression of pages, and how they are packed.
    #[serde(default, skip_serializing_if = "CompressionConfig::is_default")]
    pub compression: CompressionConfig,
    /// Memory of the drive's own, for file systems.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: MemoryConfig,
    /// Memory of the drive's own that a power cut leaves as it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub persistent_memory: PersistentMemoryConfig,
    /// Where the bytes are kept.
    pub media: MediaConfig,
}

/// Whether a table was left out.
fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
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
    /// How a core finds the frames of cached pages.
    pub index: FrameIndex,
}

/// How a core finds the frames of cached pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameIndex {
    /// By the map: the entry of a cached page names its frame (FusionFTL; ScalaCache, section 5.1).
    Merged,
    /// By a hash table of cached pages, which is looked at before the map: the scheme that ScalaCache is
    /// compared with (section 6.3).
    Hash,
}

/// Shape of the flash: pages are 4 KiB.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Pages that are programmed together, where pages are packed; 0 is 4, or fewer of small blocks or buffers,
    /// with compression, and 1 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unit_pages: u32,
}

/// True if a key is as it is where it is left out.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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

/// Times that no flash has: what a table that was left out stands for, as 0 is a time.
impl Default for Timing {
    fn default() -> Self {
        Timing {
            read_ns: u64::MAX,
            program_ns: u64::MAX,
            erase_ns: u64::MAX,
            channel_ns_per_page: u64::MAX,
        }
    }
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
    /// What it carries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: LinkKind,
    /// With `cxl`: what a load of a line of the drive's memory takes, in nanoseconds.
    #[serde(default = "load_ns", skip_serializing_if = "is_usual_load")]
    pub load_ns: u64,
}

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Commands and their data.
    #[default]
    Pcie,
    /// Loads and stores of the drive's cache of pages of files too (CXL.mem).
    Cxl,
}

/// CXL memory was measured at two to five times the latency of the machine's own (arXiv 2405.14209), which has about 100 ns.
const LOAD_NS: u64 = 250;

fn load_ns() -> u64 {
    LOAD_NS
}

fn is_usual_load(load_ns: &u64) -> bool {
    *load_ns == LOAD_NS
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
    /// How commands for files are checked, once the drive has a key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub token_check: TokenCheck,
}

/// How garbage collection chooses its victims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// The block with the fewest valid pages.
    #[default]
    Greedy,
    /// The block with the largest `age * (1 - u) / 2u`, u being the share of valid pages
    /// (Rosenblum and Ousterhout, 1992).
    CostBenefit,
}

/// Which plane a host write goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The next one that is idle, or the one with the least to do.
    #[default]
    Free,
    /// The one that the logical page's address names, as long as it has room: consecutive pages lie
    /// on channel after channel, then on die after die.
    Address,
}

/// The translation layer. Shares are of the drive's flash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Share of the flash that the namespace does not show.
    pub over_provisioning: f64,
    /// Share of the namespace that may hold data at once: below 1 the drive is thinly provisioned. Where
    /// the namespace is larger than the flash, share of what the flash holds.
    pub capacity_share: f64,
    /// Bytes that the namespace shows, which may be much more than the flash holds; 0 is as much as that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shown_bytes: u64,
    /// Bytes at the end of the namespace that are metadata of the host's; 0 is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metadata_bytes: u64,
    /// Share of the capacity that only metadata may take.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metadata_reserve_share: f64,
    /// Whether a page that is written with zeros takes no flash.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elide_zeros: bool,
    /// Which plane a host write goes to.
    pub placement: Placement,
    /// Share of a plane's time that the host's reads get, if they need it, while programs, erases
    /// and reads of collection wait there; at 0 all are served in the order in which they came.
    pub read_share: f64,
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
    /// What is in the write buffer survives a power cut: capacitors last until it is on flash. A
    /// write is durable when it is in the buffer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub power_loss_protection: bool,
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
    /// Pages in memory, of which those that checked workloads write take 64 bytes.
    Mixed,
    /// 8 bytes a page in memory.
    Stamp,
    /// An image file.
    File,
}

/// Where the bytes are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaConfig {
    /// RAM, stamps, a mixture of both or a file.
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
    /// More pages than a core can number.
    #[error(
        "drive: ftl.shown_bytes = {shown_bytes} is {pages} pages for each core, more than the {max} it can number: \
         show less or use more cores"
    )]
    TooMuchShown {
        /// What is to be shown.
        shown_bytes: u64,
        /// Pages of a core.
        pages: u64,
        /// What it can number.
        max: u64,
    },
    /// Metadata that leave no room for data.
    #[error(
        "drive: ftl.metadata_bytes = {metadata_bytes} must be less than the namespace's {namespace_bytes} bytes"
    )]
    Metadata {
        /// Bytes of metadata.
        metadata_bytes: u64,
        /// Bytes of the namespace.
        namespace_bytes: u64,
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
    /// A codec that cannot be had.
    #[error("drive: compression: {0}")]
    Codec(#[from] wharf_codec::CodecError),
    /// Sizes of compressed stamps that cannot be had.
    #[error("drive: compression.sizes: {0}")]
    Sizes(String),
    /// A disk that is not described.
    #[error("drive: kind is 'disk' but there is no table [disk]")]
    NoDisk,
    /// What a disk cannot do.
    #[error("drive: {key} must be {rule} in a disk")]
    OfDisk {
        /// The key.
        key: &'static str,
        /// What is allowed.
        rule: &'static str,
    },
    /// File media without a file.
    #[error("drive: media.kind is 'file' but media.path names no image")]
    NoPath,
    /// A flash shape that no media has.
    #[error("drive: {0}")]
    Geometry(#[from] crate::media::GeometryError),
}

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
