//! A machine with two drives, a client and a keeper, which runs several times over what the drives hold; and the model of
//! what sectors may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};

use wharf_host::backing::Names;
use wharf_host::design::{Devices, Principal};
use wharf_host::driver::{Driver, DriverConfig};
use wharf_host::indexless::planted::Fault;
use wharf_host::indexless::{
    AddressPlan, BackingDrives, Indexless, IndexlessClient, IndexlessConfig, Mode, OpenCas,
    SecondChance, Start, Status, Store,
};
use wharf_host::{
    Client, DesignConfig, DesignError, Extent, Groups, IoError, Layout, Level, Parts, Role, Volume,
};
use wharf_runtime::{CostTable, Cpu, Machine, Notifier, Rng, Seed, Side};
use wharf_wire::command::Command;
use wharf_wire::dma::DmaSpace;
use wharf_wire::mock::{Fate, MockDrive, MockStore};
use wharf_wire::queue::{HostQueue, queue_pair};
use wharf_wire::space::SpaceLevel;
use wharf_wire::status::StatusCode;

pub const PAGE: usize = 4096;

pub const NAMES: Names = Names {
    disk_id: [7; 16],
    cache_id: [9; 16],
};

/// What drives hold.
pub type Pages = BTreeMap<u64, Vec<u8>>;

/// What both drives hold between sessions.
#[derive(Debug, Clone, Default)]
pub struct Held {
    pub cache: Pages,
    pub disk: Pages,
}

/// Sectors of the disk, and what the cache is told.
#[derive(Debug, Clone)]
pub struct Shape {
    pub disk_sectors: u64,
    pub cache_sectors: u64,
    pub limit: u64,
    pub own: IndexlessConfig,
    /// With an index in the place of the bitmap.
    pub is_indexed: bool,
}

impl Shape {
    /// A small one with this store.
    pub fn of(store: Store) -> Shape {
        let disk_sectors = match store {
            // Five zones of 10 MiB.
            Store::Chunks => 2 + 5 * 2560,
            _ => 2048,
        };
        Shape {
            disk_sectors,
            cache_sectors: AddressPlan::new(disk_sectors).drive_sectors() + 5,
            limit: 48,
            own: IndexlessConfig {
                store,
                codec: wharf_codec::Codec::Lz4,
                unit_pages: 4,
                zone_bytes: 10 << 20,
                round_share: 0.2,
                sequential_cutoff_bytes: 8 * 4096,
                mapping_groups: 16,
                ..IndexlessConfig::default()
            },
            is_indexed: false,
        }
    }
}

/// Which drives stop answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    Both,
    Cache,
    Disk,
}

/// When drives stop answering, by commands of both.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub after: u64,
    pub stops: Stops,
}

/// How commands of a drive fare: its role, and the command.
pub type Fates = Box<dyn FnMut(Role, &Command) -> Option<StatusCode> + Send>;

/// How a session runs.
pub struct Session {
    pub shape: Shape,
    pub start: Start,
    pub fault: Fault,
    pub cut: Option<Cut>,
    pub seed: u64,
    /// Other failures.
    pub fates: Option<Fates>,
    pub level: Option<LevelSwitch>,
}

impl Session {
    pub fn new(shape: &Shape, start: Start) -> Session {
        Session {
            shape: shape.clone(),
            start,
            fault: Fault::Nothing,
            cut: None,
            seed: 1,
            fates: None,
            level: None,
        }
    }

    pub fn create(shape: &Shape) -> Session {
        Session::new(shape, Start::Create { names: NAMES })
    }

    pub fn open(shape: &Shape) -> Session {
        Session::new(shape, Start::Open { names: Some(NAMES) })
    }
}

/// How full the drive of the cache says it is.
pub type LevelSwitch = Arc<Mutex<SpaceLevel>>;

/// What a script works with.
pub enum Cache {
    Bitmap(Arc<Indexless<SecondChance>>),
    Index(Arc<Indexless<OpenCas>>),
}

/// Calls the cache, whichever it is.
macro_rules! of_either {
    ($cache:expr, $of:ident => $call:expr) => {
        match $cache {
            Cache::Bitmap($of) => $call,
            Cache::Index($of) => $call,
        }
    };
}

