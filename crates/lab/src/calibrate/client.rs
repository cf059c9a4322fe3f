//! What a request costs whoever makes it: the lab's own client, run over a design that does nothing; and the same
//! over the machine's kernel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wharf_host::design::{
    Client, Design, DesignConfig, DesignError, Devices, NoSettings, Parts, Role, Statistics, Touch,
};
use wharf_host::error::IoError;
use wharf_host::span::Extent;
use wharf_runtime::{CostTable, Op, Seed};
use wharf_wire::dma::DmaSpace;
use wharf_workload::Op as RequestOp;

use super::CalibrateError;
use super::costs::Costs;
use super::real_kernel;
use super::sample::{Sample, Sampler};
use super::stream::{page_request, unchecked_plan};
use super::system::ScratchFile;
use crate::config::{Sets, load_drive, load_host};
use crate::progress::Progress;
use crate::replay::{DeviceGroup, Engine, Prepare, Setup, row};

/// Requests of a run: 2 ms, less than the time for which other programs take a processor away.
const REQUESTS: usize = 20_000;

/// Pages they go to: those of the smallest drive.
const PAGES: u64 = 64;

/// Every request ends where it begins.
struct Nothing;

impl Design for Nothing {
    const NAME: &'static str = "nothing";

    const SUMMARY: &'static str = "every request ends where it begins";

    type Config = NoSettings;

    type Client = NothingClient;

    fn new(_: &DesignConfig, _: &NoSettings, _: &Arc<DmaSpace>) -> Result<Nothing, DesignError> {
        Ok(Nothing)
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<NothingClient, DesignError> {
        Ok(NothingClient {
            _devices: parts.devices,
        })
    }
}

struct NothingClient {
    /// Keeps the queues to the drive in being.
    _devices: Devices,
}

impl Client for NothingClient {
    async fn read(&self, extent: Extent, _: &mut [u8]) -> Result<Touch, IoError> {
        Ok(Touch::all_hits(extent.pages()))
    }

    async fn write(&self, extent: Extent, _: &[u8]) -> Result<Touch, IoError> {
        Ok(Touch::all_hits(extent.pages()))
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// Times the client over the design that does nothing.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let setup = setup("tiny")?;
    let requests = (0..REQUESTS as u64).map(|i| page_request(RequestOp::Read, i % PAGES));
    let plan = unchecked_plan(requests.collect(), 1, PAGES);
    let stop = Arc::new(AtomicBool::new(false));
    let request = sampler.try_collect(|| {
        let row = row::<Nothing>(&setup, &plan, Progress::hidden(), &stop)?;
        Ok::<_, CalibrateError>(row.elapsed_seconds * 1e9 / REQUESTS as f64)
    })?;
    costs.set(
        Op::ClientRequest,
        request,
        "the lab's client over a design that does nothing, reads not checked",
    );
    Ok(())
}

/// A request of the client to the machine's kernel that hits, random over the file, whose pages must be in memory.
pub(super) fn over_the_kernel(
    sampler: Sampler,
    file: &Arc<ScratchFile>,
) -> Result<Sample, CalibrateError> {
    let setup = setup("scala")?;
    let mut rng = Seed(42).rng();
    let requests = (0..REQUESTS).map(|_| page_request(RequestOp::Read, rng.below(file.pages)));
    let plan = unchecked_plan(requests.collect(), 1, file.pages);
    sampler.try_collect(|| {
        let row = real_kernel::run(file, &setup, &plan)?;
        Ok(row.elapsed_seconds * 1e9 / REQUESTS as f64)
    })
}

/// One client, one request at a time, for real, over a drive that has nothing to do.
fn setup(drive: &str) -> Result<Setup, CalibrateError> {
    let none = Sets::default();
    let (drive, host) = (load_drive(drive, &none)?.0, load_host("default", &none)?.0);
    Ok(Setup {
        devices: vec![DeviceGroup::new(Role::Cache, drive, 1, &host)],
        host,
        costs: CostTable::free(),
        cache_bytes: 1 << 20,
        clients: 1,
        depth: 1,
        submission: crate::replay::Submission::default(),
        speed: None,
        seed: 1,
        engine: Engine::Real {
            client_threads: 1,
            profile: false,
        },
        prepare: Prepare::Empty,
    })
}
