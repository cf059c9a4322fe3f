//! SYSTOR '17 traces (Lee et al.): CSV `Timestamp,Response,IOType,LUN,Offset,Size` with that
//! header. Times in s, offset and size in bytes, type R, W, or blank for other commands.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::Op;

pub(crate) const HEADER: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

/// The stream is the LUN.
pub(super) struct Systor;

impl Parser for Systor {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        if line == HEADER {
            return Ok(Parsed::Skip);
        }
        let mut c = Cursor::new(line);
        let time = c.decimal("timestamp")?.to_ns(1_000_000_000, "timestamp")?;
        c.comma("response")?;
        let response = c.until_comma("response")?;
        if !response.is_empty() {
            let mut r = Cursor::new(response);
            r.decimal("response")?;
            r.finish("response")?;
        }
        let op = match c.until_comma("iotype")? {
            b"R" => Some(Op::Read),
            b"W" => Some(Op::Write),
            b"" => None,
            _ => return reject("iotype", Fault::Unexpected),
        };
        let lun = c.uint32("lun")?;
        c.comma("offset")?;
        let Some(op) = op else {
            return Ok(Parsed::Skip);
        };
        let offset = c.uint("offset")?;
        c.comma("size")?;
        let bytes = c.uint("size")?;
        c.finish("size")?;
        request(time, op, offset, bytes, lun).map(Parsed::Request)
    }
}
