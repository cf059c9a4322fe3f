//! The codecs, and one thread's state of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// zlib (RFC 1950), levels 1 to 9.
    Zlib,
    /// The block format of LZ4, without a level.
    Lz4,
    /// Zstandard (RFC 8878), levels 1 to 19; only in builds with the feature `zstd`.
    Zstd,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Codec; 4] = [Codec::None, Codec::Zlib, Codec::Lz4, Codec::Zstd];

    /// Its name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Zlib => "zlib",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The number that names it in formats.
    pub fn number(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Zlib => 1,
            Codec::Lz4 => 2,
            Codec::Zstd => 3,
        }
    }

    /// The codec of this number.
    pub fn of_number(number: u8) -> Option<Codec> {
        Codec::ALL.into_iter().find(|c| c.number() == number)
    }

    /// The levels that it has: `0` alone if it has none.
    pub fn levels(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Codec::None | Codec::Lz4 => 0..=0,
            Codec::Zlib => 1..=9,
            Codec::Zstd => 1..=19,
        }
    }

    /// The level to take where none is asked for: the fastest.
    pub fn level_default(self) -> u32 {
        *self.levels().start()
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        self != Codec::Zstd || cfg!(feature = "zstd")
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a codec refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A codec that this program was built without.
    #[error("this program was built without {0}: build it with `--features {0}`")]
    NotBuilt(Codec),
    /// A level that the codec has not.
    #[error("{codec} has levels {} to {}, not {level}", codec.levels().start(), codec.levels().end())]
    Level {
        /// The codec.
        codec: Codec,
        /// The level asked for.
        level: u32,
    },
    /// Bytes that are no output of the codec, or of other data than was expected.
    #[error("the compressed data is damaged: it is no {expanded_bytes} bytes in {codec}")]
    Damaged {
        /// The codec.
        codec: Codec,
        /// Bytes that it should have held.
        expanded_bytes: usize,
    },
}

/// A codec with what it keeps between calls; each thread has its own.
pub struct Compressor {
    codec: Codec,
    state: State,
}

enum State {
    None,
    Zlib {
        compress: Box<flate2::Compress>,
        decompress: Box<flate2::Decompress>,
    },
    Lz4(Box<Lz4>),
    #[cfg(feature = "zstd")]
    Zstd {
        compress: zstd::bulk::Compressor<'static>,
        decompress: zstd::bulk::Decompressor<'static>,
    },
}

/// What LZ4 keeps: a table for inputs of below 64 KiB and one for larger ones, as one that had
/// grown would make other bytes of the same data; and room for the worst case, which the library
/// wants to have before it begins.
#[derive(Default)]
struct Lz4 {
    small: lz4_flex::block::CompressTable,
    large: Option<lz4_flex::block::CompressTable>,
    worst: Vec<u8>,
}

impl Lz4 {
    fn compress(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let worst_bytes = lz4_flex::block::get_maximum_output_size(data.len());
        if self.worst.len() < worst_bytes {
            self.worst.resize(worst_bytes, 0);
        }
        let table = match data.len() < usize::from(u16::MAX) {
            true => &mut self.small,
            false => self
                .large
                .get_or_insert_with(lz4_flex::block::CompressTable::large),
        };
        let compress = lz4_flex::block::compress_into_with_table;
        let bytes = compress(data, &mut self.worst, table).ok()?;
        out.get_mut(..bytes)?.copy_from_slice(&self.worst[..bytes]);
        Some(bytes)
    }
}

impl Compressor {
    /// A compressor of this codec and level.
    ///
    /// # Errors
    /// A level that it has not, or a codec that is not built in.
    pub fn new(codec: Codec, level: u32) -> Result<Compressor, CodecError> {
        if !codec.levels().contains(&level) {
            return Err(CodecError::Level { codec, level });
        }
        let state = match codec {
            Codec::None => State::None,
            Codec::Zlib => State::Zlib {
                compress: Box::new(flate2::Compress::new(flate2::Compression::new(level), true)),
                decompress: Box::new(flate2::Decompress::new(true)),
            },
            Codec::Lz4 => State::Lz4(Box::default()),
            Codec::Zstd => Self::zstd(level)?,
        };
        Ok(Compressor { codec, state })
    }

    #[cfg(feature = "zstd")]
    fn zstd(level: u32) -> Result<State, CodecError> {
        let refused = |_| CodecError::Level {
            codec: Codec::Zstd,
            level,
        };
        Ok(State::Zstd {
            compress: zstd::bulk::Compressor::new(level as i32).map_err(refused)?,
            decompress: zstd::bulk::Decompressor::new().map_err(refused)?,
        })
    }

    #[cfg(not(feature = "zstd"))]
    fn zstd(_: u32) -> Result<State, CodecError> {
        Err(CodecError::NotBuilt(Codec::Zstd))
    }

