//! The drive between its runs: power on, run a script, power off, look inside.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use wharf_drive::config::Striping;
use wharf_drive::config::{DriveConfig, MediaKind, NewFiles};
use wharf_drive::controller::Feature;
use wharf_drive::ftl::{Ftl, Place, Precondition};
use wharf_drive::media::rot::Rot;
use wharf_drive::media::{AnyMedia, Media};
use wharf_drive::{Drive, PowerSwitch};
use wharf_runtime::{CostTable, Machine, Seed, Side};
use wharf_wire::dma::DmaSpace;
use wharf_wire::memory::SharedMemory;
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

use super::host::{DATA_PAGES, Host, WHOLE_PAGES, queue_address, whole_value};
use super::model::HELD_ZEROS;
use super::player::Shared;

/// Polls without a completion after which a run counts as stuck.
const IDLE_POLLS_MAX: u64 = 3_000_000;

/// Entries of an I/O queue unless a test says otherwise: few, so that rings wrap.
pub const QUEUE_DEPTH: u32 = 6;

/// What one client does.
pub type Script = Box<dyn FnOnce(Host) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A drive, and how it is run.
pub struct Rig {
    config: DriveConfig,
    drive: Option<Drive>,
    /// Breaks ties between events.
    pub seed: Seed,
    /// What operations cost.
    pub costs: CostTable,
    /// Entries of the I/O queues.
    pub depth: u32,
    /// I/O queue pairs that each client gets.
    pub queues_per_client: u16,
    /// Queue pairs that are offered but not created.
    pub spare_queues: u16,
    /// Whether all clients but the first are guests, from number 0 on.
    pub has_guests: bool,
    /// Whole pages of each host.
    pub whole_pages: usize,
    /// Virtual time at which the latest run ended, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Rig {
    /// A new drive.
    pub fn new(config: DriveConfig) -> Rig {
        let drive = Drive::new(config.clone()).unwrap_or_else(|error| panic!("{error}"));
        Rig {
            config,
            drive: Some(drive),
            seed: Seed(1),
            costs: CostTable::free(),
            depth: QUEUE_DEPTH,
            queues_per_client: 1,
            spare_queues: 0,
            has_guests: false,
            whole_pages: WHOLE_PAGES,
            elapsed_ns: 0,
        }
    }

    /// Has the drive have one more feature, until it is opened anew.
    pub fn give_feature(&mut self, feature: &'static dyn Feature) {
        let drive = self.drive.take().expect("the drive is off");
        self.drive = Some(drive.with_feature(feature));
    }

    /// Has the drive make a file system in its next run.
    pub fn make_files(&mut self, new: NewFiles) {
        let drive = self.drive.take().expect("the drive is off");
        self.drive = Some(drive.with_new_files(new));
    }

    /// The drive, which is off.
    pub fn drive(&self) -> Option<&Drive> {
        self.drive.as_ref()
    }

    /// The drive's configuration.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// Brings the flash into the state of long use.
    pub fn precondition(&mut self, options: &Precondition) {
        let drive = self.drive.take().expect("the drive is off");
        let prepared = drive.precondition(options);
        self.drive = Some(prepared.unwrap_or_else(|error| panic!("{error}")).0);
    }

    /// Powers the drive on, runs one client to its end, and powers it off.
    pub fn run<T, F>(&mut self, script: impl FnOnce(Host) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let boxed: Script = Box::new(move |host| {
            let future = script(host);
            Box::pin(async move {
                let value = future.await;
                *slot.lock().expect("no holder panics") = Some(value);
            })
        });
        self.run_clients(&PowerSwitch::on(), vec![boxed]);
        let value = result.lock().expect("no holder panics").take();
        value.expect("the script has ended")
    }

