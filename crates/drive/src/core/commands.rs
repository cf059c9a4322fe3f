//! The commands that a drive has fetched and not answered. Each stays in its slot from its fetch to its
//! completion: controller and cores look there, and tell each other only which slot.

use wharf_wire::command::Command;
use wharf_wire::prp::{PrpError, prp_walk};
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

/// Why a share of a command failed, and where.
#[derive(Debug, Clone, Copy)]
pub struct Failed {
    /// What the host is told.
    pub status: StatusCode,
    /// The page, local to the core.
    pub lpn: u32,
}

/// How a core's share of a command ended.
pub type Outcome = Result<(), Failed>;

/// What a share has come to that ends with `status`, which tells of page `lpn` if it is a failure.
pub fn outcome(status: StatusCode, lpn: u32) -> Outcome {
    match status {
        StatusCode::Success => Ok(()),
        status => Err(Failed { status, lpn }),
    }
}

/// What one core has to do for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// The command's slot.
    pub slot: u16,
    /// Pages of the command that come before, where it transfers pages.
    pub skip: u16,
    /// First logical page, local to the core.
    pub first: u32,
    /// Logical pages.
    pub count: u32,
}

/// The answer to a share.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The command's slot.
    pub slot: u16,
    /// How it went.
    pub status: StatusCode,
    /// The first page that failed, local to the core; of no meaning after success.
    pub lpn: u32,
    /// Nanoseconds that the core worked on the share, 4.2 s at most; 0 where operations are not timed.
    pub served_ns: u32,
    /// When it was given, by the core's clock in virtual time; 0 in real time.
    pub at_ns: u64,
}

/// A command that has been fetched.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The command.
    pub command: Command,
    /// The queue it came on.
    pub qid: u16,
    /// Who sent it, if it is a host in another process.
    pub guest: Option<Guest>,
    /// The failure of the first page that failed, or success.
    pub status: StatusCode,
    /// The first page that failed, if one did.
    pub failed_page: u64,
    /// Bytes to carry to the host before the completion.
    pub to_host_bytes: u32,
    /// Nanoseconds that a core worked on the share that was answered last.
    pub served_ns: u32,
    /// When the data of a write have arrived from the host, in nanoseconds.
    pub data_ready_ns: u64,
    /// The result, of up to 63 bits.
    pub result: u64,
    /// What the command's handler noted when it began it.
    pub note: u64,
    /// Host pages of its transfer, in order.
    addresses: Vec<u64>,
    shares_left: u32,
}

impl Slot {
    /// Host page number `index` of the transfer.
    #[inline]
    pub fn address(&self, index: u32) -> u64 {
        self.addresses[index as usize]
    }

    /// All host pages of the transfer.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }
}

/// The queue of what cores ask each other for: none.
const ASKED: u16 = u16::MAX;

/// All of them; and behind them what cores ask each other for (`peers.rs`), which is no command.
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// The host pages of the command that is being checked.
    checked: Vec<u64>,
}

impl Slots {
    /// Room for `count` commands, and for `asked` requests of cores.
    pub fn new(count: u32, asked: u32) -> Slots {
        let empty = Slot {
            command: Command::default(),
            qid: 0,
            guest: None,
            status: StatusCode::Success,
            failed_page: 0,
            to_host_bytes: 0,
            served_ns: 0,
            data_ready_ns: 0,
            result: 0,
            note: 0,
            addresses: Vec::new(),
            shares_left: 0,
        };
        Slots {
            slots: vec![empty; (count + asked) as usize],
            free: (0..count as u16).rev().collect(),
            checked: Vec::new(),
        }
    }

    /// Bytes that the table takes.
    pub fn bytes(count: u32) -> usize {
        count as usize * size_of::<Slot>()
    }

    /// True if another command fits.
    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// A command.
    #[inline]
    pub fn get(&self, slot: u16) -> &Slot {
        &self.slots[slot as usize]
    }

