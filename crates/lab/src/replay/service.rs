//! A CPU that works for all clients of a design.

use std::sync::Arc;

use wharf_host::design::{Design, Devices, Initial};
use wharf_host::driver::DriverStatistics;
use wharf_runtime::Cpu;

use super::Run;
use super::connection::Connection;

/// Waits for the drives, then starts a service of the design.
pub(crate) async fn run<D: Design>(
    cpu: Cpu,
    run: Arc<Run>,
    design: Arc<D>,
    connection: Connection,
    (index, initial): (u32, Option<Initial>),
) {
    let Some(go) = connection.wait(&cpu).await else {
        return;
    };
    let served = connection.open(&cpu, &go, &run, index).and_then(|parts| {
        let devices = parts.devices.clone();
        design.serve(parts)?;
        Ok(devices)
    });
    match served {
        Ok(devices) => {
            let mut account = ServiceAccount {
                run,
                devices,
                before: DriverStatistics::default(),
            };
            if let Some(initial) = initial {
                initial.wait(&cpu, 1 + index).await;
                account.before = account.so_far();
            }
            std::future::pending().await
        }
        Err(error) => run.fail(error),
    }
}

/// Hands in what the drivers of a service did when the machine stops, and with it the task that has this.
struct ServiceAccount {
    run: Arc<Run>,
    devices: Devices,
    /// What they did before the run began.
    before: DriverStatistics,
}

impl ServiceAccount {
    fn so_far(&self) -> DriverStatistics {
        let mut all = DriverStatistics::default();
        for (_, volume) in self.devices.all() {
            volume.statistics().for_each(|did| all.merge(&did));
        }
        all
    }
}

impl Drop for ServiceAccount {
    fn drop(&mut self) {
        let mut all = self.run.services.lock().unwrap_or_else(|p| p.into_inner());
        let sum = all.get_or_insert_default();
        sum.merge(&self.so_far().since(&self.before));
    }
}
