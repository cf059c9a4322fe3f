//! A workload: a named sequence of requests, streamed from a trace or a generator, or held in
//! memory.

use std::path::Path;

use serde::Serialize;

use crate::error::{BadLine, WorkloadError};
use crate::request::Request;
use crate::source::Compression;
use crate::trace::{BATCH, ReadOptions, TraceReader};

/// What is known of a workload, complete once it has been read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadInfo {
    /// File name, or generator with its parameters.
    pub name: String,
    /// Trace format, or `generated`, or `memory`.
    pub format: String,
    /// Compression of the file.
    pub compression: Compression,
    /// Whether the format was told from the content (rather than given).
    pub detected: bool,
    /// Requests given out so far.
    pub requests: u64,
    /// Lines (or records) read so far.
    pub lines: u64,
    /// Lines that belong to the format but are no requests: headers, comments, other events.
    pub skipped_lines: u64,
    /// Lines that could not be parsed.
    pub bad_lines: u64,
    /// The first few of them.
    pub first_bad_lines: Vec<BadLine>,
    /// What was assumed where the format leaves a choice.
    pub notes: Vec<String>,
    /// Number of requests there will be in all, where it is known beforehand.
    pub requests_expected: Option<u64>,
}

impl WorkloadInfo {
    /// Of a workload that was not read from a file.
    pub fn made(name: String, format: &str, requests: u64, expected: Option<u64>) -> Self {
        WorkloadInfo {
            name,
            format: format.to_owned(),
            compression: Compression::Plain,
            detected: false,
            requests,
            lines: 0,
            skipped_lines: 0,
            bad_lines: 0,
            first_bad_lines: Vec::new(),
            notes: Vec::new(),
            requests_expected: expected,
        }
    }
}

/// A source of requests, in batches.
pub trait RequestStream: Send {
    /// Appends the next requests to `out`, some thousands at most; none at the end.
    ///
    /// # Errors
    /// The trace cannot be read further. The stream has ended then.
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), WorkloadError>;

    /// What is known so far.
    fn info(&self) -> WorkloadInfo;
}

/// A stream of requests with its name; an iterator.
pub struct Workload {
    stream: Box<dyn RequestStream>,
    batch: Vec<Request>,
    next: usize,
}

impl Workload {
    /// Opens a trace file; see [`TraceReader::open`].
    ///
    /// # Errors
    /// The file cannot be read, or its format cannot be settled.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Workload, WorkloadError> {
        TraceReader::open(path, options).map(Workload::from_stream)
    }

    /// Takes any stream.
    pub fn from_stream(stream: impl RequestStream + 'static) -> Workload {
        Workload {
            stream: Box::new(stream),
            batch: Vec::new(),
            next: 0,
        }
    }

    /// Takes requests in memory.
    pub fn from_requests(name: &str, requests: Vec<Request>) -> Workload {
        Workload::from_stream(Memory {
            name: name.to_owned(),
            requests,
            next: 0,
        })
    }

    /// Takes an iterator of requests, a generator for example. `expected`: how many it will give,
    /// if that is known.
    pub fn from_requests_iter(
        name: String,
        requests: impl Iterator<Item = Request> + Send + 'static,
        expected: Option<u64>,
    ) -> Workload {
        Workload::from_stream(Generated {
            name,
            requests,
            given: 0,
            expected,
        })
    }

    /// What is known so far.
    pub fn info(&self) -> WorkloadInfo {
        self.stream.info()
    }

    /// Replaces the content of `batch` by the next requests; false at the end. The fastest way
    /// through a workload; not to be mixed with the iterator.
    ///
    /// # Errors
    /// The trace cannot be read further.
    pub fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, WorkloadError> {
        batch.clear();
        self.stream.fill(batch)?;
        Ok(!batch.is_empty())
    }

    /// Reads all of it into memory (32 bytes a request).
    ///
    /// # Errors
    /// The trace cannot be read to its end.
    pub fn materialise(mut self) -> Result<(Vec<Request>, WorkloadInfo), WorkloadError> {
        let mut requests = Vec::new();
        loop {
            let before = requests.len();
            self.stream.fill(&mut requests)?;
            if requests.len() == before {
                return Ok((requests, self.stream.info()));
            }
        }
    }
}

impl Iterator for Workload {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.batch.len() {
            self.next = 0;
            self.batch.clear();
            if let Err(error) = self.stream.fill(&mut self.batch) {
                self.batch.clear();
                return Some(Err(error));
            }
        }
        let request = *self.batch.get(self.next)?;
        self.next += 1;
        Some(Ok(request))
    }
}

/// Requests held in memory.
struct Memory {
    name: String,
    requests: Vec<Request>,
    next: usize,
}

impl RequestStream for Memory {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), WorkloadError> {
        let end = self.requests.len().min(self.next + BATCH);
        out.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(())
    }

    fn info(&self) -> WorkloadInfo {
        let expected = Some(self.requests.len() as u64);
        WorkloadInfo::made(self.name.clone(), "memory", self.next as u64, expected)
    }
}

/// Requests that an iterator makes.
struct Generated<I> {
    name: String,
    requests: I,
    given: u64,
    expected: Option<u64>,
}

impl<I: Iterator<Item = Request> + Send> RequestStream for Generated<I> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), WorkloadError> {
        let before = out.len();
        out.extend(self.requests.by_ref().take(BATCH));
        self.given += (out.len() - before) as u64;
        Ok(())
    }

    fn info(&self) -> WorkloadInfo {
        WorkloadInfo::made(self.name.clone(), "generated", self.given, self.expected)
    }
}
