//! How a payload meets a frame.

use wharf_runtime::{Cpu, Op};

use crate::payload::{From, Into, Payload};
use crate::span::Span;
use crate::tri::table::Frames;

/// How a payload meets a frame.
pub(super) trait Copied: Payload {
    /// Copies a span from or to a frame that the client has pinned.
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span);
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span) {
        cpu.work(Op::CopyPage, || frames.copy_out(cpu, frame, span, self.0));
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(&mut self, cpu: &Cpu, frames: &Frames, frame: u32, span: &Span) {
        cpu.work(Op::CopyPage, || frames.copy_in(cpu, frame, span, self.0));
    }
}
