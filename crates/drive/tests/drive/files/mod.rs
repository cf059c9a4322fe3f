//! Files served by the drive's cores.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `support.rs` | programs that run in file tasks of a core |
//! | `first.rs` | a file that is written on one core is there on another one, and after power-on |

mod first;
mod support;
