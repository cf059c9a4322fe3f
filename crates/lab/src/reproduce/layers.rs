//! Mean latency in layers: work, queues, drive.
//!
//! Problem: what a request waited for is not to be seen from its latency, since its pages wait side by
//! side on several queues.
//!
//! 1. **Own work** is the CPU time of clients by request.
//! 2. The rest is waiting. Part of it passes while managers have something of the request, or the drive has a
//!    command of it. How long that takes in all is measured: for each page that a manager is asked for, the
//!    time on its way there and back, and the time the manager has it; for each command, the time from issue
//!    to completion, and of that the time that a firmware core serves it, flash included.
//! 3. Waiting is divided in proportion to these sums, and where they add up to less, what is left is
//!    *other*: the client's other requests, other clients, throttling. Where pages wait side by side the
//!    sums are longer than the waiting, and the proportion is what remains of them.
//!
//! 4. Where a client serves the requests that it has in flight in turn, a request's latency is that of all of them. Its
//!    layers are those of the one that is served, as many times as there are in line.
//!
//! ScalaCache, Figures 5b and 14: "Client-Manager Queuing" is [`Layer::ManagerQueue`], "Manager-SSD
//! Queuing" and "Client-FusionFTL Queuing" are [`Layer::DriveQueue`].

use super::metric::{Work, busy_us, group, time_us};
use super::runs::Measured;
use crate::result::{CpuPart, DriverAccount, Row};

/// A part of the mean latency. All together they make it up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layer {
    /// The client's own CPU at some work.
    Own(Work),
    /// Waiting for a manager to take a request up, and for the answer.
    ManagerQueue,
    /// Waiting for a firmware core to take a command up, with what a manager does before it sends one.
    DriveQueue,
    /// Waiting while a firmware core serves a command, flash included.
    Drive,
    /// Waiting for anything else.
    Other,
}

/// Several layers.
pub type LayerSet = &'static [Layer];

/// What requests waited for, in microseconds by request.
struct Waiting {
    manager_queue: f64,
    drive_queue: f64,
    drive: f64,
    other: f64,
}

/// A layer of a run's mean latency, in microseconds.
///
/// # Errors
/// If the run was not timed, as part of a sentence.
pub fn layer_us(measured: &Measured, layer: Layer) -> Result<f64, String> {
    let in_line = f64::from(measured.in_line);
    let served_us = measured.row.latency_us.mean / in_line;
    Ok(in_line * served_layer_us(&measured.row, served_us, layer)?)
}

/// A layer of the time that a request is served for.
fn served_layer_us(row: &Row, served_us: f64, layer: Layer) -> Result<f64, String> {
    let clients = group(row, CpuPart::Clients)?;
    let by_request = |us: f64| us / row.requests as f64;
    if let Layer::Own(work) = layer {
        return Ok(by_request(busy_us(clients, work)));
    }
    let own_us = by_request(clients.busy_share * time_us(row, clients));
    let waiting = divide(row, (served_us - own_us).max(0.0));
    Ok(match layer {
        Layer::ManagerQueue => waiting.manager_queue,
        Layer::DriveQueue => waiting.drive_queue,
        Layer::Drive => waiting.drive,
        Layer::Other | Layer::Own(_) => waiting.other,
    })
}

/// Divides `waited_us` of each request among what it waited for.
fn divide(row: &Row, waited_us: f64) -> Waiting {
    let by_request = |count: u64| count as f64 / row.requests as f64;
    let commands = |part: CpuPart| {
        let account = row.drivers.iter().find(|account| account.part == part);
        by_request(account.map_or(0, DriverAccount::commands))
    };
    // Sums over a request's pages or commands.
    let us = |name| row.gauge(name).unwrap_or(0.0);
    let (queued, held, served) = match row.gauge("manager_asks") {
        Some(asks) if asks > 0.0 => {
            let asks = asks / row.requests as f64;
            let held = asks * us("manager_held");
            let served = commands(CpuPart::Services) * row.command_service_us;
            (asks * us("manager_queue"), held, served.min(held))
        }
        _ => {
            let clients = row.drivers.iter().find(|a| a.part == CpuPart::Clients);
            let held = commands(CpuPart::Clients) * clients.map_or(0.0, |a| a.command_us);
            let served = commands(CpuPart::Clients) * row.command_service_us;
            (0.0, held, served.min(held))
        }
    };
    let sum = queued + held;
    let scale = if sum > waited_us {
        waited_us / sum
    } else {
        1.0
    };
    Waiting {
        manager_queue: queued * scale,
        drive_queue: (held - served) * scale,
        drive: served * scale,
        other: (waited_us - sum).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::result::Gauge;
    use wharf_host::driver::DriverStatistics;

    /// A run of 100 requests, each 50 us long, of which its CPU works 10.
    fn row() -> Row {
        let mut row = sample::comparison(1).rows.remove(0);
        (row.requests, row.latency_us.mean, row.elapsed_seconds) = (100, 50.0, 0.001);
        row.gauges.clear();
        row.drivers.clear();
        for group in &mut row.cpus {
            (group.count, group.busy_share) = (1, 1.0);
        }
        row
    }

    fn drivers(part: CpuPart, commands: u64, command_us: u64) -> DriverAccount {
        let did = DriverStatistics {
            reads: commands,
            command_ns: commands * command_us * 1000,
            ..DriverStatistics::default()
        };
        DriverAccount::new(part, &did)
    }

    fn layers(row: &Row) -> [f64; 4] {
        use Layer::{Drive, DriveQueue, ManagerQueue, Other};
        let served_us = row.latency_us.mean;
        [ManagerQueue, DriveQueue, Drive, Other]
            .map(|layer| served_layer_us(row, served_us, layer).unwrap())
    }

    #[test]
    fn commands_that_take_less_than_the_waiting_leave_a_rest() {
        let mut row = row();
        row.drivers = vec![drivers(CpuPart::Clients, 100, 30)];
        row.command_service_us = 18.0;
        assert_eq!(layers(&row), [0.0, 12.0, 18.0, 10.0]);
    }

    #[test]
    fn requests_in_line_take_as_long_as_all_of_them() {
        let mut row = row();
        row.drivers = vec![drivers(CpuPart::Clients, 100, 30)];
        row.command_service_us = 18.0;
        row.latency_us.mean *= 32.0;
        let measured = Measured {
            row,
            traits: None,
            unaligned: None,
            cache_bytes: 0,
            in_line: 32,
        };
        let us = |layer| layer_us(&measured, layer).unwrap();
        let us = [Layer::DriveQueue, Layer::Drive, Layer::Other].map(us);
        assert_eq!(us, [12.0 * 32.0, 18.0 * 32.0, 10.0 * 32.0]);
    }

    #[test]
    fn waiting_side_by_side_is_divided_in_proportion() {
        let mut row = row();
        for (name, value) in [
            ("manager_asks", 200.0),
            ("manager_queue", 10.0),
            ("manager_held", 30.0),
        ] {
            let unit = "us".to_string();
            row.gauges.insert(name.into(), Gauge { unit, value });
        }
        row.drivers = vec![
            drivers(CpuPart::Clients, 0, 0),
            drivers(CpuPart::Services, 200, 25),
        ];
        row.command_service_us = 20.0;
        // 20, 20 and 40 us of pages in 40 us of waiting.
        assert_eq!(layers(&row), [10.0, 10.0, 20.0, 0.0]);
    }
}
