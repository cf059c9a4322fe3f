//! The controller: takes commands off the queues, has them checked and divided among the cores, gathers the
//! answers, posts completions.
//!
//! | file | idea |
//! |---|---|
//! | `state.rs` | what the controller is; what handles a command, what a feature of the drive is |
//! | `turn.rs` | one turn: answers, completions, commands, what comes of them |
//! | `queues.rs` | fetching commands round robin over the queues, a burst from each |
//! | `guests.rs` | queues of hosts in other processes, which have one turn together |
//! | `completion.rs` | answers become completions, in order behind the data on the link |
//! | `shares.rs` | a command's shares, as handlers give them to cores |
//! | `admin.rs` | the admin queue |
//! | `events.rs`, `told.rs` | what the host is told of space without asking |
//! | `logs.rs`, `accounts.rs` | log pages, and what they tell |
//! | `whole_cores.rs` | what cores do for admin commands |
//!
//! A command of an I/O queue goes to the handler that the drive's features name for its opcode
//! ([`crate::features`]); the controller itself knows none of them.

mod accounts;
mod admin;
mod completion;
mod events;
mod guests;
mod logs;
mod queues;
mod shares;
mod state;
mod told;
mod turn;
mod whole_cores;

pub use guests::{GuestQueues, SOURCE as GUESTS_SOURCE};
pub use state::{Controller, ControllerParts, Feature, Handler, IoCommand, NAMESPACE, SetOutcome};
pub use turn::Running;

/// Most pages of one transfer, as a power of two: 256 pages, 1 MiB.
pub const MDTS: u8 = 8;
