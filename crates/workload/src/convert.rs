//! Writing a workload as a trace file: lines of text here, records of libCacheSim in `oracle.rs`; `packed.rs` compresses them.

mod oracle;
mod packed;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;

use crate::error::WorkloadError;
use crate::nearest::nearest;
use crate::readers::WHARF_HEADER;
use crate::request::{Op, Request};
use crate::workload::{Workload, WorkloadInfo};

pub use packed::Packed;

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// `# wharf trace 1`, then `time_ns op offset bytes [stream [process]]`. Nothing is lost.
    Wharf,
    /// MSR CSV. Times are cut to 100 ns and are 0 where there are none; a stream of n · 65536 +
    /// disk becomes host `w<n>` and its disk; the latency is 0. Processes are lost; flushes and
    /// discards are refused.
    Msr,
    /// libCacheSim's `oracleGeneral`: a record of 24 bytes for each page of 4 KiB that a read or a write touches, with the
    /// use that follows. Times are whole seconds since the first request. What is a read and what a write is lost, and flushes and
    /// discards are left out.
    Oracle,
}

impl OutputFormat {
    /// All of them, with their names.
    const ALL: [(&'static str, OutputFormat); 3] = [
        ("wharf", OutputFormat::Wharf),
        ("msr", OutputFormat::Msr),
        ("oracleGeneral", OutputFormat::Oracle),
    ];
}

impl FromStr for OutputFormat {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<OutputFormat, WorkloadError> {
        let found = OutputFormat::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names = OutputFormat::ALL.map(|(known, _)| known);
            WorkloadError::BadParameter {
                parameter: "output format",
                reason: format!(
                    "\"{name}\" cannot be written; nearest is \"{}\" ({})",
                    nearest(name, names.into_iter()),
                    names.join(", ")
                ),
            }
        })
    }
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Converted {
    /// What was read.
    pub info: WorkloadInfo,
    /// Lines or records of requests, or of uses of pages.
    pub records: u64,
    /// Flushes and discards that the format does not have.
    pub left_out: u64,
}

impl Converted {
    /// Nothing of a workload yet.
    fn of(workload: &Workload) -> Converted {
        Converted {
            info: workload.info(),
            records: 0,
            left_out: 0,
        }
    }
}

/// Writes all requests of a workload. `scratch` is a folder where formats that look back may have a file meanwhile, as long as what
/// they write; it has no name, and is gone however this ends.
///
/// # Errors
/// The workload cannot be read to its end, or the output or the scratch file not be written; a request that the format does not have.
pub fn convert(
    workload: Workload,
    output: impl Write,
    format: OutputFormat,
    scratch: &Path,
) -> Result<Converted, WorkloadError> {
    let mut output = BufWriter::with_capacity(256 << 10, output);
    let converted = match format {
        OutputFormat::Oracle => oracle::write(workload, &mut output, scratch)?,
        OutputFormat::Wharf | OutputFormat::Msr => write_text(workload, &mut output, format)?,
    };
    output.flush().map_err(WorkloadError::Write)?;
    Ok(converted)
}

fn write_text(
    mut workload: Workload,
    output: &mut impl Write,
    format: OutputFormat,
) -> Result<Converted, WorkloadError> {
    let mut converted = Converted::of(&workload);
    if format == OutputFormat::Wharf {
        output
            .write_all(WHARF_HEADER)
            .map_err(WorkloadError::Write)?;
        output.write_all(b"\n").map_err(WorkloadError::Write)?;
    }
    let mut batch = Vec::new();
    let mut line = Line::default();
    while workload.next_batch(&mut batch)? {
        for request in &batch {
            if format == OutputFormat::Msr && !request.op.moves_data() {
                return Err(WorkloadError::NotInTrace { op: request.op });
            }
            let line = line.of(request, format);
            output.write_all(line).map_err(WorkloadError::Write)?;
            converted.records += 1;
        }
    }
    converted.info = workload.info();
    Ok(converted)
}

