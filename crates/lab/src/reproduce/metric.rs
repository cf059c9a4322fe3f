//! What a figure reads off a run.

use serde::Deserialize;

use crate::result::{CpuGroup, CpuPart, Latency, Row};

use super::layers::{Layer, LayerSet, layer_us};
use super::over_time;
use super::runs::Measured;

/// A set of operation categories, by the names that rows use.
pub type Work = &'static [&'static str];

/// Finding, keeping and copying cached pages.
pub const CACHE: Work = &["index", "replacement", "copy"];
/// Putting commands on queues, the operating system's block layer and interrupts.
pub const ENGINE: Work = &["driver", "system"];
/// Locks, and lines of memory that several CPUs write.
pub const LOCK: Work = &["contention"];
/// Messages between CPUs of the host.
pub const MESSAGES: Work = &["message"];
/// The client itself.
pub const CLIENT: Work = &["client"];

/// Bytes of a node of Linux' tree, and of the trees here (section 2.2 of the ScaleCache paper).
const NODE_BYTES: f64 = 576.0;

/// Something that a run has a figure for.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Metric {
    /// Bytes of completed requests, in 10^6 bytes a second.
    Bandwidth,
    /// Mean latency, in microseconds.
    MeanLatency,
    /// Mean latency of reads, in microseconds.
    ReadMean,
    /// Mean latency of writes, in microseconds.
    WriteMean,
    /// Mean latency in this tenth of a run, counted from 1, in microseconds.
    TenthLatency(u32),
    /// How far the mean latencies of the tenths of a run are spread: their standard deviation by their mean.
    LatencySpread,
    /// Share of reads and writes of files that are not of whole pages of 4 KiB.
    Unaligned,
    /// Bytes on the links by bytes that were asked for.
    LinkBytes,
    /// Share of the time of requests in which they waited for room in the host's cache.
    Stalled,
    /// Share of what is computed that the drive computes.
    DriveComputed,
    /// The 99th percentile of the latency of reads, in microseconds.
    ReadP99,
    /// Pages that a disk behind a cache compressed and wrote, of all units that were touched, for each that left the cache.
    DiskWriteAmplification,
    /// Seeks of a disk behind a cache for reads, for each read of the workload.
    SeeksPerRead,
    /// The 99.9th percentile of latency, in microseconds.
    P999,
    /// The 99.99th percentile of latency, in microseconds.
    P9999,
    /// Drive commands for each request.
    Commands,
    /// Requests that collection may have held up, by all requests.
    GcAffected,
    /// The mean latency of those requests, in microseconds.
    GcAffectedLatency,
    /// The 99.99th percentile of their latency, in microseconds.
    GcAffectedP9999,
    /// CPU time for each request on some work of a part of the machine, in microseconds.
    Cpu(CpuPart, Work),
    /// CPU time of the host for each request, polling included, in microseconds.
    HostCpu,
    /// CPU time of clients and services for each request on some work, in microseconds.
    HostWork(Work),
    /// CPU time of the host for each request on the I/O engine, with the polling of those CPUs that drive the queue pairs: managers,
    /// or clients where there are none. In microseconds.
    EnginePolled,
    /// Work of a part, in CPUs that it would keep busy.
    Cpus(CpuPart, Work),
    /// Time for each request in which a part polled or slept, in microseconds of its CPUs.
    Waiting(CpuPart),
    /// Share of a part's time that some work took, polling included.
    TimeShare(CpuPart, Work),
    /// Share of a part's busy time that some work took.
    BusyShare(CpuPart, Work),
    /// Share of a part's time in which it waited.
    WaitingShare(CpuPart),
    /// Share of a part's time in which it worked.
    Busy(CpuPart),
    /// Share of the time of clients and services in which they worked or spun.
    HostBusy,
    /// Share of the clients' time in which writers slept, as too much was dirty.
    Throttled,
    /// Writing back dirty pages by whoever does it, writers or the CPUs that serve them, as a share of the clients' time.
    WritingBack,
    /// Waiting for the lock of an index of pages by whoever does, as a share of the clients' time.
    IndexWait,
    /// Being in the driver of an array by whoever is, as a share of the clients' time.
    ArrayDriver,
    /// Share of the clients' time that is neither of these nor asleep for throttling.
    OtherTime,
    /// A layer of the mean latency, in microseconds.
    Latency(Layer),
    /// Share of the mean latency that some layers make up.
    LatencyShare(LayerSet),
    /// Cost of operations by the count of the first of them, in nanoseconds.
    Cost(CpuPart, &'static [&'static str]),
    /// Share of the cost of the first operations that the second ones take.
    CostShare(CpuPart, &'static [&'static str], &'static [&'static str]),
    /// How often operations ran, in millions a second.
    Rate(CpuPart, &'static [&'static str]),
    /// How often operations of the first part ran for the time in which all CPUs of the second worked, in millions a second: what
    /// the second could serve if it had nothing to wait for.
    Capacity(CpuPart, &'static [&'static str], CpuPart),
    /// Memory of the host that says what is cached, and by which it leaves, in GiB for a cached TiB.
    HostGib,
    /// Memory of the map of the cache's drive, in GiB for a cached TiB.
    DriveMapGib,
    /// Share of 4 KiB page touches that were hits.
    HitRatio,
    /// Share of the time in which the drive's cores collected.
    Collecting,
    /// Memory of the nodes of the index of cached pages at its peak, in MiB.
    IndexMib,
    /// Memory that keeps book of cached pages, as a share of the cache.
    BookShare(Book),
    /// The cache with that memory, by the cache.
    WithBook(Book),
    /// Memory of the rings from the drives' controllers to their cores, in KiB.
    RingKib,
    /// Requests of the workload, scaled up to full size.
    Requests,
    /// Their mean size in KiB.
    MeanKib,
    /// Data that they move, in GiB, scaled up to full size.
    DataGib,
    /// Share of requests that do not continue the one before.
    Randomness,
    /// Mean reuse distance in GiB, scaled up to full size.
    ReuseGib,
}

