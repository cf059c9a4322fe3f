//! How long a flash cache takes to serve, and to be known whole, after a cut: modelled drives, in
//! virtual time.
//!
//! `cargo run --release -p wharf-lab --example recovery -- 16` does it for 16 GiB of cached data on
//! a drive of preset `tc-csd` before a disk of preset `hdd`, cached in several ways. The drives'
//! own start is left out: the machine begins with drives that are ready for commands.
//!
//! For each way:
//!
//! 1. the cache is made, a sector written and flushed, and power goes;
//! 2. the drive of the cache is given what else is cached, in no time, a quarter of it dirty;
//! 3. the cache is opened, a sector is read that is cached at the highest address, and then others
//!    at random, one in every millisecond, until everything is known.

use std::error::Error;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_drive::power::PowerSwitch;
use wharf_drive::{Drive, DriveConfig, DriveHandle};
use wharf_host::admin::offer_queues;
use wharf_host::backing::Names;
use wharf_host::boot::{PoweredOn, Ready, Spread, make_ready};
use wharf_host::design::{Devices, Principal};
use wharf_host::driver::DriverConfig;
use wharf_host::gate::Gate;
use wharf_host::indexless::{
    AddressPlan, BackingDrives, Indexless, IndexlessClient, IndexlessConfig, SecondChance, Start,
};
use wharf_host::{Client, DesignConfig, Extent, Parts, Role};
use wharf_lab::config::{Sets, load_costs, load_drive};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::queue::HostQueue;

type Cache = Indexless<SecondChance>;

/// First sector and end of each run, in ascending order.
type Runs = Vec<(u64, u64)>;

const PAGE: u64 = 4096;

const GIB_SECTORS: u64 = (1 << 30) / PAGE;

const NAMES: Names = Names {
    disk_id: [1; 16],
    cache_id: [2; 16],
};

/// A way in which sectors are cached.
struct Way {
    name: &'static str,
    /// Sectors that lie together, and of how many sectors one is cached in the mean.
    run: u64,
    one_of: u64,
}

const WAYS: [Way; 4] = [
    Way {
        name: "runs of 64 MiB",
        run: 16_384,
        one_of: 2,
    },
    Way {
        name: "runs of 256 KiB, 1 of 8",
        run: 64,
        one_of: 8,
    },
    Way {
        name: "runs of 32 KiB, 1 of 8",
        run: 8,
        one_of: 8,
    },
    Way {
        name: "single sectors, 1 of 8",
        run: 1,
        one_of: 8,
    },
];

impl Way {
    /// Runs of `sectors` sectors in all.
    fn runs(&self, sectors: u64) -> Runs {
        let (mut rng, mut at) = (Seed(1).child(self.name).rng(), 0);
        let mean_gap = self.run * (self.one_of - 1);
        let run = |_| {
            let first = at + 1 + rng.below(2 * mean_gap - 1);
            at = first + self.run;
            (first, at)
        };
        (0..sectors / self.run).map(run).collect()
    }
}

/// What there is to start a machine with.
struct Drives {
    cache: Drive,
    disk: Drive,
}

/// What opening took, from when the drives are ready.
#[derive(Debug)]
struct Took {
    open_ns: u64,
    first_ns: u64,
    first_hits: u64,
    known_ns: u64,
    longest_ns: u64,
    cached: u64,
}

/// Drives that have power.
#[derive(Default)]
struct Powered {
    handles: Vec<DriveHandle>,
    boots: Vec<(Role, PoweredOn)>,
    /// Of the client, and of the keeper.
    queues: [Vec<HostQueue>; 2],
}

impl Powered {
    fn add(
        &mut self,
        (role, drive): (Role, Drive),
        machine: &mut Machine,
        space: &Arc<DmaSpace>,
    ) -> Result<(), Box<dyn Error>> {
        let mut handle = drive.power_on(machine, role.name(), space, &PowerSwitch::on())?;
        let spare = handle.new_queue(0, 2).0;
        let admin = std::mem::replace(&mut handle.admin, spare);
        let made = offer_queues(space, 2, 64, |qid, entries| handle.new_queue(qid, entries))?;
        let mut offers = Vec::new();
        for (queues, (queue, offer)) in self.queues.iter_mut().zip(made) {
            queues.push(queue);
            offers.push(offer);
        }
        let on = PoweredOn {
            admin,
            offers,
            later: 0,
            features: &[],
            hmb: None,
        };
        self.boots.push((role, on));
        self.handles.push(handle);
        Ok(())
    }
}

