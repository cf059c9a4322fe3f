//! Damaged input: every reader either reads or refuses, and never panics.

mod common;

use wharf_workload::fuzz::parse_any;
use wharf_workload::generate::SeededRng;
use wharf_workload::{BadLinePolicy, Format, ReadOptions, TraceReader, Workload, WorkloadError};

/// A few good lines of every format; `{}` stands for numbers that the tests replace.
fn examples() -> Vec<(Format, Vec<u8>)> {
    let text = |format, text: &str| (format, text.repeat(20).into_bytes());
    let md5 = "0123456789abcdef0123456789abcdef";
    let mut all = vec![
        text(
            Format::Msr,
            "128166372010810581,mds,0,Write,2654453760,4096,54086\n",
        ),
        text(
            Format::Fiu,
            &format!("467651 2522 kjournald 644661632 8 W 6 0 {md5}\n"),
        ),
        text(Format::Tencent, "1538323200,4247200,128,1,1058\n"),
        text(
            Format::Alibaba,
            "419,W,8792731648,16384,1577808144360767\n7,R,0,512,1577808144360768\n",
        ),
        text(
            Format::DiskSim,
            "7961.833 0 20228336 8 0\n8346.206 0 6397361 9 1\n",
        ),
        text(
            Format::Mqsim,
            "938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n",
        ),
        text(Format::DiskSimPages, "26.214000\t0\t303574\t1\t0\n"),
        text(
            Format::Heimdall,
            "0.000 0 200626176 4096 0\n1.5 0 512 65536 1\n",
        ),
        text(Format::Spc, "0,20941264,8192,W,0.551706\n1,3,512,r,2.5\n"),
        text(Format::Lis, "1 1 0 0\n2 3 9 0\n"),
        text(
            Format::Blkparse,
            "  8,16   0  5  0.000024673  5314  D   R 1611592 + 256 [java]\n",
        ),
        text(
            Format::Biotracer,
            "8\t\t8\t\t4096\t\t4\t\t1.74\t\t1.75\t\t1.76\t\t1.77\n",
        ),
    ];
    let headed = |format, head: &str, lines: &str| {
        (format, format!("{head}\n{}", lines.repeat(20)).into_bytes())
    };
    all.push(headed(
        Format::Wharf,
        "# wharf trace 1",
        "12 R 4096 8192\n- W 0 512 7\n",
    ));
    all.push(headed(
        Format::Csv,
        "time_us,op,offset,size",
        "7,R,4096,512\n8,W,0,8192\n",
    ));
    all.push(headed(
        Format::Fio,
        "fio version 3 iolog",
        "17 /dev/sda write 2188587008 4096\n",
    ));
    all.push(headed(
        Format::CloudPhysics,
        "version,time,op,size,lbn",
        "1,5633898,2a,512,42932745\n",
    ));
    all.push(headed(
        Format::Systor,
        "Timestamp,Response,IOType,LUN,Offset,Size",
        "1456095145.133076000,0.000806000,R,0,899056122368,131072\n",
    ));
    let mut record = [0; 32];
    record[4..8].copy_from_slice(&4096u32.to_le_bytes());
    record[12..16].copy_from_slice(&[0x2a, 0, 0, 1]);
    record[16..24].copy_from_slice(&77u64.to_le_bytes());
    all.push((Format::Vscsi, record.repeat(20)));
    let mut record = [0; 24];
    record[..4].copy_from_slice(&17u32.to_le_bytes());
    record[4..12].copy_from_slice(&99u64.to_le_bytes());
    record[12..16].copy_from_slice(&512u32.to_le_bytes());
    record[16..].copy_from_slice(&(-1i64).to_le_bytes());
    all.push((Format::Oracle, record.repeat(20)));
    assert_eq!(all.len(), Format::NAMED.len());
    all
}

#[test]
fn good_examples_are_read_whole() {
    for (format, bytes) in examples() {
        let lines = bytes.iter().filter(|&&b| b == b'\n').count() as u64;
        let requests = parse_any(&bytes, Some(format));
        let is_binary = matches!(format, Format::Vscsi | Format::Oracle);
        let expected = if is_binary { 20 } else { lines };
        assert!(
            requests == expected || requests + 1 == expected,
            "{format}: {requests}"
        );
    }
}

#[test]
fn examples_are_detected_or_said_to_be_ambiguous() {
    for (format, bytes) in examples() {
        match TraceReader::from_bytes("example", bytes, &ReadOptions::default()) {
            Ok(reader) => assert_eq!(reader.format(), format),
            Err(WorkloadError::AmbiguousFormat { candidates, .. }) => {
                assert!(candidates.0.contains(&format), "{format}: {candidates}");
            }
            Err(error) => panic!("{format}: {error}"),
        }
    }
}

#[test]
fn mutated_input_never_panics() {
    let mut rng = SeededRng::child(42, "mutations");
    let seeds = examples();
    for round in 0..400 {
        for (format, bytes) in &seeds {
            let mut bytes = bytes.clone();
            for _ in 0..=rng.below(8) {
                mutate(&mut bytes, &mut rng);
            }
            parse_any(&bytes, Some(*format));
            parse_any(&bytes, None);
            // Also through every other reader, some of the time.
            if round % 40 == 0 {
                for other in Format::NAMED {
                    parse_any(&bytes, Some(other));
                }
            }
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut SeededRng) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(7) {
        0 => bytes.truncate(at),
        1 => bytes[at] = rng.bits() as u8,
        2 => bytes[at] ^= 1 << rng.below(8),
        3 => drop(bytes.remove(at)),
        4 => bytes.insert(at, b"\n\t ,.-09\0\r"[rng.below(10) as usize]),
        5 => {
            let huge = [
                "18446744073709551615",
                "9223372036854775807",
                "99999999999999999999",
            ];
            let huge = huge[rng.below(3) as usize].bytes();
            drop(bytes.splice(at..at, huge));
        }
        _ => {
            let end = (at + rng.below(64) as usize).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, copy));
        }
    }
}

