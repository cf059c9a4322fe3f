//! Functions of bytes of files: the drive computes them, or this process does; the answer is the same.

use std::io;
use std::ops::Range;

use wharf_compute::{Function, NEIGHBOUR_BYTES, Work};
use wharf_files::{Errno, FileError};
use wharf_host::stor::{Computed, Source, StepResult, Target, Vector};
use wharf_wire::file::VectorFunction;

use super::drive::FileDrive;
use super::file::File;
use super::{Mount, wait};

/// Bytes that this process reads at once to compute.
const PIECE_BYTES: usize = 256 << 10;

/// What is to be computed.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The function.
    pub function: Function,
    /// The vector of [`Function::Nearest`], as little-endian `f32`; the word of [`Function::Search`].
    pub argument: &'a [u8],
    /// Most neighbours, and places of a word.
    pub count: u32,
}

/// What was computed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The function's value.
    pub value: u64,
    /// What it made: neighbours, places of a word, or bytes.
    pub bytes: Vec<u8>,
}

impl<'a> Job<'a> {
    /// The checksum of bytes.
    pub const CHECKSUM: Job<'static> = Job {
        function: Function::Checksum,
        argument: &[],
        count: 0,
    };

    /// Where a word is: the first `count` places.
    pub fn search(word: &'a [u8], count: u32) -> Job<'a> {
        Job {
            function: Function::Search,
            argument: word,
            count,
        }
    }

    /// The `count` vectors that are nearest to one.
    pub fn nearest(query: &'a [u8], count: u32) -> Job<'a> {
        Job {
            function: Function::Nearest,
            argument: query,
            count,
        }
    }

    /// Most bytes of its answer.
    fn answer_bytes(&self) -> u64 {
        let each = match self.function {
            Function::Nearest => NEIGHBOUR_BYTES as u64,
            Function::Search => 8,
            _ => 0,
        };
        each * u64::from(self.count)
    }
}

/// As commands name it.
fn of_wire(function: Function) -> VectorFunction {
    match function {
        Function::Copy => VectorFunction::Copy,
        Function::Checksum => VectorFunction::Checksum,
        Function::Compress => VectorFunction::Compress,
        Function::Decompress => VectorFunction::Decompress,
        Function::Nearest => VectorFunction::Nearest,
        Function::Search => VectorFunction::Search,
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
        vector
            .writes()
            .iter()
            .for_each(|handle| self.note_changed(*handle));
        done
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
        let mut vector = Vector::new();
        let to = match job.answer_bytes() {
            0 => Target::Nothing,
            most => Target::Host(u32::try_from(most).unwrap_or(u32::MAX).min(1 << 24)),
        };
        let argument = (job.argument, job.count);
        vector.step_with(of_wire(job.function), argument, self.source(bytes), to);
        let done = self.last_of(&vector)?;
        Ok(Answer {
            value: done.value,
            bytes: done.bytes,
        })
    }

    /// Has the drive put what a function makes of bytes of this file into another one, from its byte `offset` on; gives how many bytes that
    /// is. None of them leaves the drive.
    ///
    /// # Errors
    /// As [`File::on_drive`].
    pub fn into_on_drive(
        &self,
        function: Function,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<u64> {
        let mut vector = Vector::new();
        let most = to.target(offset, (i64::MAX as u64).saturating_sub(offset));
        vector.step(of_wire(function), self.source(bytes), most);
        let done = self.last_of(&vector)?;
        Ok(done.made)
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
        let mut answer = Answer::default();
        let keep = |made: &[u8]| {
            answer.bytes.extend_from_slice(made);
            Ok(())
        };
        let value = self.work(job, bytes, keep)?;
        Ok(Answer { value, ..answer })
    }

    /// The same as [`File::into_on_drive`], in this process.
    ///
    /// # Errors
    /// As [`File::on_host`] and [`File::write_at`].
    pub fn into_on_host(
        &self,
        function: Function,
        bytes: Range<u64>,
        to: &File<'_>,
        offset: u64,
    ) -> io::Result<u64> {
        let mut at = offset;
        let job = Job {
            function,
            argument: &[],
            count: 0,
        };
        let write = |made: &[u8]| {
            let mut rest = made;
            while !rest.is_empty() {
                let count = to.write_at(at, rest)?;
                at += count as u64;
                rest = &rest[count..];
            }
            Ok(())
        };
        self.work(job, bytes, write)?;
        Ok(at - offset)
    }

    fn work(
        &self,
        job: Job<'_>,
        bytes: Range<u64>,
        mut made: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut work = Work::new(job.function, job.argument, job.count).map_err(refused)?;
        let (mut piece, mut room) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut at = bytes.start;
        while at < bytes.end {
            let most = (bytes.end - at).min(PIECE_BYTES as u64) as usize;
            let count = self.read_at(at, &mut piece[..most])?;
            if count == 0 {
                break;
            }
            at += count as u64;
            let mut rest = &piece[..count];
            while !rest.is_empty() {
                let step = work.step(rest, &mut room).map_err(refused)?;
                rest = &rest[step.taken..];
                made(&room[..step.made])?;
            }
        }
        loop {
            match work.finish(&mut room).map_err(refused)? {
                0 => return Ok(work.value()),
                count => made(&room[..count])?,
            }
        }
    }
}

/// As the drive says it.
fn refused(why: wharf_compute::Refused) -> io::Error {
    let errno = match why {
        wharf_compute::Refused::Damaged => Errno::EBADMSG,
        _ => Errno::EINVAL,
    };
    io::Error::from_raw_os_error(errno.number())
}
