//! OS threads for system calls that block, outside the engines: a task must not block, and
//! whoever has to (plain `pread` on storage) keeps such threads beside them.

use std::io;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
