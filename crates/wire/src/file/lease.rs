//! Leases of files: the command by which a host may keep what it knows of a file.

use crate::bits::bit_fields;
use crate::command::Command;
use crate::file::FileHandle;
use crate::opcode::IoOpcode;

bit_fields! {
    /// Lease file.
    mod lease_fields {
        NAMES = 15 [0:0];
        WRITES = 15 [1:1];
        LOCKS = 15 [2:2];
    }
}

/// Leases that a host can have.
pub const LEASES_MAX: u32 = 512;

impl Command {
    /// Asks for a lease of an open file, told by the word at `word`, a multiple of 8. Its attributes come to a buffer of
    /// `bytes` bytes.
    pub fn lease_file(nsid: u32, handle: FileHandle, word: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::LeaseFile, nsid, handle).at_bytes(word, bytes)
    }

    /// Asks for a lease of all names, told by the word at `word`.
    pub fn lease_names(nsid: u32, word: u64, bytes: u32) -> Command {
        Command::lease_file(nsid, FileHandle::default(), word, bytes).with(lease_fields::NAMES, 1)
    }

    /// Asks for a lease to write an open file: `word` is one of the [write area's](super::write_area) words of leases.
    pub fn lease_writes(nsid: u32, handle: FileHandle, word: u64, bytes: u32) -> Command {
        Command::lease_file(nsid, handle, word, bytes).with(lease_fields::WRITES, 1)
    }

    /// Asks for a lease of the locks of an open file: `word` is one of the [lock area's](super::lock_area) words of leases.
    pub fn lease_locks(nsid: u32, handle: FileHandle, word: u64, bytes: u32) -> Command {
        Command::lease_file(nsid, handle, word, bytes).with(lease_fields::LOCKS, 1)
    }

    /// Whether a lease is of locks.
    pub const fn leases_locks(&self) -> bool {
        self.field(lease_fields::LOCKS) != 0
    }

    /// Whether a lease is to write.
    pub const fn leases_writes(&self) -> bool {
        self.field(lease_fields::WRITES) != 0
    }

    /// Whether a lease is of all names.
    pub const fn leases_names(&self) -> bool {
        self.field(lease_fields::NAMES) != 0
    }

    /// Where the word of a lease is, by the host's own addresses.
    pub const fn lease_word(&self) -> u64 {
        self.file_offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::DataDirection;

    #[test]
    fn what_a_lease_says_comes_back() {
        let handle = FileHandle {
            index: 5,
            generation: 6,
        };
        let command = Command::lease_file(1, handle, 0x123_4567_89a8, 128);
        assert_eq!(command.io_opcode(), Some(IoOpcode::LeaseFile));
        assert_eq!(
            DataDirection::of(command.opcode),
            DataDirection::DriveToHost
        );
        assert_eq!(
            (command.lease_word(), command.file_bytes()),
            (0x123_4567_89a8, 128)
        );
        assert_eq!(
            (command.file_handle(), command.token().0),
            (handle, [0; 16])
        );
        assert!(!command.leases_names());
        let names = Command::lease_names(1, 0x123_4567_89a8, 128);
        assert!(names.leases_names() && names.lease_word() == command.lease_word());
        let writes = Command::lease_writes(1, handle, 0x123_4567_8000, 128);
        assert!(writes.leases_writes() && !writes.leases_names() && !command.leases_writes());
        let locks = Command::lease_locks(1, handle, 0x123_4567_8000, 128);
        assert!(locks.leases_locks() && !locks.leases_writes() && !writes.leases_locks());
    }
}
