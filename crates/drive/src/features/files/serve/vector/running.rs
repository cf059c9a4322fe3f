//! A vector at work: its buffers, arguments, and what its time goes to.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use wharf_wire::file::{VECTOR_BUFFERS, VectorHead, VectorStep};
use wharf_wire::status::StatusCode;

use super::super::Call;

/// Most bytes that are read, or kept to be written, at once.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A vector at work.
pub(super) struct Running<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) buffers: Buffers,
    pub(super) arguments: Arguments,
    /// Bytes of memory that the function of a step may have.
    pub(super) memory_bytes: u64,
    /// Bytes of results that went to the host's buffer.
    pub(super) given: Cell<u32>,
    /// Pages that the drive's cache has, of those that the step took and put so far.
    pub(super) kept: Cell<u32>,
    /// What its time went to, in nanoseconds.
    pub(super) waited_ns: Cell<u64>,
    pub(super) computed_ns: Cell<u64>,
    pub(super) moved_ns: Cell<u64>,
}

/// The processing buffers of a vector. They are made for it, so nothing of another one is in them.
pub(super) struct Buffers(pub(super) [RefCell<Vec<u8>>; VECTOR_BUFFERS]);

/// Arguments of several steps that lie together, which cross the link at once: each by itself would take a way there and back.
pub(super) struct Arguments {
    /// Where in the command's buffer they begin.
    at: usize,
    bytes: Vec<u8>,
}

/// Most bytes from the first of them to the last.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;

impl Arguments {
    /// Where those of a vector's steps lie in the command's buffer; nowhere if there is but one, or they are too many bytes.
    pub(super) fn place(steps: &[VectorStep]) -> Range<usize> {
        let has = || steps.iter().filter(|step| step.argument_bytes > 0);
        let begins = |step: &VectorStep| step.argument_offset as usize;
        let ends = |step: &VectorStep| begins(step) + step.argument_bytes as usize;
        let first = has().map(begins).min().unwrap_or(0);
        let end = has().map(ends).max().unwrap_or(0);
        match has().count() {
            2.. if end - first <= ARGUMENTS_BYTES_MAX => first..end,
            _ => 0..0,
        }
    }

    /// Fetches those of a vector's steps.
    pub(super) async fn fetch(
        call: &Call<'_>,
        steps: &[VectorStep],
    ) -> Result<Arguments, StatusCode> {
        let place = Arguments::place(steps);
        let mut bytes = vec![0; place.len()];
        if !place.is_empty() {
            call.carry(bytes.len()).await;
            call.copy_out(place.start, &mut bytes)?;
        }
        Ok(Arguments {
            at: place.start,
            bytes,
        })
    }

    /// That of a step, if it is one of them.
    pub(super) fn of(&self, step: &VectorStep) -> Option<&[u8]> {
        let at = (step.argument_offset as usize).checked_sub(self.at)?;
        self.bytes.get(at..)?.get(..step.argument_bytes as usize)
    }
}

impl Buffers {
    fn new(head: &VectorHead) -> Buffers {
        Buffers(
            head.buffer_bytes
                .map(|bytes| RefCell::new(vec![0; bytes as usize])),
        )
    }
}

impl<'a> Running<'a> {
    /// One that has waited for its memory so long.
    pub(super) fn new(
        call: &'a Call<'a>,
        head: &VectorHead,
        arguments: Arguments,
        waited_ns: u64,
    ) -> Running<'a> {
        Running {
            call,
            arguments,
            buffers: Buffers::new(head),
            memory_bytes: call.left_for_functions(head),
            given: Cell::new(0),
            kept: Cell::new(0),
            waited_ns: Cell::new(waited_ns),
            computed_ns: Cell::new(0),
            moved_ns: Cell::new(0),
        }
    }
}
