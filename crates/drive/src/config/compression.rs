//! How a drive compresses: codec, sizes of stamps, engine.

use serde::{Deserialize, Serialize};
use wharf_codec::{Codec, CodecError, TableName};

use super::{DriveConfig, Geometry};
use crate::ftl::gc_frames;

/// Pages of a unit with compression, unless the configuration says otherwise: 16 KiB, as flash of
/// three bits a cell programs.
const UNIT_PAGES: u32 = 4;

/// Compression of pages on their way to flash. Every key has a default, and together they are a
/// drive that does not compress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompressionConfig {
    /// How whole pages are compressed; of stamps any but `none` says that they are.
    pub codec: Codec,
    /// The codec's level; 0 is its fastest.
    pub level: u32,
    /// What stamps, and pages that fill a drive beforehand, would compress to.
    pub sizes: TableName,
    /// Which of them have which size.
    pub sizes_seed: u64,
    /// How long a unit may wait for more pages when somebody waits for it, in nanoseconds.
    pub pack_wait_ns: u64,
    /// Time from the arrival of a page at an idle engine to the start of its work, in nanoseconds.
    pub engine_setup_ns: u64,
    /// Bytes of pages that an engine compresses, in MB/s (10^6 bytes a second); 0 is unlimited.
    pub engine_in_mb_s: u64,
    /// Bytes of pages that an engine expands, in MB/s; 0 is unlimited.
    pub engine_out_mb_s: u64,
    /// Engines, which share the pages of both directions.
    pub engines: u32,
}

impl Default for CompressionConfig {
    fn default() -> CompressionConfig {
        CompressionConfig {
            codec: Codec::None,
            level: 0,
            sizes: TableName::System,
            sizes_seed: 1,
            pack_wait_ns: 0,
            engine_setup_ns: 0,
            engine_in_mb_s: 0,
            engine_out_mb_s: 0,
            engines: 1,
        }
    }
}

impl CompressionConfig {
    /// Whether nothing is said of compression.
    pub fn is_default(&self) -> bool {
        *self == CompressionConfig::default()
    }

    /// Whether pages are compressed.
    pub fn is_on(&self) -> bool {
        self.codec != Codec::None
    }

    /// The level that the codec is used at.
    pub fn level(&self) -> u32 {
        match self.level {
            0 => self.codec.level_default(),
            level => level,
        }
    }

    /// Refuses a codec or a level that this program has not.
    pub(super) fn check(&self) -> Result<(), CodecError> {
        if !self.codec.is_built() {
            return Err(CodecError::NotBuilt(self.codec));
        }
        match self.codec.levels().contains(&self.level()) {
            true => Ok(()),
            false => Err(CodecError::Level {
                codec: self.codec,
                level: self.level(),
            }),
        }
    }
}

impl DriveConfig {
    /// Pages of a unit, where pages are packed into units; 0 where each is programmed by itself.
    pub fn unit_pages(&self) -> u32 {
        let Geometry {
            unit_pages,
            pages_per_block,
            ..
        } = self.geometry;
        match (unit_pages, self.compression.is_on()) {
            (0 | 1, false) => 0,
            (0, true) => {
                let frames = gc_frames(self.ftl.write_buffer_pages / self.firmware.cores.max(1));
                let is_possible = |pages: &u32| {
                    let divides = pages_per_block.is_multiple_of(*pages);
                    divides && pages_per_block >= 4 * pages && frames >= 2 * pages
                };
                let candidates = [UNIT_PAGES, 3, 2];
                candidates.into_iter().find(is_possible).unwrap_or(1)
            }
            (unit_pages, _) => unit_pages,
        }
    }
}
