//! From parameters to what a core is built from: every value is checked, then the drive is divided.

use super::{ConfigError, DriveConfig, DriveKind, MediaKind, Striping};
use crate::ftl::{CACHED_MAX, PAGES_MAX, gc_frames, sparse_map_bytes_max};
use crate::media::packed::unit::{EXTENTS_PER_PAGE, PAGE_GRANULES};
use crate::media::{CoreGeometry, LPN_MAX, PAGE_BYTES};

/// The fewest blocks that host writes leave to collection: one victim's pages fit into one, the other
/// makes up for one that wears out meanwhile.
const RESERVE_MIN: u32 = 2;

/// Fewest units of a block, where they are of several pages: collection gains one of them at a time.
const SLOTS_MIN: u32 = 4;

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
    /// Pages of a unit that is programmed at once; 0 where each page is programmed by itself.
    pub unit_pages: u32,
    /// What is programmed at once in a block: its pages, or its units.
    pub slots_per_block: u32,
    /// Numbers that a map entry has for what is in a block: of its pages, or of extents.
    pub extents_per_block: u32,
    /// What a block of valid data weighs: a page 1, or an extent its granules.
    pub weight_per_block: u32,
    /// Logical pages.
    pub logical_pages: u32,
    /// Logical pages that may be on flash at once.
    pub capacity_pages: u32,
    /// The namespace shows more than the flash holds: the map has what is there alone.
    pub is_sparse: bool,
    /// Pages from this one on are metadata.
    pub metadata_first: u32,
    /// Of the capacity, pages that only metadata may take.
    pub reserved_pages: u32,
    /// Frames of the host's memory that the core may be lent, at most.
    pub cached_max: u32,
    /// Frames of the write buffer.
    pub frames: u32,
    /// Host writes wait while no more blocks than this are free: they are collection's.
    pub reserve_blocks: u32,
    /// Collection does all it can while no more blocks than this are free.
    pub foreground_blocks: u32,
    /// Collection runs while fewer blocks than this are free.
    pub background_blocks: u32,
    /// What a victim's valid data may weigh at most in the background.
    pub background_valid_max: u32,
    /// Blocks that are collected at once, at most.
    pub victims_max: u32,
}

impl CorePlan {
    /// Pages of a block that count as room for data. A unit holds as many pages as it has, at least;
    /// but one of each block may be closed before it is full, or hold what is no more.
    pub fn data_pages_per_block(&self) -> u32 {
        match self.unit_pages {
            0 | 1 => self.pages_per_block,
            unit_pages => self.pages_per_block - unit_pages,
        }
    }

    /// What a slot takes at least, by weight, before the next is needed: a page 1, and of a unit what
    /// is left when the largest extent does not fit.
    pub fn weight_per_slot(&self) -> u32 {
        match self.unit_pages {
            0 => 1,
            1 => PAGE_GRANULES / 2,
            unit_pages => (unit_pages - 1) * PAGE_GRANULES,
        }
    }

    /// Entries that a sparse map may have at a time; `None` of a flat one. Of flash all extents count: a power cut may
    /// bring back pages that were deallocated beside those that took their place.
    pub fn entries_max(&self) -> Option<u64> {
        let flash = u64::from(self.blocks) * u64::from(self.extents_per_block);
        let entries = flash + u64::from(self.frames) + u64::from(self.cached_max);
        self.is_sparse
            .then(|| entries.min(self.logical_pages.into()))
    }

    /// The shape of the core's media.
    pub fn media_geometry(&self, page_bytes: u32) -> CoreGeometry {
        // The log holds a checkpoint of the map and the trims since, with room for both.
        let map_bytes = match self.entries_max() {
            None => u64::from(self.logical_pages) * 4,
            Some(entries) => sparse_map_bytes_max(self.logical_pages, entries),
        };
        let log_bytes = map_bytes * 2 + u64::from(self.blocks) * 16 + (4 << 20);
        CoreGeometry {
            blocks: self.blocks,
            pages_per_block: self.pages_per_block,
            page_bytes,
            unit_pages: self.unit_pages,
            log_bytes,
        }
    }
}

