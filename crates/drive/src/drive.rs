//! A whole drive: media, cores and controller put together on a machine's CPUs.

use std::sync::Arc;

use wharf_runtime::notifier::Kind;
use wharf_runtime::sync::Ordering;
use wharf_runtime::{CpuId, Machine, Notifier, Side, ring};
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::{DriveQueue, Guest, HostQueue, queue_pair};
use wharf_wire::shared_queue::SharedQueue;

use crate::config::{ConfigError, DriveConfig, MediaKind, Platform};
use crate::controller::{Controller, CoreLink, PARTS_OUT_MAX};
use crate::core::part::Striping;
use crate::core::{Core, CoreParts, CoreStatus};
use crate::ftl::{Ftl, OpenError, PreconditionError};
use crate::link::FromHost;
use crate::media::{
    AnyMedia, FileImage, FileOptions, ImageError, ImageGeometry, MediaError, RamMedia, SlabError,
    StampMedia,
};
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
    /// The media cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A drive cannot be preconditioned.
    #[error(transparent)]
    Precondition(#[from] PreconditionError),
    /// The media cannot be copied, or changed while the drive is off.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// A drive that is powered off: its configuration and its media, one for each core.
pub struct Drive {
    config: DriveConfig,
    media: Vec<AnyMedia>,
}

/// What remains of a drive while it runs: its way in, and what it leaves behind.
pub struct DriveHandle {
    /// The host's end of the admin queue.
    pub admin: HostQueue,
    notifier: Notifier,
    /// The drive's CPUs: the controller's, then the cores'; of software one for all.
    pub cpus: Vec<CpuId>,
    config: DriveConfig,
    shelves: Vec<CoreStatus>,
    ring_bytes: usize,
}

/// What memory a drive takes for what a plain SSD has not: to be looked at while it runs.
pub struct Book {
    shelves: Vec<CoreStatus>,
    ring_bytes: usize,
}

impl Book {
    /// Bytes that the cores take to keep book of the frames that they are lent, the frames themselves and the
    /// host's frame table left out; 0 where none is lent.
    pub fn cache_bytes(&self) -> u64 {
        let of = |core_status: &CoreStatus| core_status.book_bytes.load(Ordering::Relaxed);
        self.shelves.iter().map(of).sum()
    }

    /// Bytes of the rings in which the controller gives the cores parts of commands.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes as u64
    }
}

