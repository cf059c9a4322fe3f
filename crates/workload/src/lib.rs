//! Block traces and synthetic workloads as one stream of requests.
//!
//! The way of a request: [`source`] (file or memory, plain or compressed) → lines → the format's reader
//! (told from the content, or forced) → [`trace`] (counts bad lines) → [`Workload`]. Generators
//! and profiles enter at the last step. From there: [`layout`] (devices into one address space), [`fit`] (onto
//! a device), [`timing`] (trace clock to schedule), [`stat`] (what is it?), [`convert()`] (to a file).
//!
//! ```
//! use wharf_workload::{ReadOptions, TraceReader, Workload, WorkloadStat};
//!
//! let text = b"# wharf trace 1\n0 W 0 8192\n1000 R 4096 4096\n".to_vec();
//! let reader = TraceReader::from_bytes("two", text, &ReadOptions::default())?;
//! let stat = WorkloadStat::of(Workload::from_stream(reader), true)?;
//! assert_eq!((stat.requests(), stat.unique_pages, stat.page_touches), (2, 2, 3));
//! println!("{stat}");
//! # Ok::<(), wharf_workload::WorkloadError>(())
//! ```

mod columns;
pub mod convert;
pub mod error;
pub mod files;
pub mod fit;
pub mod footprint;
pub mod format;
pub mod fuzz;
pub mod generate;
pub mod layout;
pub mod named;
pub mod policy;
pub mod profiles;
pub mod request;
pub mod reuse;
pub mod source;
pub mod stat;
pub mod textbook;
pub mod timing;
pub mod trace;
pub mod workload;

mod archive;
mod detect;
mod lines;
mod nearest;
mod parse;
mod readers;
mod stat_table;

pub use columns::{Column, Columns, ColumnsError};
pub use convert::{Converted, OutputFormat, Packed, convert};
pub use error::{BadLine, Candidates, WorkloadError};
pub use fit::{Fit, FitMode};
pub use format::{AsciiLayout, Format, TimeUnit, Unit};
pub use layout::{Layout, StreamMap, StreamSurvey};
pub use named::{NamedOptions, named};
pub use nearest::nearest;
pub use policy::BadLinePolicy;
pub use readers::BlkAction;
pub use request::{Op, PAGE_BYTES, Request, SECTOR_BYTES};
pub use source::Compression;
pub use stat::WorkloadStat;
pub use trace::{ReadOptions, TraceReader};
pub use workload::{RequestStream, Workload, WorkloadInfo};
