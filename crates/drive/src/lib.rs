//! The drive half: an SSD in software, from its controller to its flash.
//!
//! A request comes down in this order:
//!
//! | step | where |
//! |---|---|
//! | a command is fetched from its queue, checked, split by stripe | [`controller`], [`features`] |
//! | a feature's handler serves a core's share | [`features`], [`core`] |
//! | the map says where the page is, or a new place is found | [`ftl`] |
//! | planes and channels say when it will be done | [`nand`] |
//! | the bytes are read or changed | [`media`] |
//!
//! A drive may be a disk instead: then one core serves an arm ([`disk`]) in the place of the last three.
//!
//! The host half is not known here: what it sees of a drive is the command set of `wharf-wire`.

// What tests inside and beside the crate share names the crate from outside.
#[cfg(test)]
extern crate self as wharf_drive;

pub mod config;
pub mod controller;
pub mod core;
pub mod disk;
mod divide;
mod drive;
mod engine;
pub mod features;
mod fill;
pub mod ftl;
mod guests;
mod image;
pub mod kept;
mod link;
pub mod media;
pub mod memory;
pub mod nand;
pub mod persistent;
pub mod power;
mod precondition;

pub use config::{ConfigError, DriveConfig};
pub use drive::{Book, Drive, DriveError, DriveHandle};
pub use ftl::{Overwrite, Precondition, PreconditionError, Preconditioned};
pub use guests::ForGuests;
pub use power::PowerSwitch;
