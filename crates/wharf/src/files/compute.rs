//! Functions of bytes of files: the drive computes them, or this process does; the answer is the same. `sides.rs` says who, if nobody else does.

use std::io;
use std::ops::Range;

use wharf_compute::{Codec, Function, NEIGHBOUR_BYTES, PROGRAM_BYTES_MAX, Step, Work};
use wharf_files::{Errno, FileError};
use wharf_host::stor::{Computed, Source, StepResult, Target, Vector};
use wharf_wire::file::{VectorCodec, VectorFunction};

use super::drive::FileDrive;
use super::file::File;
use super::{Mount, now_ns, wait};

/// Bytes that this process reads at once to compute.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes of what a program makes that are given back at most; what goes to a file may be longer.
const PROGRAM_ANSWER_BYTES: u64 = 128 << 10;

/// What is to be computed.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The function.
    pub what: What<'a>,
    /// The vector of [`Function::Nearest`], as little-endian `f32`; the word of [`Function::Search`]; what a program begins with.
    pub argument: &'a [u8],
    /// Most neighbours, and places of a word; a number that a program is given.
    pub count: u32,
}

/// A function.
#[derive(Clone, Copy)]
pub enum What<'a> {
    /// One that is built in.
    Function(Function),
    /// The program in this file.
    Program(&'a File<'a>),
}

/// What was computed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The function's value.
    pub value: u64,
    /// What it made: neighbours, places of a word, or bytes.
    pub bytes: Vec<u8>,
}

/// What computing took this process, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Took {
    /// To read, and to write.
    pub(super) moved_ns: u64,
    pub(super) computed_ns: u64,
}

/// What went into a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// The function's value.
    pub value: u64,
    /// Bytes that it made.
    pub bytes: u64,
}

impl From<StepResult> for Answer {
    fn from(done: StepResult) -> Answer {
        Answer {
            value: done.value,
            bytes: done.bytes,
        }
    }
}

impl From<StepResult> for Made {
    fn from(done: StepResult) -> Made {
        Made {
            value: done.value,
            bytes: done.made,
        }
    }
}