impl Cache {
    fn over(
        config: &DesignConfig,
        shape: &Shape,
        space: &Arc<DmaSpace>,
        start: Start,
    ) -> Result<Cache, DesignError> {
        let (own, drives) = (&shape.own, BackingDrives::default());
        Ok(match shape.is_indexed {
            false => Cache::Bitmap(Arc::new(Indexless::over(
                config, own, space, start, drives,
            )?)),
            true => Cache::Index(Arc::new(Indexless::over(
                config, own, space, start, drives,
            )?)),
        })
    }

    fn plant(&self, fault: Fault) {
        of_either!(self, cache => cache.plant(fault));
    }

    fn make_client(&self, parts: Parts) -> Result<IndexlessClient, DesignError> {
        of_either!(self, cache => cache.make_client(parts))
    }

    fn start_keeper(&self, parts: Parts) -> Result<(), DesignError> {
        of_either!(self, cache => cache.start_keeper(parts))
    }

    pub fn set_mode(&self, mode: Mode) {
        of_either!(self, cache => cache.set_mode(mode));
    }

    pub fn status(&self, cpu: &Cpu) -> Status {
        of_either!(self, cache => cache.status(cpu))
    }
}

/// A session that has ended.
pub struct Ended<T> {
    pub value: T,
    /// Commands of both drives.
    pub commands: u64,
    pub cache: Arc<MockStore>,
    pub disk: Arc<MockStore>,
}

impl<T> Ended<T> {
    /// What the drives hold if power stays.
    pub fn held(&self) -> Held {
        Held {
            cache: self.cache.pages(),
            disk: self.disk.pages(),
        }
    }
}

struct Switch {
    commands: u64,
    cut: Option<Cut>,
    fates: Option<Fates>,
}

impl Switch {
    fn fate(&mut self, role: Role, command: &Command, after_ns: u64) -> Fate {
        let number = self.commands;
        self.commands += 1;
        if let Some(cut) = self.cut.filter(|cut| number >= cut.after) {
            let stops = match cut.stops {
                Stops::Both => true,
                Stops::Cache => role == Role::Cache,
                Stops::Disk => role == Role::Backing,
            };
            if stops {
                return Fate::Failed(StatusCode::DataTransferError, 500);
            }
        }
        let fates = self.fates.as_mut();
        match fates.and_then(|fates| fates(role, command)) {
            Some(status) => Fate::Failed(status, 500),
            None => Fate::Done(after_ns),
        }
    }
}

/// Runs a session over what the drives hold.
pub fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    session: Session,
    held: &Held,
    script: impl FnOnce(Cpu, Rc<IndexlessClient>, Arc<Cache>) -> F + Send + 'static,
) -> Ended<T> {
    let shape = session.shape;
    let space = DmaSpace::new(PAGE);
    let mut machine = Machine::new(CostTable::free(), false);
    let switch = Arc::new(Mutex::new(Switch {
        commands: 0,
        cut: session.cut,
        fates: session.fates,
    }));
    let mut queues: [Vec<HostQueue>; 2] = [Vec::new(), Vec::new()];
    let mut stores = Vec::new();
    let drives = [
        (Role::Cache, shape.cache_sectors, &held.cache, 2_000),
        (Role::Backing, shape.disk_sectors, &held.disk, 60_000),
    ];
    for (role, sectors, pages, longest_ns) in drives {
        let notifier = Notifier::new();
        let mut rng = Seed(session.seed).child(role.name()).rng();
        let (switch, level) = (switch.clone(), session.level.clone());
        let level = level.filter(|_| role == Role::Cache);
        let told: Arc<OnceLock<Arc<MockStore>>> = Arc::default();
        let store = told.clone();
        let fate = move |_, command: &Command| {
            if let (Some(level), Some(store)) = (&level, store.get()) {
                store.set_space_level(*level.lock().unwrap());
            }
            let after_ns = 500 + rng.below(longest_ns);
            switch.lock().unwrap().fate(role, command, after_ns)
        };
        let mut drive = MockDrive::new(&space, &notifier, sectors, fate);
        for (user, queues) in queues.iter_mut().enumerate() {
            let (host, end) = queue_pair(16, &notifier, user as u32);
            drive.attach(user as u16 + 1, end);
            queues.push(host);
        }
        drive.store().be_volatile(pages.clone());
        let _ = told.set(drive.store());
        stores.push(drive.store());
        let cpu = machine.add_cpu(role.name(), Side::Drive, 1.0);
        machine.spawn(cpu, "drive", |cpu| drive.run(cpu));
    }
    let config = DesignConfig {
        cache_bytes: shape.limit * PAGE as u64,
        ..DesignConfig::default()
    };
    let cache = Cache::over(&config, &shape, &space, session.start);
    let cache = Arc::new(cache.unwrap());
    cache.plant(session.fault);
    let sizes = [shape.cache_sectors, shape.disk_sectors];
    let [client_queues, keeper_queues] = queues;
    let value = Arc::new(Mutex::new(None));
    let client_cpu = machine.add_cpu("client", Side::Host, 1.0);
    let keeper_cpu = machine.add_cpu("keeper", Side::Host, 1.0);
    let (keeper, of_keeper) = (cache.clone(), space.clone());
    machine.spawn(keeper_cpu, "keeper", move |cpu| {
        let parts = parts(&cpu, &of_keeper, keeper_queues, sizes);
        keeper.start_keeper(parts).unwrap();
        std::future::ready(())
    });
    let slot = value.clone();
    machine.spawn_main(client_cpu, "client", move |cpu| async move {
        let parts = parts(&cpu, &space, client_queues, sizes);
        let client = Rc::new(cache.make_client(parts).unwrap());
        let ended = script(cpu.clone(), client, cache).await;
        *slot.lock().unwrap() = Some(ended);
    });
    machine.run_virtual(Seed(session.seed)).unwrap();
    let value = value.lock().unwrap().take();
    let commands = switch.lock().unwrap().commands;
    let disk = stores.pop().unwrap();
    Ended {
        value: value.expect("the script has ended"),
        commands,
        cache: stores.pop().unwrap(),
        disk,
    }
}

