//! What shows that the drive holds: every test drives a whole drive through its queue pairs, in
//! virtual time.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `random.rs` | any rule of order, atomicity or durability, under random commands and power cuts |
//! | `sweep.rs` | the same for chosen short workloads, with a cut after every single media change |
//! | `space.rs` | what is told of allocated pages and of space, and that a full drive goes on |
//! | `sweep_packed.rs` | and of drives that pack pages into units |
//! | `capacity.rs` | what a full thinly provisioned drive answers, and that it recovers |
//! | `checkpoint.rs` | the checkpointer, checkpoints at power-off, the bound of recovery |
//! | `wear.rs` | a worn drive goes read-only, levelling levels |
//! | `rot.rs` | damaged pages are reported, never returned |
//! | `malformed/` | each wrong field has its status and changes nothing |
//! | `transfers.rs` | PRP lists of every length and form, the largest transfer |
//! | `packing.rs` | a drive that compresses holds what it should, refuses the rest, packs well |
//! | `pins.rs` | pin, unpin, lending, step by step |
//! | `queues.rs` | creation and deletion, round robin, full completion queues |
//! | `logs.rs` | log pages, identify data and features tell the truth |
//! | `limits.rs` | the smallest settings, the most ranges, operations on nothing, format |
//! | `count_zeros.rs` | a feature that a drive is given from outside |
//! | `lending.rs` | the host memory buffer, other commands on cached pages, collection below them |
//! | `disk/` | a disk keeps what it promises, and its times are those of closed forms |
//! | `files/` | files served by the drive's cores |
//! | `determinism.rs` | equal seeds give equal runs |
//! | `collection.rs` | collection keeps all dies at work, serves reads in between, starts and stops in time |
//! | `write_amplification.rs` | a reviewed table, beside theory and an exact simulation |

#![allow(missing_docs)]

mod capacity;
mod checkpoint;
mod collection;
mod count_zeros;
mod determinism;
mod disk;
mod files;
mod lending;
mod limits;
mod link;
mod logs;
mod malformed;
mod packing;
mod pins;
mod queues;
mod random;
mod rot;
mod space;
mod support;
mod sweep;
mod sweep_packed;
mod transfers;
mod wear;
mod write_amplification;
