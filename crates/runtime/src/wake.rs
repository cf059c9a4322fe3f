//! Waking tasks of other clients.
//!
//! A task that waits for something another client brings about (a page it is reading, a range it
//! has locked) leaves its name, a [`Sleeper`], with the thing, under the thing's lock, and pauses.
//! Who brings it about takes the names, and wakes each: a task of the same CPU at once, one of
//! another client through that client's mailbox, whose notifier it notifies.
//!
//! No wake is lost: the name is left under the lock that guards the condition, and a wake that
//! arrives before the sleeper has paused stays in its mailbox, which the sleeper's CPU empties
//! only after the sleeper has paused. Wakes may come for nothing: sleepers check again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{Cpu, Lock, Notifier, TaskId};
use crossbeam_utils::CachePadded;

/// A task of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleeper {
    /// The client.
    pub client: u32,
    /// Its task.
    pub task: TaskId,
}

struct Mailbox {
    notifier: Notifier,
    tasks: Lock<Vec<TaskId>>,
}

/// A mailbox for each client of a design.
pub struct Mailboxes(Box<[CachePadded<Mailbox>]>);

impl Mailboxes {
    /// Empty mailboxes for `clients` clients.
    pub fn new(clients: u32) -> Arc<Mailboxes> {
        let mailbox = |_| {
            CachePadded::new(Mailbox {
                notifier: Notifier::new(),
                tasks: Lock::new(Vec::new()),
            })
        };
        Arc::new(Mailboxes((0..clients).map(mailbox).collect()))
    }

    /// Starts the task that empties the mailbox of `client` on its CPU.
    pub fn serve(self: &Arc<Self>, cpu: &Cpu, client: u32) {
        let (mailboxes, task_cpu) = (self.clone(), cpu.clone());
        cpu.spawn("mailbox", async move {
            let mailbox = &mailboxes.0[client as usize];
            mailbox.notifier.attach(&task_cpu);
            let mut tasks = Vec::new();
            loop {
                mailbox
                    .tasks
                    .with(&task_cpu, |all| std::mem::swap(all, &mut tasks));
                tasks.drain(..).for_each(|task| task_cpu.wake(task));
                let _ = mailbox.notifier.wait(&task_cpu).await;
            }
        });
    }

    /// Wakes a task, for client `waker` on its CPU.
    #[inline]
    pub fn wake(&self, cpu: &Cpu, waker: u32, sleeper: Sleeper) {
        if sleeper.client == waker {
            return cpu.wake(sleeper.task);
        }
        let mailbox = &self.0[sleeper.client as usize];
        mailbox.tasks.with(cpu, |tasks| tasks.push(sleeper.task));
        mailbox.notifier.notify(cpu, 0, cpu.now());
    }
}

/// Waits until the running task is woken. May return early.
#[derive(Debug, Default)]
pub struct Pause {
    paused: bool,
}

impl Future for Pause {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.paused, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
