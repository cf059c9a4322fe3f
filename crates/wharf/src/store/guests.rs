//! slots for guests: what the drives' process keeps for clients in other processes.
//!
//! A *slot* is a piece of shared memory with a queue pair for each drive and pages for lists, and a
//! place among the clients. Guests take it one after the other:
//!
//! 1. The listener ([`listener`](super::listener)) has the boot task *admit* a guest: it offers the drives their
//!    ends of the queue pairs, and has them create these.
//! 2. When the guest is gone, however that came, the boot task *dismisses* it: the drives delete the queue
//!    pairs, and with them take back what the guest held.
//! 3. The listener renews the slot's memory. What the guest has mapped, and may keep mapped, is nobody's then.

use std::sync::Arc;
use std::sync::mpsc;

use wharf_drive::{DriveHandle, GuestQueue};
use wharf_host::admin::{Admin, AdminError, QueueOffer};
use wharf_runtime::{Holder, Machine, Receiver};
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::file::{DriveKey, Revoke};
use wharf_wire::memory::SharedMemory;
use wharf_wire::queue::Guest;
use wharf_wire::shared_queue::SharedQueue;

use super::handshake::{DRIVES_MAX, SlotPlan};
use super::{StoreError, StoreOptions};

/// One slot.
pub(super) struct GuestSlot {
    pub(super) memory: Arc<SharedMemory>,
    /// The queue pairs, drive by drive.
    pub(super) queues: Vec<GuestQueue>,
    offers: Vec<QueueOffer>,
}

/// All of them, with the addresses by which their queue pairs are created.
pub(super) struct GuestSlots {
    pub(super) slots: Vec<GuestSlot>,
    plan: SlotPlan,
    addresses: Option<DmaRegion>,
    own_clients: u32,
    depth: u32,
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
        if guests > Holder::GUESTS_MAX {
            let guests_max = Holder::GUESTS_MAX;
            return Err(StoreError::TooManyGuests { guests, guests_max });
        }
        if guests > 0 && (space.page_bytes() != 4096 || drives > DRIVES_MAX) {
            return Err(StoreError::NotForGuests { drives });
        }
        let slot = |number| {
            let memory = SharedMemory::create(plan.bytes())?;
            let memory = Arc::new(memory);
            space.admit(number, &memory, plan.pages_offset(), plan.pages());
            Ok(GuestSlot {
                memory,
                queues: Vec::new(),
                offers: Vec::new(),
            })
        };
        let slots = (0..guests)
            .map(slot)
            .collect::<Result<Vec<_>, StoreError>>()?;
        let pairs = guests as usize * drives;
        let addresses = (pairs > 0)
            .then(|| space.register_whole(pairs))
            .transpose()?;
        Ok(GuestSlots {
            slots,
            plan,
            addresses,
            own_clients: options.clients,
            depth: options.queue_depth,
        })
    }

    /// Makes the queue pairs of all slots for drive number `drive`.
    pub(super) fn add_drive(&mut self, machine: &mut Machine, handle: &DriveHandle, drive: usize) {
        let count = self.slots.len();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let qid = (self.own_clients as usize + number + 1) as u16;
            let queue = SharedQueue::new(&slot.memory, self.plan.queue_offset(drive), self.depth);
            slot.queues.push(handle.guest_queue(machine, qid, queue));
            let addresses = self.addresses.as_ref().expect("there are slots");
            slot.offers.push(QueueOffer {
                qid,
                entries: self.depth,
                address: addresses.address(drive * count + number),
                core: None,
            });
        }
    }
}

impl GuestSlot {
    /// Has the drives create the queue pairs of a guest; all or none.
    async fn admit(
        &self,
        admins: &[Admin],
        space: &DmaSpace,
        guest: Guest,
    ) -> Result<(), AdminError> {
        for (drive, admin) in admins.iter().enumerate() {
            let offer = &self.offers[drive];
            space.offer(offer.address, self.queues[drive].drive_end(guest));
            if let Err(error) = admin.create_queue(offer).await {
                let _ = space.take_offer(offer.address);
                let _ = self.dismiss(&admins[..drive]).await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Has the drives delete the queue pairs, and take back what came through them.
    async fn dismiss(&self, admins: &[Admin]) -> Result<(), AdminError> {
        let mut outcome = Ok(());
        for (admin, offer) in admins.iter().zip(&self.offers) {
            outcome = outcome.and(admin.delete_queue(offer.qid).await);
        }
        Ok(outcome?)
    }
}

/// Carries an order out.
pub(super) async fn obey(
    order: Order,
    slots: &[GuestSlot],
    admins: &[Admin],
    space: &DmaSpace,
) -> Result<(), AdminError> {
    match order {
        Order::Admit(guest) => {
            slots[guest.number as usize]
                .admit(admins, space, guest)
                .await
        }
        Order::Dismiss(number) => slots[number as usize].dismiss(admins).await,
        Order::Clock => Ok(()),
        Order::Revoke(kind, which) => Ok(admins[0].revoke(kind, which).await?),
        Order::Key(key) => Ok(admins[0].set_key(key).await?),
    }
}
