//! One step: its function works on piece after piece.

use std::borrow::Cow;

use wharf_compute::{ARGUMENT_BYTES_MAX, Codec, Function, PROGRAM_BYTES_MAX, Refused, Step, Work};
use wharf_files::{Errno, FileError};
use wharf_runtime::{Op, Parts};
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{
    PlaceKind, STEP_DURABLE, STEP_WHOLE, StepOutcome, VectorCodec, VectorFunction, VectorPlace,
    VectorStep,
};

use super::super::super::tasks::FileCore;
use super::places::Rest;
use super::running::{PIECE_BYTES, Running};

/// Instructions of a program that are charged at once.
const FUEL_UNIT: u64 = 1_000;

/// Most bytes that any function takes, or makes, in one turn.
const TURN_BYTES: usize = 8 << 10;

/// A function, and what it is charged as.
struct Worker {
    work: Work,
    op: Op,
    /// Most bytes that it takes, or makes, in one turn.
    turn_bytes: usize,
    /// How far it is into a page, or into so many instructions of a program.
    parts: Parts,
    /// How far it is into a page that passes the drive's memory.
    moved: Parts,
}

/// What a step has come to so far.
struct State {
    from: Rest,
    to: Rest,
    /// What was made, and is to be put in its place.
    room: Vec<u8>,
    filled: usize,
    outcome: StepOutcome,
    has_begun: bool,
    /// It is to take all.
    is_whole: bool,
}

impl Running<'_> {
    /// Does a step, or as much of it as can be done.
    pub(super) async fn step(&self, step: &VectorStep) -> StepOutcome {
        let (Some(from), Some(to)) = (step.from_kind(), step.to_kind()) else {
            return failed(Errno::EINVAL);
        };
        let mut state = State {
            from: Rest::of(from, &step.from, step.flags),
            to: Rest::of(to, &step.to, step.flags),
            room: vec![0; PIECE_BYTES],
            filled: 0,
            outcome: StepOutcome::default(),
            has_begun: false,
            is_whole: step.flags & STEP_WHOLE != 0,
        };
        let done = async {
            let mut worker = self.worker(step).await?;
            self.work(&mut worker, &mut state).await?;
            if step.flags & STEP_DURABLE != 0 {
                self.sync(&state.to).await?;
            }
            Ok::<u64, FileError>(worker.work.value())
        };
        let done = done.await;
        let mut outcome = state.outcome;
        outcome.kept = self.kept.take();
        match done {
            Ok(value) => outcome.value = value,
            Err(error) => outcome.errno = failed(error.errno()).errno,
        }
        outcome
    }

    async fn worker(&self, step: &VectorStep) -> Result<Worker, FileError> {
        let argument = self.argument(step).await?;
        let Some((function, op)) = function_of(step) else {
            return self.program(&argument, step.count).await;
        };
        let work = Work::within(function, &argument, step.count, self.memory_bytes);
        Ok(Worker {
            work: work.map_err(errno_of)?,
            op,
            turn_bytes: turn_bytes(function),
            parts: Parts::of(PAGE_BYTES as u64),
            moved: Parts::of(PAGE_BYTES as u64),
        })
    }

    /// What a step's function is given besides bytes.
    async fn argument(&self, step: &VectorStep) -> Result<Cow<'_, [u8]>, FileError> {
        let bytes = (step.argument_bytes as usize).min(ARGUMENT_BYTES_MAX);
        if bytes == 0 {
            return Ok(Cow::default());
        }
        if let Some(argument) = self.arguments.of(step) {
            return Ok(Cow::Borrowed(argument));
        }
        let mut argument = vec![0; bytes];
        self.call.carry(bytes).await;
        let copied = (self.call).copy_out(step.argument_offset as usize, &mut argument);
        copied.map_err(|_| Errno::EFAULT)?;
        Ok(Cow::Owned(argument))
    }

    /// The program in the file that the command names, as it is now.
    async fn program(&self, argument: &[u8], count: u32) -> Result<Worker, FileError> {
        let place = VectorPlace::of_file(self.call.command.file_handle(), 0, u64::MAX);
        let mut rest = Rest::of(PlaceKind::File, &place, 0);
        let mut bytes = vec![0; PROGRAM_BYTES_MAX + 1];
        let mut count_read = 0;
        while count_read < bytes.len() {
            match self.take(&mut rest, &mut bytes[count_read..]).await? {
                0 => break,
                more => count_read += more,
            }
        }
        // One that is too long is refused as such.
        let program = &bytes[..count_read];
        let cpu = &self.call.at.core.cpu;
        let work = cpu.work_counted(Op::ProgramFuel, || {
            let begun = Work::of_program(program, argument, count);
            begun.map_or_else(
                |refused| (0, Err(refused)),
                |mut work| ((work.take_fuel() / FUEL_UNIT) as u32, Ok(work)),
            )
        });
        Ok(Worker {
            work: work.map_err(errno_of)?,
            op: Op::ProgramFuel,
            turn_bytes: TURN_BYTES,
            parts: Parts::of(FUEL_UNIT),
            moved: Parts::of(PAGE_BYTES as u64),
        })
    }

    async fn work(&self, worker: &mut Worker, state: &mut State) -> Result<(), FileError> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = self.take(&mut state.from, &mut piece).await?;
            if state.is_whole && count < piece.len() && state.from.bytes > 0 {
                return Err(Errno::ENODATA.into());
            }
            if count == 0 {
                break;
            }
            state.outcome.taken += count as u64;
            let mut rest = &piece[..count];
            while !rest.is_empty() {
                let step = self.turn(worker, state, Some(rest)).await?;
                rest = &rest[step.taken..];
            }
            // What was made of a piece is there before the next one is taken.
            self.flush(state).await?;
        }
        loop {
            if self.turn(worker, state, None).await? == Step::default() {
                return self.flush(state).await;
            }
        }
    }

    /// Has the function take some of its input, or finish, in a turn; gives what it did.
    async fn turn(
        &self,
        worker: &mut Worker,
        state: &mut State,
        input: Option<&[u8]>,
    ) -> Result<Step, FileError> {
        if self.call.is_revoked() || self.call.queue_closes() {
            return Err(Errno::EACCES.into());
        }
        if state.room.len() - state.filled < TURN_BYTES {
            self.flush(state).await?;
        }
        let core = self.call.at.core;
        let asked_ns = core.cpu.now();
        let turn = core.state::<FileCore>().turns.take(self.call.host()).await;
        let begun_ns = core.cpu.now();
        let room = &mut state.room[state.filled..][..worker.turn_bytes];
        let mut parts = worker.parts;
        let step = core.cpu.work_in_parts(worker.op, &mut parts, || {
            let (more, step) = worker.once(input, room);
            (more, input.is_none(), step)
        });
        worker.parts = parts;
        let step = step.map_err(errno_of)?;
        let pages = worker.moved.ended(moved_bytes(&step), input.is_none());
        if let Some(memory) = core.memory() {
            let moved_ns = memory.moved_ns(&core.cpu, pages as u32);
            core.cpu.sleep_until(moved_ns).await;
        }
        let (waited, computed) = (&self.waited_ns, &self.computed_ns);
        waited.set(waited.get() + begun_ns - asked_ns);
        computed.set(computed.get() + core.cpu.now() - begun_ns);
        state.filled += step.made;
        // Whatever else the core has to do comes first, and then one other vector at most.
        core.cpu.yield_now().await;
        drop(turn);
        Ok(step)
    }

    async fn flush(&self, state: &mut State) -> Result<(), FileError> {
        let made = std::mem::take(&mut state.filled);
        if made == 0 {
            return Ok(());
        }
        let at = self.put(&mut state.to, &state.room[..made]).await?;
        state.outcome.made += made as u64;
        if !std::mem::replace(&mut state.has_begun, true) {
            state.outcome.offset = at;
        }
        Ok(())
    }
}

