//! A backing disk and its mapping with any changes, with the checksums that belong to them or without:
//! opened or refused, rebuilt or refused, never a panic. On what opens every call ends, be it with an
//! error, and a page that reads is one that was written to its address, unless a checksum was forged.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use wharf_codec::Codec;
use wharf_fuzz::input::Input;
use wharf_host::IoError;
use wharf_host::backing::{
    Backing, ChunkConfig, ChunkStore, DiskZones, Names, Packer, Sectors, rebuild,
};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};

const SECTOR: usize = 4096;
const GRANULE: usize = 512;
const ZONES: u64 = 7;
const ZONE_SECTORS: u32 = 24;
const PAGES: u64 = 280;
const CHUNK_PAGES: u64 = 2;
const METADATA_SECTORS: u64 = 1 + PAGES.div_ceil(256);
const NAMES: Names = Names {
    disk_id: [7; 16],
    cache_id: [9; 16],
};

type Contents = BTreeMap<u64, Vec<u8>>;

/// A device in memory. Clones are the same.
#[derive(Clone)]
struct Device {
    sectors: u64,
    contents: Rc<RefCell<Contents>>,
}

impl Device {
    fn of(sectors: u64, contents: Contents) -> Device {
        Device {
            sectors,
            contents: Rc::new(RefCell::new(contents)),
        }
    }

    /// As a drive refuses what is beyond its end.
    fn check(&self, first: u64, bytes: usize) -> Result<(), IoError> {
        let pages = (bytes / SECTOR) as u64;
        match first.checked_add(pages) {
            Some(end) if end <= self.sectors => Ok(()),
            _ => Err(IoError::OutOfRange {
                first,
                pages,
                volume_pages: self.sectors,
            }),
        }
    }
}

impl Sectors for Device {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.check(first, out.len())?;
        let contents = self.contents.borrow();
        for (at, sector) in (first..).zip(out.chunks_mut(SECTOR)) {
            match contents.get(&at) {
                Some(held) => sector.copy_from_slice(held),
                None => sector.fill(0),
            }
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        self.check(first, data.len())?;
        let sectors = (first..).zip(data.chunks(SECTOR));
        let sectors = sectors.map(|(at, sector)| (at, sector.to_vec()));
        self.contents.borrow_mut().extend(sectors);
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    async fn forget(&self, _: u64, _: u64) -> Result<(), IoError> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let [mut disk, mut metadata] = good().clone();
    let mut is_forged = false;
    while !input.is_empty() {
        match input.number(1) % 4 {
            0 => change(&mut disk, disk_sectors(), &mut input),
            1 => change(&mut metadata, METADATA_SECTORS, &mut input),
            2 => is_forged |= forge_on_disk(&mut disk, &mut input),
            _ => is_forged |= forge_metadata(&mut metadata, &mut input),
        }
    }
    run(move |cpu| async move {
        let disk = Device::of(disk_sectors(), disk);
        let metadata = Device::of(METADATA_SECTORS, metadata);
        use_store(&cpu, &disk, &metadata, is_forged).await;
        let zones = DiskZones::new(disk.clone(), ZONE_SECTORS);
        let empty = Device::of(METADATA_SECTORS, Contents::new());
        if rebuild(&zones, &empty, [5; 16]).await.is_ok() {
            use_store(&cpu, &disk, &empty, is_forged).await;
        }
    });
});

/// Opens the store and asks everything of it.
async fn use_store(cpu: &Cpu, disk: &Device, metadata: &Device, is_forged: bool) {
    for _ in 0..2 {
        let Ok(store) = open(cpu, disk, metadata).await else {
            return;
        };
        for first in (0..PAGES).filter(|page| is_used(*page)).step_by(2) {
            let mut pages = [0; 2 * SECTOR];
            if store.read(first, &mut pages).await.is_ok() && !is_forged {
                let pages = (first..).zip(pages.chunks(SECTOR));
                pages.for_each(|(at, page)| check_page(at, page));
            }
        }
        for at in 0..40 {
            let first = place(at * 13);
            let data: Vec<u8> = (first..first + CHUNK_PAGES).flat_map(page_of).collect();
            let _ = store.write(first, &data).await;
        }
        let _ = store.discard(241, 9).await;
        let _ = store.write(PAGES - 1, &page_of(PAGES - 1)).await;
        let _ = store.flush().await;
    }
}

async fn open(
    cpu: &Cpu,
    disk: &Device,
    metadata: &Device,
) -> Result<ChunkStore<DiskZones<Device>, Device>, ()> {
    let zones = DiskZones::new(disk.clone(), ZONE_SECTORS);
    let config = ChunkConfig {
        chunk_pages_max: CHUNK_PAGES as u32,
        mapping_groups: 1,
    };
    let store = ChunkStore::open(cpu, zones, metadata.clone(), packer(), config);
    store.await.map_err(drop)
}

fn packer() -> Packer {
    Packer::bytes(Codec::Lz4, 0).expect("it is built in")
}

