//! Functions of bytes that the drive computes: up to 16 steps as one command.

use wharf_files::{Errno, Handle};
use wharf_wire::command::Command;
use wharf_wire::file::{
    PlaceKind, STEP_DURABLE, STEP_KEEP, STEP_WHOLE, STEPS_MAX, StepOutcome, VECTOR_BUFFERS,
    VECTOR_HEAD_BYTES, VectorCodec, VectorFunction, VectorHead, VectorPlace, VectorStep,
};
use zerocopy::{FromBytes, IntoBytes};

use super::StorClient;
use super::convert::file_handle;
use super::placement::About;
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// Where bytes of a step come from.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    /// Bytes of an open file, as far as it goes.
    File(Handle, std::ops::Range<u64>),
    /// Bytes of a processing buffer.
    Buffer(Buffer, u64, u64),
    /// The host's own.
    Host(&'a [u8]),
}

/// Where results of a step go.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Nowhere: what it is worth is its value.
    Nothing,
    /// An open file, from a byte on, and so many at most.
    File(Handle, u64, u64),
    /// The end of an open file.
    End(Handle, u64),
    /// A processing buffer, from a byte on, and so many at most.
    Buffer(Buffer, u64, u64),
    /// The host, and so many at most.
    Host(u32),
}

/// A processing buffer of a vector: memory of the drive, which is clear at first and gone at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer(u32);

/// A vector that is being put together.
#[derive(Debug, Clone)]
pub struct Vector {
    head: VectorHead,
    steps: Vec<VectorStep>,
    /// What lies behind the steps.
    host: Vec<u8>,
    /// What it is about first, by which its core is chosen.
    about: Option<Handle>,
    /// Files that it writes.
    writes: Vec<Handle>,
    /// The file with the program of its steps.
    program: Option<Handle>,
}

/// What a vector came to.
#[derive(Debug, Clone)]
pub struct Computed {
    /// What each step that was done came to, and the one that failed.
    pub steps: Vec<StepResult>,
    /// How long it waited for memory and for its turns, in nanoseconds.
    pub waited_ns: u64,
    /// How long it computed, in nanoseconds.
    pub computed_ns: u64,
    /// How long it read and wrote files, in nanoseconds.
    pub moved_ns: u64,
    /// Other vectors that the core has to do.
    pub queued: u32,
}

/// What a step came to.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// Why it ended before its end.
    pub failed: Option<Errno>,
    /// The value of its function.
    pub value: u64,
    /// Bytes that were taken.
    pub taken: u64,
    /// Bytes that were made.
    pub made: u64,
    /// Where they begin, in a file.
    pub offset: u64,
    /// Pages of files, of those that were taken and put, that the drive's cache has now.
    pub kept: u32,
    /// They themselves, if they went to the host.
    pub bytes: Vec<u8>,
}

impl Computed {
    /// The last step, if all were done.
    ///
    /// # Errors
    /// That of the step that failed.
    pub fn last(mut self) -> Result<StepResult, Errno> {
        let last = self.steps.pop().ok_or(Errno::EIO)?;
        match last.failed {
            Some(errno) => Err(errno),
            None => Ok(last),
        }
    }
}

impl Default for Vector {
    fn default() -> Vector {
        Vector {
            head: VectorHead::new(0),
            steps: Vec::new(),
            host: Vec::new(),
            about: None,
            writes: Vec::new(),
            program: None,
        }
    }
}

impl Vector {
    /// One without steps, which is no vector yet.
    pub fn new() -> Vector {
        Vector::default()
    }

    /// A processing buffer of so many bytes.
    ///
    /// # Panics
    /// If it has four already.
    pub fn buffer(&mut self, bytes: u32) -> Buffer {
        let free = self.head.buffer_bytes.iter().position(|b| *b == 0);
        let number = free.unwrap_or(VECTOR_BUFFERS);
        assert!(number < VECTOR_BUFFERS, "a vector has four buffers at most");
        self.head.buffer_bytes[number] = bytes;
        Buffer(number as u32)
    }

