//! One request of a workload, as small as it can be.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of the page in which footprints, touches and hit ratios are counted.
pub const PAGE_BYTES: u64 = 4096;

/// Bytes of the sector in which most trace formats give addresses.
pub const SECTOR_BYTES: u64 = 512;

/// Bytes of the largest request that a reader accepts (1 GiB). The largest request of the
/// public traces is 20 MiB; anything past this bound is a misread column.
pub const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// Bytes of the largest discard that a reader accepts: the discards of a whole device come in
/// pieces of up to 4 GiB.
pub const DISCARD_BYTES_MAX: u64 = u32::MAX as u64;

/// First byte address that no request may reach (64 PiB, more than any one volume holds).
pub const ADDRESS_BYTES_MAX: u64 = 1 << 56;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Bytes come from the device.
    Read,
    /// Bytes go to the device.
    Write,
    /// What was written to the range becomes durable: `fsync` of the file that the range is.
    Flush,
    /// The range is forgotten: its file is deleted or cut. Until it is written again it holds anything.
    Discard,
}

impl Op {
    /// True if bytes move: for reads and writes.
    #[inline]
    pub fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
        })
    }
}

/// One request, 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Time in ns on the trace's own clock, or [`Request::NO_TIME`]. Neither the origin nor the
    /// order is normalised: see [`crate::timing`] for that.
    pub time_ns: u64,
    /// First byte of the request.
    pub offset: u64,
    /// Number of bytes; never 0.
    pub bytes: u32,
    /// Device, volume or file number as the trace names it (0 where it names none). See
    /// [`crate::layout`] for how several of them become one address space.
    pub stream: u32,
    /// Process that made the request, or [`Request::NO_PROCESS`].
    pub process: u32,
    /// What it does.
    pub op: Op,
}

const _: () = assert!(std::mem::size_of::<Request>() == 32);

impl Request {
    /// `time_ns` of a request that has no time.
    pub const NO_TIME: u64 = u64::MAX;

    /// `process` of a request of which the trace does not say who made it.
    pub const NO_PROCESS: u32 = u32::MAX;

    /// A request without a time or a process, on stream 0.
    pub fn new(op: Op, offset: u64, bytes: u32) -> Request {
        Request {
            time_ns: Self::NO_TIME,
            offset,
            bytes,
            stream: 0,
            process: Self::NO_PROCESS,
            op,
        }
    }

    /// The time in ns, where the trace has one.
    pub fn time(&self) -> Option<u64> {
        (self.time_ns != Self::NO_TIME).then_some(self.time_ns)
    }

    /// Whether the trace says who made it.
    pub fn has_process(&self) -> bool {
        self.process != Self::NO_PROCESS
    }

    /// First byte after the request.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }

    /// Numbers of the 4 KiB pages that the request touches.
    pub fn pages(&self) -> std::ops::Range<u64> {
        self.offset / PAGE_BYTES..(self.end() - 1) / PAGE_BYTES + 1
    }

    /// Whether both the offset and the size are whole 4 KiB pages.
    pub fn is_page_aligned(&self) -> bool {
        self.offset.is_multiple_of(PAGE_BYTES) && u64::from(self.bytes).is_multiple_of(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_partial_pages_whole() {
        assert_eq!(Request::new(Op::Read, 0, 4096).pages(), 0..1);
        assert_eq!(Request::new(Op::Read, 4095, 2).pages(), 0..2);
        assert_eq!(Request::new(Op::Read, 512, 4096).pages(), 0..2);
        assert_eq!(Request::new(Op::Read, 8192, 1).pages(), 2..3);
        assert!(!Request::new(Op::Write, 0, 512).is_page_aligned());
        assert!(Request::new(Op::Write, 4096, 8192).is_page_aligned());
    }
}
