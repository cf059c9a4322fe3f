//! Locks of open files, as the drive keeps them for all its hosts.
//!
//! A lock that somebody else has is waited for in the drive: one command waits there, in nobody's way. That is not so
//! in two cases, in which the client asks again and again: where half of what a queue pair holds waits already, so that
//! the command by which a lock is given back always finds a place; and where the drive lets no more wait. Who asks again
//! has no place in the line, and no deadlock is looked for.
//!
//! A command that waits longer than half the time after which the driver gives a command up is withdrawn and sent anew,
//! behind those that came meanwhile.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use wharf_files::locks::{LockKind, LockRange, LockSpace};
use wharf_files::{Errno, Handle};
use wharf_runtime::Cpu;
use wharf_wire::command::Command;
use wharf_wire::file::{FileLock, LockOperation, LockState, LockWords};
use zerocopy::IntoBytes;

use super::convert::file_handle;
use super::{Inner, StorClient};
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// How often a client that waits looks whether it is to go on waiting, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// After which time a client that may not wait in the drive asks again, in nanoseconds: first, and at most.
const ASK_AGAIN_NS: u64 = 100_000;
const ASK_AGAIN_MAX_NS: u64 = 10_000_000;

/// A lock that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRequest {
    /// For whom: a process, an open file, as this host likes. Other hosts' owners are others.
    pub owner: u64,
    /// A range, or all of the file.
    pub space: LockSpace,
    /// Which bytes; not looked at for whole-file locks.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
    /// Waits while somebody else has it.
    pub waits: bool,
    /// Does not wait (`EDEADLK`) for owners that wait in turn for this one, all of them detecting: for processes, which
    /// wait for one lock at a time. Of ranges alone.
    pub detects: bool,
}

/// A lock that is in the way of one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLock {
    /// Its owner.
    pub owner: u64,
    /// Which host's owner it is, by the drive's number.
    pub session: u32,
    /// It is an owner of this host.
    pub is_own: bool,
    /// Which bytes.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
}

/// One more that waits in the drive, until this is dropped.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl StorClient {
    /// Gives an owner a lock of an open file, in the place of what it has there.
    ///
    /// # Errors
    /// `EAGAIN` if somebody else has it, and the request does not wait; `EDEADLK`; `ENOLCK` if this host has as many as
    /// it may have; `EBADF` if the handle may not read for a shared lock, or write for an exclusive one, of a range.
    pub async fn lock(&self, handle: Handle, request: &LockRequest) -> Result<(), FileError> {
        self.lock_unless(handle, request, None::<fn() -> bool>)
            .await
    }

    /// As [`StorClient::lock`], until `stop` says that it is not to be waited for any more: it is asked each
    /// millisecond of a wait, or less often where waits are full.
    ///
    /// # Errors
    /// As [`StorClient::lock`]; `EINTR` if it was stopped: there is no lock then.
    pub async fn lock_unless(
        &self,
        handle: Handle,
        request: &LockRequest,
        mut stop: Option<impl FnMut() -> bool>,
    ) -> Result<(), FileError> {
        let mut again_ns = ASK_AGAIN_NS;
        loop {
            if request.waits && self.inner.may_wait() {
                match self.wait_in_drive(handle, request, &mut stop).await {
                    Ok(Waited::Over(ended)) => return ended,
                    Ok(Waited::TooLong) => continue,
                    Ok(Waited::NoPlace) => {}
                    Err(error) => return Err(error),
                }
            }
            let command = command(handle, request);
            let asked = self.inner.send(self.about_open(handle), command).await;
            match asked {
                Err(error) if request.waits && error.errno() == Errno::EAGAIN => {}
                ended => return ended.map(drop),
            }
            if stop.as_mut().is_some_and(|stop| stop()) {
                return Err(Errno::EINTR.into());
            }
            let cpu = &self.inner.cpu;
            cpu.sleep_until(cpu.now().saturating_add(again_ns)).await;
            again_ns = (2 * again_ns).min(ASK_AGAIN_MAX_NS);
        }
    }

    /// Waits in the drive.
    async fn wait_in_drive(
        &self,
        handle: Handle,
        request: &LockRequest,
        stop: &mut Option<impl FnMut() -> bool>,
    ) -> Result<Waited, FileError> {
        let (inner, cpu) = (&*self.inner, &self.inner.cpu);
        let _waiting = inner.begin_wait();
        let mut command = command(handle, request).waiting();
        if request.detects {
            command = command.detecting_deadlocks();
        }
        let mut asked = pin!(inner.send(self.about_open(handle), command));
        let too_long_ns = cpu.now().saturating_add(inner.wait_max_ns());
        let (mut is_stopped, mut is_withdrawn) = (false, false);
        let ended = loop {
            let look_ns = match is_withdrawn || stop.is_some() {
                // Or it has been withdrawn before a core has looked at it: then that is done again.
                true => cpu.now().saturating_add(LOOK_NS),
                false => too_long_ns,
            };
            if let Some(ended) = until(cpu, look_ns, asked.as_mut()).await {
                break ended;
            }
            is_stopped = is_stopped || stop.as_mut().is_some_and(|stop| stop());
            if is_stopped || cpu.now() >= too_long_ns {
                is_withdrawn = true;
                self.withdraw_lock(handle, request).await?;
            }
        };
        let errno = ended.as_ref().err().map(FileError::errno);
        Ok(match errno {
            // Somebody else has withdrawn all of this owner's, or it has taken too long: it is asked for anew.
            Some(Errno::EINTR) if !is_stopped => Waited::TooLong,
            // It may be that no more can wait.
            Some(Errno::ENOLCK) => Waited::NoPlace,
            _ => Waited::Over(ended.map(drop)),
        })
    }

    /// Takes a range away from its owner; a whole-file lock, if that is meant.
    ///
    /// # Errors
    /// `ENOLCK` if a lock would be split, and this host has as many as it may have.
    pub async fn unlock(
        &self,
        handle: Handle,
        owner: u64,
        space: LockSpace,
        range: LockRange,
    ) -> Result<(), FileError> {
        let words = words(handle, LockOperation::Unlock, owner, space, range);
        let command = Command::lock_file(NAMESPACE, words);
        let sent = self.inner.send(self.about_open(handle), command);
        sent.await.map(drop)
    }

    /// Takes all that an owner has of a file in a space: what closing a file does to the locks of a process, or of an
    /// open file. It comes before the handle is closed.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub async fn release_locks(
        &self,
        handle: Handle,
        owner: u64,
        space: LockSpace,
    ) -> Result<(), FileError> {
        let all = LockRange::ALL;
        let words = words(handle, LockOperation::ReleaseOwner, owner, space, all);
        let command = Command::lock_file(NAMESPACE, words);
        let sent = self.inner.send(self.about_open(handle), command);
        sent.await.map(drop)
    }

    /// Ends waits for a lock of a request's owner, space and range: all of them. Gives how many there were.
    async fn withdraw_lock(&self, handle: Handle, like: &LockRequest) -> Result<u64, FileError> {
        let operation = LockOperation::Withdraw;
        let words = words(handle, operation, like.owner, like.space, like.range);
        let command = Command::lock_file(NAMESPACE, words);
        self.inner.send(self.about_open(handle), command).await
    }

    /// The first lock that is in the way of one, if there is any.
    ///
    /// # Errors
    /// `EBADF`, `EIO`.
    pub async fn test_lock(
        &self,
        handle: Handle,
        request: &LockRequest,
    ) -> Result<Option<HeldLock>, FileError> {
        let whole_file = request.space == LockSpace::Whole;
        let mut words = FileLock {
            first: request.range.first(),
            last: request.range.last(),
            owner: request.owner,
            state: LockState::from(request.kind).raw(),
            ..FileLock::default()
        };
        let bytes = size_of::<FileLock>();
        let command = Command::test_lock(NAMESPACE, file_handle(handle), whole_file, bytes as u32);
        let mut buffer = self.inner.buffer(bytes).await;
        buffer.put(words.as_bytes());
        let found = buffer.send(self.about_open(handle), command).await?;
        if found == 0 {
            return Ok(None);
        }
        buffer.get(words.as_mut_bytes());
        Ok(Some(held(&words)?))
    }
}