    /// The codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Compresses `data` into `out`; returns how many bytes of `out` that takes, or `None` if it
    /// does not fit: `out` holds nothing of worth then. Equal data give equal bytes.
    pub fn compress(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        match &mut self.state {
            State::None => {
                out.get_mut(..data.len())?.copy_from_slice(data);
                Some(data.len())
            }
            State::Zlib { compress, .. } => {
                compress.reset();
                let status = compress.compress(data, out, flate2::FlushCompress::Finish);
                let is_whole = matches!(status, Ok(flate2::Status::StreamEnd));
                is_whole.then(|| compress.total_out() as usize)
            }
            State::Lz4(lz4) => lz4.compress(data, out),
            #[cfg(feature = "zstd")]
            State::Zstd { compress, .. } => compress.compress_to_buffer(data, out).ok(),
        }
    }

    /// Fills `out` from what [`Compressor::compress`] made of exactly so many bytes.
    ///
    /// # Errors
    /// [`CodecError::Damaged`]: `out` holds nothing of worth then.
    pub fn decompress(&mut self, compressed: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let damaged = CodecError::Damaged {
            codec: self.codec,
            expanded_bytes: out.len(),
        };
        let len = match &mut self.state {
            State::None => {
                if compressed.len() != out.len() {
                    return Err(damaged);
                }
                out.copy_from_slice(compressed);
                Some(out.len())
            }
            State::Zlib { decompress, .. } => {
                decompress.reset(true);
                let status =
                    decompress.decompress(compressed, out, flate2::FlushDecompress::Finish);
                let is_whole = matches!(status, Ok(flate2::Status::StreamEnd))
                    && decompress.total_in() as usize == compressed.len();
                is_whole.then(|| decompress.total_out() as usize)
            }
            State::Lz4(_) => lz4_flex::block::decompress_into(compressed, out).ok(),
            #[cfg(feature = "zstd")]
            State::Zstd { decompress, .. } => decompress.decompress_to_buffer(compressed, out).ok(),
        };
        match len {
            Some(len) if len == out.len() => Ok(()),
            _ => Err(damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> impl Iterator<Item = Codec> {
        Codec::ALL.into_iter().filter(|c| c.is_built())
    }

    fn text(bytes: usize) -> Vec<u8> {
        let words = ["page ", "frame ", "drive ", "host ", "flash ", "\n"];
        let mut state = 1u32;
        let mut out = Vec::new();
        while out.len() < bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            out.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        }
        out.truncate(bytes);
        out
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7u64;
        let next = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        });
        next.take(bytes).collect()
    }

    #[test]
    fn every_codec_gives_back_what_it_took_and_is_deterministic() {
        for codec in built() {
            let mut one = Compressor::new(codec, codec.level_default()).unwrap();
            let mut other = Compressor::new(codec, codec.level_default()).unwrap();
            for data in [
                text(4096),
                vec![0; 4096],
                text(1),
                text(65_536),
                noise(4096),
            ] {
                let mut out = vec![0; 2 * data.len() + 64];
                let mut again = out.clone();
                let len = one.compress(&data, &mut out).unwrap();
                let same = other.compress(&data, &mut again).unwrap();
                assert_eq!(out[..len], again[..same], "{codec}");
                let mut back = vec![0xee; data.len()];
                one.decompress(&out[..len], &mut back).unwrap();
                assert!(back == data, "{codec}");
                other.compress(&noise(512), &mut vec![0; 1024]).unwrap();
            }
        }
    }

    #[test]
    fn text_shrinks_and_what_does_not_fit_is_said() {
        for codec in built().filter(|c| *c != Codec::None) {
            let mut compressor = Compressor::new(codec, codec.level_default()).unwrap();
            let mut out = vec![0; 4032];
            let len = compressor.compress(&text(4096), &mut out).unwrap();
            assert!(len < 2500, "{codec}: {len}");
            assert_eq!(compressor.compress(&noise(4096), &mut out), None, "{codec}");
            // And it works again after that.
            assert_eq!(compressor.compress(&text(4096), &mut out), Some(len));
        }
    }

    #[test]
    fn damaged_data_is_refused_or_other_bytes_of_the_length_but_never_a_panic() {
        for codec in built() {
            let mut compressor = Compressor::new(codec, codec.level_default()).unwrap();
            let data = text(4096);
            let mut out = vec![0; 8192];
            let len = compressor.compress(&data, &mut out).unwrap();
            let mut back = vec![0; 4096];
            for cut in 0..len {
                assert!(compressor.decompress(&out[..cut], &mut back).is_err());
            }
            assert!(compressor.decompress(&out[..=len], &mut back).is_err() || codec == Codec::Lz4);
            for at in 0..len {
                let mut bad = out[..len].to_vec();
                bad[at] ^= 0x55;
                let _ = compressor.decompress(&bad, &mut back);
            }
            let mut longer = vec![0; 4097];
            assert!(compressor.decompress(&out[..len], &mut longer).is_err());
            let mut shorter = vec![0; 4095];
            assert!(compressor.decompress(&out[..len], &mut shorter).is_err());
        }
    }

    #[test]
    fn levels_and_codecs_that_are_not_there_are_refused_in_words() {
        let error = Compressor::new(Codec::Zlib, 10).err().unwrap();
        assert_eq!(error.to_string(), "zlib has levels 1 to 9, not 10");
        assert_eq!(
            Compressor::new(Codec::Zstd, 1).is_ok(),
            Codec::Zstd.is_built()
        );
        for codec in Codec::ALL {
            assert_eq!(Codec::of_number(codec.number()), Some(codec));
        }
    }
}
