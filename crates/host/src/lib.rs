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

// The names that `settings!` makes are those that other crates see.
extern crate self as wharf_host;

pub mod admin;
pub mod backing;
pub mod boot;
pub mod buffers;
pub mod cache;
pub mod clock;
pub mod collection;
pub mod design;
pub mod direct;
pub mod driver;
pub mod error;
pub mod errseq;
pub mod ext4_model;
pub mod files;
pub mod gate;
pub mod group;
pub mod guest;
pub mod hardware;
pub mod hmb;
pub mod indexless;
pub mod kernel;
pub mod key;
pub mod kit;
pub mod late;
pub mod omni;
pub mod parts_of_volume;
pub mod payload;
pub mod pins;
pub mod scala;
pub mod scale;
pub mod span;
pub mod stor;
pub mod tri;
pub mod volume;

pub use clock::{Clock, ClockConfig};
pub use design::{
    Client, Design, DesignConfig, DesignError, Devices, Needs, NoSettings, Parts, Principal, Role,
    Settings, Statistics, Touch, WritePolicy,
};
pub use direct::Direct;
pub use driver::{Driver, DriverConfig};
pub use error::IoError;
pub use group::Groups;
pub use hardware::Hardware;
pub use kernel::{Falcon, Kernel, KernelConfig, KernelDflush};
pub use kit::direct_flush as dflush;
pub use omni::{Omni, OmniConfig};
pub use scala::{Scala, ScalaConfig, Shares};
pub use scale::{Scale, ScaleConfig};
pub use serde;
pub use span::Extent;
pub use stor::{StorClient, StorConfig};
pub use tri::{Tri, TriConfig};
pub use volume::{Layout, Level, Volume};
