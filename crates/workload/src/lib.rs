//! Block traces and synthetic workloads as one stream of requests.

pub mod convert;
pub mod error;
pub mod fit;
pub mod footprint;
pub mod format;
pub mod generate;
pub mod layout;
pub mod policy;
pub mod request;
pub mod reuse;
pub mod source;
pub mod stat;
pub mod textbook;
pub mod timing;
pub mod trace;
pub mod workload;

mod detect;
mod lines;
mod nearest;
mod parse;
mod readers;
mod stat_table;

pub use convert::{OutputFormat, convert};
pub use error::{BadLine, Candidates, WorkloadError};
pub use fit::{Fit, FitMode};
pub use format::{AsciiLayout, Format, TimeUnit, Unit};
pub use layout::{Layout, StreamMap, StreamSurvey};
pub use policy::BadLinePolicy;
pub use readers::BlkAction;
pub use request::{Op, PAGE_BYTES, Request, SECTOR_BYTES};
pub use source::Compression;
pub use stat::WorkloadStat;
pub use trace::{ReadOptions, TraceReader};
pub use workload::{RequestStream, Workload, WorkloadInfo};
