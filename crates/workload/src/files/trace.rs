//! Traces of operations on files, as text. The whole format:
//!
//! 1. The first line is `# wharf file trace 1`; any other line that begins with `#`, or has nothing but blanks, is passed over.
//! 2. Lines `dir NAME` and `file NAME BYTES` say what is there at the beginning: before all operations, a directory before what is in it.
//! 3. Each further line is an operation: `time thread operation name [argument [argument]]`, with single blanks between. The time is in
//!    nanoseconds, or `-`. Operations and their arguments are in the table of `docs/traces.md`, and in [`arguments`].
//! 4. A name is an absolute path. In it `%` and two hexadecimal digits stand for a byte; blanks, control characters and `%` itself are
//!    written so.
//!
//! A reader holds a line, and the names: at most [`NAMES_MAX`], of [`NAMES_BYTES_MAX`] bytes together.

use std::io::Write;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::{Existing, FileOp, FileOpKind, Names, OpenHow};
use crate::error::{BadLine, WorkloadError};
use crate::lines::{Line, Lines};
use crate::parse::{Cursor, Fault, Reject, reject};
use crate::request::{ADDRESS_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::source::Source;

/// First line of a file.
const HEADER: &[u8] = b"# wharf file trace 1";

/// Most names of a trace.
pub const NAMES_MAX: usize = 1 << 20;

/// Most bytes of all names together.
pub const NAMES_BYTES_MAX: usize = 64 << 20;

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4095;

/// Bytes of a line that an error shows.
const SHOWN_BYTES: usize = 120;

/// What follows the name of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Nothing.
    None,
    /// How it is opened: letters `c` (made if it is not there), `x` (an error if it is), `t` (cut), or `-`.
    How,
    /// First byte and number of bytes.
    Range,
    /// Number of bytes.
    Bytes,
    /// The size that it has then.
    Size,
    /// A second name.
    Name,
}

/// What follows the name of an operation of this kind.
pub fn arguments(kind: FileOpKind) -> Arguments {
    match kind {
        FileOpKind::Open => Arguments::How,
        FileOpKind::Read
        | FileOpKind::Write
        | FileOpKind::CrcWrite
        | FileOpKind::Nearest
        | FileOpKind::Punch => Arguments::Range,
        FileOpKind::Append => Arguments::Bytes,
        FileOpKind::Truncate => Arguments::Size,
        _ if kind.has_other() => Arguments::Name,
        _ => Arguments::None,
    }
}

/// Reads operations one by one.
pub struct FileTraceReader {
    name: String,
    lines: Lines,
    names: Names,
    numbers: FxHashMap<Box<str>, u32>,
    name_bytes: usize,
    has_begun: bool,
}

