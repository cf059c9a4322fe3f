//! Memory that the fuzzing host lends to the drive, and what it knows of the references it holds.
//!
//! As long as every pin and unpin is one of its own making, the host knows all references: a pinned page
//! stays in its frame, two pages are in two frames, and what is given back is gone. Once the input has
//! put together a pin of its own, or a command failed half done, the host knows nothing any more and only
//! gives everything back at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_drive::DriveConfig;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::{DmaRegion, DmaSpace, PAGE_BYTES};
use wharf_wire::features::FeatureId;
use wharf_wire::host_memory::{FrameTable, HostMemoryDescriptor, frame_table_pages};
use wharf_wire::opcode::{AdminOpcode, IoOpcode};
use wharf_wire::pin::{Access, NOT_PINNED, Unpin, address_offset, split_address, unpin_offset};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use crate::input::Input;

/// Frames that can be lent: few, so that pins wait for them.
const FRAMES_MAX: usize = 8;

/// What the host calls the first frame.
const VADD: u64 = 0x7f00_0000_0000;

/// Pages for lists of pins. Nothing but pins is in them, so that what a pin has done can be told.
const LISTS: usize = 4;

/// Most pages of a window.
const WINDOW_MAX: u32 = 12;

/// The references to a page, and where it was when it was last pinned.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    address: u64,
    references: i64,
    /// No pin or unpin that concerned the page was under way together with others since it came to its
    /// frame: so it is there.
    is_certain: bool,
}

/// See the module.
pub struct Lending {
    frames: DmaRegion,
    tables: DmaRegion,
    table: FrameTable,
    descriptors: DmaRegion,
    lists: DmaRegion,
    /// Pages of the namespace.
    pages: u64,
    /// The drive has memory.
    is_lent: bool,
    held: BTreeMap<u64, Held>,
    /// Somebody else's pins, or half of one, may be among those at the drive.
    is_lost: bool,
    /// Frames that the host has begun to write.
    open: Vec<usize>,
    /// The command that is being accounted for was under way with no other pin or unpin.
    alone: bool,
}

impl Lending {
    /// Memory for a drive, not yet lent.
    pub fn new(dma: &Arc<DmaSpace>, config: &DriveConfig) -> Lending {
        let tables = dma
            .register_whole(frame_table_pages(FRAMES_MAX))
            .expect("host memory");
        Lending {
            frames: dma.register(FRAMES_MAX).expect("host memory"),
            table: tables.frame_table(FRAMES_MAX),
            tables,
            descriptors: dma.register_whole(1).expect("host memory"),
            lists: dma.register_whole(LISTS).expect("host memory"),
            pages: config.namespace_pages(),
            is_lent: false,
            held: BTreeMap::new(),
            is_lost: false,
            open: Vec::new(),
            alone: false,
        }
    }

    /// The command that lends some frames, or takes them back. No frame is being written then.
    pub fn lend_or_take_back(&mut self, input: &mut Input<'_>) -> Command {
        self.leave_frames();
        let kind = input.number(1) as usize;
        if kind.is_multiple_of(4) {
            return Command::take_host_memory_back();
        }
        let frames = 1 + (kind / 4 % FRAMES_MAX) as u32;
        let (first, table) = (self.frames.address(0), self.tables.address(0));
        let descriptor = HostMemoryDescriptor::new(first, frames, VADD, table);
        let bytes = descriptor.as_bytes();
        // SAFETY: the drive runs only while the host's task waits.
        let page = unsafe { self.descriptors.page_mut(0) };
        page[..bytes.len()].copy_from_slice(bytes);
        Command::lend_host_memory(frames, self.descriptors.address(0), 1)
    }

