//! Alibaba cloud block storage (Li et al., IISWC 2020): CSV `device_id,opcode,offset,length,timestamp` without a header. Opcode R or W, offset
//! and length in bytes, time in whole microseconds.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::Op;

/// The stream is the device.
pub(super) struct Alibaba;

impl Parser for Alibaba {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let device = c.uint32("device_id")?;
        c.comma("opcode")?;
        let op = match c.until_comma("opcode")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return reject("opcode", Fault::Unexpected),
        };
        let offset = c.uint("offset")?;
        c.comma("length")?;
        let bytes = c.uint("length")?;
        c.comma("timestamp")?;
        let time = c.uint("timestamp")?.checked_mul(1_000).ok_or(Reject {
            field: "timestamp",
            fault: Fault::TooLarge,
        })?;
        c.finish("timestamp")?;
        request(time, op, offset, bytes, device).map(Parsed::Request)
    }
}
