//! The plain data of one comparison run.
//!
//! A run gives one [`Comparison`]: what was run, said once, and one [`Row`] for each design. The
//! table, the JSON file and the HTML page are three views of it and add nothing of their own.
//!
//! Conventions, in the code and in the JSON alike (`docs/report-schema.md` lists every field):
//!
//! * The unit is the last part of a field's name: `_us`, `_bytes`, `_seconds`, `_mb_s` (10^6 bytes
//!   a second). Shares and ratios lie between 0 and 1 and have no unit.
//! * A figure that a run cannot have is `None`, not 0: the hit ratio of a design without a cache,
//!   the write amplification of a run that wrote nothing.
//! * All numbers are finite; [`ratio`] is the division to use.
//! * Simulated runs of one seed and configuration give equal bytes, but for the fields in
//!   [`WALL_CLOCK_FIELDS`].

pub mod accounts;
pub mod latency;
pub mod rounds;
pub mod spread;
pub mod timeline;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use accounts::{
    CompressionAccount, DeviceAccount, DriverAccount, Gauge, GcAffected, MemoryAccount, RunTime,
};
pub use latency::{Latencies, Latency, cdf_from_histogram, latency_summary};
pub use rounds::{Round, Rounds};
pub use spread::Spread;
pub use timeline::{Completed, IntervalLatency, Sampled, TimelineBuilder, TimelinePoint};

/// Name and version of the format that [`Comparison`] is written in.
///
/// The number grows when a field is removed or changes its meaning, not when one is added.
pub const SCHEMA: &str = "wharf.compare/3";

/// The same of rows that took turns on real storage (`wharf bench`): the fields are the same, and figures are of medians of rounds.
pub const BENCH_SCHEMA: &str = "wharf.bench/1";

/// The fields that depend on how fast this machine ran the comparison, as paths in the JSON.
///
/// Everything else of a simulated run follows from its seed and configuration.
/// [`Comparison::without_wall_clock`] blanks exactly these.
pub const WALL_CLOCK_FIELDS: &[&str] = &["rows[].wall_seconds"];

/// One comparison: the run's data, then one row for each design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The format's name and version, [`SCHEMA`] or [`BENCH_SCHEMA`].
    pub schema: String,
    /// The seed of every random choice in the run.
    pub seed: u64,
    /// How many runs of each design there were, of this seed and those that follow it: figures are their means.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The requests that every design got.
    pub workload: Workload,
    /// The drives that every design ran on: those of the role `cache`.
    pub drive: Drive,
    /// Those of other roles.
    #[serde(default)]
    pub more_drives: Vec<Drive>,
    /// Cache that each design got, in bytes; 0 when the run has none.
    pub cache_bytes: u64,
    /// How the cache size was asked for, such as `18.75%` or `1GiB`.
    pub cache_spec: String,
    /// Hash of the complete configuration: rows with equal hashes may be compared.
    pub config_hash: String,
    /// The costs of CPU work in virtual time; `None` when nothing was simulated.
    pub cost_table: Option<CostTable>,
    /// The commit that Wharf was built from.
    pub commit: String,
    /// What a reader has to know to read the figures rightly, one sentence each.
    pub notes: Vec<String>,
    /// What makes figures unfair or incomplete, one sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// One row for each design, in the order asked for; ratios are to the first.
    pub rows: Vec<Row>,
}

/// A comparison that does not say so is of one seed.
fn one() -> u32 {
    1
}

/// Drives that do not say so are of the only role that there was.
fn cache() -> String {
    "cache".into()
}

impl Comparison {
    /// The same run with the [`WALL_CLOCK_FIELDS`] set to 0, so that equal runs give equal bytes.
    pub fn without_wall_clock(&self) -> Self {
        let mut blanked = self.clone();
        for row in &mut blanked.rows {
            row.wall_seconds = 0.0;
        }
        blanked
    }
}

