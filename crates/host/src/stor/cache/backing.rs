//! What lies below the cache: files of the drive. Pages come and go by commands for files, as many at a time as one command
//! takes, straight to and from the frames.

use std::cell::RefCell;
use std::sync::Arc;

use wharf_files::{Errno, Sync};
use wharf_runtime::{Cpu, Op};
use wharf_wire::command::Command;
use wharf_wire::dma::DmaRegion;
use wharf_wire::file::NearResult;

use super::mode::{CacheMode, Without};
use super::node::DriveHandle;
use super::process::Process;
use crate::error::IoError;
use crate::files::FileError;
use crate::group::Group;
use crate::kit::backing::{Backing, Sent};
use crate::kit::run::Run;
use crate::stor::StorClient;
use crate::stor::convert::file_handle;
use crate::stor::pages::PAGE;
use crate::stor::placement::About;
use crate::stor::send::meaning;
use crate::volume::{NAMESPACE, Transfer};

/// See the module.
pub(super) struct FilesOfDrive {
    pub(super) client: StorClient,
    pub(super) process: Arc<Process>,
}

/// A transfer on its way.
pub(crate) struct Commands {
    client: StorClient,
    process: Arc<Process>,
    kind: Transfer,
    parts: Vec<Part>,
    /// The open file, until nothing uses it any more; or that there is none.
    carrier: RefCell<Option<Arc<DriveHandle>>>,
    is_refused: bool,
}

/// The pages of one command.
struct Part {
    frames: Vec<u32>,
    offset: u64,
    /// Bytes that it moves.
    bytes: usize,
    /// The command and its queue pair; none if there is nothing to move.
    sent: Option<(Group, usize)>,
}

impl FilesOfDrive {
    /// Sends the command for a part.
    async fn send(
        &self,
        (kind, number): (Transfer, u64),
        carrier: &DriveHandle,
        part: &Part,
        memory: &DmaRegion,
    ) -> (Group, usize) {
        let (handle, bytes) = (file_handle(carrier.handle), part.bytes as u32);
        let (about, command) = match kind {
            Transfer::Read => {
                let near = || Command::read_near(NAMESPACE, handle, part.offset, bytes);
                let read = match (self.process.mode, self.process.without) {
                    (CacheMode::Near, Without::Exclusion) => near(),
                    (CacheMode::Near, _) => near().taking(),
                    _ => Command::read_file(NAMESPACE, handle, part.offset, bytes),
                };
                (About::Read(number), read)
            }
            _ => {
                let write = Command::write_file(NAMESPACE, handle, part.offset, bytes);
                (About::File(number), write)
            }
        };
        let used = part.bytes.div_ceil(PAGE);
        let addresses = part.frames[..used].iter();
        let addresses: Vec<u64> = addresses
            .map(|frame| memory.address(*frame as usize))
            .collect();
        let inner = &self.client.inner;
        let command = command.with_token(inner.access.token());
        inner.kernel_path.get().submit(&inner.cpu, 1);
        let lane = inner.lanes.place(about);
        let group = lane.driver.groups().open();
        let slot = lane.driver.reserve().await;
        lane.driver.issue(slot, &group, command, &addresses);
        lane.driver.ring();
        (group, lane.leave())
    }
}

impl Backing for FilesOfDrive {
    type Sent = Commands;

    fn pages(&self, file: u32) -> u64 {
        self.process.node(file).extent().div_ceil(PAGE as u64)
    }

    async fn begin(
        &self,
        cpu: &Cpu,
        kind: Transfer,
        file: u32,
        run: &Run,
        memory: &DmaRegion,
    ) -> Commands {
        let node = self.process.node(file);
        let carrier = node.carrier(cpu).filter(|carrier| match kind {
            Transfer::Read => carrier.can_read,
            _ => carrier.can_write,
        });
        let mut parts = Vec::new();
        let pages_max = self.client.inner.bytes_max / PAGE;
        for (index, frames) in run.frames.chunks(pages_max).enumerate() {
            let offset = (run.first + (index * pages_max) as u64) * PAGE as u64;
            let end = match kind {
                Transfer::Read => node.on_drive(),
                _ => node.extent(),
            };
            let most = (frames.len() * PAGE) as u64;
            let mut part = Part {
                frames: frames.to_vec(),
                offset,
                bytes: most.min(end.saturating_sub(offset)) as usize,
                sent: None,
            };
            if let Some(carrier) = carrier.as_ref().filter(|_| part.bytes > 0) {
                if kind != Transfer::Read {
                    node.stretch_on_drive(offset + part.bytes as u64);
                }
                let sent = self.send((kind, node.number()), carrier, &part, memory);
                part.sent = Some(sent.await);
            }
            parts.push(part);
        }
        Commands {
            client: self.client.clone(),
            process: self.process.clone(),
            kind,
            parts,
            is_refused: carrier.is_none(),
            carrier: RefCell::new(carrier),
        }
    }

