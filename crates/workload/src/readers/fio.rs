//! fio I/O logs, version 2: the line `fio version 2 iolog`, then `file action [offset length]` in
//! bytes. Version 2 holds no times; `wait` and `sync` lines are passed over, a `trim` is a discard.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::{Op, Request};

pub(crate) const HEADER: &[u8] = b"fio version 2 iolog";
const FILES_MAX: usize = 1 << 16;

/// The stream is the number of the file in order of appearance.
#[derive(Default)]
pub(super) struct Fio {
    header_seen: bool,
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
}

impl Parser for Fio {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        if !self.header_seen {
            self.header_seen = line == HEADER;
            return match self.header_seen {
                true => Ok(Parsed::Skip),
                false => reject("header \"fio version 2 iolog\"", Fault::Missing),
            };
        }
        let mut c = Cursor::new(line);
        let file = c.word("file")?;
        if file.len() > 4096 {
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
            b"sync" | b"datasync" | b"sync_file_range" | b"wait" => return Ok(Parsed::Skip),
            _ => return reject("action", Fault::Unexpected),
        };
        c.gap("offset")?;
        let offset = c.uint("offset")?;
        c.gap("length")?;
        let bytes = c.uint("length")?;
        c.finish("length")?;
        let parsed = request(Request::NO_TIME, op, offset, bytes, 0)?;
        let stream = self.file(file)?;
        Ok(Parsed::Request(Request { stream, ..parsed }))
    }
}
