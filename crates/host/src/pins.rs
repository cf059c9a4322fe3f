//! Pin and unpin commands as a client sends them, with their list pages.
//!
//! 1. A command for one page, with one unpin at most, needs no list: the frame's address is its
//!    result. Other commands take a list page, one of a few that each client has.
//! 2. The host fills the entries for addresses with [`NOT_PINNED`] beforehand: an entry tells of
//!    its page alone, whatever became of the command.
//! 3. A list belongs to the drive until the command's group is quiet.
//!
//! The format is in [`wharf_wire::pin`].

use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use wharf_runtime::{Cpu, Op};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaSpace, PAGE_BYTES, RegisterError};
use wharf_wire::pin::{
    Access, BITMAP_BYTES, LIST_ENTRIES, NOT_PINNED, Unpin, WINDOW_PAGES_MAX, address_offset,
    split_address, unpin_offset,
};

use crate::buffers::Buffers;
use crate::error::IoError;
use crate::group::{Group, NO_RESULT};
use crate::volume::{NAMESPACE, Volume};

const _: () = assert!(NO_RESULT == NOT_PINNED);

/// Most pages that a client asks for at once. As many unpins fit the same list.
pub const PAGES_MAX: usize = LIST_ENTRIES / 2;

/// Most unpins of a command.
pub const UNPINS_MAX: usize = LIST_ENTRIES;

/// Lists of each client, whatever the number of drives.
const LISTS_MIN: u32 = 32;

/// What a client needs to send the commands.
pub struct Pins {
    cpu: Cpu,
    volume: Rc<Volume>,
    lists: Buffers,
}

/// A command that was sent. Its list must be [given back](Pins::give_back) when its group is quiet.
pub struct Sent {
    /// The drive.
    pub drive: usize,
    list: Option<u32>,
    /// The address, for a command without a list.
    address: u64,
}

/// The right to send one command.
pub struct List(Option<u32>);

/// That of one that needs no list.
pub const NO_LIST: List = List(None);

/// Whether a command needs a list page.
pub fn needs_list(pages: usize, unpins: usize) -> bool {
    pages > 1 || unpins > 1
}

