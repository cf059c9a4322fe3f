//! Reading a trace: source, format, lines, bad-line policy, in one stream.

use std::io::Read;
use std::path::Path;

use crate::columns::Columns;
use crate::detect::{self, Sample};
use crate::error::WorkloadError;
use crate::format::Format;
use crate::lines::{Line, Lines};
use crate::parse::{Fault, Reject};
use crate::policy::{BadLinePolicy, BadLines};
use crate::readers::{self, BlkAction, Framing, Parsed, Parser};
use crate::request::Request;
use crate::source::{Compression, Source};
use crate::workload::{RequestStream, WorkloadInfo};

/// Requests given per call of [`RequestStream::fill`].
pub(crate) const BATCH: usize = 4096;

/// How a trace is to be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// The format, or `None` to tell it from the content.
    pub format: Option<Format>,
    /// When bad lines are too many.
    pub bad_lines: BadLinePolicy,
    /// Which event of a `blkparse` text counts; `None`: Q if present, else D, I, C.
    pub blkparse_action: Option<BlkAction>,
    /// Bytes of a block of a `lis` trace; `None`: 512.
    pub block_bytes: Option<u32>,
    /// Which columns of a table are what, where its header does not say it: only of [`Format::Csv`].
    pub columns: Option<Columns>,
    /// The streams (devices, volumes or files) whose requests are read; all if it is empty.
    pub volumes: Vec<u32>,
    /// Requests after which the trace counts as ended; `None`: all of them.
    pub requests_max: Option<u64>,
    /// Requests that there is room for: that there are more is an error.
    pub requests_room: Option<u64>,
}

/// A trace being read.
pub struct TraceReader {
    name: String,
    format: Format,
    compression: Compression,
    detected: bool,
    lines: Lines,
    parser: Box<dyn Parser>,
    policy: BadLinePolicy,
    bad: BadLines,
    requests: u64,
    requests_max: u64,
    requests_room: u64,
    /// Streams that are asked for, with their requests.
    volumes: Vec<(u32, u64)>,
    /// Requests of streams that nobody asked for.
    others: u64,
    unpacked: Option<String>,
    skipped: u64,
    done: bool,
}

