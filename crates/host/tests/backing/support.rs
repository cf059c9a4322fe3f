//! Devices in memory that lose power, a store over two of them, and a flat model of what it must hold.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use wharf_codec::{Codec, Sizes, TableName};
use wharf_host::IoError;
use wharf_host::backing::{
    Backing, BackingError, ChunkConfig, ChunkStore, DiskZones, Names, Packer, Sectors,
};
use wharf_runtime::{CostTable, Cpu, Machine, Rng, Seed, Side};

pub const SECTOR: usize = 4096;

/// Counts what devices do, and cuts their power.
#[derive(Debug)]
pub struct Power {
    pub events: u64,
    pub cut_at: u64,
}

impl Power {
    pub fn on() -> Arc<Mutex<Power>> {
        Arc::new(Mutex::new(Power {
            events: 0,
            cut_at: u64::MAX,
        }))
    }
}

#[derive(Debug, Default)]
struct State {
    durable: BTreeMap<u64, Vec<u8>>,
    /// Written and not flushed, oldest first.
    pending: Vec<(u64, Vec<u8>)>,
    flush_lies: bool,
}

/// A device of sectors. Clones are the same.
#[derive(Debug, Clone)]
pub struct Device {
    sectors: u64,
    power: Arc<Mutex<Power>>,
    state: Arc<Mutex<State>>,
}

/// What becomes of unflushed writes when power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    All,
    None,
    Some,
}

impl Device {
    pub fn new(sectors: u64, power: &Arc<Mutex<Power>>) -> Device {
        Device {
            sectors,
            power: power.clone(),
            state: Arc::default(),
        }
    }

    /// Its flushes do nothing from now on: a planted fault.
    pub fn lie(&self) {
        self.state.lock().unwrap().flush_lies = true;
    }

    /// Power goes, and comes back.
    pub fn settle(&self, loss: Loss, rng: &mut Rng) {
        let mut state = self.state.lock().unwrap();
        for (sector, data) in std::mem::take(&mut state.pending) {
            let kept = match loss {
                Loss::All => false,
                Loss::None => true,
                Loss::Some => rng.chance(1, 2),
            };
            if kept {
                state.durable.insert(sector, data);
            }
        }
    }

    /// What is on it, as a device of its own.
    pub fn copy(&self, power: &Arc<Mutex<Power>>) -> Device {
        let state = self.state.lock().unwrap();
        assert!(state.pending.is_empty(), "it was settled");
        let copy = Device::new(self.sectors, power);
        copy.state.lock().unwrap().durable = state.durable.clone();
        copy
    }

    /// Changes a durable sector.
    pub fn damage(&self, sector: u64, change: impl FnOnce(&mut [u8])) {
        let mut state = self.state.lock().unwrap();
        change(
            state
                .durable
                .entry(sector)
                .or_insert_with(|| vec![0; SECTOR]),
        );
    }

    pub fn durable_sectors(&self) -> Vec<u64> {
        self.state.lock().unwrap().durable.keys().copied().collect()
    }

    pub fn sector(&self, sector: u64) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        state
            .durable
            .get(&sector)
            .cloned()
            .unwrap_or_else(|| vec![0; SECTOR])
    }

    fn event(&self) -> Result<(), IoError> {
        let mut power = self.power.lock().unwrap();
        if power.events >= power.cut_at {
            return Err(dead());
        }
        power.events += 1;
        Ok(())
    }
}

fn dead() -> IoError {
    IoError::Timeout {
        drive: 0,
        opcode: 0,
        admin: false,
        lba: 0,
    }
}

