//! How much memory of this machine a file system takes whose files are what checked workloads write.

use std::rc::Rc;

use wharf_files::block_on;
use wharf_files::bytes::{Make, Wpm, make};
use wharf_files::lines::RamLines;
use wharf_files::stamped::SECTOR_BYTES;
use wharf_files::vfs::{Session, SessionLimits};
use wharf_files::{Caller, OpenFlags, Place};
use wharf_runtime::Seed;

/// A file of 32 MiB, written in requests of 1 KiB and over again at random, takes less than a twentieth of its size: 64 bytes a page,
/// and the log of what was written where.
#[test]
fn a_file_that_a_workload_writes_takes_less_than_a_twentieth_of_its_size() {
    const FILE_PAGES: u64 = 8 << 10;
    const REQUEST: u64 = 1024;
    let lines = RamLines::new(2 * FILE_PAGES);
    let new = Make {
        file_system: 1,
        now_ns: 1,
        uid: 0,
        gid: 0,
        mode: 0o755,
    };
    block_on(make(&lines, new)).unwrap();
    let (fs, _) = block_on(Wpm::open(&lines, 1 << 20)).unwrap();
    let session = Session::new(Rc::new(fs), Caller::root(), SessionLimits::default());
    let handle = block_on(session.open(5, b"/file".into(), OpenFlags::CREATE, 0o644))
        .unwrap()
        .handle;
    let requests = FILE_PAGES * 4096 / REQUEST;
    let mut rng = Seed(4).child("memory of a file").rng();
    let mut versions = vec![0; requests as usize];
    let content = |request: u64, version: u64| {
        let sectors = REQUEST as usize / SECTOR_BYTES;
        let word = |sector: u64| (request << 32 | version << 8 | sector).to_le_bytes();
        let words = (0..sectors as u64).map(word);
        words
            .flat_map(|word| word.repeat(SECTOR_BYTES / 8))
            .collect::<Vec<u8>>()
    };
    for nth in 0..requests + requests / 4 {
        let request = match nth < requests {
            true => nth,
            false => rng.below(requests),
        };
        versions[request as usize] += 1;
        let bytes = content(request, versions[request as usize]);
        let place = Place::At(request * REQUEST);
        let written = block_on(session.write(5, handle, place, &bytes)).unwrap();
        assert_eq!(written.bytes, REQUEST);
    }
    let mut found = vec![0; REQUEST as usize];
    for (request, version) in (0..).zip(&versions) {
        block_on(session.read(5, handle, request * REQUEST, &mut found)).unwrap();
        assert!(found == content(request, *version), "request {request}");
    }
    let by_page = lines.memory_bytes() as f64 / FILE_PAGES as f64;
    assert!((64.0..205.0).contains(&by_page), "{by_page} bytes a page");
}
