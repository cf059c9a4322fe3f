//! Write-back: dirty pages on their way to the drives.
//!
//! Any CPU may write any page back, side by side with others: a page is claimed by who takes it from
//! dirty to write-back while it has the frame's word.
//!
//! 1. The index gives the next dirty page. It is pinned, its word is taken, and if it is still dirty and
//!    nobody is writing it, it is claimed; its tag goes from dirty to write-back in one step.
//! 2. Neighbours are gathered into a run, which becomes one transfer.
//! 3. A flush writes what is dirty when it comes by, page after page, and then waits for all that is
//!    in write-back, whoever sent it. It ends, although others go on to dirty pages, because it comes by
//!    once.
//!
//! A writer waits while its page is being written: drives and arrays that compute checksums or parity
//! need pages that do not change meanwhile.

use std::rc::Rc;

use crate::error::IoError;
use crate::errseq::ErrSeqCursor;
use crate::key::PageKey;
use crate::run::Run;
use crate::scale::backing::Backing;
use crate::scale::frame::{DIRTY, STUCK, WRITEBACK};
use crate::scale::index::{Index, Tag};
use crate::scale::local::{Local, Pinned};
use crate::scale::transfer::Outcome;
use crate::volume::Transfer;

/// Pages of a file being gathered, and the transfers sent.
pub(super) struct Writing {
    file: u32,
    run: Run,
    pub(super) outcomes: Vec<Outcome>,
    /// Pages claimed.
    pub(super) pages: u64,
}

impl Writing {
    /// Nothing yet of `file`.
    pub(super) fn of(file: u32) -> Writing {
        Writing {
            file,
            run: Run::default(),
            outcomes: Vec::new(),
            pages: 0,
        }
    }
}

/// What to do with a page that somebody else is writing back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// Leave it to them.
    Skip,
    /// Wait, and write what has come since.
    Wait,
}

impl<I: Index, B: Backing> Local<I, B> {
    /// Begins to write the dirty pages of `first..=last`, `most` at most. Gives the page after the
    /// last one seen; `None` if there are no more.
    ///
    /// # Errors
    /// If a page is with a drive that does not answer. The others are written all the same.
    pub(super) async fn write_range(
        self: &Rc<Self>,
        writing: &mut Writing,
        (first, last): (u64, u64),
        most: u64,
        busy: Busy,
    ) -> (Option<u64>, Result<(), IoError>) {
        let (cpu, file) = (&self.cpu, writing.file);
        let index = self.shared.index_of(file);
        let (mut at, before) = (first, writing.pages);
        let mut outcome = Ok(());
        let next = loop {
            if writing.pages - before >= most {
                break Some(at);
            }
            let found = index.next_tagged(cpu, at, Tag::Dirty);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                break None;
            };
            at = page + 1;
            if !writing.run.takes(page) {
                self.send(writing).await;
            }
            let key = PageKey::new(file, page);
            if self.shared.frames.try_pin(cpu, frame, key) {
                let pinned = Pinned::of(self, frame);
                outcome = outcome.and(self.claim(writing, key, &pinned, busy).await);
            }
        };
        self.send(writing).await;
        (next, outcome)
    }

    /// Sends what has been gathered.
    async fn send(self: &Rc<Self>, writing: &mut Writing) {
        if !writing.run.frames.is_empty() {
            let outcome = self.submit(Transfer::Write, writing.file, &mut writing.run);
            writing.outcomes.push(outcome);
            self.wait_for_room().await;
        }
    }

    /// Takes one page from dirty to write-back, if nobody else does, and adds it to the run.
    async fn claim(
        self: &Rc<Self>,
        writing: &mut Writing,
        key: PageKey,
        pinned: &Pinned<'_, I, B>,
        busy: Busy,
    ) -> Result<(), IoError> {
        let (cpu, shared, frame) = (&self.cpu, &self.shared, pinned.frame);
        loop {
            shared.frames.lock(cpu, frame);
            let state = shared.frames.state(frame);
            let is_claimed = state & (DIRTY | WRITEBACK) == DIRTY;
            if is_claimed {
                // The state before the tags: who finds the page by its new tag must wait for it.
                shared.frames.change(cpu, frame, WRITEBACK, DIRTY);
                self.retag(key, Some(Tag::Writeback), Some(Tag::Dirty));
            }
            shared.frames.unlock(frame);
            if is_claimed {
                self.count(&shared.dirty, &self.dirty, -1);
                self.count(&shared.writeback, &self.writeback, 1);
                writing.run.push(key.page(), frame);
                writing.pages += 1;
                return Ok(());
            }
            if state & DIRTY == 0 || busy == Busy::Skip {
                return Ok(());
            }
            // Those who have the page may wait for one of the run.
            self.send(writing).await;
            self.wait_written(frame, key).await?;
        }
    }

    /// Waits until a frame that the caller has pinned is not in write-back.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    pub(super) async fn wait_written(&self, frame: u32, key: PageKey) -> Result<(), IoError> {
        let must_wait = |state| state & WRITEBACK != 0 && state & STUCK == 0;
        self.wait_page(frame, key, must_wait).await
    }

    /// Writes the dirty pages `first..=last` of a file, and waits for all of the range that is in write-back.
    ///
    /// # Errors
    /// The first error of a transfer; a page that the drive holds and does not answer for.
    pub async fn write_and_wait(
        self: &Rc<Self>,
        file: u32,
        (first, last): (u64, u64),
    ) -> Result<(), IoError> {
        let mut writing = Writing::of(file);
        let (_, begun) = self
            .write_range(&mut writing, (first, last), u64::MAX, Busy::Wait)
            .await;
        let sent = self.wait_for(&writing.outcomes).await;
        let (cpu, shared) = (&self.cpu, &self.shared);
        let (mut at, mut outcome) = (first, begun.and(sent));
        loop {
            let found = shared.index_of(file).next_tagged(cpu, at, Tag::Writeback);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                return outcome;
            };
            at = page + 1;
            let key = PageKey::new(file, page);
            if shared.frames.try_pin(cpu, frame, key) {
                let _pinned = Pinned::of(self, frame);
                outcome = outcome.and(self.wait_written(frame, key).await);
            }
        }
    }

    /// Makes durable what was written before to the pages `first..=last` of a file, for one who has been told of
    /// earlier failures.
    ///
    /// # Errors
    /// The first error of a transfer; else [`IoError::WriteBack`] if write-backs of the file have failed since.
    pub async fn flush(
        self: &Rc<Self>,
        file: u32,
        range: (u64, u64),
        told: &ErrSeqCursor,
    ) -> Result<(), IoError> {
        let flush = async {
            self.write_and_wait(file, range).await?;
            self.backing.flush(&self.cpu, file).await
        };
        told.report(|| self.shared.failures_of(file), flush).await
    }
}
