//! Formats that were not found, or found for the wrong reason.

mod common;

use wharf_workload::{ReadOptions, TraceReader, Workload, WorkloadError, WorkloadStat};

fn open(text: &str, options: &ReadOptions) -> Result<TraceReader, WorkloadError> {
    TraceReader::from_bytes("trace", text.as_bytes().to_vec(), options)
}

/// Lines of MQSim of 8 to 15 sectors, with a request of none after each `every` of them.
fn mqsim(lines: u64, every: u64) -> String {
    let line = |i: u64| {
        let empty = match i % every {
            0 => format!("{} 0 {} 0 0\n", i * 1000, i * 7919),
            _ => String::new(),
        };
        format!("{} 0 {} {} 1\n{empty}", i * 1000, i * 7919, 8 + i % 8)
    };
    (1..=lines).map(line).collect()
}

/// A size of 0 passed for a small one, so that sizes in pages seemed possible; and where more than
/// one line in a hundred had it, reading stopped.
#[test]
fn an_empty_request_hid_the_units_of_an_mqsim_trace() {
    for (lines, every) in [(5, 3), (60, 5), (10_000, 50)] {
        let reader = open(&mqsim(lines, every), &ReadOptions::default()).unwrap();
        assert_eq!(reader.format().to_string(), "mqsim");
        let (requests, info) = Workload::from_stream(reader).materialise().unwrap();
        assert_eq!((requests.len() as u64, info.bad_lines), (lines, 0));
        let said = format!("{} requests of size 0 left out", lines / every);
        assert!(info.notes.contains(&said), "{:?}", info.notes);
    }
}

/// Sizes that no units explain gave "its columns look like ; if it is sure, …".
#[test]
fn an_error_named_an_empty_list_of_layouts() {
    // Tabs and small sizes speak for pages, one of 128 MiB in pages against them.
    let line = |i: u64| format!("{i}.5\t0\t{}\t{}\t0\n", i * 7919, 1 + i % 7);
    let mut text: String = (0..200).map(line).collect();
    text += "300.5\t0\t5\t32768\t0\n";
    let forced = ReadOptions {
        format: Some("disksim".parse().unwrap()),
        ..ReadOptions::default()
    };
    let error = open(&text, &forced).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("no units explain all of its sizes; if it is sure, spell the layout out"),
        "{error}"
    );
    let error = open(&text, &ReadOptions::default())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no units explain all sizes"), "{error}");
}

/// The third column of the ARC paper's traces means nothing: files that have numbers in it were
/// refused.
#[test]
fn lis_files_with_numbers_in_the_third_column_were_refused() {
    let text: String = (0..100)
        .map(|i| format!("{} 2 {} {i}\n", i * 31 % 977, i * 7))
        .collect();
    let reader = open(&text, &ReadOptions::default()).unwrap();
    assert_eq!(reader.format().to_string(), "lis");
    assert_eq!(
        Workload::from_stream(reader).materialise().unwrap().0.len(),
        100
    );
    // Four columns of which the last falls are something else.
    let times: String = (0..100)
        .map(|i| format!("{i} 2 0 {}\n", i * 31 % 977))
        .collect();
    assert!(matches!(
        open(&times, &ReadOptions::default()),
        Err(WorkloadError::UnknownFormat { .. })
    ));
}

/// Blocks of `lis` were taken as 4 KiB; they are of 512 bytes in the paper.
#[test]
fn blocks_of_lis_were_eight_times_too_large() {
    let Some(traces) = common::traces() else {
        return;
    };
    let stat = |block_bytes| {
        let options = ReadOptions {
            block_bytes,
            ..ReadOptions::default()
        };
        let workload = Workload::open(&traces.join("arc/OLTP.lis.zst"), &options).unwrap();
        WorkloadStat::of(workload, false).unwrap()
    };
    let (own, pages) = (stat(None), stat(Some(4096)));
    assert_eq!((own.requests(), own.bytes_max), (914_145, 512));
    assert!(own.to_string().contains("blocks taken as 512 bytes (as in"));
    assert_eq!((pages.bytes_max, pages.unique_pages), (4096, 186_880));
    assert!(
        pages
            .to_string()
            .contains("blocks taken as 4096 bytes (as asked)")
    );
    let other = ReadOptions {
        block_bytes: Some(4096),
        ..ReadOptions::default()
    };
    let error = open(&mqsim(20, 3), &other).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "trace is in format mqsim, which says its units: only lis traces have a --block-size"
    );
}
