//! FIU traces (Koller and Rangaswami, FAST 2010): `time pid process lba size op major minor md5`.
//! Time in ns, address and size in sectors, op R or W; one MD5 per 4 KiB, or one per sector all
//! in one field.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};
use crate::request::{Op, Request};

const MD5_DIGITS: usize = 32;

/// The stream is major · 2^20 + minor, as Linux numbers devices; the process is kept.
pub(super) struct Fiu;

impl Parser for Fiu {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let time = c.uint("time")?;
        c.gap("pid")?;
        let process = c.uint32("pid")?;
        c.gap("process")?;
        c.word("process")?;
        c.gap("lba")?;
        let lba = c.uint("lba")?;
        c.gap("size")?;
        let size = c.uint("size")?;
        c.gap("op")?;
        let op = match c.word("op")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return reject("op", Fault::Unexpected),
        };
        c.gap("major")?;
        let major = c.uint("major")?;
        c.gap("minor")?;
        let minor = c.uint("minor")?;
        if major >= 1 << 12 || minor >= 1 << 20 {
            return reject("device number", Fault::TooLarge);
        }
        c.gap("md5")?;
        let md5 = c.word("md5")?;
        if !md5.len().is_multiple_of(MD5_DIGITS) || !md5.iter().all(u8::is_ascii_hexdigit) {
            return reject("md5", Fault::Unexpected);
        }
        c.finish("md5")?;
        let (offset, bytes) = (sectors(lba, "lba")?, sectors(size, "size")?);
        let stream = (major << 20 | minor) as u32;
        let parsed = request(time, op, offset, bytes, stream)?;
        Ok(Parsed::Request(Request { process, ..parsed }))
    }
}
