//! The transmission phase: requests out of bytes, replies into bytes. Nothing here does I/O.
//!
//! 1. [`Session::parse`] takes one request's header and says what it is: a job for the export, or an
//!    error and how many bytes of payload are to be dropped first.
//! 2. The caller does it, in any order.
//! 3. The `reply` functions write what precedes the data of a reply; the caller sends the data after it.
//!
//! Every request gets exactly one reply, in chunks if that was agreed on, whose last one says so. All
//! that a client may have wrong is checked here, before the export sees anything of it.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::export::{Can, ExportInfo, Extent};
use crate::limits::{EXTENTS_MAX, PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::negotiate::Agreed;
use crate::proto::{
    BASE_ALLOCATION_ID, CHUNK_MAGIC, ChunkHeader, EXTENDED_CHUNK_MAGIC, EXTENDED_REQUEST_MAGIC,
    Errno, ExtendedChunkHeader, ExtendedRequestHeader, REQUEST_MAGIC, RequestHeader,
    SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO, SimpleReply, chunk, command, command_flag,
};

/// What kinds of requests there are, for those who count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Trims.
    Trim,
    /// Zeros.
    Zero,
    /// Hints.
    Cache,
    /// Where there is data.
    Status,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Read,
        Kind::Write,
        Kind::Flush,
        Kind::Trim,
        Kind::Zero,
        Kind::Cache,
        Kind::Status,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
            Kind::Trim => "trim",
            Kind::Zero => "write_zeroes",
            Kind::Cache => "cache",
            Kind::Status => "block_status",
        }
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What it is.
    pub kind: Kind,
    /// Its flags, all of which are known and fit.
    pub flags: u16,
    /// Comes back in the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Request {
    /// Whether it has a flag.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// What the input begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// Not yet a whole header.
    More,
    /// A request that may be done; a write's payload follows.
    Request(Request),
    /// A request that is answered with an error, after so many bytes of payload were dropped.
    Refused(Request, Errno, u64),
    /// The client wants to go when all is done.
    Disconnect,
    /// The connection is closed.
    Broken(Broken),
}

/// What a connection cannot go on after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Not what a request begins with.
    #[error("wrong magic of a request")]
    Magic,
    /// A payload that nobody would send.
    #[error("a payload is too long")]
    Payload,
}

/// A connection's rules after its handshake.
#[derive(Debug, Clone)]
pub struct Session {
    agreed: Agreed,
    can: Can,
    size_bytes: u64,
    block_bytes: u64,
}

impl Session {
    /// A session with an export.
    pub fn new(export: &ExportInfo, agreed: Agreed) -> Session {
        Session {
            agreed,
            can: export.can,
            size_bytes: export.size_bytes,
            block_bytes: u64::from(export.block_bytes_min),
        }
    }

    /// What was agreed on.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// What `input` begins with, and how many bytes of it that is.
    #[inline]
    pub fn parse(&self, input: &[u8]) -> (usize, Parsed) {
        let (taken, magic, flags, number, cookie, offset, len) = if self.agreed.extended {
            let Ok((h, _)) = ExtendedRequestHeader::read_from_prefix(input) else {
                return (0, Parsed::More);
            };
            let magic = h.magic.get() == EXTENDED_REQUEST_MAGIC;
            let len = h.len.get();
            (32, magic, h.flags, h.command, h.cookie, h.offset, len)
        } else {
            let Ok((h, _)) = RequestHeader::read_from_prefix(input) else {
                return (0, Parsed::More);
            };
            let magic = h.magic.get() == REQUEST_MAGIC;
            let len = u64::from(h.len.get());
            (28, magic, h.flags, h.command, h.cookie, h.offset, len)
        };
        if !magic {
            return (0, Parsed::Broken(Broken::Magic));
        }
        let (cookie, offset) = (cookie.get(), offset.get());
        let parsed = self.judge(number.get(), flags.get(), cookie, offset, len);
        (taken, parsed)
    }

