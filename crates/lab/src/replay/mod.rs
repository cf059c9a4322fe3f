//! Replaying a plan through one design: a machine with drives, clients and a boot CPU.
//!
//! 1. `build` puts drives and host CPUs on a machine.
//! 2. The boot CPU identifies the drives, creates a queue pair for each client on each drive, opens
//!    the gate, and from then on samples the drives' statistics (`boot.rs`).
//! 3. Each client (`client.rs`) keeps `depth` requests in flight, which it takes from its request queues (`request_queue.rs`), checks every read,
//!    and accounts.
//!    Operations on files go to a client of files over the design's (`files/`).
//! 4. The last client to end closes the run; `outcome.rs` turns all accounts into a row.

mod boot;
mod client;
mod engine;
mod files;
mod outcome;
mod request_queue;
mod scratch;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use wharf_drive::config::DriveConfig;
use wharf_drive::{Book, Drive, DriveError, PowerSwitch};
use wharf_host::admin::{AdminError, offer_queues};
use wharf_host::boot::{PoweredOn, Spread};
use wharf_host::collection::CollectionReports;
use wharf_host::design::{Design, DesignConfig, DesignError, Replacement, WritePolicy};
use wharf_host::driver::DriverStatistics;
use wharf_host::error::IoError;
use wharf_host::gate::Gate;
use wharf_host::volume::Layout;
use wharf_runtime::{CostTable, CpuId, Machine, Notifier, Seed, Side, Stall, ring};
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::HostQueue;
use wharf_workload::files::FileGenerator;

use crate::checker::{Checker, WrongRead};
use crate::config::{
    HostConfig, Replacement as ConfiguredReplacement, WritePolicy as ConfiguredPolicy,
};
use crate::input::Plan;
use crate::progress::Progress;
use crate::result::MemoryAccount;

pub use engine::Engine;
pub use files::FileFault;
pub use outcome::row;
use scratch::Scratch;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Bytes that a drive keeps for each page that it shows: its map, and the stamps of the flash behind it.
const DRIVE_TABLES_BYTES: u64 = 24;

/// Bytes for each cached page besides the page: those of `scala`, the most.
const CACHE_TABLES_BYTES: u64 = 160;

/// Everything that shapes a run but the design.
#[derive(Clone)]
pub struct Setup {
    /// The drives, all alike.
    pub drive: DriveConfig,
    /// How many.
    pub drives: u32,
    /// The host.
    pub host: HostConfig,
    /// Costs in virtual time.
    pub costs: CostTable,
    /// Cache of every design, in bytes.
    pub cache_bytes: u64,
    /// Clients.
    pub clients: u32,
    /// Requests in flight of each client.
    pub depth: u32,
    /// Whether they are under way together.
    pub submission: Submission,
    /// Open loop: send by timestamps, so many times faster; `None` for a closed loop.
    pub speed: Option<f64>,
    /// Root of all random choices.
    pub seed: u64,
    /// Virtual or real time.
    pub engine: Engine,
    /// How the drives are prepared.
    pub prepare: Prepare,
}

impl Setup {
    /// Requests of a client that are served at a time.
    pub fn tasks(&self) -> u32 {
        match self.submission {
            Submission::Together => self.depth,
            Submission::InTurn => 1,
        }
    }

    /// As [`memory_bytes`], for its drives and cache.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.drive, self.drives, self.cache_bytes)
    }
}

/// Memory that a run takes at most, in bytes, but for its requests: tables and data of the drives, and the cache with
/// what the design with the most keeps for each page.
pub fn memory_bytes(drive: &DriveConfig, drives: u32, cache_bytes: u64) -> u64 {
    let page_bytes = drive.page_bytes() as u64;
    let data_bytes = if page_bytes == PAGE_BYTES {
        PAGE_BYTES
    } else {
        0
    };
    let drive_bytes = drive.namespace_pages() * (DRIVE_TABLES_BYTES + data_bytes);
    let cache_bytes = cache_bytes / PAGE_BYTES * (page_bytes + CACHE_TABLES_BYTES);
    u64::from(drives) * drive_bytes + cache_bytes
}

/// How a client serves the requests that it has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Submission {
    /// All at once: while one waits, the others go on.
    #[default]
    Together,
    /// One after another, as Linux serves buffered requests that are submitted by libaio: each within its
    /// `io_submit`. The others wait in line, and a request's latency is that of all `depth`.
    InTurn,
}