/// A line of text being written.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    /// The line of a request, with its line feed.
    fn of(&mut self, request: &Request, format: OutputFormat) -> &[u8] {
        self.0.clear();
        match format {
            OutputFormat::Wharf => self.wharf(request),
            _ => self.msr(request),
        }
        self.text("\n");
        &self.0
    }

    fn wharf(&mut self, request: &Request) {
        match request.time() {
            Some(time) => self.number(time),
            None => self.text("-"),
        }
        self.text(match request.op {
            Op::Read => " R ",
            Op::Write => " W ",
            Op::Flush => " F ",
            Op::Discard => " D ",
        });
        self.number(request.offset);
        self.text(" ");
        self.number(u64::from(request.bytes));
        if request.stream != 0 || request.has_process() {
            self.text(" ");
            self.number(u64::from(request.stream));
        }
        if request.has_process() {
            self.text(" ");
            self.number(u64::from(request.process));
        }
    }

    fn msr(&mut self, request: &Request) {
        self.number(request.time().unwrap_or(0) / 100);
        self.text(",w");
        self.number(u64::from(request.stream >> 16));
        self.text(",");
        self.number(u64::from(request.stream & 0xffff));
        self.text(match request.op {
            Op::Read => ",Read,",
            _ => ",Write,",
        });
        self.number(request.offset);
        self.text(",");
        self.number(u64::from(request.bytes));
        self.text(",0");
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A number in decimal, several times as fast as the formatting machinery.
    fn number(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{ReadOptions, TraceReader};

    fn sample() -> Vec<Request> {
        let request = |time_ns, op, offset, bytes, stream| Request {
            time_ns,
            op,
            offset,
            bytes,
            stream,
            process: Request::NO_PROCESS,
        };
        vec![
            request(0, Op::Read, 0, 512, 0),
            request(1_234_567_800, Op::Write, (1 << 56) - 4096, 4096, 7),
            request(900, Op::Write, 12_345, 1, 65_535),
        ]
    }

    fn round_trip(requests: &[Request], format: OutputFormat) -> Vec<Request> {
        let mut text = Vec::new();
        let workload = Workload::from_requests("sample", requests.to_vec());
        let converted = convert(workload, &mut text, format, &std::env::temp_dir()).unwrap();
        assert_eq!(converted.records, requests.len() as u64);
        let reader = TraceReader::from_bytes("sample", text, &ReadOptions::default()).unwrap();
        Workload::from_stream(reader).materialise().unwrap().0
    }

    #[test]
    fn our_own_format_loses_nothing() {
        let mut requests = sample();
        requests.push(Request::new(Op::Read, 4096, 4096));
        requests.push(Request::new(Op::Discard, 8192, u32::MAX));
        requests.push(Request::new(Op::Flush, 8192, 4096));
        requests.push(Request {
            process: 77,
            ..requests[0]
        });
        requests.push(Request {
            stream: u32::MAX,
            process: 0,
            time_ns: u64::MAX / 2,
            ..requests[0]
        });
        assert_eq!(round_trip(&requests, OutputFormat::Wharf), requests);
    }

    #[test]
    fn msr_keeps_times_to_100_ns() {
        assert_eq!(round_trip(&sample(), OutputFormat::Msr), sample());
    }

    #[test]
    fn a_wrong_output_format_names_the_nearest() {
        let error = "wahrf".parse::<OutputFormat>().unwrap_err().to_string();
        let expected = "nearest is \"wharf\" (wharf, msr, oracleGeneral)";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn what_is_neither_read_nor_write_is_refused_in_msr() {
        for op in [Op::Flush, Op::Discard] {
            let requests = vec![Request::new(Op::Read, 0, 4096), Request::new(op, 0, 4096)];
            let workload = Workload::from_requests("files", requests);
            let written = convert(
                workload,
                Vec::new(),
                OutputFormat::Msr,
                Path::new("/nowhere"),
            );
            let error = written.unwrap_err();
            let line = error.to_string();
            assert!(
                line.starts_with(&format!("a {op} cannot be written")),
                "{line}"
            );
        }
    }
}
