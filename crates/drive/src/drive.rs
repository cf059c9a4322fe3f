//! A whole drive: media, cores and controller put together on a machine's CPUs.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_codec::Codec;
use wharf_files::lines::RamLines;
use wharf_runtime::notifier::Kind;
use wharf_runtime::sync::Ordering;
use wharf_runtime::{Cpu, CpuId, Machine, Notifier, Op, Side};
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::lane::Lane;
use wharf_wire::queue::{DriveQueue, HostQueue, queue_pair};
use wharf_wire::window::Times;

use crate::config::{ConfigError, CorePlan, DriveConfig, LinkKind, MediaKind, NewFiles, Platform};
use crate::controller::{ControllerParts, Feature, GuestQueues, Running};
use crate::core::{Core, CoreParts, CoreStatus, Slots, Store, requests_max};
use crate::disk::{Disk, Platters};
use crate::engine::Engine;
use crate::features::FEATURES;
use crate::ftl::{Ftl, OpenError, PreconditionError};
use crate::guests;
use crate::kept::{KeptPages, Protection};
use crate::link::{self, FromHost};
use crate::media::{
    AnyMedia, FileImage, FileOptions, HostFault, ImageError, ImageGeometry, MediaError,
    PackedMedia, RamMedia, SlabError, StampMedia,
};
use crate::memory::DeviceMemory;
use crate::persistent::{self, PersistentMemory};
use crate::power::PowerSwitch;

/// Entries of the admin queue.
const ADMIN_DEPTH: u32 = 64;

/// Seed of a new image's identity: images of one shape are alike until they are written.
pub(crate) const IMAGE_SEED: u64 = 0x5748_4152_4600_0001;