    /// Steps of [`VectorFunction::Program`] run the program in this file, which is open to be read.
    pub fn program(&mut self, program: Handle) -> &mut Vector {
        self.program = Some(program);
        self
    }

    /// Adds a step.
    ///
    /// # Panics
    /// If there are 16 already.
    pub fn step(&mut self, function: VectorFunction, from: Source<'_>, to: Target) -> &mut Vector {
        self.step_with(function, (&[], 0), from, to)
    }

    /// The same of a function with an argument, and of so many results at most.
    ///
    /// # Panics
    /// As [`Vector::step`].
    pub fn step_with(
        &mut self,
        function: VectorFunction,
        (argument, count): (&[u8], u32),
        from: Source<'_>,
        to: Target,
    ) -> &mut Vector {
        assert!(
            self.steps.len() < STEPS_MAX,
            "a vector has 16 steps at most"
        );
        let (argument_offset, argument_bytes) = match argument.len() {
            0 => (0, 0),
            bytes => (self.keep(argument), bytes as u32),
        };
        let (from_kind, from) = self.source(from);
        let (to_kind, to) = self.target(to);
        self.steps.push(VectorStep {
            function: function.raw(),
            from_kind: from_kind.raw(),
            to_kind: to_kind.raw(),
            flags: 0,
            count,
            argument_offset,
            argument_bytes,
            from,
            to,
        });
        self.head.steps = self.steps.len() as u32;
        self
    }

    /// The last step compresses, or expands, by this codec; without, by zlib.
    ///
    /// # Panics
    /// If there is none.
    pub fn codec(&mut self, codec: VectorCodec) -> &mut Vector {
        let last = self.steps.last_mut().expect("it has a step");
        last.count = codec.raw().into();
        self
    }

    /// What the last step writes to a file is durable before the next one begins.
    ///
    /// # Panics
    /// If there is none.
    pub fn durable(&mut self) -> &mut Vector {
        self.steps.last_mut().expect("it has a step").flags |= STEP_DURABLE;
        self
    }

    /// A file that ends before all that the last step is to take ends the vector (`ENODATA`).
    ///
    /// # Panics
    /// If there is none.
    pub fn whole(&mut self) -> &mut Vector {
        self.steps.last_mut().expect("it has a step").flags |= STEP_WHOLE;
        self
    }

    /// The drive's cache keeps the pages that the last step takes of a file. For drives that have one.
    ///
    /// # Panics
    /// If there is none.
    pub fn keeping(&mut self) -> &mut Vector {
        self.steps.last_mut().expect("it has a step").flags |= STEP_KEEP;
        self
    }

    /// Puts bytes of the host behind the steps; gives where.
    fn keep(&mut self, bytes: &[u8]) -> u32 {
        let at = self.host.len();
        self.host.extend_from_slice(bytes);
        // What comes next begins as numbers do.
        self.host.resize(self.host.len().next_multiple_of(8), 0);
        (VECTOR_HEAD_BYTES + at) as u32
    }

    fn source(&mut self, from: Source<'_>) -> (PlaceKind, VectorPlace) {
        match from {
            Source::File(handle, bytes) => {
                self.about.get_or_insert(handle);
                let count = bytes.end.saturating_sub(bytes.start);
                let place = VectorPlace::of_file(file_handle(handle), bytes.start, count);
                (PlaceKind::File, place)
            }
            Source::Buffer(buffer, offset, bytes) => {
                (PlaceKind::Buffer, of_buffer(buffer, offset, bytes))
            }
            Source::Host(bytes) => {
                let at = self.keep(bytes);
                (PlaceKind::Host, of_host(at, bytes.len()))
            }
        }
    }

