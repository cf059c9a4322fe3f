//! `oracleGeneral` of libCacheSim: little-endian records of 24 bytes without a header: u32 time in s, u64 object, u32 size in bytes, i64 number of
//! the request that uses the object next, -1 (or the largest number) if none does.
//!
//! Objects have no place. Here each is a page of 4 KiB whose number is the object's, and what it is large is left out; of numbers beyond the address
//! space a hash is taken.

use super::{Framing, Parsed, Parser};
use crate::parse::{Fault, Reject, reject, request};
use crate::request::{Op, PAGE_BYTES, REQUEST_BYTES_MAX};

/// Bytes of one record.
pub(crate) const RECORD_BYTES: usize = 24;

/// Pages that numbers stand for as they are.
pub(crate) const PAGES_MAX: u64 = 1 << 44;

/// No trace has as many requests.
const REQUESTS_MAX: i64 = 1 << 44;

#[derive(Default)]
pub(super) struct Oracle {
    before: u32,
    count: i64,
    hashed: u64,
}

impl Parser for Oracle {
    fn parse(&mut self, record: &[u8]) -> Result<Parsed, Reject> {
        let Ok(record) = <&[u8; RECORD_BYTES]>::try_from(record) else {
            return reject("record", Fault::Missing);
        };
        let (head, rest) = record.split_at(4);
        let (object, rest) = rest.split_at(8);
        let (size, next) = rest.split_at(4);
        let time = u32::from_le_bytes(head.try_into().expect("four bytes"));
        let object = u64::from_le_bytes(object.try_into().expect("eight bytes"));
        let size = u32::from_le_bytes(size.try_into().expect("four bytes"));
        let next = i64::from_le_bytes(next.try_into().expect("eight bytes"));
        let at = self.count;
        self.count += 1;
        if time < self.before {
            return reject("time", Fault::Unexpected);
        }
        if !(1..=REQUEST_BYTES_MAX).contains(&u64::from(size)) {
            return reject("size", Fault::Unexpected);
        }
        if next != -1 && next != i64::MAX && !(at..REQUESTS_MAX).contains(&next) {
            return reject("next", Fault::Unexpected);
        }
        self.before = time;
        let page = match object < PAGES_MAX {
            true => object,
            false => {
                self.hashed += 1;
                // The upper half of all pages, so that few of the others are met.
                (PAGES_MAX / 2) | (object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 21)
            }
        };
        let time_ns = u64::from(time) * 1_000_000_000;
        let (offset, bytes) = (page * PAGE_BYTES, PAGE_BYTES);
        request(time_ns, Op::Read, offset, bytes, 0).map(Parsed::Request)
    }

    fn framing(&self) -> Framing {
        Framing::Records(RECORD_BYTES)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec!["objects taken as pages of 4 KiB, whatever their sizes".into()];
        if self.hashed > 0 {
            notes.push(format!(
                "{} requests for objects with numbers of 2^44 and more, of which hashes are taken",
                self.hashed
            ));
        }
        notes
    }
}