/// Makes drives ready, says so at the gate, and serves their admin queues.
async fn boot(
    cpu: Cpu,
    space: Arc<DmaSpace>,
    drives: Vec<(Role, PoweredOn)>,
    gate: Gate<Vec<(Role, Ready)>>,
) {
    let (mut admins, mut ready) = (Vec::new(), Vec::new());
    for (role, drive) in drives {
        let (config, spread) = (DriverConfig::default(), Spread::striped(1));
        let made = make_ready(&cpu, &space, vec![drive], spread, config).await;
        let (admin, of_role) = made.expect("drives that were just made");
        admins.push(admin);
        ready.push((role, of_role));
    }
    gate.open(&cpu, ready);
    std::future::pending::<()>().await;
    drop(admins);
}

/// Runs `script` on a cache of so many sectors that starts over `drives`; gives what is left of
/// these.
fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    drives: Drives,
    (start, limit, costs): (Start, u64, &CostTable),
    script: impl FnOnce(Cpu, Rc<IndexlessClient>, Arc<Cache>) -> F + Send + 'static,
) -> Result<(T, Drives), Box<dyn Error>> {
    let space = DmaSpace::new(PAGE as usize);
    let mut machine = Machine::new(costs.clone(), false);
    let mut powered = Powered::default();
    for drive in [(Role::Cache, drives.cache), (Role::Backing, drives.disk)] {
        powered.add(drive, &mut machine, &space)?;
    }
    let config = DesignConfig {
        cache_bytes: limit * PAGE,
        ..DesignConfig::default()
    };
    let (own, disks) = (IndexlessConfig::default(), BackingDrives::default());
    let cache = Arc::new(Cache::over(&config, &own, &space, start, disks)?);
    let gate = Gate::new(2);
    let boot_cpu = machine.add_cpu("boot", Side::Host, 1.0);
    let (drives, of_boot, opens) = (powered.boots, space.clone(), gate.clone());
    machine.spawn(boot_cpu, "boot", |cpu| boot(cpu, of_boot, drives, opens));
    let [of_client, of_keeper] = powered.queues;
    let keeper_cpu = machine.add_cpu("keeper", Side::Host, 1.0);
    let (keeper, keepers_gate, keepers_space) = (cache.clone(), gate.clone(), space.clone());
    machine.spawn(keeper_cpu, "keeper", move |cpu| async move {
        let ready = keepers_gate.pass(&cpu, 1).await;
        let parts = parts(&cpu, &keepers_space, (ready, of_keeper));
        keeper.start_keeper(parts).expect("memory");
    });
    let client_cpu = machine.add_cpu("client", Side::Host, 1.0);
    let value = Arc::new(Mutex::new(None));
    let result = value.clone();
    machine.spawn_main(client_cpu, "client", move |cpu| async move {
        let ready = gate.pass(&cpu, 0).await;
        let parts = parts(&cpu, &space, (ready, of_client));
        let client = Rc::new(cache.make_client(parts).expect("memory"));
        let ended = script(cpu.clone(), client, cache).await;
        *value.lock().expect("no holder panics") = Some(ended);
    });
    machine.run_virtual(Seed(1))?;
    let mut left = powered.handles.into_iter().map(DriveHandle::power_off);
    let (cache, disk) = (left.next().expect("two"), left.next().expect("two"));
    let value = result.lock().expect("no holder panics").take();
    Ok((value.expect("the script ended"), Drives { cache, disk }))
}

fn parts(
    cpu: &Cpu,
    space: &Arc<DmaSpace>,
    (ready, queues): (Vec<(Role, Ready)>, Vec<HostQueue>),
) -> Parts {
    let open = |((role, ready), queue): ((Role, Ready), HostQueue)| {
        let volume = ready.open_volume(cpu, space, vec![queue], DriverConfig::default());
        (role, volume.expect("memory"))
    };
    Parts {
        cpu: cpu.clone(),
        devices: Devices::new(ready.into_iter().zip(queues).map(open).collect()),
        index: 0,
        principal: Principal::OWNER,
    }
}

/// Sectors `first` on of the disk.
fn sector(first: u64) -> Extent {
    Extent::new(first * PAGE, PAGE)
}

