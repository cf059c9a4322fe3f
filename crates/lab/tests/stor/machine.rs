//! A drive with a file system, and a client with a bunch of queue pairs, in virtual time.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use wharf_drive::config::{DriveConfig, FileSystemKind, LinkKind, MediaKind, NewFiles};
use wharf_drive::{Drive, DriveHandle, PowerSwitch};
use wharf_files::block::Make;
use wharf_files::gpt::Guid;
use wharf_files::testing::beside::{ROOT_MODE, START_NS};
use wharf_host::DriverConfig;
use wharf_host::admin::offer_queues;
use wharf_host::boot::{PoweredOn, Ready, Spread, make_ready};
use wharf_host::gate::Gate;
use wharf_host::stor::{Placement, StorClient, StorConfig};
use wharf_lab::config::{Sets, load_drive};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};
use wharf_wire::identify::DriveFeature;
use wharf_wire::queue::HostQueue;

/// Pages of flash that a drive has.
const PAGES: u32 = 16_000;

fn config(cores: u32, pages: u32) -> DriveConfig {
    // Tests have many drives, and it takes a while to read.
    static PRESET: OnceLock<DriveConfig> = OnceLock::new();
    let read = || load_drive("scala", &Sets::default()).expect("a preset").0;
    let mut config = PRESET.get_or_init(read).clone();
    config.file_system = Some(FileSystemKind::Wfs);
    config.media.kind = MediaKind::Ram;
    config.geometry.channels = cores;
    config.geometry.dies_per_channel = 2;
    config.geometry.pages_per_block = 16;
    config.geometry.blocks_per_plane = pages / 16 / (2 * cores);
    config.firmware.cores = cores;
    config.firmware.stripe_pages = 4;
    config.firmware.commands_max = 64;
    config.ftl.over_provisioning = 0.3;
    config.ftl.write_buffer_pages = 64;
    config.host_memory.enabled = false;
    // Few pages: it is full most of the time.
    config.memory.near_bytes = 64 << 10;
    // Clients that are told to load and store pages of that can.
    config.link.kind = LinkKind::Cxl;
    config
}

const NEW: NewFiles = NewFiles {
    disk: Guid([1; 16]),
    partition: Guid([2; 16]),
    make: Make {
        file_system: 0x77,
        hash_key: [3, 4],
        now_ns: START_NS,
        uid: 0,
        gid: 0,
        mode: ROOT_MODE,
    },
};

/// Runs a script with a client of a new file system on a drive of so many cores.
pub fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    cores: u32,
    placement: Placement,
    script: impl FnOnce(StorClient) -> F + Send + 'static,
) -> T {
    let own = StorConfig {
        placement,
        ..StorConfig::default()
    };
    let script = Mutex::new(Some(script));
    let mut results = run_clients(cores, 1, own, move |client| {
        let script = script.lock().expect("no holder panics").take();
        script.expect("there is one client")(client.client)
    });
    results.pop().expect("there is one client")
}

/// One of several clients.
pub struct OneClient {
    pub cpu: Cpu,
    pub client: StorClient,
    pub index: u32,
}

