//! A page that a client does not hold, on its way to a slot.

use wharf_wire::pin::{Access, Unpin};

use crate::pins::Sent;
use crate::scala::home::Home;
use crate::span::Span;

/// A missing page and its slot.
pub(super) struct Entry {
    pub(super) span: Span,
    pub(super) slot: u32,
    pub(super) home: Home,
    pub(super) access: Access,
    pub(super) leaving: Option<Unpin>,
}

/// A command that timed out, with the data of pages to be overwritten.
pub struct Late(pub(super) Sent, pub(super) Vec<(Entry, Option<Box<[u8]>>)>);
