use std::path::Path;

use wharf_codec::Codec;
use wharf_host::backing::{
    Backing, BackingError, ChunkConfig, ChunkStore, DiskZones, FixedConfig, FixedStore, Names,
    Packer, PlainStore, rebuild,
};
use wharf_runtime::{CostTable, CpuId, Inline, Machine, Rng, Seed, Side};
use wharf_storage::faulty::{Faulty, Loss, Power};
use wharf_storage::{FileOptions, RamTarget};

use super::*;

const PAGES: u64 = 2048;
const ZONE_SECTORS: u32 = 4096;
const DISK_BYTES: u64 = 96 << 20;
const NAMES: Names = Names {
    disk_id: [1; 16],
    cache_id: [2; 16],
};

/// A thread with a CPU.
struct Thread {
    inline: Inline,
    cpu: CpuId,
    reactor: Rc<Reactor>,
}

impl Thread {
    fn new() -> Thread {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("keeper", Side::Host, 1.0);
        Thread {
            inline: machine.inline(),
            cpu,
            reactor: Reactor::of_thread().unwrap(),
        }
    }

    fn cpu(&self) -> &Cpu {
        self.inline.cpu(self.cpu)
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.reactor.run(&self.inline, self.cpu, future)
    }

    fn sectors(&self, target: &Arc<dyn Target>) -> TargetSectors {
        let count = target.size_bytes() / SECTOR_BYTES as u64;
        TargetSectors::new(self.cpu(), target.clone(), count).unwrap()
    }
}

fn file(path: &Path) -> Arc<dyn Target> {
    let options = FileOptions {
        create_bytes: Some(DISK_BYTES),
        ..FileOptions::default()
    };
    wharf_storage::open(path, &options).unwrap()
}

fn memory(bytes: u64) -> Arc<dyn Target> {
    Arc::new(RamTarget::new("memory", bytes, 4096))
}

fn packer() -> Packer {
    Packer::bytes(Codec::Lz4, Codec::Lz4.level_default()).unwrap()
}

fn chunk_config() -> ChunkConfig {
    ChunkConfig {
        mapping_groups: 4,
        ..ChunkConfig::default()
    }
}

type Chunks = ChunkStore<DiskZones<TargetSectors>, TargetSectors>;

impl Thread {
    fn zones(&self, disk: &Arc<dyn Target>) -> DiskZones<TargetSectors> {
        DiskZones::new(self.sectors(disk), ZONE_SECTORS)
    }

    fn create_chunks(&self, disk: &Arc<dyn Target>, metadata: &Arc<dyn Target>) {
        let (zones, metadata) = (self.zones(disk), self.sectors(metadata));
        self.run(ChunkStore::create(
            &zones,
            &metadata,
            NAMES,
            PAGES,
            &packer(),
        ))
        .unwrap();
    }

    fn open_chunks(
        &self,
        disk: &Arc<dyn Target>,
        metadata: &Arc<dyn Target>,
    ) -> Result<Chunks, BackingError> {
        let (zones, metadata) = (self.zones(disk), self.sectors(metadata));
        self.run(ChunkStore::open(
            self.cpu(),
            zones,
            metadata,
            packer(),
            chunk_config(),
        ))
    }
}

/// A page of a version: half of it says which, half is noise.
fn page(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    if version > 0 {
        let mut rng = Seed(page << 32 | version).rng();
        for word in bytes[2048..].chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        bytes[..2048].fill(version as u8);
    }
    bytes
}

/// What a run of pages is to hold.
fn run_of(first: u64, versions: &[u64]) -> Vec<u8> {
    let pages = (first..).zip(versions);
    pages
        .flat_map(|(number, version)| page(number, *version))
        .collect()
}

/// A random piece of work, and what the pages hold after it.
async fn step(
    store: &impl Backing,
    rng: &mut Rng,
    model: &mut [u64],
    version: u64,
) -> Result<bool, BackingError> {
    let count = 1 + rng.below(300).min(PAGES - 1);
    let first = rng.below(PAGES - count);
    let range = first as usize..(first + count) as usize;
    match rng.below(10) {
        0..6 => {
            let before = model[range.clone()].to_vec();
            model[range.clone()].fill(version);
            let data = run_of(first, &model[range.clone()]);
            let written = store.write(first, &data).await;
            if written == Err(BackingError::Full) {
                model[range].copy_from_slice(&before);
                return Ok(false);
            }
            written?;
        }
        6 => {
            model[range].fill(0);
            store.discard(first, count).await?;
        }
        7 => {
            store.flush().await?;
            return Ok(true);
        }
        _ => {
            let mut found = vec![1; (count * 4096) as usize];
            store.read(first, &mut found).await?;
            assert!(
                found == run_of(first, &model[range]),
                "pages from {first} on"
            );
        }
    }
    Ok(false)
}

