//! Pages that come: those that a request misses, and those that are read ahead of it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::design::Touch;
use crate::key::PageKey;
use crate::kit::memory::Reclaims;
use crate::kit::readahead::{Plan, ReadAhead};
use crate::kit::run::Run;
use crate::kit::transfers::Transfers;
use crate::volume::Transfer;

/// How a page enters the cache that nobody waits for yet.
pub(crate) trait Brings: Reclaims {
    /// Pages of a file.
    fn pages_of(&self, file: u32) -> u64;

    /// Whether a page is in the cache.
    fn is_cached(&self, file: u32, page: u64) -> bool;

    /// Gives `frame`, which is free, to a page, for a read that will
    /// [end](super::transfers::Ends::end_read); false if the page has one, and then the frame is
    /// free again. A page that is `untouched` is for no request yet.
    fn bring(&self, frame: u32, key: PageKey, untouched: bool) -> bool;

    /// A frame, which its owner holds, is to be read as well.
    fn keep_for_read(&self, _frame: u32) {}

    /// The use of a page, which is on its way, is to have more read ahead.
    fn mark(&self, frame: u32);

    /// Frames of the cache.
    fn frames(&self) -> u32;

    /// Most pages that one plan reads ahead: none is to fill the cache.
    fn ahead_pages_max(&self) -> u64 {
        u64::from(self.frames() / 4).max(1)
    }
}

/// What a CPU reads. See the module.
pub(crate) struct Reading<P> {
    pages: Rc<P>,
    transfers: Rc<Transfers<P>>,
    /// What this CPU remembers of its readers of each file.
    ahead: RefCell<Vec<ReadAhead>>,
}

impl<P: Brings> Reading<P> {
    /// For so many files; a plan reads so many pages at most.
    pub(crate) fn new(
        pages: &Rc<P>,
        transfers: &Rc<Transfers<P>>,
        files: usize,
        window_pages: u64,
    ) -> Reading<P> {
        let ahead = (0..files).map(|_| ReadAhead::new(window_pages)).collect();
        Reading {
            pages: pages.clone(),
            transfers: transfers.clone(),
            ahead: RefCell::new(ahead),
        }
    }

    /// Does `f` with what is remembered of readers of a file in order.
    #[inline]
    pub(crate) fn ahead<R>(&self, file: u32, f: impl FnOnce(&mut ReadAhead) -> R) -> R {
        f(&mut self.ahead.borrow_mut()[file as usize])
    }

    /// Begins to read a page that was missing, in a request that goes to page `end`, and whose
    /// frame the caller holds, with what is to be read ahead by the plan that is given. Also gives
    /// how many pages of the request were missing.
    pub(crate) fn around(&self, frame: u32, key: PageKey, end: u64) -> (u64, Plan) {
        let (pages, file, page) = (&*self.pages, key.file(), key.page());
        let cached_before = |most: u64| {
            let before = (page.saturating_sub(most)..page).rev();
            let cached = before.take_while(|page| pages.is_cached(file, *page));
            cached.count() as u64
        };
        let plan = self.ahead(file, |ahead| ahead.miss(page, end - page, cached_before));
        pages.keep_for_read(frame);
        if !(plan.first..plan.first + plan.pages).contains(&page) {
            let mut run = Run::default();
            run.push(page, frame);
            self.transfers.submit(Transfer::Read, file, &mut run);
        }
        let missed = 1 + self.read_plan(file, &plan, Some((page, frame)), end);
        (missed, plan)
    }

    /// Begins to read what a plan says and is not cached, as far as there is memory; `own` is a
    /// page that has its frame already. Gives the number of others below page `end`.
    pub(crate) fn read_plan(
        &self,
        file: u32,
        plan: &Plan,
        own: Option<(u64, u32)>,
        end: u64,
    ) -> u64 {
        let pages = &*self.pages;
        let (mut run, mut below, mut memory_left) = (Run::default(), 0, true);
        let most = pages.ahead_pages_max();
        let last = (plan.first + plan.pages.min(most.max(end.saturating_sub(plan.first))))
            .min(pages.pages_of(file));
        for page in plan.first..last {
            let frame = match own {
                Some((own, frame)) if own == page => frame,
                _ if !memory_left || pages.is_cached(file, page) => continue,
                _ => match pages.try_allocate() {
                    None => {
                        memory_left = false;
                        continue;
                    }
                    // Those below are of the request that they are read for, and missed by it.
                    Some(frame) if pages.bring(frame, PageKey::new(file, page), page >= end) => {
                        frame
                    }
                    Some(_) => continue,
                },
            };
            below += u64::from(page < end && own.is_some_and(|(own, _)| own != page));
            if plan.mark == Some(page) {
                pages.mark(frame);
            }
            if !run.takes(page) {
                self.transfers.submit(Transfer::Read, file, &mut run);
            }
            run.push(page, frame);
        }
        self.transfers.submit(Transfer::Read, file, &mut run);
        below
    }
}

/// What a request for `pages` pages came to, of which so many were missing, and so many used for
/// the first time since they were read ahead.
pub(crate) fn touch_of(pages: u64, missed: u64, read_ahead: u64) -> Touch {
    // A page that was missing may have left, and come again, before its turn.
    let hits = pages.saturating_sub(missed + read_ahead);
    Touch {
        pages,
        hits,
        read_ahead_hits: read_ahead.min(pages - hits),
    }
}