    async fn flush(&self, cpu: &Cpu, file: u32) -> Result<(), IoError> {
        let Some(carrier) = self.process.node(file).carrier(cpu) else {
            return Ok(());
        };
        let synced = self.client.sync(carrier.handle, Sync::Data).await;
        let released = self.client.release_handle(carrier).await;
        synced.and(released).map_err(|error| as_io(error, 0))
    }
}

impl Commands {
    /// Ends a part: what the drive has of it is as much as it should have, or the rest of its pages is zeros.
    async fn end(&self, cpu: &Cpu, part: &Part) -> Result<(), IoError> {
        let mut moved = 0;
        if let Some((group, lane)) = &part.sent {
            let ended = group.wait(cpu).await;
            self.client.inner.kernel_path.get().complete(cpu, 1);
            self.client.inner.lanes.end(*lane);
            let ended = ended.map_err(|error| meaning(error, group.last_result()));
            let result = ended.map_err(|error| as_io(error, part.offset))?;
            moved = match self.kind {
                Transfer::Read if self.process.mode.is_near() => {
                    NearResult::from_raw(result).bytes as usize
                }
                _ => result as usize,
            };
        }
        match self.kind {
            Transfer::Read if moved > part.bytes => Err(as_io(Errno::EIO.into(), part.offset)),
            Transfer::Read => {
                self.zero(cpu, part, moved);
                Ok(())
            }
            // There was no room for more.
            _ if moved < part.bytes => Err(as_io(Errno::ENOSPC.into(), part.offset)),
            _ => Ok(()),
        }
    }

    /// Makes zeros of the bytes of a part from `from` on.
    fn zero(&self, cpu: &Cpu, part: &Part, from: usize) {
        let frames = &self.process.shared.frames;
        for (index, frame) in part.frames.iter().enumerate() {
            let kept = from.saturating_sub(index * PAGE).min(PAGE);
            if kept < PAGE {
                // SAFETY: the frame is this transfer's, whose command has ended, and nobody looks at it before the transfer has.
                let zero =
                    || unsafe { frames.pointer(*frame).add(kept).write_bytes(0, PAGE - kept) };
                cpu.work(Op::CopyPage, zero);
            }
        }
    }
}

impl Sent for Commands {
    async fn wait(&self, cpu: &Cpu) -> Result<(), IoError> {
        let mut outcome = match self.is_refused {
            true => Err(as_io(Errno::EIO.into(), 0)),
            false => Ok(()),
        };
        if !self.is_refused {
            for part in &self.parts {
                outcome = outcome.and(self.end(cpu, part).await);
            }
        }
        let carrier = self.carrier.borrow_mut().take();
        // After a timeout the drive may still use it: it closes it when the queue pairs go.
        if let Some(carrier) = carrier.filter(|_| self.is_quiet()) {
            let released = self.client.release_handle(carrier).await;
            outcome = outcome.and(released.map_err(|error| as_io(error, 0)));
        }
        outcome
    }

    fn is_quiet(&self) -> bool {
        let mut groups = self.parts.iter().filter_map(|part| part.sent.as_ref());
        groups.all(|(group, _)| group.is_quiet())
    }

    fn watch(&self, cpu: &Cpu) {
        let groups = self.parts.iter().filter_map(|part| part.sent.as_ref());
        groups.for_each(|(group, _)| group.watch(cpu));
    }
}

impl StorClient {
    /// Gives a share in an open file of the drive's back; the last one closes it.
    pub(super) async fn release_handle(&self, handle: Arc<DriveHandle>) -> Result<(), FileError> {
        match Arc::into_inner(handle) {
            Some(last) => self.close(last.handle).await,
            None => Ok(()),
        }
    }
}

/// What a transfer of pages failed with.
const TRANSFER: &str = "a transfer of pages of a file in the drive";

/// The error of a command for files as one of storage.
fn as_io(error: FileError, offset: u64) -> IoError {
    match error {
        FileError::Io(error) => error,
        FileError::Errno(errno) => IoError::System {
            doing: TRANSFER,
            offset,
            errno: errno.number(),
        },
    }
}

/// An error of the cache as one of files: where the file system refused a transfer, what it said.
pub(super) fn as_file_error(error: IoError) -> FileError {
    match error {
        IoError::System { doing, errno, .. } if doing == TRANSFER => Errno::of_number(errno)
            .map_or(FileError::Io(error), |errno| match errno {
                Errno::EIO => FileError::Io(error),
                errno => errno.into(),
            }),
        error => error.into(),
    }
}
