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
//! | `zlib.rs` | compress, decompress (RFC 1950) | bytes made | the other bytes |
//! | `nearest.rs` | the k vectors that are nearest to one | how many | their distances and numbers |
//! | `search.rs` | where a word is | how often | where |

mod checksum;
mod copy;
mod nearest;
mod search;
mod zlib;

pub use nearest::{NEIGHBOUR_BYTES, Neighbour, merge};

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Gives the bytes as they are.
    Copy,
    /// CRC-32C (Castagnoli, as in RFC 3720).
    Checksum,
    /// zlib (RFC 1950), level 1.
    Compress,
    /// Out of zlib.
    Decompress,
    /// Vectors nearest to one, by the square of the Euclidean distance.
    Nearest,
    /// Where a word is.
    Search,
}

impl Function {
    /// All functions.
    pub const ALL: [Function; 6] = [
        Function::Copy,
        Function::Checksum,
        Function::Compress,
        Function::Decompress,
        Function::Nearest,
        Function::Search,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Function::Copy => "copy",
            Function::Checksum => "checksum",
            Function::Compress => "compress",
            Function::Decompress => "decompress",
            Function::Nearest => "nearest",
            Function::Search => "search",
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
    #[error("the bytes are no zlib stream, or a damaged one")]
    Damaged,
    /// The last vector is not whole.
    #[error("the bytes end within a vector of {0} bytes")]
    Partial(usize),
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Bytes of the input that have been taken.
    pub taken: usize,
    /// Bytes of the room that are results.
    pub made: usize,
}

/// A function at work.
pub struct Work(Kind);

enum Kind {
    Copy(copy::Copy),
    Checksum(checksum::Checksum),
    Compress(Box<zlib::Compress>),
    Decompress(Box<zlib::Decompress>),
    Nearest(nearest::Nearest),
    Search(search::Search),
}

macro_rules! each {
    ($kind:expr, $work:ident => $call:expr) => {
        match $kind {
            Kind::Copy($work) => $call,
            Kind::Checksum($work) => $call,
            Kind::Compress($work) => $call,
            Kind::Decompress($work) => $call,
            Kind::Nearest($work) => $call,
            Kind::Search($work) => $call,
        }
    };
}

impl Work {
    /// Begins. `argument` is the vector, as little-endian `f32`, or the word; `count` is how many results are wanted at most. Functions
    /// without them look at neither.
    ///
    /// # Errors
    /// If they have no meaning.
    pub fn new(function: Function, argument: &[u8], count: u32) -> Result<Work, Refused> {
        Ok(Work(match function {
            Function::Copy => Kind::Copy(copy::Copy::default()),
            Function::Checksum => Kind::Checksum(checksum::Checksum::new()),
            Function::Compress => Kind::Compress(Box::new(zlib::Compress::new())),
            Function::Decompress => Kind::Decompress(Box::new(zlib::Decompress::new())),
            Function::Nearest => Kind::Nearest(nearest::Nearest::new(argument, count)?),
            Function::Search => Kind::Search(search::Search::new(argument, count)?),
        }))
    }

    /// Takes some of the input, and fills some of the room. If it took nothing of an input that is not empty, it made something, or has no room.
    ///
    /// # Errors
    /// If the bytes have no meaning for it.
    pub fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Refused> {
        each!(&mut self.0, work => work.step(input, room))
    }

    /// Makes what is left to be made when all has been taken: called until it makes nothing. The room is not empty.
    ///
    /// # Errors
    /// If what has been taken is not whole.
    pub fn finish(&mut self, room: &mut [u8]) -> Result<usize, Refused> {
        each!(&mut self.0, work => work.finish(room))
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
    let mut work = Work::new(function, argument, count)?;
    let (mut out, mut rest, mut room) = (Vec::new(), bytes, vec![0; 16_384]);
    while !rest.is_empty() {
        let step = work.step(rest, &mut room)?;
        rest = &rest[step.taken..];
        out.extend_from_slice(&room[..step.made]);
    }
    loop {
        let made = work.finish(&mut room)?;
        if made == 0 {
            return Ok((work.value(), out));
        }
        out.extend_from_slice(&room[..made]);
    }
}