/// The requests of a run and how they were sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// What the user called it: a file's name or a generator's.
    pub name: String,
    /// Where the requests come from.
    pub source: Source,
    /// Requests that each design was to serve.
    pub requests: u64,
    /// Distinct bytes touched, in whole 4 KiB pages.
    pub footprint_bytes: u64,
    /// Share of the requests that are reads.
    pub read_share: f64,
    /// How addresses beyond the drive were brought onto it; `None` when all fitted.
    pub fit: Option<String>,
    /// The rule by which requests go to clients.
    pub client_rule: String,
    /// Clients, each with a CPU of its own.
    pub clients: u32,
    /// Requests that each client keeps in flight at most.
    pub depth: u32,
    /// What decides when a request is sent.
    pub arrival: Arrival,
    /// Open loop: how many times faster than recorded; `None` in a closed loop.
    pub speed_factor: Option<f64>,
    /// Lines of the source that could not be read and were left out.
    pub bad_lines: u64,
}

/// Where the requests of a run come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// A recorded trace.
    File {
        /// The path as given.
        path: String,
        /// The trace format, found or forced.
        format: String,
    },
    /// Made-up requests.
    Generator {
        /// The generator's name.
        generator: String,
        /// Its parameters by name: numbers, strings, flags.
        parameters: BTreeMap<String, serde_json::Value>,
    },
}

/// What decides when a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// A client sends its next request when one of its own has completed.
    Closed,
    /// A request is sent at its timestamp, whatever is still in flight.
    Open,
}

/// The drives of a role; all of them are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drive {
    /// The role: `cache` or `backing`.
    #[serde(default = "cache")]
    pub role: String,
    /// The preset's name.
    pub preset: String,
    /// Drives side by side.
    pub count: u32,
    /// Capacity of each drive as its namespace shows it, in bytes.
    pub capacity_bytes: u64,
    /// The parameters that shape the figures, by name with their units: numbers, strings, flags.
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// The table of calibrated costs that virtual time was advanced by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostTable {
    /// The table's name.
    pub name: String,
    /// The machine that it was measured on.
    pub machine: String,
    /// The day of the measurement, `YYYY-MM-DD`.
    pub date: String,
    /// The commit whose code was measured.
    pub commit: String,
}

impl CostTable {
    /// The labels of these costs.
    pub fn of(costs: &wharf_runtime::CostTable) -> CostTable {
        CostTable {
            name: costs.name.clone(),
            machine: costs.machine.clone(),
            date: costs.date.clone(),
            commit: costs.commit.clone(),
        }
    }
}

/// Whether a row's times were computed or observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In virtual time, from drive presets and a cost table.
    Simulated,
    /// In real time, on this machine's clock.
    Measured,
}