/// Who keeps book of cached pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Book {
    /// The drives, of the frames that they are lent.
    Drives,
    /// The clients, each in an index of its own.
    Clients,
}

impl Book {
    fn bytes(self, row: &Row) -> Result<f64, String> {
        let bytes = match self {
            Book::Drives => Some(row.memory.drive_bytes as f64).filter(|bytes| *bytes > 0.0),
            Book::Clients => row.gauge("index_bytes"),
        };
        bytes.ok_or_else(|| "this design keeps no such book".to_string())
    }
}

impl Metric {
    /// Its name and unit, as an axis shows them.
    pub fn axis(self) -> &'static str {
        match self {
            Metric::Bandwidth => "bandwidth, MB/s",
            Metric::MeanLatency => "mean latency, µs",
            Metric::ReadMean => "mean latency of reads, µs",
            Metric::WriteMean => "mean latency of writes, µs",
            Metric::TenthLatency(_) => "mean latency, µs",
            Metric::LatencySpread => "spread of latency over the run",
            Metric::Unaligned => "share of unaligned requests",
            Metric::LinkBytes => "bytes on the link by byte",
            Metric::Stalled => "share of time stalled",
            Metric::DriveComputed => "share that the drive computes",
            Metric::ReadP99 => "p99 latency of reads, µs",
            Metric::DiskWriteAmplification => "write amplification",
            Metric::SeeksPerRead => "seeks by read",
            Metric::P999 => "p99.9 latency, µs",
            Metric::P9999 => "p99.99 latency, µs",
            Metric::Commands => "drive commands by request",
            Metric::GcAffected => "share of requests affected by collection",
            Metric::GcAffectedLatency => "mean latency of requests affected by collection, µs",
            Metric::GcAffectedP9999 => "p99.99 latency of requests affected by collection, µs",
            Metric::Cpu(..)
            | Metric::HostCpu
            | Metric::HostWork(_)
            | Metric::EnginePolled
            | Metric::Waiting(_) => "CPU time by request, µs",
            Metric::Cpus(..) => "CPUs",
            Metric::TimeShare(..) | Metric::WaitingShare(_) => "share of CPU time",
            Metric::BusyShare(..) => "share of busy CPU time",
            Metric::Busy(_) | Metric::HostBusy => "share of time busy",
            Metric::Throttled => "share of time",
            Metric::WritingBack | Metric::IndexWait | Metric::ArrayDriver | Metric::OtherTime => {
                "share of time"
            }
            Metric::Latency(_) => "mean latency, µs",
            Metric::LatencyShare(_) => "share of mean latency",
            Metric::Cost(..) => "cost, ns",
            Metric::CostShare(..) => "share of the cost",
            Metric::Rate(..) | Metric::Capacity(..) => "million a second",
            Metric::HostGib => "host memory, GiB for a cached TiB",
            Metric::DriveMapGib => "map of the drive, GiB for a cached TiB",
            Metric::HitRatio => "hit ratio",
            Metric::Collecting => "share of time collecting",
            Metric::IndexMib => "memory of the index, MiB",
            Metric::BookShare(_) | Metric::WithBook(_) => "share of the cache",
            Metric::RingKib => "memory of rings, KiB",
            Metric::Requests => "requests",
            Metric::MeanKib => "mean size, KiB",
            Metric::DataGib => "data, GiB",
            Metric::Randomness => "randomness",
            Metric::ReuseGib => "reuse distance, GiB",
        }
    }

    /// The figure of a run.
    ///
    /// # Errors
    /// Why the run has none, as part of a sentence.
    pub fn of(self, measured: &Measured) -> Result<f64, String> {
        let row = &measured.row;
        let requests = row.requests as f64;
        let by_request = |us: f64| us / requests;
        let traits = || {
            let known = measured.traits.as_ref();
            known.ok_or_else(|| "only profiles and traces are described".to_string())
        };
        Ok(match self {
            Metric::Bandwidth => row.bandwidth_mb_s,
            Metric::MeanLatency => row.latency_us.mean,
            Metric::ReadMean => read(row)?.mean,
            Metric::WriteMean => {
                let latency = row.write_latency_us.as_ref();
                latency.ok_or("nothing was written")?.mean
            }
            Metric::TenthLatency(tenth) => over_time::latency_us(row, tenth)?,
            Metric::LatencySpread => over_time::spread(row)?,
            Metric::Unaligned => {
                let share = measured.unaligned;
                share.ok_or("its requests are not of files")?
            }
            Metric::LinkBytes => row.link_bytes_per_byte.ok_or("nothing was moved")?,
            Metric::Stalled => share(row, "stalled"),
            Metric::DriveComputed => {
                let count = |side: &str| row.gauge(side).ok_or("this design does not choose");
                let (host, drive) = (count("computed_by_host")?, count("computed_by_drive")?);
                drive / (host + drive)
            }
            Metric::ReadP99 => read(row)?.p99,
            Metric::DiskWriteAmplification => behind(row, "disk_write_amplification")?,
            Metric::SeeksPerRead => behind(row, "seeks_per_read")?,
            Metric::P999 => row.latency_us.p99_9,
            Metric::P9999 => row.latency_us.p99_99,
            Metric::Commands => row.commands_per_io,
            Metric::GcAffected => by_request(row.gc_affected.requests as f64),
            Metric::GcAffectedLatency => affected(row)?.mean,
            Metric::GcAffectedP9999 => affected(row)?.p99_99,
            Metric::Cpu(part, work) => match row.cpus.iter().find(|group| group.part == part) {
                Some(group) => by_request(busy_us(group, work)),
                None => 0.0,
            },
            Metric::HostCpu => by_request(host_us(row)),
            Metric::HostWork(work) => by_request(host(row).map(|g| busy_us(g, work)).sum()),
            Metric::EnginePolled => {
                let part = match row.gauge("manager_asks") {
                    Some(asks) if asks > 0.0 => CpuPart::Services,
                    _ => CpuPart::Clients,
                };
                let work_us: f64 = host(row).map(|g| busy_us(g, ENGINE)).sum();
                by_request(work_us + waiting_us(row, group(row, part)?))
            }
            Metric::Cpus(part, work) => {
                busy_us(group(row, part)?, work) / (row.elapsed_seconds * 1e6)
            }
            Metric::Waiting(part) => match row.cpus.iter().find(|group| group.part == part) {
                Some(group) => by_request(waiting_us(row, group)),
                None => 0.0,
            },
            Metric::TimeShare(part, work) => {
                let group = group(row, part)?;
                busy_us(group, work) / time_us(row, group)
            }
            Metric::BusyShare(part, work) => {
                let group = group(row, part)?;
                busy_us(group, work) / (group.busy_share * time_us(row, group))
            }
            Metric::WaitingShare(part) => 1.0 - group(row, part)?.busy_share,
            Metric::Busy(part) => group(row, part)?.busy_share,
            Metric::HostBusy => {
                let busy = |g: &CpuGroup| (g.busy_share + g.spin_share) * time_us(row, g);
                let busy_us: f64 = host(row).map(busy).sum();
                busy_us / host(row).map(|g| time_us(row, g)).sum::<f64>()
            }
            Metric::Throttled => share(row, "throttled"),
            Metric::WritingBack => writing_back(row),
            Metric::IndexWait => share(row, "index_wait"),
            Metric::ArrayDriver => share(row, "array_driver"),
            Metric::OtherTime => {
                let told = share(row, "throttled") + share(row, "index_wait") + writing_back(row);
                (1.0 - told).max(0.0)
            }
            Metric::Latency(layer) => layer_us(measured, layer)?,
            Metric::LatencyShare(layers) => {
                let sum: Result<f64, String> =
                    layers.iter().map(|layer| layer_us(measured, *layer)).sum();
                sum? / row.latency_us.mean
            }
            Metric::Cost(part, operations) => {
                let group = group(row, part)?;
                let count = count(group, &operations[..1]);
                if count == 0 {
                    return Err(format!("no {} in this run", operations[0]));
                }
                operation_us(group, operations) * 1000.0 / count as f64
            }
            Metric::CostShare(part, whole, some) => {
                let group = group(row, part)?;
                operation_us(group, some) / operation_us(group, whole)
            }
            Metric::Rate(part, operations) => {
                count(group(row, part)?, operations) as f64 / row.elapsed_seconds / 1e6
            }
            Metric::Capacity(part, operations, server) => {
                let rate = Metric::Rate(part, operations).of(measured)?;
                rate / group(row, server)?.busy_share
            }
            Metric::HostGib => behind(row, "host_gib_per_tib")?,
            Metric::DriveMapGib => behind(row, "map_gib_per_tib")?,
            Metric::HitRatio => row
                .hit_ratio
                .ok_or("a design without a cache has no hits")?,
            Metric::Collecting => row.gc_share,
            Metric::IndexMib => {
                let nodes = row
                    .gauge("index_nodes")
                    .ok_or("this design has no tree of pages")?;
                nodes * NODE_BYTES / f64::from(1 << 20)
            }
            Metric::BookShare(book) => book.bytes(row)? / measured.cache_bytes as f64,
            Metric::WithBook(book) => 1.0 + Metric::BookShare(book).of(measured)?,
            Metric::RingKib => row.memory.ring_bytes as f64 / 1024.0,
            Metric::Requests => traits()?.requests,
            Metric::MeanKib => traits()?.mean_kib,
            Metric::DataGib => traits()?.data_gib,
            Metric::Randomness => traits()?.randomness,
            Metric::ReuseGib => traits()?.reuse_gib,
        })
    }
}

