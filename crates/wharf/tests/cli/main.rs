//! The program as its user meets it: exit codes, messages, files, streams.

#![allow(missing_docs)]

mod commands;
mod compressibility;
mod compute;
mod file_system;
mod locks;
mod mistakes;
mod mrc;
mod oracle;
mod output;
mod programs;
mod reports;
mod reproduce;
mod room;
mod runs;
#[path = "../support/schema.rs"]
mod schema;
mod served;
mod shared_mount;
mod support;
mod sweeps;
mod tokens;
mod volumes;
