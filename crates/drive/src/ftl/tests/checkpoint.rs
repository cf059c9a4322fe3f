//! Recovery from a checkpoint finds what a look at every page finds, and looks at few.

use super::*;
use crate::ftl::log::{Kind, long, word};
use crate::ftl::trims::{Trim, decode_runs, decode_trims, encode_trims};
use crate::media::{CoreGeometry, FileImage, FileOptions, ImageGeometry, KillPoint};

/// All that recovery decides of a core.
#[derive(Debug, PartialEq, Eq)]
struct State {
    places: Vec<Place>,
    mapped: u32,
    used_granules: u64,
    blocks: Vec<(super::super::BlockState, u32)>,
}

impl State {
    fn of(ftl: &Ftl) -> State {
        let place = |lpn| match ftl.place(lpn) {
            // Both read as zeros, and are not allocated.
            Place::Trimmed => Place::Unmapped,
            Place::Frame(_) => panic!("page {lpn} is in a frame after power-on"),
            place => place,
        };
        State {
            places: (0..ftl.plan().logical_pages).map(place).collect(),
            mapped: ftl.mapped(),
            used_granules: ftl.used_granules(),
            blocks: ftl
                .blocks
                .iter()
                .map(|(_, block)| (block.state, block.valid))
                .collect(),
        }
    }
}

/// What is told of pages, put together from a log with a checkpoint.
#[derive(Default)]
struct Told {
    trims: Vec<Trim>,
    held: Vec<(u32, bool)>,
    seq: u64,
}

impl Told {
    fn trim(&mut self, lpn: u32, seq: u64, zeros: bool) {
        let (first, count) = (lpn, 1);
        self.trims.push(Trim {
            first,
            count,
            seq,
            zeros,
        });
    }

    /// What a checkpoint says of a page.
    fn entry(&mut self, lpn: u32, entry: u32) {
        match entry {
            u32::MAX => self.held.push((lpn, false)),
            0xffff_fffe => self.held.push((lpn, true)),
            0xffff_fffd => self.trim(lpn, self.seq, true),
            1 => self.trim(lpn, self.seq, false),
            _ => {}
        }
    }

    /// Rows of a sparse map: pages that are in none were deallocated, if they were ever written.
    fn rows(&mut self, items: &[u8], known: &mut Vec<u32>) {
        let mut words = items.chunks_exact(4).map(word);
        while let Some(row) = words.next() {
            let mut long =
                || u64::from(words.next().unwrap()) | u64::from(words.next().unwrap()) << 32;
            let (low, high) = (long(), long());
            for (bit, lpn) in (0..64).zip(row * 64..) {
                match (low >> bit & 1, high >> bit & 1) {
                    (0, 0) => continue,
                    (0, 1) => self.trim(lpn, self.seq, true),
                    (1, 1) => self.entry(lpn, words.next().unwrap()),
                    other => panic!("page {lpn} has state {other:?}"),
                }
                known.push(lpn);
            }
        }
    }
}

/// A log that says of pages that are not on flash what `log` says, without its checkpoint.
fn without_checkpoint(log: &[Vec<u8>], sparse_pages: u32) -> Vec<Vec<u8>> {
    let (mut told, mut known, mut lpn) = (Told::default(), Vec::new(), 0);
    for record in log {
        let (kind, items) = Kind::parse(record).unwrap();
        match kind {
            Kind::Checkpoint => told.seq = long(&items[..8]),
            Kind::Blocks => {}
            Kind::Map => {
                for entry in items.chunks_exact(4) {
                    told.entry(lpn, word(entry));
                    lpn += 1;
                }
            }
            Kind::Rows => told.rows(items, &mut known),
            Kind::Held => {
                let absent = (0..sparse_pages).filter(|lpn| known.binary_search(lpn).is_err());
                let seq = told.seq;
                absent.for_each(|lpn| told.trim(lpn, seq, false));
                for ((lpn, zeros), item) in std::mem::take(&mut told.held)
                    .into_iter()
                    .zip(items.chunks_exact(4))
                {
                    told.trim(lpn, seq - u64::from(word(item)), zeros);
                }
            }
            Kind::Trims | Kind::Changes => told.trims.extend(decode_trims(items)),
            Kind::Runs => told.trims.extend(decode_runs(items).unwrap()),
        }
    }
    vec![encode_trims(&told.trims)]
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
    let plan = config.plan().unwrap();
    let sparse_pages = if plan.is_sparse {
        plan.logical_pages
    } else {
        0
    };
    replace_log(&mut media, &without_checkpoint(&log, sparse_pages));
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
fn random_lives(seed: u64, config: &DriveConfig, lives: u64) -> u64 {
    let (mut media, mut model, mut version) = (new_media(config), Model::default(), 0);
    let mut rng = Seed(seed).rng();
    let mut checkpoints = 0;
    for _ in 0..lives {
        let power = PowerSwitch::cut_after(1 + rng.below(60));
        let mut life = Life::begin(config, media, power.clone(), version);
        for _ in 0..2_000 {
            life.step(&mut rng, &mut model);
            if power.is_cut() {
                break;
            }
        }
        version = life.version;
        checkpoints += life.ftl.counters().checkpoints;
        media = compare_with_full_scan(config, life.ftl.into_media());
        let mut ftl = open(config, media, &PowerSwitch::on());
        model.settle(&mut ftl);
        media = ftl.into_media();
    }
    checkpoints
}

#[test]
fn a_checkpoint_and_a_full_scan_find_the_same_after_random_cuts() {
    let mut checkpoints = 0;
    for seed in 0..1_600 {
        // Shown only if the test fails.
        println!("seed {seed}");
        let make = if seed % 2 == 0 { config } else { sparse_config };
        checkpoints += random_lives(seed, &make(1 + seed % 40), 8);
    }
    assert!(
        checkpoints > 5_000,
        "only {checkpoints} checkpoints were taken"
    );
}

/// Runs one history and cuts it after every single media change.
#[test]
fn a_cut_after_any_change_around_a_checkpoint_loses_nothing() {
    for seed in 0..24 {
        let config = if seed % 2 == 0 {
            config(7)
        } else {
            sparse_config(7)
        };
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
                let least = if config.ftl.shown_bytes > 0 { 60 } else { 100 };
                assert!(
                    changes > least,
                    "the history is too short: {changes} changes"
                );
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
        life.clear(&mut rng, &mut model, round % 2 == 0);
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