impl Pins {
    /// Lists for a client of `volume`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        cpu: &Cpu,
        volume: &Rc<Volume>,
        space: &Arc<DmaSpace>,
    ) -> Result<Pins, RegisterError> {
        let lists = Pins::list_pages(volume.drivers().len() as u32);
        Ok(Pins {
            cpu: cpu.clone(),
            volume: volume.clone(),
            lists: Buffers::new_whole(space, lists)?,
        })
    }

    /// List pages of a client of `drives` drives.
    pub fn list_pages(drives: u32) -> u32 {
        // Pins to overwrite and others are separate commands, on every drive.
        (2 * drives).max(LISTS_MIN)
    }

    /// Takes what `commands` commands need, all at once: for each is said whether it
    /// [needs a list](needs_list). At most two commands for each drive.
    pub async fn take(&self, commands: impl Iterator<Item = bool>) -> SmallVec<[List; 2]> {
        let needs: SmallVec<[bool; 8]> = commands.collect();
        let count = needs.iter().filter(|&&needs_list| needs_list).count();
        let (mut taken, mut addresses) = (Vec::new(), Vec::new());
        if count > 0 {
            self.lists
                .take(&self.cpu, count, &mut taken, &mut addresses)
                .await;
        }
        let list = |needs_list| List(if needs_list { taken.pop() } else { None });
        needs.into_iter().map(list).collect()
    }

    /// Writes a command to the queue of `drive`, as the only one of `group`: pins the pages `lbas`,
    /// which ascend within a window of 512, after giving back `unpins`. The drive sees it after
    /// [`Volume::ring`].
    pub async fn send(
        &self,
        group: &Group,
        drive: usize,
        list: List,
        access: Access,
        lbas: &[u64],
        unpins: &[Unpin],
    ) -> Sent {
        let driver = &self.volume.drivers()[drive];
        let slot = match driver.try_reserve() {
            Some(slot) => slot,
            None => driver.reserve().await,
        };
        let entries = (lbas.len() + unpins.len()) as u32;
        let command = self
            .cpu
            .work_n(Op::PinListEntry, entries, || match &list.0 {
                Some(page) => self.write_list(*page, access, lbas, unpins),
                None => single(access, lbas, unpins),
            });
        match list.0 {
            Some(page) => driver.issue(slot, group, command, &[self.lists.address(page)]),
            None => driver.issue(slot, group, command, &[]),
        }
        Sent {
            drive,
            list: list.0,
            address: NOT_PINNED,
        }
    }

    /// Writes a read of one page to the queue of `drive`, whose bytes go to the list's page.
    pub async fn send_read(&self, group: &Group, drive: usize, list: List, lba: u64) -> Sent {
        let driver = &self.volume.drivers()[drive];
        let slot = driver.reserve().await;
        let page = list.0.expect("a list to read to");
        let to = [self.lists.address(page)];
        driver.issue(slot, group, Command::read(NAMESPACE, lba, 1), &to);
        Sent {
            drive,
            list: list.0,
            address: NOT_PINNED,
        }
    }

    fn write_list(&self, page: u32, access: Access, lbas: &[u64], unpins: &[Unpin]) -> Command {
        assert!(
            lbas.len() + unpins.len() <= LIST_ENTRIES,
            "a list has 504 entries"
        );
        let start = self.lists.pointer(page);
        let write = |offset: u64, entry: u64| {
            // SAFETY: an aligned word of a list page that is taken and that no command names yet.
            unsafe { start.add(offset as usize).cast::<u64>().write(entry) }
        };
        for (index, unpin) in (0..).zip(unpins) {
            write(unpin_offset(index), unpin.to_entry());
        }
        let Some((&first, &last)) = lbas.first().zip(lbas.last()) else {
            return Command::unpin_list(NAMESPACE, unpins.len() as u32);
        };
        let mut bitmap = [0u64; BITMAP_BYTES / 8];
        for (index, &lba) in (0..).zip(lbas) {
            let at = (lba - first) as usize;
            bitmap[at / 64] |= 1 << (at % 64);
            write(address_offset(index), NOT_PINNED);
        }
        for (index, &bits) in (0..).zip(&bitmap) {
            write(8 * index, bits);
        }
        let window = last - first + 1;
        assert!(
            window <= u64::from(WINDOW_PAGES_MAX),
            "a window has 512 pages"
        );
        Command::pin_window(NAMESPACE, first, window as u32, access)
            .with_unpin_list(unpins.len() as u32)
    }

    /// Waits for the command's end. Asked again once the group is quiet after a timeout, it tells
    /// what the late command came to.
    ///
    /// # Errors
    /// Of the command. [`Pins::address`] tells what it did all the same, unless it timed out.
    pub async fn wait(&self, sent: &mut Sent, group: &Group) -> Result<(), IoError> {
        let outcome = group.wait(&self.cpu).await;
        let result = group.last_result();
        if split_address(result).0.is_multiple_of(PAGE_BYTES as u64) {
            sent.address = result;
        }
        outcome.map(drop)
    }

    /// What the drive told of the command's page number `index`: an address with a mark
    /// ([`split_address`]), or [`NOT_PINNED`].
    pub fn address(&self, sent: &Sent, index: u32) -> u64 {
        let Some(page) = sent.list else {
            return sent.address;
        };
        let offset = address_offset(index) as usize;
        // SAFETY: an aligned word of the list page; its command has ended.
        unsafe { self.lists.pointer(page).add(offset).cast::<u64>().read() }
    }

    /// Gives the command's list back; its group is quiet.
    pub fn give_back(&self, sent: Sent) {
        if let Some(page) = sent.list {
            self.lists.give_one_back(&self.cpu, page);
        }
    }
}

/// A command that needs no list.
fn single(access: Access, lbas: &[u64], unpins: &[Unpin]) -> Command {
    match (lbas, unpins) {
        ([lba], []) => Command::pin(NAMESPACE, *lba, access),
        ([lba], [unpin]) => Command::pin(NAMESPACE, *lba, access).with_unpin(*unpin),
        ([], [unpin]) => Command::unpin(NAMESPACE, *unpin),
        _ => unreachable!("other commands have a list"),
    }
}
