//! Discards are read by every format that has them.

mod common;

use wharf_workload::{Op, OutputFormat, ReadOptions, TraceReader, Workload, WorkloadStat, convert};

fn open(text: &[u8]) -> Workload {
    let reader = TraceReader::from_bytes("trace", text.to_vec(), &ReadOptions::default());
    Workload::from_stream(reader.unwrap())
}

/// The discards of a trace passed for lines without a request, in every format: nobody saw that a
/// part of the trace was missing.
#[test]
fn the_discards_of_a_trace_were_left_out_in_silence() {
    let blkparse = "8,16 0 1 0.5 77 Q W 0 + 16 [a]\n8,16 0 2 0.6 77 Q DS 0 + 8 [a]\n\
                    8,16 0 3 0.7 77 Q R 8 + 8 [a]\n8,16 0 4 0.8 77 Q DE 8 + 8 [a]\n";
    let fio = "fio version 2 iolog\n/a add\n/a write 0 8192\n/a trim 0 4096\n/a trim 4096 4096\n/a read 0 4096\n";
    let wharf = "# wharf trace 1\n0 W 0 8192\n1 D 0 4096\n1 D 4096 4096 0 5\n- R 0 4096\n";
    for text in [blkparse, fio, wharf] {
        let stat = WorkloadStat::of(open(text.as_bytes()), false).unwrap();
        assert_eq!((stat.requests(), stat.info.bad_lines), (2, 0), "{text}");
        assert_eq!(
            (stat.discards.requests, stat.discards.bytes),
            (2, 8192),
            "{text}"
        );
        assert!(
            stat.to_string().contains("discards      2, mean 4 KiB"),
            "{stat}"
        );
        // And they come back from our own format.
        let mut copy = Vec::new();
        let scratch = std::env::temp_dir();
        convert(
            open(text.as_bytes()),
            &mut copy,
            OutputFormat::Wharf,
            &scratch,
        )
        .unwrap();
        let (first, _) = open(text.as_bytes()).materialise().unwrap();
        assert_eq!(open(&copy).materialise().unwrap().0, first, "{text}");
    }
}

/// A device that is discarded whole is told in pieces of nearly 4 GiB, more than any read or write
/// has.
#[test]
fn a_discard_of_nearly_4_gib_was_no_line_of_a_trace() {
    let (requests, info) = open(b"8,16 0 1 0.5 77 Q D 0 + 8388607 [mkfs]\n")
        .materialise()
        .unwrap();
    assert_eq!(
        (requests[0].op, u64::from(requests[0].bytes)),
        (Op::Discard, 8_388_607 * 512)
    );
    assert_eq!(info.bad_lines, 0);
}

/// Records of SCSI commands have neither the ranges of an UNMAP nor how far a WRITE SAME goes. They
/// were passed over without a word, or were bad lines.
#[test]
fn scsi_commands_without_their_ranges_were_not_mentioned() {
    let mut csv = "version,time,op,size,lbn\n".to_owned();
    for op in ["2a", "42", "41", "93", "28"] {
        csv += &format!("1,5,{op},512,8\n");
    }
    let mut binary = Vec::new();
    for op in [0x2a, 0x42, 0x41, 0x93, 0x28] {
        let mut record = [0; 32];
        record[4..8].copy_from_slice(&512u32.to_le_bytes());
        record[12..16].copy_from_slice(&[op, 0, 0, 1]);
        record[16] = 8;
        binary.extend(record);
    }
    for text in [csv.as_bytes(), &binary] {
        let (requests, info) = open(text).materialise().unwrap();
        assert_eq!((requests.len(), info.bad_lines), (2, 0));
        assert!(
            info.notes[0].starts_with("3 UNMAP and WRITE SAME commands left out"),
            "{:?}",
            info.notes
        );
    }
}

/// The traces at hand: blktrace's of a machine without discards.
#[test]
fn processes_of_blkparse_and_fiu_are_kept() {
    let Some(traces) = common::traces() else {
        return;
    };
    for (file, known, process) in [
        ("blkparse/evelii_sample.txt", 1_695, 4020),
        ("fiu/home1sample.blkparse", 1_000, 2522),
    ] {
        let workload = Workload::open(&traces.join(file), &ReadOptions::default()).unwrap();
        let (requests, _) = workload.materialise().unwrap();
        let of_some = requests.iter().filter(|request| request.has_process());
        assert_eq!(of_some.count(), known, "{file}");
        assert_eq!(requests[0].process, process, "{file}");
    }
}
