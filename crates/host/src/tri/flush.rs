//! A client's flush, and its write-through: managers write back, then the drives are flushed.

use crate::error::IoError;
use crate::span::{Extent, Span};
use crate::tri::client::CacheClient;
use crate::tri::holder::{OpenPage, Part};
use crate::tri::message::Wish;
use crate::tri::open::OpenPages;
use crate::tri::tickets::{Asked, Progress};
use wharf_runtime::wake::Pause;

impl CacheClient {
    /// Writes back everything, of whichever client, then flushes the drives.
    ///
    /// # Errors
    /// The first error of a command; else [`IoError::WriteBack`] if write-backs of any client have
    /// failed since this client's last flush.
    pub(super) async fn flush(&self) -> Result<(), IoError> {
        let managers = 0..self.holder.shared.parts.len() as u32;
        let all = managers.map(|manager| (manager, Wish::WriteBackAll, 0));
        let flush = async {
            self.write_back(all).await?;
            self.volume.flush(&self.holder.cpu).await
        };
        self.told
            .report(|| self.holder.shared.failures(), flush)
            .await
    }

    /// Has what a write has changed written to the drives.
    pub(super) async fn write_through(&self, extent: Extent) -> Result<(), IoError> {
        let pages = extent.first_page()..extent.first_page() + extent.pages();
        let locate = |page| {
            (
                self.holder.shared.partition.locate(page).0,
                Wish::WriteBack,
                page,
            )
        };
        self.write_back(pages.map(locate)).await
    }

    /// Asks managers to write back, and waits for all.
    async fn write_back(
        &self,
        wishes: impl Iterator<Item = (u32, Wish, u64)>,
    ) -> Result<(), IoError> {
        let mut open = OpenPages::new(&self.holder);
        for (manager, wish, page) in wishes {
            let asked = Asked { manager, pin: None };
            open.pages.push(OpenPage {
                span: Span::default(),
                ticket: self.holder.ask(asked, wish, page),
                part: Part::Asks,
            });
        }
        self.holder.outbox.send_urgent(&self.holder.cpu);
        let mut outcome = Ok(());
        while let Some(&page) = open.pages.last() {
            let progress = self.holder.tickets.borrow().get(page.ticket).progress;
            match progress {
                Progress::Asked => {
                    self.holder.note_idle();
                    Pause::default().await;
                    continue;
                }
                Progress::Failed(error) => outcome = outcome.and(Err(error)),
                _ => {}
            }
            open.pages.pop();
            self.holder.leave(page.ticket, false);
        }
        outcome
    }
}
