//! The program's side of a request: a buffer that pages are copied to or from.
//!
//! How a page is copied differs from design to design, as their frames do: each has a trait of its own
//! above [`Payload`] for that.

/// What all designs ask of a buffer.
pub trait Payload {
    /// Whether it changes pages.
    const WRITES: bool;

    /// Bytes of the payload.
    fn bytes(&self) -> usize;
}

/// The payload of a read: where the data goes.
pub struct Into<'a>(pub &'a mut [u8]);

impl Payload for Into<'_> {
    const WRITES: bool = false;

    #[inline]
    fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// The payload of a write: the data.
pub struct From<'a>(pub &'a [u8]);

impl Payload for From<'_> {
    const WRITES: bool = true;

    #[inline]
    fn bytes(&self) -> usize {
        self.0.len()
    }
}