impl Mode {
    /// The word that stands for it in every report.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Simulated => "simulated",
            Mode::Measured => "measured",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What one design did with the workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The design's name.
    pub design: String,
    /// Whether the times below were computed or observed.
    pub mode: Mode,
    /// Of a measured row whose design stands for a part of another machine: what it stands for, and what of it cost
    /// nothing; `None` where what ran is what is meant.
    #[serde(default)]
    pub model: Option<String>,
    /// False when the run was stopped before the last request.
    pub complete: bool,
    /// Requests completed: reads, writes, flushes and discards.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes among them: of files, which workloads of file operations ask for.
    #[serde(default)]
    pub flushes: u64,
    /// Discards among them: files deleted, or cut off.
    #[serde(default)]
    pub discards: u64,
    /// Of operations on files: those on names, and openings and closings. They are requests too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub names: u64,
    /// Operations on files by kind; empty where requests are for blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_operations: Vec<FileOperation>,
    /// From the first request sent to the last completed, in simulated or measured seconds.
    pub elapsed_seconds: f64,
    /// Bytes read and written in completed requests by `elapsed_seconds`, in 10^6 bytes a second.
    pub bandwidth_mb_s: f64,
    /// Completed requests by `elapsed_seconds`.
    pub iops: f64,
    /// Latency of all requests. In a closed loop a request begins when its slot became free, that is when the one
    /// before it ended, and in an open loop when it was sent; it ends with its completion.
    pub latency_us: Latency,
    /// Latency of the reads; `None` without reads.
    pub read_latency_us: Option<Latency>,
    /// Latency of the writes; `None` without writes.
    pub write_latency_us: Option<Latency>,
    /// Latency of the flushes; `None` without flushes.
    #[serde(default)]
    pub flush_latency_us: Option<Latency>,
    /// Open loop: how late requests were sent; `None` in a closed loop.
    pub drift_us: Option<Drift>,
    /// Share of 4 KiB page touches that found their page in memory, wherever it lies, since an earlier request had
    /// touched it: in a cache on the host, in a frame that a drive keeps in memory of the host, or in the drive's own cache. `None` for a design
    /// without a cache.
    pub hit_ratio: Option<f64>,
    /// The part of `hit_ratio` that took no command to a drive.
    #[serde(default)]
    pub no_command_hit_ratio: Option<f64>,
    /// Share of the touches that were the first of a page that reading ahead had brought: no hits; `None` for a
    /// design without a cache.
    #[serde(default)]
    pub read_ahead_hit_ratio: Option<f64>,
    /// Pages that drives were to read for the host, by pages that requests touched: those of read commands, of clients
    /// and services, and those that pins brought into frames. `None` without touches, and where drives do not tell.
    #[serde(default)]
    pub pages_read_per_page: Option<f64>,
    /// Bytes that the links of all drives carried in both directions, commands and completions among them, by bytes that requests
    /// read and wrote. `None` where nothing was read or written, and where drives do not tell.
    #[serde(default)]
    pub link_bytes_per_byte: Option<f64>,
    /// Of the pages that a drive's cache was asked for by a command, the share that it had in a frame of the host memory buffer;
    /// `None` for a design that pins no pages.
    #[serde(default)]
    pub frame_hit_ratio: Option<f64>,
    /// Host CPU time by request, in microseconds.
    pub host_cpu_us_per_io: f64,
    /// Drive commands by request, of clients and services.
    pub commands_per_io: f64,
    /// Mean time of a drive command from issue to completion, in microseconds; 0 without commands.
    #[serde(default)]
    pub command_us: f64,
    /// Of `command_us`, the time in which a firmware core served the command, flash included, in
    /// microseconds; the rest it was on its way or waited for a core. Of several cores the one that
    /// ended last counts. 0 where operations were not timed.
    #[serde(default)]
    pub command_service_us: f64,
    /// What the drivers of clients and of services did.
    #[serde(default)]
    pub drivers: Vec<DriverAccount>,
    /// What the drives of each role did.
    #[serde(default)]
    pub devices: Vec<DeviceAccount>,
    /// What the design reports of itself, by name.
    #[serde(default)]
    pub gauges: BTreeMap<String, Gauge>,
    /// Pages programmed by pages written to the drives; `None` when none was written.
    pub write_amplification: Option<f64>,
    /// Share of `elapsed_seconds` in which garbage was collected, averaged over firmware cores.
    pub gc_share: f64,
    /// Requests that collection may have held up.
    #[serde(default)]
    pub gc_affected: GcAffected,
    /// Memory that keeps book of cached pages.
    #[serde(default)]
    pub memory: MemoryAccount,
    /// Reads compared with the last write to the same place; a wrong one would have ended the run.
    pub verified_reads: u64,
    /// CPU time by request, by side and category of work.
    pub cpu_breakdown: Vec<CpuShare>,
    /// What each part of the machine did with its CPUs; empty where operations were not timed.
    #[serde(default)]
    pub cpus: Vec<CpuGroup>,
    /// Cumulative distribution of `latency_us`: pairs of microseconds and the share of requests
    /// that took no longer, both rising, the last share 1.
    pub latency_cdf: Vec<[f64; 2]>,
    /// The course of the run in at most [`timeline::MAX_POINTS`] intervals of equal length.
    pub timeline: Vec<TimelinePoint>,
    /// Of rows that took turns on real storage: each round, and the limit of memory; `None` for a row that ran once.
    #[serde(default)]
    pub rounds: Option<Rounds>,
    /// Of several seeds: how far each figure lies apart, by its path in the row, such as `latency_us.p99`; lists and
    /// `wall_seconds` left out. Empty for one seed.
    #[serde(default)]
    pub spread: BTreeMap<String, Spread>,
    /// How long the run of this design took on the wall clock.
    pub wall_seconds: f64,
}

