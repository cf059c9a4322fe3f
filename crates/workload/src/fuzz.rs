//! Entry points for fuzz targets, one per reader: any bytes must be read or refused without a panic and
//! without memory that grows faster than the input.

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

fn check(request: &Request) {
    let most = match request.op {
        Op::Discard => DISCARD_BYTES_MAX,
        _ => REQUEST_BYTES_MAX,
    };
    assert!(request.bytes > 0 && u64::from(request.bytes) <= most);
    assert!(request.offset <= ADDRESS_BYTES_MAX && request.end() <= ADDRESS_BYTES_MAX);
    assert!(!request.pages().is_empty());
}
