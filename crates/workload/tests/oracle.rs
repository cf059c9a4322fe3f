//! Traces of libCacheSim: `oracleGeneral`, plain and compressed.

#![allow(missing_docs)]

use std::io::Write;

use wharf_workload::{Format, Op, ReadOptions, Request, TraceReader, Workload};

fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    [
        &time.to_le_bytes()[..],
        &object.to_le_bytes(),
        &size.to_le_bytes(),
        &next.to_le_bytes(),
    ]
    .concat()
}

fn read(bytes: Vec<u8>) -> (Vec<Request>, Vec<String>) {
    let reader = TraceReader::from_bytes("o", bytes, &ReadOptions::default()).unwrap();
    assert_eq!(reader.format(), Format::Oracle);
    let (requests, info) = Workload::from_stream(reader).materialise().unwrap();
    assert_eq!(info.bad_lines, 0);
    (requests, info.notes)
}

#[test]
fn objects_are_pages() {
    let all = [
        record(5, 7, 4096, 2),
        record(5, u64::MAX, 100, -1),
        record(9, 7, 4096, i64::MAX),
    ]
    .concat();
    let mut packed = zstd_of(&all);
    for bytes in [all.clone(), std::mem::take(&mut packed)] {
        let (requests, notes) = read(bytes);
        let of_seven = |time_ns| Request {
            time_ns,
            ..Request::new(Op::Read, 7 * 4096, 4096)
        };
        assert_eq!(
            (requests[0], requests[2]),
            (of_seven(5_000_000_000), of_seven(9_000_000_000))
        );
        assert!(requests[1].offset >= 1 << 55 && requests[1].bytes == 4096);
        assert!(
            notes[0].contains("pages of 4 KiB") && notes[1].starts_with("1 requests"),
            "{notes:?}"
        );
    }
}

/// As a program that compresses does it.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let child = std::process::Command::new("zstd")
        .args(["-q", "-c"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("without zstd: there is no such program");
        return bytes.to_vec();
    };
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(bytes).expect("it reads");
    drop(input);
    child.wait_with_output().expect("it ends").stdout
}

#[test]
fn records_that_cannot_be_are_no_such_trace() {
    let good = || record(5, 7, 4096, -1);
    for bad in [
        record(4, 7, 4096, -1),
        record(5, 7, 0, -1),
        record(5, 7, u32::MAX, -1),
        record(5, 7, 4096, 0),
        record(5, 7, 4096, -2),
        vec![b'7'; 24],
    ] {
        let all = [good(), bad].concat();
        let reader = TraceReader::from_bytes("o", all.clone(), &ReadOptions::default());
        assert!(reader.is_err());
        // By force it is a bad record of two.
        let options = ReadOptions {
            format: Some(Format::Oracle),
            ..ReadOptions::default()
        };
        let reader = TraceReader::from_bytes("o", all, &options).unwrap();
        let (requests, info) = Workload::from_stream(reader).materialise().unwrap();
        assert_eq!((requests.len(), info.bad_lines), (1, 1));
    }
}
