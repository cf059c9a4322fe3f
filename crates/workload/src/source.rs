//! Where the bytes of a trace come from: a file or memory, plain or compressed, or in an archive, always as a
//! stream. Compression is found by its first bytes; the name of the file plays no part.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::Serialize;

use crate::error::WorkloadError;

const BUFFER_BYTES: usize = 128 << 10;

/// Memory that an xz dictionary may take; `xz -9` needs 64 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// Window that a zstd frame may ask for; `zstd --ultra -22` needs 128 MiB.
const ZSTD_WINDOW_BYTES: u64 = 128 << 20;

/// How a trace is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, one or more members.
    Gz,
    /// bzip2, one or more streams.
    Bz2,
    /// xz, one or more streams.
    Xz,
    /// Zstandard, one or more frames.
    Zst,
}

impl Compression {
    /// Tells the compression from the first bytes of a file.
    pub fn of_magic(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, 0x08, ..] => Compression::Gz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bz2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            // A data frame, or a skippable frame before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zst,
            _ => Compression::Plain,
        }
    }

    /// The name as used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Gz => "gz",
            Compression::Bz2 => "bz2",
            Compression::Xz => "xz",
            Compression::Zst => "zst",
        }
    }
}

/// Decompressed bytes of a trace.
pub(crate) struct Source {
    pub reader: Box<dyn Read + Send>,
    pub compression: Compression,
    /// The name of the file in an archive that the bytes are of.
    pub unpacked: Option<String>,
}

impl Source {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Source, WorkloadError> {
        let failed = |source| WorkloadError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            )));
        }
        Source::over(BufReader::with_capacity(BUFFER_BYTES, file)).map_err(failed)
    }

    /// Takes a stream, such as standard input.
    pub fn reader(reader: impl Read + Send + 'static) -> io::Result<Source> {
        Source::over(BufReader::with_capacity(BUFFER_BYTES, reader))
    }

    /// Takes bytes in memory.
    pub fn bytes(bytes: Vec<u8>) -> io::Result<Source> {
        Source::over(Cursor::new(bytes))
    }

    fn over(mut input: impl BufRead + Send + 'static) -> io::Result<Source> {
        // A pipe may give fewer bytes than asked for, so the head is read, not peeked at.
        let mut head = Vec::with_capacity(6);
        input.by_ref().take(6).read_to_end(&mut head)?;
        let compression = Compression::of_magic(&head);
        let input = Cursor::new(head).chain(input);
        let reader: Box<dyn Read + Send> = match compression {
            Compression::Plain => Box::new(input),
            Compression::Gz => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Compression::Bz2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
            Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(
                input,
                true,
                XZ_MEMORY_KIB,
            )),
            Compression::Zst => Box::new(ZstdFrames::new(input)),
        };
        // What begins like a plain archive may be the head of one, whose lines are of use.
        let (reader, unpacked) = match compression {
            Compression::Plain => (reader, None),
            _ => crate::archive::unpack(reader)?,
        };
        Ok(Source {
            reader,
            compression,
            unpacked,
        })
    }
}

/// Zstandard frames one after another, skippable ones passed over, checksums checked.
struct ZstdFrames<R: BufRead> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(input: R) -> ZstdFrames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_BYTES);
        ZstdFrames {
            input,
            decoder,
            in_frame: false,
        }
    }

    /// Begins the next data frame; false at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
                    if skipped != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "zstd checksum does not match",
            ));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if self.in_frame && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                continue;
            }
            if self.in_frame {
                self.check_sum()?;
            }
            self.in_frame = self.next_frame()?;
            if !self.in_frame {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "hello hello hello\n" as written by the gzip, bzip2, xz and zstd programs.
    const TEXT: &[u8] = b"hello hello hello\n";
    const GZ: &[u8] = &[
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
        0x57, 0xc8, 0x40, 0x90, 0x5c, 0x00, 0x3b, 0x7c, 0x8a, 0xdf, 0x12, 0x00, 0x00, 0x00,
    ];
    const BZ2: &[u8] = &[
        0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, 0xe5, 0xb5, 0xf3, 0x09, 0x00,
        0x00, 0x04, 0x51, 0x00, 0x00, 0x10, 0x40, 0x00, 0x02, 0x44, 0xa0, 0x00, 0x21, 0xb5, 0x18,
        0x0c, 0x02, 0x90, 0x69, 0xc2, 0xa3, 0x0b, 0xb9, 0x22, 0x9c, 0x28, 0x48, 0x72, 0xda, 0xf9,
        0x84, 0x80,
    ];
    const XZ: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x0c, 0x00, 0x00, 0x00, 0x8f, 0x98, 0x41, 0x9c, 0xe0, 0x00, 0x11, 0x00, 0x0d, 0x5d,
        0x00, 0x34, 0x19, 0x49, 0xdb, 0x85, 0x5c, 0x67, 0x72, 0x2b, 0x15, 0x7d, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x1f, 0x01, 0xd9, 0xc8, 0x87, 0xc1, 0x43, 0xc8, 0x00, 0x01, 0x29, 0x12,
        0x88, 0x5b, 0x79, 0x97, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59,
        0x5a,
    ];
    const ZST: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x6d, 0x00, 0x00, 0x38, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
        0x20, 0x0a, 0x01, 0x00, 0x31, 0x4a, 0x11, 0xa3, 0xaa, 0x74, 0xce,
    ];

    fn unpack(bytes: &[u8]) -> io::Result<(Compression, Vec<u8>)> {
        let mut source = Source::bytes(bytes.to_vec())?;
        let mut out = Vec::new();
        source.reader.read_to_end(&mut out)?;
        Ok((source.compression, out))
    }

    #[test]
    fn every_compression_is_found_by_content_and_unpacked() {
        for (bytes, compression) in [
            (TEXT, Compression::Plain),
            (GZ, Compression::Gz),
            (BZ2, Compression::Bz2),
            (XZ, Compression::Xz),
            (ZST, Compression::Zst),
        ] {
            assert_eq!(unpack(bytes).unwrap(), (compression, TEXT.to_vec()));
        }
    }

    #[test]
    fn members_that_follow_one_another_are_one_stream() {
        for part in [GZ, BZ2, XZ, ZST] {
            let whole = [part, part].concat();
            assert_eq!(unpack(&whole).unwrap().1, [TEXT, TEXT].concat());
        }
    }

    #[test]
    fn a_skippable_zstd_frame_is_passed_over() {
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert_eq!(unpack(&[&skippable, ZST].concat()).unwrap().1, TEXT);
        assert!(unpack(&skippable[..9]).is_err());
    }

    #[test]
    fn a_stream_cut_short_is_an_error_not_a_short_trace() {
        for part in [GZ, BZ2, XZ, ZST] {
            for cut in 7..part.len() {
                assert!(
                    unpack(&part[..cut]).is_err(),
                    "cut at {cut} of {}",
                    part.len()
                );
            }
        }
    }

    #[test]
    fn short_and_empty_inputs_are_plain() {
        for bytes in [&b""[..], b"B", b"BZ", &[0x1f, 0x8b]] {
            assert_eq!(unpack(bytes).unwrap(), (Compression::Plain, bytes.to_vec()));
        }
    }
}
