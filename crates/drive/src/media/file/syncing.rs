//! Syncs of an image beside the thread that has its drive.
//!
//! The walk: [`Media::begin_sync`](crate::media::Media::begin_sync) writes what a sync writes first,
//! and leaves the file with a thread of the image, which calls `fdatasync`. The drive goes on, and
//! looks now and then whether [`Syncing::is_done`]. Then
//! [`Media::end_sync`](crate::media::Media::end_sync) takes note of how it went. What is programmed
//! meanwhile belongs to the next sync.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use wharf_runtime::worker::Worker;

/// A sync that goes on beside.
#[derive(Debug, Clone)]
pub struct Syncing(Arc<Job>);

#[derive(Debug)]
struct Job {
    /// What it covers, for whoever began it.
    period: Option<u32>,
    outcome: Mutex<Option<io::Result<()>>>,
    ended: Condvar,
}

impl Syncing {
    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// Waits until it has ended, and gives what it came to.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut outcome = self.outcome();
        loop {
            match &*outcome {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => {
                    let errno = error.raw_os_error();
                    return Err(errno.map_or(error.kind().into(), io::Error::from_raw_os_error));
                }
                None => {
                    let waited = self.0.ended.wait(outcome);
                    outcome = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// What it covers.
    pub(crate) fn period(&self) -> Option<u32> {
        self.0.period
    }

    fn outcome(&self) -> MutexGuard<'_, Option<io::Result<()>>> {
        let outcome = self.0.outcome.lock();
        outcome.unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread is to do.
type Order = (Arc<File>, Arc<Job>);

impl Job {
    /// The file is let go of before anybody hears of the end.
    fn run(&self, file: Arc<File>, gate: &Gate) {
        gate.pass();
        let synced = file.sync_data();
        drop(file);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *outcome = Some(synced);
        self.ended.notify_all();
    }
}

/// The thread that syncs, once there is one. It ends with its image.
#[derive(Debug, Default)]
pub struct Syncer {
    // In this order: the thread ends when nobody leaves it jobs any more.
    jobs: OnceLock<Option<(Sender<Order>, Worker)>>,
    gate: Arc<Gate>,
}

impl Syncer {
    /// Begins a sync of a file.
    pub fn begin(&self, file: &Arc<File>, period: Option<u32>) -> Syncing {
        let job = Arc::new(Job {
            period,
            outcome: Mutex::new(None),
            ended: Condvar::new(),
        });
        let started = self.jobs.get_or_init(|| start(self.gate.clone()));
        let sent = started
            .as_ref()
            .map(|(jobs, _)| jobs.send((file.clone(), job.clone())));
        if !matches!(sent, Some(Ok(()))) {
            // The system has no thread left: then it is waited for here.
            job.run(file.clone(), &self.gate);
        }
        Syncing(job)
    }

    /// Keeps syncs from ending until what this gives is dropped.
    pub fn hold(&self) -> HeldSyncs {
        *self.gate.is_closed() = true;
        HeldSyncs(self.gate.clone())
    }

    /// Whether syncs are kept from ending.
    pub fn is_held(&self) -> bool {
        *self.gate.is_closed()
    }
}

fn start(gate: Arc<Gate>) -> Option<(Sender<Order>, Worker)> {
    let (sender, jobs): (_, Receiver<Order>) = channel();
    let run = move || {
        jobs.into_iter()
            .for_each(|(file, job)| job.run(file, &gate))
    };
    let worker = Worker::spawn("wharf sync", run).ok()?;
    Some((sender, worker))
}

/// Syncs do not end while this is there: a disk that takes long, for tests.
#[derive(Debug)]
pub struct HeldSyncs(Arc<Gate>);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        *self.0.is_closed() = false;
        self.0.opened.notify_all();
    }
}

#[derive(Debug, Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn is_closed(&self) -> MutexGuard<'_, bool> {
        self.is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        let mut is_closed = self.is_closed();
        while *is_closed {
            let waited = self.opened.wait(is_closed);
            is_closed = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
