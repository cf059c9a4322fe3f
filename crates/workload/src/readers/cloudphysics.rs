//! CloudPhysics CSV: `version,time,op,size,lbn` with that header. Time in s, op the SCSI
//! operation code in hex, size in bytes, address in sectors.

use super::vscsi::{ScsiOp, scsi_op, untold_note};
use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};

pub(crate) const HEADER: &[u8] = b"version,time,op,size,lbn";

#[derive(Default)]
pub(super) struct CloudPhysics {
    untold: u64,
}

impl Parser for CloudPhysics {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        if line == HEADER {
            return Ok(Parsed::Skip);
        }
        let mut c = Cursor::new(line);
        if c.uint("version")? != 1 {
            return reject("version", Fault::Unexpected);
        }
        c.comma("time")?;
        let time = c.decimal("time")?.to_ns(1_000_000_000, "time")?;
        c.comma("op")?;
        let op = hex_byte(c.until_comma("op")?)?;
        let bytes = c.uint("size")?;
        c.comma("lbn")?;
        let lbn = c.uint("lbn")?;
        c.finish("lbn")?;
        match scsi_op(op) {
            ScsiOp::Data(op) => {
                request(time, op, sectors(lbn, "lbn")?, bytes, 0).map(Parsed::Request)
            }
            ScsiOp::Untold => {
                self.untold += 1;
                Ok(Parsed::Skip)
            }
            ScsiOp::Other => Ok(Parsed::Skip),
            ScsiOp::Unknown => reject("op", Fault::Unexpected),
        }
    }

    fn notes(&self) -> Vec<String> {
        untold_note(self.untold)
    }
}

fn hex_byte(text: &[u8]) -> Result<u8, Reject> {
    let bad = Reject {
        field: "op",
        fault: Fault::Unexpected,
    };
    let text = std::str::from_utf8(text).map_err(|_| bad)?;
    if text.len() > 2 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad);
    }
    u8::from_str_radix(text, 16).map_err(|_| bad)
}
