//! Identify data: what the controller and its namespace are and can do.
//!
//! Two pages of 4096 bytes. Fields that Wharf uses stand where NVM Express has them; what lies
//! between them is reserved and zero. The last KiB of the controller's page, the vendor's own,
//! is a [`DriveInfo`]: what is particular to a Wharf drive.

mod controller;
mod drive_info;
mod namespace;

pub use controller::{IdentifyController, OptionalAdminCommand, OptionalIoCommand, VERSION_2_0};
pub use drive_info::{DriveFeature, DriveInfo, FeatureSet};
pub use namespace::{IdentifyNamespace, LbaFormat};
#[cfg(test)]
pub(crate) use namespace::{dlfeat_byte, flbas_byte};

/// Identify data that cannot be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// The controller's queue entries are not of 64 and 16 bytes.
    #[error(
        "controller does not take 64-byte submission and 16-byte completion entries \
         (SQES {sqes:02x}h, CQES {cqes:02x}h)"
    )]
    EntrySize {
        /// The field SQES.
        sqes: u8,
        /// The field CQES.
        cqes: u8,
    },
    /// The controller has no namespace.
    #[error("controller has no namespace (NN is 0): there is nothing to read or write")]
    NoNamespace,
    /// The namespace is empty: it is not active.
    #[error("namespace is not active (NSZE is 0): name another one")]
    Inactive,
    /// The namespace's format is not the one of this command set.
    #[error(
        "namespace has blocks of 2^{lbads} bytes and {metadata} bytes of metadata: \
         only 2^12 and 0 are supported, format it so"
    )]
    Format {
        /// Log2 of the block's bytes.
        lbads: u8,
        /// Bytes of metadata per block.
        metadata: u16,
    },
    /// FLBAS names a format that NLBAF says is not there.
    #[error("namespace is in format {index}, but has formats 0 to {last} only")]
    FormatIndex {
        /// The format in use.
        index: u8,
        /// The last format there is.
        last: u8,
    },
}
