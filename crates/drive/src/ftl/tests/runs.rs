//! Changes in the log: many in few bytes, in any order, and never one too many.

use super::*;
use crate::ftl::trims::{Trim, decode_runs, decode_trims, encode_runs, encode_trims};

/// A core of 1 GiB of flash under a namespace of 64 GiB.
fn large() -> DriveConfig {
    let mut config = config(0);
    config.geometry.pages_per_block = 1024;
    config.geometry.blocks_per_plane = 128;
    config.ftl.over_provisioning = 0.1;
    config.ftl.shown_bytes = 64 << 30;
    config
}

fn write(ftl: &mut Ftl, lpn: u32) {
    while let Err(Refusal::NoFrame) = ftl.stage(0, lpn, NONE, |frame| frame.fill(1)) {
        ftl.finish_all();
    }
}

#[test]
fn runs_come_back_as_they_went_in() {
    let mut rng = Seed(11).rng();
    for _ in 0..500 {
        let (mut runs, mut at) = (Vec::new(), 0u32);
        for _ in 0..rng.below(60) {
            let shift = rng.below(20);
            let (gap, count) = (
                rng.below(1 << shift) as u32,
                1 + rng.below(1 << (shift / 2)) as u32,
            );
            let (first, zeros) = (at + gap, rng.chance(1, 3));
            runs.push(Trim {
                first,
                count,
                seq: 77,
                zeros,
            });
            at = first + count;
        }
        let record = encode_runs(&runs, 77);
        let (_, items) = crate::ftl::log::Kind::parse(&record).unwrap();
        assert_eq!(decode_runs(items).unwrap(), runs);
        // Cut short, it is an error or fewer runs, and no panic.
        for end in 0..items.len() {
            assert!(decode_runs(&items[..end]).map_or(true, |some| some.len() <= runs.len()));
        }
    }
    assert!(decode_runs(&[255; 40]).is_err(), "a number beyond 32 bits");
}

#[test]
fn deallocations_alone_are_written_as_they_always_were() {
    let trim = |zeros| Trim {
        first: 5,
        count: 2,
        seq: 9,
        zeros,
    };
    let plain = encode_trims(&[trim(false)]);
    assert_eq!(plain[..8], [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(plain[8..], [5, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let mixed = encode_trims(&[trim(false), trim(true)]);
    assert_eq!(mixed[..4], [6, 0, 0, 0]);
    assert!(decode_trims(&mixed[8..]).eq([trim(false), trim(true)]));
}

/// One round of an eviction: 262,144 pages scattered over the namespace, deallocated one by one.
#[test]
fn an_eviction_round_of_scattered_pages_takes_no_checkpoint() {
    const ROUND: u32 = 160_000;
    let config = large();
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    let pages = ftl.plan().logical_pages;
    let scattered = |n: u32| (n * (pages / ROUND)) + n.wrapping_mul(0x9e37_79b1) % (pages / ROUND);
    (0..ROUND).for_each(|n| write(&mut ftl, scattered(n)));
    ftl.finish_all();
    let mut finished = Finished::default();
    let log_before = ftl.media_mut().log_len();
    for n in 0..ROUND {
        assert_eq!(ftl.deallocate(scattered(n), 1, &mut finished), 1);
        if ftl.log_is_pressing() {
            ftl.write_log().unwrap();
        }
    }
    ftl.write_log().unwrap();
    assert_eq!(ftl.counters().checkpoints, 0);
    let log_bytes = ftl.media_mut().log_len() - log_before;
    println!(
        "{:.2} bytes of log a page",
        log_bytes as f64 / f64::from(ROUND)
    );
    assert!(log_bytes < 4 * u64::from(ROUND), "{log_bytes} bytes");
    let ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
    assert_eq!((ftl.mapped(), ftl.used_granules()), (0, 0));
    assert_eq!(ftl.recovery().trimmed_pages, u64::from(ROUND));
    ftl.verify();
}

/// A page that was deallocated and written again before the log was written: the copy is newer than the
/// change, older than the record.
#[test]
fn a_page_written_after_its_deallocation_outlives_the_log() {
    let config = sparse_config(0);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    let mut finished = Finished::default();
    for lpn in [3, 4, 200] {
        write(&mut ftl, lpn);
    }
    ftl.finish_all();
    ftl.deallocate(3, 2, &mut finished);
    ftl.zero(200, 1, &mut finished);
    write(&mut ftl, 3);
    write(&mut ftl, 200);
    ftl.finish_all();
    ftl.zero(9, 1, &mut finished);
    ftl.write_log().unwrap();
    let ftl = open(&config, ftl.into_media(), &PowerSwitch::on());
    let places = [3, 4, 200, 9].map(|lpn| ftl.place(lpn));
    assert!(
        matches!(
            places,
            [
                Place::Flash(_),
                Place::Unmapped | Place::Trimmed,
                Place::Flash(_),
                Place::Zero
            ]
        ),
        "{places:?}"
    );
}