/// A page that tells its address.
fn page_of(at: u64) -> Vec<u8> {
    let mut page = vec![0; SECTOR];
    let half = page.chunks_mut(8).take(SECTOR / 16).enumerate();
    half.for_each(|(word, to)| {
        let mixed = (at + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(word as u32 % 7);
        to.copy_from_slice(&mixed.to_le_bytes());
    });
    page
}

/// Zeros, or what was written to this address: never another's.
fn check_page(at: u64, page: &[u8]) {
    let is_zero = page.iter().all(|byte| *byte == 0);
    assert!(is_zero || page == page_of(at), "page {at} is another's");
}

/// The pages that are used lie about the border of two groups, so that there is little to read.
fn is_used(page: u64) -> bool {
    (232..PAGES).contains(&page)
}

/// One of them that a chunk may begin with.
fn place(number: u64) -> u64 {
    232 + number % (PAGES - 232 - CHUNK_PAGES)
}

fn disk_sectors() -> u64 {
    2 + ZONES * u64::from(ZONE_SECTORS)
}

/// A good disk, half overwritten, and its metadata store.
fn good() -> &'static [Contents; 2] {
    static GOOD: OnceLock<[Contents; 2]> = OnceLock::new();
    GOOD.get_or_init(|| {
        let made = Arc::new(Mutex::new(None));
        let slot = made.clone();
        run(move |cpu| async move {
            let disk = Device::of(disk_sectors(), Contents::new());
            let metadata = Device::of(METADATA_SECTORS, Contents::new());
            let zones = DiskZones::new(disk.clone(), ZONE_SECTORS);
            let packer = packer();
            let created = ChunkStore::create(&zones, &metadata, NAMES, PAGES, &packer);
            created.await.expect("there is room");
            let store = open(&cpu, &disk, &metadata).await.expect("it was made");
            for round in 0..120u64 {
                let first = place(round * 7);
                let count = 1 + round % CHUNK_PAGES;
                let data: Vec<u8> = (first..first + count).flat_map(page_of).collect();
                store.write(first, &data).await.expect("there is room");
                if round % 25 == 24 {
                    store.flush().await.expect("nothing fails");
                }
            }
            store.flush().await.expect("nothing fails");
            let contents = [disk.contents.take(), metadata.contents.take()];
            *slot.lock().expect("no holder panics") = Some(contents);
        });
        let made = made.lock().expect("no holder panics").take();
        made.expect("the script has ended")
    })
}

/// Some bytes of a sector become others.
fn change(contents: &mut Contents, sectors: u64, input: &mut Input) {
    let at = input.number(2) % sectors;
    let sector = contents.entry(at).or_insert_with(|| vec![0; SECTOR]);
    overwrite(sector, input);
}

fn overwrite(bytes: &mut [u8], input: &mut Input) {
    let at = input.number(2) as usize % bytes.len();
    let count = (input.number(1) as usize % 24 + 1).min(bytes.len() - at);
    let new = input.take(count);
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// Changes a superblock, the header of a zone, or a chunk's, and makes its checksum right. Says whether a
/// chunk was changed.
fn forge_on_disk(disk: &mut Contents, input: &mut Input) -> bool {
    let at = input.number(2) % disk_sectors();
    let sector = disk.entry(at).or_insert_with(|| vec![0; SECTOR]);
    if at < 2 {
        overwrite(&mut sector[..80], input);
        sign(&mut sector[..80]);
        return false;
    }
    if (at - 2) % u64::from(ZONE_SECTORS) == 0 {
        overwrite(&mut sector[..40], input);
        sign(&mut sector[..40]);
        return false;
    }
    let granule = input.number(1) as usize % (SECTOR / GRANULE) * GRANULE;
    let chunk = &mut sector[granule..];
    overwrite(&mut chunk[..28], input);
    // The payload may lie in the next sector: only short ones are signed.
    let bytes = u32::from_le_bytes(chunk[20..24].try_into().expect("4 bytes")) as usize;
    if let Some(payload) = chunk.get(32..32 + bytes) {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&chunk[..28]);
        digest.update(payload);
        let crc = (digest.finalize() as u32).to_le_bytes();
        chunk[28..32].copy_from_slice(&crc);
    }
    true
}

/// Changes the owner's record or the rows of a group, and makes their checksum right. Says whether rows
/// were changed.
fn forge_metadata(metadata: &mut Contents, input: &mut Input) -> bool {
    let at = input.number(1) % METADATA_SECTORS;
    let sector = metadata.entry(at).or_insert_with(|| vec![0; SECTOR]);
    if at == 0 {
        overwrite(&mut sector[..56], input);
        sign(&mut sector[..56]);
        return false;
    }
    overwrite(sector, input);
    let used = sector.chunks(16).take_while(|row| row[4..10] != [0; 6]);
    let used = used.count();
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&(at - 1).to_le_bytes());
    digest.update(&(used as u64).to_le_bytes());
    let rows = sector.chunks(16).take(used);
    rows.for_each(|row| digest.update(&row[..13]));
    let crc = (digest.finalize() as u32).to_le_bytes();
    let rows = sector.chunks_mut(16).take(used);
    rows.for_each(|row| row[13..].copy_from_slice(&crc[..3]));
    true
}

/// Puts the checksum of what is before it into a structure's last four bytes.
fn sign(structure: &mut [u8]) {
    let at = structure.len() - 4;
    let crc = crc_fast::crc32_iscsi(&structure[..at]);
    structure[at..].copy_from_slice(&crc.to_le_bytes());
}

/// Runs a future on a machine of its own, in virtual time.
fn run<F: Future<Output = ()> + 'static>(script: impl FnOnce(Cpu) -> F + Send + 'static) {
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("client", Side::Host, 1.0);
    machine.spawn_main(cpu, "client", script);
    machine.run_virtual(Seed(1)).expect("every call ends");
}