/// What the drives hold when a run begins.
#[derive(Debug, Clone)]
pub enum Prepare {
    /// Nothing: reads of pages that the run did not write touch no flash.
    Empty,
    /// The pages that the workload touches, written in order.
    Touched,
    /// The whole namespace, then random overwrites until collection is in its steady state.
    Steady,
    /// Copies of drives from a stock that several runs share.
    Stock(Arc<crate::prepare::Stock>),
    /// The image of a prepared drive.
    Image(std::path::PathBuf),
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A read returned wrong data.
    #[error("{design}: request {request}: {source}")]
    WrongRead {
        /// The design.
        design: String,
        /// Index of the request in the workload.
        request: u64,
        /// What was wrong.
        source: WrongRead,
    },
    /// A request failed.
    #[error("{design}: request {request}: {source}")]
    Io {
        /// The design.
        design: String,
        /// Index of the request in the workload.
        request: u64,
        /// What the host half says.
        source: IoError,
    },
    /// An operation on a file failed that must not, or was answered wrongly.
    #[error("{design}: operation {operation}, {what}: {source}")]
    File {
        /// The design.
        design: String,
        /// Index of the operation in the workload.
        operation: u64,
        /// What was done, to which file.
        what: String,
        /// What was wrong.
        source: Box<FileFault>,
    },
    /// The drives could not be started.
    #[error("cannot start the drives: {0}")]
    Boot(#[from] AdminError),
    /// The drives could not be built.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// A file that a drive's image was to be made at.
    #[error("{} exists: each design runs on a new image there, so remove it or give another media.path", .0.display())]
    ImageExists(std::path::PathBuf),
    /// The design could not be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// No memory.
    #[error("{0}")]
    Memory(String),
    /// The latencies of a closed loop do not fill the time that requests were under way: a fault of this program.
    #[error(
        "{design}: latencies add up to {latencies_ns} ns, and requests were under way for {slots_ns} ns: \
         this is a fault of Wharf, please report it with the command"
    )]
    Accounting {
        /// The design.
        design: String,
        /// The sum of all latencies.
        latencies_ns: u128,
        /// The sum over all slots of a client of the time from the start to the last completion.
        slots_ns: u128,
    },
    /// The run stood still.
    #[error("{design}: {source}")]
    Stall {
        /// The design.
        design: String,
        /// What the runtime says.
        source: Stall,
    },
}

/// What all tasks of a run share.
pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    /// What makes requests when they are asked for.
    pub(crate) generator: Option<Mutex<FileGenerator>>,
    /// Requests that it has made.
    pub(crate) made: AtomicU64,
    pub(crate) checker: Checker,
    /// What clients of files share, where operations are on files.
    pub(crate) files: Option<files::Shared>,
    /// Requests in flight of a client, each in a slot of its own.
    pub(crate) depth: u32,
    /// Tasks of a client that serve them.
    pub(crate) tasks: u32,
    pub(crate) speed: Option<f64>,
    /// Set by a signal; other runs look at it too.
    pub(crate) stop: Arc<AtomicBool>,
    /// Set by the first failure: it ends this run alone.
    pub(crate) failed: AtomicBool,
    pub(crate) failure: Mutex<Option<RunError>>,
    pub(crate) done: AtomicU64,
    pub(crate) progress: Progress,
    pub(crate) design: String,
    pub(crate) drives: u32,
    pub(crate) cores: u32,
    pub(crate) accounts: Mutex<Vec<client::Account>>,
    pub(crate) samples: Mutex<boot::Samples>,
    pub(crate) memory: Mutex<MemoryAccount>,
    /// What the drivers of services did, once those have ended.
    pub(crate) services: Mutex<Option<DriverStatistics>>,
    /// When drives said that they collect.
    pub(crate) collection: Arc<CollectionReports>,
}

impl Run {
    /// Remembers the first failure and stops the run.
    pub(crate) fn fail(&self, error: RunError) {
        let mut failure = self.failure.lock().unwrap_or_else(|p| p.into_inner());
        failure.get_or_insert(error);
        self.failed.store(true, Relaxed);
    }

    /// Notes what memory the drives take; they have been lent theirs.
    fn note_books(&self, books: &[Book]) {
        let mut memory = self.memory.lock().unwrap_or_else(|p| p.into_inner());
        memory.drive_bytes = books.iter().map(Book::cache_bytes).sum();
        memory.ring_bytes = books.iter().map(Book::ring_bytes).sum();
    }

