//! Futures of the standard library as part of a task: they wait by [`Waker`]s, and ask where they are.
//!
//! Tasks of the runtime have their CPU in hand, and are woken by their numbers. Code that others run too (file
//! systems, which tests and tools run without any of this) knows neither. [`OnCpu`] stands between: while it
//! polls, [`here`](crate::here()) gives the CPU, and the context has a waker of the task (`waker.rs`). Tasks without
//! one pay nothing for this.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::cpu::Cpu;
use crate::here::at;
use crate::waker::TaskWaker;

/// A future that runs on `cpu`, in the task that awaits it. It may await what belongs to the runtime too.
pub struct OnCpu<F> {
    cpu: Cpu,
    /// From the first poll on.
    waker: Option<(Arc<TaskWaker>, Waker)>,
    future: F,
}

impl<F: Future> OnCpu<F> {
    /// To be awaited by a task of `cpu`, and by the same one until it is ready.
    pub fn new(cpu: &Cpu, future: F) -> OnCpu<F> {
        OnCpu {
            cpu: cpu.clone(),
            waker: None,
            future,
        }
    }
}

impl<F: Future> Future for OnCpu<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of its place, here or elsewhere: it is structurally pinned, its
        // owner has no `Drop` that moves it, and all else is `Unpin`.
        let this = unsafe { self.get_unchecked_mut() };
        let cpu = &this.cpu;
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let (own, waker) = this.waker.get_or_insert_with(|| {
            let own = TaskWaker::new(cpu);
            (own.clone(), Waker::from(own))
        });
        own.look(cpu);
        at(cpu, || future.poll(&mut Context::from_waker(waker)))
    }
}

impl<F> Drop for OnCpu<F> {
    fn drop(&mut self) {
        if let Some((own, _)) = &self.waker {
            own.end();
        }
    }
}