#[test]
fn each_number_made_huge_is_a_bad_line_or_harmless() {
    let strict = |format| ReadOptions {
        format: Some(format),
        bad_lines: BadLinePolicy {
            share: 0.0,
            grace: 0,
        },
        ..ReadOptions::default()
    };
    for (format, bytes) in examples()
        .into_iter()
        .filter(|e| !matches!(e.0, Format::Vscsi | Format::Oracle))
    {
        let text = String::from_utf8(bytes).unwrap();
        let line = text.lines().last().unwrap();
        let head = text
            .lines()
            .next()
            .filter(|head| *head != line && text.lines().nth(2) != Some(head));
        let numbers: Vec<(usize, usize)> = digit_runs(line);
        let mut refused = 0;
        for &(from, to) in &numbers {
            for huge in [
                "18446744073709551615",
                "9223372036854775800",
                "99999999999999999999999",
            ] {
                let edited = format!("{}{huge}{}", &line[..from], &line[to..]);
                let whole = format!("{}\n{edited}\n", head.unwrap_or(line));
                let options = strict(format);
                let result = TraceReader::from_bytes("huge", whole.clone().into_bytes(), &options)
                    .map(Workload::from_stream)
                    .and_then(Workload::materialise);
                refused += u64::from(result.is_err());
                parse_any(whole.as_bytes(), Some(format));
            }
        }
        assert!(
            refused >= 4,
            "{format}: only {refused} of {} refused",
            3 * numbers.len()
        );
    }
}

fn digit_runs(line: &str) -> Vec<(usize, usize)> {
    let bytes = line.as_bytes();
    let is_digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let starts = (0..bytes.len()).filter(|&i| is_digit(i) && (i == 0 || !is_digit(i - 1)));
    starts
        .map(|from| (from, (from..).find(|&i| !is_digit(i)).unwrap()))
        .collect()
}

#[test]
fn bad_lines_are_counted_and_past_the_share_reading_stops_at_a_line() {
    let good = "# wharf trace 1\n".to_owned() + &"1 R 0 4096\n".repeat(3000);
    let with_bad =
        |n: usize| good.clone() + &"1 R 0 zero\n".repeat(n) + &"1 R 0 4096\n".repeat(100);
    let read = |text: String, options: &ReadOptions| {
        TraceReader::from_bytes("text", text.into_bytes(), options)
            .map(Workload::from_stream)
            .and_then(Workload::materialise)
    };
    let (requests, info) = read(with_bad(20), &ReadOptions::default()).unwrap();
    assert_eq!((requests.len(), info.bad_lines), (3100, 20));
    assert_eq!(
        info.first_bad_lines[0].to_string(),
        "line 3002: bytes is not a number: \"1 R 0 zero\""
    );
    let error = read(with_bad(60), &ReadOptions::default()).unwrap_err();
    let WorkloadError::TooManyBadLines {
        bad,
        lines,
        ref first,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((bad, lines, first.line), (31, 3032, 3002));
    let lenient = BadLinePolicy {
        share: 0.5,
        ..BadLinePolicy::default()
    };
    let options = ReadOptions {
        bad_lines: lenient,
        ..ReadOptions::default()
    };
    assert_eq!(read(with_bad(60), &options).unwrap().1.bad_lines, 60);
}

#[test]
fn empty_and_foreign_files_are_refused_in_one_line() {
    let refuse = |bytes: &[u8]| {
        let result = TraceReader::from_bytes("x", bytes.to_vec(), &ReadOptions::default());
        let error = result
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains("no trace format") && !error.contains('\n'),
            "{error}"
        );
    };
    refuse(b"");
    refuse(b"\n\n\n");
    refuse(b"hello world\n");
    refuse(b"a,b,c\n1,2,3\n");
    refuse(&[0; 100_000]);
    refuse(b"fio version 4 iolog\n0 /dev/sda write 0 4096\n");
    let missing = Workload::open("/no/such/file".as_ref(), &ReadOptions::default());
    let error = missing
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        error.starts_with("cannot open trace /no/such/file"),
        "{error}"
    );
}

#[test]
fn damaged_archives_are_errors() {
    let Some(traces) = common::traces() else {
        return;
    };
    for file in [
        "tencent/cloud_storage-sample.bz2",
        "systor17/systor17-traces-sample.csv.gz",
        "arc/OLTP.lis.zst",
    ] {
        let mut bytes = std::fs::read(traces.join(file)).unwrap();
        let read = |bytes: &[u8]| {
            TraceReader::from_bytes(file, bytes.to_vec(), &ReadOptions::default())
                .map(Workload::from_stream)
                .and_then(Workload::materialise)
        };
        assert!(
            read(&bytes[..bytes.len() / 2]).is_err(),
            "{file} cut in half"
        );
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        assert!(read(&bytes).is_err(), "{file} with a byte changed");
    }
}