impl Worker {
    /// Works once; gives the bytes that it is charged for, too, or a program's instructions.
    fn once(&mut self, input: Option<&[u8]>, room: &mut [u8]) -> (u64, Result<Step, Refused>) {
        let done = match input {
            Some(input) => {
                let bytes = input.len().min(self.turn_bytes);
                self.work.step(&input[..bytes], room)
            }
            None => self.work.finish(room),
        };
        let more = match self.op {
            Op::ProgramFuel => self.work.take_fuel(),
            _ => done.as_ref().map_or(0, moved_bytes),
        };
        (more, done)
    }
}

/// Bytes that a turn is charged for, and that pass the drive's memory.
fn moved_bytes(step: &Step) -> u64 {
    step.taken.max(step.made) as u64
}

/// Most bytes that a function takes, or makes, in one turn: what it does with them takes a few microseconds, as a read that comes meanwhile
/// has several turns of its own to wait for.
fn turn_bytes(function: Function) -> usize {
    match function {
        Function::Compress(Codec::Zlib | Codec::Zstd) => 1 << 10,
        Function::Decompress(Codec::Zlib | Codec::Zstd) => 2 << 10,
        Function::Compress(Codec::Lz4) | Function::Decompress(Codec::Lz4) => 4 << 10,
        _ => TURN_BYTES,
    }
}

/// The function of a step, and what 4 KiB of it are charged as; none of a program. Zstandard is charged as zlib.
pub(super) fn function_of(step: &VectorStep) -> Option<(Function, Op)> {
    let codec = || {
        Some(match step.codec()? {
            VectorCodec::Zlib => (Codec::Zlib, Op::DeflatePage, Op::InflatePage),
            VectorCodec::Lz4 => (Codec::Lz4, Op::CompressPage, Op::DecompressPage),
            VectorCodec::Zstd => (Codec::Zstd, Op::DeflatePage, Op::InflatePage),
        })
    };
    Some(match step.function()? {
        VectorFunction::Copy => (Function::Copy, Op::DriveCopy),
        VectorFunction::Checksum => (Function::Checksum, Op::ChecksumPage),
        VectorFunction::Compress => {
            let (codec, compress, _) = codec()?;
            (Function::Compress(codec), compress)
        }
        VectorFunction::Decompress => {
            let (codec, _, expand) = codec()?;
            (Function::Decompress(codec), expand)
        }
        VectorFunction::Nearest => (Function::Nearest, Op::DistancePage),
        VectorFunction::Search => (Function::Search, Op::SearchPage),
        VectorFunction::Program => return None,
    })
}

fn errno_of(refused: Refused) -> Errno {
    Errno::of_number(refused.errno()).unwrap_or(Errno::EINVAL)
}

/// The number that says it.
fn failed(errno: Errno) -> StepOutcome {
    StepOutcome::failed(errno.number().unsigned_abs())
}
