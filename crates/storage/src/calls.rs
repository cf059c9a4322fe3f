//! Files and devices by plain system calls on the thread that submits: for a thread that gets no
//! ring, as the process has no descriptors left, say. Slower, and no error.

use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::file::FileCore;
use crate::io::{Completion, Io, IoError};
use crate::target::{Channel, Ended, Full, admit};
use crate::threads::run;
use crate::transfer::Transfer;

/// A thread's way to a file, of no use when the file is closed.
pub(crate) struct CallsChannel {
    core: Weak<FileCore>,
    depth: usize,
    transfer: Transfer,
    /// The list that the kernel reads.
    vector: Vec<libc::iovec>,
    ended: Ended,
}

impl CallsChannel {
    pub(crate) fn new(core: &Arc<FileCore>, depth: u32) -> CallsChannel {
        CallsChannel {
            core: Arc::downgrade(core),
            depth: depth as usize,
            transfer: Transfer::idle(),
            vector: Vec::new(),
            ended: Ended::default(),
        }
    }

    fn run(&mut self, io: &Io<'_>) -> Result<(), IoError> {
        self.transfer.begin(io);
        let core = self.core.upgrade();
        let core = core.ok_or_else(|| self.transfer.error(Errno::BADF))?;
        admit(&core.info, core.size_bytes(), io)?;
        run(&core, &mut self.transfer, &mut self.vector)
    }
}

impl Channel for CallsChannel {
    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if self.ended.len() == self.depth {
            return Err(Full);
        }
        let result = self.run(&io);
        self.ended.push(io.tag, result);
        Ok(())
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.ended.report(done)
    }

    fn wait(&mut self, _min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        self.poll(done)
    }
}
