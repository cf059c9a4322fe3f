//! MSR Cambridge block traces (Narayanan et al., FAST 2008): CSV lines
//! `time,host,disk,type,offset,size,latency` without a header. Time and latency are in ticks of
//! 100 ns since 1601 (FILETIME), offset and size in bytes.

use super::{Parsed, Parser};
use crate::parse::{Cursor, Fault, Reject, reject, request};
use crate::request::Op;

const TICK_NS: u64 = 100;
const HOSTS_MAX: usize = 1 << 15;
const HOST_BYTES_MAX: usize = 64;

/// The stream of a request is its disk number for the first host seen; for the nth further host
/// it is n · 65536 + disk.
#[derive(Default)]
pub(super) struct Msr {
    hosts: Vec<Box<[u8]>>,
    last: usize,
}

impl Msr {
    fn host(&mut self, name: &[u8]) -> Result<u32, Reject> {
        if self.hosts.get(self.last).is_none_or(|host| **host != *name) {
            self.last = match self.hosts.iter().position(|host| **host == *name) {
                Some(at) => at,
                None if self.hosts.len() == HOSTS_MAX => return reject("host", Fault::TooLarge),
                None => {
                    self.hosts.push(name.into());
                    self.hosts.len() - 1
                }
            };
        }
        Ok((self.last as u32) << 16)
    }
}

impl Parser for Msr {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let mut c = Cursor::new(line);
        let ticks = c.uint("time")?;
        c.comma("host")?;
        let host = c.until_comma("host")?;
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return reject("host", Fault::Unexpected);
        }
        let disk = c.uint32("disk")?;
        if disk > 0xffff {
            return reject("disk", Fault::TooLarge);
        }
        c.comma("type")?;
        let op = match c.until_comma("type")? {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            _ => return reject("type", Fault::Unexpected),
        };
        let offset = c.uint("offset")?;
        c.comma("size")?;
        let bytes = c.uint("size")?;
        c.comma("latency")?;
        c.uint("latency")?;
        c.finish("latency")?;
        let time = ticks.checked_mul(TICK_NS).ok_or(Reject {
            field: "time",
            fault: Fault::TooLarge,
        })?;
        let parsed = request(time, op, offset, bytes, disk)?;
        let stream = self.host(host)? | disk;
        Ok(Parsed::Request(crate::request::Request {
            stream,
            ..parsed
        }))
    }
}
