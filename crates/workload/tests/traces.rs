//! Every reference trace against its published counts, and against every wrong format.

mod common;

use wharf_workload::{
    BlkAction, Format, ReadOptions, TraceReader, Workload, WorkloadError, WorkloadStat,
};

/// One row of the table of published figures.
struct Row {
    file: &'static str,
    format: &'static str,
    requests: u64,
    unique_pages: u64,
    /// Share of reads in %, touches per page, mean size in KiB of all, reads, writes, as published
    /// (rounded; NaN where not published).
    read_percent: f64,
    touches_per_page: f64,
    mean_kib: [f64; 3],
}

const NAN: f64 = f64::NAN;

#[rustfmt::skip]
const ROWS: [Row; 21] = [
    Row { file: "cloudphysics/cloudPhysicsIO.vscsi", format: "vscsi", requests: 113_872, unique_pages: 269_210, read_percent: 41.3, touches_per_page: 4.24, mean_kib: [36.1, 37.4, 35.2] },
    Row { file: "cloudphysics/cloudPhysicsIO.csv", format: "cloudphysics", requests: 113_872, unique_pages: 269_210, read_percent: 41.3, touches_per_page: 4.24, mean_kib: [36.1, 37.4, 35.2] },
    Row { file: "umass/fin1.trace", format: "disksim-pages", requests: 50_000, unique_pages: 31_150, read_percent: 58.4, touches_per_page: 4.20, mean_kib: [7.0, 7.5, 6.4] },
    Row { file: "mqsim/tpcc-small.trace", format: "mqsim", requests: 6_999, unique_pages: 20_470, read_percent: 62.6, touches_per_page: 1.01, mean_kib: [8.3, 8.1, 8.7] },
    Row { file: "mqsim/wsrch-small.trace", format: "mqsim", requests: 24_783, unique_pages: 93_029, read_percent: 100.0, touches_per_page: 1.00, mean_kib: [15.1, NAN, NAN] },
    Row { file: "msr/rsrch_1.csv", format: "msr", requests: 13_780, unique_pages: 28_775, read_percent: 0.3, touches_per_page: 1.47, mean_kib: [12.2, NAN, NAN] },
    Row { file: "msr/hm_0_part.csv", format: "msr", requests: 7_016, unique_pages: 13_523, read_percent: 83.0, touches_per_page: 1.57, mean_kib: [11.8, 13.0, 5.8] },
    Row { file: "msr/mds_0_first1000.csv", format: "msr", requests: 1_000, unique_pages: 448, read_percent: 0.0, touches_per_page: 3.48, mean_kib: [5.7, NAN, 5.7] },
    Row { file: "heimdall/msr.cut.per_10k.rw_20_80.105.trace", format: "heimdall", requests: 10_000, unique_pages: 7_385, read_percent: 20.2, touches_per_page: 2.24, mean_kib: [5.4, 1.8, 6.2] },
    Row { file: "tencent/cloud_storage-sample.bz2", format: "tencent", requests: 50_000, unique_pages: 348_239, read_percent: 49.0, touches_per_page: 1.09, mean_kib: [29.7, 25.8, 33.4] },
    Row { file: "systor17/systor17-traces-sample.csv.gz", format: "systor17", requests: 999, unique_pages: 9_831, read_percent: 82.7, touches_per_page: 1.06, mean_kib: [38.2, 43.0, 15.6] },
    Row { file: "fiu/cheetah.cs.fiu.edu-110108-113008.1_sample_10000_lines", format: "fiu", requests: 9_997, unique_pages: 9_201, read_percent: 89.0, touches_per_page: 1.09, mean_kib: [4.0, 4.0, 4.0] },
    Row { file: "fiu/home1sample.blkparse", format: "fiu", requests: 1_000, unique_pages: 461, read_percent: 0.0, touches_per_page: 2.17, mean_kib: [4.0, NAN, 4.0] },
    Row { file: "mobile/Booting_log176.txt", format: "biotracer", requests: 18_417, unique_pages: 232_499, read_percent: 66.9, touches_per_page: 1.06, mean_kib: [53.3, 61.1, 37.5] },
    Row { file: "mobile/Movie_log121.txt", format: "biotracer", requests: 4_781, unique_pages: 32_501, read_percent: 94.6, touches_per_page: 1.00, mean_kib: [27.3, 27.9, 17.1] },
    Row { file: "disksim/ssd-postmark-aligned2.trace", format: "disksim", requests: 62_257, unique_pages: 1_533_388, read_percent: 83.2, touches_per_page: 2.26, mean_kib: [222.0, 99.0, 833.0] },
    Row { file: "msps/DTRS1K.trace", format: "mqsim", requests: 127_043, unique_pages: 1_272_267, read_percent: 89.0, touches_per_page: 1.38, mean_kib: [55.3, 55.6, 53.4] },
    Row { file: "arc/OLTP.lis.zst", format: "lis", requests: 914_145, unique_pages: 186_880, read_percent: 100.0, touches_per_page: 4.89, mean_kib: [4.0, 4.0, NAN] },
    Row { file: "blkparse/blkparseout_f2fs.txt", format: "blkparse", requests: 5_727, unique_pages: 232_492, read_percent: 82.5, touches_per_page: 1.03, mean_kib: [167.0, 111.0, 427.0] },
    Row { file: "blkparse/evelii_sample.txt", format: "blkparse", requests: 1_695, unique_pages: 48_379, read_percent: 100.0, touches_per_page: 1.00, mean_kib: [114.0, 114.0, NAN] },
    Row { file: "fio/iolog_8G.log", format: "fio", requests: 17_395, unique_pages: 17_395, read_percent: 0.0, touches_per_page: 1.00, mean_kib: [4.0, NAN, 4.0] },
];

