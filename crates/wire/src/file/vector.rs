//! Vectors: a command that does up to 16 steps, each a function of bytes from one place to another.
//!
//! The buffer of the command begins with a [`VectorHead`] and its [`VectorStep`]s; behind them the host puts what steps take from it, and
//! leaves room for what they make. The answer takes the place of the steps: a head again, and a [`StepOutcome`] for each. So all
//! that a command names of the host's memory is its own buffer.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::command::FileHandle;
use crate::bits::wire_enum;
use crate::command::Command;
use crate::opcode::IoOpcode;

/// Most steps of a vector.
pub const STEPS_MAX: usize = 16;

/// Processing buffers that a vector can have.
pub const VECTOR_BUFFERS: usize = 4;

/// Bytes of the heads and steps of the longest vector: what lies behind is never overwritten by an answer.
pub const VECTOR_HEAD_BYTES: usize = size_of::<VectorHead>() + STEPS_MAX * size_of::<VectorStep>();

wire_enum! {
    /// What a step does with bytes.
    pub enum VectorFunction: u8 {
        /// Gives them as they are: reads, writes, appends.
        Copy = 0 => "copy",
        /// CRC-32C: the value.
        Checksum = 1 => "checksum",
        /// Into a stream of a [`VectorCodec`].
        Compress = 2 => "compress",
        /// Out of such a stream.
        Decompress = 3 => "decompress",
        /// The nearest vectors of 32-bit floating-point numbers.
        Nearest = 4 => "nearest",
        /// Where a word is.
        Search = 5 => "search",
        /// What the program does that the command names.
        Program = 6 => "program",
    }
}

wire_enum! {
    /// How bytes are compressed: the `count` of a step that does so, or expands.
    pub enum VectorCodec: u8 {
        /// zlib (RFC 1950), level 1.
        Zlib = 0 => "zlib",
        /// The frame format of LZ4.
        Lz4 = 1 => "lz4",
        /// Zstandard (RFC 8878), level 1.
        Zstd = 2 => "zstd",
    }
}

wire_enum! {
    /// Where bytes come from, or go to.
    pub enum PlaceKind: u8 {
        /// Nowhere.
        Nothing = 0 => "nothing",
        /// Byte `OFFSET` on of an open file.
        File = 1 => "file",
        /// The end of an open file; the outcome says where that was. Only to.
        End = 2 => "end",
        /// Byte `OFFSET` on of a processing buffer, by its number.
        Buffer = 3 => "buffer",
        /// Byte `OFFSET` on of the command's buffer, behind the longest vector's steps.
        Host = 4 => "host",
    }
}

/// The beginning of a vector, and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VectorHead {
    /// Version of this structure: [`VectorHead::VERSION`].
    pub version: u32,
    /// How many steps there are; in an answer: were done.
    pub steps: u32,
    /// Bytes of each processing buffer, which hold zeros at first.
    pub buffer_bytes: [u32; VECTOR_BUFFERS],
    /// In an answer: how long the vector waited for memory and cores, in nanoseconds.
    pub waited_ns: u64,
    /// In an answer: how long it computed, in nanoseconds.
    pub computed_ns: u64,
    /// In an answer: how long it read and wrote files, in nanoseconds.
    pub moved_ns: u64,
    /// In an answer: vectors that its core has to do besides.
    pub queued: u32,
    pub(crate) reserved: u32,
}

const _: () = assert!(size_of::<VectorHead>() == 56);

/// What a step writes to a file is durable before the next step begins.
pub const STEP_DURABLE: u8 = 1;

/// The drive's cache keeps the pages of files that a step takes, and those that it puts in place, as far as there is room.
pub const STEP_KEEP: u8 = 2;

/// A file that ends before all that a step is to take ends the vector (ENODATA).
pub const STEP_WHOLE: u8 = 4;

/// One end of a step.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct VectorPlace {
    /// The open file, or the number of the processing buffer.
    pub name: u64,
    /// Where it begins.
    pub offset: u64,
    /// Bytes from there on: all of them are taken, of a file as far as it goes; or most that are made.
    pub bytes: u64,
}

/// One step.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct VectorStep {
    /// A [`VectorFunction`].
    pub function: u8,
    /// A [`PlaceKind`] that bytes come from.
    pub from_kind: u8,
    /// One that results go to.
    pub to_kind: u8,
    /// [`STEP_DURABLE`], [`STEP_KEEP`], [`STEP_WHOLE`].
    pub flags: u8,
    /// Most results of `Nearest`, and of places of `Search`; the [`VectorCodec`] of `Compress` and `Decompress`; a number that a program is
    /// given.
    pub count: u32,
    /// Where in the command's buffer the vector or word begins.
    pub argument_offset: u32,
    /// Its bytes.
    pub argument_bytes: u32,
    /// Where bytes come from.
    pub from: VectorPlace,
    /// Where results go to.
    pub to: VectorPlace,
}

const _: () = assert!(size_of::<VectorStep>() == 64);

/// What a step came to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct StepOutcome {
    /// 0, or the number of the error that ended the vector.
    pub errno: u32,
    /// Pages of files, of those that were taken and put, that the drive's cache has now.
    pub kept: u32,
    /// The value of the function.
    pub value: u64,
    /// Bytes that were taken.
    pub taken: u64,
    /// Bytes that were made, all of which are where they were to go.
    pub made: u64,
    /// Where they begin, in the file.
    pub offset: u64,
}

const _: () = assert!(size_of::<StepOutcome>() == 40);
const _: () =
    assert!(size_of::<VectorHead>() + STEPS_MAX * size_of::<StepOutcome>() <= VECTOR_HEAD_BYTES);

impl VectorHead {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;

    /// That of a vector of so many steps.
    pub fn new(steps: u32) -> VectorHead {
        VectorHead {
            version: VectorHead::VERSION,
            steps,
            ..FromZeros::new_zeroed()
        }
    }
}

impl VectorStep {
    /// What it does, if that has a meaning.
    pub fn function(&self) -> Option<VectorFunction> {
        VectorFunction::from_raw(self.function)
    }

    /// How it compresses or expands, if that has a meaning: where its function does.
    pub fn codec(&self) -> Option<VectorCodec> {
        VectorCodec::from_raw(u8::try_from(self.count).ok()?)
    }

    /// Where bytes come from, if that has a meaning.
    pub fn from_kind(&self) -> Option<PlaceKind> {
        PlaceKind::from_raw(self.from_kind).filter(|kind| *kind != PlaceKind::End)
    }

    /// Where results go to, if that has a meaning.
    pub fn to_kind(&self) -> Option<PlaceKind> {
        PlaceKind::from_raw(self.to_kind)
    }
}

impl VectorPlace {
    /// Bytes of an open file.
    pub fn of_file(handle: FileHandle, offset: u64, bytes: u64) -> VectorPlace {
        VectorPlace {
            name: handle.raw(),
            offset,
            bytes,
        }
    }
}

impl StepOutcome {
    /// That of a step that failed.
    pub fn failed(errno: u32) -> StepOutcome {
        StepOutcome {
            errno,
            ..StepOutcome::default()
        }
    }
}

impl Command {
    /// Does the vector in a buffer of `bytes` bytes; the result is how many of its steps were done.
    pub fn vector(nsid: u32, bytes: u32) -> Command {
        Command::vector_with(nsid, FileHandle::default(), bytes)
    }

    /// The same, with an open file that holds the program of its steps.
    pub fn vector_with(nsid: u32, program: FileHandle, bytes: u32) -> Command {
        Command::file(IoOpcode::Vector, nsid, program).at_bytes(0, bytes)
    }
}
