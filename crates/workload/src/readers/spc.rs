//! SPC-like traces (UMass repository: Financial, WebSearch): CSV `ASU,LBA,size,opcode,timestamp`
//! and possibly further fields. Address in sectors, size in bytes, opcode r or w, time in s.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};
use crate::request::Op;

/// The stream is the application storage unit (ASU).
pub(super) struct Spc;

impl Parser for Spc {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let asu = c.uint32("asu")?;
        c.comma("lba")?;
        c.blanks();
        let lba = c.uint("lba")?;
        c.comma("size")?;
        c.blanks();
        let bytes = c.uint("size")?;
        c.comma("opcode")?;
        c.blanks();
        let op = match c.until_comma("opcode")? {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return reject("opcode", Fault::Unexpected),
        };
        c.blanks();
        let time = c.decimal("timestamp")?.to_ns(1_000_000_000, "timestamp")?;
        // The SPC format leaves further fields to the writer.
        if !matches!(c.rest(), [b',', ..]) {
            c.finish("timestamp")?;
        }
        request(time, op, sectors(lba, "lba")?, bytes, asu).map(Parsed::Request)
    }
}
