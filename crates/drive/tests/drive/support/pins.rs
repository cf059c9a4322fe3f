//! Memory that a test lends to the drive, and the hands to pin pages in it.

use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, PAGE_BYTES};
use wharf_wire::host_memory::{FrameTable, HostMemoryDescriptor, frame_table_pages};
use wharf_wire::pin::{Access, NOT_PINNED, Unpin, address_offset, split_address, unpin_offset};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::host::{Host, code, fill_page, whole_value};

/// The whole page for lists of pins, behind those that players and log pages use.
pub const PIN_LIST: usize = 39;

struct Chunk {
    frames: DmaRegion,
    table: FrameTable,
    vadd: u64,
}

/// Chunks of the host memory buffer.
pub struct Lending {
    chunks: Vec<Chunk>,
    list: DmaRegion,
}

impl Lending {
    /// Chunks of so many frames each, not yet lent. The host calls them by odd addresses.
    pub fn new(host: &Host, sizes: &[usize]) -> Lending {
        let list = host
            .dma
            .register_whole(sizes.len().div_ceil(128))
            .expect("host memory");
        let (mut chunks, mut descriptors) = (Vec::new(), Vec::new());
        for (index, size) in sizes.iter().enumerate() {
            let frames = host.dma.register(*size).expect("host memory");
            let tables = host.dma.register_whole(frame_table_pages(*size));
            let tables = tables.expect("host memory");
            let vadd = 0x7f00_0000_0000 + ((index as u64) << 32);
            descriptors.push(HostMemoryDescriptor::new(
                frames.address(0),
                *size as u32,
                vadd,
                tables.address(0),
            ));
            let table = tables.frame_table(*size);
            chunks.push(Chunk {
                frames,
                table,
                vadd,
            });
        }
        for (page, descriptors) in descriptors.chunks(128).enumerate() {
            let bytes = descriptors.as_bytes();
            // SAFETY: nobody else knows the page yet.
            let start = unsafe { list.page_mut(page) };
            start[..bytes.len()].copy_from_slice(bytes);
        }
        Lending { chunks, list }
    }

    /// Frames of all chunks.
    pub fn frames(&self) -> u32 {
        self.chunks.iter().map(|c| c.frames.pages() as u32).sum()
    }

    /// Address of the descriptors.
    pub fn list(&self) -> u64 {
        self.list.address(0)
    }

    /// The command that lends it all.
    pub fn command(&self) -> Command {
        Command::lend_host_memory(self.frames(), self.list(), self.chunks.len() as u32)
    }

    fn find(&self, address: u64) -> (&Chunk, usize) {
        let found = self.chunks.iter().find(|chunk| {
            let end = chunk.vadd + (chunk.frames.pages() * PAGE_BYTES) as u64;
            (chunk.vadd..end).contains(&address)
        });
        let chunk = found.unwrap_or_else(|| panic!("{address:#x} is no frame's address"));
        let offset = address - chunk.vadd;
        assert!(offset.is_multiple_of(PAGE_BYTES as u64), "{address:#x}");
        (chunk, offset as usize / PAGE_BYTES)
    }

    /// The value that fills a frame; an error if it is a mixture.
    pub fn try_value(&self, address: u64) -> Result<u64, String> {
        let (chunk, frame) = self.find(address);
        // SAFETY: the test has pinned the frame, and nobody writes to it now.
        whole_value(unsafe { chunk.frames.page_mut(frame) })
    }

    /// The value that fills a frame.
    pub fn value(&self, address: u64) -> u64 {
        self.try_value(address)
            .unwrap_or_else(|torn| panic!("{torn}"))
    }

    /// Begins to write a frame; false if it is being written.
    pub fn try_begin(&self, address: u64) -> bool {
        let (chunk, frame) = self.find(address);
        chunk.table.word(frame).try_lock()
    }

    /// True while somebody writes a frame.
    pub fn is_locked(&self, address: u64) -> bool {
        let (chunk, frame) = self.find(address);
        chunk.table.word(frame).is_locked()
    }

