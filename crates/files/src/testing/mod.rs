//! What tests of file systems are made of, for any file system and any crate.
//!
//! | file | idea |
//! |---|---|
//! | `program.rs` | operations as data: programs |
//! | `random.rs`, `paths.rs`, `taste.rs` | random programs, their paths, and what they leave |
//! | `subject.rs` | what programs run on, and what it answers |
//! | `view.rs` | all that can be seen of a file system, and whether two are alike |
//! | `beside.rs`, `shrink.rs` | a program on two file systems; the shortest one that fails |
//! | `recorded.rs`, `recorded_lines.rs` | pages, and persistent memory, that remember every change |
//! | `history.rs`, `crash.rs` | power cuts behind every change, and what may be there afterwards |
//! | `ace.rs` | all short programs |
//! | `turns.rs` | tasks that take turns at random |

pub mod ace;
pub mod beside;
pub mod crash;
pub mod history;
mod paths;
pub mod program;
pub mod random;
pub mod recorded;
pub mod recorded_lines;
pub mod shrink;
pub mod subject;
pub mod taste;
pub mod turns;
pub mod view;
