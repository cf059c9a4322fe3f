//! Functions on bytes of files: hosts and drives call the same ones, so an answer is the same wherever it was computed.
//!
//! A function takes bytes piece by piece, however they are cut, and makes others ([`Work::step`]); when all have been taken it makes what is
//! left ([`Work::finish`]) and has a value. It never has more memory than it says, and never makes more at once than there is room
//! for: whoever calls it can do something else between two pieces.
//!
//! | file | function | value | makes |
//! |---|---|---|---|
//! | `copy.rs` | copy | bytes | the same bytes |
//! | `checksum.rs` | CRC-32C | the checksum | nothing |
//! | `zlib.rs`, `lz4.rs`, `zstd.rs` | compress, decompress, by one of the codecs of `codec.rs` | bytes made | the other bytes |
//! | `nearest.rs` | the k vectors that are nearest to one | how many | their distances and numbers |
//! | `search.rs` | where a word is | how often | where |
//! | `program.rs` | a program of a user's own, in WebAssembly (feature `programs`) | what it says | what it makes |

mod checksum;
mod codec;
mod copy;
mod lz4;
mod nearest;
#[cfg(feature = "programs")]
mod program;
#[cfg(not(feature = "programs"))]
#[path = "no_program.rs"]
mod program;
mod search;
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(not(feature = "zstd"))]
#[path = "no_zstd.rs"]
mod zstd;

pub use codec::Codec;
pub use nearest::{NEIGHBOUR_BYTES, Neighbour, merge};
pub use program::check_program;

/// The longest program, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 64 << 10;

/// Memory that a program has at most, in bytes.
pub const PROGRAM_MEMORY_BYTES: usize = 512 << 10;

/// What a program takes besides, at most, in bytes: its stack, and what it is translated into.
pub const PROGRAM_OWN_BYTES: usize = 768 << 10;

/// Bytes that a program is given at once, may make at once, and of its argument, at most.
pub const PROGRAM_PIECE_BYTES: usize = 8 << 10;

/// Instructions of a program, about, after which others have their turn.
pub const PROGRAM_TURN_FUEL: u64 = 10_000;

/// Instructions of a program, about, for one piece: one that takes more is stopped.
pub const PROGRAM_CALL_FUEL: u64 = 1 << 26;

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Gives the bytes as they are.
    Copy,
    /// CRC-32C (Castagnoli, as in RFC 3720).
    Checksum,
    /// Into a stream of a codec.
    Compress(Codec),
    /// Out of such a stream.
    Decompress(Codec),
    /// Vectors nearest to one, by the square of the Euclidean distance.
    Nearest,
    /// Where a word is.
    Search,
}

impl Function {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Function::Copy => "copy",
            Function::Checksum => "checksum",
            Function::Compress(_) => "compress",
            Function::Decompress(_) => "decompress",
            Function::Nearest => "nearest",
            Function::Search => "search",
        }
    }

    /// Memory that it takes at most besides its argument, in bytes, with so many results, where it may take `most` ([`Work::within`]).
    pub fn memory_bytes(self, count: u32, most: u64) -> u64 {
        match self {
            Function::Copy | Function::Checksum => 0,
            Function::Compress(codec) => codec.compress_bytes(),
            Function::Decompress(codec) => codec.expand_bytes(most),
            Function::Nearest => NEIGHBOUR_BYTES as u64 * u64::from(count),
            Function::Search => 8 * u64::from(count),
        }
    }
}

/// Most bytes of an argument: a vector of 16,384 numbers, or a word.
pub const ARGUMENT_BYTES_MAX: usize = 65_536;

/// Most vectors that are asked for, and most places of a word.
pub const COUNT_MAX: u32 = 65_536;