    /// When a run that began at `start_ns` ends, if a time bounds it.
    pub(crate) fn deadline_ns(&self, start_ns: u64) -> u64 {
        let timed = self.plan.timed.as_ref();
        timed.map_or(u64::MAX, |timed| start_ns.saturating_add(timed.run_ns))
    }

    /// True once clients are to take no further request.
    pub(crate) fn is_ending(&self) -> bool {
        self.stop.load(Relaxed) || self.failed.load(Relaxed)
    }
}

/// Bytes that can be addressed on `drives` such drives as an array: whole stripes only.
///
/// # Panics
/// If the array's layout cannot be on so many drives: see [`HostConfig::check_drives`].
pub fn volume_bytes(drive: &DriveConfig, drives: u32, host: &HostConfig) -> u64 {
    volume_layout(drive, drives, host).pages() * 4096
}

/// Where the pages of such an array lie; panics as [`volume_bytes`] does.
pub(crate) fn volume_layout(drive: &DriveConfig, drives: u32, host: &HostConfig) -> Layout {
    let (pages, spread) = (
        vec![drive.namespace_pages(); drives as usize],
        host.spread(),
    );
    let layout = Layout::of(spread.level, &pages, spread.stripe_pages);
    layout.expect("the number of drives was checked")
}

/// What a design is made from.
fn design_config(setup: &Setup) -> DesignConfig {
    DesignConfig {
        cache_bytes: setup.cache_bytes,
        clients: setup.clients,
        shares: setup.host.shares.shares(),
        drives: setup.drives,
        level: setup.host.layout.into(),
        files: setup.host.files,
        memory_nodes: setup.host.memory_nodes,
        in_kernel: setup.host.in_kernel,
        file_system: setup.host.file_system,
        managers: setup.host.managers,
        tri_reads_before_overwrite: setup.host.tri_reads_before_overwrite,
        gc_aware: setup.host.gc_aware,
        dirty_background_share: setup.host.dirty_background_share,
        dirty_hard_share: setup.host.dirty_hard_share,
        replacement: match setup.host.replacement {
            ConfiguredReplacement::Clock => Replacement::Clock,
            ConfiguredReplacement::Lru => Replacement::Lru,
        },
        balance: setup.host.dflush.into(),
        share_pages: setup.host.dflush_share_pages.into(),
        index_reclaim: setup.host.index_reclaim.into(),
        write_policy: match setup.host.write_policy {
            ConfiguredPolicy::WriteBack => WritePolicy::Back,
            ConfiguredPolicy::WriteThrough => WritePolicy::Through,
        },
        ..DesignConfig::default()
    }
}

/// Runs `plan` through design `D` and returns the accounts.
///
/// # Errors
/// As [`RunError`] says; a wrong read among them.
pub(crate) fn run<D: Design>(
    setup: &Setup,
    plan: &Arc<Plan>,
    progress: Progress,
    stop: &Arc<AtomicBool>,
) -> Result<outcome::Outcome, RunError> {
    setup
        .host
        .check_drives(setup.drives)
        .map_err(AdminError::from)?;
    let scratch = Scratch::claim(setup)?;
    let drive = |index| crate::prepare::drive(&scratch.setup_of(setup, index), plan, index);
    let drives = (0..setup.drives)
        .map(drive)
        .collect::<Result<Vec<Drive>, RunError>>()?;
    let space = DmaSpace::new(setup.drive.page_bytes());
    let volume_bytes = volume_bytes(&setup.drive, setup.drives, &setup.host);
    let stamp_only = setup.drive.page_bytes() == wharf_wire::dma::STAMP_BYTES;
    let config = design_config(setup);
    let design = Arc::new(D::new(&config, &space)?);
    let services = D::services(&config);
    let run = Arc::new(Run {
        plan: plan.clone(),
        generator: plan
            .timed
            .as_ref()
            .map(|timed| Mutex::new(timed.generator.clone())),
        made: AtomicU64::new(0),
        checker: Checker::new(volume_bytes, stamp_only)
            .map_err(|e| RunError::Memory(e.to_string()))?,
        files: files::Shared::new(plan, volume_bytes, setup)?,
        depth: setup.depth,
        tasks: setup.tasks(),
        speed: setup.speed,
        stop: stop.clone(),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        done: AtomicU64::new(0),
        progress,
        design: D::NAME.to_string(),
        drives: setup.drives,
        cores: setup.drive.firmware.cores,
        accounts: Mutex::new(Vec::new()),
        samples: Mutex::new(boot::Samples::new(
            setup.drives * setup.drive.firmware.cores,
        )),
        memory: Mutex::default(),
        services: Mutex::new(None),
        collection: Arc::new(CollectionReports::new(setup.clients + services)),
    });
    let mut machine = Machine::new(setup.costs.clone(), setup.engine.is_profiled());
    let spread = Spread {
        has_array_driver: setup.host.md && D::is_in_kernel(&config),
        ..setup.host.spread()
    };
    let parts = (drives, services, spread);
    let layout = build(&mut machine, setup, &run, &design, parts, &space)?;
    let clock = wharf_runtime::clock::Clock::start();
    let summary = engine::run(
        machine,
        &setup.engine,
        layout,
        Seed(setup.seed),
        stop,
        setup.host.idle.into(),
    );
    let wall_ns = clock.now_ns();
    if let Some(failure) = run.failure.lock().unwrap_or_else(|p| p.into_inner()).take() {
        return Err(failure);
    }
    let summary = summary.map_err(|source| RunError::Stall {
        design: D::NAME.into(),
        source,
    })?;
    outcome::Outcome::gather(&run, &summary, wall_ns, setup)
}

