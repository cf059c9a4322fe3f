//! Designs that a second process can use: *guests* attach to a process that owns the drives.
//!
//! 1. The owner's design has its memory in a space that can be [shared](DmaSpace::shareable), and
//!    counts guests among its clients ([`DesignConfig::guests`](crate::design::DesignConfig)): each is
//!    one client, after the owner's own.
//! 2. A guest makes the same design around the same memory ([`SharedDesign::attach`]), and its
//!    client as any client.
//! 3. When a guest has gone, the owner [mends](SharedDesign::mend) what it may have left, deletes its queue
//!    pairs, by which the drives take back what it held, and [forgets](SharedDesign::forget) it.
//!
//! What a guest can [write](Writers) it may write anything to, at any time. Nobody waits for it without a
//! bound.

use std::sync::Arc;

use wharf_wire::dma::DmaSpace;
use wharf_wire::memory::SharedMemory;

use crate::design::{Design, DesignConfig, DesignError};

/// Who may write to a memory that all processes can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// All of them.
    All,
    /// The owner alone.
    Owner,
    /// The owner, and the guest of this number.
    Guest(u32),
}

impl Writers {
    /// Whether guest number `guest` is one.
    pub fn have(self, guest: u32) -> bool {
        matches!(self, Writers::All) || self == Writers::Guest(guest)
    }
}

/// See the module.
pub trait SharedDesign: Design {
    /// The memories that the processes share: bytes and writers of each.
    fn shared_parts(config: &DesignConfig) -> Vec<(usize, Writers)>;

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
        own: &Self::Config,
        space: &Arc<DmaSpace>,
        memories: &[Arc<SharedMemory>],
        guest: u32,
    ) -> Result<Self, DesignError>;

    /// Most frames that client `index` holds of each of the `cores` firmware cores of a drive.
    ///
    /// # Errors
    /// If that is none.
    fn frames_max(&self, cores: u32, index: u32) -> Result<u32, DesignError>;

    /// Guest number `guest` is coming: from now on what it says of itself is believed.
    fn admit(&self, guest: u32);

    /// Mends what guests may have made of the memory that all write, but what names guest number `but`:
    /// that one is gone, and the drives are going to take back what it holds.
    fn mend(&self, but: Option<u32>);

    /// Forgets guest number `guest`: the drives have taken back what it held. What is left is mended.
    fn forget(&self, guest: u32);
}
