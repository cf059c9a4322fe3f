//! What a drive can do: each feature is a folder with the handlers of its commands and the state that it keeps
//! on controller and cores. Nothing outside a feature's folder knows it, but for this list.

pub mod block;
pub mod disk;
pub mod files;
pub mod pin;

use crate::controller::Feature;

/// The features that drives may have.
pub const FEATURES: &[&dyn Feature] = &[&block::Block, &disk::DiskBlock, &files::Files, &pin::Pin];
