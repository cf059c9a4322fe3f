//! Files: the drive's firmware cores run a file system, and serve commands that speak of files.
//!
//! The walk of a command: the controller checks it and gives it to the core that it is for ([`start`]). There it
//! waits for one of the core's *file tasks* (`tasks.rs`), which runs its handler ([`FileCommand`]): straight-line
//! code over the file system, whose pages ([`FilePages`]) are those of all cores. Its bytes go straight between
//! flash and the host. All cores share one file system, in the drive's memory.
//!
//! | file | idea |
//! |---|---|
//! | `tasks.rs` | file tasks, and commands that wait for one |
//! | `firmware.rs`, `power_on.rs` | what the cores of a drive share; the file system is opened at power-on, or made |
//! | `find.rs` | the partition that has it; a new one |
//! | `pages.rs`, `bytes.rs` | the drive's pages below the file system; bytes of files between them and the host |

mod bytes;
mod find;
mod firmware;
mod pages;
mod power_on;
mod tasks;

use std::any::Any;
use std::rc::Rc;

pub use find::OpenError;
pub use firmware::{FileSystemOfDrive, Firmware};
pub use pages::FilePages;
pub use tasks::{At, FileAnswer, FileCommand, FileHandler, FileWork, start};

use crate::config::{DriveConfig, NewFiles};
use crate::controller::{Controller, Feature, IoCommand};
use crate::core::Core;
use tasks::FileCore;
use wharf_wire::status::StatusCode;

/// See the [module](self).
pub struct Files;

impl Feature for Files {
    fn is_on(&self, config: &DriveConfig) -> bool {
        config.file_system.is_some()
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        Vec::new()
    }

    fn on_core(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(FileCore::default()))
    }

    fn power_on(&self, cores: &[Rc<Core>], config: &DriveConfig, new: Option<NewFiles>) {
        power_on::power_on(cores, config, new);
    }

    fn check_format(&self, _: &Controller) -> Result<(), StatusCode> {
        // It would take the pages away below a file system that is in use.
        Err(StatusCode::CommandSequenceError)
    }
}
