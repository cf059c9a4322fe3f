//! Entry points for fuzz targets, one per reader: any bytes must be read or refused without a panic and
//! without memory that grows faster than the input.

use crate::files::{FileOp, FileTraceReader, Names, write_file_trace};
use crate::format::Format;
use crate::policy::BadLinePolicy;
use crate::request::{ADDRESS_BYTES_MAX, DISCARD_BYTES_MAX, Op, REQUEST_BYTES_MAX, Request};
use crate::trace::{ReadOptions, TraceReader};
use crate::workload::RequestStream;

/// Requests after which reading stops, so that a small input that unpacks to a huge one ends.
const REQUESTS_MAX: u64 = 1 << 16;

/// Reads `data` in `format`, or in the format told from its content, letting all bad lines pass. Returns
/// the number of requests, each of which was checked against the bounds every reader promises.
///
/// # Panics
/// If a request breaks them: that is the bug being looked for.
pub fn parse_any(data: &[u8], format: Option<Format>) -> u64 {
    let bad_lines = BadLinePolicy {
        share: 1.0,
        grace: u64::MAX,
    };
    let options = ReadOptions {
        format,
        bad_lines,
        ..ReadOptions::default()
    };
    let Ok(mut reader) = TraceReader::from_bytes("fuzz", data.to_vec(), &options) else {
        return 0;
    };
    let mut count = 0;
    let mut batch = Vec::new();
    while count < REQUESTS_MAX {
        batch.clear();
        let result = reader.fill(&mut batch);
        batch.iter().for_each(check);
        count += batch.len() as u64;
        if result.is_err() || batch.is_empty() {
            break;
        }
    }
    let info = reader.info();
    assert!(info.requests + info.bad_lines + info.skipped_lines <= info.lines);
    count
}

/// Reads `data` as a trace of operations on files, writes what was read and reads it again: it is the same. Returns the number of
/// operations.
///
/// # Panics
/// If it is not, or an operation breaks the bounds that the reader promises: that is the bug being looked for.
pub fn parse_file_trace(data: &[u8]) -> u64 {
    let Some((names, ops)) = file_trace(data) else {
        return 0;
    };
    for op in &ops {
        assert!(op.bytes <= REQUEST_BYTES_MAX && op.offset <= ADDRESS_BYTES_MAX);
        let named = names.paths.len() as u32;
        assert!(op.file < named && op.other < named);
    }
    let mut text = Vec::new();
    write_file_trace(&names, ops.iter().copied(), &mut text).expect("memory can be written");
    assert_eq!(file_trace(&text), Some((names, ops.clone())));
    ops.len() as u64
}

/// All that comes before the first mistake.
fn file_trace(data: &[u8]) -> Option<(Names, Vec<FileOp>)> {
    let mut reader = FileTraceReader::from_bytes("fuzz", data.to_vec()).ok()??;
    let mut ops = Vec::new();
    while let Ok(Some(op)) = reader.next_op() {
        ops.push(op);
        if ops.len() as u64 == REQUESTS_MAX {
            break;
        }
    }
    let mut names = reader.into_names();
    // Names of a line with a mistake are no part of it.
    let of_ops = ops.iter().flat_map(|op| [op.file, op.other]);
    let used = of_ops.chain(names.existing.iter().map(|(name, _)| *name));
    let count = used.max().map_or(0, |most| most as usize + 1);
    names.paths.truncate(count);
    Some((names, ops))
}

fn check(request: &Request) {
    let most = match request.op {
        Op::Discard => DISCARD_BYTES_MAX,
        _ => REQUEST_BYTES_MAX,
    };
    assert!(request.bytes > 0 && u64::from(request.bytes) <= most);
    assert!(request.offset <= ADDRESS_BYTES_MAX && request.end() <= ADDRESS_BYTES_MAX);
    assert!(!request.pages().is_empty());
}