/// A drive that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A wrong configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The image file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] SlabError),
    /// No memory for its own.
    #[error(transparent)]
    Own(#[from] RegisterError),
    /// The media cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A drive cannot be preconditioned.
    #[error(transparent)]
    Precondition(#[from] PreconditionError),
    /// The file of a disk.
    #[error(transparent)]
    Platters(#[from] Box<HostFault>),
    /// What is done with flash alone.
    #[error("a disk cannot be {0}: only flash can")]
    NotFlash(&'static str),
    /// The media cannot be copied, or changed while the drive is off.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// A drive that is powered off: its configuration and its media, one for each core.
pub struct Drive {
    config: DriveConfig,
    media: Vec<AnyMedia>,
    /// The surfaces of a disk, which has no other media.
    platters: Option<Platters>,
    /// What its persistent memory holds, if it has any.
    persistent: Option<Arc<RamLines>>,
    /// What its protected memory has kept.
    kept: Arc<KeptPages>,
    /// Features beyond those of every drive.
    more_features: Vec<&'static dyn Feature>,
    /// A file system that is to be made.
    new_files: Option<NewFiles>,
    /// Hosts in other processes.
    guests: u32,
}

/// What remains of a drive while it runs: its way in, and what it leaves behind.
pub struct DriveHandle {
    /// The host's end of the admin queue.
    pub admin: HostQueue,
    pub(crate) notifier: Notifier,
    pub(crate) guests: GuestQueues,
    /// The drive's CPUs: the controller's, then the cores'; of software one for all.
    pub cpus: Vec<CpuId>,
    pub(crate) config: DriveConfig,
    persistent: Option<Arc<RamLines>>,
    kept: Arc<KeptPages>,
    statuses: Vec<CoreStatus>,
    ring_bytes: usize,
}

/// What memory a drive takes for what a plain SSD has not: to be looked at while it runs.
pub struct Book {
    statuses: Vec<CoreStatus>,
    ring_bytes: usize,
}

impl Book {
    /// Bytes that the cores take to keep book of the frames that they are lent, the frames themselves and the
    /// host's frame table left out; 0 where none is lent.
    pub fn cache_bytes(&self) -> u64 {
        let of = |status: &CoreStatus| status.book_bytes.load(Ordering::Relaxed);
        self.statuses.iter().map(of).sum()
    }

    /// Bytes of the table of commands that controller and cores share.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes as u64
    }
}

impl Drive {
    /// A drive with the media that its configuration names: new memory, or an image that is opened
    /// if it exists and created if not.
    pub fn new(config: DriveConfig) -> Result<Drive, DriveError> {
        let plan = config.plan()?;
        if config.as_disk().is_some() {
            let (sectors, bytes) = (plan.logical_pages, config.page_bytes());
            let platters = match &config.media.path {
                Some(path) if config.media.kind == MediaKind::File => {
                    Platters::in_file(path, sectors, bytes)?
                }
                _ => Platters::in_memory(sectors, bytes),
            };
            return Ok(Drive::with_platters(config, platters));
        }
        let geometry = plan.media_geometry(config.page_bytes() as u32);
        let cores = config.firmware.cores;
        let media = match config.media.kind {
            MediaKind::Ram | MediaKind::Stamp if geometry.unit_pages > 0 => (0..cores)
                .map(|_| PackedMedia::new(geometry, config.media.verify).map(AnyMedia::Packed))
                .collect::<Result<_, _>>()?,
            MediaKind::Ram => (0..cores)
                .map(|_| RamMedia::new(geometry, config.media.verify).map(AnyMedia::Ram))
                .collect::<Result<_, _>>()?,
            MediaKind::Mixed => (0..cores)
                .map(|_| RamMedia::mixed(geometry, config.media.verify).map(AnyMedia::Ram))
                .collect::<Result<_, _>>()?,
            MediaKind::Stamp => (0..cores)
                .map(|_| StampMedia::new(geometry).map(AnyMedia::Stamp))
                .collect::<Result<_, _>>()?,
            MediaKind::File => {
                let path = config
                    .media
                    .path
                    .as_deref()
                    .expect("the plan checks the path");
                let shape = ImageGeometry {
                    cores,
                    core: geometry,
                };
                let image = if path.exists() {
                    FileImage::open(path, FileOptions::default())?
                } else {
                    FileImage::create(path, &shape, IMAGE_SEED, FileOptions::default())?
                };
                image.require(&shape)?;
                (0..cores)
                    .map(|i| image.media(i))
                    .collect::<Result<_, _>>()?
            }
        };
        Ok(Drive {
            persistent: persistent::blank(&config.persistent_memory),
            config,
            media,
            platters: None,
            kept: Arc::default(),
            more_features: Vec::new(),
            new_files: None,
            guests: 0,
        })
    }

    /// A disk with these platters.
    pub(crate) fn with_platters(config: DriveConfig, platters: Platters) -> Drive {
        Drive {
            config,
            media: Vec::new(),
            platters: Some(platters),
            persistent: None,
            kept: Arc::default(),
            more_features: Vec::new(),
            new_files: None,
            guests: 0,
        }
    }

    /// The surfaces, of a disk.
    pub fn platters(&self) -> Option<&Platters> {
        self.platters.as_ref()
    }

    /// A drive with media that exist already: what a power cut left, or what was prepared.
    pub fn with_media(config: DriveConfig, media: Vec<AnyMedia>) -> Result<Drive, DriveError> {
        config.plan()?;
        assert!(
            media.len() == config.firmware.cores as usize,
            "one media object for each core"
        );
        Ok(Drive {
            persistent: persistent::blank(&config.persistent_memory),
            config,
            media,
            platters: None,
            kept: Arc::default(),
            more_features: Vec::new(),
            new_files: None,
            guests: 0,
        })
    }

    /// What its persistent memory holds, if it has any.
    pub fn persistent(&self) -> Option<&Arc<RamLines>> {
        self.persistent.as_ref()
    }

    /// The same drive, with persistent memory that holds this: what a power cut left.
    #[must_use]
    pub fn with_persistent(self, persistent: Option<Arc<RamLines>>) -> Drive {
        Drive { persistent, ..self }
    }

    /// What its memory has kept since the power went, if that is protected.
    pub fn kept(&self) -> &Arc<KeptPages> {
        &self.kept
    }

    /// The same drive, whose memory has kept this.
    #[must_use]
    pub fn with_kept(self, kept: Arc<KeptPages>) -> Drive {
        Drive { kept, ..self }
    }

    /// Has the drive have one more feature, which others have made. It takes no part in [`Drive::fill`] and the
    /// like, which make new drives.
    #[must_use]
    pub fn with_feature(mut self, feature: &'static dyn Feature) -> Drive {
        self.more_features.push(feature);
        self
    }

    /// Has the drive make a file system when it is powered on next, over all that is there, before it serves
    /// commands that speak of files. It is one that has file systems. The partition table comes last: a power cut
    /// before leaves none.
    #[must_use]
    pub fn with_new_files(mut self, new: NewFiles) -> Drive {
        self.new_files = Some(new);
        self
    }

    /// Has the drive have so many queue pairs more than `firmware.queues_max`: for hosts in other processes, in real time
    /// ([`DriveHandle::for_guests`]).
    #[must_use]
    pub fn with_guests(mut self, guests: u32) -> Drive {
        self.guests = guests;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// Configuration and media.
    pub(crate) fn into_parts(self) -> (DriveConfig, Vec<AnyMedia>) {
        (self.config, self.media)
    }

    /// The media, one for each core.
    pub(crate) fn media(&self) -> &[AnyMedia] {
        &self.media
    }

    /// The media, to fill.
    pub(crate) fn media_mut(&mut self) -> &mut [AnyMedia] {
        &mut self.media
    }

    /// The media, powered off.
    pub fn into_media(self) -> Vec<AnyMedia> {
        self.media
    }

    /// Powers the drive on: adds its CPUs and tasks to `machine`. `name` tells drives apart.
    pub fn power_on(
        self,
        machine: &mut Machine,
        name: &str,
        dma: &Arc<DmaSpace>,
        power: &PowerSwitch,
    ) -> Result<DriveHandle, DriveError> {
        let Drive {
            config,
            media,
            platters,
            persistent,
            kept,
            more_features,
            new_files,
            guests,
        } = self;
        let features = FEATURES.iter().copied().chain(more_features);
        let features = features.filter(|feature| feature.is_on(&config)).collect();
        let plan = config.plan()?;
        let cores = config.firmware.cores;
        guests::check(&config, guests)?;
        let guests = GuestQueues {
            count: guests,
            ..GuestQueues::default()
        };
        let is_software = config.firmware.platform == Platform::Software;
        let notifier = match is_software {
            true => Notifier::of_kind(Kind::Memory),
            false => Notifier::new(),
        };
        let (admin, drive_admin) = queue_pair(ADMIN_DEPTH, &notifier, cores);
        let slowness = config.firmware.slowness;
        let controller_cpu = match is_software {
            true => machine.add_cpu(name, Side::Drive, slowness),
            false => machine.add_cpu(&format!("{name}.controller"), Side::Drive, 1.0),
        };
        let mut cpus = vec![controller_cpu];
        for index in (0..cores).filter(|_| !is_software) {
            let name = format!("{name}.core{index}");
            cpus.push(machine.add_cpu(&name, Side::Drive, slowness));
        }
        let ring_bytes = Slots::bytes(config.firmware.commands_max);
        let statuses: Vec<_> = (0..cores).map(|_| CoreStatus::default()).collect();
        let mut stores = Vec::new();
        for media in media {
            let ftl = Ftl::open(&config, plan.clone(), media, power.clone())?;
            stores.push(Store::Flash(Box::new(ftl)));
        }
        if let (Some(platters), Some(disk)) = (platters, config.as_disk()) {
            let disk = Disk::new(disk, plan.logical_pages, platters);
            stores.push(Store::Disk(Box::new(disk)));
        }
        let lanes = link::lanes(&config.link);
        let memory = match config.file_system {
            Some(_) => {
                let modules = persistent.clone().map(|held| {
                    PersistentMemory::new(&config.persistent_memory, held, power.clone())
                });
                let protection = || Protection::new(kept.clone(), power.clone());
                let protection = config.memory.protected.then(protection);
                let memory = DeviceMemory::new(&config.memory)?
                    .with_persistent(modules)
                    .with_protection(protection);
                Some(match config.link.kind {
                    LinkKind::Pcie => memory,
                    LinkKind::Cxl => memory.with_window(Times {
                        load_ns: config.link.load_ns,
                        to_host: lanes.0.clone(),
                        from_host: lanes.1.clone(),
                    }),
                })
            }
            None => None,
        };
        if let Some(window) = memory.as_ref().and_then(DeviceMemory::window) {
            dma.set_window(window.clone());
        }
        let under_way = UnderWay {
            config: config.clone(),
            lanes,
            plan,
            features,
            memory,
            new_files,
            stores,
            statuses: statuses.clone(),
            notifier: notifier.clone(),
            guests: guests.clone(),
            admin: drive_admin,
            dma: dma.clone(),
            power: power.clone(),
        };
        machine.spawn_device(&cpus, move |cpus| under_way.start(&cpus));
        Ok(DriveHandle {
            admin,
            notifier,
            guests,
            cpus,
            config,
            persistent,
            kept,
            statuses,
            ring_bytes,
        })
    }
}

/// What a drive that is powered on is made of, for the thread that runs it.
struct UnderWay {
    config: DriveConfig,
    /// Of the link: to the host, and from it.
    lanes: (Lane, Lane),
    plan: CorePlan,
    features: Vec<&'static dyn Feature>,
    memory: Option<DeviceMemory>,
    new_files: Option<NewFiles>,
    stores: Vec<Store>,
    statuses: Vec<CoreStatus>,
    notifier: Notifier,
    guests: GuestQueues,
    admin: DriveQueue,
    dma: Arc<DmaSpace>,
    power: PowerSwitch,
}

impl UnderWay {
    /// Starts the tasks of cores and controller. `cpus` are the controller's, then the cores'; of software one
    /// for all.
    fn start(self, cpus: &[Cpu]) {
        let serves_files = self.config.file_system.is_some();
        let asked = match serves_files {
            true => requests_max(self.config.firmware.cores),
            false => 0,
        };
        let commands = self.config.firmware.commands_max;
        let slots = Rc::new(RefCell::new(Slots::new(commands, asked)));
        let memory = self.memory.map(Rc::new);
        let (to_host, from_host) = self.lanes;
        let (from_host, cores_collecting) = (FromHost::new(from_host), Rc::default());
        let engine = Engine::new(&self.config);
        let firmware = &self.config.firmware;
        let mut cores = Vec::new();
        for ((index, store), status) in (0..).zip(self.stores).zip(self.statuses) {
            let parts = CoreParts {
                index,
                store,
                slots: slots.clone(),
                answered: self.notifier.clone(),
                cores_collecting: Rc::clone(&cores_collecting),
                dma: self.dma.clone(),
                memory: memory.clone(),
                jobs: firmware.parts_max,
                volatile_write_cache: self.config.volatile_write_cache(),
                log_write_ns: self.config.timing.program_ns,
                busy_wait_ns: self.config.host_memory.busy_wait_ns,
                // As long as what cannot be taken back, should the host come after all.
                quiet_ns: self.config.timing.erase_ns,
                striping: self.config.striping(),
                power: self.power.clone(),
                status,
                from_host: from_host.clone(),
                engine: engine.clone(),
                pack_wait_ns: self.config.compression.pack_wait_ns,
                squeezing: squeezing(&self.config),
                copies: firmware.platform == Platform::Software,
                states: self.features.iter().filter_map(|f| f.on_core()).collect(),
                waiters: self.features.iter().filter_map(|f| f.waiter()).collect(),
            };
            let cpu = cpus.get(1 + index as usize).unwrap_or(&cpus[0]);
            let core = Rc::new(Core::new(cpu.clone(), parts));
            core.start();
            cores.push(core);
        }
        if serves_files {
            cores.iter().for_each(|core| core.meet(&cores, commands));
        }
        for feature in &self.features {
            feature.power_on(&cores, &self.config, self.new_files);
        }
        let controller = Running::new(ControllerParts {
            cpu: cpus[0].clone(),
            config: self.config,
            plan: self.plan,
            dma: self.dma,
            notifier: self.notifier,
            guests: self.guests,
            admin: self.admin,
            slots,
            cores,
            cores_collecting,
            to_host,
            from_host,
            features: self.features,
        });
        cpus[0].spawn("controller", controller.run());
    }
}

/// What the drive's processor does to compress a page, and to expand one, if it has no engine for that.
/// Zstandard is charged as zlib is.
fn squeezing(config: &DriveConfig) -> Option<(Op, Op)> {
    let ops = match config.compression.codec {
        Codec::None => return None,
        Codec::Lz4 => (Op::CompressPage, Op::DecompressPage),
        Codec::Zlib | Codec::Zstd => (Op::DeflatePage, Op::InflatePage),
    };
    (config.firmware.platform == Platform::Software).then_some(ops)
}

impl DriveHandle {
    /// What memory it takes besides that of a plain SSD.
    pub fn book(&self) -> Book {
        Book {
            statuses: self.statuses.clone(),
            ring_bytes: self.ring_bytes,
        }
    }

    /// Makes an I/O queue pair for the drive; the create commands name the drive's end of it by
    /// the address at which it is offered.
    pub fn new_queue(&self, qid: u16, depth: u32) -> (HostQueue, DriveQueue) {
        queue_pair(
            depth,
            &self.notifier,
            self.config.firmware.cores + u32::from(qid),
        )
    }

    /// The drive, powered off, once the machine that ran it is gone.
    ///
    /// # Panics
    /// If a core still runs.
    pub fn power_off(self) -> Drive {
        if self.config.as_disk().is_some() {
            let left = self.statuses[0]
                .platters
                .lock()
                .expect("no holder panics")
                .take();
            return Drive::with_platters(self.config, left.expect("the machine has stopped"));
        }
        let take = |status: &CoreStatus| status.media.lock().expect("no holder panics").take();
        let media = self
            .statuses
            .iter()
            .map(|s| take(s).expect("the machine has stopped"))
            .collect();
        Drive {
            config: self.config,
            media,
            platters: None,
            persistent: self.persistent,
            kept: self.kept,
            more_features: Vec::new(),
            new_files: None,
            guests: 0,
        }
    }
}
