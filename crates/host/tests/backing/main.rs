//! The backing store: what it holds, what survives, and what it costs.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `random.rs` | rows, chunks, zones, collection: against a flat vector, reopened and rebuilt |
//! | `cuts.rs` | the order of writes: a cut after every write and flush of both devices |
//! | `damage.rs` | torn chunks and mapping sectors, foreign and old superblocks, two owners |
//! | `full.rs` | a full disk refuses and goes on; write amplification by fill |
//! | `in_place.rs` | units of a fixed size, and plain pages |
//! | `on_volume.rs` | drives as sectors, where a drive keeps 8 bytes of each |
//! | `support.rs` | devices that lose power, and the model |

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod damage;
mod full;
mod in_place;
mod on_volume;
mod random;
mod support;
