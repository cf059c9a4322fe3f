//! A flash cache over two drives that lose power: what survives, and what it takes to open it again.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `cuts.rs` | rules R1 to R6: a cut after every command of either drive |
//! | `opening.rs` | whose cache it is; what is known after opening it; heat |
//! | `modes.rs` | modes, full devices, dead devices |
//! | `neighbours.rs` | what comes in with what was missed, and what it must not overtake |
//! | `recovery.rs` | how long it takes to be known again |
//! | `rig.rs` | the machine, and the model of what sectors may hold |

mod cuts;
mod modes;
mod neighbours;
mod opening;
mod recovery;
mod rig;
