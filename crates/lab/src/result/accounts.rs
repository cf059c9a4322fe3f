//! What drivers and managers did, and what collection did to requests.

use serde::{Deserialize, Serialize};
use wharf_host::Statistics;
use wharf_host::driver::DriverStatistics;

use super::{CpuPart, Latency, ratio};

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

/// Memory that keeps book of cached pages, as it was allocated for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryAccount {
    /// Of the drives: what they know of the frames that they are lent, in bytes, over all drives. 0 where no memory is lent.
    pub drive_bytes: u64,
    /// Of the clients: their indexes, in bytes, over all clients; `None` for a design whose clients have none.
    pub client_bytes: Option<u64>,
    /// Rings in which the drives' controllers give parts of commands to firmware cores, in bytes, over all drives.
    pub ring_bytes: u64,
}

/// How clients fared with the CPUs that manage the cache for them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ManagerAccount {
    /// Share of `elapsed_seconds` in which a client's CPU had nothing to do but wait for managers,
    /// averaged over clients.
    pub wait_share: f64,
    /// Pages that managers were asked for.
    pub asks: u64,
    /// Mean time of such a request, and then of its answer, on the way and waiting to be taken, in
    /// microseconds.
    pub queue_us: f64,
    /// Mean time that a manager had it, from taking the request to giving the answer, in microseconds.
    pub held_us: f64,
}

impl ManagerAccount {
    /// The account of `clients` clients that did `did` together in `elapsed_ns`; `None` if they asked no
    /// manager.
    pub fn new(did: &Statistics, clients: u32, elapsed_ns: u64) -> Option<ManagerAccount> {
        let asks = did.manager_asks;
        let mean_us = |sum_ns: u64| ratio(sum_ns as f64 / 1000.0, asks as f64);
        (asks > 0).then(|| ManagerAccount {
            wait_share: ratio(
                did.manager_wait_ns as f64,
                elapsed_ns as f64 * f64::from(clients),
            )
            .min(1.0),
            asks,
            queue_us: mean_us(did.manager_queue_ns),
            held_us: mean_us(did.manager_held_ns),
        })
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
