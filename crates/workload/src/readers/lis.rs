//! `.lis` traces of the ARC paper (Megiddo and Modha, FAST 2003): `first_page count 0 sequence`.
//! Page numbers without a time, reads only; a page is taken as 4 KiB.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::{Op, PAGE_BYTES, Request};

pub(super) struct Lis;

impl Parser for Lis {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let too_large = |field| Reject {
            field,
            fault: Fault::TooLarge,
        };
        let mut c = Cursor::new(line);
        c.blanks();
        let first = c.uint("first page")?;
        c.gap("count")?;
        let count = c.uint("count")?;
        c.gap("zero")?;
        if c.uint("zero")? != 0 {
            return reject("third column", Fault::Unexpected);
        }
        c.gap("sequence")?;
        c.uint("sequence")?;
        c.finish("sequence")?;
        let offset = first
            .checked_mul(PAGE_BYTES)
            .ok_or(too_large("first page"))?;
        let bytes = count.checked_mul(PAGE_BYTES).ok_or(too_large("count"))?;
        request(Request::NO_TIME, Op::Read, offset, bytes, 0).map(Parsed::Request)
    }

    fn notes(&self) -> Vec<String> {
        vec!["pages taken as 4 KiB; reads only, no times".to_owned()]
    }
}