/// Works on a store, and flushes it at the end.
async fn work(store: &impl Backing, seed: u64, steps: u64, model: &mut [u64]) {
    let mut rng = Seed(seed).child("work").rng();
    for number in 0..steps {
        step(store, &mut rng, model, seed * 1000 + number + 1)
            .await
            .unwrap();
    }
    store.flush().await.unwrap();
}

async fn verify(store: &impl Backing, model: &[u64]) {
    for (at, versions) in (0..).zip(model.chunks(256)) {
        let mut found = vec![1; versions.len() * 4096];
        store.read(at * 256, &mut found).await.unwrap();
        assert!(
            found == run_of(at * 256, versions),
            "pages from {} on",
            at * 256
        );
    }
}

#[test]
fn chunks_on_a_file_are_a_vector_through_opening_again_and_rebuilding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow");
    let thread = Thread::new();
    let metadata = memory(4 << 20);
    let mut model = vec![0; PAGES as usize];
    thread.create_chunks(&file(&path), &metadata);
    for round in 1..4 {
        let store = thread.open_chunks(&file(&path), &metadata).unwrap();
        thread.run(verify(&store, &model));
        thread.run(work(&store, round, 120, &mut model));
        thread.run(verify(&store, &model));
    }
    let other = memory(4 << 20);
    let disk = file(&path);
    let (zones, again) = (thread.zones(&disk), thread.sectors(&other));
    let found = thread.run(rebuild(&zones, &again, [9; 16])).unwrap();
    assert!(found.chunks > 0 && found.pages == PAGES);
    let store = thread.open_chunks(&disk, &other).unwrap();
    thread.run(verify(&store, &model));
    drop(store);
    // The metadata store of before is another cache's now.
    let error = thread.open_chunks(&disk, &metadata).map(drop).unwrap_err();
    assert_eq!(error, BackingError::Foreign);
}

#[test]
fn units_on_a_file_are_a_vector_through_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow");
    let thread = Thread::new();
    let mut model = vec![0; PAGES as usize];
    for round in 1..4 {
        let units = FixedConfig { unit_pages: 8 };
        let disk = thread.sectors(&file(&path));
        let store = FixedStore::open(thread.cpu(), disk, packer(), units).unwrap();
        thread.run(verify(&store, &model));
        thread.run(work(&store, round, 60, &mut model));
        thread.run(verify(&store, &model));
    }
}

#[test]
fn plain_pages_are_the_bytes_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow");
    let thread = Thread::new();
    let mut model = vec![0; PAGES as usize];
    for round in 1..4 {
        let disk = thread.sectors(&file(&path));
        let store = PlainStore::new(disk, 4096);
        thread.run(verify(&store, &model));
        thread.run(work(&store, round, 120, &mut model));
        let found = std::fs::read(&path).unwrap();
        let bytes = (PAGES * 4096) as usize;
        assert!(found[..bytes] == run_of(0, &model), "round {round}");
    }
}

/// A discard of everything is a hole, not so many zeros.
#[test]
fn what_is_discarded_gives_its_room_back() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow");
    let thread = Thread::new();
    let store = PlainStore::new(thread.sectors(&file(&path)), 4096);
    let data = run_of(0, &vec![1; 512]);
    thread.run(store.write(0, &data)).unwrap();
    thread.run(store.flush()).unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    thread.run(store.discard(0, PAGES)).unwrap();
    thread.run(store.flush()).unwrap();
    let after = std::fs::metadata(&path).unwrap().blocks();
    assert!(after < before / 8, "{after} of {before} blocks");
}

