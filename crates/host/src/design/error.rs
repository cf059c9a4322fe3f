//! Why a design cannot be made.

use wharf_wire::dma::RegisterError;

use crate::key::FILES_MAX;
use crate::volume::Level;

/// A design that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// Less than a page.
    #[error("design '{design}': a cache of {bytes} bytes holds no page: give it at least 4096")]
    CacheTooSmall {
        /// The design.
        design: &'static str,
        /// Bytes asked for.
        bytes: u64,
    },
    /// More than can be counted.
    #[error("design '{design}': a cache of {bytes} bytes is more than the 4 TiB it can manage")]
    CacheTooLarge {
        /// The design.
        design: &'static str,
        /// Bytes asked for.
        bytes: u64,
    },
    /// A client would get nothing of what some core of a drive manages.
    #[error(
        "design '{design}': {frames} frames of each drive are too few for {clients} clients on \
         {cores} firmware cores: give it a cache of at least {bytes_min} bytes"
    )]
    SharesTooSmall {
        /// The design.
        design: &'static str,
        /// Frames of a drive.
        frames: u32,
        /// Clients.
        clients: u32,
        /// Firmware cores of a drive.
        cores: u32,
        /// The cache, in bytes, that is enough with equal shares.
        bytes_min: u64,
    },
    /// More clients are given shares than there are.
    #[error(
        "design.{table}.shares has weights of {named} clients, and there are {clients}: name no more of them"
    )]
    TooManyShares {
        /// The table of the configuration.
        table: &'static str,
        /// Clients with a weight.
        named: u32,
        /// Clients.
        clients: u32,
    },
    /// Nobody to use it.
    #[error("design '{design}': no clients: give it at least one")]
    NoClients {
        /// The design.
        design: &'static str,
    },
    /// No files, or too many.
    #[error(
        "design '{design}': a volume cannot be {files} files: give it at least one, and fewer than \
         {FILES_MAX}"
    )]
    Files {
        /// The design.
        design: &'static str,
        /// Files asked for.
        files: u32,
    },
    /// Redundancy under pages that the drives keep.
    #[error(
        "design '{design}': its drives keep cached pages each for itself, which layout {level} cannot mirror or sum: \
         use layout raid0, or a design whose cache is the host's"
    )]
    Level {
        /// The design.
        design: &'static str,
        /// The volume's level.
        level: Level,
    },
    /// Nobody to manage the cache.
    #[error("design '{design}': no managers: give it at least one")]
    NoManagers {
        /// The design.
        design: &'static str,
    },
    /// No buffers.
    #[error("design '{design}': no transfer pages: give each client at least one")]
    NoTransferPages {
        /// The design.
        design: &'static str,
    },
    /// More pages than the frame table can name.
    #[error(
        "design '{design}': a volume of {pages} pages is more than the {pages_max} it can cache: \
         use fewer or smaller drives"
    )]
    VolumeTooLarge {
        /// The design.
        design: &'static str,
        /// Pages of the volume.
        pages: u64,
        /// The most there may be.
        pages_max: u64,
    },
    /// The system has not the memory.
    #[error("design '{design}': {source}")]
    Memory {
        /// The design.
        design: &'static str,
        /// Why not.
        source: RegisterError,
    },
}
