//! A vector at work: its buffers, and what its time goes to.

use std::cell::{Cell, RefCell};

use wharf_wire::file::{VECTOR_BUFFERS, VectorHead};

use super::super::Call;

/// Most bytes that are read, or kept to be written, at once.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A vector at work.
pub(super) struct Running<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) buffers: Buffers,
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
    pub(super) fn new(call: &'a Call<'a>, head: &VectorHead, waited_ns: u64) -> Running<'a> {
        Running {
            call,
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