/// A share that a design may report: 0 of one that does not.
fn share(row: &Row, name: &str) -> f64 {
    row.gauge(name).unwrap_or(0.0)
}

fn read(row: &Row) -> Result<&Latency, String> {
    let latency = row.read_latency_us.as_ref();
    latency.ok_or_else(|| "nothing was read".into())
}

/// A figure of a disk behind a cache.
fn behind(row: &Row, name: &str) -> Result<f64, String> {
    let figure = crate::report::behind::figure(row, name);
    figure.ok_or_else(|| "there is no disk behind, or nothing of that was done".into())
}

fn affected(row: &Row) -> Result<&Latency, String> {
    let latency = row.gc_affected.latency_us.as_ref();
    latency.ok_or_else(|| "no request was affected by collection".into())
}

pub(super) fn group(row: &Row, part: CpuPart) -> Result<&CpuGroup, String> {
    let found = row.cpus.iter().find(|group| group.part == part);
    found.ok_or_else(|| format!("'{}' has no CPUs of this part", row.design))
}

/// Time of all CPUs of a group.
pub(super) fn time_us(row: &Row, group: &CpuGroup) -> f64 {
    row.elapsed_seconds * 1e6 * f64::from(group.count)
}

fn waiting_us(row: &Row, group: &CpuGroup) -> f64 {
    (1.0 - group.busy_share) * time_us(row, group)
}

