//! A firmware core: what serves shares of commands over one translation layer.
//!
//! The way of a share: the controller leaves it with the core ([`Core::arrive`]); one of the core's
//! *jobs* takes it up (`job.rs`) and has the command's handler serve it ([`Serve`]), as an ordinary
//! function. The handler ends it at once, asks to be called again at a time, or lets the job's *task* go
//! on, in straight line, where something else has to be waited for. When flash operations and jobs end
//! is kept in one place (`operations.rs`), which one task waits for, the *finisher*.
//!
//! | file | idea |
//! |---|---|
//! | `state.rs` | what a core is, and what serves on it |
//! | `store.rs` | what it keeps pages in, and what outlives it |
//! | `commands.rs` | commands in their slots, shares and answers |
//! | `job.rs` | shares come, are served, and are answered |
//! | `peers.rs`, `asks.rs` | cores ask cores for pages |
//! | `operations.rs` | the ends of flash operations, and of waits for a time |
//! | `gc.rs`, `collecting.rs` | collectors and eraser keep blocks free |
//! | `checkpoint.rs` | the checkpointer keeps recovery short |
//! | `durable.rs`, `syncs.rs` | what a flush acknowledges has survived |
//! | `deallocate.rs` | pages that read as zeros from now on; formatting |
//! | `host_page.rs` | the host's pages, as the core copies from and to them |
//! | `hmb.rs` | where the core's frames of the host memory buffer are |
//! | `cache.rs`, `stuck.rs` | pages in those frames: what other commands do to them, and writing them back |
//! | `finding.rs` | what finding them costs |
//! | `packing.rs` | packed pages: the time of their compression, when units are closed |
//! | `report.rs` | statistics |
//! | `arm.rs` | the arm, where the drive is a disk |
//!
//! Jobs and their tasks are made once; serving a share that need not wait for anything but a time
//! starts no task and allocates nothing.

mod arm;
mod asks;
mod cache;
mod checkpoint;
mod collecting;
mod commands;
mod deallocate;
mod durable;
mod finding;
mod gc;
pub mod hmb;
mod host_page;
mod job;
mod operations;
mod packing;
mod peers;
mod report;
mod state;
mod store;
mod stuck;
mod syncs;

pub use asks::{ASK_PAGES_MAX, Unserved, requests_max};
pub use cache::frame_with_data;
pub use commands::{Answer, Failed, Outcome, Share, Slot, Slots, outcome};
pub use host_page::{read_page, unreadable};
pub use job::Settled;
pub use peers::{Asked, Request};
pub use state::{Answers, Core, CoreParts, Job, NextWaiter, Serve, Step, Waiting};
pub use store::{CoreStatus, Store};
pub use stuck::{Busy, Patience, Stuck};
