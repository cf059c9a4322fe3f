//! Locks of files: the commands that take, give back and test them.

use crate::bits::{bit_fields, wire_enum};
use crate::command::Command;
use crate::file::FileHandle;
use crate::opcode::IoOpcode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bit_fields! {
    /// Lock and test lock. PRP1 of a lock is the last byte, PRP2 the owner.
    mod lock_fields {
        OPERATION = 15 [7:0];
        WAIT = 15 [8:8];
        WHOLE_FILE = 15 [9:9];
        DETECT = 15 [10:10];
    }
}

wire_enum! {
    /// What a lock command does for an owner.
    pub enum LockOperation: u8 {
        /// The owner gets the range together with others.
        LockShared = 0x00 => "lock shared",
        /// The owner gets the range alone.
        LockExclusive = 0x01 => "lock exclusive",
        /// The range goes.
        Unlock = 0x02 => "unlock",
        /// All that the owner has of the file goes.
        ReleaseOwner = 0x03 => "release owner",
        /// Commands of the owner that wait for exactly this range end; the result is how many.
        Withdraw = 0x04 => "withdraw",
    }
}

wire_enum! {
    /// How bytes are locked.
    pub enum LockState: u16 {
        /// Not at all.
        Free = 0 => "free",
        /// By several at most.
        Shared = 1 => "shared",
        /// By one.
        Exclusive = 2 => "exclusive",
    }
}

/// A lock: what a test asks for, and the first one that is in its way.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FileLock {
    /// The first byte.
    pub first: u64,
    /// The last byte; all bits set: to the end of the file, wherever that is.
    pub last: u64,
    /// The owner.
    pub owner: u64,
    /// Whose owner it is: a number for each host.
    pub session: u32,
    /// A [`LockState`].
    pub state: u16,
    /// 1 if it is an owner of the host that asks.
    pub is_own: u16,
}

/// A lock as a command names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWords {
    /// The open file.
    pub handle: FileHandle,
    /// What is done.
    pub operation: LockOperation,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// The owner.
    pub owner: u64,
    /// A whole-file lock is meant, and no range.
    pub whole_file: bool,
}

impl Command {
    /// Takes a lock of an open file, or gives it back.
    pub fn lock_file(nsid: u32, lock: LockWords) -> Command {
        Command::file(IoOpcode::LockFile, nsid, lock.handle)
            .at_bytes(lock.first, 0)
            .with_prp(lock.last, lock.owner)
            .with(lock_fields::OPERATION, lock.operation.raw().into())
            .with(lock_fields::WHOLE_FILE, lock.whole_file.into())
    }

    /// The same lock, which waits as long as somebody else has it.
    #[must_use]
    pub fn waiting(self) -> Command {
        self.with(lock_fields::WAIT, 1)
    }

    /// The same lock that waits, unless the wait would never end.
    #[must_use]
    pub fn detecting_deadlocks(self) -> Command {
        self.with(lock_fields::DETECT, 1)
    }

    /// Asks which lock of an open file is in the way of the one in a buffer of `bytes` bytes.
    pub fn test_lock(nsid: u32, handle: FileHandle, whole_file: bool, bytes: u32) -> Command {
        Command::file(IoOpcode::TestLock, nsid, handle)
            .at_bytes(0, bytes)
            .with(lock_fields::WHOLE_FILE, whole_file.into())
    }

    /// What a lock command does.
    pub const fn lock_operation(&self) -> Option<LockOperation> {
        LockOperation::from_raw(self.field(lock_fields::OPERATION) as u8)
    }

    /// Whether a lock waits.
    pub const fn lock_waits(&self) -> bool {
        self.field(lock_fields::WAIT) != 0
    }

    /// Whether a lock is of a whole file.
    pub const fn is_of_whole_file(&self) -> bool {
        self.field(lock_fields::WHOLE_FILE) != 0
    }

    /// Whether a wait that would never end is refused.
    pub const fn detects_deadlocks(&self) -> bool {
        self.field(lock_fields::DETECT) != 0
    }

    /// The last byte of a lock.
    pub const fn lock_last(&self) -> u64 {
        self.prp1
    }

    /// The owner of a lock.
    pub const fn lock_owner(&self) -> u64 {
        self.prp2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Token;
    use crate::opcode::DataDirection;

    const HANDLE: FileHandle = FileHandle {
        index: 5,
        generation: 6,
    };

    #[test]
    fn what_a_lock_says_comes_back() {
        for operation in LockOperation::ALL {
            let lock = LockWords {
                handle: HANDLE,
                operation: *operation,
                first: 1 << 40,
                last: u64::MAX,
                owner: 0x0102_0304_0506_0708,
                whole_file: true,
            };
            let command = Command::lock_file(1, lock);
            assert_eq!(command.io_opcode(), Some(IoOpcode::LockFile));
            assert_eq!(DataDirection::of(command.opcode), DataDirection::None);
            let words = LockWords {
                handle: command.file_handle(),
                operation: command.lock_operation().unwrap(),
                first: command.file_offset(),
                last: command.lock_last(),
                owner: command.lock_owner(),
                whole_file: command.is_of_whole_file(),
            };
            assert_eq!(words, lock);
            assert!(command.token().is(&Token::NONE));
            assert!(!command.lock_waits() && !command.detects_deadlocks());
            assert!(command.waiting().lock_waits());
            assert!(command.detecting_deadlocks().detects_deadlocks());
        }
        let test = Command::test_lock(1, HANDLE, true, 32);
        assert!(test.is_of_whole_file() && test.file_bytes() == 32);
        assert_eq!(DataDirection::of(test.opcode), DataDirection::Both);
        assert_eq!(test.file_handle(), HANDLE);
    }
}
