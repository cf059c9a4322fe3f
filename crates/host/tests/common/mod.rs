//! A machine with mock drives and clients of a design, for tests.
#![allow(dead_code)] // each test file uses a part

pub mod page_cache;
pub mod pinning;

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use pinning::{PinDrive, PinState};
use wharf_host::driver::{Driver, DriverConfig};
use wharf_host::volume::ParityLocks;
use wharf_host::{Design, DesignConfig, Groups, Layout, Level, Parts, Volume};
use wharf_runtime::{CostTable, Cpu, CpuId, Machine, Notifier, Op, Rng, Side, xor_into};
use wharf_wire::command::Command;
use wharf_wire::dma::DmaSpace;
use wharf_wire::mock::{Fate, MockDrive, MockStore};
use wharf_wire::queue::{HostQueue, queue_pair};

/// What is to be built.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub page_bytes: usize,
    pub drives: u32,
    pub drive_pages: u64,
    pub stripe_pages: u64,
    pub level: Level,
    pub clients: u32,
    pub depth: u32,
    pub driver: DriverConfig,
    /// Whether the drives pin pages, and know nothing of other transfers.
    pub pins: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            page_bytes: 4096,
            drives: 1,
            drive_pages: 1_000,
            stripe_pages: 2,
            level: Level::Raid0,
            clients: 1,
            depth: 8,
            driver: DriverConfig::default(),
            pins: false,
        }
    }
}

/// A cost table in which every operation takes time, so that clients interleave. What one takes goes by
/// its number: operations that are added change nothing for the others.
pub fn some_costs() -> CostTable {
    let mut costs = CostTable::free();
    for (number, op) in Op::ALL.iter().enumerate() {
        let cost_ns = 20.0 + 7.0 * number as f64;
        costs.cost_ns.insert(op.key().into(), cost_ns);
    }
    // As measured: giving back an empty node of an index is some hundred of these, within one removal.
    costs.cost_ns.insert(Op::LineLocal.key().into(), 2.4);
    costs
}

/// A fate for a healthy drive: answers in random order.
pub fn healthy(mut rng: Rng) -> impl FnMut(u64, &Command) -> Fate + Send + 'static {
    move |_, _| Fate::Done(1_000 + rng.below(20_000))
}

/// Pairs of drives hold the same, and all pages of a row with parity add up to zeros, but for pages `in_doubt`.
pub fn check_redundancy(layout: &Layout, stores: &[Arc<MockStore>], in_doubt: &[u64]) {
    for lba in (0..layout.drive_pages).filter(|lba| !in_doubt.contains(lba)) {
        let pages: Vec<_> = stores.iter().map(|store| store.page(lba)).collect();
        let Some(size) = pages.iter().flatten().map(Vec::len).next() else {
            continue;
        };
        let zeros = vec![0; size];
        let bytes = |drive: usize| pages[drive].as_ref().unwrap_or(&zeros);
        let agree = match layout.level {
            Level::Raid0 => true,
            Level::Raid5 => {
                let mut sum = zeros.clone();
                (0..pages.len()).for_each(|drive| xor_into(&mut sum, bytes(drive)));
                sum == zeros
            }
            Level::Raid10 => (0..pages.len()).all(|drive| bytes(drive) == bytes(drive ^ 1)),
        };
        assert!(agree, "{:?}: page {lba}", layout.level);
    }
}

/// The machine with its drives; clients are added one by one.
pub struct Rig {
    pub machine: Machine,
    pub shape: Shape,
    pub space: Arc<DmaSpace>,
    pub stores: Vec<Arc<MockStore>>,
    /// The drives that pin pages.
    pub pinning: Vec<Arc<PinState>>,
    pub client_cpus: Vec<CpuId>,
    pub service_cpus: Vec<CpuId>,
    pub drive_cpus: Vec<CpuId>,
    /// What the users of a volume with parity share.
    pub parity: Arc<ParityLocks>,
    queues: Vec<Vec<HostQueue>>,
}

impl Rig {
    /// A machine with drives whose commands fare as `fate(drive)` decides.
    pub fn new<F>(shape: Shape, fate: impl FnMut(u32) -> F) -> Rig
    where
        F: FnMut(u64, &Command) -> Fate + Send + 'static,
    {
        Rig::with_services(shape, 0, fate)
    }

