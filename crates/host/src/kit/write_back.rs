//! Write-back: dirty pages of a file on their way to the drives.
//!
//! 1. The index gives the next page to write. It is held, and *claimed*: by what a design has for
//!    that, it goes from dirty to write-back, unless somebody else was faster.
//! 2. Neighbours are gathered into a run, which becomes one transfer. Whoever has to wait for a
//!    page sends the run first: who has that page may be waiting for one of the run.
//! 3. A flush comes by once, and then waits for all of its range that is in write-back, whoever
//!    sent it. So it ends, although others go on to dirty pages.
//!
//! A writer waits while its page is being written: drives and arrays that compute checksums or
//! parity need pages that do not change meanwhile.

use std::rc::Rc;

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::pages::Held;
use crate::kit::run::Run;
use crate::kit::transfers::{Ends, Outcome, Transfers, first_error};
use crate::volume::Transfer;

/// Why pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// To have fewer dirty ones: pages that others hold are left out.
    Background,
    /// Somebody waits for just these.
    Sync,
}

/// How pages are found that are to be written, and how they are claimed.
pub(crate) trait Claims: Ends {
    /// Whether a flush waits for its transfers before it waits for pages.
    const WAITS_FOR_TRANSFERS: bool;

    /// The first page of a file from `from` on that is to be written for this reason, with its
    /// frame.
    fn next_to_write(&self, file: u32, from: u64, reason: Reason) -> Option<(u64, u32)>;

    /// The first page of a file from `from` on that is in write-back, with its frame.
    fn next_in_write_back(&self, file: u32, from: u64) -> Option<(u64, u32)>;

    /// Somebody is to write all of a range that is dirty now, and nothing that comes later.
    fn begin_sync(&self, _file: u32, _range: (u64, u64)) {}

    /// Takes a page, which is held, from dirty to write-back, and adds it to what is gathered; does
    /// nothing if it is not dirty any more, or with others and may be left to them.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    async fn claim(
        &self,
        to: &WriteBack<Self>,
        writing: &mut Writing,
        key: PageKey,
        held: &Held<'_, Self>,
    ) -> Result<(), IoError>;

    /// Before each page.
    async fn pace(&self) {}

    /// After each page.
    fn note_progress(&self) {}

    /// Gives a run to those who write for this CPU; false if there are none.
    async fn hand_over(&self, _file: u32, _run: &mut Run, _reason: Reason) -> bool {
        false
    }
}

/// Pages of a file being gathered, and the transfers sent.
pub(crate) struct Writing {
    file: u32,
    pub(crate) reason: Reason,
    run: Run,
    pub(crate) outcomes: Vec<Outcome>,
    /// Pages claimed, and of these, sent.
    pub(crate) claimed: u64,
    pub(crate) sent: u64,
    /// Where to go on.
    pub(crate) at: u64,
}

impl Writing {
    /// Nothing yet of `file`.
    pub(crate) fn of(file: u32, reason: Reason) -> Writing {
        Writing {
            file,
            reason,
            run: Run::default(),
            outcomes: Vec::new(),
            claimed: 0,
            sent: 0,
            at: 0,
        }
    }

    /// Adds a page that is claimed.
    pub(crate) fn push(&mut self, page: u64, frame: u32) {
        self.run.push(page, frame);
        self.claimed += 1;
    }
}

/// The write-back of a CPU. See the module.
pub(crate) struct WriteBack<P> {
    pub(crate) pages: Rc<P>,
    pub(crate) transfers: Rc<Transfers<P>>,
}

impl<P: Claims> WriteBack<P> {
    /// By these transfers.
    pub(crate) fn new(pages: &Rc<P>, transfers: &Rc<Transfers<P>>) -> Rc<WriteBack<P>> {
        Rc::new(WriteBack {
            pages: pages.clone(),
            transfers: transfers.clone(),
        })
    }

    /// Begins to write the pages `first..=last`, as long as there is `more` to be done.
    ///
    /// # Errors
    /// If a page is with a drive that does not answer. The others are written all the same.
    pub(crate) async fn write_range(
        &self,
        writing: &mut Writing,
        (first, last): (u64, u64),
        more: impl Fn(&Writing) -> bool,
    ) -> Result<(), IoError> {
        let (pages, file) = (&*self.pages, writing.file);
        let mut outcome = Ok(());
        writing.at = first;
        while more(writing) {
            pages.pace().await;
            let found = pages.next_to_write(file, writing.at, writing.reason);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                break;
            };
            writing.at = page + 1;
            if !writing.run.takes(page) {
                self.send(writing).await;
            }
            let key = PageKey::new(file, page);
            if let Some(held) = pages.try_hold(frame, key) {
                // The others are tried all the same: the more is on the drive, the better.
                outcome = outcome.and(pages.claim(self, writing, key, &held).await);
            }
            pages.note_progress();
        }
        self.send(writing).await;
        outcome
    }

    /// Sends what has been gathered.
    pub(crate) async fn send(&self, writing: &mut Writing) {
        let Writing { file, reason, .. } = *writing;
        if !writing.run.frames.is_empty() {
            writing.sent += writing.run.frames.len() as u64;
            if self.pages.hand_over(file, &mut writing.run, reason).await {
                return;
            }
            let outcome = self
                .transfers
                .submit(Transfer::Write, file, &mut writing.run);
            writing.outcomes.push(outcome);
            self.transfers.wait_for_room().await;
        }
    }

    /// Writes the dirty pages `first..=last` of a file, and waits for all of the range that is in
    /// write-back.
    ///
    /// # Errors
    /// The first error of a transfer; a page that the drive holds and does not answer for.
    pub(crate) async fn write_and_wait(&self, file: u32, range: (u64, u64)) -> Result<(), IoError> {
        self.pages.begin_sync(file, range);
        let mut writing = Writing::of(file, Reason::Sync);
        let mut outcome = self.write_range(&mut writing, range, |_| true).await;
        if P::WAITS_FOR_TRANSFERS {
            outcome = outcome.and(self.transfers.wait_for(&writing.outcomes).await);
        }
        outcome = outcome.and(self.wait_for_range(file, range).await);
        outcome.and(first_error(&writing.outcomes))
    }

    /// Waits for the pages of a range that are in write-back now, whoever writes them.
    async fn wait_for_range(&self, file: u32, (first, last): (u64, u64)) -> Result<(), IoError> {
        let (pages, mut at, mut outcome) = (&*self.pages, first, Ok(()));
        loop {
            let found = pages.next_in_write_back(file, at);
            let Some((page, frame)) = found.filter(|(page, _)| *page <= last) else {
                return outcome;
            };
            at = page + 1;
            let key = PageKey::new(file, page);
            if let Some(held) = pages.try_hold(frame, key) {
                outcome = outcome.and(pages.wait_written(held.frame, key).await);
            }
        }
    }
}