    /// Powers the drive on, runs clients until all have ended or the power is cut, and powers it
    /// off. Gives the completions' end time.
    pub fn run_clients(&mut self, power: &PowerSwitch, scripts: Vec<Script>) {
        let dma = DmaSpace::new(self.config.page_bytes());
        let mut machine = Machine::new(self.costs.clone(), false);
        let drive = self.drive.take().expect("the drive is off");
        let mut handle = drive
            .power_on(&mut machine, "drive", &dma, power)
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut admin, ready) = (
            Some(take_admin(&mut handle)),
            Arc::new(AtomicBool::new(false)),
        );
        let (clients, each, depth) = (scripts.len() as u16, self.queues_per_client, self.depth);
        for (client, script) in (0u16..).zip(scripts) {
            let guest = (self.has_guests && client > 0).then(|| u32::from(client) - 1);
            let own_dma = guest.map_or_else(
                || dma.clone(),
                |guest| space_of(&dma, guest, self.whole_pages),
            );
            let mut host_ends = Vec::new();
            let spares = if client == 0 { self.spare_queues } else { 0 };
            let own = (1..=each).map(|i| client * each + i);
            for qid in own.chain((1..=spares).map(|i| clients * each + i)) {
                let (host_end, drive_end) = handle.new_queue(qid, depth);
                let drive_end = match guest {
                    Some(number) => drive_end.with_guest(Guest {
                        number,
                        frames_max: 0,
                    }),
                    None => drive_end,
                };
                dma.offer(queue_address(qid), drive_end);
                host_ends.push(host_end);
            }
            let cpu = machine.add_cpu("client", Side::Host, 1.0);
            let whole_pages = self.whole_pages;
            let (dma, ready, admin) = (own_dma, ready.clone(), admin.take());
            machine.spawn_main(cpu, "client", move |cpu| async move {
                let mut host = Host {
                    cpu,
                    data: dma.register(DATA_PAGES).expect("host memory"),
                    whole: dma.register_whole(whole_pages).expect("host memory"),
                    dma,
                    admin,
                    queues: host_ends,
                    next_cid: 0,
                };
                boot(&mut host, clients * each, depth, &ready).await;
                script(host).await;
            });
        }
        let summary = machine.run_virtual_bounded(self.seed, IDLE_POLLS_MAX);
        self.elapsed_ns = summary.unwrap_or_else(|stall| panic!("{stall}")).elapsed_ns;
        self.drive = Some(handle.power_off());
    }

    /// Opens the flash of each core as the firmware does at power-on, checks its whole structure,
    /// and lets `look` have it.
    pub fn inspect(&mut self, mut look: impl FnMut(u32, &mut Ftl)) {
        let drive = self.drive.take().expect("the drive is off");
        let persistent = drive.persistent().cloned();
        let kept = drive.kept().clone();
        let media = drive.into_media();
        let plan = self.config.plan().expect("it was built");
        let open = |(core, media): (u32, AnyMedia)| {
            let mut ftl = Ftl::open(&self.config, plan.clone(), media, PowerSwitch::on())
                .unwrap_or_else(|error| panic!("{error}"));
            ftl.verify();
            look(core, &mut ftl);
            ftl.into_media()
        };
        let media = (0..).zip(media).map(open).collect();
        let drive = Drive::with_media(self.config.clone(), media).expect("it was built");
        self.drive = Some(drive.with_persistent(persistent).with_kept(kept));
    }

    /// Reads every page of the namespace below the firmware. One that is allocated and zeros is [`HELD_ZEROS`].
    pub fn contents(&mut self) -> Vec<Result<u64, String>> {
        if let Some(platters) = self.drive.as_ref().and_then(Drive::platters) {
            let mut buffer = vec![0; self.config.page_bytes()];
            let mut read = |sector| match platters.read(sector, &mut buffer) {
                Ok(()) => whole_value(&buffer),
                Err(error) => Err(error.to_string()),
            };
            return (0..self.config.namespace_pages() as u32)
                .map(&mut read)
                .collect();
        }
        let striping = self.striping();
        let mut pages: Vec<_> = (0..self.config.namespace_pages()).map(|_| Ok(0)).collect();
        let mut buffer = vec![0; self.config.page_bytes()];
        self.inspect(|core, ftl| {
            for (lba, page) in (0u64..).zip(&mut pages) {
                let (owner, local) = striping.locate(lba);
                if owner == core {
                    *page = match ftl.read(0, local, &mut buffer) {
                        Ok(_) => match (whole_value(&buffer), ftl.place(local).is_mapped()) {
                            (Ok(0), true) => Ok(HELD_ZEROS),
                            (Ok(value), false) if value != 0 => {
                                Err(format!("{value:#x} on a page that is not allocated"))
                            }
                            (value, _) => value,
                        },
                        Err(error) => Err(error.to_string()),
                    };
                }
            }
        });
        pages
    }

    /// Makes the page that holds `lba` rot.
    pub fn rot(&mut self, lba: u64) {
        let (owner, local) = self.striping().locate(lba);
        self.inspect(|core, ftl| {
            if core == owner {
                let Place::Flash(ppn) = ftl.place(local) else {
                    panic!("page {lba} is not on flash");
                };
                ftl.media_mut()
                    .corrupt(ppn, 77)
                    .expect("the damage is done");
            }
        });
    }

    /// Erases of each block of each core.
    pub fn erase_counts(&mut self) -> Vec<u32> {
        let mut counts = Vec::new();
        self.inspect(|_, ftl| {
            let blocks = ftl.plan().blocks;
            let media = ftl.media_mut();
            counts.extend((0..blocks).map(|block| media.erase_count(block)));
        });
        counts
    }

    /// Pages of flash that are not erased, over all cores.
    pub fn written_pages(&mut self) -> u32 {
        let mut written = 0;
        self.inspect(|_, ftl| {
            let blocks = ftl.plan().blocks;
            let media = ftl.media_mut();
            written += (0..blocks)
                .map(|block| media.written_pages(block))
                .sum::<u32>();
        });
        written
    }

    /// Ends the process's hold on the drive and opens it anew: the image of file media is read
    /// again. Other media stay as they are.
    pub fn reopen(&mut self) {
        if self.config.media.kind == MediaKind::File {
            self.drive = None;
            self.drive =
                Some(Drive::new(self.config.clone()).unwrap_or_else(|error| panic!("{error}")));
        }
    }

    fn striping(&self) -> Striping {
        Striping {
            stripe_pages: self.config.firmware.stripe_pages,
            cores: self.config.firmware.cores,
        }
    }
}