impl Sectors for Device {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        {
            let power = self.power.lock().unwrap();
            if power.events >= power.cut_at {
                return Err(dead());
            }
        }
        let state = self.state.lock().unwrap();
        for (at, sector) in (first..).zip(out.chunks_mut(SECTOR)) {
            assert!(at < self.sectors, "sector {at} of {}", self.sectors);
            let pending = state.pending.iter().rev().find(|(own, _)| *own == at);
            match pending.map(|(_, data)| data).or(state.durable.get(&at)) {
                Some(data) => sector.copy_from_slice(data),
                None => sector.fill(0),
            }
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        let alive = self.event();
        let mut state = self.state.lock().unwrap();
        for (at, sector) in (first..).zip(data.chunks(SECTOR)) {
            assert!(at < self.sectors && sector.len() == SECTOR);
            // The write that the cut came amid may be there, or a part of it.
            if alive.is_ok() || self.is_last_gasp() {
                state.pending.push((at, sector.to_vec()));
            }
        }
        drop(state);
        if alive.is_err() {
            self.power.lock().unwrap().events = u64::MAX;
        }
        alive
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.event()?;
        let mut state = self.state.lock().unwrap();
        if !state.flush_lies {
            for (sector, data) in std::mem::take(&mut state.pending) {
                state.durable.insert(sector, data);
            }
        }
        Ok(())
    }

    async fn forget(&self, _: u64, _: u64) -> Result<(), IoError> {
        Ok(())
    }
}

impl Device {
    /// The cut has just come: nothing was refused yet.
    fn is_last_gasp(&self) -> bool {
        let power = self.power.lock().unwrap();
        power.events == power.cut_at
    }
}

/// Runs a future on a CPU of a machine of its own.
pub fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    script: impl FnOnce(Cpu) -> F + Send + 'static,
) -> T {
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("client", Side::Host, 1.0);
    let result = Arc::new(Mutex::new(None));
    let slot = result.clone();
    machine.spawn_main(cpu, "client", move |cpu| async move {
        let value = script(cpu).await;
        *slot.lock().unwrap() = Some(value);
    });
    machine.run_virtual(Seed(1)).unwrap();
    let value = result.lock().unwrap().take();
    value.expect("the script has ended")
}

pub const NAMES: Names = Names {
    disk_id: [7; 16],
    cache_id: [9; 16],
};

/// A small store: zones of 256 KiB, chunks of 4 pages.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub zones: u64,
    pub zone_sectors: u32,
    pub pages: u64,
    pub stamps: bool,
    pub config: ChunkConfig,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            zones: 8,
            zone_sectors: 64,
            pages: 300,
            stamps: true,
            config: ChunkConfig {
                chunk_pages_max: 4,
                mapping_groups: 1,
            },
        }
    }
}

impl Shape {
    pub fn disk_sectors(&self) -> u64 {
        2 + self.zones * u64::from(self.zone_sectors)
    }

    pub fn packer(&self) -> Packer {
        match self.stamps {
            true => Packer::Stamps(sizes("ratio=1.3,spread=0.2")),
            false => Packer::bytes(Codec::Lz4, 0).unwrap(),
        }
    }

    pub fn page_bytes(&self) -> usize {
        match self.stamps {
            true => 8,
            false => 4096,
        }
    }
}

pub fn sizes(name: &str) -> Sizes {
    let table = name.parse::<TableName>().unwrap().load().unwrap();
    Sizes::new(&table, 3)
}

pub type Store = ChunkStore<DiskZones<Device>, Device>;

/// Disk and metadata store, with the store created on them.
pub fn created(shape: Shape, power: &Arc<Mutex<Power>>) -> (Device, Device) {
    let disk = Device::new(shape.disk_sectors(), power);
    let metadata = Device::new(1 + shape.pages.div_ceil(256), power);
    let (d, m) = (disk.clone(), metadata.clone());
    run(move |_| async move {
        let zones = DiskZones::new(d, shape.zone_sectors);
        ChunkStore::create(&zones, &m, NAMES, shape.pages, &shape.packer())
            .await
            .unwrap();
    });
    (disk, metadata)
}

pub async fn open(
    cpu: &Cpu,
    shape: Shape,
    disk: &Device,
    metadata: &Device,
) -> Result<Store, BackingError> {
    let zones = DiskZones::new(disk.clone(), shape.zone_sectors);
    ChunkStore::open(cpu, zones, metadata.clone(), shape.packer(), shape.config).await
}

/// A page that tells `value`, compressible if it is of bytes; 0 is zeros.
pub fn page(shape: &Shape, value: u64) -> Vec<u8> {
    let mut page = vec![0; shape.page_bytes()];
    let words = page.len() / 8;
    for word in page
        .as_chunks_mut::<8>()
        .0
        .iter_mut()
        .take(words.div_ceil(2))
    {
        *word = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    }
    page
}

