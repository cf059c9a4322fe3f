//! fio I/O logs: the line `fio version 2 iolog`, then `file action [offset length]` in bytes; or
//! `fio version 3 iolog`, where each line begins with a time: whole microseconds since the beginning
//! of the run, as fio writes and replays them.
//!
//! Version 2 has no times: what a `wait` lasts is one thing in fio's manual and another in fio, so it is
//! passed over. In version 3 it is no action. Lines of `sync` name no range and are passed over; a `trim` is a discard.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::{Op, Request};

/// The first line of version 2, and that of version 3.
pub(crate) const HEADERS: [&[u8]; 2] = [b"fio version 2 iolog", b"fio version 3 iolog"];
const FILES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 4096;
const TIME_UNIT_NS: u64 = 1_000;

/// What the first line says of the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// The stream is the number of the file in order of appearance.
#[derive(Default)]
pub(super) struct Fio {
    version: Option<Version>,
    files: Vec<Box<[u8]>>,
    last: usize,
}

impl Fio {
    fn file(&mut self, name: &[u8]) -> Result<u32, Reject> {
        if self.files.get(self.last).is_none_or(|file| **file != *name) {
            self.last = match self.files.iter().position(|file| **file == *name) {
                Some(at) => at,
                None if self.files.len() == FILES_MAX => return reject("file", Fault::TooLarge),
                None => {
                    self.files.push(name.into());
                    self.files.len() - 1
                }
            };
        }
        Ok(self.last as u32)
    }

    fn header(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        self.version = match HEADERS.iter().position(|header| *header == line) {
            Some(0) => Some(Version::Two),
            Some(_) => Some(Version::Three),
            None => return reject("header \"fio version 2 iolog\" or 3", Fault::Missing),
        };
        Ok(Parsed::Skip)
    }
}

/// The time before an action.
fn time(c: &mut Cursor<'_>, version: Version) -> Result<u64, Reject> {
    if version == Version::Two {
        return Ok(Request::NO_TIME);
    }
    let units = c.uint("timestamp")?;
    c.gap("file")?;
    units.checked_mul(TIME_UNIT_NS).ok_or(Reject {
        field: "timestamp",
        fault: Fault::TooLarge,
    })
}

impl Parser for Fio {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let Some(version) = self.version else {
            return self.header(line);
        };
        let mut c = Cursor::new(line);
        let time_ns = time(&mut c, version)?;
        let file = c.word("file")?;
        if file.len() > NAME_BYTES_MAX {
            return reject("file", Fault::TooLarge);
        }
        c.gap("action")?;
        let op = match c.word("action")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"add" | b"open" | b"close" => {
                c.finish("action")?;
                self.file(file)?;
                return Ok(Parsed::Skip);
            }
            b"sync" | b"datasync" | b"sync_file_range" => return Ok(Parsed::Skip),
            b"wait" if version == Version::Two => return Ok(Parsed::Skip),
            _ => return reject("action", Fault::Unexpected),
        };
        c.gap("offset")?;
        let offset = c.uint("offset")?;
        c.gap("length")?;
        let bytes = c.uint("length")?;
        c.finish("length")?;
        let parsed = request(time_ns, op, offset, bytes, 0)?;
        let stream = self.file(file)?;
        Ok(Parsed::Request(Request { stream, ..parsed }))
    }
}
