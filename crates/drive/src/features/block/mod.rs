//! Commands of a block device, as flash serves them: read, write, verify, write zeroes, dataset management, flush,
//! get LBA status.
//!
//! Reads and writes that need not wait for anything but a time run to completion: `read.rs` and `write.rs` are
//! ordinary functions, called when a share comes and when its time has come.

mod allocated;
pub(super) mod asked;
mod flush;
mod ranges;
mod read;
mod start;
mod status;
mod write;

use std::any::Any;

use wharf_wire::opcode::IoOpcode;

pub(super) use start::{
    start_deallocation, start_read, start_verify, start_write, start_write_zeroes,
};

use crate::config::{DriveConfig, DriveKind};
use crate::controller::{Feature, IoCommand};

/// See the [module](self).
pub struct Block;

impl Feature for Block {
    fn is_on(&self, config: &DriveConfig) -> bool {
        config.kind() == DriveKind::Flash
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        vec![
            (IoOpcode::Read.raw(), &read::Read),
            (IoOpcode::Write.raw(), &write::Write),
            (IoOpcode::Verify.raw(), &read::Verify),
            (IoOpcode::WriteZeroes.raw(), &ranges::WriteZeroes),
            (
                IoOpcode::DatasetManagement.raw(),
                &ranges::DatasetManagement,
            ),
            (IoOpcode::Flush.raw(), &flush::Flush),
            (IoOpcode::GetLbaStatus.raw(), &status::GetLbaStatus),
        ]
    }

    fn on_core(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(allocated::Allocated::default()))
    }
}
