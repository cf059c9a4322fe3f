//! How a CPU of the host reaches the drives: its queue pairs, made into volumes when the drives are ready.

use std::sync::Arc;

use wharf_host::boot::Ready;
use wharf_host::design::{Devices, Parts, Principal, Role};
use wharf_host::driver::DriverConfig;
use wharf_host::gate::Gate;
use wharf_runtime::Cpu;
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::HostQueue;

use super::{Run, RunError};
use crate::config::HostConfig;

/// What the boot task tells a client when the drives are ready.
#[derive(Clone)]
pub(crate) struct Go {
    /// The drives of each role.
    pub(crate) ready: Vec<(Role, Ready)>,
    /// When the run begins, by the boot CPU's clock.
    pub(crate) start_ns: u64,
}

/// The queue pairs of a CPU to the drives of one role.
pub(crate) type GroupQueues = (Role, Vec<HostQueue>);

/// How a CPU of the host reaches the drives.
pub(crate) struct Connection {
    /// Its number at the gate.
    pub(crate) waiter: u32,
    pub(crate) queues: Vec<GroupQueues>,
    pub(crate) gate: Gate<Option<Go>>,
    /// Where it waits until all files are there, and is told when the run begins.
    pub(crate) begin: Option<Gate<u64>>,
    pub(crate) space: Arc<DmaSpace>,
    pub(crate) driver: DriverConfig,
    /// Its queue pairs are those of the cores of one drive.
    pub(crate) is_bunch: bool,
}

impl Connection {
    /// The queue pairs of the one drive, one for each of its cores, as the parts of client `index`.
    fn open_bunch(self, cpu: &Cpu, go: &Go, run: &Run, index: u32) -> Result<Parts, RunError> {
        let (_, ready) = go.ready.first().expect("a role");
        let (_, queues) = self.queues.into_iter().next().expect("a role");
        let opened = ready.open_bunch(cpu, &self.space, 0, queues, self.driver);
        let bunch = opened.map_err(|e| RunError::Memory(e.to_string()))?;
        for driver in &bunch {
            driver.report_collection(&run.collection, self.waiter as usize);
        }
        Ok(Parts {
            cpu: cpu.clone(),
            devices: Devices::of_bunch(bunch),
            index,
            principal: Principal::OWNER,
        })
    }

    /// Waits for the drives; without a "go" the boot task has failed and said why.
    pub(super) async fn wait(&self, cpu: &Cpu) -> Option<Go> {
        self.gate.pass(cpu, self.waiter).await
    }

    /// The volume of each role, whose drivers tell `run` of collection, as the parts of client or
    /// service `index`.
    pub(super) fn open(self, cpu: &Cpu, go: &Go, run: &Run, index: u32) -> Result<Parts, RunError> {
        if self.is_bunch {
            return self.open_bunch(cpu, go, run, index);
        }
        let mut volumes = Vec::new();
        for ((role, ready), (_, queues)) in go.ready.iter().zip(self.queues) {
            let opened = ready.open_volume(cpu, &self.space, queues, self.driver);
            let volume = opened.map_err(|e| RunError::Memory(e.to_string()))?;
            for driver in volume.drivers() {
                driver.report_collection(&run.collection, self.waiter as usize);
            }
            volumes.push((*role, volume));
        }
        Ok(Parts {
            cpu: cpu.clone(),
            devices: Devices::new(volumes),
            index,
            principal: Principal::OWNER,
        })
    }
}

/// The driver's configuration, from the host's.
pub(crate) fn driver_config(host: &HostConfig) -> DriverConfig {
    DriverConfig {
        timeout_ns: if host.command_timeout_ns == 0 {
            u64::MAX
        } else {
            host.command_timeout_ns
        },
        retries: host.retries as u8,
        ..DriverConfig::default()
    }
}
