//! `.lis` traces of the ARC paper (Megiddo and Modha, FAST 2003): `first_block count ignored
//! request`. Block numbers without a time, reads only. The third column means nothing and may hold
//! any number. The authors' blocks are of 512 bytes; those who use the traces often take them as
//! pages of 4 KiB, so that the size can be chosen.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, request};
use crate::request::{Op, Request, SECTOR_BYTES};

pub(super) struct Lis {
    block_bytes: u64,
    is_chosen: bool,
}

impl Lis {
    /// `block_bytes`: as the user says, or `None`.
    pub fn new(block_bytes: Option<u32>) -> Lis {
        Lis {
            block_bytes: block_bytes.map_or(SECTOR_BYTES, u64::from),
            is_chosen: block_bytes.is_some(),
        }
    }
}

/// The columns of a line: first block, count, anything, request.
fn columns(line: &[u8]) -> Result<[u64; 4], Reject> {
    let mut c = Cursor::new(line);
    c.blanks();
    let first = c.uint("first block")?;
    c.gap("count")?;
    let count = c.uint("count")?;
    c.gap("third column")?;
    let ignored = c.uint("third column")?;
    c.gap("request")?;
    let number = c.uint("request")?;
    c.finish("request")?;
    Ok([first, count, ignored, number])
}

/// Whether the numbers of requests, in the fourth column, never fall but where traces were joined:
/// four bare numbers are a weak mark of a format.
pub(crate) fn counts_requests<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut steps, mut falls, mut before) = (0u64, 0u64, 0);
    for [.., number] in lines.filter_map(|line| columns(line).ok()) {
        steps += 1;
        falls += u64::from(number < before);
        before = number;
    }
    falls * 100 <= steps
}

impl Parser for Lis {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let [first, count, ..] = columns(line)?;
        let bytes = |blocks: u64, field| {
            blocks.checked_mul(self.block_bytes).ok_or(Reject {
                field,
                fault: Fault::TooLarge,
            })
        };
        let offset = bytes(first, "first block")?;
        let bytes = bytes(count, "count")?;
        request(Request::NO_TIME, Op::Read, offset, bytes, 0).map(Parsed::Request)
    }

    fn notes(&self) -> Vec<String> {
        let how = match self.is_chosen {
            true => "as asked",
            false => "as in the ARC paper; --block-size 4k for pages",
        };
        vec![format!(
            "blocks taken as {} bytes ({how}); reads only, no times",
            self.block_bytes
        )]
    }
}
