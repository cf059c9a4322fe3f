//! Targets against plain bytes.

#![allow(missing_docs)]

mod model;
mod targets;
