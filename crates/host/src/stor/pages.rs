//! Pages that a command has.

use wharf_wire::dma::PAGE_BYTES;

/// Bytes of a page.
pub(super) const PAGE: usize = PAGE_BYTES;

/// Pages of a client's memory: their numbers there, and their addresses.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) numbers: Vec<u32>,
    pub(super) addresses: Vec<u64>,
}
