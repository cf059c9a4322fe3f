//! What drivers and managers did, and what collection did to requests.

use serde::{Deserialize, Serialize};
use wharf_host::design::Amount;
use wharf_host::driver::DriverStatistics;
use wharf_wire::statistics::DriveStatistics;

use super::{CpuPart, Latency, ratio};
use crate::replay::DeviceGroup;

/// What the drivers of one part of the host did with drive commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverAccount {
    /// Whose drivers: clients' or services'.
    pub part: CpuPart,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Dataset management commands.
    pub deallocates: u64,
    /// Commands of other kinds: pins, unpins.
    pub others: u64,
    /// Bytes of the read commands.
    pub read_bytes: u64,
    /// Bytes of the write commands.
    pub write_bytes: u64,
    /// Mean time of a command from issue to completion, in microseconds; 0 without commands.
    pub command_us: f64,
    /// Commands that ended with an error status.
    pub errors: u64,
    /// Commands that timed out.
    pub timeouts: u64,
    /// Times that a command was sent again.
    pub retries: u64,
}

impl DriverAccount {
    /// The account of a part whose drivers did `did` together.
    pub fn new(part: CpuPart, did: &DriverStatistics) -> DriverAccount {
        DriverAccount {
            part,
            reads: did.reads,
            writes: did.writes,
            flushes: did.flushes,
            deallocates: did.deallocates,
            others: did.others,
            read_bytes: did.read_bytes,
            write_bytes: did.write_bytes,
            command_us: ratio(did.command_ns as f64 / 1000.0, did.commands() as f64),
            errors: did.errors,
            timeouts: did.timeouts,
            retries: did.retries,
        }
    }

    /// Commands of all kinds.
    pub fn commands(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.deallocates + self.others
    }
}

/// What the drives of one role did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceAccount {
    /// Their role: `cache` or `backing`.
    pub role: String,
    /// Their preset's name.
    pub preset: String,
    /// How many they are.
    pub count: u32,
    /// Pages that the host read.
    pub read_pages: u64,
    /// Pages that the host wrote.
    pub written_pages: u64,
    /// Pages that pins brought into frames.
    pub pin_fills: u64,
    /// Pages programmed by pages written; `None` when none was written.
    pub write_amplification: Option<f64>,
    /// Share of `elapsed_seconds` in which garbage was collected, averaged over firmware cores.
    pub gc_share: f64,
    /// How pages were packed, of drives that do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionAccount>,
    /// Of disks: times that heads did not go on where they had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeks: Option<u64>,
    /// Of these, those of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_seeks: Option<u64>,
    /// Of disks: mean time of a seek with the change of heads and the wait for the turn, in
    /// microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positioning_us: Option<f64>,
}

/// How drives packed pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompressionAccount {
    /// Bytes of pages that hold data by those that they take on flash; `None` when none holds any.
    pub physical_ratio: Option<f64>,
    /// Bytes that they take.
    pub used_bytes: u64,
    /// Bytes that they may take.
    pub capacity_bytes: u64,
    /// Share of the flash programmed that was left empty.
    pub unfilled_share: f64,
    /// Of that, what was left empty because somebody waited.
    pub padding_share: f64,
    /// Bytes of the drives' own memory that their maps take.
    #[serde(default)]
    pub map_bytes: u64,
    /// Flash programmed by what the pages written took, compressed; `None` when none was written.
    pub granule_write_amplification: Option<f64>,
}

/// Bytes of a granule, and granules of a page.
const GRANULE: (u64, f64) = (64, 64.0);

impl CompressionAccount {
    /// The account of drives that did `did`.
    fn new(did: &DriveStatistics) -> CompressionAccount {
        let programmed = did.write_amplification_programmed_pages as f64 * GRANULE.1;
        CompressionAccount {
            physical_ratio: did.physical_ratio(),
            used_bytes: did.used_granules * GRANULE.0,
            capacity_bytes: did.capacity_granules * GRANULE.0,
            map_bytes: did.map_bytes,
            unfilled_share: ratio(did.unfilled_granules as f64, programmed),
            padding_share: ratio(did.padding_granules as f64, programmed),
            granule_write_amplification: did.write_amplification_of_granules(),
        }
    }
}

impl DeviceAccount {
    /// The account of a group of drives that did `did` in `elapsed_ns`.
    pub(crate) fn new(
        group: &DeviceGroup,
        did: &DriveStatistics,
        elapsed_ns: u64,
    ) -> DeviceAccount {
        let written = did.write_amplification_host_pages;
        let programmed = did.write_amplification_programmed_pages as f64;
        let is_disk = group.drive.as_disk().is_some();
        let positioning_us = did.positioning_ns as f64 / 1000.0;
        let cores_ns = elapsed_ns as f64 * f64::from(group.cores());
        DeviceAccount {
            role: group.role.to_string(),
            preset: group.drive.name.clone(),
            count: group.drives,
            read_pages: did.host_read_pages,
            written_pages: did.host_write_pages,
            pin_fills: did.pin_fills,
            write_amplification: (written > 0).then(|| ratio(programmed, written as f64)),
            gc_share: ratio(did.gc_busy_ns as f64, cores_ns).min(1.0),
            compression: (group.drive.unit_pages() > 0).then(|| CompressionAccount::new(did)),
            seeks: is_disk.then_some(did.seeks),
            read_seeks: is_disk.then_some(did.read_seeks),
            positioning_us: is_disk.then(|| ratio(positioning_us, did.seeks as f64)),
        }
    }
}

/// Memory that keeps book of cached pages, as it was allocated for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryAccount {
    /// Of the drives: what they know of the frames that they are lent, in bytes, over all drives. 0 where no memory is lent.
    pub drive_bytes: u64,
    /// Rings in which the drives' controllers give parts of commands to firmware cores, in bytes, over all drives.
    pub ring_bytes: u64,
}

/// A figure that a design reports of itself, beyond those that all have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Its unit: `count`, `bytes`, `us`, or `share` of the time that its name speaks of.
    pub unit: String,
    /// How much.
    pub value: f64,
}

/// The time of a run that shares are shares of, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct RunTime {
    /// Of all requests that clients had under way.
    pub requests_ns: f64,
    /// Of the clients' CPUs.
    pub clients_ns: f64,
    /// Of the CPUs of services.
    pub services_ns: f64,
}

impl Gauge {
    /// What a design has reported, over a run.
    pub fn new(amount: Amount, time: RunTime) -> Gauge {
        let share = |ns: u64, whole_ns: f64| ("share", ratio(ns as f64, whole_ns).min(1.0));
        let (unit, value) = match amount {
            Amount::Count(count) => ("count", count as f64),
            Amount::Bytes(bytes) => ("bytes", bytes as f64),
            Amount::OfRequestsNs(ns) => share(ns, time.requests_ns),
            Amount::OfClientsNs(ns) => share(ns, time.clients_ns),
            Amount::OfServicesNs(ns) => share(ns, time.services_ns),
            Amount::MeanNs { sum_ns, count } => ("us", ratio(sum_ns as f64 / 1000.0, count as f64)),
        };
        let unit = unit.into();
        Gauge { unit, value }
    }
}

/// The requests that collection may have held up: those that the cache alone did not serve, and during
/// whose life a drive said in a completion that it was collecting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GcAffected {
    /// How many.
    pub requests: u64,
    /// Their latency; `None` without any.
    pub latency_us: Option<Latency>,
}
