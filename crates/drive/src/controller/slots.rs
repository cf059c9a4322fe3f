//! Commands whose parts are out at the cores.

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::core::part::Answer;

/// What the controller does when the last part is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Only answers.
    Nothing,
    /// Fills the log page asked for.
    LogPage,
    /// Fills the namespace's identify data.
    IdentifyNamespace,
    /// Takes over the write cache's new state.
    WriteCache(bool),
    /// Lets I/O in again.
    Format,
    /// Counts it as ended.
    Pin,
    /// Nothing: the command has not ended.
    GiveUp,
    /// Goes on with lending.
    WriteBack,
    /// Lets pins in again.
    Lend,
}

/// A command with parts out.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// The queue it came on.
    pub qid: u16,
    /// The command.
    pub command: Command,
    /// The failure of the first page that failed, or success.
    pub status: StatusCode,
    /// The first page that failed, if one did.
    pub failed_page: u64,
    /// Pages to carry to the host before the completion.
    pub to_host_pages: u32,
    /// Nanoseconds that a core served the part that was answered last.
    pub served_ns: u32,
    /// The result, of up to 63 bits.
    pub result: u64,
    /// What follows.
    pub after: After,
    parts_left: u32,
}

/// All of them.
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
}

impl Slots {
    /// Room for `count` commands.
    pub fn new(count: u32) -> Slots {
        let empty = Slot {
            qid: 0,
            command: Command::default(),
            status: StatusCode::Success,
            failed_page: 0,
            to_host_pages: 0,
            served_ns: 0,
            result: 0,
            after: After::Nothing,
            parts_left: 0,
        };
        Slots {
            slots: vec![empty; count as usize],
            free: (0..count as u16).rev().collect(),
        }
    }

    /// True if another command fits.
    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Remembers a command with `parts` parts.
    #[inline]
    pub fn take(
        &mut self,
        qid: u16,
        command: Command,
        parts: u32,
        to_host_pages: u32,
        after: After,
    ) -> u16 {
        let slot = self
            .free
            .pop()
            .expect("a command is fetched only when a slot is free");
        let status = StatusCode::Success;
        self.slots[slot as usize] = Slot {
            qid,
            command,
            status,
            failed_page: 0,
            to_host_pages,
            served_ns: 0,
            result: 0,
            after,
            parts_left: parts,
        };
        slot
    }

    /// Sets the result of a command.
    pub fn set_result(&mut self, slot: u16, result: u64) {
        self.slots[slot as usize].result = result;
    }

    /// Accounts one answer, of which `page` tells the page that failed; true if it was the last.
    /// Of several failures that of the lowest page counts.
    #[inline]
    pub fn gather(&mut self, answer: &Answer, page: impl FnOnce() -> u64) -> bool {
        let slot = &mut self.slots[answer.slot as usize];
        slot.to_host_pages += u32::from(answer.to_host);
        slot.served_ns = answer.served_ns;
        let status = answer.status;
        if status != StatusCode::Success {
            let page = page();
            if slot.status == StatusCode::Success || page < slot.failed_page {
                (slot.status, slot.failed_page) = (status, page);
            }
        }
        slot.parts_left -= 1;
        slot.parts_left == 0
    }

    /// Forgets a command.
    #[inline]
    pub fn release(&mut self, slot: u16) -> Slot {
        self.free.push(slot);
        self.slots[slot as usize]
    }

    /// True if a command with this identifier of this queue has parts out.
    pub fn is_in_use(&self, qid: u16, cid: u16) -> bool {
        self.slots
            .iter()
            .any(|s| s.parts_left > 0 && s.qid == qid && s.command.cid == cid)
    }

    /// True if commands of this queue have parts out.
    pub fn has_commands_of(&self, qid: u16) -> bool {
        self.slots.iter().any(|s| s.parts_left > 0 && s.qid == qid)
    }

    /// True if pins of this queue have parts out.
    pub fn has_pins_of(&self, qid: u16) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|s| s.parts_left > 0 && s.qid == qid && s.after == After::Pin)
    }

    /// True if I/O commands have parts out.
    pub fn has_io(&self) -> bool {
        self.slots.iter().any(|s| s.parts_left > 0 && s.qid != 0)
    }
}