/// What a wait in the drive came to.
enum Waited {
    Over(Result<(), FileError>),
    /// It was withdrawn, though nobody wanted it to stop.
    TooLong,
    /// No more wait there.
    NoPlace,
}

impl Inner {
    /// Whether one more may wait in the drive.
    fn may_wait(&self) -> bool {
        let slots = self.lanes.drivers().map(|driver| driver.slots());
        self.lock_waits.get() < slots.min().map_or(0, |slots| slots / 2)
    }

    fn begin_wait(&self) -> Waiting<'_> {
        self.lock_waits.set(self.lock_waits.get() + 1);
        Waiting(&self.lock_waits)
    }

    /// How long one waits there.
    fn wait_max_ns(&self) -> u64 {
        let timeouts = self
            .lanes
            .drivers()
            .map(|driver| driver.config().timeout_ns);
        match timeouts.min() {
            None | Some(u64::MAX) => u64::MAX,
            Some(timeout_ns) => timeout_ns / 2,
        }
    }
}

/// Runs a future until it ends, or until `deadline_ns`.
async fn until<T>(
    cpu: &Cpu,
    deadline_ns: u64,
    mut future: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut late = pin!(async {
        match deadline_ns {
            u64::MAX => std::future::pending().await,
            deadline_ns => cpu.sleep_until(deadline_ns).await,
        }
    });
    poll_fn(|context| {
        if let Poll::Ready(ended) = future.as_mut().poll(context) {
            return Poll::Ready(Some(ended));
        }
        late.as_mut().poll(context).map(|()| None)
    })
    .await
}

fn words(
    handle: Handle,
    operation: LockOperation,
    owner: u64,
    space: LockSpace,
    range: LockRange,
) -> LockWords {
    LockWords {
        handle: file_handle(handle),
        operation,
        first: range.first(),
        last: range.last(),
        owner,
        whole_file: space == LockSpace::Whole,
    }
}

/// The command that asks for a lock, and does not wait.
fn command(handle: Handle, request: &LockRequest) -> Command {
    let operation = match request.kind {
        LockKind::Shared => LockOperation::LockShared,
        LockKind::Exclusive => LockOperation::LockExclusive,
    };
    let LockRequest {
        owner,
        space,
        range,
        ..
    } = *request;
    Command::lock_file(NAMESPACE, words(handle, operation, owner, space, range))
}

/// A lock as the drive tells it; an error if it says what nobody knows.
fn held(words: &FileLock) -> Result<HeldLock, Errno> {
    Ok(HeldLock {
        owner: words.owner,
        session: words.session,
        is_own: words.is_own != 0,
        range: LockRange::new(words.first, words.last).ok_or(Errno::EIO)?,
        kind: LockKind::from_raw(words.state).ok_or(Errno::EIO)?,
    })
}
