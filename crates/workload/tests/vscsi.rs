//! Both versions of vscsi records.

#![allow(missing_docs)]

use wharf_workload::{Format, Op, ReadOptions, Request, TraceReader, Workload};

/// Operation, length in bytes, address in sectors, time in microseconds.
type Record = (u16, u32, u64, u64);

const RECORDS: [Record; 4] = [
    (0x28, 4096, 8, 1),
    (0x2a, 512, 9, 2),
    // UNMAP: the record does not tell its ranges.
    (0x42, 24, 0, 3),
    (0x8a, 65_536, 1 << 40, u64::MAX / 4_000),
];

fn one((op, length, address, time): Record) -> Vec<u8> {
    let mut record = [0; 32];
    record[..4].copy_from_slice(&7u32.to_le_bytes());
    record[4..8].copy_from_slice(&length.to_le_bytes());
    record[12..14].copy_from_slice(&op.to_le_bytes());
    record[14..16].copy_from_slice(&0x0100u16.to_le_bytes());
    record[16..24].copy_from_slice(&address.to_le_bytes());
    record[24..].copy_from_slice(&time.to_le_bytes());
    record.into()
}

fn two((op, length, address, time): Record) -> Vec<u8> {
    let mut record = [0; 40];
    record[..2].copy_from_slice(&op.to_le_bytes());
    record[2..4].copy_from_slice(&0x0200u16.to_le_bytes());
    record[4..8].copy_from_slice(&7u32.to_le_bytes());
    record[8..12].copy_from_slice(&length.to_le_bytes());
    record[16..24].copy_from_slice(&address.to_le_bytes());
    record[24..32].copy_from_slice(&time.to_le_bytes());
    record[32..].copy_from_slice(&99u64.to_le_bytes());
    record.into()
}

fn read(bytes: Vec<u8>) -> Result<(Vec<Request>, u64), String> {
    let reader = TraceReader::from_bytes("v", bytes, &ReadOptions::default());
    let reader = reader.map_err(|error| error.to_string())?;
    assert_eq!(reader.format(), Format::Vscsi);
    let all = Workload::from_stream(reader).materialise();
    let (requests, info) = all.map_err(|error| error.to_string())?;
    let told = info.notes.iter().any(|note| note.starts_with("1 UNMAP"));
    assert_eq!(told, requests.len() == 3, "{:?}", info.notes);
    Ok((requests, info.bad_lines))
}

#[test]
fn both_versions_say_the_same() {
    let first = read(RECORDS.map(one).concat()).unwrap();
    assert_eq!(first.0.len(), 3);
    assert_eq!(
        first.0[1],
        Request {
            time_ns: 2_000,
            stream: 0,
            ..Request::new(Op::Write, 9 * 512, 512)
        }
    );
    assert_eq!(read(RECORDS.map(two).concat()).unwrap(), first);
}

#[test]
fn versions_are_not_mixed() {
    let mixed = [RECORDS.map(two).concat(), RECORDS.map(one).concat()].concat();
    assert!(read(mixed).is_err());
    assert!(read(two(RECORDS[0])[..39].to_vec()).is_err());
    // A record that is cut off at the end is a bad one.
    let cut = [two(RECORDS[0]), one(RECORDS[1])].concat();
    let (requests, bad) = read(cut).unwrap();
    assert_eq!((requests.len(), bad), (1, 1));
}
