//! Hosts in other processes, and their queue pairs: the way in beside that of the drive's own queues, in real time.

use wharf_runtime::{Bells, Machine, Notifier};
use wharf_wire::queue::{DriveQueue, Guest};
use wharf_wire::shared_queue::SharedQueue;

use crate::config::{ConfigError, DriveConfig};
use crate::controller::GUESTS_SOURCE;
use crate::drive::DriveHandle;

/// Refuses guests of a drive whose own queues leave no source for theirs.
pub(crate) fn check(config: &DriveConfig, guests: u32) -> Result<(), ConfigError> {
    let queues = config.firmware.queues_max;
    match guests == 0 || config.firmware.cores + queues < GUESTS_SOURCE {
        true => Ok(()),
        false => Err(ConfigError::Range {
            key: "firmware.queues_max",
            value: queues.to_string(),
            rule: "with firmware.cores 126 at most, if other processes are to use the drive",
        }),
    }
}

/// What a drive has for hosts in other processes.
pub struct ForGuests {
    bells: Bells,
    /// Which the drive's thread waits for: the bells'.
    rung: Notifier,
    notifier: Notifier,
    /// The number of the first guest's queue pair.
    first: u16,
}

impl ForGuests {
    /// The number of a guest's queue pair.
    pub fn qid(&self, guest: u32) -> u16 {
        self.first + guest as u16
    }

    /// The drive's end of a queue pair, for a host that is new, as is its memory. On the drive's thread; it is to be
    /// [dismissed](ForGuests::dismiss) there.
    pub fn admit(&self, queue: &SharedQueue, guest: Guest) -> DriveQueue {
        queue.ring_among(&self.bells, self.qid(guest.number).into());
        queue.drive_end(&self.notifier, GUESTS_SOURCE, guest)
    }

    /// A host is gone, and its queue pair is deleted.
    pub fn dismiss(&self, guest: u32) {
        self.bells.remove(self.qid(guest).into());
    }

    /// A host has asked to be heard: the drive's thread sleeps, or does not look whether this host asks for anything.
    pub fn hear(&self, guest: u32) {
        self.bells.call(self.qid(guest).into());
        self.rung.nudge();
    }
}

impl DriveHandle {
    /// What the drive has for hosts in other processes: adds a task to `machine`, on which the drive was powered on, that
    /// tells the drive of what they ask for.
    pub fn for_guests(&self, machine: &mut Machine) -> ForGuests {
        let (rung, notifier) = (self.guests.bells.notifier(), self.notifier.clone());
        let waiting = rung.clone();
        machine.spawn(self.cpus[0], "porter", move |cpu| async move {
            waiting.attach(&cpu);
            loop {
                let _ = waiting.wait(&cpu).await;
                notifier.notify(&cpu, GUESTS_SOURCE, cpu.now());
                // Some may ring for ever.
                cpu.yield_now().await;
            }
        });
        ForGuests {
            bells: self.guests.bells.clone(),
            rung,
            notifier: self.notifier.clone(),
            first: self.config.firmware.queues_max as u16 + 1,
        }
    }
}
