//! What all clients of a volume with files share: names, and which region is whose.

use std::collections::BTreeSet;
use std::sync::Arc;

use wharf_runtime::{Cpu, Lock};
use wharf_wire::dma::PAGE_BYTES;

use super::node::Node;
use super::tree::Tree;
use super::{Errno, OpenFlags};
use crate::parts_of_volume::Parts;
use crate::span::Extent;
use crate::wake::Mailboxes;

const PAGE: u64 = PAGE_BYTES as u64;

/// What all clients of a volume share: names, sizes, regions.
pub struct FileTable {
    pub(super) parts: Parts,
    pub(super) tree: Lock<Tree>,
    /// Regions that no file has.
    free: Lock<BTreeSet<u32>>,
    pub(super) mailboxes: Arc<Mailboxes>,
}

impl FileTable {
    /// An empty root over a volume of `pages` pages, divided into `regions` regions, for `clients` clients.
    pub fn new(regions: u32, pages: u64, clients: u32) -> FileTable {
        let parts = Parts::new(regions, pages);
        // Where pages do not come out even the last regions may be shorter: those are left out.
        let whole =
            (0..parts.count()).filter(|region| parts.pages_of(*region) == parts.pages_of(0));
        FileTable {
            free: Lock::new(whole.collect()),
            parts,
            tree: Lock::new(Tree::new()),
            mailboxes: Mailboxes::new(clients),
        }
    }

    /// Bytes of the longest file.
    pub fn file_bytes_max(&self) -> u64 {
        self.parts.pages_of(0) * PAGE
    }

    /// Makes a directory before any client is there.
    ///
    /// # Errors
    /// As [`FileClient::mkdir`].
    pub fn make_directory(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.tree.get_mut().mkdir(path, 0o755, 0)
    }

    /// Makes a file of `bytes` bytes before any client is there. They are what its region holds: the pages of the first regions that
    /// are free, in order of the calls. Gives the bytes of the volume where it lies.
    ///
    /// # Errors
    /// As [`FileClient::open`]; `EFBIG`, `ENOSPC`.
    pub fn make_file(&mut self, path: &[u8], bytes: u64) -> Result<Extent, Errno> {
        if bytes > self.file_bytes_max() {
            return Err(Errno::EFBIG);
        }
        let parts = self.parts;
        let region = match bytes {
            0 => None,
            _ => Some(self.free.get_mut().pop_first().ok_or(Errno::ENOSPC)?),
        };
        let flags = OpenFlags {
            exclusive: true,
            ..OpenFlags::CREATE
        };
        let node = || Arc::new(Node::filled(bytes, region));
        let tree = self.tree.get_mut();
        let opened = tree.open(path, flags, 0o644, 0, node)?;
        tree.close(opened.number);
        let start = region.map_or(0, |region| parts.in_volume(region, 0) * PAGE);
        Ok(Extent::new(start, bytes))
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
