//! Long work beside the interpreter: other threads of Python run meanwhile, and Ctrl-C ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use wharf_runtime::worker::Worker;

/// How often Python is asked whether there was a signal.
const LOOK: Duration = Duration::from_millis(50);
/// How long work that was told to stop is waited for.
const GRACE: Duration = Duration::from_secs(1);

/// Does `work` on a thread of its own, while this one waits for it without the GIL and looks for signals. What a signal's handler raises is
/// raised here, after the work was told to stop by its flag. Work that does not look at the flag within a second is left alone: it ends when it
/// does, and what it gives is thrown away.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, mut receiver) = channel();
    let of_worker = stop.clone();
    let worker = Worker::spawn("wharf-run", move || {
        // Nobody takes it if the thread was left alone.
        let _ = sender.send(work(&of_worker));
    });
    let worker = worker.map_err(|error| PyOSError::new_err(error.to_string()))?;
    // Exclusive, as a receiver may be used by one thread at a time.
    let mut wait = |time| {
        let receiver = &mut receiver;
        py.detach(move || receiver.recv_timeout(time))
    };
    loop {
        match wait(LOOK) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // It has panicked, and so does who joins it.
                drop(worker);
                unreachable!("work that ends says so");
            }
        }
        if let Err(raised) = py.check_signals() {
            // Relaxed: the thread reads it again and again.
            stop.store(true, Ordering::Relaxed);
            if matches!(wait(GRACE), Err(RecvTimeoutError::Timeout)) {
                std::mem::forget(worker);
            }
            return Err(raised);
        }
    }
}
