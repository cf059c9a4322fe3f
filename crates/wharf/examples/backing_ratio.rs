//! How small the backing store of a flash cache makes real files, beside `zstd -3` on the whole of them in
//! pieces of 64 KiB.
//!
//!     cargo run --release -p wharf --example backing_ratio -- [--limit MIB] PATH...
//!
//! The pages of the files are written in order, as a cache evicts neighbours: in runs of so many pages as the
//! first column says. What the store takes counts whole: headers, and padding to 512 bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use wharf_codec::{Codec, Compressor};
use wharf_host::IoError;
use wharf_host::backing::{Backing, ChunkConfig, ChunkStore, DiskZones, Names, Packer, Sectors};
use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};

const SECTOR: usize = 4096;
const ZONE_SECTORS: u32 = 4096;

/// Bytes that `zstd` sees at a time.
const PIECE_BYTES: usize = 64 << 10;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut limit = 256 << 20;
    if arguments.next_if(|word| word == "--limit").is_some() {
        let mib: usize = arguments.next().and_then(|n| n.parse().ok()).expect("MiB");
        limit = mib << 20;
    }
    let mut data = Vec::new();
    for path in arguments {
        gather(Path::new(&path), limit, &mut data);
    }
    data.truncate(data.len() / SECTOR * SECTOR);
    assert!(
        !data.is_empty(),
        "usage: backing_ratio [--limit MIB] PATH..."
    );
    let zstd = in_pieces(&data);
    println!(
        "{} MiB of files; zstd -3 by 64 KiB: {zstd:.3}",
        data.len() >> 20
    );
    println!(
        "{:>14}  {:>6}  {:>6}  {:>9}",
        "pages of a run", "codec", "ratio", "of zstd's"
    );
    for pages in [1, 8, 16, 64, 256] {
        for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built()) {
            let ratio = stored(&data, codec, pages);
            println!(
                "{pages:>14}  {:>6}  {ratio:>6.3}  {:>9.3}",
                codec.name(),
                ratio / zstd
            );
        }
    }
}

/// Appends the whole pages of the files below `path`, in the order of their names; links are not followed.
fn gather(path: &Path, limit: usize, data: &mut Vec<u8>) {
    let kind = std::fs::symlink_metadata(path).expect("a path that is there");
    if kind.is_dir() {
        let entries = std::fs::read_dir(path).expect("a directory that can be read");
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths.iter().for_each(|path| gather(path, limit, data));
    } else if kind.is_file() && data.len() < limit {
        let mut file = File::open(path).expect("a file that can be read");
        let (from, room) = (data.len(), (limit - data.len()) as u64);
        file.by_ref()
            .take(room)
            .read_to_end(data)
            .expect("a file that can be read");
        data.truncate(from + (data.len() - from) / SECTOR * SECTOR);
    }
}

fn in_pieces(data: &[u8]) -> f64 {
    let mut zstd = Compressor::new(Codec::Zstd, 3).expect("built with zstd");
    let mut out = vec![0; PIECE_BYTES];
    let small: usize = data
        .chunks(PIECE_BYTES)
        .map(|piece| zstd.compress(piece, &mut out).unwrap_or(piece.len()))
        .sum();
    data.len() as f64 / small as f64
}

/// Bytes of data for each byte that a store takes that is written in runs of so many pages.
fn stored(data: &[u8], codec: Codec, pages: usize) -> f64 {
    let data = data.to_vec();
    let pages_all = (data.len() / SECTOR) as u64;
    let written = run(move |cpu| async move {
        // Uncompressed data with headers, and the zones that a store keeps free.
        let zones = 2 * pages_all / u64::from(ZONE_SECTORS) + 8;
        let disk = Memory::of(2 + zones * u64::from(ZONE_SECTORS));
        let metadata = Memory::of(1 + pages_all.div_ceil(256));
        let zones = DiskZones::new(disk, ZONE_SECTORS);
        let packer = || Packer::bytes(codec, codec.level_default()).expect("it is built in");
        let names = Names {
            disk_id: [1; 16],
            cache_id: [2; 16],
        };
        let first_packer = packer();
        let created = ChunkStore::create(&zones, &metadata, names, pages_all, &first_packer);
        created.await.expect("there is room");
        let store = ChunkStore::open(&cpu, zones, metadata, packer(), ChunkConfig::default());
        let store = store.await.expect("it was made");
        let mut first = 0;
        for run in data.chunks(pages * SECTOR) {
            store.write(first, run).await.expect("there is room");
            first += (run.len() / SECTOR) as u64;
        }
        store.flush().await.expect("memory does not fail");
        (data.len() as f64, store.counters().written_bytes as f64)
    });
    written.0 / written.1
}

/// A device in memory.
struct Memory {
    sectors: u64,
    contents: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl Memory {
    fn of(sectors: u64) -> Memory {
        Memory {
            sectors,
            contents: RefCell::default(),
        }
    }
}

impl Sectors for Memory {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
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

/// Runs a future on a CPU of a machine of its own.
fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    script: impl FnOnce(Cpu) -> F + Send + 'static,
) -> T {
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("writer", Side::Host, 1.0);
    let (send, receive) = std::sync::mpsc::channel();
    machine.spawn_main(cpu, "writer", move |cpu| async move {
        let _ = send.send(script(cpu).await);
    });
    machine.run_virtual(Seed(1)).expect("every call ends");
    receive.recv().expect("the script has ended")
}
