//! Pages that leave before their time: the end of a file is cut off, a file is closed, a program
//! has done with a part of it.
//!
//! Where a page must be gone, or zeros, afterwards, the caller sees to it that nobody writes to the
//! pages, or brings them in, meanwhile. Others may still read them, evict them and write them back.

use crate::design::Reclaim;
use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::backing::Backing;
use crate::kit::index::{Index, Tag};
use crate::kit::pages::{Held, Pages};
use crate::scale::frame::{DIRTY, FAILED, FILLED, WRITEBACK};
use crate::scale::local::Local;
use crate::scale::pages::CpuPages;

/// How long a pin on a file that nobody has is a task's, which a system that is busy keeps from
/// taking it off, in nanoseconds.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Wait before such a page is looked at again, in nanoseconds.
const NAP_NS: u64 = 100_000;

/// How long somebody has a pin who has only to hear that a page was written, in nanoseconds.
const PIN_NS: u64 = 1_000;

/// What a page that cannot go holds from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    Zeros,
    /// Its old bytes, perhaps.
    Anything,
}

impl<I: Index, B: Backing> Local<I, B> {
    /// Lets the pages `first..=last` of a file go that are clean and that nobody uses; gives how many did.
    pub fn drop_clean(&self, file: u32, (first, last): (u64, u64)) -> u64 {
        let (cpu, shared) = (self.cpu(), self.shared());
        let (mut at, mut gone) = (first, 0);
        while let Some((page, frame)) = shared.index_of(file).next(cpu, at) {
            if page > last {
                break;
            }
            at = page + 1;
            // The frame may have got another page since: that one is as good as any to go.
            if shared.frames.take(cpu, frame) {
                self.pages.evict(frame);
                gone += 1;
            }
        }
        gone
    }

    /// Cuts off the pages of a file from `first` on: what they hold is lost, also if it is dirty.
    /// Those with pins stay, as zeros.
    pub async fn cut(&self, file: u32, first: u64) {
        // Nobody is stuck in a write for ever: an error ends it too.
        while self
            .drop_range(file, (first, u64::MAX), Stay::Zeros)
            .await
            .is_err()
        {
            self.cpu().yield_now().await;
        }
    }

    /// Lets the pages `first..=last` of a file go, also dirty ones, whatever others do with them
    /// meanwhile. Those with pins stay, and hold anything.
    ///
    /// # Errors
    /// If the drive holds a page and does not answer.
    pub async fn discard(&self, file: u32, range: (u64, u64)) -> Result<(), IoError> {
        self.drop_range(file, range, Stay::Anything).await?;
        self.tidy_if_lazy(file, range);
        Ok(())
    }

    /// Nobody comes to these pages for long: a safe point for the nodes that are still there.
    fn tidy_if_lazy(&self, file: u32, range: (u64, u64)) {
        if self.shared().reclaim == Reclaim::Lazy {
            self.shared().index_of(file).tidy(self.cpu(), range);
        }
    }

    /// The same, until none of them is left: whoever changes them below the cache finds nothing old in it afterwards. Others may have
    /// pins for a moment only, as those have who wait for a write-back.
    ///
    /// # Errors
    /// If the drive holds a page and does not answer.
    pub async fn expel(&self, file: u32, range: (u64, u64)) -> Result<(), IoError> {
        while self.drop_range(file, range, Stay::Anything).await? > 0 {
            self.pages.tasks.wait_at_most(PIN_NS).await;
        }
        self.tidy_if_lazy(file, range);
        Ok(())
    }

    /// Gives how many stay.
    async fn drop_range(
        &self,
        file: u32,
        (first, last): (u64, u64),
        stay: Stay,
    ) -> Result<u64, IoError> {
        let (cpu, shared) = (self.cpu(), self.shared());
        let (mut at, mut stayed) = (first, 0);
        while let Some((page, frame)) = shared.index_of(file).next(cpu, at) {
            if page > last {
                break;
            }
            let key = PageKey::new(file, page);
            if let Some(pinned) = self.pages.try_hold(frame, key) {
                // What is on its way would overwrite the zeros.
                let is_read = |state| state & (FILLED | FAILED) == 0;
                self.pages.wait_while(frame, key, is_read).await?;
                while !self.try_clear(&pinned, key, stay) {
                    self.pages.wait_written(frame, key).await?;
                }
                drop(pinned);
                at = page + 1;
                match shared.frames.take(cpu, frame) {
                    true => self.pages.evict(frame),
                    false => stayed += 1,
                }
            } else {
                // It is being evicted: the index will say so in a moment.
                wharf_runtime::sync::spin();
            }
        }
        Ok(stayed)
    }

    /// Makes a pinned page clean, unless the drive is reading it.
    fn try_clear(&self, pinned: &Held<'_, CpuPages<I, B>>, key: PageKey, stay: Stay) -> bool {
        let (cpu, shared, frame) = (self.cpu(), self.shared(), pinned.frame);
        shared.frames.lock(cpu, frame);
        let state = shared.frames.state(frame);
        let may = state & WRITEBACK == 0;
        if may && state & FILLED != 0 && stay == Stay::Zeros {
            shared.frames.zero(frame);
        }
        if may && state & DIRTY != 0 {
            self.pages.retag(key, None, Some(Tag::Dirty));
            shared.frames.change(cpu, frame, 0, DIRTY);
            self.pages.count(&shared.dirty, &self.pages.dirty, -1);
        }
        shared.frames.unlock(frame);
        may
    }

    /// Lets all pages of a file go, also dirty ones, and returns when none is left: the number is
    /// another file's then. Nobody has the file any more, so whoever holds a pin does so for a
    /// moment only.
    ///
    /// # Errors
    /// [`IoError::Kept`] if one is held nevertheless: the number must not be another file's.
    pub async fn forget(&self, file: u32) -> Result<(), IoError> {
        let index = self.shared().index_of(file);
        self.cut(file, 0).await;
        let deadline_ns = self.cpu().now() + PATIENCE_NS;
        while let Some((page, _)) = index.next(self.cpu(), 0) {
            if self.cpu().now() >= deadline_ns {
                return Err(IoError::Kept { page });
            }
            self.pages.tasks.wait_at_most(NAP_NS).await;
            self.cut(file, 0).await;
        }
        index.tidy(self.cpu(), (0, u64::MAX));
        Ok(())
    }
}