/// Runs a script for each client of a new file system on a drive of so many cores; gives what they give, in their order.
pub fn run_clients<T: Send + 'static, F: Future<Output = T> + 'static>(
    cores: u32,
    clients: u32,
    own: StorConfig,
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> Vec<T> {
    run_in(&DmaSpace::new(PAGE_BYTES), cores, clients, own, script)
}

/// The same with this memory.
pub fn run_in<T: Send + 'static, F: Future<Output = T> + 'static>(
    space: &Arc<DmaSpace>,
    cores: u32,
    clients: u32,
    own: StorConfig,
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> Vec<T> {
    run_on(new_drive(cores), space, clients, own, script).1
}

/// A drive with a new file system.
pub fn new_drive(cores: u32) -> Drive {
    new_drive_of(cores, PAGES)
}

/// The same of so many pages.
pub fn new_drive_of(cores: u32, pages: u32) -> Drive {
    let drive = Drive::new(config(cores, pages)).expect("a drive");
    drive.with_new_files(NEW)
}

/// A drive with room for so many bytes of pages of files in its own memory.
pub fn new_drive_near(cores: u32, near_bytes: u64) -> Drive {
    let mut config = config(cores, PAGES);
    config.memory.bytes += near_bytes;
    config.memory.near_bytes = near_bytes;
    let drive = Drive::new(config).expect("a drive");
    drive.with_new_files(NEW)
}

/// A drive with so many bytes of memory for what it computes.
pub fn new_drive_computing(cores: u32, compute_bytes: u64) -> Drive {
    let mut config = config(cores, PAGES);
    config.memory.compute_bytes = compute_bytes;
    let drive = Drive::new(config).expect("a drive");
    drive.with_new_files(NEW)
}

/// A drive that has power, and clients that wait for it to be ready.
struct Powered {
    machine: Machine,
    handle: DriveHandle,
    gate: Arc<Gate<Ready>>,
    /// Of each client.
    bunches: Vec<Vec<HostQueue>>,
}

fn power_on(
    drive: Drive,
    space: &Arc<DmaSpace>,
    clients: u32,
    power: &PowerSwitch,
    costs: CostTable,
) -> Powered {
    let mut machine = Machine::new(costs, false);
    let cores = drive.config().firmware.cores;
    let mut handle = drive
        .power_on(&mut machine, "drive", space, power)
        .expect("it has power");
    let spare = handle.new_queue(0, 2).0;
    let admin = std::mem::replace(&mut handle.admin, spare);
    let new_queue = |qid, entries| handle.new_queue(qid, entries);
    let made = offer_queues(space, (cores * clients) as u16, 64, new_queue).expect("memory");
    let (mut queues, mut offers) = (Vec::new(), Vec::new());
    for (at, (queue, mut offer)) in (0..).zip(made) {
        offer.core = Some(at % cores as u16);
        queues.push(queue);
        offers.push(offer);
    }
    let powered = PoweredOn {
        admin,
        offers,
        later: 0,
        features: &[DriveFeature::FileSystem],
        hmb: None,
    };
    let gate = Arc::new(Gate::new(clients));
    let boot = machine.add_cpu("boot", Side::Host, 1.0);
    let (of_boot, opens) = (space.clone(), gate.clone());
    machine.spawn(boot, "boot", move |cpu| async move {
        let (config, spread) = (DriverConfig::default(), Spread::striped(1));
        let made = make_ready(&cpu, &of_boot, vec![powered], spread, config).await;
        let (admins, ready) = made.expect("the drive is ready");
        opens.open(&cpu, ready);
        std::future::pending::<()>().await;
        drop(admins);
    });
    let mut queues = queues.into_iter();
    let bunches = (0..clients).map(|_| queues.by_ref().take(cores as usize).collect());
    Powered {
        bunches: bunches.collect(),
        machine,
        handle,
        gate,
    }
}

/// Runs a script for each client on a drive; gives the drive, and what they give.
pub fn run_on<T: Send + 'static, F: Future<Output = T> + 'static>(
    drive: Drive,
    space: &Arc<DmaSpace>,
    clients: u32,
    own: StorConfig,
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> (Drive, Vec<T>) {
    run_at_cost(CostTable::free(), drive, space, clients, own, script)
}

/// The same where what CPUs do costs time.
pub fn run_at_cost<T: Send + 'static, F: Future<Output = T> + 'static>(
    costs: CostTable,
    drive: Drive,
    space: &Arc<DmaSpace>,
    clients: u32,
    own: StorConfig,
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> (Drive, Vec<T>) {
    run_as((costs, Seed(1)), drive, space, clients, own, script)
}

/// The same, where events at the same time come in the order of this seed.
pub fn run_as<T: Send + 'static, F: Future<Output = T> + 'static>(
    (costs, order): (CostTable, Seed),
    drive: Drive,
    space: &Arc<DmaSpace>,
    clients: u32,
    own: StorConfig,
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> (Drive, Vec<T>) {
    let mut powered = power_on(drive, space, clients, &PowerSwitch::on(), costs);
    let script = Arc::new(script);
    let results: Arc<Mutex<Vec<Option<T>>>> = Arc::default();
    results
        .lock()
        .expect("no holder panics")
        .resize_with(clients as usize, || None);
    for (index, queues) in (0..).zip(std::mem::take(&mut powered.bunches)) {
        let machine = &mut powered.machine;
        let client = machine.add_cpu(&format!("client {index}"), Side::Host, 1.0);
        let (gate, space, own) = (powered.gate.clone(), space.clone(), own.clone());
        let (script, ended) = (script.clone(), results.clone());
        machine.spawn_main(client, "client", move |cpu| async move {
            let client = open_client(&cpu, &gate, &space, (index, queues), &own).await;
            let value = script(OneClient { cpu, client, index }).await;
            ended.lock().expect("no holder panics")[index as usize] = Some(value);
        });
    }
    powered.machine.run_virtual(order).expect("it ends");
    let drive = powered.handle.power_off();
    let values = std::mem::take(&mut *results.lock().expect("no holder panics"));
    let values = values.into_iter();
    let values = values.map(|value| value.expect("the script has ended"));
    (drive, values.collect())
}

/// Runs a script for each client until the drive's power goes, `after_ns` after `begun` is set.
pub fn run_until_cut<F: Future<Output = ()> + 'static>(
    drive: Drive,
    space: &Arc<DmaSpace>,
    clients: u32,
    own: StorConfig,
    (begun, after_ns): (Arc<AtomicBool>, u64),
    script: impl Fn(OneClient) -> F + Send + Sync + 'static,
) -> Drive {
    /// How often the switch looks.
    const LOOK_NS: u64 = 20_000;
    let power = PowerSwitch::on();
    let mut powered = power_on(drive, space, clients, &power, CostTable::free());
    let script = Arc::new(script);
    let machine = &mut powered.machine;
    for (index, queues) in (0..).zip(std::mem::take(&mut powered.bunches)) {
        let client = machine.add_cpu(&format!("client {index}"), Side::Host, 1.0);
        let (gate, space, own) = (powered.gate.clone(), space.clone(), own.clone());
        let script = script.clone();
        machine.spawn(client, "client", move |cpu| async move {
            let client = open_client(&cpu, &gate, &space, (index, queues), &own).await;
            script(OneClient { cpu, client, index }).await;
        });
    }
    let hand = machine.add_cpu("hand at the switch", Side::Host, 1.0);
    machine.spawn_main(hand, "switch", move |cpu| async move {
        while !begun.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + LOOK_NS).await;
        }
        cpu.sleep_until(cpu.now() + after_ns).await;
        power.cut();
    });
    powered.machine.run_virtual(Seed(1)).expect("it ends");
    powered.handle.power_off()
}

async fn open_client(
    cpu: &Cpu,
    gate: &Gate<Ready>,
    space: &Arc<DmaSpace>,
    (index, queues): (u32, Vec<HostQueue>),
    own: &StorConfig,
) -> StorClient {
    let ready = gate.pass(cpu, index).await;
    let config = DriverConfig::default();
    let bunch = ready.open_bunch(cpu, space, 0, queues, config);
    StorClient::new(cpu, space, bunch.expect("memory"), own).expect("memory")
}
