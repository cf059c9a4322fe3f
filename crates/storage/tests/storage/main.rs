//! Targets against plain bytes.

#![allow(missing_docs)]

mod arrays;
mod members;
mod model;
mod power;
mod superblock;
mod support;
mod targets;
