//! The pages that a request waits for.
//!
//! They are copied as they come, in any order, and left at once. What is left when a request fails, or
//! is dropped while it waits, is left too: a frame that it was to fill is abandoned.

use crate::error::IoError;
use crate::span::Span;
use crate::tri::copied::Copied;
use crate::tri::holder::{Holder, OpenPage, Part};
use crate::tri::tickets::Progress;

/// The pages that a request waits for, and those to be tried again. Left when dropped.
pub(super) struct OpenPages<'a> {
    holder: &'a Holder,
    /// The pages.
    pub(super) pages: Vec<OpenPage>,
    /// Pages to be tried again.
    pub(super) again: Vec<Span>,
}

impl<'a> OpenPages<'a> {
    /// None yet.
    pub(super) fn new(holder: &'a Holder) -> OpenPages<'a> {
        OpenPages {
            holder,
            pages: holder.spare.borrow_mut().pop().unwrap_or_default(),
            again: Vec::new(),
        }
    }

    /// The first page from `from` on that this request can do something about, and what it came to.
    fn next_answered(&self, from: usize) -> Option<(usize, Progress)> {
        let tickets = self.holder.tickets.borrow();
        (from..).zip(&self.pages[from..]).find_map(|(at, page)| {
            let progress = tickets.get(page.ticket).progress;
            let is_answered = match progress {
                Progress::Asked => false,
                Progress::ToFill { .. } => page.part == Part::Fills,
                _ => true,
            };
            is_answered.then_some((at, progress))
        })
    }

    /// Whether this request can do something now.
    pub(super) fn any_answered(&self) -> bool {
        self.next_answered(0).is_some()
    }

    /// Copies every page that is there, and leaves it. Gives the hits.
    pub(super) fn copy_answered<P: Copied>(&mut self, payload: &mut P) -> Result<u64, IoError> {
        let holder = self.holder;
        let mut hits = 0;
        let mut from = 0;
        while let Some((at, progress)) = self.next_answered(from) {
            let page = self.pages[at];
            match progress {
                Progress::Here { frame, hit } => {
                    self.copy(&page, frame, payload);
                    // Who waits for a page that is on its way finds it in the cache, at last.
                    hits += u64::from(hit || page.part == Part::Joins);
                }
                Progress::ToFill { frame } => {
                    self.copy(&page, frame, payload);
                    holder.filled(page.ticket, frame);
                }
                Progress::Abandoned => self.again.push(page.span),
                Progress::Failed(error) => return Err(error),
                Progress::Asked | Progress::Written => unreachable!("a pin was answered"),
            }
            self.pages.swap_remove(at);
            // The last one is there now.
            from = at;
            holder.leave(page.ticket, false);
        }
        Ok(hits)
    }

    fn copy<P: Copied>(&self, page: &OpenPage, frame: u32, payload: &mut P) {
        let holder = self.holder;
        payload.copy(&holder.cpu, &holder.shared.frames, frame, &page.span);
        let asked = holder.tickets.borrow().get(page.ticket).asked;
        if let (true, Some((_, place))) = (P::WRITES, asked.pin) {
            holder.private.borrow_mut()[asked.manager as usize].set_wrote(place);
        }
    }
}

impl Drop for OpenPages<'_> {
    fn drop(&mut self) {
        // Empty, unless the request fails or is dropped while it waits.
        for page in self.pages.drain(..) {
            let fills = page.part == Part::Fills;
            self.holder.leave(page.ticket, fills);
        }
        self.holder
            .spare
            .borrow_mut()
            .push(std::mem::take(&mut self.pages));
    }
}
