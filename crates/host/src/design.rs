//! What a design is: the interface between whoever makes requests and a way to serve them.
//!
//! Problem: a program, a replay and a benchmark are to use any design alike, and a new design is to
//! be one folder: no struct that all share has a field for it, and nobody else knows what it needs.
//!
//! Idea: a design says everything about itself by its [`Design`] impl, and whoever builds the
//! machine asks. The *design* is the part that all clients share: a page cache, say. A *client* is
//! what one CPU uses of it: any number of the CPU's tasks may have requests in flight on it.
//! Designs are known at compile time; nothing here is a trait object.
//!
//! The walk of a run:
//!
//! 1. **Told.** The host's configuration has what all designs are told ([`DesignConfig`]), and a
//!    table `[design.NAME]` for each, whose keys the design declares ([`Settings`],
//!    [`settings!`](crate::settings)).
//! 2. **Needs.** [`Design::needs`] says by these two alone which [roles](Role) of drives there must
//!    be, what the drives must be able to do, how many CPUs work for all ([`Needs`]). The machine
//!    is built from that.
//! 3. **Made.** [`Design::new`] takes memory. Drives that lend a cache are told of it
//!    ([`Design::hmb_memory`]).
//! 4. **Clients.** When the drives are ready, each client's CPU makes its client of its [`Parts`]:
//!    the CPU, a volume for each role over its own queue pairs ([`Devices`]), its number, and on
//!    whose behalf it works ([`Principal`]). Services likewise.
//! 5. **Requests.** [`Client`] has the calls. All are checked by [`check_request`]. Operations on files go to what
//!    [`Design::files`] makes of a client.
//! 6. **Told back.** What all designs count is in [`Statistics`]; what one reports beyond that are
//!    [`Gauges`], which every report shows by their names.
//!
//! A design is a file, or a folder with a table of its files on top, with the same functions in the
//! same order, so that two designs read as a diff. `docs/new-design.md` makes one from nothing.
//!
//! The volumes that a client is made with must be of the same shape for all clients of a design.

mod choices;
pub(crate) mod client;
mod config;
mod error;
#[cfg(feature = "designs")]
mod files;
mod gauges;
#[cfg(feature = "designs")]
mod initial;
#[cfg(feature = "designs")]
mod interface;
#[cfg(feature = "designs")]
mod needs;
#[cfg(feature = "designs")]
mod settings;
mod statistics;
mod touch;

pub use choices::{Reclaim, Replacement};
pub use client::{Approach, Client, check_request};
pub use config::{DesignConfig, WritePolicy};
pub use error::DesignError;
#[cfg(feature = "designs")]
pub use files::{FileParts, NoBlocks};
pub use gauges::{Amount, Gauges};
#[cfg(feature = "designs")]
pub use initial::Initial;
#[cfg(feature = "designs")]
pub use interface::Design;
#[cfg(feature = "designs")]
pub use needs::{Devices, Needs, Parts, Principal, Role};
#[cfg(feature = "designs")]
pub use settings::{NoSettings, OutOfRange, Settings};
pub use statistics::{Counter, Counters, Statistics};
pub use touch::Touch;
