//! What a pin or unpin asks of one core: it sees the whole list, and serves what is its own.

use wharf_wire::command::Command;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::pin::{Access, Unpin};
use wharf_wire::queue::Guest;

use crate::core::{Core, Slot};

/// A pin or unpin, as its command has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// DMA address of the list page, if there is one.
    pub list: Option<u64>,
    /// First page of the window: an address of the namespace.
    pub window: u64,
    /// Pages of the window: those that the list's bitmap names, or 1 without a list; 0 for an unpin.
    pub pages: u32,
    /// Unpins at the end of the list, or 1 without a list for [`Request::unpin`].
    pub unpins: u32,
    /// The unpin that the command has in itself.
    pub unpin: Unpin,
    /// What pinned pages are for.
    pub access: Access,
    /// Fail rather than wait while every frame is held.
    pub may_not_wait: bool,
    /// The pages were to be changed, and the drive takes no more writes: unpins are all it does.
    pub write_protected: bool,
    /// Who asks, if it is a host in another process.
    pub guest: Option<Guest>,
}

/// Noted in the slot: the command may not wait for frames.
pub(super) const MAY_NOT_WAIT: u64 = 1;
/// Noted in the slot: the drive took no writes when it came.
pub(super) const WRITE_PROTECTED: u64 = 2;

impl Request {
    /// What `command` asks, with what the controller notes of it; for `guest`.
    pub fn of(command: &Command, note: u64, guest: Option<Guest>) -> Request {
        let is_pin = command.io_opcode() == Some(IoOpcode::Pin);
        Request {
            list: command.has_list().then_some(command.prp1),
            window: command.slba(),
            pages: if is_pin { command.pages() } else { 0 },
            unpins: command.unpin_count(),
            unpin: command.inline_unpin(),
            // An unpin has none; that of a pin was checked.
            access: command.access().unwrap_or(Access::Read),
            may_not_wait: note & MAY_NOT_WAIT != 0,
            write_protected: note & WRITE_PROTECTED != 0,
            guest,
        }
    }

    /// What the command in a slot asks.
    pub fn of_slot(core: &Core, slot: u16) -> Request {
        let slots = core.slots.borrow();
        let Slot {
            command,
            note,
            guest,
            ..
        } = slots.get(slot);
        Request::of(command, *note, *guest)
    }
}
