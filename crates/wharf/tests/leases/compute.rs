//! The drive computes on bytes that a process keeps, and changes bytes that one keeps.

use wharf::files::{Computed, Source, Target, Vector, VectorFunction};

use super::*;

fn checksum_of(drive: &FileDrive, file: Handle, bytes: u64) -> u64 {
    let mut vector = Vector::new();
    let source = Source::File(file, 0..bytes);
    vector.step(VectorFunction::Checksum, source, Target::Nothing);
    done(drive, &vector).last().unwrap().value
}

fn done(drive: &FileDrive, vector: &Vector) -> Computed {
    drive.compute(vector).unwrap()
}

/// As this process computes it.
fn right(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)
}

#[test]
fn what_a_process_keeps_is_what_the_drive_computes_on() {
    for cache in [0, 1 << 20] {
        let served = Served::with_cache(1 << 18);
        let (one, other) = (served.both(1 << 20), served.process(cache));
        let (mine, its) = (one.open("/f"), other.open("/f"));
        let mut expected = Vec::new();
        for round in 0..20u8 {
            let at = usize::from(round) * 3_000 % 20_000;
            let new = vec![round; 5_000];
            expected.resize(expected.len().max(at + 5_000), 0);
            expected[at..at + 5_000].copy_from_slice(&new);
            one.write(mine, at as u64, &new);
            let end = expected.len() as u64;
            // By who wrote it, which keeps it, and by another process.
            assert_eq!(checksum_of(&one.0, mine, end), right(&expected), "{round}");
            assert_eq!(checksum_of(&other.0, its, end), right(&expected), "{round}");
        }
        served_ends(served, [one, other]);
    }
}

#[test]
fn what_the_drive_writes_no_process_has_old() {
    let served = Served::with_cache(1 << 18);
    let (one, other) = (served.both(1 << 20), served.process(1 << 20));
    let (mine, its) = (one.open("/f"), other.open("/f"));
    one.write(mine, 0, &vec![1; 40_000]);
    // Both have its pages, and the first one has written some of them.
    assert!(other.read(its, 0, 40_000) == vec![1; 40_000]);
    one.write(mine, 8_000, &[2; 100]);
    assert!(one.read(mine, 8_000, 100) == vec![2; 100]);
    let new: Vec<u8> = (0..30_000).map(|at| (at % 253) as u8).collect();
    for (process, file) in [(&one, mine), (&other, its)] {
        let mut vector = Vector::new();
        vector.step(
            VectorFunction::Copy,
            Source::Host(&new),
            Target::File(file, 5_000, 30_000),
        );
        vector.step(
            VectorFunction::Copy,
            Source::File(file, 5_000..6_000),
            Target::End(file, 1_000),
        );
        let computed = done(&process.0, &vector);
        assert_eq!(computed.steps.len(), 2);
        let end = computed.last().unwrap().offset;
        for (process, file) in [(&one, mine), (&other, its)] {
            assert!(process.read(file, 5_000, 30_000) == new);
            assert!(process.read(file, end, 1_000) == new[..1_000]);
        }
        process.write(file, 6_000, &[9; 2_000]);
    }
    assert!(one.read(mine, 6_000, 2_000) == vec![9; 2_000]);
    served_ends(served, [one, other]);
}