/// A disk that loses power in its `cut_at`-th write or flush, and what it holds then. Gives whether
/// it came to that.
fn cut_chunks(seed: u64, cut_at: u64, loss: Loss) -> bool {
    let thread = Thread::new();
    let power = Power::new();
    let inner = memory(DISK_BYTES);
    let faulty = Arc::new(Faulty::new(inner.clone(), power.clone(), Seed(seed)));
    let (disk, metadata): (Arc<dyn Target>, _) = (faulty.clone(), memory(4 << 20));
    thread.create_chunks(&disk, &metadata);
    let store = thread.open_chunks(&disk, &metadata).unwrap();
    let mut flushed = vec![0; PAGES as usize];
    thread.run(work(&store, seed, 30, &mut flushed));
    let mut now = flushed.clone();
    // What each page was at some time since the last flush.
    let mut since: Vec<Vec<u64>> = flushed.iter().map(|version| vec![*version]).collect();
    power.cut_at(cut_at);
    let mut rng = Seed(seed).child("cut").rng();
    let mut is_cut = false;
    for number in 0..40 {
        let version = 500_000 + seed * 1000 + number;
        let done = thread.run(step(&store, &mut rng, &mut now, version));
        for (page, versions) in now.iter().zip(&mut since) {
            if versions.last() != Some(page) {
                versions.push(*page);
            }
        }
        match done {
            Ok(false) => {}
            Ok(true) => {
                since = now.iter().map(|version| vec![*version]).collect();
            }
            Err(_) => {
                is_cut = true;
                break;
            }
        }
    }
    drop(store);
    power.come_back();
    faulty.settle(loss).unwrap();
    let store = thread.open_chunks(&disk, &metadata).unwrap();
    for (number, versions) in (0..).zip(&since) {
        let mut found = vec![0; 4096];
        thread.run(store.read(number, &mut found)).unwrap();
        assert!(
            versions
                .iter()
                .any(|version| found == page(number, *version)),
            "seed {seed}, cut at {cut_at}, {loss:?}: page {number} is none of {versions:?}"
        );
    }
    is_cut
}

#[test]
fn what_was_flushed_to_chunks_is_there_after_a_power_cut() {
    let cases: u64 = std::env::var("WHARF_CASES").map_or(1, |text| text.parse().unwrap());
    for seed in 1..=cases {
        let mut cuts = 0;
        for cut_at in (seed % 8..40).step_by(8) {
            for loss in [Loss::All, Loss::Nothing, Loss::Some] {
                cuts += u64::from(cut_chunks(seed, cut_at, loss));
            }
        }
        assert!(cuts > 5, "seed {seed}: {cuts} cuts");
    }
}

/// Linux forgets what it could not write, and says so once: a flush that works afterwards says
/// nothing of it.
#[test]
fn after_a_flush_that_failed_nothing_is_written_until_it_is_opened_again() {
    let thread = Thread::new();
    let faulty = Arc::new(Faulty::new(memory(1 << 20), Power::new(), Seed(1)));
    let target: Arc<dyn Target> = faulty.clone();
    let disk = thread.sectors(&target);
    thread.run(disk.write(0, &page(0, 1))).unwrap();
    faulty.die();
    thread.run(disk.flush()).unwrap_err();
    faulty.live();
    thread.run(disk.write(0, &page(0, 2))).unwrap_err();
    thread.run(disk.flush()).unwrap_err();
    let mut found = vec![0; 4096];
    thread.run(disk.read(0, &mut found)).unwrap();
    assert!(found == page(0, 1));
    let again = thread.sectors(&target);
    thread.run(again.write(0, &page(0, 2))).unwrap();
    thread.run(again.flush()).unwrap();
}

/// A task that is dropped in a read gives up its memory only when the kernel has done with it.
#[test]
fn a_read_that_nobody_waits_for_any_more_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let thread = Thread::new();
    let disk = thread.sectors(&file(&folder.path().join("slow")));
    for _ in 0..20 {
        thread.run(async {
            let mut out = vec![0; 4 << 20];
            let mut read = std::pin::pin!(disk.read(0, &mut out));
            std::future::poll_fn(|context| {
                let _ = read.as_mut().poll(context);
                std::task::Poll::Ready(())
            })
            .await;
        });
    }
    let mut found = vec![1; 4096];
    thread.run(disk.read(7, &mut found)).unwrap();
    assert_eq!(found, vec![0; 4096]);
}
