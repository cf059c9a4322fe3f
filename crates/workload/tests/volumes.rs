//! One volume of many, and traces in archives: as Tencent's are published (SNIA: a `.tgz` for each hour, all volumes in it).

mod common;

use std::path::Path;
use std::process::Command;

use wharf_workload::{Format, ReadOptions, TraceReader, Workload, WorkloadError, WorkloadInfo};

const TENCENT: &str = "1538323200,8,8,0,1205\n1538323200,16,8,1,7\n1538323200,24,8,1,1205\n\
                       1538323201,32,8,0,2982\n1538323201,40,8,0,7\n";

/// Offsets in sectors, of the requests of some volumes.
fn read(
    bytes: &[u8],
    volumes: &[u32],
    requests_max: Option<u64>,
) -> Result<(Vec<u64>, WorkloadInfo), WorkloadError> {
    let options = ReadOptions {
        volumes: volumes.to_vec(),
        requests_max,
        ..ReadOptions::default()
    };
    let reader = TraceReader::from_bytes("t", bytes.to_vec(), &options)?;
    let (requests, info) = Workload::from_stream(reader).materialise()?;
    assert_eq!(requests.len() as u64, info.requests);
    Ok((requests.iter().map(|r| r.offset / 512).collect(), info))
}

#[test]
fn volumes_are_chosen_by_number() {
    let text = TENCENT.as_bytes();
    let of = |volumes: &[u32]| read(text, volumes, None).unwrap();
    assert_eq!(of(&[]).0, [8, 16, 24, 32, 40]);
    assert_eq!(of(&[]).1.notes, Vec::<String>::new());
    let (offsets, info) = of(&[1205]);
    assert_eq!((offsets, info.lines), (vec![8, 24], 5));
    assert_eq!(info.notes, ["3 requests of other volumes left out"]);
    assert_eq!(of(&[2982, 7]).0, [16, 32, 40]);
    assert_eq!(
        read(text, &[7], Some(1)).unwrap().0,
        [16],
        "the first so many of it"
    );
}

#[test]
fn a_volume_that_is_not_there_is_an_error() {
    let text = TENCENT.as_bytes();
    for volumes in [&[9][..], &[7, 9]] {
        let error = read(text, volumes, None).unwrap_err().to_string();
        assert!(
            error.starts_with("t has no request of volume 9, and "),
            "{error}"
        );
    }
    // Nobody looked so far.
    assert_eq!(read(text, &[1205, 9], Some(2)).unwrap().0, [8, 24]);
}

#[test]
fn the_sample_of_tencent_has_its_volumes() {
    let Some(traces) = common::traces() else {
        return;
    };
    let sample = std::fs::read(traces.join("tencent/cloud_storage-sample.bz2")).unwrap();
    assert_eq!(read(&sample, &[1205], None).unwrap().0.len(), 130);
    assert_eq!(read(&sample, &[2982, 1205], None).unwrap().0.len(), 258);
}

/// As `tar` packs files, in one of its formats.
fn tar(folder: &Path, how: &[&str], names: &[&str]) -> Option<Vec<u8>> {
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(how).args(["-cO"]).args(names);
    let Ok(packed) = tar.output() else {
        println!("skipped: there is no tar");
        return None;
    };
    assert!(packed.status.success(), "{packed:?}");
    Some(packed.stdout)
}

/// The first line of a trace in a `.tgz` was lost in the header before it, and the end was a bad line.
#[test]
fn a_trace_in_an_archive_lost_its_first_request() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("volumes-tar");
    std::fs::create_dir_all(folder.join("in")).unwrap();
    std::fs::write(folder.join("in/2018100101"), TENCENT).unwrap();
    std::fs::write(folder.join("in/2018100102"), TENCENT).unwrap();
    for how in [
        &["--format=ustar", "-z"][..],
        &["--format=gnu", "-z"],
        &["--format=pax", "-z"],
        &["--format=v7", "-j"],
    ] {
        for name in ["2018100101", "in"] {
            let place = if name == "in" {
                folder.clone()
            } else {
                folder.join("in")
            };
            let Some(packed) = tar(&place, how, &[name]) else {
                return;
            };
            if name == "in" {
                let error = read(&packed, &[], None).unwrap_err().to_string();
                let start = "t is an archive, and it holds more than one file (in/20181001";
                assert!(
                    error.starts_with(start) && error.contains("tar -xOf"),
                    "{error}"
                );
                continue;
            }
            let (offsets, info) = read(&packed, &[], None).unwrap();
            assert_eq!(offsets, [8, 16, 24, 32, 40], "{how:?}");
            assert_eq!(
                (info.bad_lines, info.format),
                (0, Format::Tencent.to_string())
            );
            assert_eq!(info.notes, ["the file 2018100101 of an archive"]);
        }
    }
}
