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
use wharf_wire::queue::HostQueue;

use crate::admin::{Admin, AdminError, DriveFacts, QueueOffer};
use crate::driver::{Driver, DriverConfig};
use crate::group::Groups;
use crate::lend::LentMemory;
use crate::volume::{Layout, Volume};

/// A drive that has power, as the boot task takes it over.
pub struct PoweredOn {
    /// Its admin queue.
    pub admin: HostQueue,
    /// The queue pairs that it is to create.
    pub offers: Vec<QueueOffer>,
    /// How many more it is to create later.
    pub later: u32,
    /// The memory to lend it, if any.
    pub lent: Option<LentMemory>,
}

/// What is known of the drives of a volume when they are ready.
#[derive(Debug, Clone)]
pub struct Ready {
    drives: Arc<[DriveFacts]>,
    layout: Layout,
}

/// Makes the drives of a volume ready, with the tasks of their admin queues on `cpu`. Stripes of the
/// volume have `stripe_pages` pages.
///
/// # Errors
/// If a drive does not answer, cannot do what is asked, or is unlike the others.
pub async fn make_ready(
    cpu: &Cpu,
    space: &Arc<DmaSpace>,
    drives: Vec<PoweredOn>,
    stripe_pages: u64,
    config: DriverConfig,
) -> Result<(Vec<Admin>, Ready), AdminError> {
    let (mut admins, mut facts) = (Vec::new(), Vec::<DriveFacts>::new());
    for (drive, powered) in (0..).zip(drives) {
        let config = DriverConfig { drive, ..config };
        let admin = Admin::start(cpu, powered.admin, space, config)?;
        let found = admin.identify().await?;
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
        if let Some(memory) = &powered.lent {
            admin.lend_memory(memory).await?;
        }
        admins.push(admin);
    }
    Ok((admins, Ready::of(facts, stripe_pages)))
}

impl Ready {
    /// What is known of drives that are ready; stripes of their volume have `stripe_pages` pages.
    pub fn of(facts: Vec<DriveFacts>, stripe_pages: u64) -> Ready {
        let pages: Vec<u64> = facts.iter().map(|f| f.pages).collect();
        Ready {
            layout: Layout::new(&pages, stripe_pages),
            drives: facts.into(),
        }
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
            let config = DriverConfig {
                drive,
                max_transfer_pages: facts.max_transfer_pages,
                cores: facts.cores,
                core_stripe_pages: facts.core_stripe_pages,
                ..config
            };
            Driver::start(cpu, queue, space, &groups, config, false)
        };
        let drivers = (0..).zip(&*self.drives).zip(queues).map(start);
        Ok(Volume::new(drivers.collect::<Result<_, _>>()?, self.layout))
    }
}
