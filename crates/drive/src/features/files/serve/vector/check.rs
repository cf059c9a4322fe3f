//! What is checked of a vector before anything of it is done.

use wharf_compute::{
    ARGUMENT_BYTES_MAX, COUNT_MAX, PROGRAM_BYTES_MAX, PROGRAM_MEMORY_BYTES, PROGRAM_OWN_BYTES,
    PROGRAM_PIECE_BYTES,
};
use wharf_files::vfs::check_range;
use wharf_wire::file::{
    FileHandle, PlaceKind, STEP_DURABLE, STEP_KEEP, STEP_WHOLE, VECTOR_HEAD_BYTES, VectorFunction,
    VectorHead, VectorPlace, VectorStep,
};
use wharf_wire::status::StatusCode;

use super::super::{Call, Refused};
use super::running::{Arguments, PIECE_BYTES};
use super::step::function_of;

/// Bytes that a program takes: itself, its memory, and what it is translated into.
const PROGRAM_BYTES: u64 = (PROGRAM_BYTES_MAX + PROGRAM_MEMORY_BYTES + PROGRAM_OWN_BYTES) as u64;

impl Call<'_> {
    /// Checks all that a vector says; gives the bytes of memory that it needs.
    pub(super) fn check_vector(
        &self,
        head: &VectorHead,
        steps: &[VectorStep],
    ) -> Result<u64, Refused> {
        let (mut most, left) = (0, self.left_for_functions(head));
        for step in steps {
            self.check_step(head, step)?;
            most = most.max(needed(step, left));
        }
        let arguments = Arguments::place(steps).len() as u64;
        let bytes = fixed_bytes(head) + arguments + most;
        match bytes <= self.at.firmware.compute().bytes() {
            true => Ok(bytes),
            false => Err(StatusCode::InvalidField.into()),
        }
    }

    /// Bytes that there are for the function of a step, and its argument.
    pub(super) fn left_for_functions(&self, head: &VectorHead) -> u64 {
        let all = self.at.firmware.compute().bytes();
        all.saturating_sub(fixed_bytes(head))
    }

    fn check_step(&self, head: &VectorHead, step: &VectorStep) -> Result<(), Refused> {
        let function = step.function().ok_or(StatusCode::InvalidField)?;
        let (from, to) = (step.from_kind(), step.to_kind());
        let (from, to) = (from.zip(to)).ok_or(StatusCode::InvalidField)?;
        if !self.is_argument(function, step)
            || step.flags & !(STEP_DURABLE | STEP_KEEP | STEP_WHOLE) != 0
        {
            return Err(StatusCode::InvalidField.into());
        }
        if function == VectorFunction::Program {
            self.handle()?;
        }
        self.check_place(head, from, &step.from)?;
        self.check_place(head, to, &step.to)?;
        let is_of_file = matches!(to, PlaceKind::File | PlaceKind::End);
        let keeps = step.flags & STEP_KEEP != 0;
        let names_file = from == PlaceKind::File || to == PlaceKind::File;
        if keeps && !(names_file && self.at.firmware.near().is_on()) {
            return Err(StatusCode::InvalidField.into());
        }
        if step.flags & STEP_DURABLE != 0 && !is_of_file {
            return Err(StatusCode::InvalidField.into());
        }
        Ok(())
    }

    /// Whether what a function is given besides bytes has a meaning.
    fn is_argument(&self, function: VectorFunction, step: &VectorStep) -> bool {
        let (at, bytes) = (step.argument_offset, step.argument_bytes as usize);
        let is_there = || self.is_within_host(at.into(), bytes as u64);
        match function {
            VectorFunction::Nearest => {
                let is_whole = bytes.is_multiple_of(4);
                let is_short = (1..=ARGUMENT_BYTES_MAX).contains(&bytes);
                is_whole && is_short && (1..=COUNT_MAX).contains(&step.count) && is_there()
            }
            VectorFunction::Search => {
                let is_short = (1..=ARGUMENT_BYTES_MAX).contains(&bytes);
                is_short && step.count <= COUNT_MAX && is_there()
            }
            VectorFunction::Program if bytes > 0 => bytes <= PROGRAM_PIECE_BYTES && is_there(),
            VectorFunction::Program => at == 0,
            VectorFunction::Compress | VectorFunction::Decompress => {
                (at, bytes) == (0, 0) && step.codec().is_some()
            }
            VectorFunction::Copy | VectorFunction::Checksum => (at, bytes, step.count) == (0, 0, 0),
        }
    }

    fn check_place(
        &self,
        head: &VectorHead,
        kind: PlaceKind,
        place: &VectorPlace,
    ) -> Result<(), Refused> {
        let is_right = match kind {
            PlaceKind::Nothing => *place == VectorPlace::default(),
            PlaceKind::File => {
                self.known(FileHandle::from_raw(place.name))?;
                check_range(place.offset, place.bytes)?;
                true
            }
            PlaceKind::End => {
                self.known(FileHandle::from_raw(place.name))?;
                place.offset == 0
            }
            PlaceKind::Buffer => {
                let bytes = head.buffer_bytes.get(place.name as usize);
                let is_one = usize::try_from(place.name).is_ok();
                let end = place.offset.checked_add(place.bytes);
                is_one
                    && bytes
                        .zip(end)
                        .is_some_and(|(all, end)| end <= (*all).into())
            }
            PlaceKind::Host => place.name == 0 && self.is_within_host(place.offset, place.bytes),
        };
        match is_right {
            true => Ok(()),
            false => Err(StatusCode::InvalidField.into()),
        }
    }

    /// Whether bytes of the command's buffer are behind all steps.
    fn is_within_host(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes);
        offset >= VECTOR_HEAD_BYTES as u64
            && end.is_some_and(|end| end <= self.buffer_bytes() as u64)
    }
}

/// Bytes that a vector takes whatever its functions are.
fn fixed_bytes(head: &VectorHead) -> u64 {
    let buffers: u64 = head.buffer_bytes.iter().map(|b| u64::from(*b)).sum();
    buffers + 2 * PIECE_BYTES as u64
}

/// Bytes that the function of a step keeps, of `most`.
fn needed(step: &VectorStep, most: u64) -> u64 {
    let kept = match (function_of(step), step.function()) {
        (Some((function, _)), _) => function.memory_bytes(step.count, most),
        (None, Some(VectorFunction::Program)) => PROGRAM_BYTES,
        (None, _) => 0,
    };
    u64::from(step.argument_bytes) + kept
}
