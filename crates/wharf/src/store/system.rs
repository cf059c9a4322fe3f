//! Drives, cache and queues on a machine, and the task that boots them.

use std::sync::Arc;

use wharf_drive::config::DriveConfig;
use wharf_drive::{Drive, DriveError, PowerSwitch};
use wharf_host::admin::{Admin, AdminError, offer_queues};
use wharf_host::boot::{PoweredOn, Ready, Spread, make_ready};
use wharf_host::design::{Design, DesignConfig, Devices, Parts, Principal};
use wharf_host::driver::DriverConfig;
use wharf_host::error::IoError;
use wharf_runtime::{Cpu, CpuId, Machine, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::file::{DriveKey, FileSystemLog, FileSystemState};
use wharf_wire::queue::HostQueue;

use super::clock::Clock;
use super::guests::{GuestSlots, Order};
use super::{StoreError, StoreOptions};

/// How long it is waited between two looks whether a file system is open.
const OPENING_PAUSE_NS: u64 = 50_000;

/// What a client is made of, before its thread takes it.
pub(super) struct ClientSlot {
    pub(super) index: u32,
    /// On whose behalf the client works.
    pub(super) principal: Principal,
    pub(super) queues: Vec<HostQueue>,
    pub(super) driver: DriverConfig,
    /// Whether the design asks the drive for files, not a volume for pages.
    pub(super) has_files: bool,
}

/// What the boot task works with.
pub(super) struct Boot {
    pub(super) slots: Arc<GuestSlots>,
    drives: Vec<PoweredOn>,
    space: Arc<DmaSpace>,
    stripe_pages: u64,
    driver: DriverConfig,
    has_files: bool,
}

/// A store before anything runs.
pub(super) struct System<D> {
    pub(super) machine: Machine,
    pub(super) design: Arc<D>,
    pub(super) space: Arc<DmaSpace>,
    pub(super) slots: Vec<ClientSlot>,
    /// The CPUs of the drives, then the one for the boot.
    pub(super) cpus: Vec<CpuId>,
    pub(super) boot_cpu: CpuId,
    pub(super) boot: Boot,
    /// How the design was made.
    pub(super) config: DesignConfig,
}

impl<D: Design> System<D> {
    /// Makes the drives and the cache.
    pub(super) fn build(options: &StoreOptions) -> Result<System<D>, StoreError> {
        let drive = |config: &DriveConfig| {
            let drive = Drive::new(config.clone())?.with_guests(options.guests);
            Ok::<Drive, DriveError>(match options.new_files {
                Some(new) => drive.with_new_files(new),
                None => drive,
            })
        };
        let drives = options.drives.iter().map(drive);
        let drives = drives.collect::<Result<Vec<Drive>, _>>()?;
        let page_bytes = options.drives[0].page_bytes();
        let space = match options.guests {
            0 => DmaSpace::new(page_bytes),
            _ => DmaSpace::shareable(page_bytes),
        };
        let config = DesignConfig {
            cache_bytes: options.cache_bytes,
            clients: options.clients + options.guests,
            guests: options.guests,
            drives: drives.len() as u32,
            ..DesignConfig::default()
        };
        let own = D::Config::default();
        let needs = D::needs(&config, &own);
        let design = Arc::new(D::new(&config, &own, &space)?);
        let mut machine = Machine::new(options.costs(), false);
        let slot = |index| ClientSlot {
            index,
            principal: Principal::OWNER,
            queues: Vec::new(),
            driver: options.driver(),
            has_files: needs.bunch,
        };
        let mut slots: Vec<ClientSlot> = (0..options.clients).map(slot).collect();
        let mut guests = GuestSlots::new(options, &space, needs.attached_pages)?;
        let mut powered = Vec::new();
        let mut cpus = Vec::new();
        for (index, drive) in (0..).zip(drives) {
            let name = format!("drive{index}");
            let handle = drive.power_on(&mut machine, &name, &space, &PowerSwitch::on())?;
            let clients = options.clients as u16;
            let new_queue = |qid, entries| handle.new_queue(qid, entries);
            let made = offer_queues(&space, clients, options.queue_depth, new_queue)?;
            let mut offers = Vec::new();
            for (slot, (queue, offer)) in slots.iter_mut().zip(made) {
                slot.queues.push(queue);
                offers.push(offer);
            }
            cpus.extend(handle.cpus.iter().copied());
            guests.add_drive(&mut machine, &handle);
            powered.push(PoweredOn {
                admin: handle.admin,
                offers,
                later: options.guests,
                features: needs.features,
                hmb: design.hmb_memory(index),
            });
        }
        let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
        cpus.push(boot_cpu);
        let boot = Boot {
            slots: Arc::new(guests),
            drives: powered,
            space: space.clone(),
            stripe_pages: options.stripe_bytes / 4096,
            driver: options.driver(),
            has_files: needs.bunch,
        };
        Ok(System {
            config,
            machine,
            design,
            space,
            slots,
            cpus,
            boot_cpu,
            boot,
        })
    }
}

impl Boot {
    /// Makes the drives ready.
    pub(super) async fn run(self, cpu: &Cpu) -> Result<(Booted, Ready), AdminError> {
        let hmb = self.drives.iter().map(|drive| drive.hmb.is_some());
        let hmb = hmb.collect();
        let spread = Spread::striped(self.stripe_pages);
        let made = make_ready(cpu, &self.space, self.drives, spread, self.driver);
        let (admins, ready) = made.await?;
        let files = match self.has_files {
            true => Some(FilesOf::open(cpu, &admins[0]).await?),
            false => None,
        };
        let booted = Booted {
            admins,
            files,
            hmb,
            slots: self.slots,
            space: self.space,
        };
        Ok((booted, ready))
    }
}

/// What is known of a drive's file system.
struct FilesOf {
    clock: Clock,
    /// What has become of it at power-on.
    log: FileSystemLog,
}

impl FilesOf {
    /// Tells the drive what time it is, and waits until its file system is open or cannot be.
    async fn open(cpu: &Cpu, admin: &Admin) -> Result<FilesOf, AdminError> {
        let clock = Clock::set(cpu, admin).await?;
        loop {
            let log = admin.file_system().await?;
            if log.state() != Some(FileSystemState::Opening) {
                return Ok(FilesOf { clock, log });
            }
            cpu.sleep_until(cpu.now() + OPENING_PAUSE_NS).await;
        }
    }
}

/// Drives that are ready.
pub(super) struct Booted {
    admins: Vec<Admin>,
    files: Option<FilesOf>,
    /// Which have been the host memory buffer.
    hmb: Vec<bool>,
    slots: Arc<GuestSlots>,
    space: Arc<DmaSpace>,
}

impl Booted {
    /// What has become of the drive's file system at power-on, if it has one.
    pub(super) fn log(&self) -> Option<FileSystemLog> {
        self.files.as_ref().map(|files| files.log)
    }

    /// Whether a drive with files has a clock that is right, when it is `now_ns`.
    pub(super) fn is_clock_right(&self, cpu: &Cpu, now_ns: u64) -> bool {
        let is_right = |files: &FilesOf| files.clock.is_right(cpu, now_ns);
        self.files.as_ref().is_none_or(is_right)
    }

    /// Tells a drive with files what time it is, if it does not know.
    pub(super) async fn follow_clock(&self, cpu: &Cpu) -> Result<(), IoError> {
        match &self.files {
            Some(files) => files.clock.follow(cpu, &self.admins[0]).await,
            None => Ok(()),
        }
    }

    /// Carries an order of the listener's out.
    pub(super) async fn obey(&self, cpu: &Cpu, order: Order) -> Result<(), AdminError> {
        // Who cannot be told what time it is keeps the time that it has.
        let _ = self.follow_clock(cpu).await;
        self.slots.obey(order, &self.admins, &self.space).await
    }

    /// Gives a drive with files a key.
    pub(super) async fn give_key(&self, key: DriveKey) -> Result<(), AdminError> {
        Ok(self.admins[0].set_key(key).await?)
    }

    /// Has every drive write back what is dirty in the memory lent, and give it back.
    pub(super) async fn take_memory_back(&self) -> Result<(), AdminError> {
        for (admin, hmb) in self.admins.iter().zip(&self.hmb) {
            if *hmb {
                admin.take_memory_back().await?;
            }
        }
        Ok(())
    }
}

impl ClientSlot {
    /// Takes the slot on `cpu`: a client of `design`.
    pub(super) fn take<D: Design>(
        self,
        cpu: &Cpu,
        design: &Arc<D>,
        space: &Arc<DmaSpace>,
        ready: &Ready,
    ) -> Result<D::Client, StoreError> {
        let devices = match self.has_files {
            true => Devices::of_bunch(ready.open_bunch(cpu, space, 0, self.queues, self.driver)?),
            false => Devices::cache(ready.open_volume(cpu, space, self.queues, self.driver)?),
        };
        Ok(design.client(Parts {
            cpu: cpu.clone(),
            devices,
            index: self.index,
            principal: self.principal,
        })?)
    }
}
