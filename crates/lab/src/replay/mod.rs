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
mod connection;
mod engine;
mod files;
mod layers;
mod one_file;
mod outcome;
mod request_queue;
mod scratch;
mod service;
mod setup;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use wharf_drive::config::TokenCheck;
use wharf_drive::{Book, Drive, DriveError, PowerSwitch};
use wharf_host::admin::{AdminError, offer_queues};
use wharf_host::boot::{PoweredOn, Spread};
use wharf_host::collection::CollectionReports;
use wharf_host::design::{Design, DesignError, Initial, Needs, Role};
use wharf_host::driver::DriverStatistics;
use wharf_host::error::IoError;
use wharf_host::files::FileError;
use wharf_host::gate::Gate;
use wharf_runtime::{CpuId, Machine, Notifier, Seed, Side, Stall, ring};
use wharf_wire::dma::DmaSpace;
use wharf_wire::file::DriveKey;
use wharf_wire::identify::DriveFeature;
use wharf_workload::files::FileGenerator;

use crate::checker::{Checker, Ticket, WrongRead};
use crate::input::Plan;
use crate::progress::Progress;
use crate::result::MemoryAccount;

pub use engine::Engine;
pub use files::FileFault;
use one_file::OneFile;
pub use outcome::row;
use scratch::Scratch;
pub use setup::{DeviceGroup, Prepare, Setup, Submission, memory_bytes, volume_bytes};

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
    /// Drives that the design does not use, or none for a role that it needs.
    #[error("{design}: it uses drives for the roles {needed}, and there are drives for {given}")]
    Roles {
        /// The design.
        design: String,
        /// The roles that it needs.
        needed: String,
        /// The roles that have drives.
        given: String,
    },
    /// Drives of a cache that show too little for the drives behind them.
    #[error(
        "{design}: the cache drives show {shown_bytes} bytes, and before {home_bytes} bytes of backing drives they \
         must show {needed_bytes}: leave out drive.ftl.shown_bytes, or set it to that for each drive"
    )]
    ShowTooLittle {
        /// The design.
        design: String,
        /// What they show.
        shown_bytes: u64,
        /// What they must show.
        needed_bytes: u64,
        /// What the drives behind them have.
        home_bytes: u64,
    },
    /// Drives of which some keep stamps and some bytes.
    #[error("the drives of one run keep pages alike: give all the same drive.media.kind")]
    MixedMedia,
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
    /// A file system could not be made, or opened.
    #[error("the file system of the run cannot be made: {0}")]
    FileSystem(FileError),
    /// A design with a file system of its own, over drives that keep stamps.
    #[error(
        "{0} keeps a file system on the drives: add --set drive.media.kind=ram, as stamps are no metadata"
    )]
    StampsUnderFiles(&'static str),
    /// A design whose file system is that of one drive, over several.
    #[error("{0} has the file system of one drive: leave out --drives")]
    OneDrive(String),
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
    /// What requests for blocks go to, where a design serves files alone.
    pub(crate) one_file: Option<OneFile>,
    /// The key of a drive that has files, unless it is told to check nothing.
    pub(crate) key: Option<DriveKey>,
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
    /// Firmware cores of all drives.
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
    let (config, own) = (setup.design_config(), setup.host.design.of::<D>());
    if D::FILES_ALONE && setup.cache().drive.page_bytes() == wharf_wire::dma::STAMP_BYTES {
        return Err(RunError::StampsUnderFiles(D::NAME));
    }
    let needs = D::needs(&config, &own);
    check_devices(D::NAME, setup, &needs)?;
    if needs.roles.contains(&Role::Backing) {
        layers::check_shown(D::NAME, setup, D::shown_bytes(&own, setup.volume_bytes()))?;
    }
    let scratch = Scratch::claim(setup)?;
    let mut drives = Vec::new();
    let mut number = 0;
    for group in &setup.devices {
        for index in 0..group.drives {
            let config = scratch.config_of(&group.drive, number);
            drives.push(match needs.bunch {
                true => crate::prepare::with_files(config, needs.near_bytes)?,
                false => crate::prepare::drive(setup, config, plan, (group, index, number))?,
            });
            number += 1;
        }
    }
    let page_bytes = setup.cache().drive.page_bytes();
    let space = DmaSpace::new(page_bytes);
    let stamp_only = page_bytes == wharf_wire::dma::STAMP_BYTES;
    let design = Arc::new(D::new(&config, &own, &space)?);
    let run = Arc::new(Run {
        plan: plan.clone(),
        generator: plan
            .timed
            .as_ref()
            .map(|timed| Mutex::new(timed.generator.clone())),
        made: AtomicU64::new(0),
        checker: Checker::new(setup.volume_bytes(), stamp_only, setup.is_sparse())
            .map_err(|e| RunError::Memory(e.to_string()))?,
        files: files::Shared::new(plan, setup.volume_bytes(), setup)?,
        key: key(setup, &needs),
        one_file: (D::FILES_ALONE && plan.files.is_none()).then(|| OneFile::of(plan, setup)),
        depth: setup.depth,
        tasks: setup.tasks(),
        speed: setup.speed,
        stop: stop.clone(),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        done: AtomicU64::new(0),
        progress,
        design: D::NAME.to_string(),
        cores: setup.cores(),
        accounts: Mutex::new(Vec::new()),
        samples: Mutex::new(boot::Samples::new(setup.cores())),
        memory: Mutex::default(),
        services: Mutex::new(None),
        collection: Arc::new(CollectionReports::new(setup.clients + needs.services)),
    });
    if stamp_only && needs.roles.contains(&Role::Backing) {
        design.stamps_have(&setup.data_sizes()?);
    }
    let initial = initial(setup, &run, &needs).filter(|initial| design.begin_with(initial));
    let mut machine = Machine::new(setup.costs.clone(), setup.engine.is_profiled());
    let layout = build(
        &mut machine,
        setup,
        &run,
        (&design, initial),
        (drives, needs),
        &space,
    )?;
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

/// What the workload touches, as clients of the design could have written it: where a design keeps data in a store on
/// drives of its own, it alone can bring it there. Whatever a file is to hold at first, nobody knows: files begin empty.
fn initial(setup: &Setup, run: &Arc<Run>, needs: &Needs) -> Option<Initial> {
    let is_wanted = matches!(setup.prepare, Prepare::Touched)
        && needs.roles.contains(&Role::Backing)
        && run.files.is_none();
    let run = run.clone();
    let ranges = run.plan.touched.clone();
    is_wanted.then(|| {
        Initial::new(ranges, 1 + needs.services, move |first, count| {
            let (offset, bytes) = (first * 4096, count * 4096);
            let mut data = vec![0; run.checker.buffer_bytes(offset, bytes)];
            let mut ticket = Ticket::default();
            run.checker
                .begin_write(offset, bytes, &mut data, &mut ticket);
            run.checker.end_write(offset, bytes, &ticket);
            data
        })
    })
}

/// Refuses drives that a design cannot work with.
fn check_devices(design: &str, setup: &Setup, needs: &Needs) -> Result<(), RunError> {
    let given: Vec<Role> = setup.devices.iter().map(|group| group.role).collect();
    let names = |roles: &[Role]| {
        roles
            .iter()
            .map(Role::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if given != needs.roles {
        return Err(RunError::Roles {
            design: design.into(),
            needed: names(needs.roles),
            given: names(&given),
        });
    }
    if needs.bunch && setup.devices.iter().any(|group| group.drives > 1) {
        return Err(RunError::OneDrive(design.into()));
    }
    for group in &setup.devices {
        let columns = group.spread.level.columns(group.drives);
        columns.map_err(AdminError::from)?;
        if group.drive.page_bytes() != setup.cache().drive.page_bytes() {
            return Err(RunError::MixedMedia);
        }
    }
    Ok(())
}

/// The key that a drive with files is given; none if it is to check nothing.
fn key(setup: &Setup, needs: &Needs) -> Option<DriveKey> {
    let is_checked = setup.cache().drive.firmware.token_check != TokenCheck::Off;
    (is_checked && needs.features.contains(&DriveFeature::FileSystem)).then(|| {
        let mut rng = Seed(setup.seed).child("key").rng();
        DriveKey::new(std::array::from_fn(|_| rng.below(256) as u8), 1)
    })
}

/// Puts drives, boot, clients and the design's services on the machine. Returns the CPUs of host
/// and drives.
fn build<D: Design>(
    machine: &mut Machine,
    setup: &Setup,
    run: &Arc<Run>,
    (design, initial): (&Arc<D>, Option<Initial>),
    (drives, needs): (Vec<Drive>, Needs),
    space: &Arc<DmaSpace>,
) -> Result<engine::Layout, RunError> {
    let mut layout = engine::Layout::default();
    let power = PowerSwitch::on();
    let (mut groups, mut books) = (Vec::new(), Vec::new());
    let users = setup.clients + needs.services;
    let mut queues: Vec<Vec<connection::GroupQueues>> = (0..users).map(|_| Vec::new()).collect();
    let mut drives = (0..).zip(drives);
    for group in &setup.devices {
        let role = group.role;
        queues
            .iter_mut()
            .for_each(|groups| groups.push((role, Vec::new())));
        let is_cache = role == Role::Cache;
        let mut powered = Vec::new();
        for (index, (number, drive)) in (0..group.drives).zip(drives.by_ref()) {
            let handle = drive.power_on(machine, &format!("drive{number}"), space, &power)?;
            let new_queue = |qid, entries| handle.new_queue(qid, entries);
            // Of a bunch each user has one for each core of the drive, one user after the other. If the drive has fewer, each
            // user has one, whose commands go to the cores in turn.
            let firmware = &group.drive.firmware;
            let names_cores = needs.bunch && users * firmware.cores <= firmware.queues_max;
            let each = if names_cores { firmware.cores } else { 1 };
            let count = users * each;
            let made = offer_queues(space, count as u16, setup.host.queue_depth, new_queue);
            let made = made.map_err(|e| RunError::Memory(e.to_string()))?;
            let mut offers = Vec::new();
            for (number, (queue, mut offer)) in (0..).zip(made) {
                let (user, core): (u32, u32) = (number / each, number % each);
                offer.core = names_cores.then_some(core as u16);
                let groups = &mut queues[user as usize];
                groups.last_mut().expect("it was added").1.push(queue);
                offers.push(offer);
            }
            layout.drives.push(handle.cpus.clone());
            books.push(handle.book());
            powered.push(PoweredOn {
                admin: handle.admin,
                offers,
                later: 0,
                features: if is_cache { needs.features } else { &[] },
                hmb: design.hmb_memory(index).filter(|_| is_cache),
            });
        }
        let spread = Spread {
            has_array_driver: group.spread.has_array_driver && needs.in_kernel,
            ..group.spread
        };
        groups.push(boot::Group {
            role,
            drives: powered,
            spread,
        });
    }
    let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
    layout.boot = Some(boot_cpu);
    let done_notifier = Notifier::new();
    let gate = Gate::new(users);
    // Services that bring something there begin before clients.
    let first_gate = initial.as_ref().map(|_| Gate::new(users));
    // Clients of files begin when all files are there.
    let makes_files = run.files.is_some() || run.one_file.is_some();
    let begin = makes_files.then(|| Gate::new(users));
    let mut done_receivers = Vec::new();
    for (index, queues) in (0..).zip(queues) {
        let connection = connection::Connection {
            waiter: index,
            queues,
            gate: match (&first_gate, index >= setup.clients) {
                (Some(first), true) => first.clone(),
                _ => gate.clone(),
            },
            begin: begin.clone(),
            space: space.clone(),
            driver: connection::driver_config(&setup.host),
            is_bunch: needs.bunch,
        };
        let (run, design) = (run.clone(), design.clone());
        if let Some(service) = index.checked_sub(setup.clients) {
            let cpu = machine.add_cpu(&format!("service{service}"), Side::Host, 1.0);
            layout.services.push(cpu);
            let initial = initial.clone();
            machine.spawn(cpu, "service", move |cpu| {
                service::run::<D>(cpu, run, design, connection, (service, initial))
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
        groups,
        books,
        gauges: Box::new({
            let design = design.clone();
            move || design.gauges()
        }),
        driver: connection::driver_config(&setup.host),
        gate,
        first: first_gate.zip(initial),
        begin,
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
