//! Wakers of the standard library for tasks of the runtime, which are woken by their numbers.
//!
//! A waker may be used by anybody, at any time, on any thread:
//!
//! 1. On the thread of its task the executor is found in a table of the thread, and the task is woken at once: by
//!    its own CPU as by [`Cpu::wake`], by another one at that one's time, as a notifier would. Between processors
//!    of the host its line moves; within a drive it is a wire, and free.
//! 2. From another thread the task's number goes into the executor's [`Mailbox`], whose notifier has the task on
//!    the other side look. There is one for an executor, and only if a task of it has ever had a waker.
//! 3. When its task has ended, or the executor is gone, it does nothing.
//!
//! No wake is lost: a task that is woken while it is polled is queued and polled again.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use crate::cpu::Cpu;
use crate::executor::{Executor, TaskId};
use crate::here::with_here;
use crate::line::Line;
use crate::notifier::Notifier;
use crate::op::Side;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Instead of a task: it has ended.
const NOBODY: u32 = u32::MAX;

/// Tasks of an executor that other threads have woken.
#[derive(Default)]
pub(crate) struct Mailbox {
    notifier: Notifier,
    tasks: Mutex<Vec<TaskId>>,
}

impl Mailbox {
    /// Leaves a task to be woken.
    pub(crate) fn post(&self, task: TaskId) {
        self.with(|tasks| tasks.push(task));
        self.notifier.ring_real(0);
    }

    /// Takes all that there are into `tasks`, which is empty.
    pub(crate) fn take(&self, tasks: &mut Vec<TaskId>) {
        self.with(|all| std::mem::swap(all, tasks));
    }

    fn with<R>(&self, f: impl FnOnce(&mut Vec<TaskId>) -> R) -> R {
        f(&mut self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Empties it for as long as the machine runs.
    async fn serve(self: Arc<Self>, cpu: Cpu) {
        self.notifier.attach(&cpu);
        let mut tasks = Vec::new();
        loop {
            self.take(&mut tasks);
            tasks.drain(..).for_each(|task| cpu.wake(task));
            let _ = self.notifier.wait(&cpu).await;
        }
    }
}

/// An executor of this thread, and the mailbox by which it is known.
struct Known {
    mailbox: Arc<Mailbox>,
    executor: Weak<Executor>,
}

thread_local! {
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// The mailbox of the executor that `cpu` belongs to.
fn mailbox_of(cpu: &Cpu) -> Arc<Mailbox> {
    let executor = cpu.shared_executor();
    let is_it = |known: &Known| Weak::as_ptr(&known.executor) == Rc::as_ptr(executor);
    let found = KNOWN.with_borrow_mut(|all| {
        all.retain(|known| known.executor.strong_count() > 0);
        let known = all.iter().find(|known| is_it(known));
        known.map(|known| known.mailbox.clone())
    });
    found.unwrap_or_else(|| {
        let mailbox = Arc::new(Mailbox::default());
        let known = Known {
            mailbox: mailbox.clone(),
            executor: Rc::downgrade(executor),
        };
        KNOWN.with_borrow_mut(|all| all.push(known));
        if !cpu.is_virtual() {
            // In virtual time all is on one thread, and nothing comes from elsewhere.
            cpu.spawn("wakes", mailbox.clone().serve(cpu.clone()));
        }
        mailbox
    })
}

/// The executor that a mailbox belongs to, if it is one of this thread and still there.
fn executor_of(mailbox: &Arc<Mailbox>) -> Option<Rc<Executor>> {
    let find = |all: &Vec<Known>| {
        let known = all
            .iter()
            .find(|known| Arc::ptr_eq(&known.mailbox, mailbox));
        known.and_then(|known| known.executor.upgrade())
    };
    // A thread that ends has no table any more, and no tasks.
    KNOWN.try_with(|all| find(&all.borrow())).ok().flatten()
}

/// What a task's wakers are: all of them are this one.
pub(crate) struct TaskWaker {
    mailbox: Arc<Mailbox>,
    /// The task, or [`NOBODY`].
    task: AtomicU32,
    /// The CPU of the task, by its number.
    cpu: u32,
    /// The line of a wake between processors of the host.
    line: Line,
    /// Such a wake has come, and the task has not looked.
    is_rung: AtomicBool,
    side: Side,
}

impl TaskWaker {
    /// For the running task of `cpu`.
    pub(crate) fn new(cpu: &Cpu) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            mailbox: mailbox_of(cpu),
            task: AtomicU32::new(cpu.current().0),
            cpu: cpu.index(),
            line: Line::new(),
            is_rung: AtomicBool::new(false),
            side: cpu.side(),
        })
    }

    /// The task has ended: from now on nobody is woken.
    pub(crate) fn end(&self) {
        // Relaxed, as all of it: who comes in between wakes for nothing, which harms nobody.
        self.task.store(NOBODY, Ordering::Relaxed);
    }

    /// The task is polled: it looks at what has woken it, and takes it.
    #[inline]
    pub(crate) fn look(&self, cpu: &Cpu) {
        if self.is_rung.load(Ordering::Relaxed) {
            self.is_rung.store(false, Ordering::Relaxed);
            self.line.read(cpu);
            self.line.write(cpu);
        }
    }

    /// On the thread of the task.
    fn wake_here(&self, executor: &Executor, task: TaskId) {
        if !executor.is_virtual() {
            return executor.wake_local(task);
        }
        let wake_by = |cpu: &Cpu| match cpu.index() == self.cpu {
            true => executor.wake_local(task),
            false => {
                if self.side == Side::Host && cpu.side() == Side::Host {
                    self.line.write(cpu);
                    self.is_rung.store(true, Ordering::Relaxed);
                }
                executor.schedule_elsewhere(cpu.now(), task);
            }
        };
        with_here(|here| match here.filter(|cpu| cpu.is_of(executor)) {
            Some(cpu) => wake_by(cpu),
            // A task that has its CPU in hand and is not polled as futures of the standard library are.
            None => match executor.running_cpu() {
                Some(cpu) => wake_by(&cpu),
                None => executor.wake_local(task),
            },
        });
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = TaskId(self.task.load(Ordering::Relaxed));
        if task.0 == NOBODY {
            return;
        }
        match executor_of(&self.mailbox) {
            Some(executor) => self.wake_here(&executor, task),
            None => self.mailbox.post(task),
        }
    }
}

/// Orders between a thread that wakes and the one whose task is woken.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn who_looks_after_it_was_notified_finds_the_task() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::default());
            let posts: Vec<_> = (0..2)
                .map(|task| {
                    let mailbox = mailbox.clone();
                    loom::thread::spawn(move || mailbox.post(TaskId(task)))
                })
                .collect();
            let (mut found, mut tasks) = (0, Vec::new());
            while found < 2 {
                mailbox.take(&mut tasks);
                found += tasks.drain(..).count();
                if found < 2 {
                    // As its task does: it waits for the flag, and only then looks again.
                    while mailbox.notifier.take_ready_real().is_empty() {
                        loom::thread::yield_now();
                    }
                }
            }
            posts.into_iter().for_each(|post| post.join().unwrap());
        });
    }
}
