//! Threads for calls that block, beside a seat that must not.
//!
//! A seat hands over a piece of work and goes on; what came of it arrives in the seat's inbox, and a bell
//! wakes the thread that serves. A hand-over costs some ten microseconds, so it is for what takes longer.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_runtime::worker;

use crate::export::{Outcome, Tag};
use crate::proto::Errno;
use crate::wait::Bell;

/// Threads that work comes to. Dropping it waits for what is under way.
pub struct Pool(worker::Pool);

impl Pool {
    /// So many threads.
    ///
    /// # Errors
    /// If the system has none left.
    pub fn new(threads: u32) -> std::io::Result<Pool> {
        worker::Pool::new("nbd pool", threads).map(Pool)
    }

    /// Has a job done by some thread; its outcome goes to the inbox.
    pub fn run(
        &self,
        tag: Tag,
        inbox: &Arc<Inbox>,
        job: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let inbox = inbox.clone();
        inbox.state().expected += 1;
        self.0.run(move || {
            let mut post = Post {
                inbox,
                tag,
                outcome: Some(Err(Errno::Io)),
            };
            post.outcome = Some(job());
        });
    }
}

/// Posts an outcome, also if the job has panicked.
struct Post {
    inbox: Arc<Inbox>,
    tag: Tag,
    outcome: Option<Outcome>,
}

impl Drop for Post {
    fn drop(&mut self) {
        let outcome = self.outcome.take().expect("it is posted once");
        self.inbox.state().ended.push((self.tag, outcome));
        self.inbox.bell.ring();
    }
}

/// What jobs of one seat came to.
pub struct Inbox {
    bell: Bell,
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    ended: Vec<(Tag, Outcome)>,
    /// Jobs whose outcomes were not taken yet.
    expected: usize,
}

impl Inbox {
    /// An inbox without jobs.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> std::io::Result<Arc<Inbox>> {
        Ok(Arc::new(Inbox {
            bell: Bell::new()?,
            state: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable when there is something to take; nothing if nothing is under way.
    pub fn descriptor(&self) -> Option<RawFd> {
        (self.state().expected > 0).then(|| self.bell.descriptor())
    }

    /// Takes what has ended.
    pub fn take(&self, done: &mut dyn FnMut(Tag, Outcome)) {
        let mut state = self.state();
        if state.expected == 0 || state.ended.is_empty() {
            return;
        }
        let ended = std::mem::take(&mut state.ended);
        state.expected -= ended.len();
        // Before the lock is given up: who rings later has put something in later.
        self.bell.silence();
        drop(state);
        ended
            .into_iter()
            .for_each(|(tag, outcome)| done(tag, outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Answer;

    const TAG: Tag = Tag {
        connection: 1,
        slot: 2,
    };

    #[test]
    fn every_job_has_an_outcome_also_one_that_panics() {
        let pool = Pool::new(3).expect("threads");
        let inbox = Inbox::new().expect("a descriptor");
        assert_eq!(inbox.descriptor(), None);
        for number in 0..50 {
            pool.run(TAG, &inbox, move || match number % 2 {
                0 => Ok(Answer::Nothing),
                _ => Err(Errno::NoSpace),
            });
        }
        let (mut well, mut badly) = (0, 0);
        while inbox.descriptor().is_some() {
            inbox.take(&mut |tag, outcome| {
                assert_eq!(tag, TAG);
                match outcome {
                    Ok(_) => well += 1,
                    Err(errno) => {
                        assert_eq!(errno, Errno::NoSpace);
                        badly += 1;
                    }
                }
            });
            std::thread::yield_now();
        }
        assert_eq!((well, badly), (25, 25));
    }
}