    fn judge(&self, number: u16, flags: u16, cookie: u64, offset: u64, len: u64) -> Parsed {
        // The kind of an unknown command matters to those who count, and to nobody else.
        let (kind, fit) = match number {
            command::READ => (Kind::Read, command_flag::DF),
            command::WRITE => (Kind::Write, 0),
            command::DISC => return Parsed::Disconnect,
            command::FLUSH => (Kind::Flush, 0),
            command::TRIM => (Kind::Trim, 0),
            command::CACHE => (Kind::Cache, 0),
            command::WRITE_ZEROES => (Kind::Zero, command_flag::NO_HOLE | command_flag::FAST_ZERO),
            command::BLOCK_STATUS => (Kind::Status, command_flag::REQ_ONE),
            _ => (Kind::Cache, 0),
        };
        let known = number <= command::BLOCK_STATUS;
        // With extended headers a payload may come with any command.
        let with_payload = self.agreed.extended && flags & command_flag::PAYLOAD_LEN != 0;
        let payload = match kind == Kind::Write || with_payload {
            true => len,
            false => 0,
        };
        let request = Request {
            kind,
            flags: flags & !command_flag::PAYLOAD_LEN,
            cookie,
            offset,
            len,
        };
        if payload > PAYLOAD_BYTES_MAX {
            return Parsed::Broken(Broken::Payload);
        }
        let stray_payload = with_payload && kind != Kind::Write;
        let missing_payload = self.agreed.extended && kind == Kind::Write && !with_payload;
        let wrong = if !known || stray_payload || missing_payload {
            Err(Errno::Invalid)
        } else {
            self.check(&request, fit)
        };
        match wrong {
            Ok(()) => Parsed::Request(request),
            Err(errno) => Parsed::Refused(request, errno, payload),
        }
    }

