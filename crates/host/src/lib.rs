//! The host half: the driver and the cache designs.
//!
//! A request comes down through these files, and its completion up through the same:
//!
//! | file | idea |
//! |---|---|
//! | [`span`], [`payload`] | a request as the pages it touches, and its buffer |
//! | [`design`] | what a design is, for those who make requests |
//! | [`direct`] | the design without a cache; [`buffers`] |
//! | [`clock`] | the design with a page cache and CLOCK; [`cache`] |
//! | [`scala`] | the design whose cache is kept by the drives; [`pins`] |
//! | [`hardware`] | the same without an index on the host |
//! | [`tri`] | the design with managers and messages (TriCache) |
//! | [`kernel`] | the page cache of an operating system |
//! | [`scale`] | a page cache without locks, whose writers flush (ScaleCache) |
//! | [`parts_of_volume`], [`key`] | the volume as files, for designs with an index for each |
//! | [`files`] | the other kind of client: files with names; adapters between the two kinds |
//! | [`volume`] | drives as one address space: striped, mirrored, with parity |
//! | [`driver`] | one queue pair: slots, timeouts, retries; [`group`] |
//!
//! A design outside this crate is built from [`kit::outside`].
//!
//! Beside them: [`boot`], [`admin`] and [`gate`] make the drives ready, [`hmb`] gives them memory,
//! [`late`] keeps what a late command may still use, [`collection`] notes when drives collected.

// A cache alone uses a part of what designs and drivers are made of.
#![cfg_attr(not(feature = "designs"), allow(dead_code))]

// The names that `settings!` makes are those that other crates see.
extern crate self as wharf_host;

#[cfg(feature = "designs")]
pub mod admin;
#[cfg(feature = "designs")]
pub mod backing;
#[cfg(feature = "designs")]
pub mod boot;
pub mod buffers;
#[cfg(feature = "designs")]
pub mod cache;
#[cfg(feature = "designs")]
pub mod clock;
pub mod collection;
pub mod design;
#[cfg(feature = "designs")]
pub mod direct;
pub mod driver;
pub mod error;
pub mod errseq;
#[cfg(feature = "designs")]
pub mod ext4_model;
#[cfg(feature = "designs")]
pub mod files;
#[cfg(feature = "designs")]
pub mod gate;
pub mod group;
#[cfg(feature = "designs")]
pub mod guest;
#[cfg(feature = "designs")]
pub mod hardware;
#[cfg(feature = "designs")]
pub mod hmb;
#[cfg(feature = "designs")]
pub mod indexless;
#[cfg(feature = "designs")]
pub mod kernel;
pub mod key;
pub mod kit;
#[cfg(feature = "designs")]
pub mod late;
#[cfg(feature = "designs")]
pub mod nova;
#[cfg(feature = "designs")]
pub mod omni;
pub mod parts_of_volume;
pub mod payload;
#[cfg(feature = "designs")]
pub mod pins;
#[cfg(feature = "designs")]
pub mod scala;
pub mod scale;
pub mod span;
#[cfg(feature = "designs")]
pub mod stor;
#[cfg(feature = "designs")]
pub mod tri;
pub mod volume;

#[cfg(feature = "designs")]
pub use clock::{Clock, ClockConfig};
#[cfg(feature = "designs")]
pub use design::{
    Client, Design, DesignError, Devices, Needs, NoSettings, Parts, Principal, Role, Settings,
};
pub use design::{DesignConfig, Statistics, Touch, WritePolicy};
#[cfg(feature = "designs")]
pub use direct::Direct;
pub use driver::{Driver, DriverConfig};
pub use error::IoError;
pub use group::Groups;
#[cfg(feature = "designs")]
pub use hardware::Hardware;
#[cfg(feature = "designs")]
pub use kernel::{Falcon, Kernel, KernelConfig, KernelDflush};
pub use kit::direct_flush as dflush;
#[cfg(feature = "designs")]
pub use omni::{Omni, OmniConfig};
#[cfg(feature = "designs")]
pub use scala::{Scala, ScalaConfig, Shares};
#[cfg(feature = "designs")]
pub use scale::{Scale, ScaleConfig};
#[cfg(feature = "designs")]
pub use serde;
pub use span::Extent;
#[cfg(feature = "designs")]
pub use stor::{StorClient, StorConfig};
#[cfg(feature = "designs")]
pub use tri::{Tri, TriConfig};
pub use volume::{Layout, Level, Volume};
