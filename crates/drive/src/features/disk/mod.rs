//! The commands of a block device, as a disk serves them (`disk/mod.rs` has the walk).

mod read;
mod settle;
mod write;

use wharf_wire::opcode::IoOpcode;

use crate::config::{DriveConfig, DriveKind};
use crate::controller::{Feature, IoCommand};

/// See the [module](self).
pub struct DiskBlock;

impl Feature for DiskBlock {
    fn is_on(&self, config: &DriveConfig) -> bool {
        config.kind() == DriveKind::Disk
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        vec![
            (IoOpcode::Read.raw(), &read::Read),
            (IoOpcode::Verify.raw(), &read::Verify),
            (IoOpcode::Write.raw(), &write::Write),
            (IoOpcode::WriteZeroes.raw(), &write::WriteZeroes),
            (IoOpcode::DatasetManagement.raw(), &settle::Deallocate),
            (IoOpcode::Flush.raw(), &settle::Flush),
        ]
    }
}