impl<'a> Job<'a> {
    /// The checksum of bytes.
    pub const CHECKSUM: Job<'static> = Job {
        what: What::Function(Function::Checksum),
        argument: &[],
        count: 0,
    };

    /// A function without an argument.
    pub fn of(function: Function) -> Job<'a> {
        Job {
            what: What::Function(function),
            ..Job::CHECKSUM
        }
    }

    /// What the program in a file makes, which is open to be read: with an argument, and a number whose meaning it knows.
    pub fn program(program: &'a File<'a>, argument: &'a [u8], count: u32) -> Job<'a> {
        Job {
            what: What::Program(program),
            argument,
            count,
        }
    }

    /// Where a word is: the first `count` places.
    pub fn search(word: &'a [u8], count: u32) -> Job<'a> {
        Job {
            what: What::Function(Function::Search),
            argument: word,
            count,
        }
    }

    /// The `count` vectors that are nearest to one.
    pub fn nearest(query: &'a [u8], count: u32) -> Job<'a> {
        Job {
            what: What::Function(Function::Nearest),
            argument: query,
            count,
        }
    }

    /// Most bytes of its answer.
    fn answer_bytes(&self) -> u64 {
        let count = u64::from(self.count);
        match self.what {
            What::Function(Function::Nearest) => NEIGHBOUR_BYTES as u64 * count,
            What::Function(Function::Search) => 8 * count,
            What::Function(_) => 0,
            What::Program(_) => PROGRAM_ANSWER_BYTES,
        }
    }

    /// Where the drive puts its answer.
    pub(super) fn answer_place(&self) -> Target {
        match self.answer_bytes() {
            0 => Target::Nothing,
            most => Target::Host(u32::try_from(most).unwrap_or(u32::MAX).min(1 << 24)),
        }
    }

    /// Adds it to a vector, as its last step.
    pub(super) fn add_to(&self, vector: &mut Vector, from: Source<'_>, to: Target) {
        let function = match self.what {
            What::Function(function) => of_wire(function),
            What::Program(program) => {
                vector.program(program.handle());
                VectorFunction::Program
            }
        };
        vector.step_with(function, (self.argument, self.count), from, to);
        if let What::Function(Function::Compress(codec) | Function::Decompress(codec)) = self.what {
            vector.codec(codec_of_wire(codec));
        }
    }

    /// Begins it in this process.
    fn begin(&self) -> io::Result<Work> {
        let begun = match self.what {
            What::Function(function) => Work::new(function, self.argument, self.count),
            What::Program(program) => {
                // One that is too long is refused as such.
                let mut bytes = vec![0; PROGRAM_BYTES_MAX + 1];
                let mut filled = 0;
                while filled < bytes.len() {
                    match program.read_at(filled as u64, &mut bytes[filled..])? {
                        0 => break,
                        count => filled += count,
                    }
                }
                Work::of_program(&bytes[..filled], self.argument, self.count)
            }
        };
        begun.map_err(refused)
    }
}

/// As commands name it.
fn of_wire(function: Function) -> VectorFunction {
    match function {
        Function::Copy => VectorFunction::Copy,
        Function::Checksum => VectorFunction::Checksum,
        Function::Compress(_) => VectorFunction::Compress,
        Function::Decompress(_) => VectorFunction::Decompress,
        Function::Nearest => VectorFunction::Nearest,
        Function::Search => VectorFunction::Search,
    }
}

fn codec_of_wire(codec: Codec) -> VectorCodec {
    match codec {
        Codec::Zlib => VectorCodec::Zlib,
        Codec::Lz4 => VectorCodec::Lz4,
        Codec::Zstd => VectorCodec::Zstd,
    }
}

impl FileDrive {
    /// Has the drive do a vector of steps ([`Vector`]).
    ///
    /// # Errors
    /// If it does not compute, or refuses the vector as a whole. That a step failed is told in the answer.
    pub fn compute(&self, vector: &Vector) -> Result<Computed, FileError> {
        let client = self.client();
        let done = self.done(client.vector(vector));
        self.note_written_by(vector);
        done
    }

    /// The drive has done a vector, or a part of it.
    pub(super) fn note_written_by(&self, vector: &Vector) {
        let written = vector.writes().iter();
        written.for_each(|handle| self.note_changed(*handle));
    }
}

impl Mount {
    /// Has the drive do a vector of steps, whose files are open files of this mount ([`File::source`], [`File::target`]).
    ///
    /// ```
    /// use wharf::files::{Function, Job, Mount, NewImage, OpenFlags, Target, Vector, VectorFunction};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mount = Mount::in_memory(&NewImage::of_bytes(64 << 20)).map_err(std::io::Error::other)?;
    /// let file = mount.open_file("/data", OpenFlags::CREATE, 0o644)?;
    /// file.write_at(0, b"needles and pins and needles")?;
    ///
    /// // One function.
    /// let found = file.on_drive(Job::search(b"needle", 10), 0..1 << 30)?;
    /// assert_eq!(found.value, 2);
    /// assert_eq!(found, file.on_host(Job::search(b"needle", 10), 0..1 << 30)?);
    /// assert_eq!(found, file.on_either(Job::search(b"needle", 10), 0..1 << 30)?);
    ///
    /// // Several steps as one command: read, sum up, append.
    /// let mut vector = Vector::new();
    /// let buffer = vector.buffer(4096);
    /// vector.step(VectorFunction::Copy, file.source(0..7), Target::Buffer(buffer, 0, 4096));
    /// vector.step(VectorFunction::Checksum, wharf::files::Source::Buffer(buffer, 0, 7), Target::Nothing);
    /// vector.step(VectorFunction::Copy, wharf::files::Source::Buffer(buffer, 0, 7), file.end(7));
    /// let done = mount.compute(&vector)?;
    /// assert_eq!((done.steps.len(), done.steps[2].offset), (3, 28));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`FileDrive::compute`].
    pub fn compute(&self, vector: &Vector) -> io::Result<Computed> {
        wait(async { self.drive().compute(vector) })
    }
}

impl File<'_> {
    /// Bytes of this file, as what a step takes.
    pub fn source(&self, bytes: Range<u64>) -> Source<'static> {
        Source::File(self.handle(), bytes)
    }

    /// This file from byte `offset` on, as where a step puts `most` bytes at most.
    pub fn target(&self, offset: u64, most: u64) -> Target {
        Target::File(self.handle(), offset, most)
    }

    /// The end of this file, as where a step puts `most` bytes at most.
    pub fn end(&self, most: u64) -> Target {
        Target::End(self.handle(), most)
    }

    /// Has the drive compute something of bytes of this file, as far as it goes: none but the answer leaves the drive.
    ///
    /// # Errors
    /// As [`Mount::compute`]; `EINVAL` for an answer longer than a command moves, and for bytes that have no meaning.
    pub fn on_drive(&self, job: Job<'_>, bytes: Range<u64>) -> io::Result<Answer> {
        Ok(self.last_of(&self.vector_of(job, bytes))?.into())
    }

    /// Has the drive put what a function makes of bytes of this file into another one, from its byte `offset` on. None of them leaves the drive.
    ///
    /// # Errors
    /// As [`File::on_drive`].
    pub fn into_on_drive(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<Made> {
        Ok(self
            .last_of(&self.vector_into(job, bytes, to, offset))?
            .into())
    }

    /// A job for the drive, whose answer comes back.
    pub(super) fn vector_of(&self, job: Job<'_>, bytes: Range<u64>) -> Vector {
        let mut vector = Vector::new();
        job.add_to(&mut vector, self.source(bytes), job.answer_place());
        vector
    }

    /// A job for the drive, whose bytes go to a file.
    pub(super) fn vector_into(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> Vector {
        let mut vector = Vector::new();
        let most = to.target(offset, (i64::MAX as u64).saturating_sub(offset));
        job.add_to(&mut vector, self.source(bytes), most);
        vector
    }

    /// Has the drive do a vector; gives what its last step came to.
    fn last_of(&self, vector: &Vector) -> io::Result<StepResult> {
        wait(async {
            let computed = self.drive().compute(vector)?;
            computed.last().map_err(FileError::from)
        })
    }

    /// The same as [`File::on_drive`], in this process, which reads the bytes.
    ///
    /// # Errors
    /// As [`File::read_at`]; `EINVAL` for bytes that have no meaning.
    pub fn on_host(&self, job: Job<'_>, bytes: Range<u64>) -> io::Result<Answer> {
        Ok(self.timed_on_host(job, bytes)?.0)
    }

    /// The same, with what it took.
    pub(super) fn timed_on_host(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
    ) -> io::Result<(Answer, Took)> {
        let mut answer = Answer::default();
        let most = job.answer_bytes();
        let keep = |made: &[u8]| {
            if most > 0 {
                answer.bytes.extend_from_slice(made);
            }
            // As a command says that had no more room.
            match answer.bytes.len() as u64 > most {
                true => Err(io::Error::from_raw_os_error(Errno::ENOSPC.number())),
                false => Ok(()),
            }
        };
        let (value, took) = self.work(job, bytes, keep)?;
        Ok((Answer { value, ..answer }, took))
    }

    /// The same as [`File::into_on_drive`], in this process.
    ///
    /// # Errors
    /// As [`File::on_host`] and [`File::write_at`].
    pub fn into_on_host(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<Made> {
        Ok(self.timed_into_on_host(job, bytes, to, offset)?.0)
    }

    /// The same, with what it took.
    pub(super) fn timed_into_on_host(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<(Made, Took)> {
        let mut at = offset;
        let write = |made: &[u8]| {
            let mut rest = made;
            while !rest.is_empty() {
                let count = to.write_at(at, rest)?;
                at += count as u64;
                rest = &rest[count..];
            }
            Ok(())
        };
        let (value, took) = self.work(job, bytes, write)?;
        let made = Made {
            value,
            bytes: at - offset,
        };
        Ok((made, took))
    }

    fn work(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        mut made: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<(u64, Took)> {
        let mut work = job.begin()?;
        let (mut piece, mut room) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let (mut at, mut took) = (bytes.start, Took::default());
        let begun_ns = now_ns();
        while at < bytes.end {
            let most = (bytes.end - at).min(PIECE_BYTES as u64) as usize;
            let count = self.read_at(at, &mut piece[..most])?;
            if count == 0 {
                break;
            }
            at += count as u64;
            let mut rest = &piece[..count];
            while !rest.is_empty() {
                let step = took.computes(|| work.step(rest, &mut room))?;
                rest = &rest[step.taken..];
                made(&room[..step.made])?;
            }
        }
        loop {
            let step = took.computes(|| work.finish(&mut room))?;
            if step == Step::default() {
                break;
            }
            made(&room[..step.made])?;
        }
        let all_ns = now_ns().saturating_sub(begun_ns);
        took.moved_ns = all_ns.saturating_sub(took.computed_ns);
        Ok((work.value(), took))
    }
}

impl Took {
    /// Counts the time of computing.
    fn computes<T>(
        &mut self,
        f: impl FnOnce() -> Result<T, wharf_compute::Refused>,
    ) -> io::Result<T> {
        let begun_ns = now_ns();
        let done = f();
        self.computed_ns += now_ns().saturating_sub(begun_ns);
        done.map_err(refused)
    }
}

/// As the drive says it.
fn refused(why: wharf_compute::Refused) -> io::Error {
    io::Error::from_raw_os_error(why.errno())
}
