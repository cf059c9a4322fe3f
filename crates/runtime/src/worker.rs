//! OS threads outside the engines: for system calls that block, as a task must not, and whoever has to (plain
//! `pread` on storage) keeps such threads beside them; and for whole runs that know nothing of each other.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A named thread that is joined when this is dropped. Its body has to end by itself: tell it to
/// first.
#[derive(Debug)]
pub struct Worker {
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread. Fails if the system has none left to give.
    #[allow(clippy::disallowed_methods)] // this and the engines are the places
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(body)?;
        Ok(Worker {
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// What a thread of a [`Pool`] does.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that do jobs, in the order in which these came. Dropping it waits until all are done.
#[derive(Debug)]
pub struct Pool {
    jobs: Arc<Jobs>,
    // Joined when dropped.
    threads: Vec<Worker>,
}

#[derive(Default)]
struct Jobs {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.queue().waiting.len();
        f.debug_struct("Jobs").field("waiting", &waiting).finish()
    }
}

impl Jobs {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a thread: what was asked for is done, also after the end was said.
    fn serve(&self) {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.waiting.pop_front() {
                drop(queue);
                job();
                queue = self.queue();
            } else if queue.is_closed {
                return;
            } else {
                let woken = self.changed.wait(queue);
                queue = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Pool {
    /// So many threads, called `name` with a number.
    ///
    /// # Errors
    /// If the system has none left to give.
    pub fn new(name: &str, threads: u32) -> io::Result<Pool> {
        // Those that were started end with this if one is refused.
        let mut pool = Pool {
            jobs: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..threads {
            let jobs = pool.jobs.clone();
            let thread = Worker::spawn(&format!("{name}-{number}"), move || jobs.serve())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Has a job done by some thread.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.queue().waiting.push_back(Box::new(job));
        self.jobs.changed.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs.queue().is_closed = true;
        self.jobs.changed.notify_all();
        self.threads.clear();
    }
}

/// Does `job` for each number below `count`, on this thread and as many others as make `threads`; gives the results by
/// number. The job is told which thread it is on, from 0, which is this one.
pub fn side_by_side<R: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize, usize) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(count));
    let work = |thread: usize| {
        loop {
            // Relaxed: a number is given once, and nothing else is told by it.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let result = job(number, thread);
            let mut results = results.lock().unwrap_or_else(|p| p.into_inner());
            results.push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..threads.min(count) {
            let work = &work;
            scope.spawn(move || work(thread));
        }
        work(0);
    });
    let mut results = results.into_inner().unwrap_or_else(|p| p.into_inner());
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_side_by_side_are_done_once_and_their_results_are_in_order() {
        for threads in [1, 3, 20] {
            let did = side_by_side(9, threads, |number, thread| {
                assert!(thread < threads);
                number * number
            });
            assert_eq!(did, [0, 1, 4, 9, 16, 25, 36, 49, 64], "{threads} threads");
        }
        assert!(side_by_side(0, 2, |_, _| ()).is_empty());
    }

    #[test]
    fn a_worker_has_ended_when_it_is_dropped() {
        let (sender, receiver) = mpsc::channel();
        let worker = Worker::spawn("test", move || {
            let name = std::thread::current().name().map(str::to_string);
            sender.send(name).expect("the test waits");
        });
        drop(worker.expect("a thread"));
        assert_eq!(receiver.try_recv(), Ok(Some("test".to_string())));
    }
}
