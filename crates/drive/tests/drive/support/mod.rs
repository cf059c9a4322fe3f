//! A machine with one small drive, a host that speaks to it over real queue pairs, and a slow
//! model of what the drive must hold.
//!
//! | file | idea |
//! |---|---|
//! | `configs.rs` | drives so small that collection, wear and ring wrap happen within 100 operations |
//! | `tiny.rs` | the least of them, which other tests use too |
//! | `rig.rs` | the drive between its runs: power on, run a script, power off, look inside |
//! | `host.rs` | the script's hands: commands out, completions in, pages filled and read |
//! | `model.rs` | which contents each page may have, now and after a power cut |
//! | `ops.rs` | operations as values, and a generator of random ones |
//! | `pins.rs` | memory that a test lends, and pins in it |
//! | `player.rs` | plays operations, several in flight, against drive and model at once |
//! | `player/pinned.rs` | of these, pins, and what is done with pages in place |

pub mod configs;
pub mod host;
pub mod model;
pub mod ops;
pub mod pins;
pub mod player;
pub mod rig;
pub mod tiny;
