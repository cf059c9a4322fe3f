//! Sweeps: every combination of some values, side by side, as one report.
//!
//! 1. A sweep has axes ([`Axis`]), such as sizes of the cache, and designs. Each combination of values with each design is a point
//!    ([`Point`]), in a fixed order: the first axis changes slowest, designs fastest.
//! 2. A point has an identity: a hash of its whole configuration. It is the same on every machine, so that a point can be looked
//!    for in what another machine has written.
//! 3. Points are run on some threads ([`run`]). Each is deterministic in virtual time and knows nothing of the others: the rows are the same
//!    whatever the number of threads.
//! 4. Several processes share a sweep by a directory ([`Folder`]): each runs the points of a shard ([`Shard`]) and writes a line for each
//!    to a file of its own. What they wrote is put together in the order of the points.
//!
//! What a configuration is belongs to the caller: it gives the options of each combination ([`Combination`]) and makes its
//! [`Request`](crate::compare::Request).
//!
//! | file | idea |
//! |---|---|
//! | `axis.rs` | names with lists of values, and how they are written |
//! | `file.rs` | a sweep as a TOML file |
//! | `points.rs` | the list of points, their identities, shards |
//! | `run.rs` | points on threads |
//! | `row.rs` | what came of a point |
//! | `folder.rs` | what several processes write and read |
//! | `report.rs`, `table.rs`, `page.rs` | all rows, as JSON, table and page |

mod axis;
mod file;
mod folder;
mod page;
mod points;
mod report;
mod row;
mod run;
mod table;

use std::path::PathBuf;

pub use axis::{Axis, POINTS_MAX, Unit, combinations};
pub use file::{Described, Word, describe};
pub use folder::{Folder, Found};
pub use page::render;
pub use points::{Combination, Point, Shard, Sweep};
pub use report::{Report, ReportAxis, SCHEMA};
pub use row::SweepRow;
pub use run::{Work, run};

/// What is wrong with a sweep, or with its directory.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A list with nothing between two separators, or with nothing in it.
    #[error("{0} has a value that is empty: give one or more values, such as 1%,5%,20%")]
    EmptyValue(String),
    /// A list with the same value again.
    #[error("{key} has {value} twice: give each value once")]
    Twice {
        /// The axis.
        key: String,
        /// The value.
        value: String,
    },
    /// A name with two lists, or with a list and a value.
    #[error("{0} is given twice, and has a list of values: give it once")]
    TwoLists(String),
    /// Too many combinations.
    #[error("{0} combinations are too many: at most {POINTS_MAX} points can be in a sweep")]
    TooMany(usize),
    /// Values that are written otherwise and mean the same.
    #[error(
        "points {first} and {second} are the same configuration ({words}): leave one of them out"
    )]
    SamePoint {
        /// One of them.
        first: usize,
        /// The other.
        second: usize,
        /// Its design and the second one's values.
        words: String,
    },
    /// A file that says something else than a sweep.
    #[error("{place}: {message}")]
    File {
        /// The file, with a line.
        place: String,
        /// What is wrong, and what to do.
        message: String,
    },
    /// Not a shard.
    #[error("--shard {0}: write it as i/n, with i from 1 to n, such as 2/8")]
    Shard(String),
    /// The system refuses something in the directory.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A directory of another sweep, or with other lines.
    #[error("{}: {message}", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
}
