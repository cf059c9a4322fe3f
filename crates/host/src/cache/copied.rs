//! How a payload meets a frame.

use crate::cache::Section;
use crate::payload::{From, Into, Payload};
use crate::span::Span;

/// How a payload meets a frame.
pub trait Copied: Payload {
    /// Copies a span from or to a frame that is ready (and, for a write, named by no command).
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32);
}

impl Copied for Into<'_> {
    #[inline]
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32) {
        let data = &section.data(frame)[span.in_page()];
        self.0[span.in_payload()].copy_from_slice(data);
    }
}

impl Copied for From<'_> {
    #[inline]
    fn copy(&mut self, span: &Span, section: &mut Section<'_>, frame: u32) {
        let data = &mut section.data_mut(frame)[span.in_page()];
        data.copy_from_slice(&self.0[span.in_payload()]);
    }
}

/// The payload of a flush, which has no spans of its own.
pub(super) struct Nothing;

impl Payload for Nothing {
    const WRITES: bool = false;

    fn bytes(&self) -> usize {
        0
    }
}

impl Copied for Nothing {
    fn copy(&mut self, _: &Span, _: &mut Section<'_>, _: u32) {
        unreachable!("a flush only writes")
    }
}
