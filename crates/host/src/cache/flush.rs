//! Writing back everything.
//!
//! 1. The dirty pages of all shards are listed, of whichever client, and sorted: neighbours become
//!    large commands.
//! 2. Window by window they are written; a page that somebody else is writing just then is put
//!    on a second list.
//! 3. The pages of the second list are waited for.
//! 4. Every drive gets a flush.
//!
//! A page that becomes dirty meanwhile is not this flush's business: its write was not acknowledged
//! before the flush began.

use wharf_runtime::Op;
use wharf_runtime::page_index::hash_page;

use crate::cache::client::CacheClient;
use crate::cache::copied::Nothing;
use crate::cache::pin::{Action, PINS_MAX, Pin};
use crate::cache::pins::Pins;
use crate::cache::shard::Found;
use crate::error::IoError;
use crate::span::Span;
use wharf_runtime::wake::Pause;

/// Most pages that are being written at a time: 4 MiB.
const WINDOW_PAGES: usize = 4 * PINS_MAX;

/// What is to be done about a page that was dirty.
enum Unwritten {
    /// It has been written meanwhile.
    No,
    /// This flush writes it, from this frame.
    Ours(u32),
    /// Somebody else is writing it.
    Theirs,
    /// As before, and the drive does not answer.
    Stuck,
}

impl CacheClient {
    /// Writes back what is dirty, then flushes the drives.
    ///
    /// # Errors
    /// The first error of a command; else [`IoError::WriteBack`] if write-backs of any client have
    /// failed since this client's last flush.
    pub async fn flush(&self) -> Result<(), IoError> {
        let flush = async {
            self.write_back_all().await?;
            self.local.volume.flush(&self.local.cpu).await
        };
        self.told
            .report(|| self.local.cache.failures(), flush)
            .await
    }

    async fn write_back_all(&self) -> Result<(), IoError> {
        let mut pages = Vec::new();
        for shard in 0..self.local.cache.shards() {
            self.local
                .cache
                .with(&self.local.cpu, shard, |shard| shard.unwritten(&mut pages));
        }
        self.local
            .cpu
            .work_n(Op::CacheUpdate, pages.len() as u32, || {
                pages.sort_unstable()
            });
        let mut outcome = Ok(());
        let mut theirs = Vec::new();
        for window in pages.chunks(WINDOW_PAGES) {
            // The other pages are tried all the same: the more is safe, the better.
            outcome = outcome.and(self.write_window(window, &mut theirs).await);
        }
        for page in theirs {
            outcome = outcome.and(self.wait_until_written(page).await);
        }
        outcome
    }

    async fn write_window(&self, window: &[u64], theirs: &mut Vec<u64>) -> Result<(), IoError> {
        let mut pins = Pins::new(&self.local);
        let mut outcome = Ok(());
        for &page in window {
            let (shard, _) = self.local.cache.shard_of(page);
            match self.claim(page) {
                Unwritten::No => {}
                Unwritten::Ours(frame) => {
                    let span = Span {
                        page,
                        payload: 0,
                        from: 0,
                        len: 0,
                        whole: true,
                    };
                    pins.push(Pin {
                        shard,
                        frame,
                        leaving: None,
                        span,
                        action: Action::Clean,
                        failed: false,
                    });
                }
                Unwritten::Theirs => theirs.push(page),
                Unwritten::Stuck => outcome = Err(IoError::Stuck { page }),
            }
        }
        outcome.and(pins.settle(&mut Nothing).await)
    }

    fn claim(&self, page: u64) -> Unwritten {
        let (at, _) = self.local.cache.shard_of(page);
        self.local.cache.with(&self.local.cpu, at, |shard| {
            match self
                .local
                .cpu
                .work(Op::CacheLookup, || shard.find(page, hash_page(page)))
            {
                Found::Ready(frame) if !shard.frame(frame).is_dirty() => Unwritten::No,
                Found::Ready(frame) if shard.frame(frame).is_stuck() => Unwritten::Stuck,
                Found::Ready(frame) if shard.frame(frame).is_writing() => Unwritten::Theirs,
                Found::Ready(frame) => {
                    shard.begin_writing(frame);
                    Unwritten::Ours(frame)
                }
                Found::OnTheWay => Unwritten::Theirs,
                Found::Stuck => Unwritten::Stuck,
                Found::Absent => Unwritten::No,
            }
        })
    }

    /// Waits until whoever writes a page is done with it. (If that failed, it was counted.)
    async fn wait_until_written(&self, page: u64) -> Result<(), IoError> {
        let (at, hash) = self.local.cache.shard_of(page);
        loop {
            let under_way = self.local.cache.with(&self.local.cpu, at, |shard| {
                let under_way = match shard.find(page, hash) {
                    Found::Ready(frame) if shard.frame(frame).is_stuck() => {
                        Err(IoError::Stuck { page })
                    }
                    Found::Ready(frame) => Ok(shard.frame(frame).is_writing()),
                    Found::OnTheWay => Ok(true),
                    Found::Stuck => Err(IoError::Stuck { page }),
                    Found::Absent => Ok(false),
                };
                if under_way == Ok(true) {
                    shard.wait_for(Some(page), self.local.sleeper());
                }
                under_way
            });
            if !under_way? {
                return Ok(());
            }
            Pause::default().await;
        }
    }
}
