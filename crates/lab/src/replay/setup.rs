//! What shapes a run but the design: drives by role, host, clients, engine.

use std::sync::Arc;

use wharf_drive::config::{DriveConfig, MediaKind};
use wharf_host::boot::Spread;
use wharf_host::design::{DesignConfig, Role};
use wharf_host::volume::Layout;
use wharf_runtime::CostTable;

use super::Engine;
use crate::config::{ConfigHash, HostConfig, config_hash};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Bytes that a drive keeps for each page that it shows: its map, and the stamps of the flash
/// behind it.
const DRIVE_TABLES_BYTES: u64 = 24;

/// Bytes for each cached page besides the page: those of `scala`, the most.
const CACHE_TABLES_BYTES: u64 = 160;

/// Drives of one kind, which stand behind one role as one volume.
#[derive(Clone)]
pub struct DeviceGroup {
    /// What they are for.
    pub role: Role,
    /// Each of them.
    pub drive: DriveConfig,
    /// How many.
    pub drives: u32,
    /// How their volume is spread over them. Whether its users go through the driver of an array is
    /// up to the design, too.
    pub spread: Spread,
}

impl DeviceGroup {
    /// `drives` such drives, spread as the host says.
    pub fn new(role: Role, drive: DriveConfig, drives: u32, host: &HostConfig) -> DeviceGroup {
        DeviceGroup {
            role,
            drive,
            drives,
            spread: host.spread(),
        }
    }

    /// Where the pages of the volume lie.
    ///
    /// # Panics
    /// If the layout cannot be on so many drives: see [`HostConfig::check_drives`].
    pub(crate) fn layout(&self) -> Layout {
        let pages = vec![self.drive.namespace_pages(); self.drives as usize];
        let layout = Layout::of(self.spread.level, &pages, self.spread.stripe_pages);
        layout.expect("the number of drives was checked")
    }

    /// Bytes that can be addressed on the volume: whole stripes only.
    ///
    /// # Panics
    /// As [`volume_bytes`].
    pub fn volume_bytes(&self) -> u64 {
        self.layout().pages() * PAGE_BYTES
    }

    /// Firmware cores of all drives.
    pub(crate) fn cores(&self) -> u32 {
        self.drives * self.drive.firmware.cores
    }
}

/// Everything that shapes a run but the design.
#[derive(Clone)]
pub struct Setup {
    /// The drives, by role: those of [`Role::Cache`] first, and each role once.
    pub devices: Vec<DeviceGroup>,
    /// The host.
    pub host: HostConfig,
    /// Costs in virtual time.
    pub costs: CostTable,
    /// Cache of every design, in bytes.
    pub cache_bytes: u64,
    /// Clients.
    pub clients: u32,
    /// Requests in flight of each client.
    pub depth: u32,
    /// Whether they are under way together.
    pub submission: Submission,
    /// Open loop: send by timestamps, so many times faster; `None` for a closed loop.
    pub speed: Option<f64>,
    /// Root of all random choices.
    pub seed: u64,
    /// Virtual or real time.
    pub engine: Engine,
    /// How the drives are prepared.
    pub prepare: Prepare,
}

impl Setup {
    /// One client at depth 1 with a cache of a MiB, in virtual time, over drives that hold the
    /// workload's pages.
    pub fn new(drive: DriveConfig, drives: u32, host: HostConfig, costs: CostTable) -> Setup {
        Setup {
            devices: vec![DeviceGroup::new(Role::Cache, drive, drives, &host)],
            host,
            costs,
            cache_bytes: 1 << 20,
            clients: 1,
            depth: 1,
            submission: Submission::default(),
            speed: None,
            seed: 1,
            engine: Engine::Virtual,
            prepare: Prepare::Touched,
        }
    }

    /// The drives of the role `cache`.
    ///
    /// # Panics
    /// If there are none.
    pub fn cache(&self) -> &DeviceGroup {
        self.group(Role::Cache).expect("every setup has a cache")
    }

    /// As [`Setup::cache`], to change them.
    ///
    /// # Panics
    /// If there are none.
    pub fn cache_mut(&mut self) -> &mut DeviceGroup {
        let mut groups = self.devices.iter_mut();
        let found = groups.find(|group| group.role == Role::Cache);
        found.expect("every setup has a cache")
    }

    /// The drives of a role.
    pub fn group(&self, role: Role) -> Option<&DeviceGroup> {
        self.devices.iter().find(|group| group.role == role)
    }

    /// The drives that hold all data: those of the role `backing`, if there are any.
    pub fn home(&self) -> &DeviceGroup {
        self.group(Role::Backing).unwrap_or_else(|| self.cache())
    }

    /// Bytes that clients can address.
    ///
    /// # Panics
    /// As [`volume_bytes`].
    pub fn volume_bytes(&self) -> u64 {
        self.home().volume_bytes()
    }