pub(super) fn busy_us(group: &CpuGroup, work: Work) -> f64 {
    let of_work = |op: &&crate::result::OperationAccount| work.contains(&op.category.as_str());
    let operations = group.operations.iter().filter(of_work);
    operations.map(|op| op.busy_us).sum()
}

fn operation_us(group: &CpuGroup, names: &[&str]) -> f64 {
    let named = group.operations.iter();
    let named = named.filter(|op| names.contains(&op.operation.as_str()));
    named.map(|op| op.busy_us).sum()
}

fn count(group: &CpuGroup, names: &[&str]) -> u64 {
    let named = group.operations.iter();
    let named = named.filter(|op| names.contains(&op.operation.as_str()));
    named.map(|op| op.count).sum()
}

/// Time of writers that write back, and of the services whose work it is, by the time of the clients.
fn writing_back(row: &Row) -> f64 {
    let services = group(row, CpuPart::Services);
    let by_services = match (services, group(row, CpuPart::Clients)) {
        (Ok(services), Ok(clients)) => {
            let busy = (services.busy_share + services.spin_share) * f64::from(services.count);
            busy / f64::from(clients.count)
        }
        _ => 0.0,
    };
    share(row, "flushing") + by_services
}

/// Clients and services.
fn host(row: &Row) -> impl Iterator<Item = &CpuGroup> {
    let groups = row.cpus.iter();
    groups.filter(|group| matches!(group.part, CpuPart::Clients | CpuPart::Services))
}

/// CPU time of clients and services. Designs in the program poll and so take all of their CPUs' time;
/// the operating system's cache lets a waiting thread sleep.
fn host_us(row: &Row) -> f64 {
    let sleeps = row.design == super::variant::KERNEL.design;
    let share = |group: &CpuGroup| if sleeps { group.busy_share } else { 1.0 };
    host(row)
        .map(|group| share(group) * time_us(row, group))
        .sum()
}
