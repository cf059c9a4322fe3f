//! Recovery from a checkpoint finds what a look at every page finds, and looks at few.

use super::*;
use crate::ftl::Place;
use crate::ftl::log::{Kind, Trim, decode_trims, encode_trims, long, word};
use crate::media::{CoreGeometry, FileImage, FileOptions, ImageGeometry, KillPoint};

/// All that recovery decides of a core.
#[derive(Debug, PartialEq, Eq)]
struct State {
    on_flash: Vec<Option<u32>>,
    mapped: u32,
    blocks: Vec<(super::super::BlockState, u32)>,
}

impl State {
    fn of(ftl: &Ftl) -> State {
        let on_flash = |lpn| match ftl.place(lpn) {
            Place::Flash(ppn) => Some(ppn),
            Place::Unmapped | Place::Trimmed => None,
            Place::Frame(_) => panic!("page {lpn} is in a frame after power-on"),
        };
        State {
            on_flash: (0..ftl.plan().logical_pages).map(on_flash).collect(),
            mapped: ftl.mapped(),
            blocks: ftl
                .blocks
                .iter()
                .map(|(_, block)| (block.state, block.valid))
                .collect(),
        }
    }
}

/// A log that says of deallocated pages what `log` says, without its checkpoint.
fn without_checkpoint(log: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut trims, mut held_pages) = (Vec::new(), Vec::new());
    let (mut checkpoint_seq, mut lpn) = (0, 0);
    for record in log {
        let (kind, items) = Kind::parse(record).unwrap();
        match kind {
            Kind::Checkpoint => checkpoint_seq = long(&items[..8]),
            Kind::Blocks => {}
            Kind::Map => {
                for entry in items.chunks_exact(4) {
                    match word(entry) {
                        u32::MAX => held_pages.push(lpn),
                        1 => trims.push(Trim {
                            first: lpn,
                            count: 1,
                            seq: checkpoint_seq,
                        }),
                        _ => {}
                    }
                    lpn += 1;
                }
            }
            Kind::Held => trims.extend(held_pages.iter().zip(items.chunks_exact(4)).map(
                |(lpn, item)| {
                    let seq = checkpoint_seq - u64::from(word(item));
                    Trim {
                        first: *lpn,
                        count: 1,
                        seq,
                    }
                },
            )),
            Kind::Trims => trims.extend(decode_trims(items)),
        }
    }
    vec![encode_trims(&trims)]
}

fn replace_log(media: &mut AnyMedia, log: &[Vec<u8>]) {
    let slices: Vec<&[u8]> = log.iter().map(Vec::as_slice).collect();
    media.log_replace(&slices).unwrap();
}

/// Opens `media` with and without its checkpoint and compares the two; gives them back as they
/// were.
fn compare_with_full_scan(config: &DriveConfig, mut media: AnyMedia) -> AnyMedia {
    let log = media.log_read().unwrap();
    let bounded = open(config, media, &PowerSwitch::on());
    bounded.verify();
    let expected = State::of(&bounded);
    media = bounded.into_media();
    replace_log(&mut media, &without_checkpoint(&log));
    let full = open(config, media, &PowerSwitch::on());
    assert_eq!(full.recovery().map_entries, 0);
    assert_eq!(
        State::of(&full),
        expected,
        "with a full scan (left) and from the checkpoint"
    );
    media = full.into_media();
    replace_log(&mut media, &log);
    media
}

/// Lives of a few dozen operations each, every one ended by a cut after `cuts` media changes (or
/// a random number of them); what is recovered must be allowed by the model.
fn random_lives(seed: u64, checkpoint_pages: u64, lives: u64) -> u64 {
    let config = config(checkpoint_pages);
    let (mut media, mut model, mut version) = (new_media(&config), Model::default(), 0);
    let mut rng = Seed(seed).rng();
    let mut checkpoints = 0;
    for _ in 0..lives {
        let power = PowerSwitch::cut_after(1 + rng.below(60));
        let mut life = Life::begin(&config, media, power.clone(), version);
        for _ in 0..2_000 {
            life.step(&mut rng, &mut model);
            if power.is_cut() {
                break;
            }
        }
        version = life.version;
        checkpoints += life.ftl.counters().checkpoints;
        media = compare_with_full_scan(&config, life.ftl.into_media());
        let mut ftl = open(&config, media, &PowerSwitch::on());
        model.settle(&mut ftl);
        media = ftl.into_media();
    }
    checkpoints
}

#[test]
fn a_checkpoint_and_a_full_scan_find_the_same_after_random_cuts() {
    let mut checkpoints = 0;
    for seed in 0..1_000 {
        // Shown only if the test fails.
        println!("seed {seed}");
        checkpoints += random_lives(seed, 1 + seed % 40, 8);
    }
    assert!(
        checkpoints > 5_000,
        "only {checkpoints} checkpoints were taken"
    );
}

/// Runs one history and cuts it after every single media change.
#[test]
fn a_cut_after_any_change_around_a_checkpoint_loses_nothing() {
    for seed in 0..12 {
        let config = config(7);
        for changes in 1.. {
            println!("seed {seed}, {changes} changes");
            let (power, mut model) = (PowerSwitch::cut_after(changes), Model::default());
            let mut life = Life::begin(&config, new_media(&config), power.clone(), 0);
            let mut rng = Seed(seed).rng();
            for _ in 0..400 {
                life.step(&mut rng, &mut model);
                if power.is_cut() {
                    break;
                }
            }
            let media = compare_with_full_scan(&config, life.ftl.into_media());
            model.settle(&mut open(&config, media, &PowerSwitch::on()));
            if !power.is_cut() {
                assert!(changes > 150, "the history is too short: {changes} changes");
                break;
            }
        }
    }
}