/// Puts drives, boot, clients and the design's services on the machine. Returns the CPUs of host
/// and drives.
fn build<D: Design>(
    machine: &mut Machine,
    setup: &Setup,
    run: &Arc<Run>,
    design: &Arc<D>,
    (drives, services, spread): (Vec<Drive>, u32, Spread),
    space: &Arc<DmaSpace>,
) -> Result<engine::Layout, RunError> {
    let mut layout = engine::Layout::default();
    let power = PowerSwitch::on();
    let (mut powered, mut books) = (Vec::new(), Vec::new());
    let users = setup.clients + services;
    let mut queues: Vec<Vec<HostQueue>> = (0..users).map(|_| Vec::new()).collect();
    for (index, drive) in (0..).zip(drives) {
        let handle = drive.power_on(machine, &format!("drive{index}"), space, &power)?;
        let new_queue = |qid, entries| handle.new_queue(qid, entries);
        let made = offer_queues(space, users as u16, setup.host.queue_depth, new_queue);
        let mut offers = Vec::new();
        for (queues, (queue, offer)) in queues
            .iter_mut()
            .zip(made.map_err(|e| RunError::Memory(e.to_string()))?)
        {
            queues.push(queue);
            offers.push(offer);
        }
        layout.drives.push(handle.cpus.clone());
        books.push(handle.book());
        powered.push(PoweredOn {
            admin: handle.admin,
            offers,
            later: 0,
            hmb: design.hmb_memory(index),
        });
    }
    let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
    layout.boot = Some(boot_cpu);
    let done_notifier = Notifier::new();
    let gate = Gate::new(users);
    let mut done_receivers = Vec::new();
    for (index, queues) in (0..).zip(queues) {
        let connection = client::Connection {
            waiter: index,
            queues,
            gate: gate.clone(),
            space: space.clone(),
            driver: client::driver_config(&setup.host),
        };
        let (run, design) = (run.clone(), design.clone());
        if let Some(service) = index.checked_sub(setup.clients) {
            let cpu = machine.add_cpu(&format!("service{service}"), Side::Host, 1.0);
            layout.services.push(cpu);
            machine.spawn(cpu, "service", move |cpu| {
                client::run_service::<D>(cpu, run, design, connection, service)
            });
            continue;
        }
        let cpu = machine.add_cpu(&format!("client{index}"), Side::Host, 1.0);
        layout.clients.push(cpu);
        let (done, done_receiver) = ring(2, &done_notifier, index);
        done_receivers.push(done_receiver);
        machine.spawn_main(cpu, "client", move |cpu| {
            client::run::<D>(cpu, run, design, connection, done, index)
        });
    }
    let parts = boot::Parts {
        drives: powered,
        books,
        spread,
        index_nodes: Box::new({
            let design = design.clone();
            move || design.index_nodes()
        }),
        driver: client::driver_config(&setup.host),
        gate,
        done: (done_notifier, done_receivers),
    };
    let (run, space) = (run.clone(), space.clone());
    machine.spawn_main(boot_cpu, "boot", move |cpu| {
        boot::run(cpu, run, space, parts)
    });
    Ok(layout)
}

/// A CPU's place on the machine, for the engines.
pub(crate) type Cpus = Vec<CpuId>;
