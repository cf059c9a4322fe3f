//! vscsi traces of VMware's `vscsiStats`, in little-endian records.
//!
//! * Version 1, 32 bytes: u32 serial number, u32 length in bytes, u32 number of scatter-gather elements, u16 SCSI
//!   operation code, u16 version (0x0100), u64 address in sectors, u64 time in µs.
//! * Version 2, 40 bytes: u16 operation code, u16 version (0x0200), u32 serial number, u32 length, u32 number of elements, u64 address, u64 time, u64
//!   how long it took.

use super::{Framing, Parsed, Parser};
use crate::parse::{Fault, Reject, reject, request, sectors};
use crate::request::Op;

/// Where what lies in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    bytes: usize,
    version: u16,
    version_at: usize,
    op_at: usize,
    length_at: usize,
}

const ONE: Layout = Layout {
    bytes: 32,
    version: 0x0100,
    version_at: 14,
    op_at: 12,
    length_at: 4,
};

const TWO: Layout = Layout {
    bytes: 40,
    version: 0x0200,
    version_at: 2,
    op_at: 0,
    length_at: 8,
};

/// Of the address and the time, in either version.
const ADDRESS_AT: usize = 16;
const TIME_AT: usize = 24;

/// What a SCSI operation code means here.
pub(super) enum ScsiOp {
    /// READ or WRITE of some length.
    Data(Op),
    /// UNMAP or WRITE SAME: it discards or fills a range that the record does not tell.
    Untold,
    /// A common command that carries no data of the medium.
    Other,
    /// None that a disk trace holds.
    Unknown,
}

pub(super) fn scsi_op(code: u8) -> ScsiOp {
    match code {
        // READ(6), READ(10), READ(12), READ(16) and the same of WRITE.
        0x08 | 0x28 | 0xa8 | 0x88 => ScsiOp::Data(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => ScsiOp::Data(Op::Write),
        // UNMAP has its ranges in its parameter list, and the record has the length of that; the
        // length in the record of a WRITE SAME(10) or (16) is that of the one block which it
        // repeats, and the bit by which it unmaps is in neither.
        0x42 | 0x41 | 0x93 => ScsiOp::Untold,
        // TEST UNIT READY, REQUEST SENSE, INQUIRY, MODE SENSE, START STOP, READ CAPACITY,
        // SYNCHRONIZE CACHE, VERIFY, RESERVE, RELEASE, REPORT LUNS, SERVICE ACTION IN.
        0x00 | 0x03 | 0x12 | 0x1a | 0x1b | 0x25 | 0x35 | 0x91 | 0x2f | 0x16 | 0x17 | 0xa0
        | 0x9e => ScsiOp::Other,
        _ => ScsiOp::Unknown,
    }
}

/// Says how many commands were left out because their ranges are not in the trace.
pub(super) fn untold_note(untold: u64) -> Vec<String> {
    match untold {
        0 => Vec::new(),
        n => vec![format!(
            "{n} UNMAP and WRITE SAME commands left out: the trace does not tell which ranges they are for"
        )],
    }
}

pub(super) struct Vscsi {
    layout: Layout,
    untold: u64,
}

impl Default for Vscsi {
    fn default() -> Vscsi {
        Vscsi {
            layout: ONE,
            untold: 0,
        }
    }
}

impl Parser for Vscsi {
    fn prepare(&mut self, sample: &[u8]) {
        // The first two records say it, as far as there are as many.
        let records = || sample.chunks_exact(TWO.bytes).take(2);
        let version = |record: &[u8]| u16::from_le_bytes([record[2], record[3]]);
        let is_two = records().count() > 0 && records().all(|r| version(r) == TWO.version);
        self.layout = if is_two { TWO } else { ONE };
    }

    fn parse(&mut self, record: &[u8]) -> Result<Parsed, Reject> {
        let layout = self.layout;
        if record.len() != layout.bytes {
            return reject("record", Fault::Missing);
        }
        let u16_at = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u16_at(layout.version_at) != layout.version {
            return reject("version", Fault::Unexpected);
        }
        let Ok(code) = u8::try_from(u16_at(layout.op_at)) else {
            return reject("op", Fault::Unexpected);
        };
        let op = match scsi_op(code) {
            ScsiOp::Data(op) => op,
            ScsiOp::Untold => {
                self.untold += 1;
                return Ok(Parsed::Skip);
            }
            ScsiOp::Other => return Ok(Parsed::Skip),
            ScsiOp::Unknown => return reject("op", Fault::Unexpected),
        };
        let time = u64_at(TIME_AT).checked_mul(1000).ok_or(Reject {
            field: "time",
            fault: Fault::TooLarge,
        })?;
        let offset = sectors(u64_at(ADDRESS_AT), "lbn")?;
        request(time, op, offset, u64::from(u32_at(layout.length_at)), 0).map(Parsed::Request)
    }

    fn framing(&self) -> Framing {
        Framing::Records(self.layout.bytes)
    }

    fn notes(&self) -> Vec<String> {
        untold_note(self.untold)
    }
}
