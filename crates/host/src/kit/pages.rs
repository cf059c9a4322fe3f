//! The pages of a cache as one CPU has them: what every part of a cache asks of them.
//!
//! A design says what the state of a page is, and how it changes, by implementing [`Pages`] for
//! what a CPU of it has; the other traits of the kit build upon it, each for one part. What is the
//! same in all designs is here: to hold a page, and to wait for it.

use wharf_runtime::wake::Pause;

use crate::error::IoError;
use crate::key::PageKey;
use crate::kit::common::Common;
use crate::kit::direct_flush::WriterCounters;
use crate::kit::tasks::Tasks;

/// See the module. Flags are those of a frame's state.
pub(crate) trait Pages: Sized + 'static {
    /// Somebody waits for a change of the state.
    const WAITERS: u32;
    /// The drive has not answered in time: nobody should wait for the page.
    const STUCK: u32;
    /// The drive reads the bytes.
    const WRITEBACK: u32;

    /// The CPU's tasks.
    fn tasks(&self) -> &Tasks;

    /// What all CPUs share.
    fn common(&self) -> &Common;

    /// What this one did.
    fn counters(&self) -> &WriterCounters;

    /// The state of a frame.
    fn state(&self, frame: u32) -> u32;

    /// Sets and clears flags; gives the state there was.
    fn change(&self, frame: u32, set: u32, clear: u32) -> u32;

    /// The frame of a page, according to the index.
    fn look_up(&self, key: PageKey) -> Option<u32>;

    /// Keeps a frame from being given to another page, if it holds this one.
    fn hold(&self, frame: u32, key: PageKey) -> bool;

    /// Does so no longer.
    fn let_go(&self, frame: u32);

    /// The error for a page that the drive holds without an answer.
    fn stuck(&self, key: PageKey) -> IoError;

    /// True if the CPU serves all others.
    #[inline]
    fn is_service(&self) -> bool {
        self.tasks().index >= self.common().clients
    }

    /// True if a frame has one of `flags`.
    #[inline]
    fn is(&self, frame: u32, flags: u32) -> bool {
        self.state(frame) & flags != 0
    }

    /// Holds a page that is in the cache, with its bytes or without.
    #[inline]
    fn find(&self, key: PageKey) -> Option<Held<'_, Self>> {
        loop {
            let frame = self.look_up(key)?;
            // Fails if the frame is just being taken away: the index will say so in a moment.
            if let Some(held) = self.try_hold(frame, key) {
                return Some(held);
            }
            wharf_runtime::sync::spin();
        }
    }

    /// Holds a frame, if it has this page.
    #[inline]
    fn try_hold(&self, frame: u32, key: PageKey) -> Option<Held<'_, Self>> {
        let is_held = self.hold(frame, key);
        is_held.then(|| Held::of(self, frame))
    }

    /// Waits while `waits_for` says so of the state of a frame, which is held.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    async fn wait_while(
        &self,
        frame: u32,
        key: PageKey,
        waits_for: impl Fn(u32) -> bool,
    ) -> Result<(), IoError> {
        loop {
            let state = self.state(frame);
            if !waits_for(state) {
                return Ok(());
            }
            if state & Self::STUCK != 0 {
                return Err(self.stuck(key));
            }
            if self.join_page(frame, &waits_for) {
                self.counters().waits.add(1);
                self.tasks().sleep(Pause::default()).await;
            }
        }
    }

    /// Enters the running task among those who wait for a frame, if `waits_for` says so of its
    /// state and it may be waited for; true if so.
    fn join_page(&self, frame: u32, waits_for: impl Fn(u32) -> bool) -> bool {
        let tasks = self.tasks();
        let waits = &self.common().page_waits;
        waits.join(&tasks.cpu, frame, tasks.sleeper(), || {
            let seen = self.change(frame, Self::WAITERS, 0);
            waits_for(seen) && seen & Self::STUCK == 0
        })
    }

    /// Waits until a frame, which is held, is not in write-back.
    ///
    /// # Errors
    /// If the drive holds the page and does not answer.
    async fn wait_written(&self, frame: u32, key: PageKey) -> Result<(), IoError> {
        let is_written = |state| state & Self::WRITEBACK != 0;
        self.wait_while(frame, key, is_written).await
    }

    /// Sets and clears flags, and wakes who waits for that; gives the state there was.
    fn change_and_wake(&self, frame: u32, set: u32, clear: u32) -> u32 {
        let before = self.change(frame, set, clear);
        if before & Self::WAITERS != 0 {
            self.wake_page(frame);
        }
        before
    }

    /// Wakes who waits for a frame.
    fn wake_page(&self, frame: u32) {
        let clear = || _ = self.change(frame, 0, Self::WAITERS);
        let waits = &self.common().page_waits;
        for sleeper in waits.take(&self.tasks().cpu, frame, clear) {
            self.tasks().wake_one(sleeper);
        }
    }
}

/// A page that is held; dropping it lets it go.
pub(crate) struct Held<'a, P: Pages> {
    pages: &'a P,
    /// Its frame.
    pub(crate) frame: u32,
}

impl<'a, P: Pages> Held<'a, P> {
    /// Takes charge of a frame that is held.
    pub(crate) fn of(pages: &'a P, frame: u32) -> Self {
        Held { pages, frame }
    }

    /// Leaves it to the caller.
    pub(crate) fn keep(self) -> u32 {
        std::mem::ManuallyDrop::new(self).frame
    }
}

impl<P: Pages> Drop for Held<'_, P> {
    fn drop(&mut self) {
        self.pages.let_go(self.frame);
    }
}