impl DriveConfig {
    /// Logical pages of the namespace.
    pub fn namespace_pages(&self) -> u64 {
        let pages = match (self.as_disk(), self.ftl.shown_bytes) {
            (Some(disk), _) => disk.sectors(),
            (None, 0) => self.held_pages(),
            (None, bytes) => bytes / u64::from(PAGE_BYTES),
        };
        self.in_stripes(pages)
    }

    /// Pages that the flash holds, but for what is over-provisioned.
    fn held_pages(&self) -> u64 {
        (self.geometry.pages() as f64 * (1.0 - self.ftl.over_provisioning)) as u64
    }

    /// As many of `pages` as are whole stripes on every core.
    fn in_stripes(&self, pages: u64) -> u64 {
        let step = u64::from(self.firmware.stripe_pages) * u64::from(self.firmware.cores);
        pages / step * step
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
            MediaKind::Ram | MediaKind::Mixed | MediaKind::File => wharf_wire::dma::PAGE_BYTES,
        }
    }

    /// Checks every value and divides the drive among its cores.
    pub fn plan(&self) -> Result<CorePlan, ConfigError> {
        if self.kind() == DriveKind::Disk {
            return self.plan_of_disk();
        }
        self.check_ranges()?;
        self.compression.check()?;
        self.check_units()?;
        let (geometry, cores) = (&self.geometry, self.firmware.cores);
        if !geometry.channels.is_multiple_of(cores) {
            return Err(ConfigError::Cores {
                cores,
                channels: geometry.channels,
            });
        }
        let planes = geometry.planes() / cores;
        let pages = geometry.pages() / u64::from(cores);
        let unit_pages = self.unit_pages();
        let (numbers_per_page, weight_per_page) = match unit_pages {
            0 => (1, 1),
            _ => (EXTENTS_PER_PAGE, PAGE_GRANULES),
        };
        if pages * u64::from(numbers_per_page) > u64::from(PAGES_MAX) {
            return Err(ConfigError::TooLarge {
                pages: pages * u64::from(numbers_per_page),
            });
        }
        let blocks = planes * geometry.blocks_per_plane;
        let logical_pages = self.logical_pages()?;
        // What the flash holds for the host, where that is not all that is shown.
        let held = (self.in_stripes(self.held_pages()) / u64::from(cores)).min(logical_pages.into())
            as u32;
        let is_sparse = held < logical_pages;
        let (metadata_first, reserved_pages) = self.metadata(logical_pages, held)?;
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
            unit_pages,
            slots_per_block: geometry.pages_per_block / unit_pages.max(1),
            extents_per_block: geometry.pages_per_block * numbers_per_page,
            weight_per_block: geometry.pages_per_block * weight_per_page,
            logical_pages,
            capacity_pages: (f64::from(held) * self.ftl.capacity_share) as u32,
            is_sparse,
            metadata_first,
            reserved_pages,
            cached_max: match self.host_memory.enabled {
                true => logical_pages.min(CACHED_MAX),
                false => 0,
            },
            frames: self.ftl.write_buffer_pages / cores,
            // The planes' worth of blocks above it are for host writes to open, one on each plane,
            // while collection does all it can.
            reserve_blocks: foreground_blocks.saturating_sub(planes).max(RESERVE_MIN),
            foreground_blocks,
            background_blocks,
            background_valid_max: (f64::from(geometry.pages_per_block * weight_per_page)
                * (1.0 - self.ftl.gc_background_invalid_min))
                as u32,
            victims_max: self.victims_max(planes),
        };
        plan.media_geometry(PAGE_BYTES).check()?;
        let reserve = foreground_blocks + 2 * planes;
        let data = u64::from(plan.capacity_pages).div_ceil(u64::from(plan.data_pages_per_block()));
        if data + u64::from(reserve) > u64::from(blocks) {
            return Err(ConfigError::Spare {
                blocks,
                reserve,
                data,
            });
        }
        Ok(plan)
    }

    /// Frames that a collector must have: where pages are packed, two units of whole pages, so that no
    /// unit is closed that has fewer pages in it than it has pages.
    fn frames_of_a_collector(&self) -> u32 {
        (2 * self.unit_pages()).max(1)
    }

    /// Refuses units that collection could not empty: of blocks of few units, or with few frames.
    fn check_units(&self) -> Result<(), ConfigError> {
        let unit_pages = self.unit_pages();
        if unit_pages > 0 && self.media.kind == MediaKind::Mixed {
            return Err(ConfigError::Range {
                key: "media.kind",
                value: "mixed".into(),
                rule: "'ram', 'stamp' or 'file' where pages are packed or compressed",
            });
        }
        let slots = self.geometry.pages_per_block / unit_pages.max(1);
        if unit_pages > 1 && slots < SLOTS_MIN {
            return Err(ConfigError::Range {
                key: "geometry.unit_pages",
                value: unit_pages.to_string(),
                rule: "1, or at most a quarter of geometry.pages_per_block",
            });
        }
        let frames = gc_frames(self.ftl.write_buffer_pages / self.firmware.cores);
        if frames < self.frames_of_a_collector() {
            return Err(ConfigError::Range {
                key: "ftl.write_buffer_pages",
                value: self.ftl.write_buffer_pages.to_string(),
                rule: "at least 8 units for each core, where pages are packed",
            });
        }
        Ok(())
    }

    /// Logical pages of a core.
    fn logical_pages(&self) -> Result<u32, ConfigError> {
        let pages = self.namespace_pages() / u64::from(self.firmware.cores);
        let max = u64::from(LPN_MAX) + 1;
        match u32::try_from(pages) {
            Ok(number) if pages <= max => Ok(number),
            _ => Err(ConfigError::TooMuchShown {
                shown_bytes: self.ftl.shown_bytes,
                pages,
                max,
            }),
        }
    }

    /// The first of a core's pages that is metadata, and how many of `held` pages only metadata may take.
    fn metadata(&self, logical_pages: u32, held: u32) -> Result<(u32, u32), ConfigError> {
        let bytes = self.ftl.metadata_bytes;
        let pages = self.namespace_pages();
        let metadata = bytes.div_ceil(u64::from(PAGE_BYTES));
        let reserved = f64::from(held) * self.ftl.capacity_share * self.ftl.metadata_reserve_share;
        if metadata >= pages.max(1) {
            return Err(ConfigError::Metadata {
                metadata_bytes: bytes,
                namespace_bytes: pages * u64::from(PAGE_BYTES),
            });
        }
        // A stripe that begins in the metadata is metadata: the least of the cores' first pages.
        let striping = self.striping();
        let first =
            (0..self.firmware.cores).map(|core| striping.pages_below(pages - metadata, core));
        Ok((first.min().unwrap_or(logical_pages), reserved.ceil() as u32))
    }

    /// As [`DriveConfig::plan`], of a disk: one core, and no flash.
    fn plan_of_disk(&self) -> Result<CorePlan, ConfigError> {
        let disk = self.disk.as_ref().ok_or(ConfigError::NoDisk)?;
        self.check_firmware()?;
        disk.check()?;
        let refuse = |key, rule| Err(ConfigError::OfDisk { key, rule });
        if self.media.kind == MediaKind::Mixed {
            return refuse("media.kind", "'ram', 'stamp' or 'file'");
        }
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
            unit_pages: 0,
            slots_per_block: 1,
            extents_per_block: 1,
            weight_per_block: 1,
            logical_pages: sectors,
            capacity_pages: sectors,
            is_sparse: false,
            metadata_first: sectors,
            reserved_pages: 0,
            cached_max: 0,
            frames: 0,
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
        // What is packed stays in a frame until its unit is full.
        let frames = frames / self.frames_of_a_collector();
        (reading as u32 + 2).min(planes + 1).min(frames).max(1)
    }
}
