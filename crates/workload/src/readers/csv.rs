//! Tables whose columns are named by a header, or by whoever gives them (`columns.rs`).

use super::{Parsed, Parser};
use crate::columns::{Columns, Layout, fields};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::{Op, Request};

/// Columns that are looked at.
const COLUMNS_MAX: usize = 64;

/// The stream is the device.
pub(super) struct Csv {
    given: Option<Columns>,
    layout: Option<Layout>,
    has_begun: bool,
}

impl Csv {
    pub(super) fn new(given: Option<Columns>) -> Csv {
        Csv {
            given,
            layout: None,
            has_begun: false,
        }
    }
}

/// An operation, in whatever words.
fn op_of(word: &[u8], read: Option<&[u8]>) -> Option<Op> {
    if let Some(read) = read {
        return Some(match word == read {
            true => Op::Read,
            false => Op::Write,
        });
    }
    match word.first()?.to_ascii_lowercase() {
        b'r' => Some(Op::Read),
        b'w' => Some(Op::Write),
        b'f' => Some(Op::Flush),
        b'd' | b't' | b'u' => Some(Op::Discard),
        _ => None,
    }
}

impl Parser for Csv {
    fn prepare(&mut self, sample: &[u8]) {
        self.layout = Layout::of(sample, self.given.as_ref()).ok();
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let Some(layout) = &self.layout else {
            return reject("header", Fault::Unexpected);
        };
        if !std::mem::replace(&mut self.has_begun, true) && layout.has_header {
            return Ok(Parsed::Skip);
        }
        let mut all: [&[u8]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
        let line = fields(line, layout.delimiter).take(COLUMNS_MAX);
        line.enumerate().for_each(|(at, field)| all[at] = field);
        let field = |column: usize| Cursor::new(all.get(column).copied().unwrap_or_default());
        let number = |column: usize, name| {
            let mut cursor = field(column);
            let number = cursor.uint(name)?;
            cursor.finish(name).map(|()| number)
        };
        let op = match layout.op {
            None => Op::Read,
            Some(column) => match op_of(field(column).rest(), layout.read.as_deref()) {
                Some(op) => op,
                None => return reject("op", Fault::Unexpected),
            },
        };
        let bytes_of = |(column, unit): (usize, crate::format::Unit), name| {
            number(column, name)?
                .checked_mul(unit.bytes())
                .ok_or(Reject {
                    field: name,
                    fault: Fault::TooLarge,
                })
        };
        let offset = bytes_of(layout.offset, "offset")?;
        let bytes = match layout.size {
            Some(size) => bytes_of(size, "size")?,
            None => layout.offset.1.bytes(),
        };
        let time = match layout.timestamp {
            None => Request::NO_TIME,
            Some((column, unit)) => {
                let mut cursor = field(column);
                let time = cursor.decimal("time")?;
                cursor.finish("time")?;
                time.to_ns(unit.ns(), "time")?
            }
        };
        let stream = match layout.stream {
            None => 0,
            Some(column) => {
                let mut cursor = field(column);
                let stream = cursor.uint32("device")?;
                cursor.finish("device").map(|()| stream)?
            }
        };
        request(time, op, offset, bytes, stream).map(Parsed::Request)
    }

    fn notes(&self) -> Vec<String> {
        let layout = self.layout.iter();
        layout
            .map(|layout| format!("taken as a table: {layout}"))
            .collect()
    }
}