impl Drive {
    /// A drive with the media that its configuration names: new memory, or an image that is opened
    /// if it exists and created if not.
    pub fn new(config: DriveConfig) -> Result<Drive, DriveError> {
        let plan = config.plan()?;
        let geometry = plan.media_geometry(config.page_bytes() as u32);
        let cores = config.firmware.cores;
        let media = match config.media.kind {
            MediaKind::Ram => (0..cores)
                .map(|_| RamMedia::new(geometry, config.media.verify).map(AnyMedia::Ram))
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
                    .map(|i| image.core(i).map(AnyMedia::File))
                    .collect::<Result<_, _>>()?
            }
        };
        Ok(Drive { config, media })
    }

    /// A drive with media that exist already: what a power cut left, or what was prepared.
    pub fn with_media(config: DriveConfig, media: Vec<AnyMedia>) -> Result<Drive, DriveError> {
        config.plan()?;
        assert!(
            media.len() == config.firmware.cores as usize,
            "one media object for each core"
        );
        Ok(Drive { config, media })
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
        let Drive { config, media } = self;
        let plan = config.plan()?;
        let cores = config.firmware.cores;
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
        let (mut links, mut shelves, mut ring_bytes) = (Vec::new(), Vec::new(), 0);
        let (collecting, from_host) = (Arc::default(), FromHost::new(&config.link));
        for (index, media) in media.into_iter().enumerate() {
            let ftl = Ftl::open(&config, plan.clone(), media, power.clone())?;
            let core_notifier = Notifier::new();
            let (parts, inbox) = ring(PARTS_OUT_MAX, &core_notifier, 0);
            ring_bytes += parts.bytes();
            let (answers, answered) = ring(PARTS_OUT_MAX, &notifier, index as u32);
            let core_status = CoreStatus::new(&collecting);
            let map = ftl.map_hint();
            let parts_of_core = CoreParts {
                index: index as u32,
                ftl,
                inbox,
                notifier: core_notifier,
                answers,
                dma: dma.clone(),
                workers: config.firmware.parts_max,
                volatile_write_cache: config.ftl.volatile_write_cache,
                log_write_ns: config.timing.program_ns,
                busy_wait_ns: config.host_memory.busy_wait_ns,
                // As long as what cannot be taken back, should the host come after all.
                quiet_ns: config.timing.erase_ns,
                striping: Striping {
                    stripe_pages: config.firmware.stripe_pages,
                    cores,
                },
                power: power.clone(),
                core_status: core_status.clone(),
                from_host: from_host.clone(),
                copies: is_software,
            };
            let cpu = match is_software {
                true => controller_cpu,
                false => machine.add_cpu(&format!("{name}.core{index}"), Side::Drive, slowness),
            };
            machine.spawn(cpu, "core", move |cpu| Core::run(cpu, parts_of_core));
            if !is_software {
                cpus.push(cpu);
            }
            links.push(CoreLink {
                parts,
                answers: answered,
                map,
                core_status: core_status.clone(),
                hmb: Arc::default(),
                out: 0,
            });
            shelves.push(core_status);
        }
        let (dma, controller_notifier, controller_config) =
            (dma.clone(), notifier.clone(), config.clone());
        machine.spawn(controller_cpu, "controller", move |cpu| {
            Controller::new(
                cpu,
                &controller_config,
                dma,
                controller_notifier,
                drive_admin,
                links,
                from_host,
            )
            .run()
        });
        Ok(DriveHandle {
            admin,
            notifier,
            cpus,
            config,
            shelves,
            ring_bytes,
        })
    }
}

/// A queue pair for hosts in other processes, one after the other.
pub struct GuestQueue {
    queue: SharedQueue,
    arrivals: Notifier,
    notifier: Notifier,
    source: u32,
}

impl GuestQueue {
    /// The drive's end, for a host that is new, as is the memory.
    pub fn drive_end(&self, guest: Guest) -> DriveQueue {
        self.queue.drive_end(&self.notifier, self.source, guest)
    }

    /// Wakes the drive's thread if it sleeps: the host has asked for that.
    pub fn nudge(&self) {
        self.arrivals.nudge();
    }
}

impl DriveHandle {
    /// What memory it takes besides that of a plain SSD.
    pub fn book(&self) -> Book {
        Book {
            shelves: self.shelves.clone(),
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

    /// Makes a queue pair in shared memory usable, of number `qid`: adds a task to `machine`, on which the
    /// drive was powered on, that tells the drive of arrivals. Gives what makes the drive's end, anew for
    /// each host.
    pub fn guest_queue(&self, machine: &mut Machine, qid: u16, queue: SharedQueue) -> GuestQueue {
        let source = self.config.firmware.cores + u32::from(qid);
        let (arrivals, notifier) = (queue.arrivals(), self.notifier.clone());
        let waiting = arrivals.clone();
        machine.spawn(self.cpus[0], "porter", move |cpu| async move {
            waiting.attach(&cpu);
            loop {
                let _ = waiting.wait(&cpu).await;
                notifier.notify(&cpu, source, cpu.now());
                // The host may ring for ever.
                cpu.yield_now().await;
            }
        });
        GuestQueue {
            queue,
            arrivals,
            notifier: self.notifier.clone(),
            source,
        }
    }

    /// The drive, powered off, once the machine that ran it is gone.
    ///
    /// # Panics
    /// If a core still runs.
    pub fn power_off(self) -> Drive {
        let take =
            |core_status: &CoreStatus| core_status.media.lock().expect("no holder panics").take();
        let media = self
            .shelves
            .iter()
            .map(|s| take(s).expect("the machine has stopped"))
            .collect();
        Drive {
            config: self.config,
            media,
        }
    }
}
