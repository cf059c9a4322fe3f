//! A trace in a compressed tar archive, as some are published (`.tgz`): the one file in it is read, and more than one is an error, since
//! nothing says which is meant.
//!
//! An archive is blocks of 512 bytes: a header, the file's bytes filled up to whole blocks, the next header, and blocks of
//! zeros at the end. It is known by its first header, which holds the sum of its bytes.

use std::io::{self, Cursor, ErrorKind, Read};

const BLOCK: usize = 512;

/// What an entry of an archive is to a reader of traces.
enum Entry {
    /// A file with bytes in it.
    File { name: String, bytes: u64 },
    /// Something else, with so many bytes that belong to it: a folder, a link, attributes of the next entry.
    Other { bytes: u64 },
    /// The end of the archive.
    End,
}

impl Entry {
    /// What a header says; nothing if it is none.
    fn of(header: &[u8; BLOCK]) -> Option<Entry> {
        if header.iter().all(|&byte| byte == 0) {
            return Some(Entry::End);
        }
        // The sum is formed with blanks in its own place.
        let blanks = 8 * u64::from(b' ');
        let others = header[..148].iter().chain(&header[156..]);
        let sum = others.map(|&byte| u64::from(byte)).sum::<u64>() + blanks;
        if header[0] == 0 || octal(&header[148..156]) != Some(sum) {
            return None;
        }
        let bytes = length(&header[124..136])?;
        match header[156] {
            0 | b'0' | b'7' if bytes > 0 => {
                let name = header[..100].split(|&byte| byte == 0).next();
                let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
                Some(Entry::File { name, bytes })
            }
            // Links and devices may name the length of what they stand for.
            0 | b'0'..=b'7' => Some(Entry::Other { bytes: 0 }),
            b'x' | b'g' | b'L' | b'K' => Some(Entry::Other { bytes }),
            _ => None,
        }
    }
}

/// A number of octal digits, with blanks before and a blank or a zero byte behind.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().rposition(|&byte| byte != b' ' && byte != 0)? + 1;
    let text = std::str::from_utf8(&field[..end]).ok()?;
    u64::from_str_radix(text.trim_start(), 8).ok()
}

/// The length of an entry: octal, or a binary number where the first bit is set.
fn length(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 == 0 {
        return octal(field).or_else(|| field.iter().all(|&byte| byte == 0).then_some(0));
    }
    let (high, low) = field.split_at(field.len() - 8);
    let is_small = high[0] == 0x80 && high[1..].iter().all(|&byte| byte == 0);
    is_small.then(|| u64::from_be_bytes(low.try_into().expect("eight bytes")))
}

/// The bytes of the one file of an archive.
struct File<R> {
    archive: R,
    name: String,
    left: u64,
    padding: u64,
}

/// Takes a stream as it is, or, if it is an archive, the one file in it, whose name is given too.
///
/// # Errors
/// The stream cannot be read; an archive without a file.
pub(crate) fn unpack(
    mut stream: impl Read + Send + 'static,
) -> io::Result<(Box<dyn Read + Send>, Option<String>)> {
    let mut head = Vec::with_capacity(BLOCK);
    stream.by_ref().take(BLOCK as u64).read_to_end(&mut head)?;
    let header = <&[u8; BLOCK]>::try_from(&head[..]).ok();
    match header.and_then(Entry::of) {
        None | Some(Entry::End) => Ok((Box::new(Cursor::new(head).chain(stream)), None)),
        Some(entry) => {
            let mut archive = Archive(stream);
            let (name, bytes) = archive
                .file(entry)?
                .ok_or_else(|| io::Error::new(ErrorKind::Unsupported, "no file is in it"))?;
            let file = File {
                archive,
                name: name.clone(),
                left: bytes,
                padding: padding(bytes),
            };
            Ok((Box::new(file), Some(name)))
        }
    }
}

/// Bytes behind so many that fill them up to whole blocks.
fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK as u64
}

/// An archive, at the end of a header or of what belongs to it.
struct Archive<R>(R);

impl<R: Read> Archive<R> {
    /// The file that comes next, from this entry on; none at the end of the archive.
    fn file(&mut self, mut entry: Entry) -> io::Result<Option<(String, u64)>> {
        loop {
            match entry {
                Entry::File { name, bytes } => return Ok(Some((name, bytes))),
                Entry::Other { bytes } => self.pass(bytes.saturating_add(padding(bytes)))?,
                Entry::End => {
                    // To its end, where a compressed stream is checked.
                    io::copy(&mut self.0, &mut io::sink())?;
                    return Ok(None);
                }
            }
            entry = self.entry()?;
        }
    }

