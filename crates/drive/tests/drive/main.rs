//! What shows that the drive holds: every test drives a whole drive through its queue pairs, in
//! virtual time.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `random.rs` | any rule of order, atomicity or durability, under random commands and power cuts |
//! | `sweep.rs` | the same for chosen short workloads, with a cut after every single media change |

#![allow(missing_docs)]

mod capacity;
mod malformed;
mod queues;
mod random;
mod rot;
mod sweep;
mod transfers;
mod wear;
mod support;
