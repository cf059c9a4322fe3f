//! Designs that a second process can use: *guests* attach to a process that owns the drives.
//!
//! 1. The owner's design has its memory in a space that can be [shared](DmaSpace::shareable), and
//!    counts guests among its clients ([`DesignConfig::guests`](crate::design::DesignConfig)): each is
//!    one client, after the owner's own.
//! 2. A guest makes the same design around the same memory ([`SharedDesign::attach`]), and its
//!    client as any client.
//! 3. When a guest has gone, the owner deletes its queue pairs, by which the drives take back what
//!    it held, and [forgets](SharedDesign::forget) it.

use std::sync::Arc;

use wharf_wire::dma::DmaSpace;
use wharf_wire::memory::SharedMemory;

use crate::design::{Design, DesignConfig, DesignError};

/// See the module.
pub trait SharedDesign: Design {
    /// Bytes of each memory that all processes share.
    fn shared_bytes(config: &DesignConfig) -> Vec<usize>;

    /// The memories themselves, in that order.
    ///
    /// # Panics
    /// If the design was not made in a space that can be shared.
    fn shared_memory(&self) -> Vec<Arc<SharedMemory>>;

    /// The design of guest number `guest`, around the owner's memories; what its client needs comes from
    /// `space`.
    ///
    /// # Errors
    /// If the configuration is impossible.
    fn attach(
        config: &DesignConfig,
        space: &Arc<DmaSpace>,
        memories: &[Arc<SharedMemory>],
        guest: u32,
    ) -> Result<Self, DesignError>;

    /// Most frames that client `index` holds of each of the `cores` firmware cores of a drive.
    ///
    /// # Errors
    /// If that is none.
    fn frames_max(&self, cores: u32, index: u32) -> Result<u32, DesignError>;

    /// Forgets guest number `guest`: the drives have taken back what it held.
    fn forget(&self, guest: u32);
}
