//! What happens to commands by time: timeouts, and sending again.

use std::rc::Rc;

use super::{Driver, Inner, Slot, SlotState};
use crate::error::IoError;
use crate::group::{NO_RESULT, Outcome};

impl Driver {
    #[cold]
    pub(super) fn send_later(&self, slot: &mut Slot) {
        let at_ns = self.cpu.now() + self.config.retry_delay_ns;
        slot.state = SlotState::Retry(at_ns);
        self.alarm.set(&self.cpu, at_ns);
    }

    /// Looks after timeouts and retries for as long as the CPU runs.
    pub(super) async fn timer(self: Rc<Self>) {
        loop {
            self.alarm.wait(&self.cpu).await;
            let now_ns = self.cpu.now();
            let mut next_ns = u64::MAX;
            let slots = self.inner.borrow().slots.len() as u16;
            for index in 0..slots {
                next_ns = next_ns.min(self.look_after(index, now_ns));
            }
            self.ring();
            if next_ns != u64::MAX {
                self.alarm.set(&self.cpu, next_ns);
            }
        }
    }

    /// Does what is due for a slot; gives the time of the next thing.
    fn look_after(&self, index: u16, now_ns: u64) -> u64 {
        let mut inner = self.inner.borrow_mut();
        let slot = &mut inner.slots[usize::from(index)];
        match slot.state {
            SlotState::Free | SlotState::TimedOut => u64::MAX,
            SlotState::InFlight | SlotState::Retry(_) if slot.deadline_ns <= now_ns => {
                self.time_out(&mut inner, index);
                u64::MAX
            }
            SlotState::Retry(at_ns) if at_ns <= now_ns => {
                let deadline_ns = slot.deadline_ns;
                self.send(&mut inner, index);
                deadline_ns
            }
            SlotState::Retry(at_ns) => at_ns.min(slot.deadline_ns),
            SlotState::InFlight => slot.deadline_ns,
        }
    }

    #[cold]
    fn time_out(&self, inner: &mut Inner, index: u16) {
        inner.statistics.timeouts += 1;
        let slot = &mut inner.slots[usize::from(index)];
        let (group, state) = (slot.group, slot.state);
        let error = IoError::Timeout {
            drive: self.config.drive,
            opcode: slot.command.opcode,
            admin: self.admin,
            lba: self.lba(&slot.command),
        };
        if state == SlotState::InFlight {
            slot.state = SlotState::TimedOut;
            self.groups.time_out(&self.cpu, group, error);
        } else {
            // It waited to be sent again: the drive does not have it.
            self.free(inner, index);
            let outcome = Outcome {
                result: NO_RESULT,
                error: Some(error),
            };
            self.groups.end(&self.cpu, group, outcome);
        }
    }
}