impl TraceReader {
    /// Opens a file, plain or compressed, and settles its format.
    ///
    /// # Errors
    /// The file cannot be read; its format is unknown or ambiguous; a forced format contradicts it.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<TraceReader, WorkloadError> {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        TraceReader::new(name, Source::open(path)?, options)
    }

    /// Takes a trace that is in memory, plain or compressed.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        options: &ReadOptions,
    ) -> Result<TraceReader, WorkloadError> {
        TraceReader::over(name, Source::bytes(bytes), options)
    }

    /// Takes a trace from a stream, plain or compressed: standard input, for example.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<TraceReader, WorkloadError> {
        TraceReader::over(name, Source::reader(reader), options)
    }

    fn over(
        name: &str,
        source: std::io::Result<Source>,
        options: &ReadOptions,
    ) -> Result<TraceReader, WorkloadError> {
        let source = source.map_err(|source| unreadable(name, 0, source))?;
        TraceReader::new(name.to_owned(), source, options)
    }

    fn new(
        name: String,
        source: Source,
        options: &ReadOptions,
    ) -> Result<TraceReader, WorkloadError> {
        let mut lines = Lines::new(source.reader);
        let (bytes, is_all) = lines
            .sample()
            .map_err(|source| unreadable(&name, 0, source))?;
        let sample = Sample::new(bytes, is_all);
        let format = match (options.format, &options.columns) {
            (None | Some(Format::Csv), Some(columns)) => {
                detect::check_table(&name, &sample, Some(columns))?;
                Format::Csv
            }
            (Some(Format::Csv), None) => {
                detect::check_table(&name, &sample, None)?;
                Format::Csv
            }
            (Some(format), Some(_)) => return Err(WorkloadError::NoColumns { name, format }),
            (Some(format), None) => {
                detect::check_forced(&name, format, &sample)?;
                format
            }
            (None, None) => detect::detect(&name, &sample)?,
        };
        if options.block_bytes.is_some() && format != Format::Lis {
            return Err(WorkloadError::NoBlocks { name, format });
        }
        let mut parser = readers::parser(format, options);
        parser.prepare(bytes);
        Ok(TraceReader {
            name,
            format,
            compression: source.compression,
            detected: options.format.is_none(),
            lines,
            parser,
            policy: options.bad_lines,
            bad: BadLines::default(),
            requests: 0,
            requests_max: options.requests_max.unwrap_or(u64::MAX),
            requests_room: options.requests_room.unwrap_or(u64::MAX),
            volumes: options.volumes.iter().map(|stream| (*stream, 0)).collect(),
            others: 0,
            unpacked: source.unpacked,
            skipped: 0,
            done: false,
        })
    }

    /// The format in use.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The next line's request; `Ok(None)` at the end.
    fn next_parsed(&mut self) -> Result<Option<Parsed>, WorkloadError> {
        loop {
            let count = self.lines.count + 1;
            let read = match self.parser.framing() {
                Framing::Lines => self.lines.next_line(),
                Framing::Records(bytes) => self
                    .lines
                    .next_record(bytes)
                    .map(|record| (!record.is_empty()).then_some(Line::Text(record))),
            };
            let line = read.map_err(|source| unreadable(&self.name, count - 1, source))?;
            let (reject, text) = match line {
                None => return Ok(None),
                // A blank line belongs to every format (and 32 blanks to no binary one).
                Some(Line::Text(text))
                    if text.first().is_none_or(|&b| b == b' ' || b == b'\t')
                        && text.trim_ascii_start().is_empty() =>
                {
                    return Ok(Some(Parsed::Skip));
                }
                Some(Line::Text(text)) => match self.parser.parse(text) {
                    Ok(parsed) => return Ok(Some(parsed)),
                    Err(reject) => (reject, text),
                },
                Some(Line::TooLong) => (
                    Reject {
                        field: "line",
                        fault: Fault::LineTooLong,
                    },
                    &b""[..],
                ),
            };
            self.bad.add(count, reject, text);
            if self.policy.is_exceeded(self.bad.count, count) {
                return Err(self.too_many(count));
            }
        }
    }

    fn too_many(&self, lines: u64) -> WorkloadError {
        WorkloadError::TooManyBadLines {
            name: self.name.clone(),
            format: self.format,
            bad: self.bad.count,
            lines,
            limit: self.policy.limit(lines),
            first: self.bad.kept[0].clone(),
        }
    }

    /// Counts a request; whether it is of a stream that is asked for.
    fn count(&mut self, request: &Request) -> bool {
        if !self.volumes.is_empty() {
            let asked = self.volumes.iter_mut();
            let Some((_, requests)) = asked.into_iter().find(|(of, _)| *of == request.stream)
            else {
                self.others += 1;
                return false;
            };
            *requests += 1;
        }
        self.requests += 1;
        true
    }

    /// A stream that was asked for must be there, unless the end was not looked for.
    fn check_volumes(&self) -> Result<(), WorkloadError> {
        let absent = self.volumes.iter().find(|(_, requests)| *requests == 0);
        match absent.filter(|_| self.requests < self.requests_max) {
            Some((volume, _)) => Err(WorkloadError::NoVolume {
                name: self.name.clone(),
                volume: *volume,
                others: self.others,
            }),
            None => Ok(()),
        }
    }

    /// Judges the whole trace at its end.
    fn finish(&mut self) -> Result<(), WorkloadError> {
        self.done = true;
        let good = self.requests + self.others + self.skipped;
        if self.bad.count > 0 && self.policy.outweighs(self.bad.count, good) {
            return Err(self.too_many(self.lines.count));
        }
        self.check_volumes()?;
        if self.requests == 0 {
            let detail = format!(
                "{} lines, {} of them bad, none a request of format {}",
                self.lines.count, self.bad.count, self.format
            );
            return Err(WorkloadError::NoRequests {
                name: self.name.clone(),
                detail,
            });
        }
        Ok(())
    }
}

/// Why bytes cannot be had, behind so many lines.
fn unreadable(name: &str, line: u64, source: std::io::Error) -> WorkloadError {
    let name = name.to_owned();
    match source.kind() {
        std::io::ErrorKind::Unsupported => WorkloadError::Archive { name, source },
        _ => WorkloadError::Read { name, line, source },
    }
}

impl RequestStream for TraceReader {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), WorkloadError> {
        let full = out.len() + BATCH;
        while !self.done && out.len() < full {
            if self.requests >= self.requests_max {
                self.finish()?;
                break;
            }
            match self.next_parsed() {
                Ok(Some(Parsed::Request(request))) => {
                    if !self.count(&request) {
                        continue;
                    }
                    if self.requests > self.requests_room {
                        self.done = true;
                        return Err(WorkloadError::NoRoom {
                            name: self.name.clone(),
                            requests: self.requests_room,
                        });
                    }
                    out.push(request);
                }
                Ok(Some(Parsed::Skip)) => self.skipped += 1,
                Ok(None) => self.finish()?,
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn info(&self) -> WorkloadInfo {
        let mut notes = self.parser.notes();
        if let Some(file) = &self.unpacked {
            notes.push(format!("the file {file} of an archive"));
        }
        if self.others > 0 {
            notes.push(format!(
                "{} requests of other volumes left out",
                self.others
            ));
        }
        WorkloadInfo {
            name: self.name.clone(),
            format: self.format.to_string(),
            compression: self.compression,
            detected: self.detected,
            requests: self.requests,
            lines: self.lines.count,
            skipped_lines: self.skipped,
            bad_lines: self.bad.count,
            first_bad_lines: self.bad.kept.clone(),
            notes,
            requests_expected: None,
        }
    }
}