    /// A pin of a page, or of some by a list, with or without unpins; `is_free` tells whether a list
    /// page is in no command under way.
    pub fn pin(&self, input: &mut Input<'_>, is_free: impl Fn(u64) -> bool) -> Command {
        let kind = input.number(1);
        let access = [Access::Read, Access::Write, Access::Overwrite][kind as usize % 3];
        let lba = input.number(1) % self.pages;
        let list = (0..LISTS).find(|page| is_free(self.lists.address(*page)));
        let command = match list.filter(|_| kind & 0x10 != 0) {
            Some(list) => {
                let span = (self.pages - lba).min(u64::from(WINDOW_MAX)) as u32;
                let unpins = if kind & 0x20 != 0 { 2 } else { 0 };
                self.fill_list(list, input, span, unpins);
                Command::pin_window(1, lba, span, access)
                    .with_unpin_list(unpins)
                    .with_prp(self.lists.address(list), 0)
            }
            None if kind & 0x20 != 0 => {
                Command::pin(1, lba, access).with_unpin(self.any_unpin(input))
            }
            None => Command::pin(1, lba, access),
        };
        match kind & 0x40 {
            0 => command,
            _ => command.without_waiting(),
        }
    }

    fn fill_list(&self, list: usize, input: &mut Input<'_>, span: u32, unpins: u32) {
        let wanted = input.number(2) & ((1 << span) - 1);
        // SAFETY: the drive runs only while the host's task waits.
        let page = unsafe { self.lists.page_mut(list) };
        page.fill(0xff);
        page[..64].fill(0);
        page[..8].copy_from_slice(&wanted.to_le_bytes());
        for index in 0..unpins {
            let at = unpin_offset(index) as usize;
            let entry = self.any_unpin(input).to_entry();
            page[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        }
    }

    fn any_unpin(&self, input: &mut Input<'_>) -> Unpin {
        let number = input.number(1);
        let lba = match self.held.keys().nth(number as usize / 2 % 16) {
            Some(lba) => *lba,
            None => number % self.pages,
        };
        Unpin {
            lba,
            is_dirty: number & 1 != 0,
        }
    }

    /// An unpin, of a page that is held if there is one.
    pub fn unpin(&self, input: &mut Input<'_>) -> Command {
        Command::unpin(1, self.any_unpin(input))
    }

    /// Writes to a frame that is held, and may leave off in the middle.
    pub fn write_in_place(&mut self, input: &mut Input<'_>) {
        let number = input.number(1) as usize;
        let held = self.held.values().filter(|held| held.references > 0);
        let Some(frame) = held.map(|held| frame_of(held.address)).nth(number / 2 % 8) else {
            return self.leave_frames();
        };
        if !self.table.word(frame).try_lock() {
            return self.leave_frames();
        }
        // SAFETY: the host has the frame's word; the drive runs only while the host's task waits.
        let bytes = unsafe { self.frames.page_mut(frame) };
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        self.open.push(frame);
        if number & 1 == 0 {
            self.leave_frames();
        }
    }

    /// Ends all writes that were begun.
    pub fn leave_frames(&mut self) {
        for frame in self.open.drain(..) {
            self.table.word(frame).unlock();
        }
    }

    /// A pin or unpin that the input made up goes to an I/O queue, or one is lost with its queue.
    pub fn doubt(&mut self, command: &Command) {
        self.is_lost |= is_pin(command);
    }

    /// A command was completed; `alone` says that it was under way with no other pin or unpin.
    pub fn completed(
        &mut self,
        is_admin: bool,
        command: &Command,
        found: &Completion,
        alone: bool,
    ) {
        self.alone = alone;
        let status = found.status().code().expect("looked at before");
        let succeeded = status == StatusCode::Success;
        if is_admin {
            if succeeded
                && command.admin_opcode() == Some(AdminOpcode::SetFeatures)
                && command.cdw10 & 0xff == FeatureId::HostMemory as u32
            {
                self.is_lent = command.lends_host_memory();
                // Memory that the input has put together is not this host's.
                let list = command.host_memory_list().0;
                self.is_lost |= self.is_lent && list != self.descriptors.address(0);
                // Those under way may have had their effect before, or will have it on the new memory.
                self.is_lost |= !alone;
                let held = self.held.values().any(|held| held.references != 0);
                assert!(
                    self.is_lost || !held,
                    "lent memory was taken from {:?}",
                    self.held
                );
                self.held.clear();
            }
            return;
        }
        match command.io_opcode() {
            Some(IoOpcode::Pin) => self.pinned(command, found, succeeded),
            Some(IoOpcode::Unpin) if succeeded => self.given_back(command),
            _ => {}
        }
    }

    fn pinned(&mut self, command: &Command, found: &Completion, succeeded: bool) {
        // Not all of its unpins need have been done.
        self.is_lost |= !succeeded && command.unpin_count() > 0;
        if self.is_lost {
            return;
        }
        self.given_back(command);
        if !command.has_list() {
            if succeeded {
                let (address, _) = split_address(found.wide_result());
                self.hold(command.slba(), address);
            }
            return;
        }
        let list = (0..LISTS).find(|page| self.lists.address(*page) == command.prp1);
        let list = list.expect("the host's own list");
        // SAFETY: the drive runs only while the host's task waits.
        let page = unsafe { self.lists.page_mut(list) }.to_vec();
        let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
        let wanted = word(0);
        let lbas = (0..64).filter(|bit| wanted >> bit & 1 == 1);
        for (index, bit) in (0..).zip(lbas) {
            let address = word(address_offset(index) as usize);
            match address {
                NOT_PINNED => assert!(!succeeded, "a page is missing after {command:?}"),
                told => self.hold(command.slba() + bit, split_address(told).0),
            }
        }
    }

    fn hold(&mut self, lba: u64, address: u64) {
        assert!(
            (VADD..VADD + (FRAMES_MAX * PAGE_BYTES) as u64).contains(&address)
                && address.is_multiple_of(PAGE_BYTES as u64),
            "{address:#x} is no frame's address"
        );
        let held = self.held.entry(lba).or_default();
        if held.is_certain && held.references > 0 && self.alone {
            assert_eq!(
                held.address, address,
                "page {lba} has moved while it was held"
            );
        }
        held.address = address;
        held.references += 1;
        held.is_certain = self.alone && (held.references == 1 || held.is_certain);
    }

    /// Takes the unpins of a command out of the account.
    fn given_back(&mut self, command: &Command) {
        let alone = self.alone;
        let mut give = |lba: u64| {
            let held = self.held.entry(lba).or_default();
            held.references -= 1;
            held.is_certain &= alone && held.references > 0;
        };
        if !command.has_list() {
            if command.unpin_count() == 1 {
                give(command.inline_unpin().lba);
            }
            return;
        }
        let Some(list) = (0..LISTS).find(|page| self.lists.address(*page) == command.prp1) else {
            return self.is_lost = true;
        };
        // SAFETY: the drive runs only while the host's task waits.
        let page = unsafe { self.lists.page_mut(list) };
        for index in 0..command.unpin_count() {
            let at = unpin_offset(index) as usize;
            let entry = u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
            give(Unpin::from_entry(entry).lba);
        }
    }

    /// Whether the drive has memory.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Pages of the namespace.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages that are certainly held and where, when nothing is under way; `None` if the host does not
    /// know what it holds.
    pub fn known(&self) -> Option<Vec<(u64, u64)>> {
        if self.is_lost {
            return None;
        }
        let mut known = Vec::new();
        for (lba, held) in &self.held {
            assert!(held.references >= 0, "{lba} was given back too often");
            if held.references > 0 && held.is_certain {
                known.push((*lba, held.address));
            }
        }
        let frames: BTreeSet<u64> = known.iter().map(|(_, at)| *at).collect();
        assert_eq!(
            frames.len(),
            known.len(),
            "two pages are in one frame: {known:x?}"
        );
        Some(known)
    }

    /// References to a page, as far as the host knows.
    pub fn references(&self, lba: u64) -> i64 {
        self.held.get(&lba).map_or(0, |held| held.references)
    }
}

/// Whether a command for an I/O queue changes references.
pub fn is_pin(command: &Command) -> bool {
    matches!(command.io_opcode(), Some(IoOpcode::Pin | IoOpcode::Unpin))
}

fn frame_of(address: u64) -> usize {
    (address - VADD) as usize / PAGE_BYTES
}