/// Which value a page tells; `None` if it is a mixture.
pub fn value_of(shape: &Shape, bytes: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    // The inverse of the multiplier of `page`.
    let value = word.wrapping_mul(0xf1de_83e1_9937_733d);
    (page(shape, value) == bytes).then_some(value)
}

/// What each page may hold: what was flushed last, or anything written since.
#[derive(Debug, Clone)]
pub struct Model {
    pub flushed: Vec<u64>,
    pub since: Vec<Vec<u64>>,
    pub now: Vec<u64>,
    next: u64,
}

impl Model {
    pub fn new(pages: u64) -> Model {
        Model {
            flushed: vec![0; pages as usize],
            since: vec![Vec::new(); pages as usize],
            now: vec![0; pages as usize],
            next: 1,
        }
    }

    fn begin(&mut self, page: u64, value: u64) {
        self.since[page as usize].push(value);
        self.now[page as usize] = value;
    }

    fn flush(&mut self) {
        self.flushed.clone_from(&self.now);
        self.since.iter_mut().for_each(Vec::clear);
    }

    /// After a cut: what was found is what there is.
    pub fn settle(&mut self, found: &[u64]) -> Result<(), String> {
        for (page, found) in found.iter().enumerate() {
            let may = self.flushed[page] == *found || self.since[page].contains(found);
            if !may {
                let (flushed, since) = (self.flushed[page], &self.since[page]);
                return Err(format!(
                    "page {page} holds {found}: flushed {flushed}, since {since:?}"
                ));
            }
        }
        self.now = found.to_vec();
        self.flush();
        Ok(())
    }
}

/// One operation.
#[derive(Debug, Clone)]
pub enum Op {
    Write(u64, u64),
    Discard(u64, u64),
    Read(u64, u64),
    Flush,
}

pub fn random_ops(rng: &mut Rng, pages: u64, count: u64) -> Vec<Op> {
    (0..count)
        .map(|_| {
            let longest = [1, 3, 12, 40][rng.below(4) as usize];
            let first = rng.below(pages);
            let count = 1 + rng.below(longest.min(pages - first));
            match rng.below(12) {
                0 => Op::Flush,
                1 => Op::Discard(first, count),
                2 | 3 => Op::Read(first, count),
                _ => Op::Write(first, count),
            }
        })
        .collect()
}

/// Does operations to store and model; gives the first error.
pub async fn play(
    store: &impl Backing,
    shape: &Shape,
    model: &Arc<Mutex<Model>>,
    ops: &[Op],
) -> Result<(), BackingError> {
    for op in ops {
        match op {
            Op::Write(first, count) => {
                let mut data = Vec::new();
                for at in *first..first + count {
                    let mut model = model.lock().unwrap();
                    model.next += 1;
                    let value = model.next;
                    model.begin(at, value);
                    data.extend(page(shape, value));
                }
                store.write(*first, &data).await?;
            }
            Op::Discard(first, count) => {
                (*first..first + count).for_each(|at| model.lock().unwrap().begin(at, 0));
                store.discard(*first, *count).await?;
            }
            Op::Read(first, count) => {
                let found = contents_of(store, shape, *first, *count).await?;
                let model = model.lock().unwrap();
                let expected = &model.now[*first as usize..(first + count) as usize];
                assert_eq!(found, expected, "pages from {first} on");
            }
            Op::Flush => {
                store.flush().await?;
                model.lock().unwrap().flush();
            }
        }
    }
    Ok(())
}

/// The values of pages.
pub async fn contents_of(
    store: &impl Backing,
    shape: &Shape,
    first: u64,
    count: u64,
) -> Result<Vec<u64>, BackingError> {
    let mut out = vec![0; count as usize * shape.page_bytes()];
    store.read(first, &mut out).await?;
    let pages = out.chunks(shape.page_bytes());
    Ok(pages
        .map(|bytes| value_of(shape, bytes).expect("a page that is no mixture"))
        .collect())
}
