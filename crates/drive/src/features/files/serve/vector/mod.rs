//! Vectors: functions of bytes of files.
//!
//! 1. The head and the steps are copied out of the buffer, once, and all of them are checked (`check.rs`).
//! 2. The vector waits until there is memory for it.
//! 3. Each step takes pieces from its place, has its function work on parts of a piece, each in a turn of its own, and puts what is
//!    made in its other place (`step.rs`, `places.rs`).
//! 4. The answer takes the place of the steps.
//!
//! `running.rs` is what a vector has while it is at work.

mod check;
mod places;
mod running;
mod step;

use wharf_wire::file::{STEPS_MAX, StepOutcome, VECTOR_HEAD_BYTES, VectorHead, VectorStep};
use wharf_wire::status::StatusCode;
use zerocopy::{FromBytes, IntoBytes};

use super::super::tasks::FileCore;
use super::{COMMAND_BYTES, Call, Done, Served};
use running::{Arguments, Running};

pub(super) async fn serve(call: &Call<'_>) -> Served {
    let compute = call.at.firmware.compute();
    if compute.bytes() == 0 {
        return Err(StatusCode::InvalidOpcode.into());
    }
    let core = call.at.core;
    let own = core.state::<FileCore>();
    let counted = own.turns.count(call.host());
    let (head, steps) = call.vector().await?;
    let bytes = call.check_vector(&head, &steps)?;
    let begun_ns = core.cpu.now();
    let _memory = compute.take(call.host(), bytes).await;
    let waited_ns = core.cpu.now() - begun_ns;
    let arguments = Arguments::fetch(call, &steps).await?;
    let running = Running::new(call, &head, arguments, waited_ns);
    let mut outcomes = [StepOutcome::default(); STEPS_MAX];
    let mut done = 0;
    for step in &steps {
        let outcome = running.step(step).await;
        outcomes[done] = outcome;
        if outcome.errno != 0 {
            break;
        }
        done += 1;
    }
    let mut answer = head;
    answer.steps = done as u32;
    answer.waited_ns = running.waited_ns.get();
    answer.computed_ns = running.computed_ns.get();
    answer.moved_ns = running.moved_ns.get();
    answer.queued = counted.others();
    let told = &outcomes[..steps.len()];
    let answer = [answer.as_bytes(), told.as_bytes()].concat();
    call.copy_in(&answer)?;
    Ok(Done {
        result: done as u64,
        bytes: answer.len() as u32 + running.given.get(),
    })
}

impl Call<'_> {
    /// The head and the steps of a vector, copied.
    async fn vector(&self) -> Result<(VectorHead, Vec<VectorStep>), StatusCode> {
        let mut bytes = [0; VECTOR_HEAD_BYTES];
        if self.buffer_bytes() < bytes.len() {
            return Err(StatusCode::InvalidField);
        }
        const HEAD: usize = size_of::<VectorHead>();
        self.carry(COMMAND_BYTES as usize + HEAD).await;
        self.copy_out(0, &mut bytes[..HEAD])?;
        let head = VectorHead::read_from_bytes(&bytes[..HEAD]);
        let head = head.expect("it has the length of one");
        let count = head.steps as usize;
        if head.version != VectorHead::VERSION || !(1..=STEPS_MAX).contains(&count) {
            return Err(StatusCode::InvalidField);
        }
        let steps_bytes = count * size_of::<VectorStep>();
        self.carry(steps_bytes).await;
        let all = &mut bytes[..steps_bytes];
        self.copy_out(HEAD, all)?;
        let each = all.chunks_exact(size_of::<VectorStep>());
        let steps = each.map(|step| VectorStep::read_from_bytes(step).expect("as long as one"));
        Ok((head, steps.collect()))
    }
}
