//! Drives, cache and queues on a machine, and the task that boots them.

use std::sync::Arc;

use wharf_drive::{Drive, PowerSwitch};
use wharf_host::admin::{Admin, AdminError, QueueOffer, offer_queues};
use wharf_host::design::{Design, DesignConfig};
use wharf_host::driver::{Driver, DriverConfig};
use wharf_host::group::Groups;
use wharf_host::lend::LentMemory;
use wharf_host::volume::{Layout, Volume};
use wharf_runtime::{Cpu, CpuId, Machine, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::HostQueue;

use super::{StoreError, StoreOptions};

/// What a client is made of, before its thread takes it.
pub(super) struct Seat {
    pub(super) index: u32,
    pub(super) queues: Vec<HostQueue>,
}

/// What the boot found out, for the clients.
#[derive(Clone)]
pub(super) struct Booted {
    pub(super) layout: Layout,
    pub(super) max_transfer_pages: u32,
}

/// What the boot task works with.
pub(super) struct Boot {
    admins: Vec<HostQueue>,
    offers: Vec<Vec<QueueOffer>>,
    pub(super) lent: Vec<Option<LentMemory>>,
    space: Arc<DmaSpace>,
    stripe_pages: u64,
}

/// A store before anything runs.
pub(super) struct System<D> {
    pub(super) machine: Machine,
    pub(super) design: Arc<D>,
    pub(super) space: Arc<DmaSpace>,
    pub(super) seats: Vec<Seat>,
    /// The CPUs of the drives, then the one for the boot.
    pub(super) cpus: Vec<CpuId>,
    pub(super) boot_cpu: CpuId,
    pub(super) boot: Boot,
}

impl<D: Design> System<D> {
    /// Makes the drives and the cache.
    pub(super) fn build(options: &StoreOptions) -> Result<System<D>, StoreError> {
        let drives = options.drives.iter().cloned().map(Drive::new);
        let drives = drives.collect::<Result<Vec<Drive>, _>>()?;
        let space = DmaSpace::new(options.drives[0].page_bytes());
        let config = DesignConfig {
            cache_bytes: options.cache_bytes,
            clients: options.clients,
            drives: drives.len() as u32,
            ..DesignConfig::default()
        };
        let design = Arc::new(D::new(&config, &space)?);
        let mut machine = Machine::new(options.costs(), false);
        let seat = |index| Seat {
            index,
            queues: Vec::new(),
        };
        let mut seats: Vec<Seat> = (0..options.clients).map(seat).collect();
        let mut boot = Boot {
            admins: Vec::new(),
            offers: Vec::new(),
            lent: (0..drives.len() as u32)
                .map(|drive| design.lent_memory(drive))
                .collect(),
            space: space.clone(),
            stripe_pages: options.stripe_bytes / 4096,
        };
        let mut cpus = Vec::new();
        for (index, drive) in drives.into_iter().enumerate() {
            let name = format!("drive{index}");
            let handle = drive.power_on(&mut machine, &name, &space, &PowerSwitch::on())?;
            let clients = options.clients as u16;
            let new_queue = |qid, entries| handle.new_queue(qid, entries);
            let made = offer_queues(&space, clients, options.queue_depth, new_queue)?;
            let mut offers = Vec::new();
            for (seat, (queue, offer)) in seats.iter_mut().zip(made) {
                seat.queues.push(queue);
                offers.push(offer);
            }
            boot.offers.push(offers);
            cpus.extend(handle.cpus.iter().copied());
            boot.admins.push(handle.admin);
        }
        let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
        cpus.push(boot_cpu);
        Ok(System {
            machine,
            design,
            space,
            seats,
            cpus,
            boot_cpu,
            boot,
        })
    }
}

impl Boot {
    /// Identifies the drives, creates the queues, lends the memory.
    pub(super) async fn run(self, cpu: &Cpu) -> Result<(Vec<Admin>, Booted), AdminError> {
        let (mut admins, mut pages, mut max_transfer_pages) = (Vec::new(), Vec::new(), u32::MAX);
        for (drive, queue) in (0..).zip(self.admins) {
            let config = DriverConfig {
                drive,
                ..DriverConfig::default()
            };
            let admin = Admin::start(cpu, queue, &self.space, config)?;
            let facts = admin.identify().await?;
            pages.push(facts.pages);
            max_transfer_pages = max_transfer_pages.min(facts.max_transfer_pages);
            let offers = &self.offers[usize::from(drive)];
            admin.allot_queues(offers.len() as u32).await?;
            for offer in offers {
                admin.create_queue(offer).await?;
            }
            if let Some(memory) = &self.lent[usize::from(drive)] {
                admin.lend_memory(memory).await?;
            }
            admins.push(admin);
        }
        let layout = Layout::new(&pages, self.stripe_pages);
        let booted = Booted {
            layout,
            max_transfer_pages,
        };
        Ok((admins, booted))
    }
}

/// Has every drive write back what is dirty in the memory lent, and give it back.
pub(super) async fn take_memory_back(
    admins: &[Admin],
    lent: &[Option<LentMemory>],
) -> Result<(), AdminError> {
    for (admin, lent) in admins.iter().zip(lent) {
        if lent.is_some() {
            admin.take_memory_back().await?;
        }
    }
    Ok(())
}

impl Seat {
    /// Takes the seat on `cpu`: a client of `design`.
    pub(super) fn take<D: Design>(
        self,
        cpu: &Cpu,
        design: &Arc<D>,
        space: &Arc<DmaSpace>,
        booted: &Booted,
    ) -> Result<D::Client, StoreError> {
        let groups = Groups::new();
        let start = |(drive, queue)| {
            let config = DriverConfig {
                drive,
                max_transfer_pages: booted.max_transfer_pages,
                ..DriverConfig::default()
            };
            Driver::start(cpu, queue, space, &groups, config, false)
        };
        let drivers = (0..).zip(self.queues).map(start);
        let volume = Volume::new(drivers.collect::<Result<_, _>>()?, booted.layout);
        Ok(design.client(cpu, volume, self.index)?)
    }
}