    /// Whether the export takes a request.
    fn check(&self, request: &Request, fit: u16) -> Result<(), Errno> {
        let can = self.can;
        let Request {
            kind, offset, len, ..
        } = *request;
        // FUA may come with any command where it is known, and says nothing to most.
        let fua = if can.flush { command_flag::FUA } else { 0 };
        if request.flags & !(fit | fua) != 0 {
            return Err(Errno::Invalid);
        }
        if (request.has(command_flag::DF) && !self.agreed.structured)
            || (request.has(command_flag::FAST_ZERO) && !can.fast_zero)
        {
            return Err(Errno::Invalid);
        }
        let (is_known, is_change) = match kind {
            Kind::Read => (true, false),
            Kind::Write => (true, true),
            Kind::Flush => (can.flush, false),
            Kind::Trim => (can.trim || !can.write, true),
            Kind::Zero => (can.zero || !can.write, true),
            Kind::Cache => (can.cache, false),
            Kind::Status => (self.agreed.allocation, false),
        };
        if !is_known {
            return Err(Errno::Invalid);
        }
        if is_change && !can.write {
            return Err(Errno::Perm);
        }
        if kind == Kind::Flush {
            return match (offset, len) {
                (0, 0) => Ok(()),
                _ => Err(Errno::Invalid),
            };
        }
        let ends_within = offset
            .checked_add(len)
            .is_some_and(|end| end <= self.size_bytes);
        if !ends_within {
            let is_write = matches!(kind, Kind::Write | Kind::Zero);
            return Err(if is_write {
                Errno::NoSpace
            } else {
                Errno::Invalid
            });
        }
        let sent = matches!(kind, Kind::Read | Kind::Write);
        if (sent && len > u64::from(REQUEST_BYTES_MAX)) || (kind == Kind::Status && len == 0) {
            return Err(Errno::Invalid);
        }
        // A power of two.
        match (offset | len) & (self.block_bytes - 1) {
            0 => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }

    /// Most extents that the answer to a status request may have.
    pub fn extents_max(request: &Request) -> usize {
        match request.has(command_flag::REQ_ONE) {
            true => 1,
            false => EXTENTS_MAX,
        }
    }

    fn chunk(&self, out: &mut Vec<u8>, request: &Request, flags: u16, kind: u16, len: u64) {
        let (flags, kind, cookie) = (U16::new(flags), U16::new(kind), U64::new(request.cookie));
        if self.agreed.extended {
            let header = ExtendedChunkHeader {
                magic: U32::new(EXTENDED_CHUNK_MAGIC),
                flags,
                kind,
                cookie,
                offset: U64::new(request.offset),
                len: U64::new(len),
            };
            out.extend_from_slice(header.as_bytes());
        } else {
            let header = ChunkHeader {
                magic: U32::new(CHUNK_MAGIC),
                flags,
                kind,
                cookie,
                len: U32::new(len as u32),
            };
            out.extend_from_slice(header.as_bytes());
        }
    }

    fn simple(out: &mut Vec<u8>, cookie: u64, error: u32) {
        let header = SimpleReply {
            magic: U32::new(SIMPLE_REPLY_MAGIC),
            error: U32::new(error),
            cookie: U64::new(cookie),
        };
        out.extend_from_slice(header.as_bytes());
    }

    /// The reply to a request that was done and has nothing to say.
    pub fn reply_done(&self, out: &mut Vec<u8>, request: &Request) {
        if self.agreed.extended {
            self.chunk(out, request, chunk::FLAG_DONE, chunk::NONE, 0);
        } else {
            Session::simple(out, request.cookie, 0);
        }
    }

    /// The reply to a request that failed.
    pub fn reply_error(&self, out: &mut Vec<u8>, request: &Request, errno: Errno) {
        let in_chunks = matches!(request.kind, Kind::Read | Kind::Status);
        if !self.agreed.structured || !(in_chunks || self.agreed.extended) {
            return Session::simple(out, request.cookie, errno.number());
        }
        let text = errno.to_string();
        // Where it failed, if it is the storage that did.
        let at = (request.kind == Kind::Read && errno == Errno::Io).then_some(request.offset);
        let kind = match at {
            Some(_) => chunk::ERROR_OFFSET,
            None => chunk::ERROR,
        };
        let len = 6 + text.len() + at.map_or(0, |_| 8);
        self.chunk(out, request, chunk::FLAG_DONE, kind, len as u64);
        out.extend_from_slice(&errno.number().to_be_bytes());
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
        if let Some(offset) = at {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }

    /// What precedes `len` bytes of a read, from `offset` on: all of it if replies have no chunks.
    #[inline]
    pub fn reply_data(
        &self,
        out: &mut Vec<u8>,
        request: &Request,
        offset: u64,
        len: u64,
        last: bool,
    ) {
        if !self.agreed.structured {
            return Session::simple(out, request.cookie, 0);
        }
        let flags = if last { chunk::FLAG_DONE } else { 0 };
        if len == 0 {
            return self.chunk(out, request, flags, chunk::NONE, 0);
        }
        self.chunk(out, request, flags, chunk::OFFSET_DATA, 8 + len);
        out.extend_from_slice(&offset.to_be_bytes());
    }

    /// A part of a read that is zeros, in a reply in chunks.
    pub fn reply_hole(
        &self,
        out: &mut Vec<u8>,
        request: &Request,
        offset: u64,
        len: u32,
        last: bool,
    ) {
        let flags = if last { chunk::FLAG_DONE } else { 0 };
        self.chunk(out, request, flags, chunk::OFFSET_HOLE, 12);
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
    }

    /// Whether a read may be answered in several chunks.
    #[inline]
    pub fn may_divide(&self, request: &Request) -> bool {
        self.agreed.structured && !request.has(command_flag::DF)
    }

    /// The answer to a status request: at least one extent, none beyond what was asked for.
    pub fn reply_extents(&self, out: &mut Vec<u8>, request: &Request, extents: &[Extent]) {
        let fields = |e: &Extent| {
            let hole = if e.hole { STATE_HOLE } else { 0 };
            hole | if e.zero { STATE_ZERO } else { 0 }
        };
        if self.agreed.extended {
            let len = 8 + 16 * extents.len() as u64;
            self.chunk(out, request, chunk::FLAG_DONE, chunk::BLOCK_STATUS_EXT, len);
            out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
            out.extend_from_slice(&(extents.len() as u32).to_be_bytes());
            for extent in extents {
                out.extend_from_slice(&extent.len.to_be_bytes());
                out.extend_from_slice(&u64::from(fields(extent)).to_be_bytes());
            }
        } else {
            let len = 4 + 8 * extents.len() as u64;
            self.chunk(out, request, chunk::FLAG_DONE, chunk::BLOCK_STATUS, len);
            out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
            for extent in extents {
                // Within the request, whose length has 32 bits.
                out.extend_from_slice(&(extent.len as u32).to_be_bytes());
                out.extend_from_slice(&fields(extent).to_be_bytes());
            }
        }
    }
}
