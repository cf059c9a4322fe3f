//! Targets against plain bytes.

#![allow(missing_docs)]

mod arrays;
mod groups;
mod histories;
mod members;
mod model;
mod power;
mod stale;
mod superblock;
mod support;
mod targets;
