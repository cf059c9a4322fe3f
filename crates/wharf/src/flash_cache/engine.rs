//! One thread with everything on it: the cache's drive, its clients, its keeper, and the I/O of the
//! disk.
//!
//! Nothing crosses a thread, so no request waits for another one to wake up. Whoever serves calls
//! [`Engine::pass`] until nothing goes on by itself any more, and then sleeps on what
//! [`Reactor::arrivals`] names. Who only wants one thing done calls [`Engine::run`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_drive::{Drive, PowerSwitch};
use wharf_host::admin::{Admin, offer_queues};
use wharf_host::boot::{PoweredOn, Ready, Spread, make_ready};
use wharf_host::driver::DriverConfig;
use wharf_host::volume::Volume;
use wharf_runtime::{CostTable, Cpu, CpuId, Inline, Machine, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::identify::DriveFeature;
use wharf_wire::queue::HostQueue;
use wharf_wire::space::{SpacePage, SpaceThresholds};

use super::CacheError;
use super::reactor::Reactor;

/// Who has queues of its own: the client, the keeper, and whoever looks at the drive.
const USERS: u16 = 3;
/// Entries of a queue.
const QUEUE_DEPTH: u32 = 256;
/// Pages on one drive of several; there is one.
const STRIPE_PAGES: u64 = 16;

/// How often the drive is asked for its space, in nanoseconds.
const SPACE_EVERY_NS: u64 = 1_000_000_000;

/// How full the flash is when sectors begin to leave, and when none come any more, in percent:
/// collection has enough room to write little.
const YELLOW_PERCENT: u8 = 85;
const RED_PERCENT: u8 = 95;

/// See the module.
pub struct Engine {
    inline: Inline,
    reactor: Rc<Reactor>,
    cpus: [CpuId; 3],
    boot: CpuId,
    space: Arc<DmaSpace>,
    ready: Ready,
    queues: Vec<HostQueue>,
    admin: Rc<Admin>,
    /// What the drive said last of its space, and when it was asked.
    told: Rc<Cell<Option<SpacePage>>>,
    asked_ns: Cell<u64>,
}

impl Engine {
    /// Powers a drive on, which must be able to do what `features` say.
    ///
    /// # Errors
    /// If it cannot be started, or memory is short.
    pub fn power_on(drive: Drive, features: &'static [DriveFeature]) -> Result<Engine, CacheError> {
        let space = DmaSpace::new(drive.config().page_bytes());
        let mut machine = Machine::new(CostTable::free(), false);
        let handle = drive.power_on(&mut machine, "cache", &space, &PowerSwitch::on())?;
        let new_queue = |qid, entries| handle.new_queue(qid, entries);
        let made = offer_queues(&space, USERS, QUEUE_DEPTH, new_queue)?;
        let (queues, offers): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let powered = PoweredOn {
            admin: handle.admin,
            offers,
            later: 0,
            features,
            hmb: None,
        };
        let boot = machine.add_cpu("boot", Side::Host, 1.0);
        let cpus = ["client", "keeper", "look"].map(|name| machine.add_cpu(name, Side::Host, 1.0));
        let inline = machine.inline();
        let booted = inline.block_on(boot, |cpu| {
            let space = space.clone();
            async move {
                let spread = Spread::striped(STRIPE_PAGES);
                make_ready(&cpu, &space, vec![powered], spread, DriverConfig::default()).await
            }
        });
        let (mut admins, ready) = booted?;
        Ok(Engine {
            inline,
            reactor: Reactor::of_thread().map_err(CacheError::Thread)?,
            cpus,
            boot,
            space,
            ready,
            queues,
            admin: Rc::new(admins.remove(0)),
            told: Rc::default(),
            asked_ns: Cell::new(0),
        })
    }

    /// Memory that the drive reaches.
    pub fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    /// What the drive says of its space.
    ///
    /// # Errors
    /// If it does not.
    pub fn space_page(&self) -> Result<SpacePage, CacheError> {
        Ok(self.run_on(self.boot, self.admin.space())?)
    }

    /// What the drive said of its space a second ago or so, for whoever must not wait for it.
    pub fn space_lately(&self) -> Option<SpacePage> {
        let cpu = self.inline.cpu(self.boot);
        let now_ns = cpu.now();
        if self.asked_ns.get() == 0 || now_ns >= self.asked_ns.get() + SPACE_EVERY_NS {
            self.asked_ns.set(now_ns.max(1));
            let (admin, told) = (self.admin.clone(), self.told.clone());
            cpu.spawn("space", async move {
                if let Ok(space) = admin.space().await {
                    told.set(Some(space));
                }
            });
        }
        self.told.get()
    }

    /// What arrives from real storage.
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// The CPU of the client.
    pub fn client_cpu(&self) -> &Cpu {
        self.inline.cpu(self.cpus[0])
    }

    /// A volume with queues of its own, for tasks of the client (0), of the keeper (1), or of
    /// whoever looks (2).
    ///
    /// # Errors
    /// If memory is short.
    pub fn volume(&mut self, user: usize) -> Result<(Cpu, Rc<Volume>), CacheError> {
        let queues = vec![self.queues.remove(0)];
        let cpu = self.inline.cpu(self.cpus[user]).clone();
        let (ready, space) = (&self.ready, &self.space);
        // On the machine: the driver's tasks start there.
        let opened = self.inline.block_on(self.cpus[user], |cpu| async move {
            ready.open_volume(&cpu, space, queues, DriverConfig::default())
        });
        Ok((cpu, opened?))
    }

    /// Has the drive say in its answers when it has little room left.
    ///
    /// # Errors
    /// If it does not know how.
    pub fn watch_space(&self) -> Result<(), CacheError> {
        let thresholds = SpaceThresholds {
            yellow_percent: YELLOW_PERCENT,
            red_percent: RED_PERCENT,
            in_completions: true,
            as_events: false,
        };
        Ok(self.run_on(self.boot, self.admin.set_space_thresholds(thresholds))?)
    }

    /// Lets everything that can go on do so once; true if anything did.
    pub fn pass(&self) -> bool {
        let ran = self.inline.pass();
        self.reactor.poll() | ran
    }

    /// Makes something on the client's CPU, which may start tasks.
    pub fn on_client<T>(&self, make: impl FnOnce() -> T) -> T {
        self.inline
            .block_on(self.cpus[0], |_| async move { make() })
    }

    /// Runs everything until `future`, of the client's CPU, is done; sleeps where there is nothing
    /// to do.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_on(self.cpus[0], future)
    }

    /// As [`Engine::run`], of whoever looks at the drive.
    pub fn run_look<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_on(self.cpus[2], future)
    }

    /// Whoever waits for a queue's answers is a task of the CPU that has the queue.
    fn run_on<T>(&self, cpu: CpuId, future: impl Future<Output = T>) -> T {
        self.reactor.run(&self.inline, cpu, future)
    }
}
