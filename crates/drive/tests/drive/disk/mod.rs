//! A disk behind the controller: `contract.rs` has what survives, `times.rs` how long it takes.

mod contract;
mod times;
