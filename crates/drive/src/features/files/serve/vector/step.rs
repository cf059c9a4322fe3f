//! One step: its function works on piece after piece.

use wharf_compute::{ARGUMENT_BYTES_MAX, Function, Step, Work};
use wharf_files::{Errno, FileError};
use wharf_runtime::Op;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{STEP_DURABLE, STEP_WHOLE, StepOutcome, VectorFunction, VectorStep};

use super::super::super::tasks::FileCore;
use super::places::Rest;
use super::running::{PIECE_BYTES, Running};

/// Most bytes that a function takes, or makes, in one turn.
const TURN_BYTES: usize = 8 << 10;

/// A function, and what it is charged as.
struct Worker {
    work: Work,
    op: Op,
    /// Bytes that are not a page yet.
    owed: usize,
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
        let (Some(function), Some(from), Some(to)) =
            (step.function(), step.from_kind(), step.to_kind())
        else {
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
            let mut worker = self.worker(function, step).await?;
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

    async fn worker(&self, function: VectorFunction, step: &VectorStep) -> Result<Worker, Errno> {
        let bytes = (step.argument_bytes as usize).min(ARGUMENT_BYTES_MAX);
        let mut argument = vec![0; bytes];
        if bytes > 0 {
            self.call.carry(bytes).await;
            let copied = (self.call).copy_out(step.argument_offset as usize, &mut argument);
            copied.map_err(|_| Errno::EFAULT)?;
        }
        let (function, op) = function_of(function);
        let work = Work::new(function, &argument, step.count);
        Ok(Worker {
            work: work.map_err(|_| Errno::EINVAL)?,
            op,
            owed: 0,
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
            if self.call.is_revoked() || self.call.queue_closes() {
                return Err(Errno::EACCES.into());
            }
            state.outcome.taken += count as u64;
            let mut rest = &piece[..count];
            while !rest.is_empty() {
                let taken = self.turn(worker, state, Some(rest)).await?;
                rest = &rest[taken..];
            }
            // What was made of a piece is there before the next one is taken.
            self.flush(state).await?;
        }
        loop {
            let filled = state.filled;
            self.turn(worker, state, None).await?;
            if state.filled == filled {
                return self.flush(state).await;
            }
        }
    }

    /// Has the function take some of its input, or finish, in a turn; gives how much it took.
    async fn turn(
        &self,
        worker: &mut Worker,
        state: &mut State,
        input: Option<&[u8]>,
    ) -> Result<usize, FileError> {
        if state.room.len() - state.filled < TURN_BYTES {
            self.flush(state).await?;
        }
        let core = self.call.at.core;
        let asked_ns = core.cpu.now();
        let turn = core.state::<FileCore>().turns.take().await;
        let begun_ns = core.cpu.now();
        let room = &mut state.room[state.filled..][..TURN_BYTES];
        let step = core
            .cpu
            .work_counted(worker.op, || worker.once(input, room));
        let step = step.map_err(|refused| match refused {
            wharf_compute::Refused::Damaged => Errno::EBADMSG,
            _ => Errno::EINVAL,
        })?;
        let pages = step.taken.max(step.made).div_ceil(PAGE_BYTES) as u32;
        if let Some(memory) = core.memory() {
            let moved_ns = memory.moved_ns(&core.cpu, pages);
            core.cpu.sleep_until(moved_ns).await;
        }
        let (waited, computed) = (&self.waited_ns, &self.computed_ns);
        waited.set(waited.get() + begun_ns - asked_ns);
        computed.set(computed.get() + core.cpu.now() - begun_ns);
        state.filled += step.made;
        drop(turn);
        // Whatever else the core has to do comes first.
        core.cpu.yield_now().await;
        Ok(step.taken)
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
    /// Works once; gives the pages that it is charged for, too.
    fn once(
        &mut self,
        input: Option<&[u8]>,
        room: &mut [u8],
    ) -> (u32, Result<Step, wharf_compute::Refused>) {
        let done = match input {
            Some(input) => self.work.step(&input[..input.len().min(TURN_BYTES)], room),
            None => self.work.finish(room).map(|made| Step { taken: 0, made }),
        };
        let bytes = done.map_or(0, |step| step.taken.max(step.made));
        // The last part of a page is charged as a whole one, at the end.
        self.owed += bytes;
        let pages = match input {
            Some(_) => self.owed / PAGE_BYTES,
            None => self.owed.div_ceil(PAGE_BYTES),
        };
        self.owed = self.owed.saturating_sub(pages * PAGE_BYTES);
        (pages as u32, done)
    }
}

/// The function of a number, and what 4 KiB of it are charged as.
fn function_of(function: VectorFunction) -> (Function, Op) {
    match function {
        VectorFunction::Copy => (Function::Copy, Op::DriveCopy),
        VectorFunction::Checksum => (Function::Checksum, Op::ChecksumPage),
        VectorFunction::Compress => (Function::Compress, Op::DeflatePage),
        VectorFunction::Decompress => (Function::Decompress, Op::InflatePage),
        VectorFunction::Nearest => (Function::Nearest, Op::DistancePage),
        VectorFunction::Search => (Function::Search, Op::SearchPage),
    }
}

/// The number that says it.
fn failed(errno: Errno) -> StepOutcome {
    StepOutcome::failed(errno.number().unsigned_abs())
}
