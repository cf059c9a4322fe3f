//! Slots for guests: what the drives' process keeps for clients in other processes.
//!
//! A *slot* is a place for shared memory with a queue pair for each drive and pages for lists, and a
//! place among the clients. Guests take it one after the other:
//!
//! 1. The listener ([`listener`](super::listener)) has new memory put there, and the boot task *admit* a guest: it offers the
//!    drives their ends of the queue pairs, and has them create these.
//! 2. When the guest is gone, however that came, the boot task *dismisses* it: the drives delete the queue
//!    pairs, and with them take back what the guest held.
//! 3. The listener gives the slot's memory back. What the guest has mapped, and may keep mapped, is nobody's then.
//!
//! So a slot takes memory and descriptors for as long as a guest has it, and addresses alone before and after.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;

use wharf_drive::{DriveHandle, ForGuests};
use wharf_host::admin::{Admin, AdminError, QueueOffer};
use wharf_runtime::{Holder, Machine, Receiver};
use wharf_wire::dma::{DmaRegion, DmaSpace, GUESTS_MAX};
use wharf_wire::file::{DriveKey, Revoke};
use wharf_wire::memory::{MemoryError, SharedMemory};
use wharf_wire::queue::Guest;
use wharf_wire::shared_queue::SharedQueue;

use super::handshake::{DRIVES_MAX, SlotPlan};
use super::{StoreError, StoreOptions};

/// All slots.
pub(super) struct GuestSlots {
    memories: Vec<Arc<SharedMemory>>,
    plan: SlotPlan,
    /// By which the queue pairs are created, drive by drive.
    addresses: Option<DmaRegion>,
    depth: u32,
    drives: Vec<ForGuests>,
}

/// What the listener asks of the boot task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// Make the queue pairs of a guest, who may hold so many frames of each core.
    Admit(Guest),
    /// Delete those of this guest.
    Dismiss(u32),
    /// Look at the clock of a drive with files, which is done with every order.
    Clock,
    /// Give a drive with files this key.
    Key(DriveKey),
    /// Have it take sessions back.
    Revoke(Revoke, u64),
}

/// The boot task's end of the listener's orders.
pub(super) struct Ordered {
    pub(super) orders: Receiver<Order>,
    pub(super) done: mpsc::Sender<Result<(), AdminError>>,
}

impl GuestSlots {
    /// The slots that the options want, for clients whose design needs `design_pages` pages.
    pub(super) fn new(
        options: &StoreOptions,
        space: &Arc<DmaSpace>,
        design_pages: usize,
    ) -> Result<GuestSlots, StoreError> {
        let (drives, guests) = (options.drives.len(), options.guests);
        let plan = SlotPlan::new(drives as u32, options.queue_depth, design_pages);
        let guests_max = match options.has_files() {
            true => GUESTS_MAX,
            // Words in memory that all share name them.
            false => Holder::GUESTS_MAX,
        };
        if guests > guests_max {
            return Err(StoreError::TooManyGuests { guests, guests_max });
        }
        if guests > 0 && (space.page_bytes() != 4096 || drives > DRIVES_MAX) {
            return Err(StoreError::NotForGuests { drives });
        }
        let slot = |number| {
            let memory = Arc::new(SharedMemory::place(plan.bytes())?);
            space.admit(number, &memory, plan.pages_offset(), plan.pages());
            Ok(memory)
        };
        let memories = (0..guests).map(slot);
        let memories = memories.collect::<Result<Vec<_>, StoreError>>()?;
        let pairs = guests as usize * drives;
        let addresses = (pairs > 0)
            .then(|| space.register_whole(pairs))
            .transpose()?;
        Ok(GuestSlots {
            memories,
            plan,
            addresses,
            depth: options.queue_depth,
            drives: Vec::new(),
        })
    }

    /// Has one drive more.
    pub(super) fn add_drive(&mut self, machine: &mut Machine, handle: &DriveHandle) {
        if self.count() > 0 {
            self.drives.push(handle.for_guests(machine));
        }
    }

    /// How many slots there are.
    pub(super) fn count(&self) -> usize {
        self.memories.len()
    }

    /// Puts new memory into a slot; gives its descriptor, for the guest.
    pub(super) fn renew(&self, number: usize) -> Result<OwnedFd, MemoryError> {
        self.memories[number].renew()
    }

    /// Gives a slot's memory back.
    pub(super) fn give_back(&self, number: usize) -> Result<(), MemoryError> {
        self.memories[number].give_back()
    }

    /// Has the drives look whether a guest asks for anything, and wakes their thread if it sleeps.
    pub(super) fn hear(&self, number: usize) {
        self.drives
            .iter()
            .for_each(|drive| drive.hear(number as u32));
    }

    fn offer(&self, drive: usize, guest: u32) -> QueueOffer {
        let addresses = self.addresses.as_ref().expect("there are slots");
        QueueOffer {
            qid: self.drives[drive].qid(guest),
            entries: self.depth,
            address: addresses.address(drive * self.count() + guest as usize),
            core: None,
        }
    }

    /// Has the drives create the queue pairs of a guest; all or none.
    async fn admit(
        &self,
        admins: &[Admin],
        space: &DmaSpace,
        guest: Guest,
    ) -> Result<(), AdminError> {
        let memory = &self.memories[guest.number as usize];
        for (index, (drive, admin)) in self.drives.iter().zip(admins).enumerate() {
            let offer = self.offer(index, guest.number);
            let queue = SharedQueue::new(memory, self.plan.queue_offset(index), self.depth);
            space.offer(offer.address, drive.admit(&queue, guest));
            if let Err(error) = admin.create_queue(&offer).await {
                let _ = space.take_offer(offer.address);
                drive.dismiss(guest.number);
                let _ = self.dismiss(&admins[..index], guest.number).await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Has the drives delete the queue pairs, and take back what came through them.
    async fn dismiss(&self, admins: &[Admin], guest: u32) -> Result<(), AdminError> {
        let mut outcome = Ok(());
        for (index, (drive, admin)) in self.drives.iter().zip(admins).enumerate() {
            let offer = self.offer(index, guest);
            outcome = outcome.and(admin.delete_queue(offer.qid).await);
            drive.dismiss(guest);
        }
        Ok(outcome?)
    }

    /// Carries an order out.
    pub(super) async fn obey(
        &self,
        order: Order,
        admins: &[Admin],
        space: &DmaSpace,
    ) -> Result<(), AdminError> {
        match order {
            Order::Admit(guest) => self.admit(admins, space, guest).await,
            Order::Dismiss(number) => self.dismiss(admins, number).await,
            Order::Clock => Ok(()),
            Order::Revoke(kind, which) => Ok(admins[0].revoke(kind, which).await?),
            Order::Key(key) => Ok(admins[0].set_key(key).await?),
        }
    }
}
