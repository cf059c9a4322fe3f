//! What can go wrong with a workload. Every variant is the caller's to mend, and each reads as
//! one line: what is wrong, where, what to do.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::format::Format;
use crate::request::Op;

/// A line (or, in binary formats, a record) that is not a request of its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Line number from 1; in a binary format the record number from 1.
    pub line: u64,
    /// Which field is wrong and how.
    pub reason: String,
    /// The beginning of the line, unprintable bytes escaped.
    pub text: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: \"{}\"", self.line, self.reason, self.text)
    }
}

/// Formats in the order of [`Format::NAMED`], for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates(pub Vec<Format>);

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, format) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{format}")?;
        }
        Ok(())
    }
}

/// Why a workload cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file cannot be opened.
    #[error("cannot open trace {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Reading or decompressing failed part of the way.
    #[error(
        "cannot read trace {name} past line {line}: {source}; the file may be cut short or damaged"
    )]
    Read {
        /// Name of the trace.
        name: String,
        /// Lines read before the failure.
        line: u64,
        /// The system's or the decompressor's reason.
        source: std::io::Error,
    },
    /// The trace is in an archive that does not say which file is meant.
    #[error(
        "{name} is an archive, and {source}: unpack the file that is meant, or pipe it in (tar -xOf)"
    )]
    Archive {
        /// Name of the trace.
        name: String,
        /// How it is wrong.
        source: std::io::Error,
    },
    /// No request is of a volume that was asked for.
    #[error(
        "{name} has no request of volume {volume}, and {others} of others: `wharf trace stat` lists them"
    )]
    NoVolume {
        /// Name of the trace.
        name: String,
        /// The volume (device or file).
        volume: u32,
        /// Requests of those that were not asked for.
        others: u64,
    },
    /// The trace is longer than there is memory for.
    #[error(
        "{name} has more than {requests} requests, which is what fits into the memory that can be had: give a shorter trace, or its first --requests"
    )]
    NoRoom {
        /// Name of the trace.
        name: String,
        /// Requests that fit.
        requests: u64,
    },
    /// A line of a trace of operations on files is none of the format.
    #[error("{name}: {line}; see docs/traces.md for the format")]
    BadFileTrace {
        /// Name of the trace.
        name: String,
        /// The line, and what is wrong with it.
        line: BadLine,
    },
    /// Writing a converted trace failed.
    #[error("cannot write trace: {0}")]
    Write(#[source] std::io::Error),
    /// A request that the format to write does not have.
    #[error("a {op} cannot be written as msr, which has reads and writes only: convert to wharf")]
    NotInTrace {
        /// What the request does.
        op: Op,
    },
    /// No known format matches the content.
    #[error(
        "{name} is in no trace format known here ({hint}); if it is one of {known}, force it with --format"
    )]
    UnknownFormat {
        /// Name of the trace.
        name: String,
        /// What came nearest, or what the file looks like.
        hint: String,
        /// The known formats.
        known: Candidates,
    },
    /// More than one format matches the content, and they would give different numbers.
    #[error(
        "{name} could be {candidates}, which would read it differently: choose with --format ({hint})"
    )]
    AmbiguousFormat {
        /// Name of the trace.
        name: String,
        /// The formats that match.
        candidates: Candidates,
        /// What tells them apart.
        hint: String,
    },
    /// The forced format contradicts the content.
    #[error("{name} is not in format {format}: {reason}")]
    WrongFormat {
        /// Name of the trace.
        name: String,
        /// The format asked for.
        format: Format,
        /// The contradiction.
        reason: String,
    },
    /// Columns were named of a trace whose format has its own.
    #[error(
        "{name} is in format {format}, which has its columns: only a table (csv) takes --columns"
    )]
    NoColumns {
        /// Name of the trace.
        name: String,
        /// Its format.
        format: Format,
    },
    /// A block size was given for a trace whose format has its units.
    #[error(
        "{name} is in format {format}, which says its units: only lis traces have a --block-size"
    )]
    NoBlocks {
        /// Name of the trace.
        name: String,
        /// Its format.
        format: Format,
    },
    /// Too many lines could not be parsed.
    #[error(
        "{name}: {bad} of the first {lines} lines are not {format} (more than {limit} allowed), the first being {first}; \
         check --format, or allow more with --bad-lines SHARE"
    )]
    TooManyBadLines {
        /// Name of the trace.
        name: String,
        /// The format in use.
        format: Format,
        /// Bad lines so far.
        bad: u64,
        /// Lines so far.
        lines: u64,
        /// Bad lines allowed in so many lines.
        limit: u64,
        /// The first bad line.
        first: BadLine,
    },
    /// The trace holds no request at all.
    #[error("{name} holds no requests ({detail})")]
    NoRequests {
        /// Name of the trace.
        name: String,
        /// What it holds instead.
        detail: String,
    },
    /// `--format` names no format.
    #[error("no trace format \"{given}\"; nearest is \"{nearest}\" (known: {known})")]
    UnknownFormatName {
        /// The name given.
        given: String,
        /// The nearest known one.
        nearest: String,
        /// The known formats.
        known: Candidates,
    },
    /// An `ascii:` layout cannot be understood.
    #[error("bad ascii layout \"{given}\": {reason}; write for example {example}")]
    BadAsciiLayout {
        /// The layout given.
        given: String,
        /// What is wrong with it.
        reason: String,
        /// A layout that works.
        example: &'static str,
    },
    /// A generator or profile name is not known.
    #[error("no workload \"{given}\"; nearest is \"{nearest}\" (known: {known})")]
    UnknownWorkload {
        /// The name given.
        given: String,
        /// The nearest known one.
        nearest: String,
        /// All names.
        known: String,
    },
    /// A parameter of a generator cannot be used.
    #[error("workload parameter {parameter}: {reason}")]
    BadParameter {
        /// Its name.
        parameter: &'static str,
        /// What is wrong and what would do.
        reason: String,
    },
    /// A request lies beyond the device.
    #[error(
        "request {index} ends at byte {end}, beyond the device of {device_bytes} bytes; \
         use a larger drive, or --fit wrap or --fit scale"
    )]
    BeyondDevice {
        /// Index of the request from 0.
        index: u64,
        /// First byte after it.
        end: u64,
        /// Bytes of the device.
        device_bytes: u64,
    },
    /// One request is larger than the whole device, so no mapping helps.
    #[error(
        "request {index} of {bytes} bytes is larger than the device of {device_bytes} bytes; use a larger drive"
    )]
    LargerThanDevice {
        /// Index of the request from 0.
        index: u64,
        /// Its size in bytes.
        bytes: u32,
        /// Bytes of the device.
        device_bytes: u64,
    },
    /// The regions of all streams together exceed the address space.
    #[error("the {streams} devices of the trace do not fit into one address space of {ADDRESS_BYTES_MAX} bytes; overlay them instead", ADDRESS_BYTES_MAX = crate::request::ADDRESS_BYTES_MAX)]
    LayoutOverflow {
        /// Number of streams.
        streams: usize,
    },
}
