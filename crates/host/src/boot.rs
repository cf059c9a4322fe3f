//! From drives with power to volumes for clients.
//!
//! 1. One boot task calls [`make_ready`]: it identifies every drive, has it create the queue pairs
//!    of the clients, and lends it memory.
//! 2. What it found out ([`Ready`]) goes to all clients; each opens its volume over its own queue
//!    pairs ([`Ready::open_volume`]).

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::identify::DriveFeature;
use wharf_wire::queue::HostQueue;

use crate::admin::{Admin, AdminError, DriveFacts, QueueOffer};
use crate::driver::{Driver, DriverConfig};
use crate::group::Groups;
use crate::hmb::HmbMemory;
use crate::volume::{ArrayDriver, Layout, LayoutError, Level, ParityLocks, Volume};

/// A drive that has power, as the boot task takes it over.
pub struct PoweredOn {
    /// Its admin queue.
    pub admin: HostQueue,
    /// The queue pairs that it is to create.
    pub offers: Vec<QueueOffer>,
    /// How many more it is to create later.
    pub later: u32,
    /// What it must be able to do.
    pub features: &'static [DriveFeature],
    /// The memory to lend it, if any.
    pub hmb: Option<HmbMemory>,
}

/// How a volume is to be spread over its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// With which redundancy.
    pub level: Level,
    /// Pages of a stripe.
    pub stripe_pages: u64,
    /// Whether the operating system makes the array, and its users go through its driver.
    pub has_array_driver: bool,
}

impl Spread {
    /// Striped, without redundancy.
    pub fn striped(stripe_pages: u64) -> Spread {
        Spread {
            level: Level::Raid0,
            stripe_pages,
            has_array_driver: false,
        }
    }
}

/// What is known of the drives of a volume when they are ready.
#[derive(Clone)]
pub struct Ready {
    drives: Arc<[DriveFacts]>,
    layout: Layout,
    /// Of a volume with parity: what its users share.
    parity: Option<Arc<ParityLocks>>,
    /// Of a volume that the operating system makes.
    array_driver: Option<Arc<ArrayDriver>>,
}

/// Makes the drives of a volume ready, with the tasks of their admin queues on `cpu`, for a volume that is
/// spread so.
///
/// # Errors
/// If a drive does not answer, cannot do what is asked, or is unlike the others; if they are too few.
pub async fn make_ready(
    cpu: &Cpu,
    space: &Arc<DmaSpace>,
    drives: Vec<PoweredOn>,
    spread: Spread,
    config: DriverConfig,
) -> Result<(Vec<Admin>, Ready), AdminError> {
    let users = drives.first().map_or(0, |drive| drive.offers.len() as u32);
    let (mut admins, mut facts) = (Vec::new(), Vec::<DriveFacts>::new());
    for (drive, powered) in (0..).zip(drives) {
        let config = DriverConfig { drive, ..config };
        let admin = Admin::start(cpu, powered.admin, space, config)?;
        let found = admin.identify().await?;
        admin.require(&found, powered.features)?;
        if let Some(first) = facts.first()
            && !found.divides_frames_as(first)
        {
            return Err(AdminError::Unlike { drive });
        }
        facts.push(found);
        let queues = powered.offers.len() as u32 + powered.later;
        admin.allot_queues(queues).await?;
        for offer in &powered.offers {
            admin.create_queue(offer).await?;
        }
        if let Some(memory) = &powered.hmb {
            admin.lend_memory(memory).await?;
        }
        admins.push(admin);
    }
    Ok((admins, Ready::new(facts, spread, users)?))
}

impl Ready {
    /// What is known of drives that are ready; their volume is striped, by stripes of `stripe_pages` pages.
    pub fn of(facts: Vec<DriveFacts>, stripe_pages: u64) -> Ready {
        let ready = Ready::new(facts, Spread::striped(stripe_pages), 0);
        ready.expect("a striped volume takes any drives")
    }

    /// What is known of drives that are ready, for a volume that is spread so and that `users` CPUs of this process open.
    ///
    /// # Errors
    /// A number of drives that the volume cannot be on.
    pub fn new(facts: Vec<DriveFacts>, spread: Spread, users: u32) -> Result<Ready, LayoutError> {
        let pages: Vec<u64> = facts.iter().map(|f| f.pages).collect();
        let has_parity = spread.level == Level::Raid5;
        Ok(Ready {
            layout: Layout::of(spread.level, &pages, spread.stripe_pages)?,
            drives: facts.into(),
            parity: has_parity.then(|| ParityLocks::new(users)),
            array_driver: spread.has_array_driver.then(Arc::default),
        })
    }

    /// What is known of each drive.
    pub fn drives(&self) -> &[DriveFacts] {
        &self.drives
    }

    /// Where the pages of the volume lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The volume as one client sees it, with its tasks on `cpu`: through `queues`, one for each
    /// drive.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn open_volume(
        &self,
        cpu: &Cpu,
        space: &Arc<DmaSpace>,
        queues: Vec<HostQueue>,
        config: DriverConfig,
    ) -> Result<Rc<Volume>, RegisterError> {
        assert_eq!(queues.len(), self.drives.len(), "a queue pair a drive");
        let groups = Groups::new();
        let start = |((drive, facts), queue): ((u16, &DriveFacts), HostQueue)| {
            let config = config_of(drive, facts, config);
            Driver::start(cpu, queue, space, &groups, config, false)
        };
        let drivers = (0..).zip(&*self.drives).zip(queues).map(start);
        let drivers = drivers.collect::<Result<_, _>>()?;
        let (parity, array_driver) = (self.parity.as_ref(), self.array_driver.clone());
        Volume::open(drivers, self.layout, space, parity, array_driver)
    }

    /// A bunch of queue pairs of one drive, as one client of files in the drive has it, with its tasks on `cpu`: one for
    /// each firmware core, in order ([`QueueOffer::core`]), or one that goes to any.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn open_bunch(
        &self,
        cpu: &Cpu,
        space: &Arc<DmaSpace>,
        drive: u16,
        queues: Vec<HostQueue>,
        config: DriverConfig,
    ) -> Result<Vec<Rc<Driver>>, RegisterError> {
        let config = config_of(drive, &self.drives[usize::from(drive)], config);
        let groups = Groups::new();
        let start = |queue| Driver::start(cpu, queue, space, &groups, config, false);
        queues.into_iter().map(start).collect()
    }
}

/// The configuration of a driver of a drive.
fn config_of(drive: u16, facts: &DriveFacts, config: DriverConfig) -> DriverConfig {
    DriverConfig {
        drive,
        max_transfer_pages: facts.max_transfer_pages,
        cores: facts.cores,
        core_stripe_pages: facts.core_stripe_pages,
        ..config
    }
}
