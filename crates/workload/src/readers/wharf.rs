//! This project's plain format. Its whole specification:
//!
//! 1. The first line is `# wharf trace 1`; any other line that begins with `#` is a comment.
//! 2. Each further line is `time_ns op offset bytes [stream [process]]`: decimal numbers between
//!    single blanks, time `-` where there is none, op `R` (read), `W` (write), `F` (flush: the
//!    range becomes durable) or `D` (discard: the range is forgotten), offset and size in bytes,
//!    stream 0 if left out, no process if left out.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::{Op, Request};

/// First line of a file.
pub(crate) const HEADER: &[u8] = b"# wharf trace 1";

#[derive(Default)]
pub(super) struct Wharf {
    header_seen: bool,
}

impl Parser for Wharf {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        if !self.header_seen {
            self.header_seen = line == HEADER;
            return match self.header_seen {
                true => Ok(Parsed::Skip),
                false => reject("header \"# wharf trace 1\"", Fault::Missing),
            };
        }
        if line.first() == Some(&b'#') {
            return Ok(Parsed::Skip);
        }
        let mut c = Cursor::new(line);
        let time = if line.starts_with(b"- ") {
            c.word("time")?;
            Request::NO_TIME
        } else {
            c.uint("time")?
        };
        c.gap("op")?;
        let op = match c.word("op")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            b"F" => Op::Flush,
            b"D" => Op::Discard,
            _ => return reject("op", Fault::Unexpected),
        };
        c.gap("offset")?;
        let offset = c.uint("offset")?;
        c.gap("bytes")?;
        let bytes = c.uint("bytes")?;
        let (mut stream, mut process) = (0, Request::NO_PROCESS);
        if !c.rest().is_empty() {
            c.gap("stream")?;
            stream = c.uint32("stream")?;
        }
        if !c.rest().is_empty() {
            c.gap("process")?;
            process = c.uint32("process")?;
        }
        c.finish("line")?;
        let parsed = request(time, op, offset, bytes, stream)?;
        Ok(Parsed::Request(Request { process, ..parsed }))
    }
}
