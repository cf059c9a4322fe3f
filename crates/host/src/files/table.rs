//! What all clients of a volume with files share: names, and which region is whose.

use std::collections::BTreeSet;
use std::sync::Arc;

use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::PAGE_BYTES;

use super::node;
use super::tree::Tree;
use super::{Errno, OpenFlags};
use crate::parts_of_volume::VolumeParts;
use wharf_runtime::wake::Mailboxes;

const PAGE: u64 = PAGE_BYTES as u64;

/// What all clients of a volume share: names, sizes, regions.
pub struct FileTable {
    pub(super) parts: VolumeParts,
    file_bytes_max: u64,
    pub(super) tree: Lock<Tree>,
    /// Regions that no file has.
    free: Lock<BTreeSet<u32>>,
    pub(super) mailboxes: Arc<Mailboxes>,
}

impl FileTable {
    /// An empty root over a volume of `pages` pages, divided into `regions` regions, for `clients` clients.
    pub fn new(regions: u32, pages: u64, clients: u32) -> FileTable {
        let parts = VolumeParts::new(regions, pages);
        let with_pages = (0..parts.count()).filter(|region| parts.pages_of(*region) > 0);
        FileTable {
            file_bytes_max: FileTable::file_bytes_max_of(regions, pages),
            free: Lock::new(with_pages.collect()),
            parts,
            tree: Lock::new(Tree::new()),
            mailboxes: Mailboxes::new(clients),
        }
    }

    /// The pages of the volume that region `region` has.
    pub fn pages_of(&self, region: u32) -> std::ops::Range<u64> {
        let first = self.parts.in_volume(region, 0);
        first..first + self.parts.pages_of(region)
    }

    /// Bytes of the longest file over a volume of `pages` pages in `regions` regions: where pages do not come out even the last
    /// region is shorter, and any file may get it.
    pub fn file_bytes_max_of(regions: u32, pages: u64) -> u64 {
        let parts = VolumeParts::new(regions, pages);
        let all = (0..parts.count()).map(|region| parts.pages_of(region));
        all.filter(|pages| *pages > 0).min().unwrap_or(0) * PAGE
    }

    /// Bytes of the longest file.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// Makes a directory before any client is there.
    ///
    /// # Errors
    /// As [`FileClient::mkdir`](super::FileClient::mkdir).
    pub fn make_directory(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.tree.get_mut().mkdir(path, 0o755, 0)
    }

    /// Makes a file of `bytes` bytes before any client is there. They are what its region holds: the pages of the first regions that
    /// are free, in order of the calls. Gives its number.
    ///
    /// # Errors
    /// As [`FileClient::open`](super::FileClient::open); `EFBIG`, `ENOSPC`.
    pub fn make_file(&mut self, path: &[u8], bytes: u64) -> Result<u64, Errno> {
        if bytes > self.file_bytes_max() {
            return Err(Errno::EFBIG);
        }
        let region = match bytes {
            0 => None,
            _ => Some(self.free.get_mut().pop_first().ok_or(Errno::ENOSPC)?),
        };
        let flags = OpenFlags {
            exclusive: true,
            ..OpenFlags::CREATE
        };
        let node = || Arc::new(node::filled(bytes, region));
        let tree = self.tree.get_mut();
        let opened = tree.open(path, flags, 0o644, 0, node)?;
        tree.close(opened.number);
        Ok(opened.number)
    }

    pub(super) fn take_region(&self, cpu: &Cpu) -> Result<u32, Errno> {
        self.free
            .with(cpu, |free| free.pop_first())
            .ok_or(Errno::ENOSPC)
    }

    pub(super) fn return_region(&self, cpu: &Cpu, region: u32) {
        self.free.with(cpu, |free| free.insert(region));
    }
}
