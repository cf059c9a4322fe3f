//! What a driver counts.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::opcode::IoOpcode;

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a driver did.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct DriverStatistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DriverStatistics {
            /// Adds what another driver did.
            pub fn merge(&mut self, other: &DriverStatistics) {
                $(self.$name += other.$name;)*
            }

            /// What was done since `earlier`, a reading of the same drivers.
            #[must_use]
            pub fn since(&self, earlier: &DriverStatistics) -> DriverStatistics {
                DriverStatistics { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

statistics! {
    /// Read commands issued, of blocks and of files.
    reads,
    /// Write commands issued, of blocks and of files.
    writes,
    /// Flush commands and syncs of files issued.
    flushes,
    /// Dataset management commands issued.
    deallocates,
    /// Commands of other kinds issued.
    others,
    /// Bytes of the read commands; a page counts 4096 bytes, also as a stamp.
    read_bytes,
    /// Bytes of the write commands.
    write_bytes,
    /// Nanoseconds from issue to completion, over the commands that succeeded.
    command_ns,
    /// Commands that ended with an error status.
    errors,
    /// Commands that timed out.
    timeouts,
    /// Times that a command was sent again.
    retries,
    /// Answers to commands that had timed out.
    late,
    /// Completions that belong to no command in flight.
    strays,
}

impl DriverStatistics {
    /// Commands issued, retries not counted.
    pub fn commands(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.deallocates + self.others
    }
}

/// Counts a command that is issued.
#[inline]
pub(super) fn count(statistics: &mut DriverStatistics, command: &Command, admin: bool) {
    let bytes = || u64::from(command.pages()) * PAGE_BYTES as u64;
    match command.io_opcode() {
        _ if admin => statistics.others += 1,
        Some(IoOpcode::Read) => {
            statistics.reads += 1;
            statistics.read_bytes += bytes();
        }
        Some(IoOpcode::Write) => {
            statistics.writes += 1;
            statistics.write_bytes += bytes();
        }
        Some(IoOpcode::ReadFile) => {
            statistics.reads += 1;
            statistics.read_bytes += u64::from(command.file_bytes());
        }
        Some(IoOpcode::WriteFile) => {
            statistics.writes += 1;
            statistics.write_bytes += u64::from(command.file_bytes());
        }
        Some(IoOpcode::Flush | IoOpcode::SyncFile) => statistics.flushes += 1,
        Some(IoOpcode::DatasetManagement) => statistics.deallocates += 1,
        _ => statistics.others += 1,
    }
}
