//! The command set: what the host half and the drive half of Wharf say to each other.

pub mod admin;
mod bits;
pub mod command;
pub mod completion;
pub mod dma;
#[cfg(test)]
mod document_test;
pub mod dsm;
pub mod events;
pub mod features;
pub mod file;
pub mod host_memory;
pub mod identify;
pub mod lane;
pub mod lba_status;
pub mod log_page;
pub mod memory;
#[cfg(any(test, feature = "mock"))]
pub mod mock;
pub mod opcode;
pub mod pin;
pub mod prp;
pub mod queue;
mod queue_lines;
pub mod shared_queue;
pub mod space;
pub mod statistics;
pub mod status;
pub mod timestamp;
pub mod window;