/// A cache that was cut, with so many sectors cached in this way; and the runs.
fn cut(
    way: &Way,
    (cache, disk): (&DriveConfig, &DriveConfig),
    (sectors, costs): (u64, &CostTable),
) -> Result<(Drives, Runs), Box<dyn Error>> {
    let new = Drives {
        cache: Drive::new(cache.clone())?,
        disk: Drive::new(disk.clone())?,
    };
    let start = Start::Create { names: NAMES };
    let (disk_sectors, drives) = run(
        new,
        (start, sectors + GIB_SECTORS, costs),
        |_, client, _| async move {
            let sectors = client.opened().await.expect("new drives");
            let data = vec![1; PAGE as usize];
            client.write(sector(0), &data).await.expect("new drives");
            client.flush().await.expect("new drives");
            sectors
        },
    )?;
    let (plan, runs) = (AddressPlan::new(disk_sectors), way.runs(sectors));
    let copies = runs.iter().enumerate().map(|(number, (first, end))| {
        let to = match number % 4 {
            0 => plan.dirty(*first),
            _ => plan.clean(*first),
        };
        (to, to + end - first)
    });
    let mut copies: Runs = copies.collect();
    copies.sort_unstable();
    let Drives { cache, disk } = drives;
    let cache = cache.fill(&copies)?;
    Ok((Drives { cache, disk }, runs))
}

/// Opens it again.
async fn open_again(cpu: Cpu, client: Rc<IndexlessClient>, cache: Arc<Cache>, runs: Runs) -> Took {
    let begin_ns = cpu.now();
    client.opened().await.expect("it was this cache's");
    let open_ns = cpu.now() - begin_ns;
    let mut out = vec![0; PAGE as usize];
    let last = sector(runs[runs.len() - 1].0);
    client.read(last, &mut out).await.expect("it is there");
    let (first_ns, first_hits) = (cpu.now() - begin_ns, client.statistics().hits);
    let (mut rng, mut longest_ns) = (Seed(2).rng(), 0);
    while cache.status(&cpu).unlearned_max > 0 {
        let asked_ns = cpu.now();
        let any = sector(runs[rng.below(runs.len() as u64) as usize].0);
        client.read(any, &mut out).await.expect("it is there");
        longest_ns = longest_ns.max(cpu.now() - asked_ns);
        cpu.sleep_until(asked_ns + 1_000_000).await;
    }
    Took {
        open_ns,
        first_ns,
        first_hits,
        known_ns: cpu.now() - begin_ns,
        longest_ns,
        cached: cache.status(&cpu).cached,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let told = std::env::args().nth(1);
    let gib: u64 = told.map_or(Ok(1), |gib| gib.parse())?;
    // Pages of zeros, which take no memory: the superblock is read again.
    let sets = Sets::parse(&["drive.media.kind=ram".to_string()])?;
    let disk = load_drive("hdd", &sets)?.0;
    let mut cache = load_drive("tc-csd", &sets)?.0;
    // Twice the disk's addresses, and more: such drives show more than they have.
    cache.ftl.shown_bytes = 6 << 40;
    let costs = load_costs("default")?.0;
    let sectors = gib * GIB_SECTORS;
    println!("{gib} GiB cached, ms after the drives are ready; and the longest read meanwhile");
    for way in &WAYS {
        let (drives, runs) = cut(way, (&cache, &disk), (sectors, &costs))?;
        // A tenth more than it had: nothing has to leave meanwhile.
        let limit = (sectors + GIB_SECTORS) / 10 * 11;
        let start = Start::Open { names: Some(NAMES) };
        let script = |cpu, client, cache| open_again(cpu, client, cache, runs);
        let (took, _) = run(drives, (start, limit, &costs), script)?;
        assert_eq!(took.first_hits, 1, "the cache is warm: {took:?}");
        assert_eq!(took.cached, sectors / way.run * way.run + 1, "{took:?}");
        let ms = |ns: u64| ns as f64 / 1e6;
        println!(
            "{:24} open {:.3}, first hit {:.3}, whole {:.1} ({:.2} s a TiB), read <= {:.2}",
            way.name,
            ms(took.open_ns),
            ms(took.first_ns),
            ms(took.known_ns),
            took.known_ns as f64 / 1e9 * 1024.0 / gib as f64,
            ms(took.longest_ns)
        );
    }
    Ok(())
}