    /// Writes some of a frame, and leaves it torn.
    pub fn write_half(&self, address: u64, value: u64) {
        let (chunk, frame) = self.find(address);
        // SAFETY: the caller has the frame's word.
        let bytes = unsafe { chunk.frames.page_mut(frame) };
        bytes[..8].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes a frame whose word is taken, marks it dirty, and gives the word back.
    pub fn end(&self, address: u64, value: u64) {
        let (chunk, frame) = self.find(address);
        // SAFETY: the caller has the frame's word.
        fill_page(unsafe { chunk.frames.page_mut(frame) }, value);
        chunk.table.set_dirty(frame);
        chunk.table.word(frame).unlock();
    }

    /// Writes a frame in place.
    pub fn write(&self, address: u64, value: u64) {
        assert!(self.try_begin(address), "somebody writes {address:#x}");
        self.end(address, value);
    }

    /// Whether a frame is marked as written.
    pub fn is_dirty(&self, address: u64) -> bool {
        let (chunk, frame) = self.find(address);
        chunk.table.is_dirty(frame)
    }
}

impl Host {
    /// Makes memory of `sizes` frames, lends it, and expects that to succeed.
    pub async fn lend(&mut self, sizes: &[usize]) -> Lending {
        let lending = Lending::new(self, sizes);
        let status = self.admin_status(lending.command()).await;
        assert_eq!(status, StatusCode::Success, "lending");
        lending
    }

    /// Pins one page; gives its address.
    pub async fn pin(&mut self, lba: u64, access: Access) -> Result<u64, StatusCode> {
        self.pin_command(Command::pin(1, lba, access)).await
    }

    /// Sends a pin of one page; gives the address.
    pub async fn pin_command(&mut self, command: Command) -> Result<u64, StatusCode> {
        Ok(self.pin_told(command).await?.0)
    }

    /// Sends a pin of one page; gives the address, and whether the frame is blank.
    pub async fn pin_told(&mut self, command: Command) -> Result<(u64, bool), StatusCode> {
        let cid = self.send(0, command);
        let found = self.next(0).await;
        assert_eq!(found.cid, cid, "the answer to another command");
        match code(&found) {
            StatusCode::Success => Ok(split_address(found.wide_result())),
            status => {
                assert_eq!(
                    found.wide_result() & 0xfff,
                    0xfff,
                    "an address with a failure"
                );
                Err(status)
            }
        }
    }

    /// Unpins one page.
    pub async fn unpin(&mut self, lba: u64, is_dirty: bool) -> StatusCode {
        self.io(Command::unpin(1, Unpin { lba, is_dirty })).await
    }

    /// Puts the wanted pages of a window and unpins on the list page `list`.
    pub fn fill_list(&self, list: usize, first: u64, wanted: &[u64], unpins: &[Unpin]) {
        let page = self.whole_page(list);
        // A command that is refused at once leaves the list alone: not pinned.
        page.fill(0xff);
        page[..64].fill(0);
        for lba in wanted {
            let bit = (lba - first) as usize;
            page[bit / 8] |= 1 << (bit % 8);
        }
        for (index, unpin) in (0..).zip(unpins) {
            let at = unpin_offset(index) as usize;
            page[at..at + 8].copy_from_slice(&unpin.to_entry().to_le_bytes());
        }
    }

    /// The addresses on the list page `list` of `count` wanted pages.
    pub fn addresses(&self, list: usize, count: usize) -> Vec<Option<u64>> {
        let told = self.told(list, count).into_iter();
        told.map(|told| Some(told?.0)).collect()
    }

    /// The addresses on the list page `list` of `count` wanted pages, and whether the frames are blank.
    pub fn told(&self, list: usize, count: usize) -> Vec<Option<(u64, bool)>> {
        let page = self.whole_page(list);
        let entry = |index: usize| {
            let at = address_offset(index as u32) as usize;
            u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
        };
        let pinned = |told: u64| (told != NOT_PINNED).then(|| split_address(told));
        (0..count).map(|index| pinned(entry(index))).collect()
    }

    /// A command with what is on the list page `list`.
    pub fn listed(&self, command: Command, list: usize) -> Command {
        command.with_prp(self.whole.address(list), 0)
    }

    /// Pins pages of one window, after unpins, by a list; gives their addresses.
    pub async fn pin_list(
        &mut self,
        wanted: &[u64],
        access: Access,
        unpins: &[Unpin],
    ) -> (StatusCode, Vec<Option<u64>>) {
        let (first, last) = (wanted[0], wanted[wanted.len() - 1]);
        self.fill_list(PIN_LIST, first, wanted, unpins);
        let window = Command::pin_window(1, first, (last - first + 1) as u32, access);
        let command = window.with_unpin_list(unpins.len() as u32);
        let status = self.io(self.listed(command, PIN_LIST)).await;
        (status, self.addresses(PIN_LIST, wanted.len()))
    }
}