    fn entry(&mut self) -> io::Result<Entry> {
        let mut header = [0; BLOCK];
        self.0.read_exact(&mut header)?;
        let damaged = || io::Error::new(ErrorKind::InvalidData, "a damaged entry of the archive");
        Entry::of(&header).ok_or_else(damaged)
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        match io::copy(&mut self.0.by_ref().take(bytes), &mut io::sink())? {
            passed if passed == bytes => Ok(()),
            _ => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl<R: Read> Read for File<Archive<R>> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left > 0 && !out.is_empty() {
            let read = self.archive.0.by_ref().take(self.left).read(out)?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.left -= read as u64;
            return Ok(read);
        }
        if self.padding == END || out.is_empty() {
            return Ok(0);
        }
        self.archive.pass(self.padding)?;
        let next = self.archive.entry()?;
        match self.archive.file(next)? {
            None => {
                self.padding = END;
                Ok(0)
            }
            Some((other, _)) => Err(io::Error::new(
                ErrorKind::Unsupported,
                format!("it holds more than one file ({}, {other})", self.name),
            )),
        }
    }
}

/// `padding` of a file whose archive has been read to its end.
const END: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with its bytes.
    fn entry(name: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        header[154] = 0;
        let mut all = [&header[..], bytes].concat();
        all.resize(all.len().next_multiple_of(BLOCK), 0);
        all
    }

    fn read(archive: Vec<u8>) -> io::Result<(Vec<u8>, Option<String>)> {
        let (mut reader, name) = unpack(Cursor::new(archive))?;
        let mut out = Vec::new();
        reader.read_to_end(&mut out)?;
        Ok((out, name))
    }

    const END_BLOCKS: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

    #[test]
    fn the_one_file_of_an_archive_is_read() {
        let long = vec![b'x'; 3 * BLOCK];
        for text in [&b"some lines\n"[..], &long] {
            let archive = [
                entry("folder/", b'5', b""),
                entry("attributes", b'x', &[b'a'; 700]),
                entry("folder/trace", b'0', text),
                entry("folder/empty", b'0', b""),
                END_BLOCKS.to_vec(),
            ];
            let (out, name) = read(archive.concat()).unwrap();
            assert_eq!(
                (out.as_slice(), name.as_deref()),
                (text, Some("folder/trace"))
            );
        }
    }

    #[test]
    fn what_is_no_archive_stays_as_it_is() {
        for bytes in [vec![], b"one line".to_vec(), vec![0; 600], vec![b'7'; 2000]] {
            assert_eq!(read(bytes.clone()).unwrap(), (bytes, None));
        }
    }

    #[test]
    fn an_archive_of_two_files_names_both() {
        let archive = [
            entry("a", b'0', b"1"),
            entry("b", 0, b"2"),
            END_BLOCKS.to_vec(),
        ];
        let error = read(archive.concat()).unwrap_err();
        assert_eq!(error.to_string(), "it holds more than one file (a, b)");
        let none = [entry("a/", b'5', b""), END_BLOCKS.to_vec()].concat();
        assert_eq!(read(none).unwrap_err().to_string(), "no file is in it");
    }

    #[test]
    fn an_archive_cut_short_is_an_error_not_a_short_trace() {
        let archive = [entry("a", b'0', &[b'y'; 600]), END_BLOCKS.to_vec()].concat();
        for cut in BLOCK..4 * BLOCK {
            let error = read(archive[..cut].to_vec()).map(|(out, _)| out.len());
            let is_whole = cut >= 3 * BLOCK + BLOCK;
            assert_eq!(error.is_ok(), is_whole, "cut at {cut}: {error:?}");
        }
        let mut damaged = archive.clone();
        damaged[3 * BLOCK] = 1;
        assert!(read(damaged).is_err());
    }

    #[test]
    fn lengths_are_octal_or_binary() {
        assert_eq!(length(b"00000000017\0"), Some(15));
        assert_eq!(length(&[0; 12]), Some(0));
        let mut binary = [0; 12];
        binary[0] = 0x80;
        binary[7] = 2;
        assert_eq!(length(&binary), Some(2 << 32));
        binary[3] = 1;
        assert_eq!(length(&binary), None);
        assert_eq!(length(b"99999999999\0"), None);
    }
}