/// Why a function does not do what it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its argument has no meaning.
    #[error("the argument is of {bytes} bytes: {rule}")]
    Argument {
        /// Bytes that it has.
        bytes: usize,
        /// What it has to be.
        rule: &'static str,
    },
    /// More is asked for than a function keeps.
    #[error("{0} results are more than {COUNT_MAX}, or none where some are needed")]
    Count(u32),
    /// Bytes that are no output of the other direction.
    #[error("the bytes are no stream of that codec, or a damaged one")]
    Damaged,
    /// What the bytes hold takes more memory than there is: the window of a Zstandard stream.
    #[error("the stream has a window that takes more memory than there is for it")]
    Memory,
    /// The last vector is not whole.
    #[error("the bytes end within a vector of {0} bytes")]
    Partial(usize),
    /// A codec is not built in.
    #[error("zstd is not built in: it takes the feature `zstd`")]
    NoCodec,
    /// Programs are not built in.
    #[error("programs are not built in: it takes the feature `programs`")]
    NotBuilt,
    /// It is none, or lacks what a program has to have, or wants more memory than there is.
    #[error("the file is no program that can run here")]
    NoProgram,
    /// The program refuses its argument.
    #[error("the program refuses its argument, or takes none")]
    ProgramArgument,
    /// The program did what is not allowed: it left its memory, divided by zero, or gave up.
    #[error("the program failed")]
    Failed,
    /// It does not come to an end.
    #[error(
        "the program takes more than {PROGRAM_CALL_FUEL} instructions for a piece of {PROGRAM_PIECE_BYTES} bytes"
    )]
    Endless,
    /// It says that it took or made more than there was, or does neither.
    #[error("the program says that it took or made what it cannot have, or nothing at all")]
    Unruly,
}

impl Refused {
    /// The number of the error that programs know for it.
    pub fn errno(self) -> i32 {
        match self {
            Refused::Argument { .. }
            | Refused::Count(_)
            | Refused::Partial(_)
            | Refused::ProgramArgument => 22, // EINVAL
            Refused::Damaged => 74,                     // EBADMSG
            Refused::Memory => 12,                      // ENOMEM
            Refused::NoCodec | Refused::NotBuilt => 95, // EOPNOTSUPP
            Refused::NoProgram => 8,                    // ENOEXEC
            Refused::Failed => 14,                      // EFAULT
            Refused::Endless => 110,                    // ETIMEDOUT
            Refused::Unruly => 71,                      // EPROTO
        }
    }
}

