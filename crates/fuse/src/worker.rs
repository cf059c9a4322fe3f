//! The one thread that has the file system.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use wharf_files::vfs::Service;

use crate::convert::{Numbers, nanoseconds};
use crate::memory::Memory;

/// Something that the worker does.
pub type Job<S> = Box<dyn FnOnce(&Worker<S>) + Send>;

/// See the module.
pub struct Worker<S> {
    /// The file system.
    pub service: S,
    /// How its numbers are shown.
    pub numbers: Numbers,
    /// What the kernel may remember.
    pub memory: Memory,
}

/// The time, in nanoseconds since 1970.
#[allow(clippy::disallowed_methods)] // times of files are those of the clock on the wall
pub fn now_ns() -> u64 {
    nanoseconds(SystemTime::now())
}

/// How often a worker looks for its next job before it sleeps, and from which look on others may run
/// between two of them: some ten microseconds. To wake it costs several times as much, and
/// programs ask for one thing after the other.
const LOOKS: u32 = 300;
const LOOKS_AT_ONCE: u32 = 200;

/// The next job; `None` when nobody can give one any more.
#[allow(clippy::disallowed_methods)] // a thread that belongs to no engine
fn next<S>(jobs: &mpsc::Receiver<Job<S>>) -> Option<Job<S>> {
    for look in 0..LOOKS {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if look < LOOKS_AT_ONCE => std::hint::spin_loop(),
            Err(mpsc::TryRecvError::Empty) => std::thread::yield_now(),
        }
    }
    jobs.recv().ok()
}

/// A worker that has opened the file system. Its thread ends when nobody can give it jobs any more.
pub struct Started<S> {
    /// Its jobs.
    pub jobs: mpsc::Sender<Job<S>>,
    /// Its thread.
    pub thread: JoinHandle<io::Result<()>>,
    /// Whether others change the file system too.
    pub is_shared: bool,
}

/// Starts a worker.
#[allow(clippy::disallowed_methods)] // a thread that belongs to no engine
pub fn start<S: Service + 'static>(
    memory: impl FnOnce(bool) -> Memory + Send + 'static,
    open: impl FnOnce() -> io::Result<S> + Send + 'static,
    close: impl FnOnce(S) -> io::Result<()> + Send + 'static,
) -> io::Result<Started<S>> {
    let (jobs, to_do) = mpsc::channel::<Job<S>>();
    let (is_open, opened) = mpsc::channel();
    let work = move || {
        let service = match open() {
            Ok(service) => service,
            Err(error) => {
                let _ = is_open.send(Err(error));
                return Ok(());
            }
        };
        let is_shared = service.is_shared();
        let _ = is_open.send(Ok(is_shared));
        let worker = Worker {
            numbers: Numbers {
                root: service.root(),
            },
            service,
            memory: memory(is_shared),
        };
        while let Some(job) = next(&to_do) {
            job(&worker);
        }
        close(worker.service)
    };
    let thread = std::thread::Builder::new()
        .name("wharf files".into())
        .spawn(work)?;
    let gone = || io::Error::other("its thread has ended");
    let is_shared = opened.recv().map_err(|_| gone())??;
    Ok(Started {
        jobs,
        thread,
        is_shared,
    })
}