#[test]
fn recovery_looks_at_no_more_pages_than_were_programmed_since_the_checkpoint() {
    const CHECKPOINT_PAGES: u64 = 10;
    let config = config(CHECKPOINT_PAGES);
    let full_scan_reads = u64::from(config.plan().unwrap().blocks * 4);
    let mut most = 0;
    for seed in 0..100 {
        let power = PowerSwitch::cut_after(150 + seed);
        let mut life = Life::begin(&config, new_media(&config), power.clone(), 0);
        let (mut rng, mut model) = (Seed(seed).rng(), Model::default());
        while !power.is_cut() {
            life.step(&mut rng, &mut model);
        }
        let ftl = open(&config, life.ftl.into_media(), &PowerSwitch::on());
        let recovery = ftl.recovery();
        assert_eq!(recovery.map_entries, u64::from(ftl.plan().logical_pages));
        // A step may end the programs of all frames. Of each page found, the one it replaces is
        // looked at too, and of each page deallocated the copy that counted.
        let programmed_max = CHECKPOINT_PAGES + 8;
        let reads_max = 2 * programmed_max + recovery.trimmed_pages + 8;
        assert!(recovery.oob_reads <= reads_max, "seed {seed}: {recovery:?}");
        assert!(
            ftl.programs_since_checkpoint <= programmed_max,
            "seed {seed}"
        );
        most = most.max(ftl.programs_since_checkpoint);
    }
    assert!(
        most >= CHECKPOINT_PAGES / 2 && most * 3 < full_scan_reads,
        "{most}"
    );
}

#[test]
fn deallocations_without_end_do_not_fill_the_log() {
    let config = config(0);
    let mut geometry = config.plan().unwrap().media_geometry(8);
    // Room for the largest checkpoint and a few deallocations.
    geometry.log_bytes = u64::from(geometry.pages()) * 8 + 512;
    let media = AnyMedia::Stamp(StampMedia::new(geometry).unwrap());
    let (mut model, mut rng) = (Model::default(), Seed(3).rng());
    let mut life = Life::begin(&config, media, PowerSwitch::on(), 0);
    for round in 0..2_000 {
        life.write(round % 7, &mut model);
        life.deallocate(&mut rng, &mut model);
        life.flush(&mut model);
        while life.ftl.collection_need().is_some() {
            life.ftl.finish_all();
            life.collector.step(&mut life.ftl, 0);
        }
    }
    assert!(
        life.ftl.counters().checkpoints > 10,
        "{:?}",
        life.ftl.counters()
    );
    let media = compare_with_full_scan(&config, life.ftl.into_media());
    model.settle(&mut open(&config, media, &PowerSwitch::on()));
}

#[test]
fn a_checkpoint_of_another_drive_is_refused_in_one_line() {
    let config = config(1);
    let mut ftl = open(&config, new_media(&config), &PowerSwitch::on());
    ftl.write_checkpoint().unwrap();
    let mut other = config.clone();
    other.ftl.over_provisioning = 0.6;
    let opened = Ftl::open(
        &other,
        other.plan().unwrap(),
        ftl.into_media(),
        PowerSwitch::on(),
    );
    let line = opened.err().expect("another over-provisioning").to_string();
    assert!(
        line.contains("40 logical pages and 20 blocks") && !line.contains('\n'),
        "{line}"
    );
}

/// Kills the process at every write of a checkpoint to an image: the log before it or the
/// checkpoint counts, and both tell the same.
#[test]
fn a_torn_checkpoint_falls_back_to_the_log_before_it() {
    let config = config(0);
    let core: CoreGeometry = config.plan().unwrap().media_geometry(8);
    let shape = ImageGeometry { cores: 1, core };
    let options = FileOptions {
        overwrite: true,
        ordered: false,
    };
    let (mut torn, mut whole) = (0, 0);
    for writes in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drive.wharf");
        let image = FileImage::create(&path, &shape, 1, options).unwrap();
        let media = AnyMedia::File(image.core(0).unwrap());
        let (mut model, mut rng) = (Model::default(), Seed(5).rng());
        let mut life = Life::begin(&config, media, PowerSwitch::on(), 0);
        (0..60).for_each(|_| life.step(&mut rng, &mut model));
        life.ftl.write_checkpoint().unwrap();
        (0..60).for_each(|_| life.step(&mut rng, &mut model));
        // Half a record of the killed write still reaches the file.
        image.kill_at(KillPoint {
            writes,
            torn_bytes: 100,
        });
        let failed = life.ftl.write_checkpoint().is_err();
        drop((life, image));
        let image = FileImage::open(&path, options).unwrap();
        let media = AnyMedia::File(image.core(0).unwrap());
        let media = compare_with_full_scan(&config, media);
        let mut ftl = open(&config, media, &PowerSwitch::on());
        assert!(
            ftl.recovery().map_entries > 0,
            "one of the two checkpoints is there"
        );
        if ftl.recovery().oob_reads > 0 {
            torn += 1
        } else {
            whole += 1
        }
        model.settle(&mut ftl);
        if !failed {
            break;
        }
    }
    assert!(torn > 5 && whole >= 1, "{torn} fell back, {whole} did not");
}
