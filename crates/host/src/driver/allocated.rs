//! Asking a drive which of its pages are allocated.
//!
//! An answer takes a page of the driver's own, and one question has it at a time. If the drive does not answer in
//! time it may write to the page later: the next question waits for that, as an error, until it has.

use wharf_wire::command::Command;
use wharf_wire::lba_status::read_answer;

use super::Driver;
use super::answer_page::AnswerPage;
use crate::error::IoError;

/// Bytes of an answer.
const ANSWER_BYTES: u32 = 4096;

/// The most pages that a question can name; more are asked for as all to the end.
const PAGES_MAX: u64 = u16::MAX as u64;

impl Driver {
    /// The allocated pages among `pages` pages from `first` on: first page and number of pages of each run, in
    /// order. Runs may meet.
    ///
    /// # Errors
    /// The drive's status, or a timeout; an answer that makes no sense is [`IoError::BadAnswer`].
    pub async fn allocated(
        &self,
        nsid: u32,
        first: u64,
        pages: u64,
    ) -> Result<Vec<(u64, u64)>, IoError> {
        self.take_answer_page().await?;
        let (mut runs, mut page, end) = (Vec::new(), first, first + pages);
        let mut outcome = Ok(());
        while page < end {
            match self.ask_allocated(nsid, page, end).await {
                Ok((found, next)) => {
                    runs.extend(found);
                    page = next;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let mut answer = self.answer.borrow_mut();
        if matches!(*answer, AnswerPage::Taken) {
            *answer = AnswerPage::Free;
        }
        drop(answer);
        self.answer_freed.notify_all(&self.cpu);
        outcome.map(|()| runs)
    }

    async fn take_answer_page(&self) -> Result<(), IoError> {
        loop {
            {
                let mut answer = self.answer.borrow_mut();
                match &*answer {
                    AnswerPage::Late(group, error) if !group.is_quiet() => return Err(*error),
                    AnswerPage::Free | AnswerPage::Late(..) => {
                        *answer = AnswerPage::Taken;
                        return Ok(());
                    }
                    AnswerPage::Taken => {}
                }
            }
            self.answer_freed.wait(&self.cpu).await;
        }
    }

    /// One command: its runs up to `end`, and the page to go on from.
    async fn ask_allocated(
        &self,
        nsid: u32,
        page: u64,
        end: u64,
    ) -> Result<(Vec<(u64, u64)>, u64), IoError> {
        let asked = match end - page {
            0..=PAGES_MAX => (end - page) as u32,
            _ => 0,
        };
        let command = Command::get_lba_status_by_io(nsid, page, asked, ANSWER_BYTES);
        let group = self.groups.open();
        let slot = self.reserve().await;
        let number = self.lists.pages() - 1;
        self.issue(slot, &group, command, &[self.lists.address(number)]);
        self.ring();
        if let Err(error) = group.wait(&self.cpu).await {
            if !group.is_quiet() {
                *self.answer.borrow_mut() = AnswerPage::Late(group, error);
            }
            return Err(error);
        }
        // SAFETY: the page is taken, and its only command is done.
        let answer = unsafe { self.lists.page_mut(number) };
        self.runs_of(answer, page, end)
    }

    /// Reads an answer that begins at `page`.
    fn runs_of(
        &self,
        answer: &[u8],
        page: u64,
        end: u64,
    ) -> Result<(Vec<(u64, u64)>, u64), IoError> {
        let drive = self.config.drive;
        let bad = IoError::BadAnswer { drive };
        let (found, is_whole) = read_answer(answer).ok_or(bad)?;
        let (mut runs, mut next) = (Vec::new(), page);
        for run in found {
            let run_end = run.dslba.checked_add(u64::from(run.nlb)).ok_or(bad)?;
            if run.dslba < next || run.nlb == 0 {
                return Err(bad);
            }
            next = run_end;
            if run.dslba < end {
                runs.push((run.dslba, run_end.min(end) - run.dslba));
            }
        }
        match is_whole {
            true => Ok((runs, end)),
            // There is a run in every answer that is not the last.
            false if next == page => Err(bad),
            false => Ok((runs, next)),
        }
    }
}
