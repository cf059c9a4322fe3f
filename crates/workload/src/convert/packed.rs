//! A trace that is compressed as it is written.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::source::Compression;

/// Bytes of a zstd frame, before it is compressed: each is one by itself, and they follow one another.
const FRAME_BYTES: usize = 1 << 20;

/// What is written to it goes to another writer, compressed or plain. [`Packed::finish`] writes the end.
pub struct Packed<W: Write>(Kind<W>);

enum Kind<W: Write> {
    Plain(W),
    Gz(GzEncoder<W>),
    Zst { frame: Vec<u8>, output: W },
}

impl<W: Write> Packed<W> {
    /// The compression that the ending of a file's name asks for: `.gz` or `.zst`, else none.
    ///
    /// # Errors
    /// The ending of a compression that can be read and not written, with what to do.
    pub fn asked_by(path: &Path) -> Result<Compression, String> {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Ok(Compression::Gz),
            Some("zst") => Ok(Compression::Zst),
            Some(other @ ("bz2" | "xz")) => Err(format!(
                "{} would not be compressed so: write .zst, .gz or a plain file, and compress that as .{other}",
                path.display()
            )),
            _ => Ok(Compression::Plain),
        }
    }

    /// Begins a compressed stream.
    ///
    /// # Panics
    /// If it is one that [`Packed::asked_by`] never gives.
    pub fn new(output: W, compression: Compression) -> Packed<W> {
        Packed(match compression {
            Compression::Plain => Kind::Plain(output),
            Compression::Gz => Kind::Gz(GzEncoder::new(output, Level::default())),
            Compression::Zst => Kind::Zst {
                frame: Vec::with_capacity(FRAME_BYTES),
                output,
            },
            Compression::Bz2 | Compression::Xz => panic!("{} is not written", compression.name()),
        })
    }

    /// Writes what is left, and the end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Kind::Plain(mut output) => output.flush(),
            Kind::Gz(encoder) => encoder.finish()?.flush(),
            Kind::Zst { frame, mut output } => {
                write_frame(&frame, &mut output)?;
                output.flush()
            }
        }
    }
}

fn write_frame(frame: &[u8], output: &mut impl Write) -> io::Result<()> {
    output.write_all(&compress_to_vec(frame, CompressionLevel::Fastest))
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(output) => output.write(bytes),
            Kind::Gz(encoder) => encoder.write(bytes),
            Kind::Zst { frame, output } => {
                let taken = bytes.len().min(FRAME_BYTES - frame.len());
                frame.extend_from_slice(&bytes[..taken]);
                if frame.len() == FRAME_BYTES {
                    write_frame(frame, output)?;
                    frame.clear();
                }
                Ok(taken)
            }
        }
    }

    /// Of a compressed stream nothing is written before its frame is full.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(output) => output.flush(),
            Kind::Gz(_) | Kind::Zst { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::source::Source;

    #[test]
    fn what_is_packed_is_read_again() {
        let text: Vec<u8> = (0..140_000u64)
            .flat_map(|i| (i * i % 9_973).to_le_bytes())
            .collect();
        assert!(text.len() > FRAME_BYTES, "two frames");
        for bytes in [&text[..], &text[..FRAME_BYTES], &text[..100], b""] {
            for compression in [Compression::Plain, Compression::Gz, Compression::Zst] {
                let mut packed = Vec::new();
                let mut writer = Packed::new(&mut packed, compression);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap();
                let mut source = Source::bytes(packed).unwrap();
                assert_eq!(source.compression, compression);
                let mut back = Vec::new();
                source.reader.read_to_end(&mut back).unwrap();
                assert!(back == bytes, "{compression:?}, {} bytes", bytes.len());
            }
        }
    }

    #[test]
    fn names_ask_for_what_can_be_written() {
        let asked = |name: &str| Packed::<Vec<u8>>::asked_by(Path::new(name));
        assert_eq!(asked("a.csv"), Ok(Compression::Plain));
        assert_eq!(asked("zst"), Ok(Compression::Plain));
        assert_eq!(asked("a.csv.gz"), Ok(Compression::Gz));
        assert_eq!(asked("x/a.zst"), Ok(Compression::Zst));
        assert!(asked("a.xz").unwrap_err().contains("compress that as .xz"));
    }

    /// A writer that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_end_at_latest() {
        for compression in [Compression::Plain, Compression::Gz, Compression::Zst] {
            let mut writer = Packed::new(Full, compression);
            let written = writer
                .write_all(b"some bytes")
                .and_then(|()| writer.finish());
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }
}