/// How the published figures were counted: those of `lis` on pages.
fn counted(row: &Row) -> ReadOptions {
    ReadOptions {
        block_bytes: (row.format == "lis").then_some(4096),
        ..ReadOptions::default()
    }
}

/// Whether `value` rounds to a published figure (of one decimal below 100, of none above).
fn rounds_to(value: f64, published: f64, unit: f64) -> bool {
    published.is_nan() || (value - published).abs() <= unit / 2.0 + 1e-9
}

#[test]
fn every_trace_is_recognised_and_gives_its_published_counts() {
    let Some(traces) = common::traces() else {
        return;
    };
    for row in &ROWS {
        let path = traces.join(row.file);
        let workload = Workload::open(&path, &counted(row)).unwrap();
        let stat = WorkloadStat::of(workload, false).unwrap();
        let file = row.file;
        assert_eq!(stat.info.format, row.format, "{file}");
        assert_eq!(stat.requests(), row.requests, "{file}: requests");
        assert_eq!(
            stat.unique_pages, row.unique_pages,
            "{file}: distinct pages"
        );
        let read_percent = 100.0 * stat.read_share();
        assert!(
            rounds_to(read_percent, row.read_percent, 0.1),
            "{file}: {read_percent} % reads"
        );
        let touches = stat.touches_per_page();
        assert!(
            rounds_to(touches, row.touches_per_page, 0.01),
            "{file}: {touches} a page"
        );
        for (op, published) in [stat.all(), stat.reads, stat.writes]
            .iter()
            .zip(row.mean_kib)
        {
            let kib = op.mean_bytes() / 1024.0;
            let unit = if published >= 99.0 { 1.0 } else { 0.1 };
            assert!(
                rounds_to(kib, published, unit),
                "{file}: mean {kib} KiB for {published}"
            );
        }
        let bad = if file.starts_with("fiu/cheetah") {
            4
        } else {
            0
        };
        assert_eq!(
            stat.info.bad_lines, bad,
            "{file}: {:?}",
            stat.info.first_bad_lines
        );
    }
}

#[test]
fn the_right_format_can_also_be_forced() {
    let Some(traces) = common::traces() else {
        return;
    };
    for row in &ROWS {
        let options = ReadOptions {
            format: Some(row.format.parse().unwrap()),
            ..ReadOptions::default()
        };
        let requests = Workload::open(&traces.join(row.file), &options)
            .and_then(Workload::materialise)
            .unwrap()
            .0;
        assert_eq!(requests.len() as u64, row.requests, "{}", row.file);
    }
}

#[test]
fn no_trace_is_read_in_a_wrong_format() {
    let Some(traces) = common::traces() else {
        return;
    };
    for row in &ROWS {
        for format in Format::NAMED
            .into_iter()
            .filter(|format| format.name() != row.format)
        {
            let options = ReadOptions {
                format: Some(format),
                ..ReadOptions::default()
            };
            let result =
                Workload::open(&traces.join(row.file), &options).and_then(Workload::materialise);
            let error = match result {
                Err(error) => error.to_string(),
                // A table with a header that says as much is no wrong one.
                Ok((requests, _)) if format == Format::Csv => {
                    let own = Workload::open(&traces.join(row.file), &ReadOptions::default());
                    let (own, _) = own.and_then(Workload::materialise).unwrap();
                    assert_eq!(requests, own, "{}", row.file);
                    continue;
                }
                Ok((requests, _)) => {
                    panic!("{} gives {} requests as {format}", row.file, requests.len())
                }
            };
            assert!(
                error.contains(format.name()),
                "{} as {format}: {error}",
                row.file
            );
        }
    }
}

