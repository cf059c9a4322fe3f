//! What a sync acknowledged, after power cuts and kills.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use wharf_runtime::Seed;
use wharf_storage::faulty::Loss;

use crate::{PAGE, create, faulty, small, stored};

/// The power goes at some write or flush, and blocks that were not flushed are lost: what a sync acknowledged
/// is there.
#[test]
fn what_a_sync_acknowledged_survives_a_power_cut() {
    for cut in 0..60 {
        let (target, ram, power) = faulty(cut);
        let cache = small(16);
        let file = cache.open_target(target.clone()).unwrap();
        let mut rng = Seed(cut).child("writes").rng();
        power.cut_at(cut);
        // For each page the number last acknowledged, and the last one written.
        let (mut safe, mut last) = ([0u8; 40], [0u8; 40]);
        while power.is_on() {
            let page = rng.below(40) as usize;
            let next = last[page].wrapping_add(1);
            if file
                .write_all_at(&[next; PAGE], (page * PAGE) as u64)
                .is_err()
            {
                break;
            }
            last[page] = next;
            if rng.chance(1, 6) && file.sync_all().is_ok() {
                safe = last;
            }
        }
        power.come_back();
        target.settle(Loss::All).unwrap();
        for (page, bytes) in stored(&ram).chunks(PAGE).enumerate() {
            let range = safe[page]..=last[page];
            let fits = bytes.iter().all(|byte| range.contains(byte));
            assert!(fits, "cut {cut}: page {page} is not in {range:?}");
        }
    }
}

const KILLED: &str = "WHARF_TEST_KILLED";
const RECORDS: u64 = 64;

/// The process that is killed: writes numbered records all over a file, syncs, and says how far it got.
#[test]
fn the_killed_process() {
    let Ok(path) = std::env::var(KILLED) else {
        return;
    };
    let cache = small(24);
    let file = create(&cache, Path::new(&path));
    for round in 1u64.. {
        for record in 0..RECORDS {
            file.write_all_at(&[round as u8; 3_000], record * 3_000)
                .unwrap();
        }
        file.sync_all().unwrap();
        println!("synced {round}");
    }
}

#[test]
fn what_a_sync_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..5u64 {
        let path = folder.path().join(run.to_string());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crashes::the_killed_process", "--nocapture"])
            .env(KILLED, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut synced = lines.filter_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("synced ")
                .and_then(|n| n.parse::<u64>().ok())
        });
        let enough = synced.find(|round| *round > 3 * run).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = synced.last().unwrap_or(enough);
        let file = std::fs::File::open(&path).unwrap();
        let mut record = vec![0; 3_000];
        for number in 0..RECORDS {
            file.read_exact_at(&mut record, number * 3_000).unwrap();
            // Of this round, or of the next, which was under way; a record may lie in two pages.
            let ahead = |byte: &u8| byte.wrapping_sub(acknowledged as u8) <= 1;
            assert!(record.iter().all(ahead), "run {run}: record {number}");
        }
    }
}
