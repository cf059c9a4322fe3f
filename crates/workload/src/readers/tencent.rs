//! Tencent cloud block storage (Zhang et al., ATC 2020): CSV `time,offset,size,op,volume` without
//! a header. Time in whole Unix seconds, offset and size in sectors, op 0 = read, 1 = write.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};
use crate::request::Op;

/// Unix seconds from 2001 to 2286. Five bare numbers are a weak mark of a format, so the time
/// must look like one.
const UNIX_SECONDS: std::ops::Range<u64> = 1_000_000_000..10_000_000_000;

/// The stream is the volume.
pub(super) struct Tencent;

impl Parser for Tencent {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let seconds = c.uint("time")?;
        if !UNIX_SECONDS.contains(&seconds) {
            return reject("time", Fault::Unexpected);
        }
        c.comma("offset")?;
        let offset = sectors(c.uint("offset")?, "offset")?;
        c.comma("size")?;
        let bytes = sectors(c.uint("size")?, "size")?;
        c.comma("op")?;
        let op = match c.uint("op")? {
            0 => Op::Read,
            1 => Op::Write,
            _ => return reject("op", Fault::Unexpected),
        };
        c.comma("volume")?;
        let volume = c.uint32("volume")?;
        c.finish("volume")?;
        request(seconds * 1_000_000_000, op, offset, bytes, volume).map(Parsed::Request)
    }
}
