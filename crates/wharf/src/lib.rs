//! Wharf: one software drive and one host stack on which designs that share the work of caching
//! between host and drive run whole, in virtual or in real time.
//!
//! This crate is the door to the others and the home of the command line:
//!
//! * [`runtime`]: time, CPUs, tasks, rings; virtual and real engines
//! * [`wire`]: the command set
//! * [`host`]: driver and cache designs
//! * [`drive`]: the drive
//! * [`workload`]: traces and generators
//! * [`store`]: a drive and its page cache for programs that link them
//! * [`page_cache`]: a page cache for ordinary files, for programs that link it
//! * [`flash_cache`]: a flash cache in front of a slow disk
//! * [`files`]: file systems in drive images, for programs that link them
//! * [`audit`]: what programs ask of the kernel about a drive that it does not know
//! * [`storage`]: files, devices, memory and arrays of them
//! * [`nbd`], [`serve`]: a server of the NBD protocol, and what it serves
//! * [`sweep`]: every combination of some values, as rows
//! * [`lab`]: builds systems, replays, compares, reports

pub use wharf_cache as page_cache;
pub use wharf_drive as drive;
pub use wharf_host as host;
pub use wharf_lab as lab;
pub use wharf_nbd as nbd;
pub use wharf_runtime as runtime;
pub use wharf_storage as storage;
pub use wharf_wire as wire;
pub use wharf_workload as workload;

pub mod audit;
pub mod cli;
pub mod files;
pub mod flash_cache;
mod random;
pub mod serve;
pub mod store;
pub mod sweep;

pub use page_cache::PageCache;