impl FileTraceReader {
    /// A reader of a file, plain or compressed; nothing if it is no trace of operations on files.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> Result<Option<FileTraceReader>, WorkloadError> {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        FileTraceReader::new(&name, Source::open(path)?)
    }

    /// As before, of bytes in memory.
    ///
    /// # Errors
    /// They cannot be unpacked.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Option<FileTraceReader>, WorkloadError> {
        let source = Source::bytes(bytes).map_err(|source| WorkloadError::Read {
            name: name.to_owned(),
            line: 0,
            source,
        })?;
        FileTraceReader::new(name, source)
    }

    fn new(name: &str, source: Source) -> Result<Option<FileTraceReader>, WorkloadError> {
        let mut lines = Lines::new(source.reader);
        let sample = lines.sample().map_err(|source| WorkloadError::Read {
            name: name.to_owned(),
            line: 0,
            source,
        })?;
        let first = sample.0.split(|byte| *byte == b'\n').next().unwrap_or(b"");
        if first.trim_ascii_end() != HEADER {
            return Ok(None);
        }
        Ok(Some(FileTraceReader {
            name: name.to_owned(),
            lines,
            names: Names::default(),
            numbers: FxHashMap::default(),
            name_bytes: 0,
            has_begun: false,
        }))
    }

    /// The names so far; all of them at the end.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names, once all operations are read.
    pub fn into_names(self) -> Names {
        self.names
    }

    /// The next operation; nothing at the end.
    ///
    /// # Errors
    /// A line that is none of the format, with its number and what is wrong with it; the file cannot be read.
    pub fn next_op(&mut self) -> Result<Option<FileOp>, WorkloadError> {
        loop {
            let number = self.lines.count + 1;
            let line = self
                .lines
                .next_line()
                .map_err(|source| WorkloadError::Read {
                    name: self.name.clone(),
                    line: number - 1,
                    source,
                })?;
            // A copy, as names are added while it is parsed; lines are short.
            let text = match line {
                None => return Ok(None),
                Some(Line::Text(text)) => text.to_vec(),
                Some(Line::TooLong) => {
                    let fault = Reject {
                        field: "line",
                        fault: Fault::LineTooLong,
                    };
                    return Err(self.bad(number, fault, b""));
                }
            };
            if text.first() == Some(&b'#') || text.trim_ascii().is_empty() {
                continue;
            }
            match self.parse(&text) {
                Ok(Some(op)) => return Ok(Some(op)),
                Ok(None) => {}
                Err(fault) => return Err(self.bad(number, fault, &text)),
            }
        }
    }

    fn bad(&self, line: u64, fault: Reject, text: &[u8]) -> WorkloadError {
        let shown = &text[..text.len().min(SHOWN_BYTES)];
        WorkloadError::BadFileTrace {
            name: self.name.clone(),
            line: BadLine {
                line,
                reason: fault.to_string(),
                text: shown.escape_ascii().to_string(),
            },
        }
    }

    /// A line: an operation, or something that is there at the beginning.
    fn parse(&mut self, line: &[u8]) -> Result<Option<FileOp>, Reject> {
        let mut c = Cursor::new(line);
        if line.starts_with(b"dir ") || line.starts_with(b"file ") {
            if self.has_begun {
                return reject("what is there after the first operation", Fault::Unexpected);
            }
            let is_file = c.word("kind")? == b"file";
            c.gap("name")?;
            let name = self.number(c.word("name")?)?;
            let mut existing = Existing::Directory;
            if is_file {
                c.gap("bytes")?;
                existing = Existing::File(size(&mut c, "bytes")?);
            }
            c.finish("line")?;
            self.names.existing.push((name, existing));
            return Ok(None);
        }
        self.has_begun = true;
        let time_ns = if line.starts_with(b"- ") {
            c.word("time")?;
            FileOp::NO_TIME
        } else {
            c.uint("time")?
        };
        c.gap("thread")?;
        let thread = c.uint32("thread")?;
        c.gap("operation")?;
        let Some(kind) = FileOpKind::by_name(c.word("operation")?) else {
            return reject("operation", Fault::Unexpected);
        };
        c.gap("name")?;
        let file = self.number(c.word("name")?)?;
        let mut op = FileOp {
            time_ns,
            ..FileOp::new(thread, kind, file)
        };
        self.parse_arguments(&mut c, &mut op)?;
        c.finish("line")?;
        Ok(Some(op))
    }

    fn parse_arguments(&mut self, c: &mut Cursor<'_>, op: &mut FileOp) -> Result<(), Reject> {
        match arguments(op.kind) {
            Arguments::None => {}
            Arguments::How => {
                c.gap("flags")?;
                op.how = match c.word("flags")? {
                    b"-" => OpenHow::EXISTING,
                    letters => match OpenHow::of_letters(letters) {
                        Some(how) => how,
                        None => return reject("flags", Fault::Unexpected),
                    },
                };
            }
            Arguments::Range => {
                c.gap("offset")?;
                op.offset = size(c, "offset")?;
                c.gap("bytes")?;
                op.bytes = length(c, "bytes")?;
            }
            Arguments::Bytes => {
                c.gap("bytes")?;
                op.bytes = length(c, "bytes")?;
            }
            Arguments::Size => {
                c.gap("size")?;
                op.offset = size(c, "size")?;
            }
            Arguments::Name => {
                c.gap("second name")?;
                op.other = self.number(c.word("second name")?)?;
            }
        }
        Ok(())
    }

    /// The number of a name, which is added if it is new.
    fn number(&mut self, word: &[u8]) -> Result<u32, Reject> {
        let name = unescape(word)?;
        if let Some(number) = self.numbers.get(&*name) {
            return Ok(*number);
        }
        self.name_bytes += name.len();
        let is_full = self.names.paths.len() == NAMES_MAX || self.name_bytes > NAMES_BYTES_MAX;
        if is_full {
            return reject("number of names", Fault::TooLarge);
        }
        let number = self.names.paths.len() as u32;
        let name: Box<str> = name.into();
        self.names.paths.push(name.clone());
        self.numbers.insert(name, number);
        Ok(number)
    }
}