#[test]
fn both_forms_of_the_cloudphysics_trace_are_equal_but_for_the_clock() {
    let Some(traces) = common::traces() else {
        return;
    };
    let read = |file: &str| {
        let path = traces.join("cloudphysics").join(file);
        Workload::open(&path, &ReadOptions::default())
            .unwrap()
            .materialise()
            .unwrap()
            .0
    };
    let (binary, text) = (read("cloudPhysicsIO.vscsi"), read("cloudPhysicsIO.csv"));
    assert_eq!(binary.len(), text.len());
    for (a, b) in binary.iter().zip(&text) {
        assert_eq!((a.op, a.offset, a.bytes), (b.op, b.offset, b.bytes));
        // The CSV has whole seconds only.
        assert_eq!(a.time_ns / 1_000_000_000, b.time_ns / 1_000_000_000);
    }
}

#[test]
fn one_blkparse_action_is_counted_and_can_be_chosen() {
    let Some(traces) = common::traces() else {
        return;
    };
    let count = |file: &str, action| {
        let options = ReadOptions {
            blkparse_action: Some(action),
            ..ReadOptions::default()
        };
        Workload::open(&traces.join("blkparse").join(file), &options)
            .and_then(Workload::materialise)
            .map(|(requests, _)| requests.len())
    };
    for action in [
        BlkAction::Inserted,
        BlkAction::Dispatched,
        BlkAction::Completed,
    ] {
        assert_eq!(count("blkparseout_f2fs.txt", action).unwrap(), 5_727);
        assert_eq!(count("evelii_sample.txt", action).unwrap(), 1_694);
    }
    let none = count("blkparseout_f2fs.txt", BlkAction::Queued).unwrap_err();
    assert!(matches!(none, WorkloadError::NoRequests { .. }), "{none}");
}

/// The five-column files again, their marks taken away: what can no longer be told must be asked.
#[test]
fn ascii_columns_without_their_marks_are_ambiguous_not_guessed() {
    let Some(traces) = common::traces() else {
        return;
    };
    let detect = |text: String| {
        TraceReader::from_bytes("edited", text.into_bytes(), &ReadOptions::default())
            .map(|reader| reader.format().to_string())
            .map_err(|error| error.to_string())
    };
    let text = |file: &str| std::fs::read_to_string(traces.join(file)).unwrap();
    let blanks = detect(text("umass/fin1.trace").replace('\t', " ")).unwrap_err();
    assert!(blanks.contains("disksim, disksim-pages"), "{blanks}");
    let postmark = text("disksim/ssd-postmark-aligned2.trace");
    let tabs = |lines: &mut dyn Iterator<Item = &str>| -> String {
        lines.map(|line| line.replace(' ', "\t") + "\n").collect()
    };
    // Requests that continue one another prove sectors, whatever stands between the columns.
    assert_eq!(
        detect(tabs(&mut postmark.lines().take(40))).unwrap(),
        "disksim"
    );
    assert!(detect(tabs(&mut postmark.lines().take(3))).is_err());
    let small: String = text("heimdall/msr.cut.per_10k.rw_20_80.105.trace")
        .lines()
        .filter(|line| line.contains(" 4096 "))
        .map(|line| format!("{line}\n"))
        .collect();
    let error = detect(small).unwrap_err();
    assert!(
        error.contains("disksim") && error.contains("heimdall"),
        "{error}"
    );
}

#[test]
fn a_spelled_out_layout_is_taken_as_it_is() {
    let Some(traces) = common::traces() else {
        return;
    };
    let format = "ascii:time=ms,offset=sector,size=sector,read=1"
        .parse()
        .unwrap();
    let options = ReadOptions {
        format: Some(format),
        ..ReadOptions::default()
    };
    let workload = Workload::open(&traces.join("umass/fin1.trace"), &options).unwrap();
    let stat = WorkloadStat::of(workload, false).unwrap();
    assert_eq!(stat.requests(), 50_000);
    assert!(stat.all().mean_bytes() < 1024.0);
}
