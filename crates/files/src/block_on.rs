//! Runs a future that waits for nothing outside of it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Most polls of a future: those of file systems in memory are ready after a few.
const POLLS_MAX: u32 = 1_000_000;

/// Polls a future until it is ready, on this thread and without a CPU.
///
/// # Panics
/// If it is not ready after a million polls: it waits for somebody who is not there.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS_MAX {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("a future waits for ever");
}