fn parts(cpu: &Cpu, space: &Arc<DmaSpace>, queues: Vec<HostQueue>, sizes: [u64; 2]) -> Parts {
    let roles = [Role::Cache, Role::Backing];
    let volumes = queues.into_iter().zip(roles).zip(sizes);
    let volumes = volumes.map(|((queue, role), sectors)| {
        let config = DriverConfig {
            retries: 0,
            ..DriverConfig::default()
        };
        let groups = Groups::new();
        let driver = Driver::start(cpu, queue, space, &groups, config, false).unwrap();
        let layout = Layout::of(Level::Raid0, &[sectors], 1).unwrap();
        let volume = Volume::new(vec![driver], layout);
        volume.expect_space_levels();
        (role, volume)
    });
    Parts {
        cpu: cpu.clone(),
        devices: Devices::new(volumes.collect()),
        index: 0,
        principal: Principal::OWNER,
    }
}

pub fn sectors(first: u64, count: u64) -> Extent {
    Extent::new(first * PAGE as u64, count * PAGE as u64)
}

/// A page that tells `value`; 0 is zeros.
pub fn page(value: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    for word in page.chunks_mut(8).take(40) {
        word.copy_from_slice(&value.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    page
}

/// Which value a page tells; `u64::MAX` if it is a mixture.
pub fn value_of(bytes: &[u8]) -> u64 {
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    // The inverse of the multiplier of `page`.
    let value = word.wrapping_mul(0xf1de_83e1_9937_733d);
    match page(value) == bytes {
        true => value,
        false => u64::MAX,
    }
}

pub async fn read(client: &IndexlessClient, first: u64, count: u64) -> Result<Vec<u64>, IoError> {
    let mut out = vec![0; count as usize * PAGE];
    client.read(sectors(first, count), &mut out).await?;
    Ok(out.chunks(PAGE).map(value_of).collect())
}

pub async fn write(client: &IndexlessClient, first: u64, values: &[u64]) -> Result<(), IoError> {
    let data: Vec<u8> = values.iter().flat_map(|value| page(*value)).collect();
    let extent = sectors(first, values.len() as u64);
    client.write(extent, &data).await.map(drop)
}

/// What each sector may hold: what was flushed last, or anything it was given since.
#[derive(Debug, Clone)]
pub struct Model {
    pub flushed: Vec<u64>,
    pub since: Vec<BTreeSet<u64>>,
    /// What it holds as long as nothing fails.
    pub now: Vec<u64>,
    next: u64,
}

impl Model {
    pub fn new(sectors: u64) -> Model {
        let sectors = sectors as usize;
        Model {
            flushed: vec![0; sectors],
            since: vec![BTreeSet::new(); sectors],
            now: vec![0; sectors],
            next: 1,
        }
    }

    /// Values that were never written before.
    pub fn values(&mut self, count: u64) -> Vec<u64> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    pub fn begin(&mut self, first: u64, values: &[u64]) {
        for (sector, value) in (first as usize..).zip(values) {
            self.since[sector].insert(*value);
            self.now[sector] = *value;
        }
    }

    pub fn flush(&mut self) {
        self.flushed.clone_from(&self.now);
        self.since.iter_mut().for_each(BTreeSet::clear);
    }

    /// What is wrong with what was found from `first` on.
    pub fn check(&self, first: u64, found: &[u64]) -> Result<(), String> {
        for (sector, found) in (first as usize..).zip(found) {
            let (flushed, since) = (self.flushed[sector], &self.since[sector]);
            if flushed != *found && !since.contains(found) {
                return Err(format!(
                    "sector {sector} holds {found}: flushed {flushed}, since {since:?}"
                ));
            }
        }
        Ok(())
    }

    /// After a cut: what was found is what there is.
    pub fn settle(&mut self, found: &[u64]) -> Result<(), String> {
        self.check(0, found)?;
        self.now = found.to_vec();
        self.flush();
        Ok(())
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Write(u64, u64),
    Discard(u64, u64),
    Read(u64, u64),
    Flush,
    Mode(Mode),
    /// Time for what goes on beside.
    Rest,
}

pub fn random_ops(rng: &mut Rng, sectors: u64, count: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut end = 0;
    let mut mode = Mode::WriteBack;
    while ops.len() < count as usize {
        let longest = [1, 1, 3, 8, 16][rng.below(5) as usize];
        let count = 1 + rng.below(longest);
        // Every fourth goes on where the last one ended.
        let first = match rng.chance(1, 4) && end + count <= sectors {
            true => end,
            false => rng.below(sectors - count + 1),
        };
        end = first + count;
        ops.push(match rng.below(16) {
            0 | 1 => Op::Flush,
            2 => Op::Discard(first, count),
            3 if rng.chance(1, 3) => {
                let modes = [Mode::WriteThrough, Mode::WriteBack, Mode::Bypass];
                mode = match mode {
                    Mode::WriteBack => modes[rng.below(3) as usize],
                    _ => Mode::WriteBack,
                };
                Op::Mode(mode)
            }
            3 => Op::Rest,
            4..8 => Op::Read(first, count),
            _ => Op::Write(first, count),
        });
    }
    ops
}

/// Does operations; whatever fails is left. Gives what is wrong with a read.
pub async fn play(
    cpu: &Cpu,
    (client, cache): (&IndexlessClient, &Cache),
    model: &Arc<Mutex<Model>>,
    ops: &[Op],
) -> Result<(), String> {
    let mut any_failed = false;
    for (at, op) in ops.iter().enumerate() {
        let done = match *op {
            Op::Write(first, count) => {
                let values = {
                    let mut model = model.lock().unwrap();
                    let values = model.values(count);
                    model.begin(first, &values);
                    values
                };
                write(client, first, &values).await
            }
            Op::Discard(first, count) => {
                model.lock().unwrap().begin(first, &vec![0; count as usize]);
                client.discard(sectors(first, count)).await
            }
            Op::Read(first, count) => match read(client, first, count).await {
                Ok(found) => {
                    let model = model.lock().unwrap();
                    let told = |wrong| format!("operation {at}: {wrong}");
                    model.check(first, &found).map_err(told)?;
                    let now = &model.now[first as usize..(first + count) as usize];
                    if !any_failed && found != now {
                        return Err(format!(
                            "operation {at}: {found:?} from {first}, not {now:?}"
                        ));
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Op::Flush => {
                let flushed = client.flush().await;
                // A failed write leaves old or new: either may be what is flushed then.
                if flushed.is_ok() && !any_failed {
                    model.lock().unwrap().flush();
                }
                flushed
            }
            Op::Mode(mode) => {
                cache.set_mode(mode);
                Ok(())
            }
            Op::Rest => {
                cpu.sleep_until(cpu.now() + 400_000).await;
                Ok(())
            }
        };
        any_failed |= done.is_err();
        cpu.progress();
    }
    Ok(())
}
