//! The codecs of [`super::Function::Compress`] and its other direction, and the memory that each of them takes.

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// zlib (RFC 1950), level 1.
    #[default]
    Zlib,
    /// The frame format of LZ4.
    Lz4,
    /// Zstandard (RFC 8878), level 1; only in builds with the feature `zstd`.
    Zstd,
}

/// The largest window of a Zstandard stream that is expanded, in bytes: RFC 8878 has every decoder support so much.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;

/// And the smallest window that the format has.
const ZSTD_WINDOW_BYTES_MIN: u64 = 1 << 10;

/// Memory of a Zstandard decoder besides the window: tables, a block that is coming in, and two that go out.
const ZSTD_EXPAND_BYTES: u64 = 576 << 10;

impl Codec {
    /// All codecs.
    pub const ALL: [Codec; 3] = [Codec::Zlib, Codec::Lz4, Codec::Zstd];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Zlib => "zlib",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        self != Codec::Zstd || cfg!(feature = "zstd")
    }

    /// Memory that it takes at most to compress, in bytes.
    pub(super) fn compress_bytes(self) -> u64 {
        match self {
            Codec::Zlib => 336 << 10,
            Codec::Lz4 => 304 << 10,
            Codec::Zstd => 576 << 10,
        }
    }

    /// Memory that it takes at most to expand, in bytes, of `most`: what a Zstandard stream needs is known when it begins.
    pub(super) fn expand_bytes(self, most: u64) -> u64 {
        match self {
            Codec::Zlib => 64 << 10,
            Codec::Lz4 => 72 << 10,
            Codec::Zstd => ZSTD_EXPAND_BYTES + zstd_window_bytes(most),
        }
    }
}

/// The largest window of a Zstandard stream, in bytes, for which so much memory is enough: a power of two.
pub(super) fn zstd_window_bytes(most: u64) -> u64 {
    let left = most.saturating_sub(ZSTD_EXPAND_BYTES);
    let left = left.clamp(ZSTD_WINDOW_BYTES_MIN, ZSTD_WINDOW_BYTES_MAX);
    1 << left.ilog2()
}

#[cfg(test)]
mod tests;