/// Every page holds what it may hold; from now on that is known.
pub fn compare(rig: &mut Rig, world: &Shared) {
    let cached = rig.config().volatile_write_cache();
    let is_disk = rig.config().disk.is_some();
    let mut world = world.lock().expect("no holder panics");
    for (lba, found) in (0u64..).zip(rig.contents()) {
        let value = found.unwrap_or_else(|error| panic!("page {lba}: {error}"));
        let mut checked = world.model.may_survive(lba, value);
        if (is_disk || !world.to_lend.is_empty()) && checked.is_err() {
            // A frame of zeros that was marked as written is written back: that page is allocated. A disk does not
            // tell pages of zeros from others.
            let other = match value {
                0 => HELD_ZEROS,
                HELD_ZEROS => 0,
                value => value,
            };
            checked = world.model.may_survive(lba, other);
        }
        checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        world.model.set_known(lba, value);
    }
    world.model.powered_on(cached);
    world.lending = None;
    world.playing = 0;
}

fn take_admin(handle: &mut wharf_drive::DriveHandle) -> wharf_wire::queue::HostQueue {
    let (placeholder, _) = wharf_wire::queue::queue_pair(2, &wharf_runtime::Notifier::new(), 0);
    std::mem::replace(&mut handle.admin, placeholder)
}

/// The first client creates all queues; the others wait for it.
/// The memory of a guest of a space.
fn space_of(dma: &DmaSpace, guest: u32, whole_pages: usize) -> Arc<DmaSpace> {
    let pages = DATA_PAGES + whole_pages;
    let memory = SharedMemory::create(pages * 4096).expect("memory to share");
    let memory = Arc::new(memory);
    dma.admit(guest, &memory, 0, pages);
    DmaSpace::within(&memory, 0, pages)
}

async fn boot(host: &mut Host, queues: u16, depth: u32, ready: &AtomicBool) {
    if host.admin.is_some() {
        for qid in 1..=queues {
            let status = host.create_queue(qid, depth).await;
            assert_eq!(status, StatusCode::Success, "queue {qid}");
        }
        ready.store(true, Ordering::Relaxed);
    }
    while !ready.load(Ordering::Relaxed) {
        let cpu = host.cpu.clone();
        cpu.sleep_until(cpu.now() + 50).await;
    }
}