/// A size, or an offset.
fn size(c: &mut Cursor<'_>, field: &'static str) -> Result<u64, Reject> {
    match c.uint(field)? {
        size if size > ADDRESS_BYTES_MAX => reject(field, Fault::TooLarge),
        size => Ok(size),
    }
}

/// Bytes of one operation.
fn length(c: &mut Cursor<'_>, field: &'static str) -> Result<u64, Reject> {
    match c.uint(field)? {
        0 => reject(field, Fault::Zero),
        bytes if bytes > REQUEST_BYTES_MAX => reject(field, Fault::TooLarge),
        bytes => Ok(bytes),
    }
}

/// A name as it is meant.
fn unescape(word: &[u8]) -> Result<String, Reject> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.iter();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return reject("escape in the name", Fault::Unexpected),
            },
            byte => *byte,
        });
    }
    let is_path = bytes.first() == Some(&b'/') && !bytes.contains(&0);
    if !is_path {
        return reject("name", Fault::Unexpected);
    }
    if bytes.len() > PATH_BYTES_MAX {
        return reject("name", Fault::TooLarge);
    }
    String::from_utf8(bytes).or_else(|_| reject("name", Fault::Unexpected))
}

/// A name as it is written.
fn escape(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '%' | ' ' | '\u{7f}' | '\0'..='\u{1f}' => {
                text += &format!("%{:02x}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text
}

/// Writes a trace of operations on files line by line.
pub struct FileTraceWriter<W> {
    out: W,
}

impl<W: Write> FileTraceWriter<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// What the file system says; so of all that follow.
    pub fn new(mut out: W) -> std::io::Result<FileTraceWriter<W>> {
        out.write_all(HEADER)?;
        writeln!(out)?;
        Ok(FileTraceWriter { out })
    }

    /// Writes that something is there at the beginning: before all operations.
    ///
    /// # Errors
    /// See [`FileTraceWriter::new`].
    pub fn existing(&mut self, path: &str, what: Existing) -> std::io::Result<()> {
        match what {
            Existing::Directory => writeln!(self.out, "dir {}", escape(path)),
            Existing::File(bytes) => writeln!(self.out, "file {} {bytes}", escape(path)),
        }
    }

    /// Writes an operation on these names, whatever numbers it has for them; false if a name is longer than any may be,
    /// and nothing is written.
    ///
    /// # Errors
    /// See [`FileTraceWriter::new`].
    pub fn operation(&mut self, op: &FileOp, path: &str, other: &str) -> std::io::Result<bool> {
        if path.len().max(other.len()) > PATH_BYTES_MAX {
            return Ok(false);
        }
        let out = &mut self.out;
        match op.time() {
            Some(time_ns) => write!(out, "{time_ns}")?,
            None => write!(out, "-")?,
        }
        write!(out, " {} {} {}", op.thread, op.kind, escape(path))?;
        match arguments(op.kind) {
            Arguments::None => writeln!(out)?,
            Arguments::How => writeln!(out, " {}", op.how)?,
            Arguments::Range => writeln!(out, " {} {}", op.offset, op.bytes)?,
            Arguments::Bytes => writeln!(out, " {}", op.bytes)?,
            Arguments::Size => writeln!(out, " {}", op.offset)?,
            Arguments::Name => writeln!(out, " {}", escape(other))?,
        }
        Ok(true)
    }

    /// Writes what is kept back.
    ///
    /// # Errors
    /// See [`FileTraceWriter::new`].
    pub fn finish(mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Writes operations on files as a trace.
///
/// # Errors
/// What the file system says.
pub fn write_file_trace(
    names: &Names,
    ops: impl IntoIterator<Item = FileOp>,
    out: impl Write,
) -> std::io::Result<()> {
    let name = |number: u32| &*names.paths[number as usize];
    let mut writer = FileTraceWriter::new(out)?;
    for (number, existing) in &names.existing {
        writer.existing(name(*number), *existing)?;
    }
    for op in ops {
        writer.operation(&op, name(op.file), name(op.other))?;
    }
    writer.finish()
}
