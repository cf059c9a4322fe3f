//! How a payload meets a frame.

use wharf_runtime::Cpu;

use crate::payload::{From, Into, Payload};
use crate::scala::frames::Frames;
use crate::span::Span;

/// What a request does with a page that is in a frame.
pub trait Copied: Payload {
    /// Copies a span; false if another client is in the way. With `alone`, this client has the
    /// frame's word.
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool;

    /// The data of a write.
    fn data(&self, _span: &Span) -> &[u8] {
        &[]
    }
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool {
        let (from, out) = (usize::from(span.from), &mut self.0[span.in_payload()]);
        if alone {
            frames.copy_out_alone(cpu, at.0, at.1, from, out);
            return true;
        }
        frames.copy_out(cpu, at.0, at.1, from, out)
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(
        &mut self,
        cpu: &Cpu,
        frames: &Frames,
        at: (usize, u32),
        span: &Span,
        alone: bool,
    ) -> bool {
        let (from, data) = (usize::from(span.from), &self.0[span.in_payload()]);
        if alone {
            frames.copy_in_alone(cpu, at.0, at.1, from, data);
            frames.set_dirty(cpu, at.0, at.1);
            return true;
        }
        frames.copy_in(cpu, at.0, at.1, from, data)
    }

    fn data(&self, span: &Span) -> &[u8] {
        &self.0[span.in_payload()]
    }
}