impl Step {
    /// One that took and made so many bytes.
    fn of(taken: usize, made: usize) -> Step {
        Step {
            taken,
            made,
            is_pending: false,
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Bytes of the input that have been taken.
    pub taken: usize,
    /// Bytes of the room that are results.
    pub made: usize,
    /// Its turn is over, but not what it does: the same is to be asked again, with the same input, and no less room.
    pub is_pending: bool,
}

/// A function at work.
pub struct Work(Kind);

enum Kind {
    Copy(copy::Copy),
    Checksum(checksum::Checksum),
    Zlib(Box<zlib::Compress>),
    OfZlib(Box<zlib::Decompress>),
    Lz4(Box<lz4::Compress>),
    OfLz4(Box<lz4::Decompress>),
    Zstd(Box<zstd::Compress>),
    OfZstd(Box<zstd::Decompress>),
    Nearest(nearest::Nearest),
    Search(search::Search),
    Program(Box<program::Program>),
}

macro_rules! each {
    ($kind:expr, $work:ident => $call:expr) => {
        match $kind {
            Kind::Copy($work) => $call,
            Kind::Checksum($work) => $call,
            Kind::Zlib($work) => $call,
            Kind::OfZlib($work) => $call,
            Kind::Lz4($work) => $call,
            Kind::OfLz4($work) => $call,
            Kind::Zstd($work) => $call,
            Kind::OfZstd($work) => $call,
            Kind::Nearest($work) => $call,
            Kind::Search($work) => $call,
            Kind::Program($work) => $call,
        }
    };
}

impl Work {
    /// Begins. `argument` is the vector, as little-endian `f32`, or the word; `count` is how many results are wanted at most. Functions
    /// without them look at neither.
    ///
    /// # Errors
    /// If they have no meaning, or it is a codec that is not built in.
    pub fn new(function: Function, argument: &[u8], count: u32) -> Result<Work, Refused> {
        Work::within(function, argument, count, u64::MAX)
    }

    /// The same with no more than `memory` bytes, which is at least what [`Function::memory_bytes`] says of it.
    ///
    /// # Errors
    /// As [`Work::new`].
    pub fn within(
        function: Function,
        argument: &[u8],
        count: u32,
        memory: u64,
    ) -> Result<Work, Refused> {
        use Codec::{Lz4, Zlib, Zstd};
        Ok(Work(match function {
            Function::Copy => Kind::Copy(copy::Copy::default()),
            Function::Checksum => Kind::Checksum(checksum::Checksum::new()),
            Function::Compress(Zlib) => Kind::Zlib(Box::new(zlib::Compress::new())),
            Function::Decompress(Zlib) => Kind::OfZlib(Box::new(zlib::Decompress::new())),
            Function::Compress(Lz4) => Kind::Lz4(Box::new(lz4::Compress::new())),
            Function::Decompress(Lz4) => Kind::OfLz4(Box::new(lz4::Decompress::new())),
            Function::Compress(Zstd) => Kind::Zstd(Box::new(zstd::Compress::new()?)),
            Function::Decompress(Zstd) => Kind::OfZstd(Box::new(zstd::Decompress::new(memory)?)),
            Function::Nearest => Kind::Nearest(nearest::Nearest::new(argument, count)?),
            Function::Search => Kind::Search(search::Search::new(argument, count)?),
        }))
    }

    /// Begins a program of a user's own (`program.rs`), which is given an argument, and a number that means what it wants.
    ///
    /// # Errors
    /// If it is none that can run here.
    pub fn of_program(program: &[u8], argument: &[u8], count: u32) -> Result<Work, Refused> {
        let begun = program::Program::new(program, argument, count)?;
        Ok(Work(Kind::Program(Box::new(begun))))
    }

    /// Takes some of the input, and fills some of the room. If it took nothing of an input that is not empty, it made something, has no room,
    /// or is pending.
    ///
    /// # Errors
    /// If the bytes have no meaning for it.
    pub fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        each!(&mut self.0, work => work.step(input, room))
    }

    /// Makes what is left to be made when all has been taken: called until it makes nothing and is not pending. The room is not empty.
    ///
    /// # Errors
    /// If what has been taken is not whole.
    pub fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        each!(&mut self.0, work => work.finish(room))
    }

    /// Instructions, about, that a program took since this was asked last; none of other functions.
    pub fn take_fuel(&mut self) -> u64 {
        match &mut self.0 {
            Kind::Program(program) => program.take_fuel(),
            _ => 0,
        }
    }

    /// Its value, when it has finished.
    pub fn value(&self) -> u64 {
        each!(&self.0, work => work.value())
    }
}

/// The CRC-32C of bytes that are all there.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut work = checksum::Checksum::new();
    // It takes all that it is given.
    let _ = work.step(bytes, &mut []);
    work.value() as u32
}

/// Copies what fits of what is left behind `done`; gives how much.
fn give(from: &[u8], done: &mut usize, room: &mut [u8]) -> usize {
    let rest = &from[*done..];
    let bytes = rest.len().min(room.len());
    room[..bytes].copy_from_slice(&rest[..bytes]);
    *done += bytes;
    bytes
}

/// Does a function on bytes that are all there; gives its value and what it made.
///
/// # Errors
/// As [`Work::new`] and [`Work::step`].
pub fn whole(
    function: Function,
    argument: &[u8],
    count: u32,
    bytes: &[u8],
) -> Result<(u64, Vec<u8>), Refused> {
    all_of(Work::new(function, argument, count)?, bytes)
}

/// The same of one that has begun.
///
/// # Errors
/// As [`Work::step`].
pub fn all_of(mut work: Work, bytes: &[u8]) -> Result<(u64, Vec<u8>), Refused> {
    let (mut out, mut rest, mut room) = (Vec::new(), bytes, vec![0; 16_384]);
    while !rest.is_empty() {
        let step = work.step(rest, &mut room)?;
        rest = &rest[step.taken..];
        out.extend_from_slice(&room[..step.made]);
    }
    loop {
        let step = work.finish(&mut room)?;
        if step == Step::default() {
            return Ok((work.value(), out));
        }
        out.extend_from_slice(&room[..step.made]);
    }
}
