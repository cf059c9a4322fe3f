//! Locks of open files.

use wharf_files::Errno;
use wharf_files::locks::{
    LockAsk, LockError, LockKind, LockOwner, LockPlace, LockRange, LockSpace,
};
use wharf_wire::file::{FileLock, LockOperation, LockState};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::super::locks::{Locked, Locks};
use super::{At, COMMAND_BYTES, Call, Done, FileAnswer, Refused, Served, answer};

/// A lock command: done at once, or parked.
pub(super) async fn lock(at: At<'_>) -> FileAnswer {
    let call = match Call::new(at).await {
        Ok(call) => call,
        Err(refused) => return answer(Err(refused)),
    };
    if let Ok((place, _)) = call.lock_place() {
        call.settle_locks(place.file).await;
    }
    match call.operate_on_lock() {
        Ok(Some(result)) => answer(Ok(Done::result(result))),
        Ok(None) => FileAnswer::parked(),
        Err(refused) => answer(Err(refused)),
    }
}

/// Which lock is in the way of the one in the buffer.
pub(super) async fn test(call: &Call<'_>) -> Served {
    let (place, _) = call.lock_place()?;
    let mut asked = FileLock::default();
    call.copy_out(0, asked.as_mut_bytes())?;
    call.carry(COMMAND_BYTES as usize + size_of::<FileLock>())
        .await;
    let kind = LockKind::from_raw(asked.state).ok_or(StatusCode::InvalidField)?;
    call.settle_locks(place.file).await;
    let session = call.host();
    let ask = LockAsk {
        place,
        owner: LockOwner {
            session,
            id: asked.owner,
        },
        range: call.lock_range(asked.first, asked.last)?,
        kind,
        detects: false,
    };
    let found = call.locks().test(call.at.core, &ask);
    let answered = match &found {
        None => FileLock {
            state: LockState::Free.raw(),
            ..FileLock::default()
        },
        Some(lock) => FileLock {
            first: lock.range.first(),
            last: lock.range.last(),
            owner: lock.owner.id,
            session: lock.owner.session,
            state: LockState::from(lock.kind).raw(),
            is_own: (lock.owner.session == session).into(),
        },
    };
    call.copy_in(answered.as_bytes())?;
    Ok(Done {
        result: found.is_some().into(),
        bytes: size_of::<FileLock>() as u32,
    })
}

/// As the host is told.
fn refused(error: LockError) -> Refused {
    match error {
        LockError::Held(_) => StatusCode::LockHeld.into(),
        LockError::Deadlock | LockError::NoRoom => error.errno().into(),
    }
}

impl Call<'_> {
    pub(super) fn locks(&self) -> &Locks {
        self.at.firmware.locks()
    }

    /// All locks of a file are in the table, until there is a wait.
    pub(super) async fn settle_locks(&self, number: u64) {
        let firmware = self.at.firmware;
        firmware.leases().locks.settle(self.locks(), number).await;
    }

    /// The file and space that the command is about; whether its handle may read, and write.
    fn lock_place(&self) -> Result<(LockPlace, (bool, bool)), Refused> {
        let handle = self.handle()?;
        let (file, flags) = self.files.opened(handle)?;
        let space = match self.command.is_of_whole_file() {
            true => LockSpace::Whole,
            false => LockSpace::Records,
        };
        Ok((LockPlace { file, space }, (flags.read, flags.write)))
    }

    /// A range; all of a whole-file lock.
    fn lock_range(&self, first: u64, last: u64) -> Result<LockRange, StatusCode> {
        if self.command.is_of_whole_file() {
            return Ok(LockRange::ALL);
        }
        LockRange::new(first, last).ok_or(StatusCode::InvalidField)
    }

    /// Does what a lock command says. Gives its result, or nothing if it is parked. There is no wait here: whoever
    /// is asked in between does not come in between.
    fn operate_on_lock(&self) -> Result<Option<u64>, Refused> {
        let (place, may) = self.lock_place()?;
        let operation = self.command.lock_operation();
        let operation = operation.ok_or(StatusCode::InvalidField)?;
        let owner = LockOwner {
            session: self.host(),
            id: self.command.lock_owner(),
        };
        let (locks, core) = (self.locks(), self.at.core);
        let range = match operation {
            LockOperation::ReleaseOwner => LockRange::ALL,
            _ => self.lock_range(self.command.file_offset(), self.command.lock_last())?,
        };
        let kind = match operation {
            LockOperation::LockShared => LockKind::Shared,
            LockOperation::LockExclusive => LockKind::Exclusive,
            LockOperation::Unlock => {
                let unlocked = locks.unlock(core, place, owner, range);
                return unlocked.map(|()| Some(0)).map_err(refused);
            }
            LockOperation::ReleaseOwner => {
                locks.release_owner(core, place, owner);
                return Ok(Some(0));
            }
            LockOperation::Withdraw => {
                return Ok(Some(locks.withdraw(core, place, owner, range)));
            }
        };
        if !kind.may_be_had(place.space, may) {
            return Err(Errno::EBADF.into());
        }
        let ask = LockAsk {
            place,
            owner,
            range,
            kind,
            detects: self.command.detects_deadlocks(),
        };
        match locks.ask(core, self.at.slot, &ask, self.command.lock_waits()) {
            Locked::Granted => Ok(Some(0)),
            Locked::Parked => Ok(None),
            Locked::QueueCloses => Err(StatusCode::AbortedQueueDeleted.into()),
            Locked::Refused(error) => Err(refused(error)),
        }
    }
}
