//! Files: the drive's firmware cores run a file system, and serve commands that speak of files.
//!
//! The walk of a command: the controller checks it and gives it to the core that it is for ([`start`]). There it
//! waits for one of the core's *file tasks* (`tasks.rs`), which runs its handler ([`FileCommand`]): straight-line
//! code over the file system, whose pages ([`FilePages`]) are those of all cores. Its bytes go straight between
//! flash and the host. All cores share one file system, in the drive's memory.
//!
//! | file | idea |
//! |---|---|
//! | `tasks.rs`, `answer.rs` | file tasks, and commands that wait for one; how commands end |
//! | `firmware.rs`, `power_on.rs` | what the cores of a drive share; the file system is opened at power-on, or made |
//! | `find.rs` | the partition that has it; a new one |
//! | `opcodes.rs`, `changes.rs` | the commands, and what is checked of each before anything happens; which change something |
//! | `sessions.rs` | what each host has open |
//! | `access.rs`, `admin.rs` | who hosts are: keys, claims and tokens; the admin commands for that |
//! | `locks.rs` | locks of files, and commands that wait for them |
//! | `lock_leases.rs` | hosts that grant themselves locks, until these are taken out of their memory |
//! | `leases.rs`, `watched.rs` | hosts that keep what they know of files, and are told before it changes |
//! | `writers.rs` | hosts that keep what they write, until it is taken out of their memory |
//! | `near/` | the cache of pages of files in the drive's memory |
//! | `compute.rs` | memory for computing on bytes of files, and whose turn it is |
//! | `time.rs`, `clock.rs` | what time it is for files; the feature by which a host sets it |
//! | `log.rs` | what happened at power-on, for the host |
//! | `serve/` | what a file task does for each command |
//! | `pages.rs`, `bytes.rs` | the drive's pages below the file system; bytes of files between them and the host |
//! | `lines.rs` | the memory below a file system for persistent memory |

mod access;
mod admin;
mod answer;
mod bytes;
mod changes;
mod clock;
mod compute;
mod find;
mod firmware;
mod leases;
mod lines;
mod lock_leases;
mod locks;
mod log;
mod near;
mod opcodes;
mod pages;
mod power_on;
mod serve;
mod sessions;
mod tasks;
mod time;
mod watched;
mod writers;

use std::any::Any;
use std::rc::Rc;

pub use answer::FileAnswer;
pub use find::OpenError;
pub use firmware::Firmware;
pub use lines::{FileLines, FileSystemOfDrive};
pub use pages::FilePages;
pub use tasks::{At, FileCommand, FileHandler, FileWork, start};

use crate::config::{DriveConfig, NewFiles};
use crate::controller::{Controller, Feature, IoCommand, SetOutcome};
use crate::core::Core;
use opcodes::{FileOpcode, OPCODES, Turn};
use sessions::HANDLES_MAX;
use tasks::FileCore;
use wharf_files::volume::Format;
use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::identify::{DriveFeature, IdentifyController, OptionalIoCommand};
use wharf_wire::log_page::LogPage;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

/// Set-user-id and set-group-id, which a write takes away.
const SET_ID_BITS: u16 = 0o6000;

/// See the [module](self).
pub struct Files;

impl Feature for Files {
    fn is_on(&self, config: &DriveConfig) -> bool {
        config.file_system.is_some()
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        let named = |opcode: &'static FileOpcode| (opcode.raw(), opcode as &dyn IoCommand);
        OPCODES.iter().map(named).collect()
    }

    fn on_controller(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(Turn::default()))
    }

    fn on_core(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(FileCore::default()))
    }

    fn power_on(&self, cores: &[Rc<Core>], config: &DriveConfig, new: Option<NewFiles>) {
        power_on::power_on(cores, config, new);
    }

    fn identify(&self, controller: &Controller, identify: &mut IdentifyController) {
        let drive = &mut identify.drive;
        if firmware(controller).near().is_on() {
            drive.features = drive.features.with(DriveFeature::DeviceCache);
        }
        if firmware(controller).compute().bytes() > 0 {
            drive.features = drive.features.with(DriveFeature::Compute);
        }
        drive.features = drive.features.with(DriveFeature::FileSystem);
        let numbers = Format::ALL.map(|format| 1 << format.number());
        drive.file_systems = numbers.into_iter().fold(0, |all, one| all | one);
        drive.file_handles_max = HANDLES_MAX;
        identify.oncs |= 1 << OptionalIoCommand::Timestamp.raw();
    }

    fn long_value(&self, controller: &Controller, feature: FeatureId) -> Option<Vec<u8>> {
        (feature == FeatureId::Timestamp).then(|| clock::get(controller))
    }

    fn set_value(&self, controller: &mut Controller, command: &Command) -> Option<SetOutcome> {
        let is_meant = command.feature() == Some(FeatureId::Timestamp);
        is_meant.then(|| clock::set(controller, command).map(|()| Some(0)))
    }

    fn log_page(&self, controller: &Controller, page: LogPage) -> Option<Vec<u8>> {
        match page {
            LogPage::FileSystem => Some(log::page(&firmware(controller))),
            LogPage::DeviceCache => log::device_cache(&firmware(controller)),
            _ => None,
        }
    }

    fn queue_closes(&self, controller: &mut Controller, qid: u16, _: &Command) {
        let firmware = firmware(controller);
        locks::queue_closes(controller, firmware.locks(), qid);
    }

    fn guest_leaves(&self, controller: &mut Controller, guest: Guest, _: &Command) -> bool {
        let (firmware, host) = (firmware(controller), locks::session_of(Some(guest)));
        firmware.access().forget(host);
        admin::close_all(controller, &firmware, host);
        false
    }

    fn admin_command(&self, controller: &mut Controller, command: &Command) -> Option<SetOutcome> {
        admin::command(controller, command)
    }

    fn check_guest(&self, controller: &Controller, command: &Command) -> Result<(), StatusCode> {
        let is_of_files = command.io_opcode().is_some_and(IoOpcode::is_of_files);
        match is_of_files || !firmware(controller).access().is_on() {
            true => Ok(()),
            // Whoever reads and writes pages has all files.
            false => Err(StatusCode::AccessDenied),
        }
    }

    fn check_format(&self, _: &Controller) -> Result<(), StatusCode> {
        // It would take the pages away below a file system that is in use.
        Err(StatusCode::CommandSequenceError)
    }
}

/// What all cores share, as the first one has it.
fn firmware(controller: &Controller) -> Rc<Firmware> {
    let firmware = first_core(controller).state::<FileCore>().firmware.get();
    firmware.expect("it is there since power-on").clone()
}

fn first_core(controller: &Controller) -> &Rc<Core> {
    controller.cores().next().expect("a drive has cores")
}
