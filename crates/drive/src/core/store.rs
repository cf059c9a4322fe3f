//! What a core keeps pages in, and what is left of it when it is powered off.

use std::sync::{Arc, Mutex};

use wharf_runtime::sync::AtomicU64;

use crate::disk::{Disk, Platters};
use crate::ftl::Ftl;
use crate::media::AnyMedia;

/// What outlives a core.
#[derive(Clone, Default)]
pub struct CoreStatus {
    /// The media, when the core has been powered off.
    pub media: Arc<Mutex<Option<AnyMedia>>>,
    /// The same of a disk.
    pub platters: Arc<Mutex<Option<Platters>>>,
    /// Bytes that the core takes to keep book of frames of the host memory buffer.
    pub book_bytes: Arc<AtomicU64>,
}

/// What a core keeps pages in.
pub enum Store {
    /// Flash, by its translation layer.
    Flash(Box<Ftl>),
    /// A disk.
    Disk(Box<Disk>),
}