    /// As before, with CPUs for the services of a design.
    pub fn with_services<F>(shape: Shape, services: u32, mut fate: impl FnMut(u32) -> F) -> Rig
    where
        F: FnMut(u64, &Command) -> Fate + Send + 'static,
    {
        let space = DmaSpace::new(shape.page_bytes);
        let mut machine = Machine::new(some_costs(), false);
        let mut queues: Vec<Vec<HostQueue>> =
            (0..shape.clients + services).map(|_| Vec::new()).collect();
        let client_cpus = (0..shape.clients)
            .map(|i| machine.add_cpu(&format!("client{i}"), Side::Host, 1.0))
            .collect();
        let service_cpus = (0..services)
            .map(|i| machine.add_cpu(&format!("service{i}"), Side::Host, 1.0))
            .collect();
        let (mut stores, mut pinning) = (Vec::new(), Vec::new());
        let mut drive_cpus = Vec::new();
        for drive in 0..shape.drives {
            let notifier = Notifier::new();
            if shape.pins {
                let state = Arc::new(PinState::default());
                let mut ends = Vec::new();
                for (client, queues) in queues.iter_mut().enumerate() {
                    let (host, end) = queue_pair(shape.depth, &notifier, client as u32);
                    ends.push((client as u16 + 1, end));
                    queues.push(host);
                }
                stores.push(state.store.clone());
                pinning.push(state.clone());
                let drive = PinDrive {
                    dma: space.clone(),
                    notifier,
                    pages: shape.drive_pages,
                    cores: shape.driver.cores,
                    core_stripe_pages: shape.driver.core_stripe_pages,
                    state,
                    queues: ends,
                    decide: fate(drive),
                    fetched: 0,
                    pending: BTreeMap::new(),
                };
                let cpu = machine.add_cpu("drive", Side::Drive, 1.0);
                drive_cpus.push(cpu);
                machine.spawn(cpu, "pinning drive", |cpu| drive.run(cpu));
                continue;
            }
            let mut mock = MockDrive::new(&space, &notifier, shape.drive_pages, fate(drive));
            for (client, queues) in queues.iter_mut().enumerate() {
                let (host, end) = queue_pair(shape.depth, &notifier, client as u32);
                mock.attach(client as u16 + 1, end);
                queues.push(host);
            }
            stores.push(mock.store());
            let cpu = machine.add_cpu(&format!("drive{drive}"), Side::Drive, 1.0);
            drive_cpus.push(cpu);
            machine.spawn(cpu, "mock", |cpu| mock.run(cpu));
        }
        Rig {
            machine,
            shape,
            space,
            stores,
            pinning,
            client_cpus,
            service_cpus,
            drive_cpus,
            parity: ParityLocks::new(shape.clients + services),
            queues,
        }
    }

    pub fn layout(&self) -> Layout {
        let sizes = vec![self.shape.drive_pages; self.shape.drives as usize];
        Layout::of(self.shape.level, &sizes, self.shape.stripe_pages).unwrap()
    }

    /// A design for this machine, told nothing of its own.
    pub fn design<D: Design>(&self, config: DesignConfig) -> Arc<D> {
        self.design_told(config, &D::Config::default())
    }

    /// A design for this machine.
    pub fn design_told<D: Design>(&self, config: DesignConfig, own: &D::Config) -> Arc<D> {
        let config = DesignConfig {
            clients: self.shape.clients,
            drives: self.shape.drives,
            level: self.shape.level,
            ..config
        };
        let design = D::new(&config, own, &self.space).unwrap();
        for (drive, state) in (0..).zip(&self.pinning) {
            let memory = design.hmb_memory(drive).expect("the design lends memory");
            state.lend(&self.space, memory, self.shape.driver.cores);
        }
        Arc::new(design)
    }

    /// Runs `run` on client `index`'s CPU with its volume.
    pub fn spawn_on_volume<F>(
        &mut self,
        index: u32,
        run: impl FnOnce(Cpu, Rc<Volume>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let cpu = self.client_cpus[index as usize];
        self.spawn_with_queues(cpu, index, run);
    }

    /// Starts the services of a design, each on its CPU with its volume.
    pub fn spawn_services<D: Design>(&mut self, design: &Arc<D>) {
        for (index, cpu) in (0..).zip(self.service_cpus.clone()) {
            let design = design.clone();
            self.spawn_with_queues(cpu, self.shape.clients + index, move |cpu, volume| {
                design.serve(Parts::new(&cpu, volume, index)).unwrap();
                std::future::ready(())
            });
        }
    }

    fn spawn_with_queues<F>(
        &mut self,
        cpu: CpuId,
        queues: u32,
        run: impl FnOnce(Cpu, Rc<Volume>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let queues = std::mem::take(&mut self.queues[queues as usize]);
        let (space, layout, config) = (self.space.clone(), self.layout(), self.shape.driver);
        let parity = self.parity.clone();
        self.machine.spawn_main(cpu, "client", move |cpu| {
            let groups = Groups::new();
            let drivers = queues.into_iter().enumerate().map(|(drive, queue)| {
                let config = DriverConfig {
                    drive: drive as u16,
                    ..config
                };
                Driver::start(&cpu, queue, &space, &groups, config, false).unwrap()
            });
            let drivers = drivers.collect();
            let volume = match layout.level {
                Level::Raid5 => Volume::with_parity(drivers, layout, &space, &parity).unwrap(),
                _ => Volume::new(drivers, layout),
            };
            run(cpu, volume)
        });
    }

    /// Runs `run` on client `index`'s CPU with its client of `design`.
    pub fn spawn_client<D: Design, F>(
        &mut self,
        index: u32,
        design: &Arc<D>,
        run: impl FnOnce(Cpu, Rc<D::Client>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let design = design.clone();
        self.spawn_on_volume(index, move |cpu, volume| {
            let client = Rc::new(design.client(Parts::new(&cpu, volume, index)).unwrap());
            run(cpu, client)
        });
    }
}
