//! Owners and their models: what a random run is, and what it checks.

use std::sync::{Arc, Mutex};

use wharf_host::design::{Reclaim, Replacement};
use wharf_host::dflush::Balance;
use wharf_host::driver::DriverConfig;
use wharf_host::kernel::{PageCache, WriteBack};
use wharf_host::scale::Variant;
use wharf_host::{
    Client, Clock, Design, DesignConfig, Direct, Extent, Hardware, IoError, KernelConfig, Layout,
    Level, Scala, Scale, ScaleConfig, Tri, TriConfig, WritePolicy,
};
use wharf_runtime::{Cpu, Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::{Fate, MockStore};

use crate::common::{Rig, Shape, check_redundancy};

pub(crate) const PAGE: u64 = 4096;

/// Pages of the shared area, at the start of the volume.
pub(crate) const SHARED_PAGES: u64 = 12;

/// Tries after which a request that keeps failing counts as stuck. Several hundred happen: where a
/// cache of a frame or two serves thirty tasks, each timeout fails all that wait, and a request of 16
/// pages starts again from its first.
pub(crate) const TRIES_MAX: u32 = 3_000;

/// Pages of each owner's area.
pub(crate) const OWN_PAGES: u64 = 16;

/// What a case tells the designs that it concerns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    managers: u32,
    replacement: Replacement,
    index_reclaim: Reclaim,
    balance: Balance,
    share_pages: u32,
}

/// A design that cases can be told to.
pub(crate) trait Told: Design {
    /// What concerns it of `own`.
    fn told(own: &Own) -> Self::Config;
}

macro_rules! told_nothing {
    ($($design:ty),*) => {$(
        impl Told for $design {
            fn told(_: &Own) -> Self::Config {
                Default::default()
            }
        }
    )*};
}

told_nothing!(Direct, Clock, Scala, Hardware);

impl Told for Tri {
    fn told(own: &Own) -> TriConfig {
        TriConfig {
            managers: own.managers,
            ..TriConfig::default()
        }
    }
}

impl<W: WriteBack> Told for PageCache<W> {
    fn told(own: &Own) -> KernelConfig {
        KernelConfig {
            dflush: own.balance,
            dflush_share_pages: own.share_pages,
        }
    }
}