    /// True if a drive shows much more than it can hold: little of the volume will ever be written.
    pub(crate) fn is_sparse(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|group| group.drive.ftl.shown_bytes > 0)
    }

    /// Firmware cores of all drives.
    pub(crate) fn cores(&self) -> u32 {
        self.devices.iter().map(DeviceGroup::cores).sum()
    }

    /// Requests of a client that are served at a time.
    pub fn tasks(&self) -> u32 {
        match self.submission {
            Submission::Together => self.depth,
            Submission::InTurn => 1,
        }
    }

    /// Hash of drives, host and costs.
    pub fn config_hash(&self) -> ConfigHash {
        let devices = self.devices.iter();
        let drives: Vec<_> = devices.map(|group| (group.role, &group.drive)).collect();
        config_hash(&drives, &self.host, &self.costs)
    }

    /// As [`memory_bytes`], for its drives and cache.
    pub fn memory_bytes(&self) -> u64 {
        let drives = self.devices.iter();
        let drives = drives.map(|group| drives_bytes(&group.drive, group.drives));
        let drives = drives.sum::<u64>();
        match self.group(Role::Backing) {
            // What is cached is on drives.
            Some(_) => drives,
            None => drives + cached_bytes(&self.cache().drive, self.cache_bytes),
        }
    }

    /// Memory that the drives of a run take at least, in bytes, once `footprint_pages` pages are on them: all that they have, where they
    /// are filled before.
    pub fn held_bytes(&self, footprint_pages: u64) -> u64 {
        let of_group = |group: &DeviceGroup| {
            let there = u64::from(group.drives).saturating_mul(group.drive.namespace_pages());
            let pages = match self.prepare {
                Prepare::Steady => there,
                _ => footprint_pages.min(there),
            };
            let media = &group.drive.media;
            let data_bytes = match media.path {
                Some(_) => 0,
                None if media.kind == MediaKind::Mixed => MIXED_PAGE_BYTES,
                None => group.drive.page_bytes() as u64,
            };
            pages.saturating_mul(data_bytes + DRIVE_TABLES_BYTES)
        };
        // Of a cache and what lies behind it, one has the pages for certain.
        self.devices.iter().map(of_group).max().unwrap_or(0)
    }

    /// What every design is told.
    pub(crate) fn design_config(&self) -> DesignConfig {
        let cache = self.cache();
        DesignConfig {
            cache_bytes: self.cache_bytes,
            clients: self.clients,
            drives: cache.drives,
            level: cache.spread.level,
            files: self.host.files,
            memory_nodes: self.host.memory_nodes,
            in_kernel: self.host.in_kernel,
            file_system: self.host.file_system,
            dirty_background_share: self.host.dirty_background_share,
            dirty_hard_share: self.host.dirty_hard_share,
            write_policy: self.host.write_policy,
            ..DesignConfig::default()
        }
    }
}

/// Memory that mixed media take for a page of a workload's, in bytes; few others are whole.
const MIXED_PAGE_BYTES: u64 = 64;

/// Memory that a run takes at most, in bytes, but for its requests, and whole pages of mixed media: tables and data of the drives,
/// and the cache with what the design with the most keeps for each page.
pub fn memory_bytes(drive: &DriveConfig, drives: u32, cache_bytes: u64) -> u64 {
    drives_bytes(drive, drives) + cached_bytes(drive, cache_bytes)
}

fn drives_bytes(drive: &DriveConfig, drives: u32) -> u64 {
    if drive.as_disk().is_some() || drive.ftl.shown_bytes > 0 {
        // It takes memory for what a run writes, which nobody knows before.
        return 0;
    }
    let data_bytes = match drive.media.kind {
        MediaKind::Stamp => 0,
        MediaKind::Mixed => MIXED_PAGE_BYTES,
        MediaKind::Ram | MediaKind::File => PAGE_BYTES,
    };
    u64::from(drives) * drive.namespace_pages() * (DRIVE_TABLES_BYTES + data_bytes)
}

fn cached_bytes(drive: &DriveConfig, cache_bytes: u64) -> u64 {
    cache_bytes / PAGE_BYTES * (drive.page_bytes() as u64 + CACHE_TABLES_BYTES)
}

/// Bytes that can be addressed on `drives` such drives as an array of the host's: whole stripes
/// only.
///
/// # Panics
/// If the array's layout cannot be on so many drives: see [`HostConfig::check_drives`].
pub fn volume_bytes(drive: &DriveConfig, drives: u32, host: &HostConfig) -> u64 {
    DeviceGroup::new(Role::Cache, drive.clone(), drives, host).volume_bytes()
}

/// How a client serves the requests that it has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Submission {
    /// All at once: while one waits, the others go on.
    #[default]
    Together,
    /// One after another, as Linux serves buffered requests that are submitted by libaio: each
    /// within its `io_submit`. The others wait in line, and a request's latency is that of all
    /// `depth`.
    InTurn,
}

/// What the drives hold when a run begins.
#[derive(Debug, Clone)]
pub enum Prepare {
    /// Nothing: reads of pages that the run did not write touch no flash.
    Empty,
    /// The pages that the workload touches, written in order on the drives that hold all data.
    Touched,
    /// The whole namespace, then random overwrites until collection is in its steady state.
    Steady,
    /// Copies of drives from a stock that several runs share.
    Stock(Arc<crate::prepare::Stock>),
    /// The image of a prepared drive.
    Image(std::path::PathBuf),
}
