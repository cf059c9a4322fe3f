//! Malformed commands: each wrong field gets the status that the command set has for it, and
//! nothing is changed.

mod admin;
mod io;
mod pins;

use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

/// A name, the command, and its status.
type Case = (&'static str, Command, StatusCode);

fn with(mut command: Command, change: impl FnOnce(&mut Command)) -> Command {
    change(&mut command);
    command
}

/// Where there is no host memory.
const NOWHERE: u64 = 0x7000_0000_0000;