impl<V: Variant> Told for Scale<V> {
    fn told(own: &Own) -> ScaleConfig {
        ScaleConfig {
            replacement: own.replacement,
            dflush: own.balance,
            dflush_share_pages: own.share_pages,
            index_reclaim: own.index_reclaim,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    pub(crate) tasks: u64,
    pub(crate) requests: u64,
    pub(crate) config: DesignConfig,
    pub(crate) own: Own,
}

impl Case {
    fn owners(&self) -> u64 {
        u64::from(self.shape.clients) * self.tasks
    }

    fn is_stamps(&self) -> bool {
        self.shape.page_bytes == 8
    }
}

/// What one owner knows.
pub(crate) struct Owner {
    case: Case,
    number: u64,
    rng: Rng,
    /// Contents of the shared area as far as they are this owner's; zeros elsewhere.
    shared: Vec<u8>,
    own: Vec<u8>,
    /// Of its bytes, those that were discarded and not written since: they hold anything.
    forgotten: Vec<bool>,
    drives: Drives,
}

/// What the drives hold, to look at.
pub(crate) type Drives = (Layout, Vec<Arc<MockStore>>);

pub(crate) fn page_on_drive((layout, stores): &Drives, page: u64, stored: usize) -> Vec<u8> {
    let (drive, lba) = layout.locate(page);
    stores[drive].page(lba).unwrap_or(vec![0; stored])
}

/// All bytes as stored, after the run; `None` for those that hold anything.
pub(crate) type Model = Arc<Mutex<Vec<Option<u8>>>>;

impl Owner {
    pub(crate) fn new(case: Case, number: u64, drives: Drives) -> Owner {
        let stored = case.shape.page_bytes as u64;
        Owner {
            case,
            number,
            rng: Seed(case.seed).child("owner").index(number).rng(),
            shared: vec![0; (SHARED_PAGES * stored) as usize],
            own: vec![0; (OWN_PAGES * stored) as usize],
            forgotten: vec![false; (OWN_PAGES * stored) as usize],
            drives,
        }
    }

    fn own_start(&self) -> u64 {
        (SHARED_PAGES + self.number * OWN_PAGES) * PAGE
    }

    fn random_extent(&mut self, area_pages: u64) -> Extent {
        let area = area_pages * PAGE;
        let longest = [600, PAGE, 3 * PAGE, area][self.rng.below(4) as usize];
        let mut bytes = 1 + self.rng.below(longest);
        let mut offset = self.rng.below(area - bytes + 1);
        if self.rng.chance(1, 3) {
            offset = offset / PAGE * PAGE;
            bytes = (bytes.div_ceil(PAGE) * PAGE).min(area - offset);
        }
        Extent::new(offset, bytes)
    }

    /// Where an extent of an area is in the model of the area.
    fn in_model(&self, extent: Extent) -> std::ops::Range<usize> {
        if self.case.is_stamps() {
            let first = extent.first_page() as usize * 8;
            return first..first + extent.pages() as usize * 8;
        }
        extent.offset as usize..(extent.offset + extent.bytes) as usize
    }

    /// A write to the shared area that touches only what is this owner's.
    fn shared_write(&mut self) -> Extent {
        let owners = self.case.owners();
        if self.case.is_stamps() {
            let page = self.rng.below(SHARED_PAGES) / owners * owners + self.number;
            let page = if page < SHARED_PAGES {
                page
            } else {
                self.number % SHARED_PAGES
            };
            let from = self.rng.below(PAGE);
            return Extent::new(page * PAGE + from, 1 + self.rng.below(PAGE - from));
        }
        let slice = PAGE / owners;
        let from = self.rng.below(slice);
        let page = self.rng.below(SHARED_PAGES);
        let bytes = 1 + self.rng.below(slice - from);
        Extent::new(page * PAGE + self.number * slice + from, bytes)
    }

    /// Whether byte `at` of the shared area as stored is this owner's.
    fn owns(&self, at: usize) -> bool {
        let owners = self.case.owners();
        if self.case.is_stamps() {
            (at as u64 / 8) % owners == self.number
        } else {
            (at as u64 % PAGE) / (PAGE / owners) == self.number
        }
    }

    pub(crate) async fn step<C: Client>(&mut self, cpu: &Cpu, client: &C) {
        match self.rng.below(100) {
            0..40 => {
                let extent = self.random_extent(OWN_PAGES);
                let range = self.in_model(extent);
                self.own[range.clone()].fill_with(|| self.rng.next_u32() as u8);
                self.forgotten[range.clone()].fill(false);
                let at = Extent::new(self.own_start() + extent.offset, extent.bytes);
                write(cpu, client, at, &self.own[range]).await;
            }
            40..70 => {
                let extent = self.random_extent(OWN_PAGES);
                let range = self.in_model(extent);
                let at = Extent::new(self.own_start() + extent.offset, extent.bytes);
                let found = read(cpu, client, at, range.len()).await;
                assert!(
                    self.is_own(range, &found),
                    "{:?}: owner {} read {extent:?}",
                    self.case,
                    self.number
                );
            }
            70..82 if !self.case.is_stamps() || self.number < SHARED_PAGES => {
                let extent = self.shared_write();
                let range = self.in_model(extent);
                self.shared[range.clone()].fill_with(|| self.rng.next_u32() as u8);
                write(cpu, client, extent, &self.shared[range]).await;
            }
            82..93 => {
                let extent = self.random_extent(SHARED_PAGES);
                let range = self.in_model(extent);
                let found = read(cpu, client, extent, range.len()).await;
                for (at, byte) in range.zip(found) {
                    if self.owns(at) {
                        let case = self.case;
                        assert!(
                            byte == self.shared[at],
                            "{case:?}: owner {} shared byte {at}",
                            self.number
                        );
                    }
                }
            }
            93..96 => {
                let extent = self.random_extent(OWN_PAGES);
                let at = Extent::new(self.own_start() + extent.offset, extent.bytes);
                discard(cpu, client, at).await;
                let range = self.in_model(extent.whole_pages());
                self.forgotten[range].fill(true);
            }
            96..98 => {
                let own = Extent::new(self.own_start(), OWN_PAGES * PAGE);
                flush_extent(cpu, client, own).await;
                self.check_flushed();
            }
            _ => {
                flush(cpu, client).await;
                self.check_flushed();
            }
        }
    }

    /// Whether `found` may be what a range of its own area holds.
    fn is_own(&self, range: std::ops::Range<usize>, found: &[u8]) -> bool {
        let mut own = self.own[range.clone()]
            .iter()
            .zip(&self.forgotten[range])
            .zip(found);
        own.all(|((own, forgotten), found)| *forgotten || own == found)
    }

    /// What this owner has written is on the drives, whoever wrote it back.
    fn check_flushed(&self) {
        let stored = self.case.shape.page_bytes;
        let first = self.own_start() / PAGE;
        for (page, at) in (first..).zip((0..self.own.len()).step_by(stored)) {
            let found = page_on_drive(&self.drives, page, stored);
            let case = self.case;
            assert!(
                self.is_own(at..at + stored, &found),
                "{case:?}: page {page} on the drive after a flush"
            );
        }
    }

    fn leave(&self, model: &Model) {
        let mut all = model.lock().unwrap();
        let stored = self.case.shape.page_bytes as u64;
        let start = ((SHARED_PAGES + self.number * OWN_PAGES) * stored) as usize;
        for (at, (byte, forgotten)) in (start..).zip(self.own.iter().zip(&self.forgotten)) {
            all[at] = (!forgotten).then_some(*byte);
        }
        for at in 0..self.shared.len() {
            if self.owns(at) {
                all[at] = Some(self.shared[at]);
            }
        }
    }
}

/// Pages that are stuck, and drives that are slow, come back in time.
pub(crate) async fn patience(cpu: &Cpu, tries: u32, error: IoError) {
    assert!(tries < TRIES_MAX, "the drive comes back: {error}");
    cpu.progress();
    cpu.sleep_until(cpu.now() + 100_000).await;
}

pub(crate) async fn write<C: Client>(cpu: &Cpu, client: &C, extent: Extent, data: &[u8]) {
    let mut tries = 0;
    while let Err(error) = client.write(extent, data).await {
        tries += 1;
        patience(cpu, tries, error).await;
    }
}

pub(crate) async fn read<C: Client>(
    cpu: &Cpu,
    client: &C,
    extent: Extent,
    bytes: usize,
) -> Vec<u8> {
    let mut out = vec![0xee; bytes];
    let mut tries = 0;
    while let Err(error) = client.read(extent, &mut out).await {
        tries += 1;
        patience(cpu, tries, error).await;
    }
    out
}

pub(crate) async fn flush<C: Client>(cpu: &Cpu, client: &C) {
    let mut tries = 0;
    while let Err(error) = client.flush().await {
        tries += 1;
        patience(cpu, tries, error).await;
    }
}

async fn flush_extent<C: Client>(cpu: &Cpu, client: &C, extent: Extent) {
    let mut tries = 0;
    while let Err(error) = client.flush_extent(extent).await {
        tries += 1;
        patience(cpu, tries, error).await;
    }
}

async fn discard<C: Client>(cpu: &Cpu, client: &C, extent: Extent) {
    let mut tries = 0;
    while let Err(error) = client.discard(extent).await {
        tries += 1;
        patience(cpu, tries, error).await;
    }
}

pub(crate) fn random_case(seed: u64) -> (Case, Rng) {
    let mut rng = Seed(seed).child("case").rng();
    let clients = 1 + rng.below(4) as u32;
    let tasks = 1 + rng.below(8);
    let drives = 1 + rng.below(3) as u32;
    let stripe_pages = [1, 2, 16][rng.below(3) as usize];
    let pages = SHARED_PAGES + u64::from(clients) * tasks * OWN_PAGES;
    let shape = Shape {
        page_bytes: [4096, 8][rng.below(2) as usize],
        drives,
        drive_pages: (pages.div_ceil(u64::from(drives)) + 1).next_multiple_of(stripe_pages)
            + stripe_pages,
        stripe_pages,
        level: Level::Raid0,
        clients,
        depth: [2, 8, 64][rng.below(3) as usize],
        driver: DriverConfig {
            max_transfer_pages: [1, 4, 256][rng.below(3) as usize],
            ..DriverConfig::default()
        },
        pins: false,
    };
    let config = DesignConfig {
        cache_bytes: PAGE * [1, 2, 7, 30, 200, 2_000][rng.below(6) as usize],
        write_policy: [WritePolicy::Back, WritePolicy::Through][rng.below(2) as usize],
        transfer_pages: [3, 64, 4096][rng.below(3) as usize],
        files: [1, 1, 3, 40][Seed(seed).child("files").rng().below(4) as usize],
        ..DesignConfig::default()
    };
    let own = Own {
        managers: 1 + rng.below(3) as u32,
        replacement: Replacement::ALL[(seed % 10) as usize].1,
        index_reclaim: [Reclaim::Eager, Reclaim::Lazy][(seed / 2 % 2) as usize],
        balance: [Balance::Flush, Balance::SleepThenFlush][(seed / 4 % 2) as usize],
        share_pages: [64, 1, 5][(seed % 3) as usize],
    };
    let case = Case {
        seed,
        shape,
        tasks,
        requests: 60,
        config,
        own,
    };
    (case, rng)
}

/// The same case on drives with redundancy.
pub(crate) fn redundant(mut case: Case, rng: &mut Rng) -> Case {
    let shape = &mut case.shape;
    (shape.level, shape.drives) = match rng.below(3) {
        0 => (Level::Raid10, 2 * (1 + rng.below(3) as u32)),
        _ => (Level::Raid5, 3 + rng.below(4) as u32),
    };
    let columns = shape.level.columns(shape.drives).unwrap();
    let pages = SHARED_PAGES + case.owners() * OWN_PAGES;
    let shape = &mut case.shape;
    shape.drive_pages = pages.div_ceil(columns.into()) + 2 * shape.stripe_pages;
    case
}

/// Runs a case; `after` sees the design when all is done.
pub(crate) fn run<D: Told, F>(
    case: Case,
    fate: impl FnMut(u32) -> F,
    after: impl Fn(&D, &Cpu) + Send + Copy + 'static,
) where
    F: FnMut(u64, &Command) -> Fate + Send + 'static,
{
    let config = DesignConfig {
        drives: case.shape.drives,
        ..case.config
    };
    let own = D::told(&case.own);
    let services = D::needs(&config, &own).services;
    let mut rig = Rig::with_services(case.shape, services, fate);
    let design: Arc<D> = rig.design_told(case.config, &own);
    rig.spawn_services(&design);
    let stored = case.shape.page_bytes as u64;
    let pages = SHARED_PAGES + case.owners() * OWN_PAGES;
    let model: Model = Arc::new(Mutex::new(vec![Some(0); (pages * stored) as usize]));
    let done = Arc::new(Mutex::new(0u64));
    let doubtful = Arc::new(Mutex::new(Vec::new()));
    let drives = (rig.layout(), rig.stores.clone());
    for index in 0..case.shape.clients {
        let (model, done, design_too) = (model.clone(), done.clone(), design.clone());
        let drives = drives.clone();
        let (parity, doubtful) = (rig.parity.clone(), doubtful.clone());
        rig.spawn_client(index, &design, move |cpu, client| async move {
            for task in 0..case.tasks {
                let (cpu_too, client, model, done) =
                    (cpu.clone(), client.clone(), model.clone(), done.clone());
                let design = design_too.clone();
                let drives = drives.clone();
                let (parity, doubtful) = (parity.clone(), doubtful.clone());
                cpu.spawn_main("owner", async move {
                    let mut owner = Owner::new(case, u64::from(index) * case.tasks + task, drives);
                    for _ in 0..case.requests {
                        owner.step(&cpu_too, &*client).await;
                        cpu_too.progress();
                        cpu_too.yield_now().await;
                    }
                    owner.leave(&model);
                    let last = {
                        let mut done = done.lock().unwrap();
                        *done += 1;
                        *done == case.owners()
                    };
                    if last {
                        flush(&cpu_too, &*client).await;
                        after(&design, &cpu_too);
                        *doubtful.lock().unwrap() = parity.doubtful(&cpu_too);
                    }
                });
            }
        });
    }
    if let Err(stall) = rig.machine.run_virtual(Seed(case.seed)) {
        panic!("{case:?}: {stall}");
    }
    // Of a write that failed and was then discarded nothing is left that would be written again.
    if case.shape.level != Level::Raid10 || case.shape.driver.timeout_ns == u64::MAX {
        check_redundancy(&drives.0, &drives.1, &doubtful.lock().unwrap());
    }
    let model = model.lock().unwrap();
    for (page, bytes) in model.chunks(stored as usize).enumerate() {
        let found = page_on_drive(&drives, page as u64, stored as usize);
        let mut both = bytes.iter().zip(&found);
        assert!(
            both.all(|(byte, found)| byte.is_none_or(|byte| byte == *found)),
            "{case:?}: page {page} on the drive after the last flush"
        );
    }
}