impl Row {
    /// A figure that the design reports of itself; `None` if it does not.
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.gauges.get(name).map(|gauge| gauge.value)
    }
}

/// A count that is left out where it is 0.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Operations on files of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileOperation {
    /// The kind's name, as in file traces.
    pub operation: String,
    /// How many were completed.
    pub count: u64,
    /// Of these, how many were answered with an error that was right: a name that is not there, or is taken.
    pub failed: u64,
    /// Completed ones by `elapsed_seconds`.
    pub per_second: f64,
    /// Their latency.
    pub latency_us: Latency,
}

/// How late the requests of an open loop were sent, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The mean over all requests.
    pub mean: f64,
    /// The latest one.
    pub max: f64,
}

/// CPU time spent on one category of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Whose CPUs.
    pub side: Side,
    /// The category of work.
    pub category: String,
    /// Microseconds by request.
    pub us_per_io: f64,
}

/// The CPUs of one part of a run, and the operations that they spent their time on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuGroup {
    /// Which part.
    pub part: CpuPart,
    /// CPUs in it.
    pub count: u32,
    /// Share of `elapsed_seconds` in which they worked, averaged over them; the rest they polled.
    pub busy_share: f64,
    /// Of the rest, the share of `elapsed_seconds` in which they spun in simulated time: for a lock that another CPU
    /// held, or a cache line on its way to another one.
    #[serde(default)]
    pub spin_share: f64,
    /// What they did, one entry for each operation that occurred.
    pub operations: Vec<OperationAccount>,
}

/// A part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuPart {
    /// CPUs of the host that make requests.
    Clients,
    /// CPUs of the host that work for all clients: managers of a cache, a flusher.
    Services,
    /// The drives' controllers.
    Controllers,
    /// The drives' firmware cores.
    Cores,
}

/// How often an operation ran and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationAccount {
    /// The operation's name, as in cost tables.
    pub operation: String,
    /// The category of work.
    pub category: String,
    /// How often.
    pub count: u64,
    /// Microseconds of CPU time, all of them together.
    pub busy_us: f64,
}

/// One half of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The host half: front end, cache, driver.
    Host,
    /// The drive half: controller and firmware cores.
    Drive,
}

/// `part` by `whole`, and 0 when there is nothing to divide by: reports hold finite numbers only.
pub fn ratio(part: f64, whole: f64) -> f64 {
    let quotient = part / whole;
    if quotient.is_finite() { quotient } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn runs_that_differ_in_wall_time_alone_are_equal_without_it() {
        let slow = sample::comparison(3);
        let mut fast = slow.clone();
        for row in &mut fast.rows {
            row.wall_seconds /= 7.0;
        }
        assert_ne!(slow, fast);
        assert_eq!(slow.without_wall_clock(), fast.without_wall_clock());
        fast.rows[1].iops += 1.0;
        assert_ne!(slow.without_wall_clock(), fast.without_wall_clock());
    }

    #[test]
    fn a_ratio_is_always_finite() {
        assert_eq!(ratio(6.0, 4.0), 1.5);
        assert_eq!(ratio(1.0, 0.0), 0.0);
        assert_eq!(ratio(0.0, 0.0), 0.0);
    }
}
