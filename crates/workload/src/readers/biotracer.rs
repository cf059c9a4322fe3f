//! BIOtracer logs of Nexus 5 phones (Zhou et al., IISWC 2015): `lba sectors bytes flags t1 t2 t3
//! t4` between tabs. Times in s (t1: the request entered the block layer), flags bit 0: write.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};
use crate::request::Op;

pub(super) struct Biotracer;

impl Parser for Biotracer {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let lba = c.uint("lba")?;
        c.gap("sectors")?;
        let count = c.uint("sectors")?;
        c.gap("bytes")?;
        let bytes = c.uint("bytes")?;
        if sectors(count, "sectors")? != bytes {
            return reject("bytes (512 times sectors)", Fault::Unexpected);
        }
        c.gap("flags")?;
        let op = if c.uint("flags")? & 1 == 0 {
            Op::Read
        } else {
            Op::Write
        };
        let mut time = 0;
        for (i, field) in ["t1", "t2", "t3", "t4"].into_iter().enumerate() {
            c.gap(field)?;
            let stamp = c.decimal(field)?;
            if i == 0 {
                time = stamp.to_ns(1_000_000_000, field)?;
            }
        }
        c.finish("t4")?;
        request(time, op, sectors(lba, "lba")?, bytes, 0).map(Parsed::Request)
    }
}