    /// A command, to note something of it.
    #[inline]
    pub fn get_mut(&mut self, slot: u16) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Walks the PRPs of a transfer of `pages` pages, once: what it finds are the host pages of the next
    /// command that is taken. `read` reads an entry of a list, `check` looks at each address.
    ///
    /// # Errors
    /// Of the first page that is not as it should be.
    #[inline]
    pub fn walk<E>(
        &mut self,
        command: &Command,
        pages: u32,
        read: impl FnMut(u64) -> Result<u64, E>,
        check: impl Fn(u64) -> Result<(), StatusCode>,
    ) -> Result<(), StatusCode> {
        self.checked.clear();
        for address in prp_walk(command.prp1, command.prp2, pages, read) {
            let address = address.map_err(PrpError::status)?;
            check(address)?;
            self.checked.push(address);
        }
        Ok(())
    }

    /// Keeps a command with `shares` shares.
    #[inline]
    pub fn take(&mut self, qid: u16, guest: Option<Guest>, command: Command, shares: u32) -> u16 {
        let free = self.free.pop();
        let number = free.expect("a command is fetched only when a slot is free");
        let slot = &mut self.slots[number as usize];
        slot.command = command;
        (slot.qid, slot.guest) = (qid, guest);
        slot.status = StatusCode::Success;
        (slot.to_host_bytes, slot.served_ns) = (0, 0);
        (slot.data_ready_ns, slot.result, slot.note) = (0, 0, 0);
        slot.shares_left = shares;
        number
    }

    /// Puts what a core asks for into `slot`, one of those behind the commands': `shares` shares with these
    /// pages to be transferred.
    pub(super) fn ask(
        &mut self,
        slot: u16,
        shares: u32,
        command: Command,
        addresses: &[u64],
        data_ready_ns: u64,
    ) {
        let slot = &mut self.slots[slot as usize];
        slot.command = command;
        (slot.qid, slot.guest) = (ASKED, None);
        slot.status = StatusCode::Success;
        slot.data_ready_ns = data_ready_ns;
        slot.addresses.clear();
        slot.addresses.extend_from_slice(addresses);
        slot.shares_left = shares;
    }

    /// A share of what a core has asked for has been answered, to that core.
    pub(super) fn answer_asked(&mut self, slot: u16) {
        self.slots[slot as usize].shares_left -= 1;
    }

    /// The host pages that were [walked](Slots::walk) last are this command's.
    #[inline]
    pub fn keep_walked(&mut self, slot: u16) -> &mut Slot {
        let slot = &mut self.slots[slot as usize];
        std::mem::swap(&mut slot.addresses, &mut self.checked);
        slot
    }

    /// Accounts one answer, of which `page` tells the page that failed; true if it was the last.
    /// Of several failures that of the lowest page counts.
    #[inline]
    pub fn gather(&mut self, answer: &Answer, page: impl FnOnce() -> u64) -> bool {
        let slot = &mut self.slots[answer.slot as usize];
        slot.served_ns = answer.served_ns;
        let status = answer.status;
        if status != StatusCode::Success {
            let page = page();
            if slot.status == StatusCode::Success || page < slot.failed_page {
                (slot.status, slot.failed_page) = (status, page);
            }
        }
        slot.shares_left -= 1;
        slot.shares_left == 0
    }

    /// Gives a slot back: its command is answered.
    #[inline]
    pub fn release(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// True if a command with this identifier of this queue has shares out.
    pub fn is_in_use(&self, qid: u16, cid: u16) -> bool {
        self.any_of(qid, |slot| slot.command.cid == cid)
    }

    /// True if commands of this queue have shares out.
    pub fn has_commands_of(&self, qid: u16) -> bool {
        self.any_of(qid, |_| true)
    }

    /// True if a command of this queue has shares out of which `is_meant` is true.
    pub fn any_of(&self, qid: u16, is_meant: impl Fn(&Slot) -> bool) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|s| s.shares_left > 0 && s.qid == qid && is_meant(s))
    }

    /// The slots of the commands of this queue that have shares out and of which `is_meant` is true.
    pub fn numbers_of(&self, qid: u16, is_meant: impl Fn(&Slot) -> bool) -> Vec<u16> {
        let slots = (0..).zip(&self.slots);
        let meant = slots.filter(|(_, s)| s.shares_left > 0 && s.qid == qid && is_meant(s));
        meant.map(|(number, _)| number).collect()
    }

    /// True if I/O commands have shares out.
    pub fn has_io(&self) -> bool {
        self.slots.iter().any(|s| s.shares_left > 0 && s.qid != 0)
    }
}
