//! The protocol's numbers and the layout of its messages, as the NBD specification has them
//! (`doc/proto.md` of NetworkBlockDevice/nbd). All integers are in network order.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of a server.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What follows them, and precedes every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Precedes every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Precedes every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Precedes every request with 64-bit lengths.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Precedes a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Precedes a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// Precedes a chunk with 64-bit lengths.
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flags of server and client: options get replies.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flags of server and client: no padding after `EXPORT_NAME`.
pub const NO_ZEROES: u16 = 1 << 1;

/// Options of the handshake.
pub mod option {
    /// Ends the handshake with an export, without a reply if there is none.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Names all exports.
    pub const LIST: u32 = 3;
    /// Begins encryption.
    pub const STARTTLS: u32 = 5;
    /// Tells about an export.
    pub const INFO: u32 = 6;
    /// Tells about an export and ends the handshake with it.
    pub const GO: u32 = 7;
    /// Replies come in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Names metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Requests and chunks have 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// A fact of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Refused by the server's rules.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option's data is wrong.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Encryption comes first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers were agreed on, which include what is asked for.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Facts of an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Least, best and greatest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export.
pub mod export_flag {
    /// There are flags.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `FUA` is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Seeks are slow.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `DF` is known.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush is for the writes of all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is known.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `FAST_ZERO` is known.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Requests.
pub mod command {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes.
    pub const WRITE: u16 = 1;
    /// Ends the connection when all is done.
    pub const DISC: u16 = 2;
    /// Makes durable.
    pub const FLUSH: u16 = 3;
    /// Forgets.
    pub const TRIM: u16 = 4;
    /// Brings near.
    pub const CACHE: u16 = 5;
    /// Writes zeros without sending them.
    pub const WRITE_ZEROES: u16 = 6;
    /// Says what is where.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod command_flag {
    /// The reply comes when the change is durable.
    pub const FUA: u16 = 1 << 0;
    /// Zeros are to have room of their own.
    pub const NO_HOLE: u16 = 1 << 1;
    /// A read's data comes in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeros only if that is faster than writing them.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload (with extended headers).
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Chunks of structured replies.
pub mod chunk {
    /// The last chunk of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Bytes at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents with 64-bit lengths.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// An error.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The one metadata context: where there is data.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// It has no room of its own.
pub const STATE_HOLE: u32 = 1;
/// It reads as zeros.
pub const STATE_ZERO: u32 = 2;

/// Longest name or query in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Padding after the reply to `EXPORT_NAME` in bytes.
pub const EXPORT_NAME_PADDING: usize = 124;

/// What a server says first.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Greeting {
    /// [`GREETING_MAGIC`].
    pub magic: U64,
    /// [`OPTION_MAGIC`].
    pub option_magic: U64,
    /// Handshake flags.
    pub flags: U16,
}

/// Before an option's data.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    /// [`OPTION_MAGIC`].
    pub magic: U64,
    /// Which.
    pub option: U32,
    /// Bytes of data.
    pub len: U32,
}

/// Before the data of a reply to an option.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OptionReply {
    /// [`OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// To which option.
    pub option: U32,
    /// What it says.
    pub kind: U32,
    /// Bytes of data.
    pub len: U32,
}

/// A request, before its payload.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`].
    pub magic: U32,
    /// [`command_flag`].
    pub flags: U16,
    /// [`command`].
    pub command: U16,
    /// Comes back in the reply.
    pub cookie: U64,
    /// First byte.
    pub offset: U64,
    /// Bytes.
    pub len: U32,
}

/// A request with a 64-bit length.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedRequestHeader {
    /// [`EXTENDED_REQUEST_MAGIC`].
    pub magic: U32,
    /// [`command_flag`].
    pub flags: U16,
    /// [`command`].
    pub command: U16,
    /// Comes back in the reply.
    pub cookie: U64,
    /// First byte.
    pub offset: U64,
    /// Bytes.
    pub len: U64,
}

/// A simple reply, before its data.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    /// [`SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// 0, or what went wrong.
    pub error: U32,
    /// Of the request.
    pub cookie: U64,
}

/// A chunk of a structured reply, before its payload.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChunkHeader {
    /// [`CHUNK_MAGIC`].
    pub magic: U32,
    /// [`chunk::FLAG_DONE`] or nothing.
    pub flags: U16,
    /// [`chunk`].
    pub kind: U16,
    /// Of the request.
    pub cookie: U64,
    /// Bytes of payload.
    pub len: U32,
}

/// A chunk with 64-bit lengths.
#[derive(Debug, IntoBytes, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ExtendedChunkHeader {
    /// [`EXTENDED_CHUNK_MAGIC`].
    pub magic: U32,
    /// [`chunk::FLAG_DONE`] or nothing.
    pub flags: U16,
    /// [`chunk`].
    pub kind: U16,
    /// Of the request.
    pub cookie: U64,
    /// Offset of the request.
    pub offset: U64,
    /// Bytes of payload.
    pub len: U64,
}

const _: () = {
    assert!(size_of::<Greeting>() == 18);
    assert!(size_of::<OptionHeader>() == 16);
    assert!(size_of::<OptionReply>() == 20);
    assert!(size_of::<RequestHeader>() == 28);
    assert!(size_of::<ExtendedRequestHeader>() == 32);
    assert!(size_of::<SimpleReply>() == 16);
    assert!(size_of::<ChunkHeader>() == 20);
    assert!(size_of::<ExtendedChunkHeader>() == 32);
};

/// What a request may come to, by the numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    #[error("the export is read-only")]
    Perm,
    /// An I/O error.
    #[error("I/O error")]
    Io,
    /// No memory.
    #[error("no memory")]
    NoMemory,
    /// The request is wrong.
    #[error("invalid request")]
    Invalid,
    /// No space, or beyond the end.
    #[error("no space left")]
    NoSpace,
    /// Too large for one chunk.
    #[error("too large")]
    Overflow,
    /// Not to be had, or not fast.
    #[error("not supported")]
    NotSupported,
    /// The server stops.
    #[error("the server is stopping")]
    Shutdown,
}

impl Errno {
    /// Its number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Errno::Perm => 1,
            Errno::Io => 5,
            Errno::NoMemory => 12,
            Errno::Invalid => 22,
            Errno::NoSpace => 28,
            Errno::Overflow => 75,
            Errno::NotSupported => 95,
            Errno::Shutdown => 108,
        }
    }

    /// What a system's error is on the wire.
    pub fn of_system(errno: i32) -> Errno {
        match errno {
            libc::EPERM | libc::EROFS | libc::EACCES => Errno::Perm,
            libc::ENOMEM => Errno::NoMemory,
            libc::EINVAL => Errno::Invalid,
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Errno::NoSpace,
            libc::EOPNOTSUPP => Errno::NotSupported,
            _ => Errno::Io,
        }
    }
}