    fn target(&mut self, to: Target) -> (PlaceKind, VectorPlace) {
        match to {
            Target::Nothing => (PlaceKind::Nothing, VectorPlace::default()),
            Target::File(handle, offset, most) => {
                self.about.get_or_insert(handle);
                self.writes.push(handle);
                let place = VectorPlace::of_file(file_handle(handle), offset, most);
                (PlaceKind::File, place)
            }
            Target::End(handle, most) => {
                self.about.get_or_insert(handle);
                self.writes.push(handle);
                (
                    PlaceKind::End,
                    VectorPlace::of_file(file_handle(handle), 0, most),
                )
            }
            Target::Buffer(buffer, offset, most) => {
                (PlaceKind::Buffer, of_buffer(buffer, offset, most))
            }
            Target::Host(most) => {
                let at = self.keep(&vec![0; most as usize]);
                (PlaceKind::Host, of_host(at, most as usize))
            }
        }
    }

    /// Open files that it writes.
    pub fn writes(&self) -> &[Handle] {
        &self.writes
    }

    /// Bytes of the command's buffer.
    pub fn bytes(&self) -> usize {
        VECTOR_HEAD_BYTES + self.host.len()
    }

    /// All that it says, as it lies in the buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut all = [self.head.as_bytes(), self.steps.as_bytes()].concat();
        all.resize(VECTOR_HEAD_BYTES, 0);
        all.extend_from_slice(&self.host);
        all
    }
}

fn of_buffer(buffer: Buffer, offset: u64, bytes: u64) -> VectorPlace {
    VectorPlace {
        name: buffer.0.into(),
        offset,
        bytes,
    }
}

fn of_host(at: u32, bytes: usize) -> VectorPlace {
    VectorPlace {
        name: 0,
        offset: at.into(),
        bytes: bytes as u64,
    }
}

impl StorClient {
    /// Has the drive do a vector. Steps that could not be done are told in the answer.
    ///
    /// # Errors
    /// `EINVAL` for more than a command moves; of a drive that does not compute, or refuses the vector as a whole.
    pub async fn vector(&self, vector: &Vector) -> Result<Computed, FileError> {
        let bytes = vector.bytes();
        if bytes > self.inner.bytes_max || vector.steps.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let about = match (vector.writes.is_empty(), vector.about) {
            (true, _) => About::Long,
            (false, about) => About::File(about.map_or(0, |handle| self.number(handle))),
        };
        let mut buffer = self.inner.buffer(bytes).await;
        buffer.put(&vector.to_bytes());
        let program = vector.program.map(file_handle).unwrap_or_default();
        let command = Command::vector_with(NAMESPACE, program, bytes as u32);
        let done = buffer.send(about, command).await?;
        let mut answer = vec![0; bytes];
        buffer.get(&mut answer);
        computed(vector, &answer, done).ok_or(Errno::EIO.into())
    }
}

/// What an answer says; nothing if it is none.
fn computed(vector: &Vector, answer: &[u8], done: u64) -> Option<Computed> {
    let (head, rest) = VectorHead::read_from_prefix(answer).ok()?;
    let all = vector.steps.len();
    if done > all as u64 {
        return None;
    }
    let told = rest.chunks_exact(size_of::<StepOutcome>());
    let told = told.take(all.min(done as usize + 1));
    let mut steps = Vec::new();
    for (step, bytes) in vector.steps.iter().zip(told) {
        let outcome = StepOutcome::read_from_bytes(bytes).ok()?;
        let failed = match outcome.errno {
            0 => None,
            number => Some(Errno::of_number(number as i32).unwrap_or(Errno::EIO)),
        };
        // The step that was not done says why.
        if failed.is_none() && steps.len() as u64 == done {
            return None;
        }
        let bytes = match step.to_kind() {
            Some(PlaceKind::Host) if outcome.made <= step.to.bytes => {
                let from = step.to.offset as usize;
                answer[from..from + outcome.made as usize].to_vec()
            }
            Some(PlaceKind::Host) => return None,
            _ => Vec::new(),
        };
        steps.push(StepResult {
            failed,
            value: outcome.value,
            taken: outcome.taken,
            made: outcome.made,
            offset: outcome.offset,
            kept: outcome.kept,
            bytes,
        });
    }
    Some(Computed {
        steps,
        waited_ns: head.waited_ns,
        computed_ns: head.computed_ns,
        moved_ns: head.moved_ns,
        queued: head.queued,
    })
}
